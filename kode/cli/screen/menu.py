"""A list to choose from, below its subject: by one key, by arrows and Enter, or by typing.

This module holds what a menu offers and how it looks; the prompt handles its keys.
"""

from collections.abc import Callable, Mapping, Sequence

from kode.cli.screen.lines import clip, wrap_words
from kode.plain_text import sanitize
from kode.values import dataclass, field

CUT = "… make the window larger to see all"
WRITING = "Write what to do instead, then Enter. Esc goes back to the choices."
OPENED = "Press its number, or choose with the arrows and Enter. Esc goes back."


@dataclass(frozen=True)
class Choice:
    value: str
    """Returned if it is chosen."""
    text: str
    key: str = ""
    """What to press for it, or its number."""


@dataclass
class Menu:
    choices: Sequence[Choice]
    above: Callable[[int], list[str]] = lambda width: []
    """Makes the painted lines of the menu's subject for a width."""
    is_searchable: bool = False
    """Whether what is typed narrows the choices; otherwise keys choose."""
    preview: Callable[[Choice], list[str]] | None = None
    """Plain lines about the highlighted choice."""
    selected: int | None = 0
    """The highlighted row; None for none yet, in a list that a key has opened."""
    hint: str = ""
    """What can be typed or pressed, in a few words."""
    takes_words: bool = False
    """Whether words are an answer, too: Tab begins to write them."""
    behind: Mapping[str, Sequence[Choice]] = field(default_factory=dict)
    """The key of a choice → the choices that it opens."""
    back_tab: str = ""
    """The value that Shift-Tab answers; "" if Shift-Tab moves up."""
    writing: bool = False
    """Whether the person is writing words, which Enter ends, so that keys choose nothing."""
    opened: str = ""
    """The key whose list is open."""

    @property
    def has_keys(self) -> bool:
        """Whether a pressed key chooses; otherwise it is typed into the line."""
        return not (self.is_searchable or self.writing)

    def list_offered(self, typed: str = "") -> Sequence[Choice]:
        """The choices on the screen."""
        if self.writing:
            return ()
        if self.is_searchable:
            if numbered := [it for it in self.choices if it.key and it.key == typed.strip()]:
                return numbered
            words = typed.lower().split()
            texts = ((choice, f"{choice.value} {choice.text}".lower()) for choice in self.choices)
            return [choice for choice, text in texts if all(word in text for word in words)]
        return self.behind.get(self.opened, self.choices)

    def press(self, key: str) -> Choice | None:
        """Handles a key. Returns the choice whose key it is; None if it has opened a list, or if no
        choice has such a key."""
        choice = next((it for it in self.list_offered() if it.key == key.lower()), None)
        if choice is None or self.opened or choice.key not in self.behind:
            return choice
        self.opened, self.selected = choice.key, None
        return None

    def find_highlighted(self, typed: str = "") -> Choice | None:
        """Returns what Enter would choose; None if nothing is offered or highlighted."""
        offered = self.list_offered(typed)
        if self.selected is None or not offered:
            return None
        return offered[min(self.selected, len(offered) - 1)]

    def move(self, typed: str, by: int) -> None:
        """Highlights the next (1) or the previous (-1) choice, wrapping around."""
        if count := len(self.list_offered(typed)):
            at = min(by, 0) if self.selected is None else min(self.selected, count - 1) + by
            self.selected = at % count

    def go_back(self) -> None:
        """Goes back to the choices from writing words, or from a list that a key has opened."""
        if self.opened:
            self.selected = [choice.key for choice in self.choices].index(self.opened)
        self.writing, self.opened = False, ""

    def _by_word(self) -> dict[str, Choice]:
        """Returns the choices by the word that names each in a line: its keys, else its number."""
        each = [
            (choice.key if it is choice else choice.key + it.key, it)
            for choice in self.choices
            for it in self.behind.get(choice.key, (choice,))
        ]
        return {word or str(number): it for number, (word, it) in enumerate(each, 1)}

    def plain_lines(self) -> list[str]:
        """Returns the choices as text, for a person who types whole lines."""
        rows = [f"  [{word}] {sanitize(choice.text)}" for word, choice in self._by_word().items()]
        return [*rows, "  or type what to do instead"] if self.takes_words else rows

    def value_of(self, line: str) -> str:
        """Returns the value of the choice that a typed line names, or else the line itself."""
        choice = self._by_word().get(line.strip().lower())
        return choice.value if choice is not None else line

    def lines(
        self, paint: Callable[[str, str], str], typed: str, width: int, height: int
    ) -> list[str]:
        """Returns at most `height` lines, painted by `Screen.paint`: the subject, the choices
        around the highlighted one, its preview. Choices that are answers are never left out."""
        offered, current = self.list_offered(typed), self.find_highlighted(typed)
        above = self.above(width)
        preview = self.preview(current) if self.preview and current else []
        hint = OPENED if self.opened else WRITING if self.writing else self.hint
        below = [*map(sanitize, preview), *filter(None, wrap_words(hint, width - 2))]
        wide = max((len(choice.key) for choice in offered), default=0)
        blocks = [self._rows(choice, wide, width) for choice in offered]
        at = offered.index(current) if current in offered else 0
        if current in offered:
            blocks[at][0] = paint("accent", "›" + blocks[at][0][1:])
        room = max(height - len(above) - len(below), 3) if self.is_searchable else height
        while len(blocks) > 1 and sum(map(len, blocks)) > room:
            is_late = at > len(blocks) - 1 - at
            at -= is_late
            blocks.pop(0 if is_late else -1)
        rows = [row for block in blocks for row in block]
        if not offered and not self.writing:
            rows.append(paint("dim", "  no match"))
        free = max(height - len(rows), 0)
        if len(above) > free:
            above = [*[*filter(None, above)][: free - 1], paint("dim", clip(CUT, width))][:free]
        dim = [paint("dim", clip(f"  {line}", width)) for line in below[: free - len(above)]]
        return [*above, *rows, *dim]

    def _rows(self, choice: Choice, key_width: int, width: int) -> list[str]:
        before = f"  {choice.key:>{key_width}}  " if choice.key else "  "
        text, room = sanitize(choice.text).partition("\n")[0], width - len(before)
        # An entry of a list may be cut; an answer must be readable to its end.
        first, *more = [clip(text, room)] if self.is_searchable else wrap_words(text, room)
        return [f"{before}{first}", *(" " * len(before) + row for row in more)]
