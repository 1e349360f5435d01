"""Optional commands of a memory system beyond `BaseMemory`, and the errors without them."""

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

from kode.contracts import MemorySystem
from kode.errors import MemoryRefused
from kode.memory.base import BaseMemory
from kode.memory.guarded import Guarded


@runtime_checkable
class EpisodeReading(Protocol):
    async def list_episodes(self, count: int) -> str:
        """The newest episodes, one per line."""

    async def show_one(self, id: str) -> str:
        """One episode in full. Raises: MemoryRefused."""


@runtime_checkable
class FactEditing(Protocol):
    async def edit_facts(
        self,
        command: str,
        target: Literal["user", "env"],
        scope: Literal["global", "project"] | None,
        texts: Sequence[str],
    ) -> str:
        """`replace OLD NEW`, `archive OLD`, `remove OLD`, `consolidate`. Raises: MemoryRefused."""


def inside(system: MemorySystem) -> MemorySystem:
    """The system without its guard: a person wants its errors."""
    return system.system if isinstance(system, Guarded) else system


def kept_in(system: MemorySystem, command: str) -> BaseMemory:
    """The system inside, for a command about its content. Raises: MemoryRefused if it stores
    nothing that kode can read."""
    found = inside(system)
    if not isinstance(found, BaseMemory):
        raise lacking(found, command)
    return found


def lacking(system: MemorySystem, command: str) -> MemoryRefused:
    """The error for a command that a system lacks."""
    if system.name == "none":
        return MemoryRefused("Memory is off. Set memory.enabled to true, or leave out --no-memory.")
    return MemoryRefused(f"The {system.name} memory has no `{command}`. `kode memory --help`.")
