"""The REPL: what is typed becomes a turn, a command or a shell line, one after the other.

The prompt itself is `editor` (or `plain` in a terminal that cannot do more), the commands are
`slash`, what is shown is `render`. Work runs in one task at a time, which Ctrl-C cancels; SIGINT
never raises in the middle of anything.
"""

import asyncio
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kode import paths
from kode.cli.lines import clip, count, money, one_line
from kode.cli.render import SPINNER, Renderer
from kode.cli.screen import Screen
from kode.cli.slash import COMMANDS, MODES, command_of, run_command
from kode.errors import EXIT_OK, KodeError
from kode.messages import Text

if TYPE_CHECKING:
    from kode.cli.editor import Editor
    from kode.conversation import Conversation, Status

Opening = Callable[[], Awaitable["Conversation"]]

SECOND_CANCEL_S = 2.0
"""A further Ctrl-C cancels once more only after this time: saving must not be cut short."""

LEAVE_GRACE_S = 10.0


async def run_repl(
    conversation: "Conversation | Opening",
    first_task: str | None = None,
    *,
    screen: Screen,
    renderer: Renderer,
    cwd: Path | None = None,
    warm_up: Callable[[], None] | None = None,
) -> int:
    """Talks with the person until they leave, then closes the conversation; returns the exit code.

    `conversation` is open, or a function that opens it: that is called once the prompt is on the
    screen, in `cwd`, and what is typed until then waits. `renderer` is the one whose `emit` the
    conversation got, on the same `screen`. `warm_up` is called in a daemon thread once the prompt
    is on the screen, for imports that can wait.

    Raises: KodeError of the opening.
    """
    folder = cwd or Path.cwd()
    repl = Repl(screen, renderer)
    if callable(conversation):
        opening = conversation
    else:
        repl.opened, folder, opening = conversation, conversation.cwd, None
    with _signals(repl):
        _greet(screen, folder)
        if screen.rich_terminal and sys.stdin.isatty():
            await _run_editor(repl, opening, first_task, folder, warm_up)
        else:
            await _run_plain(repl, opening, first_task, warm_up)
        await repl.finish()
    if repl.fault is not None:
        raise repl.fault
    return EXIT_OK


