"""Definitions of agents: Markdown files that say what a subagent is for, which tools it has, and
how it works. `kode.subagents` starts one."""

from dataclasses import dataclass
from pathlib import Path

from kode.errors import ConfigError
from kode.extensions.places import Document, Place, files_below, read_document, read_text
from kode.extensions.trust import Item
from kode.messages import shorten
from kode.permissions.modes import MODE_CALLED, PermissionMode
from kode.permissions.tool_names import tools_of
from kode.provider import EFFORTS, Effort
from kode.tool import Tool

MAX_DESCRIPTION_CHARS = 400  # a hundred tokens of every request
INHERIT = ("", "inherit")


@dataclass(frozen=True, kw_only=True)
class AgentDefinition:
    item: Item
    description: str
    """When to use it, for the model."""
    prompt: str
    tools: frozenset[str] | None = None
    """The names of its only tools; None: those of every subagent."""
    without: frozenset[str] = frozenset()
    """The names of tools that it does not get."""
    servers: tuple[str, ...] | None = None
    """The only MCP servers that it gets of its parent's; None: all."""
    skills: tuple[str, ...] | None = None
    """The only skills that it gets, from the beginning; None: all, to load."""
    model: str = ""
    """"": the current one."""
    effort: Effort | None = None
    """How much it thinks; None: as much as the parent."""
    mode: PermissionMode | None = None
    """Restricts the parent's mode; never widens it."""

    def has(self, tool: str) -> bool:
        """Whether it has a tool of kode's own."""
        return tool not in self.without and (self.tools is None or tool in self.tools)


def has_all_tools(agent: AgentDefinition | None) -> bool:
    """Whether an agent gets every tool of the servers that it gets."""
    return agent is None or (
        agent.tools is None and not any(name.startswith("mcp__") for name in agent.without)
    )


def may_use(agent: AgentDefinition | None, tool: Tool) -> bool:
    """Whether an agent gets this tool of one server of its parent's."""
    if agent is None or tool.target is None:
        return has_all_tools(agent)
    server, _, name = tool.target({}).partition(":")
    prefix = f"mcp__{server}"
    ways = {tool.name, prefix, f"{prefix}__*", f"{prefix}__{name}", "mcp__*"}
    if ways & agent.without or not (agent.servers is None or server in agent.servers):
        return False
    if agent.tools is None or ways & agent.tools:
        return True
    # A list of tools that has none of a server, which is named besides, is about the others.
    return agent.servers is not None and not any(
        f"{listed}__".startswith(f"{prefix}__") for listed in agent.tools
    )


def list_agents(folder: Path) -> list[tuple[str, Path]]:
    """The files of agents in a folder, without names: each file names its agent."""
    return [("", path) for path in files_below(folder, ".md")]


def read_agent(path: Path, place: Place, given: str) -> AgentDefinition:
    """Raises: ConfigError that says in a few words why it cannot be used."""
    text = read_text(path, place)
    document = read_document(text)
    if document.problem:  # without its limits it would do more than intended
        raise ConfigError(f"{path}: {document.problem}")
    description = document.text("description")
    if not description or not document.body:
        raise ConfigError(f"{path} has no {'prompt' if description else 'description'}")
    name = given or document.text("name") or path.stem
    model, tools = document.text("model"), document.text("tools")
    return AgentDefinition(
        item=Item(kind="agent", name=name, origin=path, scope=place.scope, content=text),
        description=shorten(description, MAX_DESCRIPTION_CHARS),
        prompt=document.body,
        tools=tools_of(tools) if "tools" in document.fields and tools != "*" else None,
        without=tools_of(document.text("disallowedTools")),
        servers=_names(document, "mcpServers"),
        skills=_names(document, "skills"),
        model="" if model in INHERIT else model,
        effort=_effort(document),
        mode=MODE_CALLED.get(document.text("permissionMode")),
    )


def _effort(document: Document) -> Effort | None:
    words = [document.text(field).lower() for field in ("effort", "reasoningEffort")]
    return next((level for level in EFFORTS if level in words), None)


def _names(document: Document, field: str) -> tuple[str, ...] | None:
    """The names of a list, None if there is none. A server written out counts by its name alone: a
    definition starts none."""
    given = document.fields.get(field)
    if given is None:
        return None
    texts = given if isinstance(given, list | dict) else str(given).split(",")
    named = (name for value in texts for name in (value if isinstance(value, dict) else (value,)))
    return tuple(dict.fromkeys(name.strip() for name in map(str, named) if name.strip()))
