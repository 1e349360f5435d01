"""Parses each agent's files into entries: what counts, whom it is about, what is left out.

Lenient, because the formats are other people's: unknown parts are left out by name.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, Literal

from kode.plugin import ForeignEntry as Entry
from kode.plugin import ForeignReading as Reading
from kode.plugin import paths
from kode.plugin.errors import MemoryRefused
from kode.plugins.imports.memory.markdown import blocks, without_head

Agent = Literal["claude", "codex", "letta", "mem0", "agents", "file"]
About = Literal["user", "project"]
NAME_CHARS = 40

_TYPE = re.compile(r"^\s*type:\s*[\"']?(\w+)", re.MULTILINE)
_ITEM = re.compile(r"^[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]", re.MULTILINE)
_POINTER = re.compile(r"\[[^\]]*\]\((?:\./)?([^)#\s]+\.md)\)")
_ONLY_IMPORTS = re.compile(r"(?:@\S+\s*)+")
_APPLIES = re.compile(r"^(?:scope:.*\n)?applies_to:\s*cwd=([^;\n]+)", re.MULTILINE)
_ROUTES = frozenset({"rollout_summary_files", "keywords", "What's in Memory"})
"""Sections of Codex that only refer to its other files."""
_PERSONAL = frozenset(
    "personal_details family professional_details sports travel food music health hobbies fashion "
    "entertainment milestones user_preferences".split()
)
"""Of the categories that mem0 sorts by (https://docs.mem0.ai, "Custom categories"), those that are
about a person."""
_PERSONA = "it says who that agent was; AGENTS.md may say who kode is"


def read(agent: Agent, path: Path, text: str, about: About, today: date) -> Reading:
    """The entries of one file. Raises: MemoryRefused if it is not a file of this agent."""
    if path.suffix in (".json", ".af"):
        value = _json(path, text)
        return _mem0(path, value, today) if agent == "mem0" else _letta(path, value)
    head, body = without_head(text)
    if agent == "codex" and path.name in ("MEMORY.md", "memory_summary.md"):
        return _codex(body.removeprefix("v1\n") if path.name != "MEMORY.md" else body, about)
    if agent == "claude" and (kind := _TYPE.search(head)):
        # One fact, with its reason and application below; a list is several.
        about = "user" if kind[1] in ("user", "feedback") else "project"
        whole = body.strip()
        if whole and len(whole) <= Entry.MAX_CHARS and not _ITEM.search(body):
            line = body[: body.index(whole[0])].count("\n") + 1
            return Reading(entries=(Entry(text=whole, about=about, line=line),))
    if agent == "letta":
        if path.stem == "persona":
            return Reading(left=(f"all of it: {_PERSONA}",))
        about = "user" if path.stem == "human" else "project"
    return _markdown(path, body, about, is_index=agent == "claude" and path.name == "MEMORY.md")


def looks_like(value: object) -> Agent | None:
    """Whose export a JSON document is."""
    rows = _memories(value)
    if rows is not None:
        return "mem0"
    return "letta" if _memory_blocks(value) is not None else None


def _markdown(path: Path, body: str, about: About, *, is_index: bool) -> Reading:
    entries: list[Entry] = []
    left: list[str] = []
    for block in blocks(body):
        pointer = _POINTER.search(block.bare) if is_index else None
        if pointer and (path.parent / pointer[1]).is_file():
            continue  # the file that it names is read itself
        if _ONLY_IMPORTS.fullmatch(block.bare):
            left.append(f"line {block.line}: it imports {block.bare}, which you may import itself")
            continue
        entries.append(Entry(text=block.text, about=about, line=block.line))
    return Reading(entries=tuple(entries), left=tuple(left))


# ── Codex ────────────────────────────────────────────────────────────────────────────────────


def _codex(body: str, about: About) -> Reading:
    """Its handbook or its summary, without references to other files."""
    entries = []
    project = ""
    for block in blocks(body):
        if applies := _APPLIES.search(block.bare):
            path = paths.expand(applies[1].strip().strip("`<>\"'"))
            project = str(path) if path.is_absolute() else ""  # perhaps of another machine
            continue
        if _ROUTES.intersection(block.headings):
            continue
        is_personal = any(title.startswith("User ") for title in block.headings)
        entries.append(
            Entry(
                text=block.text,
                about="user" if is_personal else about,
                line=block.line,
                project="" if is_personal else project,
            )
        )
    return Reading(entries=tuple(entries))


# ── exports as JSON ──────────────────────────────────────────────────────────────────────────


def _json(path: Path, text: str) -> Any:
    try:
        return json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise MemoryRefused(f"{path} is not JSON: {error}. Export it once more.") from None


def _letta(path: Path, value: object) -> Reading:
    """The memory blocks of an agent file, or a list of them."""
    found = _memory_blocks(value)
    if found is None:
        raise MemoryRefused(
            f"{path} holds no memory blocks. Name an agent file (.af), or a list of blocks with "
            "`label` and `value`."
        )
    entries: list[Entry] = []
    left: list[str] = []
    for block in found:
        label, text = str(block["label"]), str(block["value"])
        name = label.rpartition("/")[2]
        if name == "persona":
            left.append(f"block persona: {_PERSONA}")
            continue
        about: About = "user" if name == "human" else "project"
        reading = _markdown(path, without_head(text)[1], about, is_index=False)
        entries += (replace(one, place=f"block {_name(label)}") for one in reading.entries)
    return Reading(entries=tuple(entries), left=tuple(left))


def _memory_blocks(value: object) -> list[Mapping[str, Any]] | None:
    """Of an agent file in its current form (`blocks`), the first (`core_memory`), or alone."""
    if isinstance(value, Mapping):
        for name in ("blocks", "core_memory", "memory_blocks"):
            if name in value:
                return _memory_blocks(value[name])
        return _memory_blocks(value["memory"]) if isinstance(value.get("memory"), Mapping) else None
    rows = list(_rows(value))
    named = [row for row in rows if {"label", "value"} <= row.keys() and row["label"]]
    return named if named or value == [] else None


def _mem0(path: Path, value: object, today: date) -> Reading:
    """The memories of `get_all` or of an export."""
    found = _memories(value)
    if found is None:
        raise MemoryRefused(
            f"{path} holds no memories of mem0. Name what `get_all` gave: a list, or an object "
            "with `results`."
        )
    entries: list[Entry] = []
    left: list[str] = []
    for number, row in enumerate(found, 1):
        place = f"memory {_name(row.get('id')) or number}"
        ends = str(row.get("expiration_date") or "")[:10]
        if ends and ends < today.isoformat():
            left.append(f"{place}: it expired on {ends}")
            continue
        text = str(row["memory"]).strip()
        if text:
            since = _name(row.get("updated_at") or row.get("created_at"))[:10]
            # It says of whom it heard a memory, not of what it is.
            personal = _PERSONAL.intersection(map(str, row.get("categories") or ()))
            about: About = "user" if personal else "project"
            entries.append(Entry(text=text, about=about, place=place, since=since))
    return Reading(entries=tuple(entries), left=tuple(left))


def _memories(value: object) -> list[Mapping[str, Any]] | None:
    if isinstance(value, Mapping):
        for name in ("results", "memories"):
            if name in value:
                return _memories(value[name])
        return None
    found = [row for row in _rows(value) if isinstance(row.get("memory"), str)]
    return found or None


def _name(given: object) -> str:
    """An export's name for one of its parts, safe for the screen and the history."""
    return re.sub(r"[^\w ./-]", "", str(given or ""))[:NAME_CHARS]


def _rows(value: object) -> Iterator[Mapping[str, Any]]:
    rows: Iterable[object] = value if isinstance(value, list) else ()
    return (row for row in rows if isinstance(row, Mapping))
