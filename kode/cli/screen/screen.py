"""The screen: where texts go, how wide it is, and which styles it may use.

Texts only ever go above the prompt and stay there; `editor` draws what is below (prompt, spinner,
status). Nothing heavy is imported here: `rich` comes with the first Markdown, prompt_toolkit with
the editor."""

import asyncio
import os
import re
import shutil
import stat
import sys
import termios
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from kode.cli.screen.lines import cell_width, clip, fold
from kode.plain_text import sanitize
from kode.values import dataclass, field

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

    from kode.cli.prompt.editor import Editor
    from kode.cli.screen.menu import Menu
    from kode.events import TurnEnded
    from kode.permissions.question import Answer, Ask, Question

T = TypeVar("T")

_unread: dict[int, bytearray] = {}
"""Bytes read past the requested line, by file descriptor."""


async def read_line(stream: TextIO) -> str | None:
    """The next line without its line feed; None at end of input. Can be cancelled without losing
    input: no thread is left that would swallow the next line."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):
        return None
    buffer = _unread.setdefault(descriptor, bytearray())
    while b"\n" not in buffer:
        data = await _read_some(descriptor)
        if not data:
            break
        buffer += data
    line, line_feed, left = bytes(buffer).partition(b"\n")
    buffer[:] = left
    return line.decode("utf-8", "replace").rstrip("\r") if line or line_feed else None


async def _read_some(descriptor: int) -> bytes:
    # Regular files are always ready, and some event loops refuse to watch them.
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        with suppress(PermissionError):  # nor can they watch /dev/null
            loop.add_reader(descriptor, ready.set)
            try:
                await ready.wait()
            finally:
                loop.remove_reader(descriptor)
    with suppress(OSError):
        return os.read(descriptor, 65536)
    return b""


def drop_typed(stream: TextIO) -> None:
    """Drops what a person typed before a question appeared; piped input stays."""
    with suppress(OSError, ValueError, termios.error):
        if stream.isatty():
            termios.tcflush(stream.fileno(), termios.TCIFLUSH)
            _unread.pop(stream.fileno(), None)


STYLES = {
    "bold": "bold",
    "dim": "dim",
    "accent": "bright_blue",
    "good": "green",
    "warning": "bold",
    "error": "bold red",
    "person": "bold",
    "added": "bold green",
    "removed": "bold red",
    "added words": "reverse",
    "removed words": "reverse",
    "string": "magenta",
}
"""Style name → looks, in the words of `rich`: the terminal's own colours. Cyan and yellow are hard
to read on white, blue on black, so none of these is used. Green paints only signs and numbers."""

THEMES = {
    "none": STYLES,
    "16": STYLES,
    "dark": STYLES
    | {
        "accent": "color(117)",
        "person": "bold color(255) on color(237)",
        "added": "color(255) on color(22)",
        "removed": "color(255) on color(52)",
        "added words": "bold color(231) on color(28)",
        "removed words": "bold color(231) on color(124)",
        "string": "color(219)",
    },
    "light": STYLES
    | {
        "accent": "color(25)",
        "person": "bold color(16) on color(254)",
        "added": "color(16) on color(194)",
        "removed": "color(16) on color(224)",
        "added words": "bold color(16) on color(114)",
        "removed words": "bold color(16) on color(210)",
        "string": "color(90)",
    },
}
"""Theme → its styles. `16` and `none` use the terminal's own colours, of which `none` shows none. A
band sets the colour of its text too, so that a wrong guess of the background stays readable."""

_CODES = {"bold": "1", "dim": "2", "underline": "4", "reverse": "7"}
_COLOURS = {"red": "31", "green": "32", "magenta": "35", "bright_blue": "94"}
_COLOUR = re.compile(r"(on )?color\((\d+)\)")

_MARKDOWN = {
    "h1": "bold underline",
    "h2": "bold",
    "h3": "bold",
    "h4": "italic",
    "item.bullet": "bold",
    "item.number": "bold",
    "hr": "dim",
    "table.header": "bold",
    "table.border": "dim",
    "block_quote": "none",
}
"""Looks of Markdown: rich's own paint inline code on black, which is unreadable on white."""