@dataclass
class Repl:
    """What is going on: the work that runs, what waits, what was sent last."""

    screen: Screen
    renderer: Renderer
    opened: "Conversation | None" = None
    """None while it is being opened."""
    fault: KodeError | None = None
    """Why it could not be opened."""
    editor: "Editor | None" = None
    waiting: list[str] = field(default_factory=list)
    """Messages typed while work runs, folded as they were typed; sent in order at its end."""
    work: "asyncio.Task[None] | None" = None
    beside: set["asyncio.Task[None]"] = field(default_factory=set)
    """Commands that run while a turn runs."""
    leaving: bool = False
    sent: str | None = None
    doing: str = ""
    """What runs when it is no turn."""
    cancelled_at: float | None = None
    closing: "asyncio.Task[None] | None" = None
    _status: "Status | None" = None
    _seen_replies: int = 0

    @property
    def conversation(self) -> "Conversation":
        """The open conversation; nothing that needs one runs before."""
        assert self.opened is not None
        return self.opened

    @property
    def busy(self) -> bool:
        return self.work is not None and not self.work.done()

    def submit(self, text: str) -> None:
        """Starts what was typed, or lets it wait for the end of what runs."""
        if not self.busy:
            self._start(text)
            return
        command = command_of(text) if self.opened is not None else None
        if command and (known := COMMANDS.get(command[0])) and known.while_busy:
            task = asyncio.ensure_future(self._guarded(self._command(*command)))
            self.beside.add(task)
            task.add_done_callback(self.beside.discard)
            return
        self.waiting.append(text)
        self.screen.redraw()

    def interrupt(self) -> bool:
        """Stops the work that runs; False when nothing did."""
        if self.closing is not None:
            return self.closing.cancel()
        if self.work is None or self.work.done():
            return False
        now = time.monotonic()
        if self.cancelled_at is None or now - self.cancelled_at > SECOND_CANCEL_S:
            self.cancelled_at = now
            self.work.cancel()
        self.screen.redraw()
        return True

    def leave(self) -> None:
        """Ends the REPL; a turn that runs is stopped first."""
        self.leaving = True
        self.interrupt()
        if self.editor is not None:
            self.editor.stop()

    def take_back(self) -> str | None:
        """The newest waiting message, no longer waiting."""
        return self.waiting.pop() if self.waiting else None

    def last_message(self) -> str | None:
        """What was last sent, folded as it was typed."""
        return self.sent

    def hint(self, text: str) -> None:
        self.screen.print(text, "dim")

    def refresh(self) -> None:
        self.screen.flush()
        self.screen.redraw()

    async def read_answer(self, label: str) -> str | None:
        """For commands that ask for a choice."""
        return await self.screen.read_answer(label)

    def live(self, width: int, height: int) -> list[tuple[str, str]]:
        """What is shown over the prompt: what runs, and what waits."""
        if not self.busy:
            return []
        waiting = [
            ("queued", clip(f"queued: {one_line(text)} (Up takes it back)", width))
            for text in self.waiting[-3:]
        ]
        if self.opened is None:
            return waiting
        lines = self.renderer.live(width, max(height - len(waiting), 1))
        if self.cancelled_at is not None or not lines:
            what = "Stopping" if self.cancelled_at is not None else self.doing or "Working"
            frame = SPINNER[int(time.monotonic() * 10) % len(SPINNER)]
            lines = [*lines[:-1], ("", clip(f"{frame} {what}…", width))]
        return lines + waiting

    def status(self, width: int) -> str:
        """Model, context, cost and permission mode, as much of it as fits."""
        if self.opened is None:
            return ""
        if self._status is None or self._seen_replies != self.renderer.replies:
            self._seen_replies = self.renderer.replies
            self._status = self.conversation.status()
        return status_line(self._status, width)

    async def idle(self) -> None:
        """Returns when nothing runs and nothing waits."""
        while self.work is not None and not self.work.done():
            await asyncio.wait([self.work])

    async def finish(self) -> None:
        """Waits for what was stopped, closes the conversation, says how to resume."""
        if self.work is not None:
            await asyncio.wait([self.work], timeout=LEAVE_GRACE_S)
        for task in self.beside:
            task.cancel()
        if self.opened is None:
            return
        session_id = self.conversation.session.id
        used = self.conversation.status().turns > 0
        self.closing = asyncio.ensure_future(self._guarded(self.conversation.close()))
        done, _ = await asyncio.wait([self.closing], timeout=0.5)
        if not done:
            self.screen.print("Saving what is worth remembering… (Ctrl-C skips)", "dim")
            await asyncio.wait([self.closing])
        if session_id is not None and used:
            self.screen.print(f"Resume with: kode continue --id {session_id}", "dim")
        self.screen.flush()

    def open(self, opening: Opening) -> None:
        """Opens the conversation as the first work; what is typed meanwhile waits."""
        self.work = asyncio.ensure_future(self._open(opening))
        self.work.add_done_callback(self._done)

    async def _open(self, opening: Opening) -> None:
        try:
            self.opened = await opening()
        except asyncio.CancelledError:
            self.leave()
        except KodeError as error:
            self.fault = error
            self.leave()

    def _start(self, text: str) -> None:
        self.cancelled_at = None
        self.work = asyncio.ensure_future(self._guarded(self._do(text)))
        self.work.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        stopped = self.cancelled_at is not None
        self.cancelled_at, self.doing, self._status = None, "", None
        self.screen.redraw()
        if self.leaving or not self.waiting:
            return
        if stopped and self.editor is not None:
            # Who stops a turn wants to think: what waited goes back to the line.
            self.editor.put_back("\n".join(self.waiting))
            self.waiting.clear()
            return
        self._start(self.waiting.pop(0))

    async def _guarded(self, doing: Awaitable[object]) -> None:
        """Runs something to its end: a fault becomes a text on the screen, a stop becomes quiet."""
        try:
            await doing
        except asyncio.CancelledError:
            return
        except KodeError as error:
            self.screen.print(f"Error: {error}", "error")
        except Exception as error:
            from kode.fault_reports import write_report

            self.screen.print(f"A fault in kode itself. {write_report(error)}", "error")

    async def _do(self, text: str) -> None:
        self._echo(text)
        if text.startswith("!") and text[1:].strip():
            await self._shell(text[1:].strip())
            return
        command = command_of(text)
        if command is not None:
            await self._command(*command)
            return
        self.sent = text
        whole = self.editor.pastes.unfold(text) if self.editor is not None else text
        await self.conversation.turn(whole)

    def _echo(self, text: str) -> None:
        """What was sent stays in the scrollback; a plain terminal has shown it already."""
        if self.editor is None:
            return
        first, *rest = text.split("\n")
        self.screen.print()
        self.screen.print("\n".join([f"› {first}", *(f"  {line}" for line in rest)]), "bold")

    async def _command(self, name: str, argument: str) -> None:
        self.doing = f"{name[1:].capitalize()}"
        await run_command(self, name, argument)
        self._status = None

    async def _shell(self, command: str) -> None:
        from kode.cli.shell_line import run_shell_line

        self.doing = f"Running {one_line(command)}"
        code, output = await run_shell_line(command, self.conversation.cwd, self.screen.print)
        style = "dim" if code == 0 else "warning"
        self.screen.print(f"exit {code} · goes with your next message", style)
        note = f"[The person ran this in the shell; exit code {code}]\n$ {command}\n{output}"
        self.conversation.attachments += (Text(text=note, source="attachment"),)


