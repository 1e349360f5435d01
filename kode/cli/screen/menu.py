"""A list to choose from, below its subject: by one key, by arrows and Enter, or by typing.

Content and looks of a menu; the prompt handles its keys.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kode.cli.screen.lines import clean, clip, wrap_words

MAX_PREVIEW = 8
"""Maximum lines of the highlighted choice's preview."""


@dataclass(frozen=True)
class Choice:
    value: str
    """Returned if it is chosen."""
    text: str
    key: str = ""
    """A letter that chooses it at once."""


def _nothing(width: int) -> list[str]:
    return []


@dataclass
class Menu:
    choices: Sequence[Choice]
    above: Callable[[int], list[str]] = _nothing
    """The subject of the choice: painted lines for a width."""
    find: Callable[[str], Sequence[Choice]] | None = None
    """Narrows the choices to what is typed. Without it, typed words are themselves an answer."""
    preview: Callable[[Choice], list[str]] | None = None
    """Plain lines about the highlighted choice."""
    selected: int = 0
    by_word: bool = False
    """Whether keys are words to type in full, and Enter chooses only the last."""
    hint: str = ""
    """What can be typed or pressed, in a few words."""

    def offered(self, typed: str) -> Sequence[Choice]:
        """The choices on the screen."""
        return self.find(typed) if self.find is not None and typed.strip() else self.choices

    def highlighted(self, typed: str) -> Choice | None:
        """The choice of Enter; None if nothing is offered, or words are typed."""
        offered = self.offered(typed)
        if not offered or (self.find is None and typed.strip()):
            return None
        return offered[min(self.selected, len(offered) - 1)]

    def move(self, typed: str, by: int) -> None:
        """Highlights the next (1) or the previous (-1), wrapping around."""
        if not self.by_word and (offered := self.offered(typed)):
            self.selected = (min(self.selected, len(offered) - 1) + by) % len(offered)

    def by_key(self, typed: str) -> Choice | None:
        """The choice whose key or number is all that was typed."""
        if self.find is not None or len(typed) != 1:
            return None
        if self.by_word:
            return self.choices[-1] if typed.lower() == self.choices[-1].key else None
        if typed.isdecimal() and 0 < int(typed) <= len(self.choices):
            return self.choices[int(typed) - 1]
        return next((choice for choice in self.choices if choice.key == typed.lower()), None)

    def lines(
        self, paint: Callable[[str, str], str], typed: str, width: int, height: int
    ) -> list[str]:
        """The lines, painted by `Screen.paint`: the subject, the choices around
        the highlighted one, its preview."""
        offered = self.offered(typed)
        current = self.highlighted(typed)
        about = self.above(width)
        preview = self.preview(current)[:MAX_PREVIEW] if self.preview and current else []
        room = max(height - len(about) - len(preview) - bool(self.hint), 3)
        position = offered.index(current) if current in offered else 0
        start = max(0, min(position - room // 2, len(offered) - room))
        rows = []
        for choice in offered[start : start + room]:
            mark, key = "›" if choice is current else " ", f"{choice.key}  " if choice.key else ""
            text = clean(choice.text).partition("\n")[0]
            before = f"{mark} {key}"
            room_for_text = width - len(before)
            # An entry of a list may be cut; an answer must be readable to its end.
            cut = self.find is not None
            parts = [clip(text, room_for_text)] if cut else wrap_words(text, room_for_text)
            row = f"{before}{parts[0]}"
            rows.append(paint("bold", row) if choice is current else row)
            rows += [" " * len(before) + part for part in parts[1:]]
        if not offered:
            rows.append(paint("dim", "  no match"))
        rows += [paint("dim", clip(f"  {clean(line)}", width)) for line in preview]
        if self.hint:
            rows.append(paint("dim", clip(f"  {self.hint}", width)))
        return [*about, *rows]
