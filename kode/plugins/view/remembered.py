"""The content of the memory pages: what is remembered, and the history as linked changes.

The only module here that opens memory: for each request, read-only unless something is decided.
"""

import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kode.plugin import (
    MemoryChange,
    Place,
    decide_memory,
    memory_changes,
    memory_command,
    memory_overview,
    open_memory,
    outside_context,
    paths,
)
from kode.plugin.contracts import MemorySystem
from kode.plugin.events import Event, Notice

KINDS = {
    "fact": "Facts",
    "rule": "Rules",
    "soul": "Soul",
    "episode": "Episodes",
    "event": "Log",
}
"""The kinds of entries in display order."""
LINKED = 5
"""How many earlier or later changes are named."""

Values = Mapping[str, object]
"""What a template gets."""
Changes = dict[tuple[str, str, str], list[MemoryChange]]
"""System, target and text → the changes that made or replaced it."""


@dataclass(frozen=True, kw_only=True)
class Linked:
    """A change with its connections."""

    change: MemoryChange
    undone_by: MemoryChange | None
    """The undo of it that is in effect."""
    made_from: tuple[MemoryChange, ...]
    """Changes that created the texts it replaced, and the one it undoes, newest first."""
    led_to: tuple[MemoryChange, ...]
    """Changes that replaced the texts it created, oldest first."""


async def remembered(place: Place, source: str = "") -> Values:
    """Everything remembered, of every project; `shown` are the entries of this source.
    Raises: MemoryRefused, StorageError."""
    async with _opened(place) as (system, notices):
        memory = await memory_overview(system)
    shown = [entry for entry in memory.entries if source in ("", entry.rank.name.lower())]
    return {
        "memory": memory,
        "shown": shown,
        "narrowed": bool(source),
        "sources": Counter(
            entry.origin.who if entry.origin else "" for entry in memory.entries
        ).most_common(),
        "notices": notices,
        "here": paths.path_hash(paths.project_root(place.cwd)),
        "kinds": KINDS,
    }


async def history(place: Place) -> list[Linked]:
    """Every change of every system, newest first, with its connections. Raises: MemoryRefused,
    StorageError."""
    async with _opened(place) as (system, _):
        return linked(memory_changes(system))


async def chain(place: Place, change: MemoryChange) -> str:
    """The origin of what a change created, back to who said it; "" for a change of another system,
    for an undo, and if the history does not say. Raises: MemoryRefused, StorageError."""
    async with _opened(place) as (system, _):
        if change.undoes or change.system != system.name:
            return ""
        return await memory_command(system, ["why", change.id])


async def decide(place: Place, id: str, choice: str) -> tuple[str, str]:
    """Carries out a choice about the waiting item with this id; returns a message and the id of the
    change that it is. Raises: MemoryRefused, StorageError, BusyError."""
    async with _opened(place, read_only=False) as (system, _):
        done = await decide_memory(system, id, choice)
        return done.in_words(), done.change_id


async def undo(place: Place, change_id: str) -> str:
    """Undoes one change; returns a message about it. Raises: MemoryRefused, StorageError,
    BusyError."""
    async with _opened(place, read_only=False) as (system, _):
        return await memory_command(system, ["undo", change_id])


def linked(changes: Sequence[MemoryChange]) -> list[Linked]:
    """Changes, newest first, each with those that it shares texts with."""
    made: Changes = {}
    replaced: Changes = {}
    undone: dict[str, MemoryChange] = {}
    ineffective: set[str] = set()
    for change in changes:
        for text in change.after:
            made.setdefault((change.system, change.target, text), []).append(change)
        for text in change.before:
            replaced.setdefault((change.system, change.target, text), []).append(change)
        if change.undoes and change.id not in ineffective:
            ineffective.add(change.undoes)
            undone[change.undoes] = change
    place = {change.id: index for index, change in enumerate(changes)}

    def others(
        of: MemoryChange,
        texts: Iterable[str],
        known: Mapping[tuple[str, str, str], list[MemoryChange]],
    ) -> dict[str, MemoryChange]:
        keys = ((of.system, of.target, text) for text in texts)
        return {one.id: one for key in keys for one in known.get(key, ())}

    found = []
    for change in changes:
        position = place[change.id]
        known = others(change, change.before, made)
        if change.undoes in place:
            known[change.undoes] = changes[place[change.undoes]]
        older = [c for c in known.values() if place[c.id] > position]
        later = others(change, change.after, replaced)
        newer = [c for c in later.values() if place[c.id] < position]
        found.append(
            Linked(
                change=change,
                undone_by=undone.get(change.id),
                made_from=tuple(sorted(older, key=lambda c: place[c.id])[:LINKED]),
                led_to=tuple(sorted(newer, key=lambda c: -place[c.id])[:LINKED]),
            )
        )
    return found


@contextlib.asynccontextmanager
async def _opened(
    place: Place, *, read_only: bool = True
) -> AsyncIterator[tuple[MemorySystem, list[str]]]:
    """Opens the configured system; also yields its notices."""
    notices: list[str] = []

    def take(event: Event) -> None:
        if isinstance(event, Notice):
            notices.append(event.text)

    context = outside_context(place.config, place.cwd, emit=take, read_only=read_only)
    async with open_memory(place.config.memory, context) as system:
        yield system, notices