INSET = 2
"""The columns before prose, code and diffs: messages and calls, which begin a line, stand out."""
MAX_PROSE_COLUMNS = 110
"""Longer lines of prose are hard to read, however wide the window."""

FLUSH_S = 0.03
"""Texts within this time are painted together: streaming repaints the prompt less."""

QUIET_S = 0.3
"""Keys typed this shortly before a question appears were not meant for it."""

AWAY_AFTER_S = 15.0
"""A person who has pressed no key for this long may be elsewhere."""

BELL, FILL = "\a", "\x1b[K"
"""`FILL` marks where `fill_bands` fills a row with the colour of its band."""
STYLING = re.compile(r"\x1b\[(?:[0-9;]*m|K)")
_PIECES = re.compile(f"({STYLING.pattern})")
_END = re.compile(rf"(?: |{STYLING.pattern})+$")


@dataclass
class Screen:
    """One screen, shared by everything that prints in a process."""

    stream: TextIO
    rich_terminal: bool
    """Whether escape sequences are supported; without them only plain text is written."""
    color: bool
    columns: Callable[[], int]
    rows: Callable[[], int]
    plain: bool = False
    """For a screen reader or a log: Markdown stays as it is written."""
    theme: str = "16"
    """One of `THEMES`."""
    editor: "Editor | None" = None
    """The prompt, while it is on the screen."""
    answerer: "Ask | None" = None
    """Asks somebody who is not at this keyboard, beside the keys; None if there is nobody."""
    watched: bool = True
    """Whether anybody sees the screen; if nobody does, the spinner does not move."""
    notifies: bool = True
    """Whether `notify` may ring the bell for a person who is elsewhere."""
    ended: "TurnEnded | None" = None
    """How the last task ended; None while one runs, or before it."""
    waited_s: float = 0.0
    """How many seconds this turn's questions have waited for the person."""
    approved: str = ""
    """The preview that a person has just approved: the outcome need not repeat it."""
    _line_shown: bool = False
    """Whether the last line of the stream is temporary."""
    _pending: list[str] = field(default_factory=list)
    _flush: asyncio.TimerHandle | None = None
    _console: "Console | None" = None

    @property
    def width(self) -> int:
        """The number of usable columns; at least 10."""
        return max(self.columns(), 10)

    @property
    def styles(self) -> dict[str, str]:
        """The styles of the theme; bands and other shades need colours."""
        return THEMES[self.theme if self.color else "none"]

    def paint(self, style: str, text: str) -> str:
        """Returns `text` in one of `STYLES`, as far as the screen can show it. Each line sets and
        ends the style, so that a pager or a cut leaves none open."""
        looks = self.styles.get(style, "") if self.rich_terminal else ""
        if not (start := _style_sequence(looks, self.color and self.theme != "none")):
            return text
        fill = FILL if self.color and " on " in looks else ""
        end, lines = f"{fill}\x1b[0m", text.split("\n")
        return "\n".join(f"{start}{line}{end}" if line or fill else line for line in lines)

    def use_theme(self, name: str) -> None:
        """Switches to one of `THEMES`; for `auto` and unknown names, to what suits the terminal."""
        self.theme = name if name in THEMES else find_theme(os.environ)
        self._console = None

    @property
    def asking(self) -> bool:
        """Whether a question is waiting for its answer in the prompt."""
        return self.editor is not None and self.editor.asking

    def print(self, text: str = "", style: str = "", word: str = "") -> None:
        """Prints whole lines above the prompt, in a style; with `word`, only the first occurrence
        of it is styled. `text` is cleaned of everything that could control the terminal. Never
        raises and never blocks on the prompt."""
        body = fold(sanitize(text), self.width) if self.stream.isatty() else sanitize(text)
        painted = self.paint(style, word or body)
        self.print_painted(body.replace(word, painted, 1) if word else painted)

    def print_prompt(self, text: str) -> None:
        """Prints the person's message as a part of the conversation."""
        first, *rest = text.split("\n")
        self.print()
        self.print("\n".join([f"> {first}", *(f"  {line}" for line in rest)]), "person")

    def print_painted(self, text: str) -> None:
        """Prints like `print`, but keeps the colours of a text that kode has painted."""
        pieces = _PIECES.split(fill_bands(text, self.width - 1) if FILL in text else text)
        self._pending += [it if STYLING.fullmatch(it) else sanitize(it) for it in pieces]
        self._pending.append("\n")
        if self.editor is None:
            self.flush()
            return
        if self._flush is None:
            self._flush = asyncio.get_running_loop().call_later(FLUSH_S, self.flush)

    def flush(self) -> None:
        """Writes queued text in one go, unless another program has the terminal, or its size is
        changing."""
        editor = self.editor
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        if not self._pending or (editor is not None and (editor.away or editor.is_resizing)):
            return
        text = "".join(self._pending)
        self._pending.clear()
        if editor is not None:
            editor.print_above(text)
            return
        self.clear_line()
        self.write(text)

    def show_line(self, text: str) -> None:
        """Shows a temporary line in place of the previous one: what is happening now. Only on a
        terminal without a prompt."""
        if not self.rich_terminal or self.editor is not None:
            return
        # One column stays free: a full last column makes some terminals wrap.
        self.write(f"\r{self.paint('dim', clip(sanitize(text), self.width - 1))}\x1b[K")
        self._line_shown = True

    def clear_line(self) -> None:
        """Removes the temporary line."""
        if self._line_shown:
            self._line_shown = False
            self.write("\r\x1b[K")

    def write(self, text: str) -> None:
        """Writes to the stream directly; a reader that is gone is no error."""
        encoding = self.stream.encoding or "utf-8"
        try:
            self.stream.write(text.encode(encoding, "replace").decode(encoding))
            self.stream.flush()
        except (OSError, ValueError):
            pass

    def control(self, sequence: str) -> None:
        """Sends an escape sequence of kode's own to the terminal."""
        if self.editor is not None:
            self.editor.control(sequence)
            return
        self.write(sequence)

    def redraw(self) -> None:
        """Requests a repaint of the prompt, unless queued text will soon repaint it anyway."""
        if self.editor is not None and self._flush is None:
            self.editor.redraw()

    def render_rich(self, renderable: "RenderableType") -> str:
        """Renders something with `rich` at the current width, inset, without blank lines around it
        or trailing spaces, which would wrap when the window gets narrower."""
        console = self._rich_console()
        console.width = min(self.width - INSET - 1, MAX_PROSE_COLUMNS)
        with console.capture() as capture:
            console.print(renderable)
        lines = [
            " " * INSET + _END.sub(lambda end: "".join(STYLING.findall(end[0])), line)
            if STYLING.sub("", line).strip()
            else ""
            for line in capture.get().split("\n")
        ]
        return "\n".join(lines).strip("\n")

    def render_lines(self, lines: "Iterable[Text]") -> str:
        """Paints lines of `rich` that are wrapped already."""
        console = self._rich_console()
        with console.capture() as capture:
            for line in lines:
                console.print(line, no_wrap=True, overflow="ignore", crop=False)
        return capture.get().removesuffix("\n")

    def _rich_console(self) -> "Console":
        if self._console is None:
            from rich.console import Console
            from rich.theme import Theme

            looks = {f"markdown.{name}": look for name, look in _MARKDOWN.items()}
            looks["markdown.code"] = self.styles["accent"]
            self._console = Console(
                file=self.stream,
                theme=Theme(looks | self.styles),
                force_terminal=self.rich_terminal,
                color_system="256" if self.rich_terminal else None,
                no_color=not self.color or self.theme == "none",
                highlight=False,
                markup=False,
                emoji=False,
            )
        return self._console

    async def await_first_answer(
        self, keys: Coroutine[Any, Any, T], question: "Question", typed: "Callable[[Answer], T]"
    ) -> T:
        """Asks at the keys and, if there is one, the `answerer`; returns the first answer, and
        withdraws the other question. `typed` turns the answerer's answer into one of the keys."""
        if self.answerer is None:
            return await keys
        typing, asking = asyncio.ensure_future(keys), asyncio.ensure_future(self.answerer(question))
        try:
            await asyncio.wait([typing, asking], return_when=asyncio.FIRST_COMPLETED)
            return await typing if typing.done() else typed(await asking)
        finally:
            for asked in (typing, asking):
                asked.cancel()
            await asyncio.gather(typing, asking, return_exceptions=True)

    def notify(self, terminal: str = "") -> None:
        """Rings the bell if the person seems to be away; with the device file of another terminal,
        rings there if that belongs to the same person."""
        if not terminal:
            if self.notifies and self.editor is not None and self.editor.idle_s() >= AWAY_AFTER_S:
                self.control(BELL)
            return
        flags = os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
        with suppress(OSError), open(os.open(terminal, flags), "wb", buffering=0) as file:
            if file.isatty() and os.fstat(file.fileno()).st_uid == os.getuid():
                file.write(BELL.encode())

    async def wait_for_pause(self) -> None:
        """Waits until nothing was typed for `QUIET_S`, so that no stray key answers a question."""
        if self.editor is not None:
            await self.editor.quiet(QUIET_S)
            return
        drop_typed(sys.stdin)

    async def read_answer(self, label: str, menu: "Menu | None" = None) -> str | None:
        """Returns one line, or the value of a choice from the menu, which is printed where no
        prompt can draw it; None at end of input, or if nobody can be asked."""
        if self.editor is not None:
            self.flush()
            return await self.editor.read_answer(label, menu)
        if menu is not None:
            self.print("\n".join(menu.plain_lines()), "bold")
        self.clear_line()
        self.write(label)
        line = await read_line(sys.stdin)
        return line if menu is None or line is None else menu.value_of(line)


