"""Exports and imports memory as lines of JSON that a person can read, edit and import again; and
shows it as pieces that are alike in all systems.

Where a row stands, and what it is, a system's places say (`Places`).
"""

import json
import pkgutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from kode import durable
from kode.contracts import MemorySystem
from kode.errors import MemoryRefused
from kode.memory import standing
from kode.memory.base import BaseMemory
from kode.memory.change import Author, new_batch
from kode.memory.places import Piece, Places, Row, State, fingerprint
from kode.memory.scan import scan
from kode.memory.stored import read_import
from kode.messages import first_of, plural, shorten

AUTHOR = Author(who="import")
MAX_FAULTS_TOLD = 10


@dataclass(frozen=True, kw_only=True)
class Numbered:
    """A row with its line number in the file, from 1."""

    line: int
    row: Row


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What an import changed, or would change."""

    added: int = 0
    changed: int = 0
    known: int = 0
    rows: tuple[Numbered, ...] = ()
    """Those added or changed."""
    change_ids: tuple[str, ...] = ()


class Carrier:
    """Carries one open system's data, for one operation, by its places.

    An import is first placed completely; if anything is refused, nothing is written.
    """

    author = AUTHOR
    """The author of changes; an import records its source."""

    def __init__(self, system: BaseMemory, places: Places) -> None:
        self._system = system
        self._places = places
        self._read: dict[str, State] = {}
        """The places of the rows, as they are."""
        self._planned: dict[str, State] = {}
        """The same as they are to be."""

    async def rows(self) -> list[Row]:
        """Everything the system stores, oldest first."""
        return list(self._places.rows())

    async def pieces(self) -> list[Piece]:
        """What it remembers of every project, in common terms, oldest first."""
        places = self._places
        return [piece for row in places.rows() for piece in places.pieces_of(row)]

    def place_row(self, row: Row) -> Literal["added", "changed", "known"]:
        """Prepares a row of this system. Raises: MemoryRefused if it is not acceptable."""
        places, target = self._places, self._places.target_of(row)
        texts = places.texts_of(row)
        if target not in self._read:
            self._read[target] = places.read(target)
        before = self._planned.get(target, self._read[target])
        after = places.joined(target, before, texts)
        if not places.apart(target, before, after):
            return "known"
        places.check(target, self._read[target], after)
        self._planned[target] = after
        return "changed" if before and not places.is_of_entries(target) else "added"

    async def write(self, kind: str) -> list[str]:
        """Writes what was placed, all or nothing; returns the change ids. `kind` is their kind in
        the history. Raises: MemoryRefused, StorageError, BusyError."""
        ids: list[str] = []
        try:
            for target, planned in self._planned.items():
                change = await standing.rewrite(
                    self._system.history,
                    target,
                    partial(self._written, target, planned),
                    self.author,
                    kind,
                )
                ids += [change.id] if change else []
        except MemoryRefused as error:
            for change in (self._system.history.find(id)[0] for id in reversed(ids)):
                await self._system.undo_change(change)
            raise MemoryRefused(f"Nothing was imported. {error}") from error
        return ids

    async def take_rows(self, rows: Sequence[Numbered], *, dry_run: bool = False) -> Taken:
        """Imports rows: all, or none. Raises: MemoryRefused that names the bad lines."""
        counts = {"added": 0, "changed": 0, "known": 0}
        faults: list[str] = []
        new: list[Numbered] = []
        for row in rows:
            try:
                done = self.place_row(row.row)
                counts[done] += 1
                if done != "known":
                    new.append(row)
            except MemoryRefused as error:
                faults.append(f"line {row.line}: {error}")
        refuse(faults)
        ids = () if dry_run else tuple(await self.write("import"))
        return Taken(**counts, rows=tuple(new), change_ids=ids)

    def _written(self, target: str, planned: State, state: State) -> State:
        """What was changed meanwhile stays."""
        unchanged = fingerprint(state) == fingerprint(self._read[target])
        return planned if unchanged else self._places.joined(target, state, planned)


def carrier_of(system: MemorySystem) -> Carrier:
    """The system's carrier. Raises: MemoryRefused if it has none."""
    places = system.history.places if isinstance(system, BaseMemory) else None
    if not isinstance(system, BaseMemory) or places is None:
        raise MemoryRefused(f"The {system.name} memory cannot be exported or imported.")
    makes = pkgutil.resolve_name(places.carrier) if places.carrier else Carrier
    carrier: Carrier = makes(system, places)
    return carrier


