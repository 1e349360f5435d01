"""`shell`: runs a command line and reports how it ended. The gate decides what it may run.

No process outlives its call: at the end, at the time limit and on cancellation the whole tree is
killed, background processes included (and the result says so), because nobody would watch them. The
one exception: a command that the model starts in the background, or that the person moves there, is
handed over to `background` with everything it started.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from kode.errors import ToolError
from kode.events import ToolOutput as OutputEvent
from kode.tool import ToolContext, ToolOutput, tool
from kode.tools import check_statuses
from kode.tools.output import MAX_CHARS, Capture
from kode.tools.processes import READ_BYTES, ProcessTree

if TYPE_CHECKING:
    from kode.tools.background import BackgroundCommands

DEFAULT_TIMEOUT_S = 120  # as Claude Code's
MAX_TIMEOUT_S = 600  # as Claude Code's
SETTLES_IN_S = 1.0
"""How long a command that starts in the background may take for its first output, or to fail."""
EMIT_EVERY_S = 0.1  # ten changes a second can be read
MAX_EVENT_CHARS = 4_000  # a watcher gets only the end of longer bursts

_ADDED = {
    # Nobody is there to page, to answer or to see colours.
    **dict.fromkeys(("PAGER", "GIT_PAGER", "MANPAGER"), "cat"),
    "GIT_TERMINAL_PROMPT": "0",
    "TERM": "dumb",
    "NO_COLOR": "1",
}


@tool(
    effect="run",
    subject="command",
)
async def shell(
    context: ToolContext,
    command: str,
    timeout_s: Annotated[float, "At most 600"] = DEFAULT_TIMEOUT_S,
    description: str | None = None,
    background: Annotated[bool, "A server or long work: returns an id at once"] = False,
) -> ToolOutput:
    """Run a bash command in the working directory, in a new shell without stdin; returns output
    and exit status. All it started ends with it."""
    if not command.strip() or "\0" in command:
        raise ToolError("`command` is empty or has a NUL character: give one command line.")
    # Some models fill in 0 or -1 for what they leave out.
    limit_s = min(timeout_s if timeout_s > 0 else DEFAULT_TIMEOUT_S, MAX_TIMEOUT_S)
    cwd = context.place.cwd
    if not cwd.is_dir():
        raise ToolError(
            f"The working directory {cwd} is gone, so nothing can run in it. Recreate it "
            "by writing a file in it with write_file, or tell the person."
        )
    running = _RunningShell(context, command)
    jobs = context.background
    if background and jobs is None:
        raise ToolError("Nothing can run in the background here: run it without `background`.")
    offer = contextlib.nullcontext(asyncio.Event()) if jobs is None else jobs.offer()
    try:
        with offer as request:
            running.start()
            wait = (SETTLES_IN_S, running.has_output) if background else (limit_s, request)
            returncode = await running.tree.wait(*wait)
        if jobs is not None and returncode is None and (background or request.is_set()):
            return running.move_to(jobs, by_model=background)
        left = running.tree.find() if returncode is not None else []
        # The sandbox around it takes a moment longer than the shell.
        leftovers = [p.name for p in left if running.tree.wrapped is None or p.name != "bwrap"]
    except asyncio.CancelledError:
        await running.end()
        dropped = "[It ran on a copy of the project: of its changes nothing was kept.]"
        notes = [] if context.wrap_command is None else [dropped]
        context.keep_output(running.describe(notes, untrusted=running.untrusted))
        raise
    finally:
        if not running.moved:
            await running.end()
    exit_status, status = -1, f"timed out after {limit_s:g} s and was ended, with all it started"
    if returncode is not None:
        exit_status, status = returncode, _describe_end(returncode)
    checks = check_statuses.find_statuses(context.decision.checks, running.events, exit_status)
    status = "; ".join((status, *check_statuses.describe_hidden(checks, exit_status)))
    notes = [f"[{status}]"]
    if leftovers:
        names = ", ".join(sorted(set(leftovers))[:5])
        notes.append(
            "[Still running in the background when the command ended, and ended with it: "
            f"{len(leftovers)} ({names}).]"
        )
    return running.describe(notes, summary=status, exit_status=exit_status, checks=checks)


def _describe_end(returncode: int) -> str:
    """`exit status 1`, with the signal's name if one killed it."""
    number, name = -returncode if returncode < 0 else returncode - 128, ""
    with contextlib.suppress(ValueError):
        name = signal.Signals(number).name
    if returncode < 0:
        return f"killed by {name or f'signal {number}'}"
    return f"exit status {returncode}{name and f', as of {name}'}"


