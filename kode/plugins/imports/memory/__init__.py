"""What other agents remember, for `kode memory import`.

places      the usual places, and whose a file is
readers     a file → its entries
markdown    a Markdown text → its entries
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kode.plugin import ForeignReading, ForeignSource
from kode.plugins.imports.memory import places, readers


@dataclass(frozen=True, kw_only=True)
class Agent:
    """One of the agents, as `kode memory import` asks it."""

    name: readers.Agent
    title: str
    is_format: bool = False

    def usual(self, project: Path) -> Iterable[ForeignSource]:
        return (source for source in places.usual(project) if source.agent == self.name)

    def owns(self, path: Path) -> bool:
        return places.owner(path) == self.name

    def named(self, path: Path) -> Iterable[ForeignSource]:
        return places.named(path, self.name)

    def read(self, source: ForeignSource, text: str) -> ForeignReading:
        return readers.read(self.name, source.path, text, source.about)


CLAUDE = Agent(name="claude", title="Claude Code")
CODEX = Agent(name="codex", title="Codex")
AGENTS_MD = Agent(name="agents", title="AGENTS.md", is_format=True)
FILE = Agent(name="file", title="a file", is_format=True)
"""Markdown of no particular agent."""
