"""The screen: where texts go, how wide it is, and which styles it may use.

Texts only ever go above the prompt and stay there; `editor` draws what is below (prompt, spinner,
status). `lines`, `markdown` and `render` supply the texts. Nothing heavy is imported here: `rich`
comes with the first Markdown, prompt_toolkit with the editor."""

import asyncio
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import termios
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TextIO, TypeVar

from kode.cli.screen.lines import clip, fold
from kode.plain_text import clean
from kode.programs import find_program

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from kode.cli.screen.menu import Menu
    from kode.cli.screen.notify import Notifier
    from kode.events import TurnEnded
    from kode.permissions.question import Answer, Ask, Question


_waiting: dict[int, bytearray] = {}
"""Bytes read past the requested line, by file descriptor."""


async def read_line(stream: TextIO) -> str | None:
    """The next line without its line feed; None at end of input. Can be cancelled: no thread stays
    behind that would swallow the next line."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):
        return None
    buffer = _waiting.setdefault(descriptor, bytearray())
    while b"\n" not in buffer:
        data = await _read_some(descriptor)
        if not data:
            rest = bytes(buffer)
            buffer.clear()
            return rest.decode("utf-8", "replace") if rest else None
        buffer += data
    line, _, rest = bytes(buffer).partition(b"\n")
    buffer[:] = rest
    return line.decode("utf-8", "replace").rstrip("\r")


def drop_typed(stream: TextIO) -> None:
    """Drops what a person typed before a question appeared; piped input stays."""
    with suppress(OSError, ValueError, termios.error):
        if stream.isatty():
            termios.tcflush(stream.fileno(), termios.TCIFLUSH)
            _waiting.pop(stream.fileno(), None)


async def _read_some(descriptor: int) -> bytes:
    # Regular files are always ready, and some event loops refuse to watch them.
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.read(descriptor, 65536)
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
    with suppress(OSError):
        return os.read(descriptor, 65536)
    return b""


def pager_command(first_line: int = 1) -> list[str] | None:
    """The pager as an argument list, starting at a line if it can; None if there is none."""
    try:
        command = shlex.split(os.environ.get("PAGER") or "less")
    except ValueError:
        command = ["less"]
    program = find_program(command[0]) if command else None
    if program is None:
        return None
    line = [f"+{first_line}g"] if os.path.basename(program) == "less" and first_line > 1 else []
    return [program, *command[1:], *line]


LendTerminal = Callable[[Callable[[], bool]], Awaitable[bool]]
"""`Editor.lend_terminal`: runs a program that takes the whole terminal."""


async def show_paged(lend_terminal: LendTerminal, text: str, first_line: int = 1) -> bool:
    """Shows a painted text until the person leaves the pager; False if there is none."""
    command = pager_command(first_line)
    if command is None:
        return False
    return await lend_terminal(lambda: _run(command, text))


def _run(command: list[str], text: str) -> bool:
    # Colours pass; the text was cleaned of anything else before. No shell from within it.
    environment = {**os.environ, "LESS": "-R", "LESSSECURE": "1", "LESSCHARSET": "utf-8"}
    try:
        done = subprocess.run(
            command,
            input=text.encode("utf-8", "replace"),
            env=environment,
            check=False,
        )
    except OSError:
        return False
    return done.returncode not in (126, 127)


T = TypeVar("T")

SGR = {
    "bold": "1",
    "dim": "2",
    "title": "1",
    "good": "32",
    "warning": "1",
    "error": "1;31",
    "added": "1;32",
    "removed": "1;31",
    "changed_part": "1;4",
    "keyword": "94",
    "string": "35",
    "comment": "2",
}
"""Style name → the parameters of its escape sequence: the terminal's own colours. Cyan and yellow
are too weak to read on white, blue on black: none is used. Green only paints signs and numbers."""

_BARE = SGR | {"error": "1", "keyword": "1"}
COLOURLESS = {name: code for name, code in _BARE.items() if code in ("1", "2", "1;4")}
"""What `NO_COLOR` leaves of the styles if the terminal supports escape sequences."""

MAX_PROSE_COLUMNS = 110
"""Longer lines of prose are hard to read, however wide the window."""

FLUSH_S = 0.03
"""Texts within this time are painted together: streaming repaints the prompt less."""

_STYLES = re.compile(r"\x1b\[[0-9;]*m|\x1b\]8;[^\x00-\x1f\x7f-\x9f]*\x1b\\")
_PIECES = re.compile(f"({_STYLES.pattern})")
_MARKS = re.compile(r"^( *)[●✗✓▌│] ", re.MULTILINE)
"""Signs before a line whose words say the same."""

_END = re.compile(rf"(?: |{_STYLES.pattern})+$")

QUIET_S = 0.3
"""Keys typed this shortly before a question appears were not meant for it."""


class Editor(Protocol):
    """What the screen needs of the prompt below it."""

    @property
    def asking(self) -> bool: ...

    @property
    def away(self) -> bool: ...

    def print_above(self, text: str) -> None: ...

    @property
    def notifier(self) -> "Notifier": ...

    def redraw(self) -> None: ...

    def control(self, sequence: str) -> None: ...

    async def quiet(self, pause_s: float) -> None:
        """Returns when no key was pressed for `pause_s`."""

    async def read_answer(self, label: str, menu: "Menu | None" = None) -> str | None:
        """One line as an answer, or the chosen value; None at end of input."""


@dataclass
class Screen:
    """One screen, shared by everything that prints in a process."""

    stream: TextIO
    rich_terminal: bool
    """Whether escape sequences are supported; without them only plain text is written."""
    color: bool
    columns: Callable[[], int]
    rows: Callable[[], int]
    links: bool = False
    """Whether a text can be made a link (OSC 8)."""
    plain: bool = False
    """For a screen reader or a log: no drawing, and every line is complete in itself."""
    editor: Editor | None = None
    """The prompt, while it is on the screen."""
    beside: "Ask | None" = None
    """Asks somebody who is not at the keys."""
    watched: bool = True
    """Whether anybody sees it; what only moves is not drawn for nobody."""
    ended: "TurnEnded | None" = None
    """How the last task ended; None while one runs, or before it."""
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

    def paint(self, style: str, text: str) -> str:
        """`text` in a style of `SGR`, or several separated by spaces (the last colour wins);
        unchanged without one, and without colours. The style is set again on each line, so that a
        pager or a cut never leaves it open."""
        styles = SGR if self.color else COLOURLESS if self.rich_terminal else {}
        codes = [styles[name] for name in style.split() if name in styles]
        if not text or not codes:
            return text
        start, end = f"\x1b[{';'.join(codes)}m", "\x1b[0m"
        return "\n".join(f"{start}{line}{end}" if line else line for line in text.split("\n"))

    @property
    def asking(self) -> bool:
        """Whether a question waits for its answer below."""
        return self.editor is not None and self.editor.asking

    def print(self, text: str = "", style: str = "") -> None:
        """Prints whole lines above the prompt. `text` is cleaned of everything that could control
        the terminal; never raises and never blocks on the prompt."""
        body = fold(clean(text), self.width) if self.stream.isatty() else clean(text)
        self.print_painted(self.paint(style, body) if style else body)

    def print_prompt(self, text: str) -> None:
        """Prints the person's message in its place in the conversation."""
        first, *rest = text.split("\n")
        self.print()
        self.print("\n".join([f"> {first}", *(f"  {line}" for line in rest)]), "bold")

    def print_painted(self, text: str) -> None:
        """As `print`, for text that kode has painted: colours and links stay."""
        text = "".join(
            piece if _STYLES.fullmatch(piece) else clean(piece) for piece in _PIECES.split(text)
        )
        self._pending.append((_MARKS.sub(r"\1", text) if self.plain else text) + "\n")
        if self.editor is None:
            self.flush()
            return
        if self._flush is None:
            self._flush = asyncio.get_running_loop().call_later(FLUSH_S, self.flush)

    def flush(self) -> None:
        """Writes queued text in one go."""
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        if not self._pending or (self.editor is not None and self.editor.away):
            return
        text = "".join(self._pending)
        self._pending.clear()
        if self.editor is not None:
            self.editor.print_above(text)
            return
        self.clear_line()
        self.write(text)

    def show_line(self, text: str) -> None:
        """Shows a temporary line in place of the previous one: what is happening now. Only on a
        terminal without a prompt."""
        if not self.rich_terminal or self.editor is not None:
            return
        # One column stays free: a full last column makes some terminals wrap.
        self.write(f"\r{self.paint('dim', clip(clean(text), self.width - 1))}\x1b[K")
        self._line_shown = True

    def clear_line(self) -> None:
        """Removes the temporary line."""
        if self._line_shown:
            self._line_shown = False
            self.write("\r\x1b[K")

    def write(self, text: str) -> None:
        """Writes to the stream itself; a reader that is gone is not an error."""
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
        """Requests a repaint of what is below, together with queued text, never before it."""
        if self.editor is not None and self._flush is None:
            self.editor.redraw()

    def rendered(self, renderable: "RenderableType") -> str:
        """Renders something with `rich` at the current width: no blank lines around it, and no
        trailing padding, which would wrap when the window gets narrower."""
        console = self._rich_console()
        console.width = min(self.width, MAX_PROSE_COLUMNS)
        with console.capture() as capture:
            console.print(renderable)
        lines = [_END.sub(_without_padding, line) for line in capture.get().split("\n")]
        while lines and not _STYLES.sub("", lines[-1]).strip():
            lines.pop()
        while lines and not _STYLES.sub("", lines[0]).strip():
            lines.pop(0)
        return "\n".join(lines)

    def _rich_console(self) -> "Console":
        if self._console is None:
            from rich.console import Console
            from rich.theme import Theme

            # The default paints inline code on black, which is unreadable on a light terminal.
            theme = Theme(
                {
                    "markdown.code": "bold",
                    "markdown.h1": "bold underline",
                    "markdown.h2": "bold",
                    "markdown.h3": "bold",
                    "markdown.h4": "italic",
                    "markdown.item.bullet": "bold",
                    "markdown.item.number": "bold",
                    "markdown.hr": "dim",
                    "markdown.table.header": "bold",
                    "markdown.table.border": "dim",
                    "markdown.block_quote": "none",
                    "markdown.a": "underline",
                    "markdown.url": "underline",
                }
            )
            self._console = Console(
                file=self.stream,
                theme=theme,
                force_terminal=self.rich_terminal,
                color_system="256" if self.rich_terminal else None,
                no_color=not self.color,
                legacy_windows=False,
                highlight=False,
                markup=False,
                emoji=False,
            )
        return self._console

    async def first_of(
        self, keys: Coroutine[Any, Any, T], question: "Question", typed: "Callable[[Answer], T]"
    ) -> T:
        """What the keys answer, or whoever is asked beside them: the first of the two, and the
        question of the other is withdrawn. `typed` is that answer as the keys would give it."""
        if self.beside is None:
            return await keys
        typing, asking = asyncio.ensure_future(keys), asyncio.ensure_future(self.beside(question))
        try:
            await asyncio.wait([typing, asking], return_when=asyncio.FIRST_COMPLETED)
            return await typing if typing.done() else typed(await asking)
        finally:
            for asked in (typing, asking):
                asked.cancel()
            await asyncio.gather(typing, asking, return_exceptions=True)

    def notify(self, text: str) -> None:
        """Notifies a person whose window is not in front."""
        if self.editor is not None:
            self.editor.notifier.tell(text)

    async def quiet(self) -> None:
        """Waits until nothing was typed for `QUIET_S`, so that no stray key answers a question."""
        if self.editor is not None:
            await self.editor.quiet(QUIET_S)
            return
        drop_typed(sys.stdin)

    async def read_answer(self, label: str, menu: "Menu | None" = None) -> str | None:
        """One line from the person, or their choice from the menu, which only a prompt can show;
        None at end of input, or if nobody can be asked."""
        if self.editor is not None:
            self.flush()
            return await self.editor.read_answer(label, menu)
        if menu is not None:
            self.print("\n".join(menu.plain_lines()), "bold")
        self.clear_line()
        self.write(label)
        line = await read_line(sys.stdin)
        return line if menu is None or line is None else menu.meant(line)


