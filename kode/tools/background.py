"""Commands that the person moved to the background: name, output, and how each ended.

`shell` starts a command, knows how to end it, and hands it over. Only the person moves, reads and
kills commands, at the prompt; the model reads the output file and gets a message when the command
ends. Nothing outlives the process: `close` ends all.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from kode.contracts import RunningCommand
from kode.errors import UserError
from kode.events import Emit, Notice, silent
from kode.messages import shorten

MAX_ENDED = 20
"""How many of the newest finished commands can still be read."""
TITLE_CHARS = 80


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
    _offered: dict[str, asyncio.Event] = field(default_factory=dict)
    _taken: int = 0

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

    def take(self, command: RunningCommand, session_id: str | None) -> str:
        self._taken += 1
        taken = BackgroundCommand(f"bg{self._taken}", command, session_id, command.since)
        taken.watch = asyncio.ensure_future(self._watch(taken))
        ended = [known for known in self.commands if not known.runs]
        for known in ended[: len(ended) - MAX_ENDED + 1]:
            self.commands.remove(known)
        self.commands.append(taken)
        return taken.name

    def running(self) -> list[BackgroundCommand]:
        """The commands that have not ended."""
        return [known for known in self.commands if known.runs]

    def find(self, name: str) -> BackgroundCommand:
        """The command with this name, `bg2` or `2`. Raises: UserError that lists the names."""
        wanted = name if name.startswith("bg") else f"bg{name}"
        for known in self.commands:
            if known.name == wanted:
                return known
        there = ", ".join(known.name for known in self.commands) or "none"
        raise UserError(f"There is no {name!r} in the background: {there}. `/bg list` shows all.")

    async def kill(self, known: BackgroundCommand) -> None:
        """Kills a command and everything it started; does nothing to one that has ended."""
        if not known.runs:
            return
        if known.watch is not None:
            known.watch.cancel()
        await self._end(known, "killed by the person")

    def news(self, session_id: str | None) -> str:
        lines = []
        for known in self.commands:
            if known.runs or known.reported or known.session_id != session_id:
                continue
            known.reported = True
            path = known.running.output_path
            where = f" Its output is in {path}." if path else ""
            lines.append(
                f"[The background command {known.name} (`{known.title}`) has ended: "
                f"{known.outcome}.{where}]"
            )
        return "\n".join(lines)

    async def close(self) -> None:
        """Kills all running commands."""
        for known in self.running():
            if known.watch is not None:
                known.watch.cancel()
        await asyncio.gather(*(known.running.end() for known in self.running()))
        for known in self.running():
            self._note_end(known, "ended with kode")

    async def _watch(self, known: BackgroundCommand) -> None:
        outcome = await known.running.ended()
        self._note_end(known, outcome)
        self.emit(
            Notice(
                text=f"{known.name} has ended, {outcome}: {known.title} "
                f"(/bg read {known.name} shows its output)",
                level="info",
            )
        )

    async def _end(self, known: BackgroundCommand, outcome: str) -> None:
        await known.running.end()
        self._note_end(known, outcome)

    def _note_end(self, known: BackgroundCommand, outcome: str) -> None:
        known.outcome, known.took_s = outcome, self.clock() - known.since
