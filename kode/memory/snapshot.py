"""The memory of a subagent: a text from its parent in the system prompt, and nothing else.

It has no tool, keeps nothing and opens no folder. Making the text is `kode.subagents.protocol`'s.
"""

from kode.contracts import Injection, InjectReason
from kode.memory.null import NullMemory


class SnapshotMemory(NullMemory):
    """Injects the given section at every moment; every other hook is neutral."""

    def __init__(self, section: str) -> None:
        self._section = section

    @property
    def name(self) -> str:
        return "snapshot"

    async def inject(self, reason: InjectReason) -> Injection:
        return Injection(system=self._section)
