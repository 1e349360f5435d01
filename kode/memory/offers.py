"""What a memory system offers beyond the contract that the loop knows: optional protocols, and what
is said where a system lacks one.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from kode.contracts import MemorySystem
from kode.errors import MemoryRefused
from kode.memory.base import Addition, Waiting
from kode.memory.undo import Undoing


@runtime_checkable
class Inspectable(Undoing, Protocol):
    """What every system that keeps something offers."""

    @property
    def project(self) -> Path:
        """The project that it was opened in."""

    async def show(self) -> str:
        """What the next session will see, with fill levels and origins."""

    async def status(self) -> str:
        """Which system, how full, what is pending."""


@runtime_checkable
class Approving(Protocol):
    async def waiting(self) -> list[Waiting]:
        """What waits for a person's approval, oldest first."""

    async def approve(self, id: str) -> str:
        """Approves what waits under `id`. Raises: MemoryRefused, StorageError, BusyError."""


@runtime_checkable
class Dropping(Protocol):
    async def drop(self, id: str) -> str:
        """Drops what waits under `id`. Raises: MemoryRefused, StorageError, BusyError."""


@runtime_checkable
class Adding(Protocol):
    async def add(self, addition: Addition) -> str:
        """Keeps what a person typed. Raises: MemoryRefused, StorageError, BusyError."""


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


def lacking(system: MemorySystem, command: str) -> MemoryRefused:
    """The error for a command that a system does not have."""
    if system.name == "none":
        return MemoryRefused("Memory is off. Set memory.enabled to true, or leave out --no-memory.")
    return MemoryRefused(f"The {system.name} memory has no `{command}`. `kode memory --help`.")
