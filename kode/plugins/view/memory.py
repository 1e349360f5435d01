"""The content of the memory page.

The only module here that opens memory, for each request.
"""

import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Mapping

from kode.plugin import (
    Event,
    MemorySystem,
    Notice,
    Place,
    decide_memory,
    memory_command,
    memory_overview,
    open_memory,
    outside_context,
    path_hash,
    project_root,
)


async def memory_values(place: Place) -> Mapping[str, object]:
    """Everything remembered, of every project, for its template. Raises: MemoryRefused,
    StorageError."""
    async with opened_memory(place) as (system, notices):
        memory = await memory_overview(system)
    return {
        "memory": memory,
        "sources": Counter(entry.statement.who for entry in memory.entries).most_common(),
        "notices": notices,
        "here": path_hash(project_root(place.cwd)),
    }


async def decide(place: Place, id: str, choice: str) -> tuple[str, str]:
    """Carries out a choice about the waiting item with this id; returns a message and the id of the
    change that it is. Raises: MemoryRefused, StorageError, BusyError."""
    async with opened_memory(place) as (system, _):
        outcome = await decide_memory(system, id, choice)
        return outcome.text, outcome.change.id if outcome.change else ""


async def undo(place: Place, change_id: str) -> str:
    """Undoes one change; returns a message about it. Raises: MemoryRefused, StorageError,
    BusyError."""
    async with opened_memory(place) as (system, _):
        return await memory_command(system, ["undo", change_id])


@contextlib.asynccontextmanager
async def opened_memory(place: Place) -> AsyncIterator[tuple[MemorySystem, list[str]]]:
    """Opens the configured system; also yields its notices."""
    notices: list[str] = []

    def note(event: Event) -> None:
        if isinstance(event, Notice):
            notices.append(event.text)

    context = outside_context(place.config, place.cwd, emit=note)
    async with open_memory(place.config.memory, context) as system:
        yield system, notices
