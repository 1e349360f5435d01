"""Where the tiered system keeps things: facts about the user and the environment, global or of one
project, each file with its archive; and a file for the note on each session.
"""

import json
import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Literal, get_args

from kode.contracts import Project
from kode.errors import MemoryRefused
from kode.memory.markdown import FACTS, WHOLE, Format
from kode.memory.rendering import Layout
from kode.memory.statement import Statement, StatementKind
from kode.messages import shorten

Target = Literal["user", "env"]
Scope = Literal["global", "project"]
TARGETS: tuple[Target, ...] = get_args(Target)
TITLES = {"user": "User Profile", "env": "Environment"}
SUMMARY_CHARS = 120  # as the document has it
_EPISODES = "episodes/"
_FRONT = re.compile(r"---\n(?:.*\n)*?---\n")


def make_layout(limits: dict[str, int]) -> Layout:
    """`limits`: how many characters the facts of each target may have, the archive not counted."""

    def check(name: str, before: str, after: str) -> None:
        target = target_of(name)
        if name.startswith(_EPISODES) or "/archive/" in name or len(after) <= limits[target]:
            return
        if len(after) > len(before):
            raise MemoryRefused(
                f"{label(name)} would have {len(after)} characters, over its limit of "
                f"{limits[target]}; it has {len(before)} now ({len(FACTS.texts(before))} entries). "
                "Nothing was changed. Make room, then try again: `archive` what is seldom needed, "
                "`consolidate`, or `remove` what is wrong."
            )

    def fill(place: str, text: str) -> str:
        if place.startswith(_EPISODES):
            return ""
        limit, size = limits[target_of(place)], len(text)
        return f"{round(100 * size / limit)}% ({size}/{limit} characters)"

    return Layout(
        facts=_facts,
        records=lambda project: [f"{_EPISODES}*.md"],
        format_of=_format_of,
        place_of=place_of,
        label=label,
        title=lambda place: TITLES.get(target_of(place), place),
        kind_of=_kind_of,
        files_of=_files_of,
        check=check,
        fill=fill,
        derive=_derive,
    )


def place_of(target: str, scope: str, project: Project) -> str:
    """The file of facts for a target, in the project or for everywhere; by default what is about
    the environment belongs to the repository. Raises: MemoryRefused."""
    if target not in TARGETS:
        raise MemoryRefused(
            f"`target` is {target!r}: say {' or '.join(TARGETS)}. Nothing was changed."
        )
    if scope not in ("", *get_args(Scope)):
        raise MemoryRefused(f"`scope` is {scope!r}: say global or project. Nothing was changed.")
    is_of_project = scope == "project" or (not scope and target == "env" and project.in_repository)
    return f"project-facts/{project.hash}/{target}.md" if is_of_project else f"facts/{target}.md"


def target_of(place: str) -> str:
    return PurePath(place).stem


def is_of_project(place: str) -> bool:
    return place.startswith("project-facts/")


def label(place: str) -> str:
    if place.startswith(_EPISODES):
        return place
    archive = ", archive" if "/archive/" in place else ""
    return f"{target_of(place)}{' (project)' if is_of_project(place) else ''}{archive}"


def index_rows(notes: Sequence[Statement]) -> str:
    """The text of `episodes/index.json`, a list of the notes for other programs."""
    rows = [
        {
            "session_id": note.session or target_of(note.place),
            "turns": note.turn,
            "created_at": note.details.get("created_at", note.claimed_at),
            "summary": shorten(note.text, SUMMARY_CHARS),
        }
        for note in notes
    ]
    return json.dumps(rows, ensure_ascii=False, indent=0) + "\n"


def _facts(project: Project) -> Sequence[str]:
    scopes = ("facts", f"project-facts/{project.hash}")
    return [f"{folder}/{target}.md" for target in TARGETS for folder in scopes]


def _format_of(place: str) -> Format | None:
    return WHOLE if place.startswith(_EPISODES) else FACTS


def _kind_of(place: str) -> StatementKind:
    return "episode" if place.startswith(_EPISODES) else "fact"


def _files_of(place: str, statement: Statement | None) -> Sequence[str]:
    if place.startswith(_EPISODES):
        return (place,)
    folder, _, name = place.rpartition("/")
    archive = f"{folder}/archive/{name}"
    if statement is None:
        return (place, archive)
    return (archive,) if statement.state == "archived" else (place,)


def _derive(name: str, text: str, statements: Sequence[Statement], template: str) -> str:
    """The front matter of a note; lines of it that are the person's stay."""
    if not name.startswith(_EPISODES):
        return text
    match = _FRONT.match(text)
    body = text[match.end() :] if match else text
    if not statements:
        return body if body.strip() else ""
    note = statements[0]
    lines = match[0].split("\n")[1:-2] if match else []
    values = dict(line.partition(": ")[::2] for line in lines)
    values |= {
        "session_id": note.session or target_of(name),
        "turns": str(note.turn),
        "created_at": str(note.details.get("created_at", note.claimed_at)),
        "updated_at": note.claimed_at,
        "project": str(note.details.get("path", "")),
        "untrusted": f"approved, from {note.source}" if note.source else "",
    }
    head = "".join(f"{key}: {value}\n" for key, value in values.items() if value)
    return f"---\n{head}---\n{body}"