def open_screen(
    *, no_color: bool = False, stream: TextIO | None = None, plain: bool = False
) -> Screen:
    """Opens a screen on `stream`, by default stdout. `plain` suits screen readers and logs; a dumb
    terminal is always plain."""
    out = stream or sys.stdout
    is_dumb = os.environ.get("TERM", "dumb") in ("dumb", "")
    terminal = out.isatty() and not is_dumb and not plain
    return Screen(
        stream=out,
        rich_terminal=terminal,
        color=terminal and not (no_color or os.environ.get("NO_COLOR")),
        columns=lambda: _terminal_size(out).columns,
        rows=lambda: _terminal_size(out).lines,
        plain=plain or (is_dumb and out.isatty()),
        theme=find_theme(os.environ),
    )


def find_theme(environ: Mapping[str, str]) -> str:
    """Returns the theme that suits a terminal, judging by its environment variables."""
    if "256color" not in environ.get("TERM", "") and not environ.get("COLORTERM"):
        return "16"
    # Foreground and background, as numbers of the 16 colours; 7 and 15 are white.
    is_light = environ.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15")
    return "light" if is_light else "dark"


@cache
def _style_sequence(looks: str, color: bool) -> str:
    """Returns the escape sequence that begins a style; "" if it would have no effect. Cached,
    because a screen is painted many times a second, in few styles."""
    codes = [_CODES[word] for word in looks.split() if word in _CODES]
    if color:
        codes += [_COLOURS[word] for word in looks.split() if word in _COLOURS]
        codes += [f"{48 if on else 38};5;{number}" for on, number in _COLOUR.findall(looks)]
    return f"\x1b[{';'.join(codes)}m" if codes else ""


def fill_bands(text: str, width: int) -> str:
    """Returns painted lines, whose bands are filled with spaces to `width` columns."""
    rows = []
    for row in text.split("\n"):
        free = width - cell_width(STYLING.sub("", row)) if FILL in row else 0
        rows.append(row.replace(FILL, " " * max(free, 0)))
    return "\n".join(rows)


def _terminal_size(stream: TextIO) -> os.terminal_size:
    try:
        size = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return shutil.get_terminal_size((80, 24))
    # Some terminals report 0 columns before they know their size.
    return size if size.columns > 0 else os.terminal_size((80, 24))
