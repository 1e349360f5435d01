"""The journal as rows (export, import) and as pieces (to and from other systems)."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from kode.errors import MemoryError_
from kode.memory import scan
from kode.memory.exchange import Carried, Numbered, Piece, Row, Taken, misplaced, refuse
from kode.memory.history import Change
from kode.memory.journal.commit import OUTSIDE, SYSTEM
from kode.memory.journal.files import HISTORY, MEMORY, Entry, block_of, parse
from kode.memory.locks import locked

if TYPE_CHECKING:
    from kode.memory.journal.system import Journal

MAX_BYTES = 65_536


class JournalCarrier:
    """One open journal."""

    def __init__(self, journal: "Journal") -> None:
        self._files = journal.files
        self._history = journal.history
        self._now = journal._context.now

    async def rows(self) -> list[Row]:
        """MEMORY.md whole, then every entry of the history."""
        memory = self._files.read_memory()
        first: list[Row] = [{"system": SYSTEM, "kind": "memory", "content": memory}]
        entries = (
            {"system": SYSTEM, "kind": "entry", "at": entry.at, "content": entry.text}
            for entry in self._files.entries()
        )
        return [*(first if memory else []), *entries]

    async def take_rows(self, rows: Sequence[Numbered]) -> Taken:
        """MEMORY.md is replaced where it differs; entries that are not there are added."""
        faults: list[str] = []
        memory: list[str] = []
        entries: list[tuple[str, datetime]] = []
        for row in rows:
            try:
                self._read(row.row, memory, entries)
            except MemoryError_ as error:
                faults.append(f"line {row.line}: {error}")
        if len(memory) > 1:
            faults.append(f"{len(memory)} rows of kind memory: there is only one {MEMORY}")
        refuse(faults)
        async with locked(self._files.root):
            ids = [id for text in memory if (id := self._write_memory(text))]
            changed = len(ids)
            there = set(self._files.entries())
            ids += [id for text, at in entries if (id := self._write_entry(text, at, there))]
        added = len(ids) - changed
        return Taken(
            added=added, changed=changed, known=len(rows) - len(ids), change_ids=tuple(ids)
        )

    async def pieces(self) -> list[Piece]:
        """Each line or paragraph of MEMORY.md as a fact, each entry as an episode."""
        facts = [
            Piece(content=line.lstrip("-*+ ").strip(), kind="fact", origin=MEMORY)
            for line in self._files.read_memory().split("\n")
            if line.lstrip("-*+ ").strip() and not line.startswith("#")
        ]
        episodes = [
            Piece(
                content=e.text,
                kind="episode",
                created_at=e.at,
                origin=f"{HISTORY} {e.at}",
                untrusted=e.text.startswith(OUTSIDE),
            )
            for e in self._files.entries()
        ]
        return [*facts, *episodes]

    async def take(self, pieces: Sequence[Piece], *, dry_run: bool) -> list[Carried]:
        """Facts and rules become lines of MEMORY.md, episodes entries of the history."""
        memory = self._files.read_memory()
        lines: list[str] = []
        entries: list[tuple[str, datetime]] = []
        there = {entry.text for entry in self._files.entries()}
        done = [self._take_one(p, memory, there, lines, entries) for p in pieces]
        if not dry_run and (lines or entries):
            async with locked(self._files.root):
                if lines:
                    current = self._files.read_memory()
                    self._write_memory("\n".join(filter(None, (current, *lines))))
                known = set(self._files.entries())
                for text, at in entries:
                    self._write_entry(text, at, known)
        return done

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    def _take_one(
        self,
        piece: Piece,
        memory: str,
        there: set[str],
        lines: list[str],
        entries: list[tuple[str, datetime]],
    ) -> Carried:
        why = misplaced(piece, projects=False)
        if not why and piece.untrusted:
            why = "it came from untrusted content and was not approved"
        if why:
            return Carried(piece=piece, done="left", why=why)
        try:
            scan.check(piece.content, max_chars=MAX_BYTES)
        except MemoryError_ as error:
            return Carried(piece=piece, done="left", why=str(error))
        if piece.kind == "episode":
            at = _moment(piece.created_at) if piece.created_at else self._now()
            text = _as_written(piece.content, at)
            if text in there:
                return Carried(piece=piece, done="known", why=f"{HISTORY} has it")
            there.add(text)
            entries.append((text, at))
            return Carried(piece=piece, done="carried", why=HISTORY)
        line = f"- {' '.join(piece.content.split())}"
        if line in lines or piece.content in memory:
            return Carried(piece=piece, done="known", why=f"{MEMORY} has it")
        lines.append(line)
        return Carried(piece=piece, done="carried", why=MEMORY)

    def _read(self, row: Row, memory: list[str], entries: list[tuple[str, datetime]]) -> None:
        """Raises: MemoryError_."""
        text = str(row["content"]).strip()
        scan.check(text, max_chars=MAX_BYTES)
        match row.get("kind"):
            case "memory":
                memory.append(text)
            case "entry":
                entries.append((text, _moment(str(row.get("at", "")))))
            case other:
                raise MemoryError_(f"`kind` is {other!r}; allowed are memory, entry")

    def _write_memory(self, text: str) -> str:
        """The change's id, "" when it reads so already; under the lock."""
        current = self._files.read_memory()
        if text == current:
            return ""
        before = (current,) if current else ()
        return self._record(MEMORY, before, (text,), lambda: self._files.write_memory(text))

    def _write_entry(self, text: str, at: datetime, there: set[Entry]) -> str:
        """The change's id, "" when it is among the entries that are there; under the lock."""
        block = block_of(text, at)
        (entry,) = parse(block)
        if entry in there:
            return ""
        there.add(entry)
        return self._record(
            HISTORY, (), (block,), lambda: self._files.append_block(block, at, recovering=False)
        )

    def _record(
        self, file: str, before: tuple[str, ...], after: tuple[str, ...], write: Callable[[], None]
    ) -> str:
        change = Change(
            kind="import",
            target=f"{SYSTEM}/{file}",
            system=SYSTEM,
            who="import",
            before=before,
            after=after,
        )
        self._history.append(change)
        write()
        return change.id


def _as_written(text: str, at: datetime) -> str:
    """A text as it reads back from the history."""
    found: list[Entry] = list(parse(block_of(text, at)))
    return found[0].text if found else ""


def _moment(text: str) -> datetime:
    """Raises: MemoryError_."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise MemoryError_(f"`at` is {text!r}; write a time as 2026-03-01T12:00:00Z") from None
    return at if at.tzinfo else at.astimezone()
