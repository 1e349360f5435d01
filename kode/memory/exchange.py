"""Exports, imports and copies memory: as lines of JSON that a person can read, edit and import
again, and as pieces that another system understands.

A row maps field names to JSON values; `content` is its text. Only its system knows the meaning of
the others, through its carrier.
"""

import json
import pkgutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from kode import durable, paths
from kode.contracts import MemorySystem
from kode.errors import MemoryRefused
from kode.memory.history import Author, new_batch
from kode.memory.scan import scan
from kode.memory.stored import read_import
from kode.messages import first_of, plural, shorten

Row = Mapping[str, Any]

AUTHOR = Author(who="import")
MAX_FAULTS_TOLD = 10


@dataclass(frozen=True, kw_only=True)
class Numbered:
    """A row with its line number in the file, from 1."""

    line: int
    row: Row


@dataclass(frozen=True, kw_only=True)
class Piece:
    """One remembered thing in terms common to several systems."""

    content: str
    kind: Literal["fact", "rule", "episode", "event", "soul"]
    """`fact` and `rule` hold until changed; `episode` describes a session; `event` is a raw record
    that expires; `soul` is who the agent is."""
    about: Literal["user", "env", ""] = ""
    project: str = ""
    """The path hash of the project it belongs to; "" for everywhere."""
    tags: tuple[str, ...] = ()
    session: str = ""
    created_at: str = ""
    """ISO, UTC; "" if unknown."""
    expires_at: str = ""
    origin: str = ""
    """Its place in its original system."""
    private: bool = False
    """Stored, but never shown to a model."""
    untrusted: bool = False
    """From untrusted content, waiting for approval."""


@dataclass(frozen=True, kw_only=True)
class Carried:
    """The result for one piece."""

    piece: Piece
    done: Literal["carried", "known", "left"]
    why: str = ""
    """Where it went, or why it was left out."""


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What an import changed, or would change."""

    added: int = 0
    changed: int = 0
    known: int = 0
    rows: tuple[Numbered, ...] = ()
    """Those added or changed."""
    change_ids: tuple[str, ...] = ()


class Known(Exception):
    """A piece that exists already; the text says where."""


class Carrier:
    """Carries one open system's data, for one operation. Takes the system as its only argument.

    An import is first placed completely; if anything is refused, nothing is written.
    """

    author = AUTHOR
    """The author of changes; an import records its source."""

    async def rows(self) -> list[Row]:
        """Everything the system stores, oldest first."""
        raise NotImplementedError

    async def pieces(self) -> list[Piece]:
        """What it remembers, in common terms, oldest first."""
        raise NotImplementedError

    def place_row(self, row: Row) -> Literal["added", "changed", "known"]:
        """Prepares a row of this system. Raises: MemoryRefused if it is not acceptable."""
        raise NotImplementedError

    def place_piece(self, piece: Piece) -> str:
        """Prepares a piece that has a meaning here; returns where it goes.

        Raises: Known; MemoryRefused if it has no place here.
        """
        raise NotImplementedError

    async def write(self, kind: str) -> list[str]:
        """Writes what was placed, all or nothing; returns the change ids. `kind` is their kind in
        the history. Raises: MemoryRefused, StorageError, BusyError."""
        raise NotImplementedError

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

    async def take(self, pieces: Sequence[Piece], *, dry_run: bool) -> list[Carried]:
        """Imports what has a meaning here; returns the result for each piece."""
        done: list[Carried] = []
        for piece in pieces:
            try:
                done.append(Carried(piece=piece, done="carried", why=self.place_piece(piece)))
            except Known as known:
                done.append(Carried(piece=piece, done="known", why=str(known)))
            except MemoryRefused as error:
                done.append(Carried(piece=piece, done="left", why=str(error)))
        if not dry_run:
            await self.write("copy")
        return done


CARRIERS: Mapping[str, str] = {
    "notes": "kode.memory.notes.carry:NotesCarrier",
    "tiered": "kode.memory.tiered.carry:TieredCarrier",
    "vault": "kode.memory.vault.carry:VaultCarrier",
    "journal": "kode.memory.journal.carry:JournalCarrier",
}
"""System → module:Class. A system without one cannot be exported or copied."""


def carrier_of(system: MemorySystem) -> Carrier:
    """The system's carrier. Raises: MemoryRefused if it has none."""
    where = CARRIERS.get(system.name)
    if where is None:
        raise MemoryRefused(
            f"The {system.name} memory cannot be exported, imported or copied; "
            f"these can: {', '.join(CARRIERS)}."
        )
    carrier: Carrier = pkgutil.resolve_name(where)(system)
    return carrier