def status_line(status: "Status", width: int) -> str:
    """The most telling parts that fit into `width` columns."""
    used = status.context_tokens / status.context_window if status.context_window else 0.0
    context = f"{used:.0%} of {count(status.context_window)}"
    parts = [status.mode, status.model, context, money(status.cost_usd)]
    # Where it is narrow the cost goes first, then the window, then the model.
    while len(parts) > 1 and len(" · ".join(filter(None, parts))) > width:
        parts.pop()
    return clip(" · ".join(filter(None, parts)), width)


def _greet(screen: Screen, folder: Path) -> None:
    where, home = str(folder), os.path.expanduser("~")
    if where.startswith(home + "/"):
        where = "~" + where[len(home) :]
    screen.print(clip(f"kode in {where} · /help", screen.width), "dim")


async def _run_editor(
    repl: Repl,
    opening: Opening | None,
    first_task: str | None,
    folder: Path,
    warm_up: Callable[[], None] | None,
) -> None:
    from kode.cli.complete import ReplCompleter
    from kode.cli.editor import Editor, open_history
    from kode.cli.files import FileIndex

    completer = ReplCompleter(
        commands={name: command.summary for name, command in COMMANDS.items()},
        arguments={"/permissions": lambda: MODES},
        files=FileIndex(folder),
    )
    repl.editor = Editor(
        repl,
        history=open_history(paths.history_file(paths.home())),
        completer=completer,
        live=repl.live,
        status=repl.status,
        color=repl.screen.color,
        busy=lambda: repl.busy,
    )

    def drawn() -> None:
        if opening is not None:
            repl.open(opening)
        if first_task:
            repl.submit(first_task)
        _warm(warm_up)

    repl.screen.flush()
    repl.screen.editor = repl.editor
    try:
        await repl.editor.run(drawn)
    finally:
        repl.screen.flush()
        repl.screen.editor = None
        repl.leave()


async def _run_plain(
    repl: Repl,
    opening: Opening | None,
    first_task: str | None,
    warm_up: Callable[[], None] | None,
) -> None:
    from kode.cli.plain import read_line

    _warm(warm_up)
    if opening is not None:
        repl.open(opening)
        await repl.idle()
    line = first_task
    while not repl.leaving:
        if line is None:
            repl.screen.write("> ")
            line = await read_line(sys.stdin)
            if line is None:
                repl.screen.print()
                return
        while line.endswith("\\"):
            repl.screen.write("  ")
            line = line[:-1] + "\n" + (await read_line(sys.stdin) or "")
        if line.strip():
            repl.submit(line)
            await repl.idle()
        line = None


def _warm(warm_up: Callable[[], None] | None) -> None:
    """In a daemon thread: leaving must never wait for an import."""
    if warm_up is not None:
        threading.Thread(target=warm_up, daemon=True).start()


@contextlib.contextmanager
def _signals(repl: Repl) -> Iterator[None]:
    """SIGINT acts as Ctrl-C, SIGTERM and SIGHUP as leaving: nothing is torn out of its course."""
    loop = asyncio.get_running_loop()
    actions: dict[signal.Signals, Callable[[], object]] = {
        signal.SIGINT: lambda: _sigint(repl),
        signal.SIGTERM: repl.leave,
        signal.SIGHUP: repl.leave,
    }
    before = {number: signal.getsignal(number) for number in actions}
    for number, action in actions.items():
        loop.add_signal_handler(number, action)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


def _sigint(repl: Repl) -> None:
    if repl.editor is not None and repl.screen.editor is not None:
        from kode.cli.keys import interrupt

        interrupt(repl.editor)
        return
    if not repl.interrupt():
        repl.screen.write("\n(Ctrl-D leaves)\n> ")
