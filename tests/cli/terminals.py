"""Screens without a terminal."""

import io

from kode.cli.screen.screen import Screen


def make_screen(width: int = 80, *, color: bool = False, **more: object) -> Screen:
    """A screen of 24 rows that prints to memory."""
    values = {"stream": io.StringIO(), "rich_terminal": color, "color": color, **more}
    return Screen(columns=lambda: width, rows=lambda: 24, **values)
