"""Commands and subagents in the background: name, output, and how each ended.

`shell` hands over a command that the person moved here or the model started here. The person reads
and kills all of them at the prompt, the model those of its session with `job`. Nothing outlives the
process; what the model started does not outlive its session, whose log records the beginning and
the end of each.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from kode.errors import StorageError, ToolError, UserError
from kode.events import Emit, Notice, no_emit
from kode.messages import shorten
from kode.session.entries import JobEntry, NoteEntry, new_id, timestamp
from kode.session.messages import running_jobs
from kode.tool import ToolContext, ToolOutput, tool
from kode.tools.output import MAX_CHARS, Capture
from kode.values import dataclass, field, replace

if TYPE_CHECKING:
    from kode.session.entries import Entry
    from kode.session.log import Session

TITLE_CHARS = 80  # one line
WITH_KODE = "ended with kode"
MAX_WAIT_S = 600  # as the longest time of a command
_HALF = MAX_CHARS * 3 // 8


class RunningCommand(Protocol):
    """A running shell command or subagent, which may outlive its call."""

    @property
    def command(self) -> str: ...
    @property
    def since(self) -> float:
        """Start time, by `time.monotonic`."""

    @property
    def capture(self) -> Capture | None:
        """What it prints; None for a subagent."""

    def output(self) -> str:
        """Output so far, cleaned; only both ends of a long one."""

    @property
    def untrusted(self) -> str:
        """The outside source of its output; "" if there is none."""

    async def wait_for_end(self) -> str:
        """Waits until the command and everything it started have ended; returns how: `exit status
        0`."""

    async def end(self) -> None:
        """Kills the command and everything it started."""


@dataclass
class BackgroundCommand:
    """A command or a subagent in the background."""

    name: str
    """`bg1`, `bg2` ..., in order of arrival."""
    running: RunningCommand
    session_id: str | None
    with_session: bool = False
    """Whether it ends with its session, not only with kode."""
    work: Callable[[], ToolOutput] | None = None
    """Returns what a subagent changed and checked; to be called once it has ended."""
    outcome: str = ""
    """How it ended; "" while it runs."""
    took_s: float = 0.0
    read_to: int = 0
    """How far the model has read its output file, in bytes."""
    beginning: JobEntry = field(init=False)
    """The record of its beginning."""
    watch: "asyncio.Task[None]" = field(init=False)
    """The task that waits for the end and records it."""

    @property
    def runs(self) -> bool:
        return not self.outcome

    @property
    def output_path(self) -> Path | None:
        """The file with its output; None if it could not be written."""
        return self.running.capture.path if self.running.capture else None

    def last_line(self) -> str:
        """The last non-empty line of its output."""
        lines = self.running.output()[-4000:].split("\n")
        return next((line for line in reversed(lines) if line.strip()), "")

    def read(self, start: int | None = None) -> str:
        """The output from a position of its file, or from where the last call ended; the middle of
        a long one is left out. Raises: ToolError."""
        capture, path = self.running.capture, self.output_path
        if capture is None or path is None:
            return self.running.output()
        try:
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(min(self.read_to if start is None else max(start, 0), size))
                data = file.read(_HALF)
                if left_out := max(0, size - _HALF - file.tell()):
                    file.seek(left_out, os.SEEK_CUR)
                    note = f"{left_out:,} bytes left out here. The whole output is in {path}."
                    data += f"\n[{note}]\n".encode()
                data += file.read(size - file.tell())
        except OSError as error:
            raise ToolError(f"Its output could not be read: {error}.") from None
        self.read_to = size
        return (data.decode("utf-8", "replace") + capture.partial).rstrip("\n")


@dataclass
class BackgroundCommands:
    """The commands and subagents in the background of one process."""

    emit: Emit = no_emit
    commands: list[BackgroundCommand] = field(default_factory=list)
    """In order of arrival, including finished ones."""
    session: "Session | None" = None
    """The session that is open now."""
    _requests: list[asyncio.Event] = field(default_factory=list)
    _count: int = 0
    _late: dict[str | None, list["Entry"]] = field(default_factory=dict)
    """Entries for sessions that are not open now, by session id."""
    _work: dict[str | None, list[ToolOutput]] = field(default_factory=dict)
    """The work of ended subagents that `take_work` has not returned yet, by session id."""

    def enter(self, session: "Session") -> None:
        """Writes to this session's log from now on. Commands that the log leaves running are
        recorded as ended with the kode that ran them, unless they run in this one."""
        self.session = session
        for entry in self._late.pop(session.id, []):
            self._record(session.id, entry)
        alive = {command.beginning.id for command in self.list_running()}
        for job in running_jobs(session.entries):
            if job.id not in alive:
                self._record(session.id, _record_end(job, WITH_KODE))

    @contextlib.contextmanager
    def offer(self) -> Iterator[asyncio.Event]:
        """Offers a call's command to `move`, which requests the move by setting the event."""
        request = asyncio.Event()
        self._requests.append(request)
        try:
            yield request
        finally:
            self._requests.remove(request)

    def move(self) -> bool:
        """Requests that the newest running command move here; returns False if there is none."""
        for request in reversed(self._requests):
            if not request.is_set():
                request.set()
                return True
        return False

    def take(self, command: RunningCommand, session_id: str | None, **options: Any) -> str:
        """Takes over a command and the duty to end it; returns its name in the background.
        `options` are `with_session` and `work` of `BackgroundCommand`."""
        self._count += 1
        job = BackgroundCommand(f"bg{self._count}", command, session_id, **options)
        title, output = shorten(command.command, TITLE_CHARS), str(job.output_path or "")
        job.beginning = JobEntry(name=job.name, title=title, output=output)
        self._record(session_id, job.beginning)
        job.watch = asyncio.ensure_future(self._watch(job))
        self.commands.append(job)
        return job.name

    def list_running(self) -> list[BackgroundCommand]:
        """The commands that have not ended."""
        return [command for command in self.commands if command.runs]

    def find(self, name: str) -> BackgroundCommand:
        """The command with this name, `bg2` or `2`. Raises: UserError that lists the names."""
        jobs = {command.name: command for command in self.commands}
        if job := jobs.get(name if name.startswith("bg") else f"bg{name}"):
            return job
        names = ", ".join(jobs) or "none"
        raise UserError(f"No background command is called {name!r}. Known: {names}.")

    async def kill(self, command: BackgroundCommand, outcome: str = "killed by the person") -> None:
        """Kills it and everything it started; does nothing if it has ended."""
        if command.runs:
            command.watch.cancel()
            await command.running.end()
            self._note_end(command, outcome)

    def tell(self, session_id: str | None, text: str) -> None:
        """Records a note that the next message passes on to this session's model."""
        self._record(session_id, NoteEntry(text=text))

    def take_work(self, session_id: str | None) -> list[ToolOutput]:
        """The work of this session's subagents that have ended since the last call."""
        return self._work.pop(session_id, [])

    async def close(self) -> None:
        """Kills all running commands."""
        await asyncio.gather(*(self.kill(job, WITH_KODE) for job in self.list_running()))

    async def leave(self, session_id: str | None) -> None:
        """Kills the commands that end with this session."""
        jobs = [
            job for job in self.list_running() if job.with_session and job.session_id == session_id
        ]
        await asyncio.gather(*(self.kill(job, "ended with its session") for job in jobs))

    async def _watch(self, command: BackgroundCommand) -> None:
        outcome = await command.running.wait_for_end()
        self._note_end(command, outcome)
        end = f"{command.name} has ended, {outcome}: {command.beginning.title}"
        self.emit(Notice(text=f"{end} (/bg names the file of its output)", level="info"))

    def _note_end(self, command: BackgroundCommand, outcome: str) -> None:
        command.outcome, command.took_s = outcome, time.monotonic() - command.running.since
        self._record(command.session_id, _record_end(command.beginning, outcome))
        if command.work is not None:
            self._work.setdefault(command.session_id, []).append(command.work())

    def _record(self, session_id: str | None, entry: "Entry") -> None:
        if self.session is None or self.session.id != session_id:
            self._late.setdefault(session_id, []).append(entry)
            return
        try:
            self.session.append(entry)
        except StorageError as error:
            self.emit(Notice(text=str(error), level="error"))


def _record_end(job: JobEntry, outcome: str) -> JobEntry:
    return replace(job, id=new_id(), at=timestamp(), of=job.id, outcome=outcome)


@tool(effect="none", subject="id")
async def job(
    context: ToolContext,
    id: str,
    wait_s: float = 0,
    start: Annotated[int | None, "Position, 0 for all"] = None,
    stop: bool = False,
) -> ToolOutput:
    """Read a background command or subagent; await or stop it."""
    background = context.background
    if background is None:
        raise ToolError("Nothing runs in the background here.")
    job = background.find(id)
    if job.session_id != context.session_id:
        raise ToolError(f"{job.name} belongs to another session.")
    if stop:
        await background.kill(job, "stopped")
    elif wait_s > 0:
        await asyncio.wait((job.watch,), timeout=min(wait_s, MAX_WAIT_S))
    text = job.read(start)
    state = job.outcome or "running"
    return ToolOutput(
        text=f"{text or '(nothing new)'}\n[{job.name}: {state}; position {job.read_to}]",
        summary=f"{job.name}: {state}",
        untrusted=job.running.untrusted,
        ended_job=job.name if job.outcome else "",
    )
