"""The colours that kode uses, measured on the backgrounds that terminals have."""

from io import StringIO

from kode.cli.prompt.editor import STYLE
from kode.cli.screen.markdown import TerminalMarkdown
from kode.cli.screen.screen import STYLES, Screen
from tests.tables import for_each

RED, GREEN, MAGENTA, BRIGHT_BLUE = "red", "green", "magenta", "bright_blue"
BACKGROUNDS = {"VS Code dark": "1e1e1e", "xterm dark": "000000", "Solarized dark": "002b36"} | {
    "VS Code light": "ffffff",
    "xterm light": "ffffff",
    "Solarized light": "fdf6e3",
}
SHOWN = {
    "VS Code dark": {RED: "cd3131", GREEN: "0dbc79", MAGENTA: "bc3fbc", BRIGHT_BLUE: "3b8eea"},
    "xterm dark": {RED: "cd0000", GREEN: "00cd00", MAGENTA: "cd00cd", BRIGHT_BLUE: "5c5cff"},
    "Solarized dark": {RED: "dc322f", GREEN: "859900", MAGENTA: "d33682", BRIGHT_BLUE: "839496"},
    "VS Code light": {RED: "cd3131", GREEN: "107c10", MAGENTA: "bc05bc", BRIGHT_BLUE: "0451a5"},
    "xterm light": {RED: "cd0000", GREEN: "00cd00", MAGENTA: "cd00cd", BRIGHT_BLUE: "5c5cff"},
    "Solarized light": {RED: "dc322f", GREEN: "859900", MAGENTA: "d33682", BRIGHT_BLUE: "839496"},
}
"""What each terminal shows for the colours of `STYLES`."""

# What only repeats a sign or the word beside it, or is a piece of code, may be weaker than the 4.5
# that text needs: no colour has 4.5 on both white and #1e1e1e.
LEAST = {RED: 3.2, GREEN: 2.1, MAGENTA: 3.2, BRIGHT_BLUE: 2.8}


def luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (
        c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def colours_of(looks: str) -> set[str]:
    return {*looks.split()} - {"bold", "dim", "underline"}


def test_only_colours_that_both_backgrounds_show_are_used():
    used = set().union(*map(colours_of, STYLES.values()))

    assert used == LEAST.keys()


@for_each("terminal", BACKGROUNDS)
def test_each_colour_has_its_least_contrast(terminal):
    found = {code: contrast(SHOWN[terminal][code], BACKGROUNDS[terminal]) for code in LEAST}

    assert {code: ratio for code, ratio in found.items() if ratio < LEAST[code]} == {}


def test_words_of_kode_are_in_the_terminals_own_colour():
    words = {"title", "warning", "bold", "dim", "changed_part", "comment"}

    assert {name for name in words if colours_of(STYLES[name])} == set()


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
