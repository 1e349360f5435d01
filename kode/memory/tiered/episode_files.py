"""Stores episodes: one Markdown file per session, and `index.json`, a list of them.

A person may edit the files. The index is for other programs; kode writes it from the files.
"""

import json
import os
import re
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kode import durable
from kode.errors import MemoryRefused
from kode.memory.queue import Item
from kode.memory.stored import locked, read_row
from kode.messages import shorten

SUMMARY_CHARS = 120
_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_FACTS_HEAD = "## Facts"
_FIELD = re.compile(r"([a-z_]+):[ \t]*(.*)")


@dataclass(frozen=True, kw_only=True)
class Episode:
    session_id: str
    turns: int
    created_at: str
    """ISO, UTC."""
    updated_at: str
    narrative: str
    facts: tuple[str, ...] = ()
    tainted: bool = False
    """Whether the session had read untrusted content."""
    approved: bool = False
    """Whether a person approved a tainted episode for recall."""
    project: str = ""
    """The path hash of the session's project; "" if unknown."""

    @property
    def recallable(self) -> bool:
        return self.approved or not self.tainted

    @property
    def text(self) -> str:
        """The text that search covers."""
        return "\n".join((self.narrative, *(f"- {fact}" for fact in self.facts)))

    @property
    def row(self) -> dict[str, Any]:
        row: dict[str, Any] = {
            "session_id": self.session_id,
            "turns": self.turns,
            "created_at": self.created_at,
            "summary": summary_of(self.narrative),
        }
        return row if self.recallable else {**row, "tainted": True}


def valid_id(session_id: str) -> bool:
    """Whether a session id may name a file: no path, nothing hidden, not the index."""
    return _SESSION_ID.fullmatch(session_id) is not None and session_id != "index"


def summary_of(narrative: str) -> str:
    """The first characters of a narrative, on one line."""
    return shorten(narrative, SUMMARY_CHARS)


def render(episode: Episode) -> str:
    """The Markdown file of an episode."""
    head = {
        "session_id": episode.session_id,
        "turns": str(episode.turns),
        "created_at": episode.created_at,
        "updated_at": episode.updated_at,
    }
    if episode.project:
        head["project"] = " ".join(episode.project.split())
    if episode.tainted:
        head["untrusted"] = "approved" if episode.approved else "waits for approval"
    fields = "\n".join(f"{name}: {value}" for name, value in head.items())
    facts = "".join(f"- {' '.join(fact.split())}\n" for fact in episode.facts)
    tail = f"\n{_FACTS_HEAD}\n{facts}" if facts else ""
    return f"---\n{fields}\n---\n{episode.narrative.strip()}\n{tail}"


def parse(text: str, session_id: str, modified_at: float) -> Episode:
    """Parses an episode, however a person edited it; `modified_at` replaces missing times."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    fields: dict[str, str] = {}
    if text.startswith("---\n"):
        head, found, rest = text[4:].partition("\n---")
        if found:
            matches = (_FIELD.fullmatch(line) for line in head.split("\n"))
            fields = {match[1]: match[2] for match in matches if match}
            text = rest.partition("\n")[2]
    narrative, _, tail = text.partition(f"\n{_FACTS_HEAD}\n")
    facts = tuple(line[2:].strip() for line in tail.split("\n") if line.startswith(("- ", "* ")))
    when = datetime.fromtimestamp(modified_at, UTC).isoformat(timespec="seconds")
    turns = fields.get("turns", "")
    untrusted = fields.get("untrusted", "")
    return Episode(
        session_id=session_id,
        turns=int(turns) if turns.isdecimal() and len(turns) < 10 else 0,
        created_at=fields.get("created_at") or when,
        updated_at=fields.get("updated_at") or when,
        narrative=narrative.strip(),
        facts=facts,
        tainted=bool(untrusted),
        approved=untrusted.startswith("approved"),
        project=fields.get("project", ""),
    )


class EpisodeFiles:
    """The folder of episodes, shared by processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.index = folder / "index.json"

    def path(self, session_id: str) -> Path:
        """Raises: MemoryRefused for an id that could name anything but an episode."""
        if not valid_id(session_id):
            raise MemoryRefused(f"{session_id!r} is no session id, so it can have no episode.")
        return self.folder / f"{session_id}.md"

    def lock(self) -> AbstractAsyncContextManager[None]:
        return locked(self.folder)

    def read(self, session_id: str) -> Episode | None:
        """An episode, or None if missing or unreadable."""
        path = self.path(session_id)
        try:
            text = path.read_bytes().decode(errors="replace")
            return parse(text, session_id, path.stat().st_mtime)
        except OSError:
            return None

    def put(self, session_id: str, text: str) -> None:
        """Writes an episode's file and its index row; the caller holds the lock.

        Raises: MemoryRefused for a bad id; StorageError.
        """
        path = self.path(session_id)
        durable.make_folder(self.folder)
        durable.replace(path, text.encode(errors="replace"))
        self._list(session_id)

    def remove(self, session_id: str) -> None:
        """Deletes an episode; the caller holds the lock. Raises: StorageError."""
        durable.remove(self.path(session_id))
        self._list(session_id)

    def session_ids(self) -> list[str]:
        """The id of every episode file, oldest first by name."""
        with suppress(OSError):
            names = [entry.name for entry in os.scandir(self.folder)]
            ids = (name[:-3] for name in names if name.endswith(".md"))
            return sorted(filter(valid_id, ids))
        return []

    def _list(self, changed: str) -> None:
        """Writes the index, a row a line: that of `changed`, and of others that it lacks, from the
        files."""
        try:
            rows = read_row(list[dict[str, Any]], self.index.read_bytes()) or []
        except OSError:
            rows = []
        known = {row.get("session_id"): row for row in rows}
        known.pop(changed, None)
        ids = self.session_ids()
        read = {id: one.row for id in ids if id not in known and (one := self.read(id))}
        listed = (known.get(id) or read[id] for id in ids if id in known or id in read)
        lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in listed)
        durable.replace(self.index, f"[\n{lines}\n]\n".encode(errors="replace"))


_SAID = "User: "
"""Begins a message of the user in a transcript."""


def raw_note(transcript: str) -> str:
    """A narrative without a model: what the user asked, in their own words."""
    lines = transcript.split("\n")
    asked = [line.removeprefix(_SAID) for line in lines if line.startswith(_SAID)]
    listed = "; ".join(shorten(line, 120) for line in asked[:3] + asked[3:][-3:])
    return f"Asked: {listed}" if listed else shorten(transcript, 300)


def awaited(item: Item, project: str) -> Episode:
    """What can be shown of a session until its note is written."""
    return Episode(
        session_id=item.session,
        turns=item.turn or 0,
        created_at=item.at,
        updated_at=item.at,
        narrative=raw_note(item.text),
        tainted=item.tainted,
        project=project,
    )
