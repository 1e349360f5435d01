"""The colours that kode uses."""

import re
from io import StringIO

from kode.cli.screen.markdown import TerminalMarkdown
from kode.cli.screen.screen import THEMES, Screen, find_theme
from tests.tables import for_each

BACKGROUNDS = {"dark": ("1e1e1e", "000000", "002b36"), "light": ("ffffff", "fdf6e3")}
"""Of VS Code, xterm and Solarized."""


def luminance(colour: str) -> float:
    """Relative luminance, by WCAG 2.2."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (
        c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def rgb(looks: str) -> dict[str, str]:
    """The colours of the xterm palette that a style names: of its text, and `on `, of its band."""
    colours = {}
    for layer, number in re.findall(r"(on )?color\((\d+)\)", looks):
        n = int(number) - 16
        levels = [n // 36, n // 6 % 6, n % 6]
        values = [55 + 40 * level if level else 0 for level in levels]
        colours[layer] = "".join(
            f"{v:02x}" for v in ([8 + 10 * (n - 216)] * 3 if n > 215 else values)
        )
    return colours


@for_each("theme", ["dark", "light"])
def test_bands_code_and_the_accent_can_be_read(theme):
    looks = {name: rgb(look) for name, look in THEMES[theme].items() if "color(" in look}
    ratios = {
        name: contrast(both[""], both["on "]) for name, both in looks.items() if "on " in both
    }

    assert ratios.keys() == {"person", "added", "removed", "added words", "removed words"}
    assert min(ratios.values()) >= 4.5
    for kind in ("added", "removed"):
        assert contrast(looks[f"{kind} words"]["on "], looks[kind]["on "]) >= 1.5
    for style in ("accent", "string"):
        behind = (*BACKGROUNDS[theme], looks["added"]["on "], looks["removed"]["on "])
        assert min(contrast(looks[style][""], each) for each in behind) >= 4.5, style


@for_each(
    ("environ", "theme"),
    [
        ({"TERM": "xterm-256color"}, "dark"),
        ({"TERM": "xterm-256color", "COLORFGBG": "0;15"}, "light"),
        ({"TERM": "xterm", "COLORTERM": "truecolor", "COLORFGBG": "15;default;0"}, "dark"),
        ({"TERM": "linux"}, "16"),
    ],
)
def test_the_theme_follows_what_the_terminal_says(environ, theme):
    assert find_theme(environ) == theme


def test_markdown_has_no_colour_but_the_accent_of_code():
    text = "# a\n\n`b` [c](https://d.example) **e**\n\n> f\n\n- g\n\n| h |\n|---|\n| i |\n\n---\n"
    screen = Screen(StringIO(), True, True, columns=lambda: 80, rows=lambda: 24)

    shown = screen.render_rich(TerminalMarkdown(text))
    assert {*map(int, re.findall(r"(?<=[\[;])\d+", shown))} <= {0, 1, 2, 3, 4, 94}
