"""Draws docs/screen.svg and docs/session.svg, the pictures in the README, from a real run.

`make picture` starts `kode` in a terminal of its own, in the scratch project of `kode demo` and
with its script as the model, types as a person would, and draws what then stands on the screen, and
how it came there. Run it again when the screen has changed; nothing in the pictures is written by
hand.
"""

import io
import itertools
import os
import re
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pexpect
import pyte
from pyte.screens import Char
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.style import Style
from rich.text import Text

sys.path.insert(0, str(Path(__file__).parent))  # as a script and as a module alike

from animation import Frame, animated

from kode.cli.commands import demo

COLUMNS, LINES = 92, 48
DONE = "prints all good"
ANSWER_S = 30.0
FRAME_S = 0.12
"""Frames are at least so far apart: a spinner turns faster than anybody reads."""
TYPING_S = 0.04
READING_S = 1.2
"""So long a person looks before they answer or type."""


@dataclass
class Session:
    """A kode that is typed into, its screen, and the frames of it."""

    process: "pexpect.spawn[str]"
    screen: pyte.Screen = field(default_factory=lambda: pyte.Screen(COLUMNS, LINES))
    frames: list[Frame] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.stream = pyte.Stream(self.screen)

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    def read(self, for_s: float) -> None:
        """Takes in what comes within this time, frame by frame."""
        deadline = time.monotonic() + for_s
        while (left := deadline - time.monotonic()) > 0:
            try:
                self.stream.feed(self.process.read_nonblocking(65536, timeout=min(left, FRAME_S)))
            except pexpect.TIMEOUT:
                pass
            except pexpect.EOF:
                return
            now = time.monotonic()
            if not self.frames or now - self.frames[-1].at_s >= FRAME_S or left < FRAME_S:
                self.frames.append(Frame(now, tuple(_lines(self.screen))))

    def until(self, text: str) -> None:
        """Reads until `text` is on the screen; says yes, once, to each question that comes before.

        Raises: TimeoutError after 30 s.
        """
        deadline = time.monotonic() + ANSWER_S
        while text not in self.text or "Working" in self.text:
            self.read(FRAME_S)
            if "yes, once" in self.text:
                self.read(READING_S)  # keys typed just before a question appears are ignored
                self.process.send("y")
                self.read(0.5)
                self.process.send("\r")
                self.read(0.5)
            if time.monotonic() > deadline:
                raise TimeoutError(f"{text!r} did not appear:\n{self.text}")

    def type(self, text: str) -> None:
        """Types a line as a person does."""
        self.read(READING_S)
        for letter in text:
            self.process.send(letter)
            self.read(TYPING_S)
        self.read(READING_S / 2)
        self.process.send("\r")


def main(folder: Path) -> None:
    """Plays, and writes both pictures into `folder`."""
    with demo.make_scratch_project() as project:
        kode = Path(sys.executable).with_name("kode")
        script = project.parent / "demo.json"
        process = pexpect.spawn(
            str(kode),
            [
                "--provider",
                "scripted",
                "--script",
                str(script),
                "--allow",
                "shell(python3 test_dates.py)",
            ],
            cwd=str(project),
            env={
                **os.environ,
                "HOME": str(project.parent),
                "TERM": "xterm-256color",
                "COLORTERM": "truecolor",
            },
            dimensions=(LINES, COLUMNS),
            encoding="utf-8",
        )
        session = Session(process)
        session.until("ask (Shift-Tab) ·")
        session.type(demo.TASK)
        session.until(DONE)
        session.read(0.5)
        picture = _drawn(session.screen)
        session.type("/undo")
        session.until("restored dates.py")
        session.read(READING_S)
        process.close(force=True)
    (folder / "screen.svg").write_text(picture, encoding="utf-8")
    film = animated(session.frames, COLUMNS, "A session of kode: a task, a question, an undo")
    (folder / "session.svg").write_text(film, encoding="utf-8")


def _drawn(screen: pyte.Screen) -> str:
    lines = _lines(screen)
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    for line in lines:
        console.print(line, no_wrap=True, overflow="crop", highlight=False)
    # Without the fonts, which a reader's browser would fetch from elsewhere.
    plain = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return console.export_svg(title="kode", unique_id="kode", code_format=plain)


def _lines(screen: pyte.Screen) -> list[Text]:
    lines = [_line(screen, y) for y in range(LINES)]
    while lines and not lines[-1].plain.strip():
        lines.pop()
    return lines


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
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
