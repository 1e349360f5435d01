"""Converts the journal to rows of an export, and back; and to pieces for display."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from kode.errors import MemoryRefused
from kode.memory import scan
from kode.memory.exchange import Carrier, Piece, Row, path_hash_of
from kode.memory.history import Change
from kode.memory.journal.commit import OUTSIDE
from kode.memory.journal.files import (
    HISTORY,
    MEMORY,
    SYSTEM,
    Entry,
    JournalFiles,
    as_read,
    block_of,
    parse,
)
from kode.memory.lines import unite_lines
from kode.memory.project import ProjectFolder
from kode.memory.stored import locked

if TYPE_CHECKING:
    from kode.memory.journal.system import Journal


@dataclass
class _Placed:
    """What to write to the journal of one project."""

    files: JournalFiles
    memory: str | None = None
    """The new text of MEMORY.md."""
    entries: list[tuple[str, datetime]] = field(default_factory=list)


class JournalCarrier(Carrier):
    """One open journal, with those of all projects."""

    def __init__(self, journal: "Journal") -> None:
        self._folder = journal.folder
        self._history = journal.history
        self._placed: dict[str, _Placed] = {}

    async def rows(self) -> list[Row]:
        """Of each project MEMORY.md in full, then every entry of the history."""
        found: list[Row] = []
        for folder in self._folder.all():
            files = JournalFiles(folder)
            where = {"system": SYSTEM, "project": folder.project}
            if memory := files.read_memory():
                found.append({**where, "kind": "memory", "content": memory})
            found += [
                {**where, "kind": "entry", "at": entry.at, "content": entry.text}
                for entry in files.entries()
            ]
        return found

    async def pieces(self) -> list[Piece]:
        """Each line of MEMORY.md as a fact, each entry as an episode."""
        found: list[Piece] = []
        for folder in self._folder.all():
            files = JournalFiles(folder)
            found += [
                Piece(
                    content=line.lstrip("-*+ ").strip(),
                    kind="fact",
                    project=folder.project,
                    origin=folder.target(MEMORY),
                )
                for line in files.read_memory().split("\n")
                if line.lstrip("-*+ ").strip() and not line.startswith("#")
            ]
            found += [
                Piece(
                    content=entry.text,
                    kind="episode",
                    project=folder.project,
                    origin=f"{folder.target(HISTORY)} {entry.at}",
                    untrusted=entry.text.startswith(OUTSIDE),
                )
                for entry in files.entries()
            ]
        return found

    def place_row(self, row: Row) -> Literal["added", "changed", "known"]:
        """Adds the lines that MEMORY.md lacks, and missing entries. Raises: MemoryRefused for a row
        that does not fit."""
        placed, text = self._of(row.get("project")), as_read(str(row["content"]))
        scan.check(text)
        match row.get("kind"):
            case "memory":
                if placed.memory is not None:
                    raise MemoryRefused(f"a second row of kind memory: there is only one {MEMORY}")
                before = placed.files.read_memory()
                placed.memory = unite_lines(before, text) if before else text
                return "known" if placed.memory == before else "changed" if before else "added"
            case "entry":
                at = _moment(str(row.get("at", "")))
                if _entry(text, at) in placed.files.entries():
                    return "known"
                placed.entries.append((text, at))
                return "added"
            case other:
                raise MemoryRefused(f"`kind` is {other!r}; allowed are memory, entry")

    async def write(self, kind: str) -> list[str]:
        ids: list[str] = []
        for placed in self._placed.values():
            async with locked(placed.files.root):
                ids += self._write(placed, kind)
        return ids

    def _write(self, placed: _Placed, kind: str) -> list[str]:
        files, ids = placed.files, list[str]()
        current = files.read_memory()
        text = current if placed.memory is None else placed.memory
        if text != current:
            before = (current,) if current else ()
            with self._making(files, kind, MEMORY, before, (text,)) as change:
                files.write_memory(text)
            ids.append(change.id)
        there = set(files.entries())
        for content, at in placed.entries:
            if _entry(content, at) in there:
                continue
            there.add(_entry(content, at))
            block = block_of(content, at)
            with self._making(files, kind, HISTORY, (), (block,)) as change:
                files.append_block(block, at, recovering=False)
            ids.append(change.id)
        return ids

    def _making(
        self, files: JournalFiles, kind: str, file: str, was: tuple[str, ...], now: tuple[str, ...]
    ) -> AbstractContextManager[Change]:
        target = files.folder.target(file)
        return self._history.making(
            Change.by(self.author, SYSTEM, kind, target, before=was, after=now)
        )

    def _of(self, project: object) -> _Placed:
        folder = self._folder
        if project:
            folder = ProjectFolder(folder.system, path_hash_of(project))
        return self._placed.setdefault(folder.project, _Placed(JournalFiles(folder)))


def _entry(text: str, at: datetime) -> Entry:
    """An entry as it reads back from the history."""
    (entry,) = parse(block_of(text, at))
    return entry


def _moment(text: str) -> datetime:
    """Raises: MemoryRefused."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise MemoryRefused(f"`at` is {text!r}; write a time as 2026-03-01T12:00:00Z") from None
    return at if at.tzinfo else at.astimezone()
