"""A list to choose from, below its subject: by one key, by arrows and Enter, or by typing.

Content and looks of a menu; the prompt handles its keys.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kode.cli.screen.lines import clip, wrap_words
from kode.plain_text import clean

MAX_PREVIEW = 8
"""Maximum lines of the highlighted choice's preview."""
WRITING = "Write what to do instead, then Enter. Esc goes back to the choices."
OPENED = "Press its number, or choose with the arrows and Enter. Esc goes back."
BEGUN = "Enter answers now. More letters: words for the model instead."

WORD_S = 1.0
"""`Menu.pause_s` where words are an answer, too: a slow hand needs 0.8 s a key, and what begins
a word must not answer."""


@dataclass(frozen=True)
class Choice:
    value: str
    """Returned if it is chosen."""
    text: str
    key: str = ""
    """A letter that chooses it at once."""


def matching(choices: Sequence[Choice], typed: str) -> list[Choice]:
    """Those that contain each typed word."""
    words = typed.lower().split()
    return [one for one in choices if all(w in f"{one.value} {one.text}".lower() for w in words)]


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
    takes_words: bool = False
    """Whether words are an answer, too: Tab begins to write them."""
    behind: Mapping[str, Sequence[Choice]] = field(default_factory=dict)
    """The key of a choice → those that it opens. Each has a key that begins with it."""
    back_tab: str = ""
    """The value of Shift-Tab; without one it moves up."""
    pause_s: float = 0.25
    """How long nothing must follow a key before it chooses: a number may have two digits."""
    writing: bool = False
    """Whether no key chooses, because Tab began words."""
    _inside: int | None = None
    """Which is highlighted in the list that a key has opened."""

    def opened(self, typed: str) -> str:
        """The key of the choice whose list is open; "" for none."""
        is_open = typed[:1] in self.behind and (len(typed) == 1 or typed[1:].isdecimal())
        return typed[:1] if is_open and not self.writing else ""

    def offered(self, typed: str) -> Sequence[Choice]:
        """The choices on the screen."""
        if self.find is not None and typed.strip():
            return self.find(typed)
        return self.behind[opened] if (opened := self.opened(typed)) else self.choices

    def worded(self, typed: str) -> bool:
        """Whether what is typed are words: no key chooses any more."""
        begun = self.find is None and not self.by_word and typed.strip() and not self.opened(typed)
        return self.writing or bool(begun and self.by_key(typed) is None)

    def highlighted(self, typed: str) -> Choice | None:
        """The choice of Enter; None if nothing is offered, words are typed, or nothing was
        highlighted yet in a list that a key has opened."""
        if (begun := self.by_key(typed)) is not None:
            return begun
        offered = self.offered(typed)
        if self.opened(typed):
            return offered[self._inside % len(offered)] if self._inside is not None else None
        if not offered or self.writing or (self.find is None and typed.strip()):
            return None
        return offered[min(self.selected, len(offered) - 1)]

    def move(self, typed: str, by: int) -> None:
        """Highlights the next (1) or the previous (-1), wrapping around."""
        if self.opened(typed):
            self._inside = min(by, 0) if self._inside is None else self._inside + by
        elif not self.by_word and not self.writing and (offered := self.offered(typed)):
            self.selected = (min(self.selected, len(offered) - 1) + by) % len(offered)

    def by_key(self, typed: str) -> Choice | None:
        """The choice whose key is all that was typed, or, where choices have none, whose number."""
        if self.find is not None or self.writing or not typed or self.opened(typed) == typed:
            return None
        if self.by_word:
            return self.choices[-1] if typed.lower() == self.choices[-1].key else None
        offered = self.offered(typed)
        if typed.isdecimal() and 0 < int(typed) <= len(offered) and not offered[0].key:
            return offered[int(typed) - 1]
        keys = {one.key: one for one in offered if one.key not in self.behind}
        again = typed.isalpha() and len({*typed.lower()}) == 1  # pressed again while it waits
        return keys.get(typed[0].lower() if again else typed.lower())

    def write(self, on: bool) -> None:
        """Begins to write words, or goes back to the choices."""
        self.writing, self._inside = on, None

    def plain_lines(self) -> list[str]:
        """The choices where lines are typed: those that a key opens stand in its place."""
        choices = [
            inner
            for choice in self.choices
            for inner in self.behind.get(choice.key or choice.value, (choice,))
        ]
        rows = [f"  [{one.key or at}] {clean(one.text)}" for at, one in enumerate(choices, 1)]
        words = "or type what to do instead" if self.takes_words else ""
        return [*rows, f"  {self.hint if self.by_word else words}"] if self.takes_words else rows

    def meant(self, line: str) -> str:
        """The value of the choice whose key or number a typed line is; else the line."""
        choice = self.by_key(line.strip().lower())
        return choice.value if choice is not None else line

    def lines(
        self, paint: Callable[[str, str], str], typed: str, width: int, height: int
    ) -> list[str]:
        """The lines, painted by `Screen.paint`: the subject, the choices around
        the highlighted one, its preview."""
        worded = self.takes_words and self.worded(typed)
        offered = () if worded else self.offered(typed)
        current = self.highlighted(typed)
        about = self.above(width)
        preview = self.preview(current)[:MAX_PREVIEW] if self.preview and current else []
        begun = self.takes_words and typed and current is not None
        opened = OPENED if self.opened(typed) else self.hint
        hint = WRITING if worded else BEGUN if begun else opened
        below = [line for line in wrap_words(hint, width - 2) if line]
        room = max(height - len(about) - len(preview) - len(below), 3)
        position = offered.index(current) if current in offered else 0
        start = max(0, min(position - room // 2, len(offered) - room))
        blocks = []
        for choice in offered[start : start + room]:
            mark, key = "›" if choice is current else " ", f"{choice.key}  " if choice.key else ""
            text = clean(choice.text).partition("\n")[0]
            before = f"{mark} {key}"
            room_for_text = width - len(before)
            # An entry of a list may be cut; an answer must be readable to its end.
            cut = self.find is not None
            parts = [clip(text, room_for_text)] if cut else wrap_words(text, room_for_text)
            row = f"{before}{parts[0]}"
            first = paint("bold", row) if choice is current else row
            blocks.append([first, *(" " * len(before) + part for part in parts[1:])])
        at = position - start
        while len(blocks) > 1 and sum(map(len, blocks)) > room:  # wrapped ones take more
            is_late = at > len(blocks) - 1 - at
            at -= is_late
            blocks.pop(0 if is_late else -1)
        rows = [row for block in blocks for row in block]
        if not offered and not worded:
            rows.append(paint("dim", "  no match"))
        rows += [paint("dim", clip(f"  {clean(line)}", width)) for line in preview]
        rows += [paint("dim", f"  {line}") for line in below]
        return [*about, *rows]
