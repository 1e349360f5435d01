"""The colours that kode uses."""

from io import StringIO

from kode.cli.prompt.editor import STYLE
from kode.cli.screen.markdown import TerminalMarkdown
from kode.cli.screen.screen import STYLES, Screen


def colours_of(looks: str) -> set[str]:
    return {*looks.split()} - {"bold", "dim", "underline"}


def test_only_colours_that_light_and_dark_screens_show_are_used():
    used = set().union(*map(colours_of, STYLES.values()))

    assert used == {"red", "green", "magenta", "bright_blue"}


def test_the_prompt_has_no_colour_but_for_danger():
    coloured = {name for name, style in STYLE.style_rules if "ansi" in style}

    assert coloured == {"danger"}


def test_markdown_has_no_colour_but_in_code():
    text = "# a\n\n`b` [c](https://d.example) **e**\n\n> f\n\n- g\n\n| h |\n|---|\n| i |\n\n---\n"
    screen = Screen(StringIO(), True, True, columns=lambda: 80, rows=lambda: 24)

    shown = screen.rendered(TerminalMarkdown(text))

    codes = {
        int(code) for part in shown.split("\x1b[")[1:] for code in part.split("m")[0].split(";")
    }
    assert codes <= {0, 1, 2, 3, 4}
