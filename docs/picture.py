"""Draws docs/screen.svg, the picture in the README, from a real run.

`make picture` starts `kode` in a terminal of its own, in the scratch project of `kode demo` and
with its script as the model, types as a person would, and draws what then stands on the screen.
Run it again when the screen has changed; nothing in the picture is written by hand.
"""

import io
import itertools
import os
import re
import sys
import time
from pathlib import Path

import pexpect
import pyte
from pyte.screens import Char
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.style import Style
from rich.text import Text

from kode.cli.commands import demo

COLUMNS, LINES = 92, 48
DONE = "prints all good"
ANSWER_S = 30.0


def main(target: Path) -> None:
    """Plays, and writes the picture to `target`."""
    with demo.scratch() as project:
        screen = pyte.Screen(COLUMNS, LINES)
        kode = Path(sys.executable).with_name("kode")
        script = demo.SCRIPTS / "demo_first.json"
        process = pexpect.spawn(
            str(kode),
            ["--provider", "scripted", "--script", str(script), "--allow", demo.TESTS],
            cwd=str(project),
            env={
                **os.environ,
                "HOME": str(project.parent),
                "TERM": "xterm-256color",
                "COLORTERM": "truecolor",
            },
            dimensions=(LINES, COLUMNS),
        )
        stream = pyte.ByteStream(screen)
        _read_until(process, stream, screen, "> ")
        process.send(demo.TASK + "\r")
        _answer_until(process, stream, screen, DONE)
        svg = _drawn(screen)
        process.close(force=True)
    target.write_text(svg, encoding="utf-8")


def _read_until(
    process: pexpect.spawn, stream: pyte.ByteStream, screen: pyte.Screen, text: str
) -> None:
    """Takes in output until `text` stands on the screen. Raises TimeoutError after 30 s."""
    deadline = time.monotonic() + ANSWER_S
    while not any(text in line for line in screen.display):
        _take_in(process, stream)
        if time.monotonic() > deadline:
            raise TimeoutError(f"{text!r} did not appear:\n" + "\n".join(screen.display))


def _answer_until(
    process: pexpect.spawn, stream: pyte.ByteStream, screen: pyte.Screen, text: str
) -> None:
    """Says yes, once, to each question that comes before `text`."""
    deadline = time.monotonic() + ANSWER_S
    while True:
        _take_in(process, stream)
        shown = "\n".join(line.rstrip() for line in screen.display)
        if text in shown and "Working" not in shown:
            time.sleep(0.5)
            _take_in(process, stream)
            return
        if shown.count("answer:\n"):
            time.sleep(0.6)  # keys typed just before a question appears are ignored
            process.send("y\r")
            time.sleep(0.3)
        if time.monotonic() > deadline:
            raise TimeoutError(f"{text!r} did not appear:\n{shown}")


def _take_in(process: pexpect.spawn, stream: pyte.ByteStream) -> None:
    try:
        stream.feed(process.read_nonblocking(65536, timeout=0.2))
    except pexpect.TIMEOUT:
        return


def _drawn(screen: pyte.Screen) -> str:
    lines = [_line(screen, y) for y in range(LINES)]
    while lines and not lines[-1].plain.strip():
        lines.pop()
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    for line in lines:
        console.print(line, no_wrap=True, overflow="crop", highlight=False)
    # Without the fonts, which a reader's browser would fetch from elsewhere.
    plain = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return console.export_svg(title="kode", unique_id="kode", code_format=plain)


def _line(screen: pyte.Screen, y: int) -> Text:
    line = Text()
    row = (screen.buffer[y][x] for x in range(COLUMNS))
    for style, run in itertools.groupby(row, _style):
        line.append("".join(char.data for char in run), style)
    line.rstrip()
    return line


def _style(char: Char) -> Style:
    return Style(
        color=_colour(char.fg),
        bgcolor=_colour(char.bg),
        bold=char.bold,
        italic=char.italics,
        underline=char.underscore,
        reverse=char.reverse,
    )


def _colour(name: str) -> str | None:
    """pyte's colour as rich names it: a hexadecimal number or one of the sixteen names."""
    if name == "default":
        return None
    if len(name) == 6 and all(digit in "0123456789abcdef" for digit in name):
        return f"#{name}"
    plain = name.removeprefix("bright").replace("brown", "yellow")
    return f"bright_{plain}" if name.startswith("bright") else plain


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("screen.svg"))
