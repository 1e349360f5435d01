"""Lists skills, commands, agents and hooks for a person: origin, state, and cost in tokens."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kode.credentials import redact
from kode.extensions import trust
from kode.extensions.agents import AgentDefinition
from kode.extensions.commands import Command
from kode.extensions.found_extensions import Extension, Found, FoundExtensions, Kind
from kode.extensions.hooks import Hook, said_of
from kode.extensions.skills import Skill
from kode.messages import shorten
from kode.permissions.gate import visible

CHARS_PER_TOKEN = 4
"""OpenAI's rule of thumb for English text."""
HASH_CHARS = 12  # enough to tell versions apart
ABOUT_CHARS = 100  # one line

_READ: Mapping[Kind, str] = {
    "skills": ".agents/skills, .claude/skills and .kode/skills",
    "commands": ".claude/commands and .kode/commands",
    "agents": ".claude/agents and .kode/agents",
    "hooks": "`hooks` in .claude/settings.json and kode.json",
}
NONE: Mapping[Kind, str] = {
    kind: f"No {kind} here. kode reads {places}, of the project and of your home."
    for kind, places in _READ.items()
}
"""Shown if there is none."""


@dataclass(frozen=True, kw_only=True)
class Row:
    name: str
    state: str
    """`used`, `new`, `changed` or `shadowed`."""
    scope: str
    origin: str
    hash: str
    """SHA-256 of what an approval covers."""
    tokens: int
    """Approximate tokens in a model's window when used."""
    about: str
    remarks: tuple[str, ...] = ()


def rows_of(found_extensions: FoundExtensions, kind: Kind) -> list[Row]:
    """All of one kind, in order of precedence."""
    things: Sequence[Found[Extension]] = getattr(found_extensions, kind)
    return [_row(one) for one in things]


def as_json(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """The rows for a program."""
    return [asdict(row) for row in rows]


def lines_of(rows: Sequence[Row], kind: Kind) -> list[str]:
    """The rows for a person, and what to do about unapproved ones."""
    if not rows:
        return [NONE[kind]]
    # Before padding, so that gaps within a name are escaped but alignment is not.
    names = [visible(row.name) for row in rows]
    widest = max(map(len, names))
    lines = []
    for row, name in zip(rows, names, strict=True):
        cost = f"{row.tokens} tokens  " if kind != "hooks" else ""
        about = visible(shorten(row.about, ABOUT_CHARS))
        lines.append(
            f"{row.state:<8}  {name:<{widest}}  {row.hash[:HASH_CHARS]}  {cost}"
            f"{about}  ({visible(row.origin)})"
        )
        lines += [f"          {visible(remark)}" for remark in row.remarks]
    if any(row.state in ("new", "changed") for row in rows):
        lines.append("`kode extensions approve NAME` shows a pending item, and asks.")
    return lines


def _row(one: Found[Extension]) -> Row:
    thing = one.thing
    item = thing.item
    about, text, remarks = _about(thing)
    return Row(
        name=item.name,
        state=one.standing,
        scope=item.scope,
        origin=str(item.origin),
        hash=trust.digest(item),
        tokens=len(text) // CHARS_PER_TOKEN,
        about=about,
        remarks=(*remarks, *filter(None, [one.remark])),
    )


def _about(thing: Extension) -> tuple[str, str, tuple[str, ...]]:
    """What it is, what a model gets of it, and remarks about it."""
    match thing:
        case Skill():
            return thing.description, thing.body, thing.remarks
        case Command():
            hint = f"{thing.argument_hint}  " if thing.argument_hint else ""
            return f"{hint}{thing.description}", thing.body, ()
        case AgentDefinition():
            return thing.description, thing.prompt, ()
        case Hook():
            marks = [name for name, on in (("guard", thing.guard), ("async", thing.is_async)) if on]
            marks += [f"may: {said}"] if (said := said_of(thing.grants)) else []
            return redact(thing.command), "", tuple(marks)
    raise AssertionError(thing)
