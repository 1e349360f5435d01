"""Notes that several people write: the copy on this machine, as a plug-in that reaches their server
replicates it.

The history here has the lines of all; what follows from those of the others is what their server
says that stands. A note that a line touches which is still to be sent stays as it is here.
"""

import asyncio
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kode import installed
from kode.contracts import LedgerLine, Remote, Row, TakenLines
from kode.errors import ConfigError, MemoryRefused
from kode.memory.change import REBUILD, Author, Change, undo_of
from kode.memory.history import History
from kode.memory.notes.note import (
    MAX_MERGED_CHARS,
    SYSTEM,
    Note,
    checked,
    is_shared,
    note_of,
    row_of,
)
from kode.memory.notes.store import NoteStore, Wanted
from kode.memory.stored import check_row, locked
from kode.messages import shorten

if TYPE_CHECKING:
    from kode.config.model import Notes as Settings

AT_ONCE = 100
"""Notes of one transaction."""
PERSON = "team_person"
POSITION = "sent_to"
REFUSED = "refused"
"""Names in the copy's `meta`: the role that the server knew when it was last reached, the last line
that was sent or refused, and the refused ones."""
NEWS_TEXT_CHARS = 500
BY_CHARS = 100

_SET_HERE = frozenset({"user", "person", "host"})
"""Fields of a note that each side sets by itself."""
_NOT_SENT = frozenset(
    {"before", "after", "redacted", "person", "host", "system", "stood", "stands"}
)


def remote_of(settings: "Settings", root: Path) -> Remote | None:
    """The server that notes are shared through; None where they are a person's own. Raises:
    ConfigError, also where no plug-in knows such a server."""
    if settings.url is None:
        return None
    scheme = settings.url.partition(":")[0]
    found = installed.added("replicas").get(scheme)
    if found is None:
        raise ConfigError(
            f"memory.notes.url names a server ({scheme}) that no plug-in which is on can reach. "
            "`kode plugin list` shows which there are; `kode plugin enable` turns one on."
        )
    remote: Remote = installed.call(*found, settings, root)
    return remote


