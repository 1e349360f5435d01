"""`!command` at the prompt, the person's own shell command, outside of permissions and tools; and
`/bg`, which shows and kills what runs in the background.

The output of a command is printed and attached to the next message, so that the model sees what the
person saw. Like a model's command it can move to the background.
"""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kode.cli.prompt.state import PromptState
from kode.cli.screen.lines import clip, duration, one_line
from kode.errors import UserError
from kode.messages import plural
from kode.plain_text import clean
from kode.programs import start_program
from kode.tools.background import BackgroundCommand, BackgroundCommands
from kode.tools.output import Capture
from kode.tools.processes import READ_BYTES, WATCH, new_mark

KILL_AFTER_S = 2.0  # a program may tidy up after SIGTERM

Show = Callable[[str, str], None]
"""Gets whole lines as they arrive ("" for none), and the unfinished line."""


@dataclass(frozen=True)
class ShellLineEnd:
    """The result of a command."""

    output: str
    """So far; both ends of a long one."""
    exit_code: int | None = None
    """None if it was moved to the background."""
    name: str = ""
    """Its name in the background."""
    output_path: Path | None = None


async def run_shell_line(
    command: str,
    cwd: Path,
    show: Show,
    background: BackgroundCommands,
    *,
    session_id: str | None,
    output_dir: Path,
) -> ShellLineEnd:
    """Runs a command to its end, or until the person moves it to the background, showing its
    output. If cancelled, kills the command with everything it started. A long output is saved in
    full in `output_dir`.

    Raises: UserError if no shell can be started.
    """
    running = _ShellLine(command, show, Capture(output_dir, "shell-line"))
    try:
        with background.offer() as request:
            await running.start(cwd)
            moving = asyncio.ensure_future(request.wait())
            try:
                await asyncio.wait((running.reading, moving), return_when=asyncio.FIRST_COMPLETED)
            finally:
                moving.cancel()
        if running.reading.done():
            return ShellLineEnd(running.output(), exit_code=await running.process.wait())
        running.is_moved = True
        running.capture.keep_whole()
        name = background.take(running, session_id)
        return ShellLineEnd(running.output(), name=name, output_path=running.capture.path)
    finally:
        if not running.is_moved:
            await running.end()


class _ShellLine:
    """A running command and its output; implements `RunningCommand`."""

    process: asyncio.subprocess.Process
    reading: "asyncio.Task[None]"
    untrusted = ""

    def __init__(self, command: str, show: Show, capture: Capture) -> None:
        self.command = command
        self.since = time.monotonic()
        self.is_moved = False
        self.capture = capture
        self._show = show
        self._mark = new_mark()

    async def start(self, cwd: Path) -> None:
        try:
            self.process = await start_program(
                *("/bin/sh", "-c", self.command),
                cwd=cwd,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise UserError(f"The command could not be started in {cwd}: {error}.") from None
        # Nobody would see its output once kode is killed. Only the group: its environment is the
        # person's own.
        WATCH.add(self._mark, self.process.pid)
        self.reading = asyncio.ensure_future(self._read())

    def output(self) -> str:
        return self.capture.text() + self.capture.partial

    async def ended(self) -> str:
        await asyncio.wait([self.reading])
        code = await self.process.wait()
        await self.end()
        return f"exit status {code}"

    async def end(self) -> None:
        """Kills it with everything it started, and reads the last output."""
        try:
            if hasattr(self, "reading"):
                await self._kill()
        finally:
            WATCH.remove(self._mark)
            self.capture.close()

    async def _kill(self) -> None:
        # A command may close its output long before it ends, and what it started may keep it open.
        ended = asyncio.ensure_future(self.process.wait())
        try:
            for number in (signal.SIGTERM, signal.SIGKILL):
                if self.reading.done() and self.process.returncode is not None:
                    return
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.process.pid, number)
                await asyncio.wait([self.reading, ended], timeout=KILL_AFTER_S)
        finally:
            ended.cancel()
            self.reading.cancel()

    async def _read(self) -> None:
        assert self.process.stdout is not None
        data = b"-"
        while data:
            data = await self.process.stdout.read(READ_BYTES)
            text = self.capture.take(data, final=not data)
            if not self.is_moved:
                self._show(text.removesuffix("\n"), self.capture.partial)


