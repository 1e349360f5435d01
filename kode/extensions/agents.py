"""Definitions of agents: Markdown files that say what a subagent is for, which tools it has, and
how it works. `kode.subagents` starts one."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kode.contracts import EFFORTS, MODE_CALLED, Effort, PermissionMode
from kode.errors import ConfigError
from kode.extensions import front_matter
from kode.extensions.places import Place, Surroundings, files_below, parts, places, read_text
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
    problems: list[str] = []
    own = (
        ("", path, place)
        for place in places(around, "agents", FAMILIES)
        for path in files_below(place.folder, ".md")
    )
    agents = read_agents(own, problems)
    return [*agents, *read_agents(parts(around.bundles, "agents"), [])], problems


def read_agents(
    found: Iterable[tuple[str, Path, Place]], problems: list[str]
) -> list[AgentDefinition]:
    """The agents of these files, by the names that are given to them or else their own; adds to
    `problems` a sentence for each unusable one."""
    definitions: list[AgentDefinition] = []
    for name, path, place in found:
        try:
            definitions.append(_agent(path, place, name, problems))
        except ConfigError as error:
            problems.append(f"The agent {path.stem} was left out: {str(error).rstrip('.')}.")
    return definitions


def _agent(path: Path, place: Place, given: str, problems: list[str]) -> AgentDefinition:
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
