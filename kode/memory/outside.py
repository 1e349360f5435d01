"""Memory outside a session: for commands of a person, and for what shows it or lets them decide."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kode import paths
from kode.contracts import AskReply, MemoryContext, MemorySystem
from kode.events import Emit, Event, Notice
from kode.memory import frame, make_system, report, review
from kode.memory.commands import memory_command
from kode.memory.policy import About
from kode.memory.statement import Outcome, Who

if TYPE_CHECKING:
    from kode.config import Config


@dataclass(frozen=True)
class OutsideMemory:
    """Memory that is open outside a session. Its methods raise MemoryRefused, StorageError."""

    system: MemorySystem
    notices: list[str]
    """What it had to say since it was opened."""

    def frame(self, about: str, text: str) -> str:
        """A text of memory for a model, marked as what it is; "" for none."""
        return frame.wrap(about, text)

    async def overview(self) -> report.Overview:
        """All of it."""
        return await report.overview(self.system)

    async def propose(self, text: str, about: About, client: str) -> Outcome:
        """Adds what an outsider says, which waits for the person."""
        return await review.propose(self.system, text, about, client)

    async def decide(self, id: str, choice: str, who: Who = "user") -> Outcome:
        """Carries out a choice about what waits."""
        return await review.decide(self.system, id, choice, who)

    async def command(self, argv: Sequence[str]) -> str:
        """Runs `kode memory ...`. Raises: KodeError."""
        return await memory_command(self.system, argv)


@asynccontextmanager
async def open_outside(
    config: "Config",
    cwd: Path,
    *,
    emit: Emit | None = None,
    ask_reply: AskReply | None = None,
    read_only: bool = False,
) -> AsyncIterator[OutsideMemory]:
    """Opens the configured memory for the project of `cwd`. Without `emit`, what it has to say is
    collected. Raises: ConfigError, StorageError."""
    system, notices = make_system(config.memory), list[str]()

    def collect(event: Event) -> None:
        if isinstance(event, Notice):
            notices.append(event.text)

    context = MemoryContext(
        root=paths.memory_folder(paths.home(), config.memory.data_dir),
        cwd=cwd,
        project_root=paths.repository_root(cwd),
        session_id=None,
        emit=emit or collect,
        ask_reply=ask_reply,
        now=lambda: datetime.now().astimezone(),
        read_only=read_only,
    )
    await system.open(context, {})
    try:
        yield OutsideMemory(system, notices)
    finally:
        await system.close(1.0)
