"""Commands that the person has sent to the background: each with a name, its output, how it ended.

A command comes here from `shell`, which started it and knows how to end it. Who may move, read and
kill one is the person, at the prompt; the model reads the file with its output and is told when it
has ended. Nothing here outlives the process: `close` ends all.
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
"""Of commands that have ended, so many of the newest stay to be read."""
TITLE_CHARS = 80


@dataclass
class BackgroundCommand:
    name: str
    """`bg1`, `bg2` ..., in the order they came."""
    running: RunningCommand
    session_id: str | None
    since: float
    outcome: str = ""
    """How it ended; "" while it runs."""
    took_s: float = 0.0
    reported: bool = False
    """Whether the model knows that it has ended."""
    watch: "asyncio.Task[None] | None" = None

    @property
    def command(self) -> str:
        return self.running.command

    @property
    def title(self) -> str:
        """The command, where it is named."""
        return shorten(self.command, TITLE_CHARS)

    @property
    def runs(self) -> bool:
        return not self.outcome

    def last_line(self) -> str:
        """The last line of its output that is not empty."""
        lines = self.running.output()[-4000:].split("\n")
        return next((line for line in reversed(lines) if line.strip()), "")


@dataclass
class BackgroundCommands:
    """All of one process: a `Background`."""

    emit: Emit = silent
    clock: Callable[[], float] = time.monotonic
    commands: list[BackgroundCommand] = field(default_factory=list)
    """In the order they came, those that have ended too."""
    _offered: dict[str, asyncio.Event] = field(default_factory=dict)
    _taken: int = 0

    def offer(self, call_id: str) -> asyncio.Event:
        return self._offered.setdefault(call_id, asyncio.Event())

    def withdraw(self, call_id: str) -> None:
        self._offered.pop(call_id, None)

    @property
    def movable(self) -> bool:
        """Whether a command runs now that could be sent here."""
        return any(not wish.is_set() for wish in self._offered.values())

    def move(self) -> bool:
        """Sends the command that runs now here; False when none does."""
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
        """Those that have not ended."""
        return [known for known in self.commands if known.runs]

    def find(self, name: str) -> BackgroundCommand:
        """The command of this name, `bg2` or `2`. Raises: UserError that says which there are."""
        wanted = name if name.startswith("bg") else f"bg{name}"
        for known in self.commands:
            if known.name == wanted:
                return known
        there = ", ".join(known.name for known in self.commands) or "none"
        raise UserError(f"There is no {name!r} in the background: {there}. `/bg list` shows all.")

    async def kill(self, known: BackgroundCommand) -> None:
        """Ends a command with all it started; one that has ended stays as it is."""
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
        """Ends all that still run."""
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
