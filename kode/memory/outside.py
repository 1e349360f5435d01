"""Memory outside a session: for commands of a person, and for what shows it or lets them decide."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kode import paths
from kode.contracts import AskReply, MemoryContext, MemorySystem
from kode.events import Emit, Event, Notice
from kode.memory import frame, make_system, report, review
from kode.memory.commands import memory_command
from kode.memory.statement import Outcome, Who
from kode.memory.system import NullMemory

if TYPE_CHECKING:
    from kode.config import Config, MemoryConfig


def outside_context(
    config: "Config",
    cwd: Path,
    *,
    emit: Emit,
    ask_reply: AskReply | None = None,
    read_only: bool = False,
) -> MemoryContext:
    """What memory may know outside a session."""
    return MemoryContext(
        root=paths.memory_folder(paths.home(), config.memory.data_dir),
        cwd=cwd,
        project_root=paths.repository_root(cwd),
        session_id=None,
        emit=emit,
        ask_reply=ask_reply,
        now=lambda: datetime.now().astimezone(),
        read_only=read_only,
    )


@asynccontextmanager
async def open_configured(
    settings: "MemoryConfig", context: MemoryContext
) -> AsyncIterator[MemorySystem]:
    """Opens the configured system, or a null one if memory is off. Raises: ConfigError."""
    system = make_system(settings) if settings.enabled else NullMemory()
    await system.open(context, {})
    try:
        yield system
    finally:
        await system.close(1.0)


@dataclass(frozen=True)
class OutsideMemory:
    """Memory that is open outside a session, for what shows it or lets a person decide."""

    system: MemorySystem
    notices: list[str]
    """What it had to say since it was opened."""

    def frame(self, about: str, text: str) -> str:
        """A text of memory for a model, marked as what it is; "" for none."""
        return frame.wrap(about, text) if text else ""

    async def overview(self) -> report.Overview:
        """All of it. Raises: MemoryRefused, StorageError."""
        return await report.overview(self.system)

    async def propose(self, text: str, about: Literal["user", "project"], client: str) -> Outcome:
        """Adds what an outsider says, which waits for the person. Raises: MemoryRefused."""
        return await review.propose(self.system, text, about, client)

    async def decide(self, id: str, choice: str, who: Who = "user") -> Outcome:
        """Carries out a choice about what waits. Raises: MemoryRefused, StorageError."""
        return await review.decide(self.system, id, choice, who)

    async def command(self, argv: Sequence[str]) -> str:
        """Runs `kode memory ...`. Raises: KodeError."""
        return await memory_command(self.system, argv)


@asynccontextmanager
async def open_outside(config: "Config", cwd: Path) -> AsyncIterator[OutsideMemory]:
    """Opens the configured memory for the project of `cwd`. Raises: ConfigError."""
    notices: list[str] = []

    def emit(event: Event) -> None:
        if isinstance(event, Notice):
            notices.append(event.text)

    context = outside_context(config, cwd, emit=emit)
    async with open_configured(config.memory, context) as system:
        yield OutsideMemory(system, notices)
