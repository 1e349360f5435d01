"""Where the journal keeps things, for each project: lasting facts in MEMORY.md, and entries under
ISO headers in HISTORY.md and in the file of their month (UTC), which keeps a search of it small.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from kode.contracts import Project
from kode.errors import MemoryRefused
from kode.memory.markdown import LINES, SECTIONS, Format
from kode.memory.rendering import Layout
from kode.memory.statement import Statement, StatementKind, timestamp

MEMORY, HISTORY = "MEMORY.md", "HISTORY.md"
TARGETS = ("memory", "history")
_STAMP = re.compile(r"## (\d{4}-\d{2})-\d{2}T[0-9:.]+Z$", re.MULTILINE)
"""The header of an entry, with its month."""


def make_layout(limit_bytes: int) -> Layout:
    """`limit_bytes`: the size of MEMORY.md in UTF-8 from which it is consolidated."""

    def fill(place: str, text: str) -> str:
        size = len(text.encode(errors="replace"))
        share = round(100 * size / limit_bytes)
        return f"{share}% ({size:,}/{limit_bytes:,} bytes)" if place.endswith(MEMORY) else ""

    return Layout(
        facts=lambda project: [place_in(project, MEMORY)],
        records=lambda project: [place_in(project, HISTORY)],
        format_of=_format_of,
        place_of=_place_of,
        label=lambda place: place.rpartition("/")[2],
        title=lambda place: "Long-term Memory" if place.endswith(MEMORY) else place,
        fill=fill,
        kind_of=_kind_of,
        files_of=_files_of,
    )


def place_in(project: Project, name: str) -> str:
    return f"journal/{project.hash}/{name}"


def entry(text: str, at: datetime) -> str:
    """A text as an entry of the history: one section under its time."""
    return SECTIONS.fit(f"## {timestamp(at.astimezone(UTC))}\n\n{text.strip()}")


def is_entry(text: str) -> bool:
    return _STAMP.match(text) is not None


def _place_of(target: str, scope: str, project: Project) -> str:
    if target not in TARGETS:
        raise MemoryRefused(
            f"`target` is {target!r}: say {' or '.join(TARGETS)}. Nothing was changed."
        )
    if scope not in ("", "project"):
        raise MemoryRefused("The journal is the project's: there is no other scope.")
    return place_in(project, MEMORY if target == "memory" else HISTORY)


def _format_of(place: str) -> Format:
    return LINES if place.endswith(MEMORY) else SECTIONS


def _kind_of(place: str) -> StatementKind:
    return "fact" if place.endswith(MEMORY) else "episode"


def _files_of(place: str, statement: Statement | None) -> Sequence[str]:
    match = _STAMP.match(statement.text) if statement else None
    months = [place.replace(HISTORY, f"HISTORY-{match[1]}.md")] if match else []
    return [place, *months] if place.endswith(HISTORY) else [place]
