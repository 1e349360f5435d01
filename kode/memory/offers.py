"""What a memory system may offer beyond `BaseMemory`, and what is said where it does not."""

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

from kode.contracts import MemorySystem
from kode.errors import MemoryRefused
from kode.memory.base import BaseMemory
from kode.memory.guarded import Guarded


@runtime_checkable
class EpisodeReading(Protocol):
    async def list_episodes(self, count: int) -> str:
        """The newest episodes, one a line."""

    async def show_one(self, id: str) -> str:
        """One episode, whole. Raises: MemoryRefused."""


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
    """The same, for a command about what it keeps. Raises: MemoryRefused for one that keeps
    nothing that kode knows of."""
    found = inside(system)
    if not isinstance(found, BaseMemory):
        raise lacking(found, command)
    return found


def lacking(system: MemorySystem, command: str) -> MemoryRefused:
    """The error for a command that a system does not have."""
    if system.name == "none":
        return MemoryRefused("Memory is off. Set memory.enabled to true, or leave out --no-memory.")
    return MemoryRefused(f"The {system.name} memory has no `{command}`. `kode memory --help`.")
