"""Memory outside a session: for commands of a person, and for agents that have none."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

from kode import paths
from kode.config import Config, MemoryConfig
from kode.contracts import AskReply, MemoryContext, MemorySystem
from kode.events import Emit
from kode.memory import make_system
from kode.memory.base import BaseMemory, NullMemory


def outside_context(
    config: Config,
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
    settings: MemoryConfig, context: MemoryContext, *, settles: bool = True
) -> AsyncIterator[MemorySystem]:
    """Opens the configured system, or a null one if memory is off; unless `settles` is false,
    compares it with its history. Raises: ConfigError."""
    system = make_system(settings) if settings.enabled else NullMemory()
    await system.open(context, {})
    try:
        if settles and isinstance(system, BaseMemory):
            await system.reconcile()
        yield system
    finally:
        await system.close(1.0)
