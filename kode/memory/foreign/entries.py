"""One remembered thing of another agent, and the names of the agents."""

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
"""As a person reads them; `file` is Markdown of no agent in particular."""

MAX_ENTRY_CHARS = 2_000
"""More is a document, not a fact: it is refused by name, never cut."""


@dataclass(frozen=True, kw_only=True)
class Foreign:
    """One entry of a file of another agent."""

    text: str
    about: About
    line: int = 0
    """Where it begins in its file or block, from 1; 0 where there are no lines."""
    place: str = ""
    """What it stands in where a file holds several: `block human`, `memory 1f2e`."""
    project: str = ""
    """The folder it is about, where it says so."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What was read of one file."""

    entries: tuple[Foreign, ...] = ()
    left: tuple[str, ...] = ()
    """What was left out, each with where and why."""
