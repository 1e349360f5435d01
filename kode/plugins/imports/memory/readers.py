"""Parses each agent's files into entries: what counts, whom it is about, what is left out.

Lenient, because the formats are other people's: unknown parts are left out by name.
"""

import re
from pathlib import Path
from typing import Literal

from kode.plugin import ForeignEntry as Entry
from kode.plugin import ForeignReading as Reading
from kode.plugin import paths
from kode.plugins.imports.memory.markdown import blocks, without_head

Agent = Literal["claude", "codex", "agents", "file"]
About = Literal["user", "project"]

_TYPE = re.compile(r"^\s*type:\s*[\"']?(\w+)", re.MULTILINE)
_ITEM = re.compile(r"^[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]", re.MULTILINE)
_POINTER = re.compile(r"\[[^\]]*\]\((?:\./)?([^)#\s]+\.md)\)")
_ONLY_IMPORTS = re.compile(r"(?:@\S+\s*)+")
_APPLIES = re.compile(r"^(?:scope:.*\n)?applies_to:\s*cwd=([^;\n]+)", re.MULTILINE)
_ROUTES = frozenset({"rollout_summary_files", "keywords", "What's in Memory"})
"""Sections of Codex that only refer to its other files."""


def read(agent: Agent, path: Path, text: str, about: About) -> Reading:
    """The entries of one file."""
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
    return _markdown(path, body, about, is_index=agent == "claude" and path.name == "MEMORY.md")


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
