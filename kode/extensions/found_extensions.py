"""Finds all extensions for a working directory, and which of them count: checks approvals, and
picks the nearest of each name.

`skills`, `commands`, `agents` and `hooks` read each kind.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Literal, Protocol, TypeVar

from kode import paths
from kode.extensions import trust
from kode.extensions.agents import AgentDefinition, find_agents
from kode.extensions.commands import Command, find_commands
from kode.extensions.hooks import Hook, find_hooks
from kode.extensions.places import Surroundings, surroundings
from kode.extensions.skills import Skill, find_skills
from kode.extensions.trust import Approvals, Item

Kind = Literal["skills", "commands", "agents", "hooks"]

Standing = Literal["used", "new", "changed", "shadowed"]
"""`new` and `changed` are off until a person approves them; `shadowed` has a nearer namesake."""


class Extension(Protocol):
    @property
    def item(self) -> Item: ...


T = TypeVar("T", bound=Extension, covariant=True)


@dataclass(frozen=True, kw_only=True)
class Found(Generic[T]):
    thing: T
    standing: Standing
    by: Path | None = None
    """Where the namesake is that shadows it."""
    may: tuple[str, ...] = ()
    """What its approval lets it do besides, see `trust.Approved`."""


@dataclass(frozen=True, kw_only=True)
class FoundExtensions:
    """The extensions found, in order of precedence."""

    skills: tuple[Found[Skill], ...] = ()
    commands: tuple[Found[Command], ...] = ()
    agents: tuple[Found[AgentDefinition], ...] = ()
    hooks: tuple[Found[Hook], ...] = ()
    """All trusted ones count: none shadows another."""
    problems: Mapping[Kind, Sequence[str]] = field(default_factory=dict)
    """A sentence for each unusable one."""

    def items(self) -> tuple[Item, ...]:
        """All of them, counting or not: what a person may be asked about."""
        found: tuple[Found[Extension], ...] = (
            *self.skills,
            *self.commands,
            *self.agents,
            *self.hooks,
        )
        return tuple(one.thing.item for one in found)


def in_use(found: Iterable[Found[T]]) -> tuple[T, ...]:
    """Those that count."""
    return tuple(one.thing for one in found if one.standing == "used")


def items(home: Path, cwd: Path) -> tuple[Item, ...]:
    """Everything found for `cwd`, trusted or not; `home` is `$KODE_HOME`. Never raises."""
    around = surroundings(cwd, home, paths.user_home())
    return find(around, Approvals()).items()


def find(around: Surroundings, approvals: Approvals) -> FoundExtensions:
    """Finds all extensions for the working directory. Never raises."""
    skills, of_skills = find_skills(around)
    commands, of_commands = find_commands(around)
    agents, of_agents = find_agents(around)
    hooks, of_hooks = find_hooks(around)
    return FoundExtensions(
        skills=_standing(skills, approvals),
        commands=_standing(commands, approvals),
        agents=_standing(agents, approvals),
        hooks=tuple(
            Found(
                thing=hook,
                standing=_off(hook, approvals) or "used",
                may=trust.given_to(hook.item, approvals),
            )
            for hook in hooks
        ),
        problems={
            "skills": [*around.faults, *of_skills],
            "commands": of_commands,
            "agents": of_agents,
            "hooks": of_hooks,
        },
    )


def _standing(things: Sequence[T], approvals: Approvals) -> tuple[Found[T], ...]:
    """Only trusted ones shadow: an unapproved one of a repository takes no name away."""
    taken: dict[str, Path] = {}
    found = []
    for thing in things:
        item = thing.item
        if off := _off(thing, approvals):
            found.append(Found(thing=thing, standing=off))
        elif item.name in taken:
            found.append(Found(thing=thing, standing="shadowed", by=taken[item.name]))
        else:
            taken[item.name] = item.origin
            found.append(Found(thing=thing, standing="used"))
    return tuple(found)


def _off(thing: Extension, approvals: Approvals) -> Literal["new", "changed"] | None:
    state = trust.state(thing.item, approvals)
    return None if state == "trusted" else state
