"""Where the journal keeps things, for each project: lasting facts in MEMORY.md, and entries under
ISO headers in HISTORY.md and in the file of their month (UTC), which keeps a search of it small.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from kode.contracts import Project
from kode.memory.markdown import LINES, SECTIONS
from kode.memory.rendering import Layout
from kode.memory.statement import Statement, timestamp
from kode.memory.tools import check_word, describe_share

MEMORY, HISTORY = "MEMORY.md", "HISTORY.md"
FILES = {"memory": MEMORY, "history": HISTORY}
"""By target."""
_STAMP = re.compile(r"## (\d{4}-\d{2})-\d{2}T[0-9:.]+Z$", re.MULTILINE)
"""The header of an entry, with its month."""


def make_layout(limit_bytes: int) -> Layout:
    """`limit_bytes`: the size of MEMORY.md in UTF-8 from which it is consolidated."""
    return Layout(
        facts=lambda project: [place_in(project, MEMORY)],
        records=lambda project: [place_in(project, HISTORY)],
        format_of=lambda place: LINES if is_memory(place) else SECTIONS,
        place_of=_place_of,
        label=lambda place: place.rpartition("/")[2],
        title=lambda place: "Long-term Memory" if is_memory(place) else place,
        fill=lambda place, text: describe_share(
            len(text.encode(errors="replace")), limit_bytes * is_memory(place), "bytes"
        ),
        kind_of=lambda place: "fact" if is_memory(place) else "episode",
        files_of=_files_of,
    )


def place_in(project: Project, name: str) -> str:
    return f"journal/{project.hash}/{name}"


def is_memory(place: str) -> bool:
    return place.endswith(MEMORY)


def as_entry(text: str, at: datetime) -> str:
    """A text as an entry of the history: one section under its time."""
    return SECTIONS.fit(f"## {timestamp(at.astimezone(UTC))}\n\n{text.strip()}")


def _place_of(target: str, scope: str, project: Project) -> str:
    check_word("target", target, FILES)
    check_word("scope", scope, ("", "project"))
    return place_in(project, FILES[target])


def _files_of(place: str, statement: Statement | None) -> Sequence[str]:
    match = _STAMP.match(statement.text) if statement and not is_memory(place) else None
    return [place, place.replace(HISTORY, f"HISTORY-{match[1]}.md")] if match else [place]
