"""Stores episodes: one Markdown file per session, and `index.json`, a list of them.

A person may edit the files. The index is a cache, rebuilt from the files if missing, stale or
damaged.
"""

import json
import os
import re
import time
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
_END = b"}\n]\n"
"""The end of an index with rows."""
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

    def text(self, session_id: str) -> str:
        """The file's text; "" if missing."""
        try:
            return self.path(session_id).read_bytes().decode(errors="replace")
        except OSError:
            return ""

    def write(self, episode: Episode) -> None:
        """As `put`, its text."""
        self.put(episode.session_id, render(episode))

    def put(self, session_id: str, text: str) -> None:
        """Writes an episode's file and its index row; the caller holds the lock.

        Raises: MemoryRefused for a bad id; StorageError.
        """
        path, row = self.path(session_id), parse(text, session_id, time.time()).row
        durable.make_folder(self.folder)
        fresh, is_new = self.is_fresh(), not path.exists()
        rows = None if is_new else self._fresh_rows()
        durable.replace(path, text.encode(errors="replace"))
        if fresh and is_new and self._append(row):
            return
        if rows is None:
            self.rebuild()
        else:
            self._index([*(r for r in rows if r["session_id"] != row["session_id"]), row])

    def set_aside_if_no_text(self, session_id: str) -> Path | None:
        """Moves a file that is not UTF-8 out of the way of a new one; returns its new path, or
        None. The caller holds the lock. Raises: StorageError."""
        path = self.path(session_id)
        try:
            path.read_bytes().decode()
        except UnicodeDecodeError:
            return durable.set_aside(path)
        except OSError:
            pass
        return None

    def remove(self, session_id: str) -> None:
        """Deletes an episode; the caller holds the lock. Raises: StorageError."""
        durable.remove(self.path(session_id))
        self.rebuild()

    def all(self) -> list[Episode]:
        """Every readable episode, oldest first by name."""
        return [episode for id in self.session_ids() if (episode := self.read(id)) is not None]

    def session_ids(self) -> list[str]:
        """The id of every episode file, oldest first by name."""
        with suppress(OSError):
            names = [entry.name for entry in os.scandir(self.folder)]
            ids = (name[:-3] for name in names if name.endswith(".md"))
            return sorted(filter(valid_id, ids))
        return []

    def is_fresh(self) -> bool:
        """Whether the index is newer than the last added or removed file."""
        try:
            return self.index.stat().st_mtime_ns >= self.folder.stat().st_mtime_ns
        except OSError:
            return False

    def rebuild(self) -> list[dict[str, Any]]:
        """Rebuilds the index from the files; the caller holds the lock."""
        return self._index([episode.row for episode in self.all()])

    def _fresh_rows(self) -> list[dict[str, Any]] | None:
        """What `index.json` lists; None if it is missing, damaged, or older than the last added or
        removed file."""
        try:
            rows = read_row(list[dict[str, Any]], self.index.read_bytes())
        except OSError:
            return None
        return rows if rows is not None and self.is_fresh() and all(map(_is_row, rows)) else None

    def _index(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Writes the index, a row a line."""
        lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        durable.replace(self.index, f"[\n{lines}\n]\n".encode(errors="replace"))
        with suppress(OSError):
            os.utime(self.index)  # its own replacement has changed the folder
        return rows

    def _append(self, row: dict[str, Any]) -> bool:
        """Writes one row over the end of the index, in constant time; False if it does not end as
        kode writes it. A crash in between leaves a damaged index, which is rebuilt."""
        data = f"}},\n{json.dumps(row, ensure_ascii=False)}\n]\n".encode(errors="replace")
        with durable.storage_errors(self.index, "write"), open(self.index, "r+b") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - len(_END)))
            at, end = file.tell(), file.read()
            if end != _END:
                return False
            file.seek(at)
            file.write(data)
        with suppress(OSError):
            os.utime(self.index)
        return True


def _is_row(row: dict[str, Any]) -> bool:
    id = row.get("session_id")
    texts = (row.get("created_at"), row.get("summary"))
    named = isinstance(id, str) and valid_id(id)
    return named and all(isinstance(text, str) for text in texts)


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