class _RunningShell:
    """A running command with its output and the duty to end it; a `RunningCommand`."""

    def __init__(self, context: ToolContext, command: str) -> None:
        self.command = command
        most = min(MAX_CHARS, context.room * 3 // 4)  # a quarter of it is for errors in between
        self.capture = Capture(context.place.outputs, f"shell-{context.call_id}", most)
        self.untrusted = context.decision.untrusted
        self.moved = False
        """Whether the background has taken over the duty to end it."""
        self.since = time.monotonic()
        self.events: list[check_statuses.StatusEvent] = []
        self.has_output = asyncio.Event()
        self._context = context
        self.tree = ProcessTree()
        self._channel = -1
        self._output: Any = None
        """The read end of the pipe, while it is open."""
        self._unsent = self._partial = ""
        """Output that no event has carried yet, and the unfinished line in the last event."""
        self._sending: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Raises: ToolError if no shell can be started."""
        program = "/bin/bash" if os.access("/bin/bash", os.X_OK) else "/bin/sh"
        argv = (program, "-c", self.command)
        place, wrap = self._context.place, self._context.wrap_command
        environment = {**place.environment, **_ADDED}
        checks = self._context.decision.checks if program == "/bin/bash" else ()
        self._channel, traced = check_statuses.begin_reporting(checks, environment)
        if wrap is not None:
            try:
                self.tree.wrapped = wrap(argv)
            except OSError as error:
                raise ToolError(
                    f"Not run: the sandbox could not be made ({error}). Tell the person; continue "
                    "with the file tools meanwhile."
                ) from None
        try:
            shell = self.tree.start(
                *argv,
                environment={**environment, **traced},
                stdin=subprocess.DEVNULL if self._channel < 0 else self._channel,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                bufsize=0,
                cwd=place.cwd,
            )
        except (OSError, ValueError) as error:
            raise ToolError(
                f"The command could not be started: {error}. "
                "If it is very long, write it to a file and run that."
            ) from None
        self._output = shell.stdout
        os.set_blocking(self._output.fileno(), False)
        asyncio.get_running_loop().add_reader(self._output, self._read)

    def move_to(self, background: "BackgroundCommands", *, by_model: bool) -> ToolOutput:
        """Hands the command over to the background; returns the result of its call."""
        self._send()
        self.moved = True
        self.capture.keep_whole()
        name = background.take(self, self._context.session_id, with_session=by_model)
        if by_model:
            if path := self.capture.path:
                background.find(name).read_to = path.stat().st_size
            note = f"[It runs in the background as {name}, at most as long as the session.]"
            if self._context.wrap_command is not None:  # the kernel does not show it new files
                note += " [It may not see later changes of files: start it again after them.]"
        else:
            after = f"{time.monotonic() - self.since:.0f} s"
            where = f" Its output goes to {self.capture.path}." if self.capture.path else ""
            note = (
                f"[The person sent this command to the background as {name} "
                f"after {after}. It runs on, at the longest as long as kode does.{where} A note "
                "will say when it ends: go on with something else, do not wait for it.]"
            )
        summary = f"{'runs in' if by_model else 'moved to'} the background as {name}"
        return self.describe([note], summary=summary)

    def describe(self, notes: Sequence[str], **fields: Any) -> ToolOutput:
        """The output so far, with notes and other fields of the result."""
        text = self.output().rstrip("\n") or "(no output)"
        return ToolOutput(text=text, notes=tuple(notes), **fields)

    def output(self) -> str:
        return self.capture.text() + self.capture.partial

    async def wait_for_end(self) -> str:
        """Waits for the shell itself to end, then kills what is left."""
        code = await self.tree.wait()
        await self.end()
        return _describe_end(code or 0)

    async def end(self) -> None:
        """Kills what is left and reads the rest of the output."""
        try:
            await self.tree.end()
            if self.tree.program is not None:
                await self.tree.wait()
        finally:
            if self._output is not None:
                asyncio.get_running_loop().remove_reader(self._output)
                with contextlib.suppress(OSError):
                    # Bounded: a process that could not be killed may still be writing.
                    all(self._read() for _ in range(100))
                self._output.close()
                self._output = None
                self._take(b"", final=True)
                self._send()
                self.capture.close()
            if self._channel >= 0:
                self.events, self._channel = check_statuses.read_events(self._channel), -1

    def _read(self) -> bool:
        """Reads what is in the pipe; False if there is no more for now."""
        if data := self._output.read(READ_BYTES):
            self._take(data)
            self.has_output.set()
        elif data is not None:  # the end
            asyncio.get_running_loop().remove_reader(self._output)
        return bool(data)

    def _take(self, data: bytes, *, final: bool = False) -> None:
        text = self.capture.take(data, final=final)
        if not self.moved:
            self._unsent = (self._unsent + text)[-MAX_EVENT_CHARS:]
            if self._sending is None:
                loop = asyncio.get_running_loop()
                self._sending = loop.call_later(EMIT_EVERY_S, self._send)

    def _send(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None
        partial = self.capture.partial
        if not self.moved and (self._unsent or partial != self._partial):
            call_id = self._context.call_id
            self._context.emit(OutputEvent(call_id=call_id, text=self._unsent, partial=partial))
            self._unsent, self._partial = "", partial