def path_hash_of(project: object) -> str:
    """The project of a row or piece. Raises: MemoryRefused if it is invalid."""
    if not paths.is_path_hash(project):
        raise MemoryRefused(f"`project` is {project!r}, not 16 hex digits")
    return str(project)


def refuse_misplaced(piece: Piece) -> None:
    """Raises: MemoryRefused for a piece that needs privacy, expiry or a soul where there is
    none."""
    why = ""
    if piece.private:
        why = "a sensitive note is never shown, and all of this memory is"
    elif piece.kind == "soul":
        why = "there is no soul here; AGENTS.md may serve as one"
    elif piece.kind == "event" or (piece.expires_at and piece.kind != "episode"):
        why = "it passes, and nothing here expires"
    elif piece.untrusted and piece.kind != "episode":
        why = "it came from untrusted content and was not approved"
    if why:
        raise MemoryRefused(why)


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
            f"{system.name}. Use `kode memory --memory {other} import`, then `kode memory copy "
            f"--from {other} --to {system.name}`."
        )
    carrier = carrier_of(system)
    carrier.author = replace(AUTHOR, source=str(file), batch=new_batch())
    taken = await carrier.take_rows(rows, dry_run=dry_run)
    if dry_run:
        counts = f"{taken.added} new, {taken.changed} changed; {taken.known} are there"
        listed = [f"line {one.line}: {_text(str(one.row['content']))}" for one in taken.rows]
        return "\n".join([f"would import {counts}", *_indented(listed), "Nothing was imported."])
    lines = [f"imported {taken.added} new, {taken.changed} changed; {taken.known} were there"]
    if taken.change_ids:
        lines.append(f"undo with: kode memory undo --import {carrier.author.batch}")
    return "\n".join(lines)


async def copy(source: MemorySystem, target: MemorySystem, *, dry_run: bool) -> str:
    """Copies what has a meaning in the target, and lists the rest; only reads the source. Raises:
    MemoryRefused, StorageError, BusyError."""
    pieces = await carrier_of(source).pieces()
    carrier = carrier_of(target)
    carrier.author = replace(AUTHOR, source=f"the {source.name} memory", batch=new_batch())
    done = await carrier.take(pieces, dry_run=dry_run)
    counts = Counter(one.done for one in done)
    verb = "would be carried" if dry_run else "carried"
    lines = [
        f"{source.name} → {target.name}: {counts['carried']} {verb}, {counts['known']} there "
        f"already, {counts['left']} left out"
    ]
    lines += _section("carried" if not dry_run else "to be carried", "→", done, "carried")
    lines += _section("left out", "because", done, "left")
    if counts["carried"] and not dry_run:
        undo = f"kode memory --memory {target.name} undo --import {carrier.author.batch}"
        lines.append(f"undo with: {undo}")
    return "\n".join(lines)


def _section(head: str, joint: str, done: Sequence[Carried], which: str) -> list[str]:
    found = [one for one in done if one.done == which]
    listed = [
        f"[{one.piece.origin}] {_text(one.piece.content, one.piece.private)} {joint} {one.why}"
        for one in found
    ]
    return [f"{head}:", *_indented(listed)] if listed else []


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in first_of(lines, LISTED)]


def _text(content: str, private: bool = False) -> str:
    """The beginning of a text on one line, unless it is private or the scan would refuse it."""
    if private or scan(content) is not None:
        return "(not shown)"
    return shorten(content, TEXT_CHARS)