async def run_typed(state: PromptState, command: str) -> None:
    """Runs what stands behind `!`, shows it, and attaches it to the next message. Raises:
    UserError."""
    if not command:
        raise UserError("! runs a shell command: !ls")
    state.doing, conversation = f"Running {one_line(command)}", state.conversation

    def show(text: str, unfinished: str) -> None:
        state.unfinished = unfinished
        if text:
            state.screen.print(text)

    try:
        end = await run_shell_line(
            command,
            conversation.place.cwd,
            show,
            conversation.commands,
            session_id=conversation.session.id,
            output_dir=conversation.agent.place.outputs,
        )
    except asyncio.CancelledError:
        state.screen.print("Stopped.", "warning")
        raise
    finally:
        state.unfinished = None
    outcome = hint = f"exit status {end.exit_code}"
    if end.exit_code is None:
        outcome = f"moved to the background as {end.name}"
        hint = f"{outcome} · /bg read {end.name} shows its output"
        outcome += f"; its output is in {end.output_path}" if end.output_path else ""
    style = "warning" if end.exit_code else "dim"
    state.screen.print(f"{hint} · sent with your next message", style)
    note = f"[The person ran this in the shell; {outcome}]\n$ {command}\n{end.output}"
    conversation.attach_command(command, note)


SHOWN_LINES = 40
"""Lines printed from the end of an output if there is no pager."""

USAGE = "/bg lists background commands, /bg read ID shows an output, /bg kill ID stops one."


async def background(state: PromptState, argument: str) -> None:
    """Lists what runs in the background, reads or kills one. Raises: UserError."""
    commands, screen = state.conversation.commands, state.screen
    match argument.split():
        case []:
            for command in commands.commands:
                screen.print(_row(command, screen.width))
                if last := one_line(command.last_line()):
                    screen.print(clip(f"     {last}", screen.width), "dim")
            screen.print(USAGE if commands.commands else f"No background commands. {USAGE}", "dim")
        case ["read", name]:
            await _read(state, commands.find(name))
        case ["kill", name]:
            command = commands.find(name)
            stopped = "Stopped" if command.runs else "Ended already:"
            await commands.kill(command)
            screen.print(f"{stopped} {command.name}: {one_line(command.running.command)}", "dim")
        case _:
            raise UserError(f"/bg does not know {one_line(argument)!r}. {USAGE}")


def move_to_background(state: PromptState) -> None:
    """Moves the running shell command, or says that there is none."""
    if state.opened is None or not state.conversation.commands.move():
        state.hint("No shell command is running.")


async def may_leave(state: PromptState) -> bool:
    """Whether to leave: asks if background commands are running, which would end with kode."""
    running = state.conversation.commands.running() if state.opened is not None else []
    if not running:
        return True
    state.screen.print(f"Still running: {plural(len(running), 'background command')}", "warning")
    for command in running:
        state.screen.print(_row(command, state.screen.width))
    answer = await state.screen.read_answer("Quit and stop what runs? [y/N] ")
    # End of input is a second Ctrl-D, which means yes.
    return answer is None or answer.strip().lower() in ("y", "yes")


def _row(command: BackgroundCommand, width: int) -> str:
    """Id, state, time and command on one line."""
    seconds = time.monotonic() - command.running.since if command.runs else command.took_s
    status = "running" if command.runs else command.outcome
    text = f"{command.name}  {status} · {duration(seconds)} · {one_line(command.running.command)}"
    return clip(text, width)


async def _read(state: PromptState, command: BackgroundCommand) -> None:
    text = clean(command.running.output()).rstrip("\n") or "(no output yet)"
    path = f"\nFull output: {command.output_path}" if command.output_path else ""
    head = _row(command, state.screen.width)
    if state.is_long(text) and await state.page(f"{head}\n\n{text}\n{path}", at_end=True):
        return
    lines = text.split("\n")
    omitted = [f"… {plural(len(lines) - SHOWN_LINES, 'line')} before"]
    shown = [*omitted, *lines[-SHOWN_LINES:]] if len(lines) > SHOWN_LINES else lines
    state.screen.print("\n".join([head, *shown, path]).rstrip("\n"))
