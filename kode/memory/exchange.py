"""What memory holds as lines of JSON that a person can read, edit and give back; and as pieces that
another system understands: export, import, copy.

A row is a mapping of field names to JSON values; `content` is its text. What rows mean is known to
the system they are from, through its carrier.
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
from kode.memory.history import Author
from kode.memory.scan import scan
from kode.messages import plural

Row = Mapping[str, Any]

AUTHOR = Author(who="import")
MAX_FAULTS_TOLD = 10


@dataclass(frozen=True, kw_only=True)
class Numbered:
    """A row with its line in the file, from 1."""

    line: int
    row: Row


@dataclass(frozen=True, kw_only=True)
class Piece:
    """One remembered thing, in terms that several systems have."""

    content: str
    kind: Literal["fact", "rule", "episode", "event", "soul"]
    """`fact` and `rule` hold until changed; `episode` tells of a session; `event` is a raw record
    that passes; `soul` is who the agent is."""
    about: Literal["user", "env", ""] = ""
    project: str = ""
    """The path hash of the project it belongs to; "" for everywhere."""
    tags: tuple[str, ...] = ()
    session: str = ""
    created_at: str = ""
    """ISO, UTC; "" when it is not known."""
    expires_at: str = ""
    origin: str = ""
    """Where it stands in the system it is from."""
    private: bool = False
    """Kept, but never to be shown to a model."""
    untrusted: bool = False
    """Came from untrusted content and waits for approval."""


@dataclass(frozen=True, kw_only=True)
class Carried:
    """What became of one piece."""

    piece: Piece
    done: Literal["carried", "known", "left"]
    why: str = ""
    """Where it went, or why it was left."""


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What an import changed."""

    added: int = 0
    changed: int = 0
    known: int = 0
    change_ids: tuple[str, ...] = ()


class Known(Exception):
    """A piece that is there already; its text says where."""


class Carrier:
    """One open system, for one operation. Made with the system as its only argument.

    What comes in is placed first, all of it, and nothing is written when something is refused.
    """

    author = AUTHOR
    """By whom changes are made; whoever takes something in says what it is from."""

    async def rows(self) -> list[Row]:
        """All that the system keeps, oldest first."""
        raise NotImplementedError

    async def pieces(self) -> list[Piece]:
        """What it remembers, in the terms of others; oldest first."""
        raise NotImplementedError

    def place_row(self, row: Row) -> Literal["added", "changed", "known"]:
        """Gets a row of this very system ready. Raises: MemoryRefused when it cannot be taken."""
        raise NotImplementedError

    def place_piece(self, piece: Piece) -> str:
        """Gets a piece ready that has a meaning here, and says where it goes.

        Raises: Known; MemoryRefused when it has no place here.
        """
        raise NotImplementedError

    async def write(self, kind: str) -> list[str]:
        """Writes what was placed, all or nothing; the ids of its changes. `kind` is the history's
        word for them. Raises: MemoryRefused, StorageError, BusyError."""
        raise NotImplementedError

    async def take_rows(self, rows: Sequence[Numbered]) -> Taken:
        """Takes in rows: all, or none. Raises: MemoryRefused that names the bad lines."""
        counts = {"added": 0, "changed": 0, "known": 0}
        faults: list[str] = []
        for row in rows:
            try:
                counts[self.place_row(row.row)] += 1
            except MemoryRefused as error:
                faults.append(f"line {row.line}: {error}")
        refuse(faults)
        return Taken(**counts, change_ids=tuple(await self.write("import")))

    async def take(self, pieces: Sequence[Piece], *, dry_run: bool) -> list[Carried]:
        """Takes in what has a meaning here, and says what became of each piece."""
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
"""System → module:Class. A system without one can be neither exported nor copied."""


def carrier_of(system: MemorySystem) -> Carrier:
    """Raises: MemoryRefused when there is none."""
    where = CARRIERS.get(system.name)
    if where is None:
        raise MemoryRefused(
            f"The {system.name} memory cannot be exported, imported or copied; "
            f"these can: {', '.join(CARRIERS)}."
        )
    carrier: Carrier = pkgutil.resolve_name(where)(system)
    return carrier


def path_hash_of(project: object) -> str:
    """A row's or a piece's project. Raises: MemoryRefused for what names none."""
    if not paths.is_path_hash(project):
        raise MemoryRefused(f"`project` is {project!r}, not 16 hex digits")
    return str(project)


def refuse_misplaced(piece: Piece) -> None:
    """Raises MemoryRefused for a piece that has no place in a system that shows all it holds, lets
    nothing expire and has no soul."""
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


