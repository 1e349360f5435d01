"""`!command` at the prompt, the person's own shell command, outside of permissions and tools; and
`/bg`, which shows and kills what the model runs in the background.

The output of a command is printed and attached to the next message, so that the model sees what the
person saw.
"""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from kode.cli.prompt.state import PromptState
from kode.cli.screen.lines import clip, duration, one_line
from kode.errors import UserError
from kode.messages import plural
from kode.programs import start_program
from kode.tools.background import BackgroundCommand
from kode.tools.output import Capture
from kode.tools.processes import READ_BYTES, WATCH, new_mark

KILL_AFTER_S = 2.0  # a program may tidy up after SIGTERM

Show = Callable[[str, str], None]
"""Gets whole lines as they arrive ("" for none), and the unfinished line."""


async def run_shell_line(command: str, cwd: Path, show: Show, output_dir: Path) -> tuple[int, str]:
    """Runs a command to its end, showing its output; returns its exit code and its output (if that
    is long, both ends and the path of the whole). If cancelled, kills all that it started.

    Raises: UserError if no shell can be started.
    """
    capture, mark = Capture(output_dir, "shell-line"), new_mark()
    try:
        process = await start_program(
            *("/bin/sh", "-c", command),
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
    WATCH.add(mark, process.pid)
    reading = asyncio.ensure_future(_stream(process, capture, show))
    try:
        await asyncio.wait([reading])
        return await process.wait(), capture.text() + capture.partial
    finally:
        try:
            await _kill(process, reading)
        finally:
            WATCH.remove(mark)
            reading.cancel()
            capture.close()


async def _kill(process: asyncio.subprocess.Process, reading: "asyncio.Task[None]") -> None:
    """Kills it with everything it started, and reads the last output."""
    # A command may close its output long before it ends, and what it started may keep it open.
    ended = asyncio.ensure_future(process.wait())
    try:
        for number in (signal.SIGTERM, signal.SIGKILL):
            if reading.done() and process.returncode is not None:
                return
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            await asyncio.wait([reading, ended], timeout=KILL_AFTER_S)
    finally:
        ended.cancel()


async def _stream(process: asyncio.subprocess.Process, capture: Capture, show: Show) -> None:
    assert process.stdout is not None
    data = b"-"
    while data:
        data = await process.stdout.read(READ_BYTES)
        show(capture.take(data, final=not data).removesuffix("\n"), capture.partial)


async def run_typed(state: PromptState, command: str) -> None:
    """Runs the command after `!`, shows its output, and attaches that to the next message. Raises:
    UserError."""
    if not command:
        raise UserError("! runs a shell command: !ls")
    state.doing, conversation = f"Running {one_line(command)}", state.conversation

    def show(text: str, unfinished: str) -> None:
        state.unfinished = unfinished
        if text:
            state.screen.print(text)

    outputs = conversation.agent.place.outputs
    try:
        code, output = await run_shell_line(command, conversation.place.cwd, show, outputs)
    except asyncio.CancelledError:
        state.screen.print("Stopped.", "warning")
        raise
    finally:
        state.unfinished = None
    style = "warning" if code else "dim"
    state.screen.print(f"exit status {code} · sent with your next message", style)
    note = f"[The person ran this in the shell; exit status {code}]\n$ {command}\n{output}"
    conversation.attach_command(command, note)


USAGE = "/bg kill ID stops one; all stop with kode."


async def background(state: PromptState, argument: str) -> None:
    """Lists what runs in the background, with the file of its output, or kills one. Raises:
    UserError."""
    commands, screen = state.conversation.commands, state.screen
    match argument.split():
        case []:
            for command in commands.commands:
                screen.print(_row(command, screen.width))
                for line in filter(None, (one_line(command.last_line()), command.output_path)):
                    screen.print(f"     {line}", "dim")
            screen.print(USAGE if commands.commands else "No background commands.", "dim")
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
    running = state.conversation.commands.list_running() if state.opened is not None else []
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
