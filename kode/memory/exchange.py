"""What memory holds as text that a person can read, edit and give back: JSON lines or Markdown.

A row is a mapping of field names to JSON values; `content` is its text. In Markdown a row is a
block: a line `---`, a line a field, a line `---`, then the text as it is. A line of the text that
would be taken for the beginning of a block gets a backslash in front. Both forms give back the
same rows. What rows mean is known to the system they are from, through its carrier.

A `Piece` is what one system gives another: the meanings that more than one of them has.
"""

import json
import pkgutil
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from kode.contracts import MemorySystem
from kode.errors import MemoryError_

Format = Literal["jsonl", "markdown"]
Row = Mapping[str, Any]

MAX_FAULTS_TOLD = 10

_RULE = "---"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPED = re.compile(r"\\*---[ \t]*")


@dataclass(frozen=True, kw_only=True)
class Numbered:
    """A row with the line of the file it begins at, from 1."""

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
    change_ids: tuple[str, ...] = field(default=())


class Carrier(Protocol):
    """One open system, as rows and as pieces. Made with the system as its only argument."""

    async def rows(self) -> list[Row]:
        """All that the system keeps, oldest first."""

    async def take_rows(self, rows: Sequence[Numbered]) -> Taken:
        """Takes in rows of this very system: all, or none. What is not in them stays.

        Raises: MemoryError_ that names the bad lines.
        """

    async def pieces(self) -> list[Piece]:
        """What it remembers, in the terms of others; oldest first."""

    async def take(self, pieces: Sequence[Piece], *, dry_run: bool) -> list[Carried]:
        """Takes in what has a meaning here, and says what became of each."""


CARRIERS: Mapping[str, str] = {
    "notes": "kode.memory.notes.carry:NotesCarrier",
    "tiered": "kode.memory.tiered.carry:TieredCarrier",
    "vault": "kode.memory.vault.carry:VaultCarrier",
    "journal": "kode.memory.journal.carry:JournalCarrier",
}
"""System → module:Class. A system without one can be neither exported nor copied."""


def carrier_of(system: MemorySystem) -> Carrier:
    """Raises: MemoryError_ when there is none."""
    where = CARRIERS.get(system.name)
    if where is None:
        raise MemoryError_(
            f"The {system.name} memory cannot be exported, imported or copied; "
            f"these can: {', '.join(CARRIERS)}."
        )
    carrier: Carrier = pkgutil.resolve_name(where)(system)
    return carrier


def misplaced(piece: Piece, *, projects: bool) -> str:
    """Why a piece has no place in a system that shows all it holds, lets nothing expire and has no
    soul; "" when it has. `projects`: whether the system tells them apart."""
    if piece.private:
        return "a sensitive note is never shown, and all of this memory is"
    if piece.kind == "soul":
        return "there is no soul here; AGENTS.md may serve as one"
    if piece.kind == "event" or (piece.expires_at and piece.kind != "episode"):
        return "it passes, and nothing here expires"
    if piece.project and not projects:
        return "this memory knows no projects: it would be taken for true everywhere"
    if piece.untrusted and piece.kind != "episode":
        return "it came from untrusted content and was not approved"
    return ""


# ── writing ──────────────────────────────────────────────────────────────────────────────────


def written(rows: Iterable[Row], format: Format) -> str:
    """Rows as one text, ending with a line feed unless there are none."""
    if format == "jsonl":
        return "".join(json.dumps(dict(row), ensure_ascii=False) + "\n" for row in rows)
    return "\n".join(block(row) + "\n" for row in rows)


def block(row: Row) -> str:
    """One row in Markdown."""
    lines = [_RULE]
    lines += [f"{name}: {_bare(value)}" for name, value in row.items() if name != "content"]
    lines += [_RULE]
    text = "\n".join(_guarded(line) for line in str(row.get("content", "")).split("\n"))
    return "\n".join(lines) + "\n" + text


def _bare(value: Any) -> str:
    """A value on one line: a string as it is where that is unmistakable, else JSON."""
    if isinstance(value, str) and value == value.strip() and value and "\n" not in value:
        try:
            json.loads(value)
        except ValueError:
            if value[0] not in '[{"' and value.isprintable():
                return value
    return json.dumps(value, ensure_ascii=False)


def _guarded(line: str) -> str:
    return "\\" + line if _ESCAPED.fullmatch(line) else line


# ── reading ──────────────────────────────────────────────────────────────────────────────────


def read(text: str) -> list[Numbered]:
    """The rows of a text in either form.

    Raises: MemoryError_ that names every line (up to ten) that cannot be read.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    faults: list[str] = []
    first = text.lstrip()[:1]
    rows = _read_lines(text, faults) if first == "{" else _read_blocks(text, faults)
    refuse(faults)
    return rows


def refuse(faults: Sequence[str]) -> None:
    """Raises MemoryError_ with all faults of an import, if there are any."""
    if not faults:
        return
    told = "\n".join(f"  {fault}" for fault in faults[:MAX_FAULTS_TOLD])
    more = len(faults) - MAX_FAULTS_TOLD
    rest = f"\n  ... and {more} more" if more > 0 else ""
    raise MemoryError_(
        f"Nothing was imported: {len(faults)} of its lines cannot be taken.\n{told}{rest}\n"
        "Correct them and import the file again."
    )


def read_block(text: str) -> Row:
    """The row of one block, as `block` wrote it. Raises: MemoryError_."""
    rows = read(text)
    if len(rows) != 1:
        raise MemoryError_(f"This is not one block but {len(rows)}.")
    return rows[0].row


def _read_lines(text: str, faults: list[str]) -> list[Numbered]:
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            faults.append(f"line {number}: no JSON ({error})")
            continue
        if not isinstance(row, dict):
            faults.append(f"line {number}: not an object but {type(row).__name__}")
        elif not isinstance(row.get("content"), str):
            faults.append(f"line {number}: `content` is missing or no text")
        else:
            rows.append(Numbered(line=number, row=row))
    return rows


def _read_blocks(text: str, faults: list[str]) -> list[Numbered]:
    rows: list[Numbered] = []
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        if not lines[at].strip():
            at += 1
            continue
        if lines[at].rstrip() != _RULE:
            faults.append(f"line {at + 1}: a block begins with a line `---`")
            return rows
        start, at = at, at + 1
        row, at = _read_fields(lines, at, faults)
        content = []
        while at < len(lines) and lines[at].rstrip() != _RULE:
            line = lines[at]
            content.append(line[1:] if line[:1] == "\\" and _ESCAPED.fullmatch(line) else line)
            at += 1
        row["content"] = "\n".join(content).strip()
        rows.append(Numbered(line=start + 1, row=row))
    return rows


def _read_fields(lines: Sequence[str], at: int, faults: list[str]) -> tuple[dict[str, Any], int]:
    """The fields from line `at` on, and the line after the `---` that ends them."""
    row: dict[str, Any] = {}
    while at < len(lines) and lines[at].rstrip() != _RULE:
        name, colon, value = lines[at].partition(":")
        if not colon or not _NAME.fullmatch(name.strip()):
            faults.append(f"line {at + 1}: a field is written `name: value`")
        elif name.strip() == "content":
            faults.append(f"line {at + 1}: the text stands below the fields, not among them")
        else:
            row[name.strip()] = _value(value.strip())
        at += 1
    if at == len(lines):
        faults.append(f"line {at}: the fields end with a line `---`")
    return row, at + 1


def _value(text: str) -> Any:
    if text == "":
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
