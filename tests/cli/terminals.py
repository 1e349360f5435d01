"""Screens without a terminal, and a person at one."""

import io

from kode.cli.screen.screen import Screen


def make_screen(width: int = 80, *, color: bool = False, **more: object) -> Screen:
    """A screen of 24 rows that prints to memory."""
    values = {"stream": io.StringIO(), "rich_terminal": color, "color": color, **more}
    return Screen(columns=lambda: width, rows=lambda: 24, **values)


class Person:
    """The prompt with a person at it, who answers from a list; keeps what is shown and sent."""

    asking = away = is_resizing = False
    width = 79

    def __init__(self, *answers: str | None, writes: bool = False) -> None:
        self.answers = list(answers)
        self.writes = writes
        """Whether they press Tab before they answer."""
        self.shown = self.printed = self.sent = ""

    def print_above(self, text: str) -> None:
        self.shown += text
        self.printed += text

    def redraw(self) -> None:
        pass

    stop = redraw

    def idle_s(self) -> float:
        return 60.0

    def control(self, sequence: str) -> None:
        self.sent += sequence

    async def quiet(self, pause_s: float) -> None:
        pass

    async def read_answer(self, label: str, menu: object = None) -> str | None:
        if menu is None:
            self.shown += label
            return self.answers.pop(0)
        if self.writes:
            menu.writing = True
        self.shown += "\n".join(menu.lines(lambda style, text: text, "", self.width, 40)) + "\n"
        return self.answers.pop(0)
