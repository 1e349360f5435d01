"""Memory outside a session: for commands of a person, and for what shows it or lets them decide."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kode import paths
from kode.contracts import AskReply, MemoryContext, MemorySystem
from kode.events import Emit, Event, Notice
from kode.memory import frame, make_system, report, review
from kode.memory.commands import memory_command
from kode.memory.policy import About
from kode.memory.statement import Outcome

if TYPE_CHECKING:
    from kode.config import Config


class OutsideMemory(NamedTuple):
    """Memory that is open outside a session. What it does raises MemoryRefused, StorageError."""

    system: MemorySystem
    notices: list[str]
    """What it had to say since it was opened."""
    frame: Callable[[str, str], str]
    """`frame(about, text)`: a text of memory for a model, marked as what it is; "" for none."""
    overview: Callable[[], Awaitable[report.Overview]]
    """All of it."""
    propose: Callable[[str, About, str], Awaitable[Outcome]]
    """`propose(text, about, client)` adds what an outsider says, which waits for the person."""
    decide: Callable[..., Awaitable[Outcome]]
    """`decide(id, choice, who="user")` carries out a choice about what waits."""
    command: Callable[[Sequence[str]], Awaitable[str]]
    """Runs `kode memory ...`. Raises: KodeError."""


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
        yield OutsideMemory(
            system,
            notices,
            frame.wrap,
            partial(report.overview, system),
            partial(review.propose, system),
            partial(review.decide, system),
            partial(memory_command, system),
        )
    finally:
        await system.close(1.0)