def text_of_rows(rows: Iterable[Row]) -> str:
    """Rows as text, one per line."""
    return "".join(json.dumps(dict(row), ensure_ascii=False) + "\n" for row in rows)


def read(text: str) -> list[Numbered]:
    """Parses rows. Raises: MemoryRefused that names the first ten bad lines."""
    rows: list[Numbered] = []
    faults: list[str] = []
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        if not line.strip():
            continue
        try:
            rows.append(Numbered(line=number, row=read_row(line)))
        except MemoryRefused as error:
            faults.append(f"line {number}: {error}")
    refuse(faults)
    return rows


def read_row(line: str) -> Row:
    """Parses one row. Raises: MemoryRefused for an invalid line."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise MemoryRefused(f"no JSON ({error})") from None
    if not isinstance(row, dict):
        raise MemoryRefused(f"not an object but {type(row).__name__}")
    if not isinstance(row.get("content"), str):
        raise MemoryRefused("`content` is missing or not text")
    return row


def refuse(faults: Sequence[str]) -> None:
    """Raises: MemoryRefused with all faults of an import, if there are any."""
    if not faults:
        return
    listed = "\n".join(f"  {one}" for one in first_of(faults, MAX_FAULTS_TOLD))
    raise MemoryRefused(
        f"Nothing was imported: {len(faults)} of its lines cannot be taken.\n{listed}\n"
        "Correct them and import the file again."
    )


MAX_IMPORT_BYTES = 64_000_000
LISTED = 40
TEXT_CHARS = 80


async def export(system: MemorySystem, file: Path | None) -> str:
    """Exports as text, or with `file` (written 0600) returns one line about it. Raises:
    MemoryRefused, StorageError."""
    rows = await carrier_of(system).rows()
    text = text_of_rows(rows)
    if file is None:
        return text.rstrip("\n")
    durable.replace(file, text.encode(errors="replace"))
    entries = plural(len(rows), "entry", "entries")
    return f"exported {entries} of {system.name} to {file}"


async def import_(system: MemorySystem, file: Path, *, dry_run: bool) -> str:
    """Imports an export, edited or not: all of it, or nothing; with `dry_run` only lists what is
    new. Raises: MemoryRefused, StorageError."""
    rows = read(read_import(file, MAX_IMPORT_BYTES))
    others = [row for row in rows if row.row.get("system", system.name) != system.name]
    if others:
        other = others[0].row["system"]
        raise MemoryRefused(
            f"Nothing was imported: line {others[0].line} is of the {other} memory, and this is "
            f"{system.name}. Use `kode memory --memory {other} import`."
        )
    carrier = carrier_of(system)
    carrier.author = replace(AUTHOR, source=str(file), batch=new_batch())
    taken = await carrier.take_rows(rows, dry_run=dry_run)
    if dry_run:
        counts = f"{taken.added} new, {taken.changed} changed; {taken.known} are there"
        listed = [f"line {one.line}: {_text(str(one.row['content']))}" for one in taken.rows]
        shown = (f"  {line}" for line in first_of(listed, LISTED))
        return "\n".join([f"would import {counts}", *shown, "Nothing was imported."])
    lines = [f"imported {taken.added} new, {taken.changed} changed; {taken.known} were there"]
    if taken.change_ids:
        lines.append(f"undo with: kode memory undo --import {carrier.author.batch}")
    return "\n".join(lines)


def _text(content: str) -> str:
    """The beginning of a text on one line, unless the scan would refuse it."""
    if scan(content) is not None:
        return "(not shown)"
    return shorten(content, TEXT_CHARS)
