"""One remembered thing of another agent, and the agents' names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from kode.memory.proposals import About

Agent = Literal["claude", "codex", "letta", "mem0", "agents", "file"]
AGENTS: Sequence[Agent] = get_args(Agent)
NAMES: Mapping[str, str] = {
    "claude": "Claude Code",
    "codex": "Codex",
    "letta": "Letta",
    "mem0": "mem0",
    "agents": "AGENTS.md",
    "file": "a file",
}
"""For a person; `file` is Markdown of no particular agent."""

MAX_ENTRY_CHARS = 2_000
"""More is a document, not a fact: it is refused by name, never cut."""


@dataclass(frozen=True, kw_only=True)
class Foreign:
    """One entry of another agent's file."""

    text: str
    about: About
    line: int = 0
    """Its first line in its file or block, from 1; 0 without lines."""
    place: str = ""
    """Its place in a file with several: `block human`, `memory 1f2e`."""
    project: str = ""
    """The folder it is about, if it says so."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The result of reading one file."""

    entries: tuple[Foreign, ...] = ()
    left: tuple[str, ...] = ()
    """What was left out, each with place and reason."""
