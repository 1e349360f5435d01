"""Where the tiered system keeps things: facts about the user and the environment, global or of one
project, each file with its archive; and a file for the note on each session.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Literal, get_args

from kode.errors import MemoryRefused
from kode.memory.markdown import FACTS, WHOLE
from kode.memory.rendering import Layout
from kode.memory.statement import Statement
from kode.memory.tools import check_word, describe_share
from kode.session.record import Project

Target = Literal["user", "env"]
Scope = Literal["global", "project"]
TARGETS: tuple[Target, ...] = get_args(Target)
TITLES = {"user": "User Profile", "env": "Environment"}
_EPISODES = "episodes/"
_FRONT = re.compile(r"---\n(?:.*\n)*?---\n")


def make_layout(limits: Mapping[str, int]) -> Layout:
    """`limits`: how many characters the facts of each target may have, the archive not counted."""

    def check(name: str, before: str, after: str) -> None:
        limit = limits.get(target_of(name), 0)
        if is_episode(name) or "/archive/" in name or len(after) <= max(limit, len(before)):
            return
        raise MemoryRefused(
            f"{label(name)} would have {len(after)} characters, over its limit of {limit}; it has "
            f"{len(before)} now ({len(FACTS.texts(before))} entries). Nothing was changed. Make "
            "room, then try again: `archive` what is seldom needed, `consolidate`, or `remove` "
            "what is wrong."
        )

    def fill(place: str, text: str) -> str:
        limit = 0 if is_episode(place) else limits[target_of(place)]
        return describe_share(len(text), limit, "characters")

    return Layout(
        facts=lambda project: [
            f"{folder}/{target}.md"
            for target in TARGETS
            for folder in ("facts", f"project-facts/{project.hash}")
        ],
        records=lambda project: [f"{_EPISODES}*.md"],
        format_of=lambda place: WHOLE if is_episode(place) else FACTS,
        place_of=place_of,
        label=label,
        title=lambda place: TITLES.get(target_of(place), place),
        kind_of=lambda place: "episode" if is_episode(place) else "fact",
        files_of=_files_of,
        check=check,
        fill=fill,
        derive=_derive,
    )


def place_of(target: str, scope: str, project: Project) -> str:
    """The file of facts for a target, in the project or for everywhere; by default what is about
    the environment belongs to the repository. Raises: MemoryRefused."""
    check_word("target", target, TARGETS)
    check_word("scope", scope, ("", *get_args(Scope)))
    is_of_project = scope == "project" or (not scope and target == "env" and project.in_repository)
    return f"project-facts/{project.hash}/{target}.md" if is_of_project else f"facts/{target}.md"


def target_of(place: str) -> str:
    return PurePath(place).stem


def is_episode(place: str) -> bool:
    return place.startswith(_EPISODES)


def is_of_project(place: str) -> bool:
    return place.startswith("project-facts/")


def label(place: str) -> str:
    name = place if is_episode(place) else target_of(place)
    return f"{name} (project)" if is_of_project(place) else name


def _files_of(place: str, statement: Statement | None) -> Sequence[str]:
    if is_episode(place):
        return (place,)
    folder, _, name = place.rpartition("/")
    archive = f"{folder}/archive/{name}"
    if statement is None:
        return (place, archive)
    return (archive,) if statement.state == "archived" else (place,)


def _derive(name: str, text: str, statements: Sequence[Statement], template: str) -> str:
    """The front matter of a note; lines of it that are the person's stay."""
    if not is_episode(name):
        return text
    match = _FRONT.match(text)
    body = text[match.end() :] if match else text
    if not statements:
        return body if body.strip() else ""
    note = statements[0]
    lines = match[0].split("\n")[1:-2] if match else []
    values = dict(line.partition(": ")[::2] for line in lines) | {
        "session_id": note.session or target_of(name),
        "turns": str(note.turn),
        "created_at": str(note.details.get("created_at", note.claimed_at)),
        "updated_at": note.claimed_at,
        "project": str(note.details.get("path", "")),
        "untrusted": f"approved, from {note.source}" if note.source else "",
    }
    head = "".join(f"{key}: {value}\n" for key, value in values.items() if value)
    return f"---\n{head}---\n{body}"
