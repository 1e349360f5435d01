"""The content of the memory page.

The only module here that opens memory, for each request.
"""

from collections import Counter
from collections.abc import Mapping

from kode.plugin import Place, open_memory


async def memory_values(place: Place) -> Mapping[str, object]:
    """Everything remembered, of every project, for its template. Raises: MemoryRefused,
    StorageError."""
    async with open_memory(place.config, place.cwd) as memory:
        overview = await memory.overview()
    return {
        "memory": overview,
        "sources": Counter(entry.statement.who for entry in overview.entries).most_common(),
        "notices": memory.notices,
        "here": place.project,
    }


async def decide(place: Place, id: str, choice: str) -> tuple[str, str]:
    """Carries out a choice about the waiting item with this id; returns a message and the id of the
    change that it is. Raises: MemoryRefused, StorageError, BusyError."""
    async with open_memory(place.config, place.cwd) as memory:
        outcome = await memory.decide(id, choice)
        return outcome.text, outcome.change.id if outcome.change else ""


async def undo(place: Place, change_id: str) -> str:
    """Undoes one change; returns a message about it. Raises: MemoryRefused, StorageError,
    BusyError."""
    async with open_memory(place.config, place.cwd) as memory:
        return await memory.command(["undo", change_id])