def written(rows: Iterable[Row]) -> str:
    """Rows as one text: a line each."""
    return "".join(json.dumps(dict(row), ensure_ascii=False) + "\n" for row in rows)


def read(text: str) -> list[Numbered]:
    """The rows of a text. Raises: MemoryRefused that names every line (up to ten) that is none."""
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
    """One row. Raises: MemoryRefused for a line that is none."""
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
    """Raises MemoryRefused with all faults of an import, if there are any."""
    if not faults:
        return
    listed = "\n".join(f"  {fault}" for fault in faults[:MAX_FAULTS_TOLD])
    more = len(faults) - MAX_FAULTS_TOLD
    rest = f"\n  ... and {more} more" if more > 0 else ""
    raise MemoryRefused(
        f"Nothing was imported: {len(faults)} of its lines cannot be taken.\n{listed}{rest}\n"
        "Correct them and import the file again."
    )


MAX_IMPORT_BYTES = 64_000_000
LISTED = 40
TEXT_CHARS = 80


async def export(system: MemorySystem, file: Path | None) -> str:
    """The text, or with `file` (written 0600) one line about it. Raises: MemoryRefused,
    StorageError."""
    rows = await carrier_of(system).rows()
    text = written(rows)
    if file is None:
        return text.rstrip("\n")
    durable.replace(file, text.encode(errors="replace"))
    entries = plural(len(rows), "entry", "entries")
    return f"exported {entries} of {system.name} to {file}"


async def import_(system: MemorySystem, file: Path) -> str:
    """Takes in what `export` wrote, edited or not: all of it, or nothing. Raises: MemoryRefused,
    StorageError."""
    rows = read(_read(file))
    others = [row for row in rows if row.row.get("system", system.name) != system.name]
    if others:
        other = others[0].row["system"]
        raise MemoryRefused(
            f"Nothing was imported: line {others[0].line} is of the {other} memory, and this is "
            f"{system.name}. Use `kode memory --memory {other} import`, then `kode memory copy "
            f"--from {other} --to {system.name}`."
        )
    carrier = carrier_of(system)
    carrier.author = replace(AUTHOR, source=str(file))
    taken = await carrier.take_rows(rows)
    lines = [f"imported {taken.added} new, {taken.changed} changed; {taken.known} were there"]
    if taken.change_ids:
        ids = taken.change_ids
        lines.append(f"undo with: kode memory undo {' · '.join(ids[:5])}")
    return "\n".join(lines)


async def copy(source: MemorySystem, target: MemorySystem, *, dry_run: bool) -> str:
    """Carries over what has a meaning in the target, and lists what has not; the source is only
    read. Raises: MemoryRefused, StorageError, BusyError."""
    pieces = await carrier_of(source).pieces()
    carrier = carrier_of(target)
    carrier.author = replace(AUTHOR, source=f"the {source.name} memory")
    done = await carrier.take(pieces, dry_run=dry_run)
    counts = Counter(one.done for one in done)
    verb = "would be carried" if dry_run else "carried"
    lines = [
        f"{source.name} → {target.name}: {counts['carried']} {verb}, {counts['known']} there "
        f"already, {counts['left']} left out"
    ]
    lines += _section("carried" if not dry_run else "to be carried", "→", done, "carried")
    lines += _section("left out", "because", done, "left")
    return "\n".join(lines)


def _section(head: str, joint: str, done: Sequence[Carried], which: str) -> list[str]:
    found = [one for one in done if one.done == which]
    if not found:
        return []
    lines = [f"{head}:"]
    for one in found[:LISTED]:
        piece = one.piece
        hidden = piece.private or scan(piece.content) is not None
        line = " ".join(piece.content.split())
        text = "(not shown)" if hidden else line[:TEXT_CHARS] + ("…" if line[TEXT_CHARS:] else "")
        lines.append(f"  [{piece.origin}] {text} {joint} {one.why}")
    if len(found) > LISTED:
        lines.append(f"  ... and {len(found) - LISTED} more")
    return lines


def _read(file: Path) -> str:
    """Raises: MemoryRefused."""
    try:
        if file.stat().st_size > MAX_IMPORT_BYTES:
            raise MemoryRefused(f"{file} is larger than 64 MB. Import it in parts.")
        return file.read_bytes().decode()
    except OSError as error:
        raise MemoryRefused(
            f"{file} cannot be read: {error.strerror}. Name a file that `kode memory export` wrote."
        ) from error
    except UnicodeDecodeError as error:
        raise MemoryRefused(f"{file} is not UTF-8 text. Save it as UTF-8 and try again.") from error
