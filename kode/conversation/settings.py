"""What a conversation is opened with: one value, which its agent is built from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kode.config.load import Loaded
from kode.config.model import Config
from kode.events import Emit, silent
from kode.extensions.mcp_config import Elicit, Entry
from kode.memory.contract import MemorySystem
from kode.permissions.question import Ask
from kode.tool import Tool

if TYPE_CHECKING:
    from kode.extensions.agents import AgentDefinition
    from kode.subagents.task import Start


@dataclass(frozen=True, kw_only=True)
class Child:
    """What makes a conversation that of a subagent: a session among its parent's records, and
    neither servers nor plug-ins, but for those that decide about calls."""

    agent_type: str
    """The definition that it uses, for hooks."""
    definition: "AgentDefinition | None" = None
    """None: nothing limits its tools and skills."""
    folder: Path | None = None
    """Among its parent's records: of its transcript and outputs; None: it has no parent."""
    parent_session: str | None = None
    start: "Start | None" = None
    """What its parent passed."""


@dataclass(frozen=True)
class Settings:
    """What a conversation is opened with, which all its sessions share."""

    loaded: Loaded
    """The configuration; `/model` and `/effort` change it, and the agent."""
    _: KW_ONLY
    emit: Emit = silent
    ask: Ask | None = None
    """Puts a permission question to the person; None if nobody can be asked."""
    elicit: Elicit | None = None
    """Puts a form of an MCP server to the person."""
    tools: tuple[Tool, ...] = ()
    """Offered beside kode's own."""
    sections: Callable[[], Mapping[str, str]] = dict
    """What plug-ins add to the system prompt, by name."""
    memory: MemorySystem | None = None
    """Replaces the configured system."""
    keep_session: bool = True
    trust_project: bool = False
    """Whether the repository's extensions count as approved (`--trust-project`)."""
    servers: Sequence[Entry] = ()
    """MCP servers that the program that runs kode names: trusted, and stored nowhere."""
    client_servers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Likewise, by name: those that an editor names for the session."""
    child: Child | None = None
    """None for the main agent."""

    @property
    def config(self) -> Config:
        return self.loaded.config

    def with_config(self, config: Config) -> "Settings":
        """These with a changed configuration."""
        return replace(self, loaded=replace(self.loaded, config=config))
