"""The memory system that remembers nothing (`--no-memory`): the proof that the loop needs none."""

from collections.abc import Mapping, Sequence
from typing import Any

from kode.contracts import (
    Drop,
    DropReason,
    Hit,
    Injection,
    InjectReason,
    MemoryContext,
    SnapshotSection,
    Tool,
    Turn,
)
from kode.messages import Message


class NullMemory:
    """Every hook gives the neutral answer and touches nothing."""

    @property
    def name(self) -> str:
        return "none"

    @property
    def message_window(self) -> int | None:
        return None

    async def open(self, context: MemoryContext, state: Mapping[str, Any]) -> None:
        return None

    async def inject(self, reason: InjectReason) -> Injection:
        return Injection()

    async def recall(self, turn: Turn) -> str:
        return ""

    def tools(self) -> tuple[Tool, ...]:
        return ()

    async def after_turn(self, turn: Turn) -> None:
        return None

    async def before_drop(self, messages: Sequence[Message], reason: DropReason) -> Drop:
        return Drop()

    async def maintain(self) -> None:
        return None

    async def search(self, query: str, k: int) -> list[Hit]:
        return []

    async def snapshot(self) -> tuple[SnapshotSection, ...]:
        return ()

    def state(self) -> Mapping[str, Any]:
        return {}

    async def close(self, grace_s: float) -> None:
        return None


class SnapshotMemory(NullMemory):
    """Injects the given section at every moment; every other hook is neutral."""

    def __init__(self, section: str) -> None:
        self._section = section

    @property
    def name(self) -> str:
        return "snapshot"

    async def inject(self, reason: InjectReason) -> Injection:
        return Injection(system=self._section)
