"""Definitions of agents: Markdown files that say what a subagent is for, which tools it has, and
how it works. `kode.subagents` starts one."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kode.contracts import EFFORTS, MODE_CALLED, Effort, PermissionMode
from kode.errors import ConfigError
from kode.extensions import front_matter
from kode.extensions.places import Place, Surroundings, files_below, find_each, read_text
from kode.extensions.tool_names import tools_of
from kode.extensions.trust import Item
from kode.messages import shorten

FAMILIES = (".kode", ".claude")
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
    model: str = ""
    """"": the current one."""
    effort: Effort | None = None
    """How much it thinks; None: as much as the parent."""
    mode: PermissionMode | None = None
    """Restricts the parent's mode; never widens it."""


def find_agents(around: Surroundings) -> tuple[list[AgentDefinition], list[str]]:
    """The available agents, nearest first, and a sentence for each unusable one."""
    remarks: list[str] = []
    read = partial(read_agent, remarks)
    found, problems = find_each(around, "agents", FAMILIES, _below, read)
    return found, [*problems, *remarks]


def _below(folder: Path) -> list[tuple[str, Path]]:
    return [("", path) for path in files_below(folder, ".md")]


def read_agent(problems: list[str], path: Path, place: Place, given: str) -> AgentDefinition:
    """Adds to `problems` what does not hinder its use. Raises: ConfigError that says in a few words
    why it cannot be used."""
    text = read_text(path, place)
    document = front_matter.read(text)
    if document.problem:  # without its limits it would do more than intended
        raise ConfigError(f"{path}: {document.problem}")
    description = document.text("description")
    if not description or not document.body:
        raise ConfigError(f"{path} has no {'prompt' if description else 'description'}")
    name = given or document.text("name") or path.stem
    model = document.text("model")
    return AgentDefinition(
        item=Item(kind="agent", name=name, origin=path, scope=place.scope, content=text),
        description=shorten(description, MAX_DESCRIPTION_CHARS),
        prompt=document.body,
        tools=_tools(document),
        model="" if model in INHERIT else model,
        effort=_effort(document, path, problems),
        mode=MODE_CALLED.get(document.text("permissionMode")),
    )


def _effort(document: front_matter.Document, path: Path, problems: list[str]) -> Effort | None:
    for field in ("effort", "reasoningEffort"):
        given = document.text(field).lower()
        if given in INHERIT:
            continue
        if given in EFFORTS:
            return EFFORTS[EFFORTS.index(given)]
        problems.append(
            f"The agent {path.stem} thinks as much as the session: its `{field}` is {given!r}; "
            f"the levels are {', '.join(EFFORTS)}."
        )
    return None


def _tools(document: front_matter.Document) -> frozenset[str] | None:
    given = document.text("tools")
    if "tools" not in document.fields or given == "*":
        return None
    return tools_of(given)
