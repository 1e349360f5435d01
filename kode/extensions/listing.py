"""Lists skills, commands, agents and hooks for a person: origin, state, and cost in tokens."""

from collections.abc import Mapping, Sequence
from typing import Any

from kode.credentials import redact
from kode.extensions import trust
from kode.extensions.agents import AgentDefinition
from kode.extensions.commands import Command
from kode.extensions.found_extensions import Extension, Found, FoundExtensions, Kind
from kode.extensions.hooks import Hook, said_of
from kode.extensions.skills import Skill
from kode.messages import columns, shorten
from kode.permissions.question import visible

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


def rows_of(found_extensions: FoundExtensions, kind: Kind) -> list[dict[str, Any]]:
    """All of one kind, in order of precedence: `state` is a `Standing`, `hash` the SHA-256 of what
    an approval covers, `tokens` about how much of a model's window it takes when used."""
    things: Sequence[Found[Extension]] = getattr(found_extensions, kind)
    rows = []
    for found in things:
        item = found.thing.item
        about, text, remarks = _about(found.thing)
        row = {"name": item.name, "state": found.standing, "scope": item.scope}
        row |= {"origin": str(item.origin), "hash": trust.digest(item)}
        tokens = len(text) // CHARS_PER_TOKEN
        remarks += (found.remark,) if found.remark else ()
        rows.append({**row, "tokens": tokens, "about": about, "remarks": remarks})
    return rows


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