def _without_padding(end: re.Match[str]) -> str:
    return "".join(_STYLES.findall(end[0]))


def links_work(environ: Mapping[str, str]) -> bool:
    """Whether the terminal is known to support links (OSC 8), or to ignore them silently: others
    print them as text."""
    program, term = environ.get("TERM_PROGRAM", ""), environ.get("TERM", "")
    if environ.get("TMUX"):
        return True
    if term.startswith(("screen", "linux")):
        return False
    named = ("KITTY_WINDOW_ID", "WT_SESSION", "KONSOLE_VERSION", "WEZTERM_PANE", "ALACRITTY_LOG")
    if any(environ.get(name) for name in named):
        return True
    if program in ("iTerm.app", "WezTerm", "ghostty", "vscode", "Hyper", "rio"):
        return True
    vte = environ.get("VTE_VERSION", "")
    return term.startswith(("foot", "alacritty", "xterm-kitty", "xterm-ghostty")) or (
        vte.isdecimal() and int(vte) >= 5000
    )


def open_screen(
    *, color: bool | None = None, stream: TextIO | None = None, plain: bool = False
) -> Screen:
    """The screen of this process. `color` None: decided by the terminal and `NO_COLOR`. `plain` is
    the plain face, which a dumb terminal always gets."""
    out = stream or sys.stdout
    is_dumb = os.environ.get("TERM", "dumb") in ("dumb", "")
    terminal = _is_terminal(out) and not is_dumb and not plain
    wanted = not os.environ.get("NO_COLOR") if color is None else color
    return Screen(
        stream=out,
        rich_terminal=terminal,
        color=terminal and wanted,
        columns=lambda: _size(out).columns,
        rows=lambda: _size(out).lines,
        links=terminal and links_work(os.environ),
        plain=plain or (is_dumb and _is_terminal(out)),
    )


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:
        return False


def _size(stream: TextIO) -> os.terminal_size:
    try:
        size = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return shutil.get_terminal_size((80, 24))
    # Some terminals report 0 columns before they know their size.
    return size if size.columns > 0 else os.terminal_size((80, 24))
