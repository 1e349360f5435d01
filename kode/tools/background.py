"""Commands and subagents in the background: name, output, and how each ended.

`shell` starts a command, knows how to end it, and hands it over: because the person moved it there,
or because the model started it there. The person reads and kills all of them at the prompt, the
model those of its session with `job`, and it gets a message when one ends. Nothing outlives
the process; what the model started does not outlive its session.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kode.contracts import Job, RunningCommand
from kode.errors import UserError
from kode.events import Emit, Notice, silent
from kode.messages import shorten

MAX_ENDED = 20
"""How many of the newest finished commands can still be read."""
TITLE_CHARS = 80  # one line


@dataclass
class BackgroundCommand:
    name: str
    """`bg1`, `bg2` ..., in order of arrival."""
    running: RunningCommand
    session_id: str | None
    since: float
    outcome: str = ""
    """How it ended; "" while it runs."""
    took_s: float = 0.0
    reported: bool = False
    """Whether the model has been notified of its end."""
    read_to: int = 0
    with_session: bool = False
    tell: Callable[[str], None] | None = None
    watch: "asyncio.Task[None] | None" = None

    @property
    def command(self) -> str:
        return self.running.command

    @property
    def title(self) -> str:
        """The command, as a short label."""
        return shorten(self.command, TITLE_CHARS)

    @property
    def runs(self) -> bool:
        return not self.outcome

    def last_line(self) -> str:
        """The last non-empty line of its output."""
        lines = self.running.output()[-4000:].split("\n")
        return next((line for line in reversed(lines) if line.strip()), "")


@dataclass
class BackgroundCommands:
    """The background commands of one process; implements `Background`."""

    emit: Emit = silent
    clock: Callable[[], float] = time.monotonic
    commands: list[BackgroundCommand] = field(default_factory=list)
    """In order of arrival, including finished ones."""
    has_news: bool = False
    _offered: dict[str, asyncio.Event] = field(default_factory=dict)
    _taken: int = 0
    _told: list[tuple[str | None, str]] = field(default_factory=list)

    def offer(self, call_id: str) -> asyncio.Event:
        return self._offered.setdefault(call_id, asyncio.Event())

    def withdraw(self, call_id: str) -> None:
        self._offered.pop(call_id, None)

    @property
    def movable(self) -> bool:
        """Whether a running command can be moved here."""
        return any(not wish.is_set() for wish in self._offered.values())

    def move(self) -> bool:
        """Moves the running command here; False if there is none."""
        for wish in reversed(self._offered.values()):
            if not wish.is_set():
                wish.set()
                return True
        return False

    def take(
        self,
        command: RunningCommand,
        session_id: str | None,
        *,
        with_session: bool = False,
        tell: Callable[[str], None] | None = None,
    ) -> str:
        self._taken += 1
        name = f"bg{self._taken}"
        taken = BackgroundCommand(
            name, command, session_id, command.since, with_session=with_session, tell=tell
        )
        taken.watch = asyncio.ensure_future(self._watch(taken))
        ended = [known for known in self.commands if not known.runs]
        for background in ended[: len(ended) - MAX_ENDED + 1]:
            self.commands.remove(background)
        self.commands.append(taken)
        return taken.name

    def running(self) -> list[BackgroundCommand]:
        """The commands that have not ended."""
        return [command for command in self.commands if command.runs]

    @property
    def is_busy(self) -> bool:
        return bool(self.running())

    def find(self, name: str) -> BackgroundCommand:
        """The command with this name, `bg2` or `2`. Raises: UserError that lists the names."""
        wanted = name if name.startswith("bg") else f"bg{name}"
        for command in self.commands:
            if command.name == wanted:
                return command
        there = ", ".join(background.name for background in self.commands) or "none"
        raise UserError(f"No background command is called {name!r}. Known: {there}.")

    async def wait(self, job: Job, limit_s: float) -> None:
        watch = self.find(job.name).watch
        if watch is not None:
            await asyncio.wait((watch,), timeout=limit_s)

    async def kill(self, job: Job, outcome: str = "killed by the person") -> None:
        command = self.find(job.name)
        if not command.runs:
            return
        if command.watch is not None:
            command.watch.cancel()
        await command.running.end()
        self._note_end(command, outcome)

    def tell(self, session_id: str | None, text: str) -> None:
        self._told.append((session_id, text))
        self.has_news = True

    def news(self, session_id: str | None) -> str:
        lines = []
        for command in self.commands:
            if command.runs or command.reported or command.session_id != session_id:
                continue
            command.reported = True
            path = command.running.output_path
            where = f" Its output is in {path}." if path else ""
            lines.append(
                f"[The background job {command.name} (`{command.title}`) has ended: "
                f"{command.outcome}.{where}]"
            )
        lines += [text for of, text in self._told if of == session_id]
        self._told = [(of, text) for of, text in self._told if of != session_id]
        unread = (known for known in self.commands if not known.runs and not known.reported)
        self.has_news = bool(self._told) or any(unread)
        return "\n".join(lines)

    async def close(self) -> None:
        """Kills all running commands."""
        await self._kill(self.running(), "ended with kode")

    async def leave(self, session_id: str | None) -> None:
        """Kills what ends with this session."""
        of_it = [
            command
            for command in self.running()
            if command.with_session and command.session_id == session_id
        ]
        await self._kill(of_it, "ended with its session")

    async def _kill(self, commands: Sequence[BackgroundCommand], outcome: str) -> None:
        await asyncio.gather(*(self.kill(command, outcome) for command in commands))

    async def _watch(self, command: BackgroundCommand) -> None:
        outcome = await command.running.ended()
        self._note_end(command, outcome)
        end = f"{command.name} has ended, {outcome}: {command.title}"
        self.emit(Notice(text=f"{end} (/bg read {command.name} shows its output)", level="info"))

    def _note_end(self, command: BackgroundCommand, outcome: str) -> None:
        command.outcome, command.took_s = outcome, self.clock() - command.since
        self.has_news = True