class NotesReplica:
    """The copy of a store and its history."""

    def __init__(self, store: NoteStore, history: History) -> None:
        self._store = store
        self._history = history

    def alone(self) -> AbstractAsyncContextManager[None]:
        return locked(self._store.database.path.parent / "exchange", timeout_s=0.0)

    def kept(self, name: str) -> str:
        return self._store.database.meta(name)

    async def keep(self, values: Mapping[str, str]) -> None:
        async with self._store.writing():
            for name, value in values.items():
                self._store.database.set_meta(name, value)

    # ── what leaves ──────────────────────────────────────────────────────────────────────────

    def waiting(self) -> list[tuple[LedgerLine, str]]:
        faults = self._refused()
        return [(line, faults.get(line.id, "")) for line in map(self._sent, self._unsent()) if line]

    async def refuse(self, id: str, why: str) -> None:
        async with self._store.writing():
            self._store.database.set_meta(REFUSED, json.dumps({**self._refused(), id: why}))

    def check_approval(self, note: Note) -> None:
        """What came from outside in a session of one person is approved by another. The server
        holds to that too. Raises: MemoryRefused."""
        if note.person in ("", self.kept(PERSON)):
            raise MemoryRefused(
                f"Note {note.id} comes from outside, through your session: in a team "
                "somebody else approves it. You can drop it (`kode memory review`). Nothing "
                "was changed."
            )

    def _unsent(self) -> list[Change]:
        """The lines of this machine that were not sent yet, oldest first, of private notes too."""
        lines, after = self._history.lines(), self._after()
        known = {change.id for change in after}
        refused = (lines.by_id(id) for id in self._refused() if id not in known)
        return [one for one in (*refused, *after) if one is not None and self._is_open(one)]

    def _after(self) -> list[Change]:
        """The lines that follow the position, oldest first."""
        position, found = self.kept(POSITION), list[Change]()
        for change in reversed(self._history.lines()):
            if change.id == position:
                break
            found.append(change)
        return found[::-1]

    def _is_open(self, change: Change) -> bool:
        """Whether a line is of this machine, was made, and no colleague was first. What a rebuild
        puts back the server has, or gets with the lines that wait."""
        undo = self._history.lines().undo_of(change)
        return not change.person and change.kind != REBUILD and (undo is None or not undo.is_mark)

    def _sent(self, change: Change) -> LedgerLine | None:
        """A line without what stays here; None where nothing is left. One that held a credential
        stays: the history does not have it whole."""
        if change.redacted:
            return None
        sides = self._store.sides(change)
        one, other = ({note.id: note for note in side if is_shared(note)} for side in sides)
        same = {id for id, note in one.items() if other.get(id) == note}
        before, after = (
            tuple(_travelling(note) for id, note in side.items() if id not in same)
            for side in (one, other)
        )
        if not before and not after:
            return None
        row = {name: value for name, value in asdict(change).items() if name not in _NOT_SENT}
        line = LedgerLine(change=row, before=before, after=after)
        if len(line.ids) < len({note.id for side in sides for note in side}):
            row["words"] = ""  # they may say what stays here
        return line

    def _refused(self) -> dict[str, str]:
        return dict(json.loads(self.kept(REFUSED) or "{}"))

    # ── what arrives ─────────────────────────────────────────────────────────────────────────

    async def belong(self, person: str, sees: Callable[[str], bool]) -> None:
        waits = self._waiting_ids()
        async with self._store.writing():
            notes = filter(is_shared, self._store.everything())
            gone = [one for one in notes if not sees(one.scope) and one.id not in waits]
            self._store.apply(gone, ())
            self._store.database.set_meta(PERSON, person)

    async def take(
        self,
        lines: Sequence[LedgerLine],
        standing: Mapping[str, Row | None],
        *,
        sent: Mapping[str, str] = MappingProxyType({}),
        own: Collection[str] = (),
        keep: Mapping[str, str] = MappingProxyType({}),
    ) -> TakenLines:
        faults: list[str] = []
        arrived = self._record(lines, own, faults)
        ids = sorted(standing)
        for first in range(0, len(ids), AT_ONCE):
            async with self._store.writing():
                some = {*ids[first : first + AT_ONCE]} - self._waiting_ids(sent)
                self._render(some, standing, faults)
            await asyncio.sleep(0)  # an import of thousands does not hold up the prompt
        last = next(reversed(self._history.lines()), None)
        if sent or keep or (last is not None and last.id != self.kept(POSITION)):
            async with self._store.writing():
                self._settle(sent)
                for name, value in keep.items():
                    self._store.database.set_meta(name, value)
        return TakenLines(arrived=tuple(arrived), faults=tuple(faults))

    def _record(
        self, lines: Sequence[LedgerLine], own: Collection[str], faults: list[str]
    ) -> list[LedgerLine]:
        """The lines that the history did not have, and has now."""
        if not lines:
            return []
        known, fresh = self._history.known(), dict[str, tuple[LedgerLine, Change]]()
        for line in lines:
            try:
                change = _change_of(line)
            except MemoryRefused as error:
                faults.append(f"A change of {line.person} cannot be read ({error}): update kode.")
                continue
            key = f"{change.id} {change.at}"
            if key not in known and change.id not in own:
                fresh.setdefault(key, (line, change))
        self._history.append_all([change for _, change in fresh.values()])
        return [line for line, _ in fresh.values()]

    def _render(self, ids: set[str], standing: Mapping[str, Row | None], faults: list[str]) -> None:
        here = self._store.by_ids(ids)
        # A note that became sensitive here is this person's own from then on.
        ours = {id for id, note in here.items() if not is_shared(note)}
        rows = [row for id in sorted(ids - ours) if (row := standing[id]) is not None]
        after = [note for row in rows if (note := self._read(row, faults))]
        kept = ours | {note.id for note in after}
        self._store.apply([note for id, note in here.items() if id not in kept], after)

    def _read(self, row: Row, faults: list[str]) -> Note | None:
        """A note of the server, as what another program may have written: None for what may not be
        kept, which `faults` then says."""
        user = self._store.user
        try:
            note = note_of({**row, "user": user}, now=self._store.now(), user=user)
            checked(note, note.who, max_chars=MAX_MERGED_CHARS)
        except MemoryRefused as error:
            faults.append(f"A note of {row.get('person')} is left out: {error}")
            return None
        return note if is_shared(note) else None

    def _settle(self, sent: Mapping[str, str]) -> None:
        """Inside a transaction: moves on behind the lines of which none is to be sent any more. One
        that became another, or none, counts as undone here."""
        for change in self._unsent():
            if sent.get(change.id, change.id) != change.id:
                reason = f"a colleague was first: {change.reason}"
                author = Author(who="merge")
                self._history.append(undo_of(change, author, before=(), after=(), reason=reason))
        refused, position = self._refused(), self.kept(POSITION)
        for change in self._after():
            done = change.id in sent or change.id in refused
            if not done and self._is_open(change) and self._sent(change) is not None:
                break
            position = change.id
        left = {id: why for id, why in refused.items() if id not in sent}
        self._store.database.set_meta(POSITION, position)
        self._store.database.set_meta(REFUSED, json.dumps(left))

    def _waiting_ids(self, sent: Collection[str] = ()) -> set[str]:
        """The notes that lines touch which are still to be sent."""
        lines = (self._sent(change) for change in self._unsent() if change.id not in sent)
        return {id for line in lines if line is not None for id in line.ids}

    # ── what is said of it ───────────────────────────────────────────────────────────────────

    def news(self, line: LedgerLine) -> list[str]:
        try:
            before, after = self._store.sides(_change_of(line))
        except MemoryRefused:  # of another program
            return []
        stands = self._visible({note.id for note in (*before, *after)})
        by = shorten(f"by {line.person} ({line.change['kind']})", BY_CHARS)
        holding = [note for note in after if note.id in stands]
        gone = [
            note
            for note in before
            if note.id not in stands and note.untrusted != "waits" and note.superseded_by is None
        ]
        here = [note for note in gone if self._store.is_seen_here(note)]
        return [
            f"- {verb}, {by}: {shorten(note.content, NEWS_TEXT_CHARS)}"
            for verb, notes in (("holds now", holding), ("holds no more", here))
            for note in notes
        ]

    def _visible(self, ids: set[str]) -> set[str]:
        """Those of the notes that a model may be shown."""
        where, values = self._store.filter(Wanted())
        sql = f"JOIN json_each(:ids) j ON n.id = j.value WHERE {where}"
        return {note.id for note in self._store.select(sql, {**values, "ids": json.dumps([*ids])})}


def _travelling(note: Note) -> dict[str, Any]:
    return {name: value for name, value in row_of(note).items() if name not in _SET_HERE}


def _change_of(line: LedgerLine) -> Change:
    """Raises: MemoryRefused for what is no change."""
    sides = {
        name: tuple(json.dumps(row, ensure_ascii=False) for row in rows)
        for name, rows in (("before", line.before), ("after", line.after))
    }
    row = {name: value for name, value in line.change.items() if name not in _NOT_SENT}
    by = {"person": line.person, "host": line.host, "system": SYSTEM}
    return check_row(Change, {**row, **sides, **by})
