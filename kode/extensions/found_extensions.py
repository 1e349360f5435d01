"""Finds all extensions for a working directory, and which of them count: checks approvals, and
picks the nearest of each name; lists them for a person.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from kode import paths
from kode.errors import ConfigError, ToolError
from kode.extensions import trust
from kode.extensions.definitions import (
    CHARS_PER_TOKEN,
    AgentDefinition,
    Command,
    Skill,
    list_agents,
    list_commands,
    list_skills,
    read_agent,
    read_command,
    read_skill,
)
from kode.extensions.hooks import Hook, find_hooks, hooks_of_bundles
from kode.extensions.mcp_config import Entry, entries_in
from kode.extensions.mcp_server import forget
from kode.extensions.places import Bundle, Surroundings, find_each, parts, read_each, surroundings
from kode.extensions.trust import Approvals, Item
from kode.messages import columns, shorten
from kode.permissions.question import visible

Kind = Literal["skills", "commands", "agents", "hooks"]
Standing = Literal["used", "new", "changed", "shadowed"]
"""`new` and `changed` are off until a person approves them; `shadowed` has a nearer namesake."""
Extension = Skill | Command | AgentDefinition | Hook
T = TypeVar("T", bound=Extension, covariant=True)
SkillOrCommand = TypeVar("SkillOrCommand", Skill, Command)


@dataclass(frozen=True, kw_only=True)
class Found(Generic[T]):
    thing: T
    standing: Standing
    remark: str = ""
    """What shadows it."""


@dataclass(frozen=True, kw_only=True)
class FoundExtensions:
    """The extensions found, in order of precedence."""

    skills: tuple[Found[Skill], ...] = ()
    commands: tuple[Found[Command], ...] = ()
    agents: tuple[Found[AgentDefinition], ...] = ()
    hooks: tuple[Found[Hook], ...] = ()
    """All trusted ones count: none shadows another."""
    problems: Mapping[Kind, list[str]] = field(default_factory=dict)
    """A sentence for each unusable one."""

    def items(self) -> tuple[Item, ...]:
        """All of them, counting or not: what a person may be asked about."""
        kinds = (self.skills, self.commands, self.agents, self.hooks)
        return tuple(extension.thing.item for kind in kinds for extension in kind)


def in_use(extensions: Iterable[Found[T]]) -> tuple[T, ...]:
    """Those that count."""
    return tuple(extension.thing for extension in extensions if extension.standing == "used")


def items(home: Path, cwd: Path) -> tuple[Item, ...]:
    """Everything found for `cwd`, trusted or not; `home` is `$KODE_HOME`. Never raises."""
    return find(surroundings(cwd, home, paths.user_home()), Approvals()).items()


def find(around: Surroundings, approvals: Approvals) -> FoundExtensions:
    """Finds all extensions for the working directory. Only trusted ones shadow: an unapproved one
    of a repository takes no name away. Never raises."""
    problems: dict[Kind, list[str]] = {"skills": [*around.faults]}

    def judge(kind: Kind, things: list[T], faults: list[str]) -> tuple[Found[T], ...]:
        problems.setdefault(kind, []).extend(faults)
        nearest: dict[str, Path] = {}
        extensions = []
        for thing in things:
            item, state = thing.item, trust.state(thing.item, approvals)
            standing: Standing = "used" if state == "trusted" else state
            shadow = nearest.get(item.name) if kind != "hooks" and state == "trusted" else None
            if shadow is not None:
                standing = "shadowed"
            elif standing == "used":
                nearest[item.name] = item.origin
            remark = f"shadowed by {shadow}" if shadow else ""
            extensions.append(Found(thing=thing, standing=standing, remark=remark))
        return tuple(extensions)

    return FoundExtensions(
        skills=judge("skills", *find_each(around, "skills", list_skills, read_skill)),
        commands=judge("commands", *find_each(around, "commands", list_commands, read_command)),
        agents=judge("agents", *find_each(around, "agents", list_agents, read_agent)),
        hooks=judge("hooks", *find_hooks(around)),
        problems=problems,
    )


def reread(thing: SkillOrCommand, home: Path, project: Path) -> SkillOrCommand:
    """Reads a skill or command again from disk. Raises: ToolError if it has changed since this
    session began: the person approved only that content."""
    item, read = thing.item, read_skill if isinstance(thing, Skill) else read_command
    try:
        now: SkillOrCommand = read(item.origin, thing.place, item.name)  # type: ignore[assignment]
    except ConfigError as error:
        raise ToolError(f"The {item.kind} {item.name} cannot be read any more: {error}.") from None
    changed = item.scope in trust.FOREIGN and now.item.content != item.content
    if changed or trust.is_held(now.item, home, project):
        raise ToolError(
            f"The {item.kind} {item.name} has changed since this session began, so it is off until "
            "it is approved again (`kode extensions trust list`)."
        )
    return now


class BundleItems:
    """The parts of one bundle as a person approves them: all at once, with the bundle."""

    def __init__(self, bundle: Bundle, home: Path) -> None:
        """Reads them. Never raises."""
        self._home, folder = home, bundle.folder
        self.problems: list[str] = []
        """A sentence for each part that cannot be used."""
        around = Surroundings(cwd=folder, project=folder, home=home, user_home=folder)
        self._servers = [*entries_in(bundle.servers, folder, "bundle", folder, self.problems)]
        skills = read_each("skills", parts((bundle,), "skills"), read_skill, self.problems)
        commands = read_each("commands", parts((bundle,), "commands"), read_command, self.problems)
        agents = read_each("agents", parts((bundle,), "agents"), read_agent, self.problems)
        hooks = hooks_of_bundles((bundle,), around, self.problems)
        things: tuple[Extension | Entry, ...]
        things = (*skills, *commands, *agents, *hooks, *self._servers)
        self.items: tuple[Item, ...] = tuple(thing.item for thing in things)

    def forget_servers(self) -> None:
        """Removes the pins and caches of its servers. Raises: StorageError, BusyError."""
        for entry in self._servers:
            forget(self._home, entry, trust.load(self._home, entry.root))


HASH_CHARS = 12  # enough to tell versions apart
ABOUT_CHARS = 100  # one line

NONE: Mapping[Kind, str] = {
    "skills": "No skills here. kode reads .agents/skills, .claude/skills and .kode/skills.",
    "commands": "No commands here. kode reads .claude/commands and .kode/commands.",
    "agents": "No agents here. kode reads .claude/agents and .kode/agents.",
    "hooks": "No hooks here. kode reads .claude/settings.json and $KODE_HOME/config.json.",
}
"""Shown if there is none, in the project and in the home."""


def rows_of(found_extensions: FoundExtensions, kind: Kind) -> list[dict[str, Any]]:
    """All of one kind, in order of precedence: `state` is a `Standing`, `hash` the SHA-256 of what
    an approval covers, `tokens` about how much of a model's window it takes when used."""
    things: Sequence[Found[Extension]] = getattr(found_extensions, kind)
    return [
        {
            "name": it.thing.item.name,
            "state": it.standing,
            "scope": it.thing.item.scope,
            "origin": str(it.thing.item.origin),
            "hash": trust.digest(it.thing.item),
            "about": it.thing.description,
            "tokens": len(it.thing.body) // CHARS_PER_TOKEN,
            "remarks": (*it.thing.remarks, *filter(None, (it.remark,))),
        }
        for it in things
    ]


def lines_of(rows: Sequence[Mapping[str, Any]], kind: Kind) -> list[str]:
    """The rows for a person, and what to do about unapproved ones."""
    if not rows:
        return [NONE[kind]]
    cells = [
        (
            row["state"],
            row["name"],
            row["hash"][:HASH_CHARS],
            f"{row['tokens']} tokens" if kind != "hooks" else "",
            "; ".join((shorten(row["about"], ABOUT_CHARS), *row["remarks"])),
            f"({row['origin']})",
        )
        for row in rows
    ]
    # Before padding, so that gaps within a name are escaped but alignment is not.
    lines = columns([[*map(visible, line)] for line in cells])
    if any(row["state"] in ("new", "changed") for row in rows):
        lines.append("`kode extensions approve NAME` shows a pending item, and asks.")
    return lines
