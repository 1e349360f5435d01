"""Writes what was decided for an item: the entry, the memory, the end of the item.

A crash may follow any step, and each can be repeated: an entry is searched before it is written
again, changes have fixed ids, and merging twice changes nothing.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from kode.errors import MemoryRefused
from kode.memory.base import Outcome
from kode.memory.history import Author, Change, History, nothing_left, refuse_redacted, undo_of
from kode.memory.journal.files import (
    HISTORY,
    MEMORY,
    SYSTEM,
    JournalFiles,
    as_read,
    block_of,
    size_of,
)
from kode.memory.journal.queue import Decided, Item, Queue
from kode.memory.lines import merge_lines, revert_lines
from kode.memory.waiting import Proposal, came_from, hold
from kode.messages import shorten

QUOTED_CHARS = 80
RAW = "[raw-fallback]"
"""Begins the entry of a failed consolidation."""
OUTSIDE = "[from a session that took in outside text]"
"""Begins the entry of such a session: reading it counts as reading outside text."""


class Committer:
    """Call with the journal's lock held."""

    def __init__(self, files: JournalFiles, queue: Queue, history: History) -> None:
        self._files = files
        self._queue = queue
        self._history = history

    def decide(
        self, item: Item, entry: str, at: datetime, *, base: str, update: str | None, done: bool
    ) -> Item:
        """Records what will be written. Raises: StorageError."""
        entry = f"{OUTSIDE}\n{entry}" if item.tainted else entry
        decided = Decided(
            at=at.isoformat(),
            block=block_of(entry, at),
            changes=(secrets.token_hex(6), secrets.token_hex(6)),
            base=base,
            update=update,
            done=done,
        )
        item = replace(item, decided=decided)
        self._queue.write(item)
        return item

    def commit(self, item: Item, *, recovering: bool = False) -> list[Outcome]:
        """Writes what was decided. Raises: StorageError, MemoryRefused."""
        decided = item.decided
        if decided is None:
            return []
        outcomes = self._append(item, decided, recovering)
        if decided.update is not None and item.tainted:
            outcomes += self._hold(item, decided, decided.update)
        elif decided.update is not None:
            outcomes += self.update_memory(
                decided.base,
                decided.update,
                Change.by(
                    item.author,
                    SYSTEM,
                    "consolidate",
                    self._files.folder.target(MEMORY),
                    id=decided.changes[1],
                ),
                recovering=recovering,
            )
        if decided.done:
            self._queue.finish(item)
        else:
            self._queue.write(replace(item, decided=None, fallen_back=True))
        return outcomes

    def recover(self) -> list[Outcome]:
        """Finishes what an earlier process decided. Raises: StorageError, MemoryRefused."""
        outcomes: list[Outcome] = []
        for item in map(self._queue.read, self._queue.ids()):
            if item is not None and item.decided is not None:
                outcomes += self.commit(item, recovering=True)
        return outcomes

    def update_memory(
        self, base: str, update: str, change: Change, *, recovering: bool = False
    ) -> list[Outcome]:
        """Applies an update of `base` to MEMORY.md, keeping changes made meanwhile.

        Raises: StorageError, MemoryRefused.
        """
        current = self._files.read_memory()
        new = as_read(merge_lines(base, current, update))
        if new == current:
            return []
        before = (current,) if current else ()
        with self._making(replace(change, before=before, after=(new,)), recovering):
            self._files.write_memory(new)
        return [
            Outcome(
                line=f"updated {MEMORY} ({size_of(current):,} → {size_of(new):,} bytes)",
                change_id=change.id,
            )
        ]

    # ── by hand ──────────────────────────────────────────────────────────────────────────────

    def add_line(self, text: str, author: Author) -> Outcome:
        """Appends a line to MEMORY.md. Raises: StorageError, MemoryRefused."""
        text = as_read(text)
        line = text if text.startswith(("-", "*", "#")) or "\n" in text else f"- {text}"
        memory = self._files.read_memory()
        if f"\n{line}\n" in f"\n{memory}\n":
            return Outcome(line=f"{MEMORY} has this line already")
        new = f"{memory}\n{line}".strip()
        change = Change.by(
            author,
            SYSTEM,
            "add",
            self._files.folder.target(MEMORY),
            before=(memory,) if memory else (),
            after=(new,),
        )
        with self._history.making(change):
            self._files.write_memory(new)
        added = f'added to {MEMORY} "{shorten(line, QUOTED_CHARS)}" ({size_of(new):,} bytes now)'
        return Outcome(line=added, change_id=change.id)

    def add_entry(self, text: str, at: datetime, author: Author) -> Outcome:
        """Adds an entry to the history. Raises: StorageError."""
        block = block_of(text, at)
        change = Change.by(
            author, SYSTEM, "append", self._files.folder.target(HISTORY), after=(block,)
        )
        with self._history.making(change):
            self._files.append_block(block, at, recovering=False)
        return Outcome(line=f'added to the history "{quoted(block)}"', change_id=change.id)

    def proposal(
        self, id: str, session: str, base: str, update: str, outside: str = ""
    ) -> Proposal:
        """An update of MEMORY.md from a session with outside text, as it waits for approval."""
        return Proposal(
            id=id,
            text=update,
            base=base,
            title=f"an update of {MEMORY}",
            source=came_from(session, outside),
            place=self._files.folder.target(""),
        )

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    def _append(self, item: Item, decided: Decided, recovering: bool) -> list[Outcome]:
        id = decided.changes[0]
        target, block = self._files.folder.target(HISTORY), (decided.block,)
        change = Change.by(item.author, SYSTEM, "append", target, after=block, id=id)
        at = datetime.fromisoformat(decided.at)
        with self._making(change, recovering):
            self._files.append_block(decided.block, at, recovering=recovering)
        return [Outcome(line=f'added to the history "{quoted(decided.block)}"', change_id=id)]

    @contextmanager
    def _making(self, change: Change, recovering: bool) -> Iterator[None]:
        """Records a change once, also if an interrupted process has recorded it; one that it could
        not make is recorded again."""
        if recovering and self._history.find(change.id):
            if self._history.is_in_effect(SYSTEM, change.id):
                yield
                return
            change = replace(change, id=secrets.token_hex(6))
        with self._history.making(change):
            yield

    def _hold(self, item: Item, decided: Decided, update: str) -> list[Outcome]:
        """Lets an update wait, once, also if an interrupted process has recorded it."""
        if not self._history.find(decided.changes[1]):
            proposal = self.proposal(item.id, item.session, decided.base, update, item.outside)
            hold(self._history, proposal, item.author, id=decided.changes[1])
        line = f"an update of {MEMORY} waits for `kode memory review`: outside text was read"
        return [Outcome(line=line)]


def undo(files: JournalFiles, history: History, change: Change, author: Author) -> Outcome:
    """Undoes one change, as a new change. Call with the journal's lock held.

    Later changes to the memory stay: only what this one did is reverted.

    Raises: MemoryRefused with the obstacle; StorageError.
    """
    files = JournalFiles(files.folder.of_target(change.target)[0])
    refuse_redacted(change, f"Edit {files.root} by hand.")
    if change.before == change.after:  # it was a confirmation
        return _undid(change, MEMORY, history.append(undo_of(change, author)))
    if change.target.endswith(MEMORY):
        undoing = undo_of(change, author, target=files.folder.target(MEMORY))
        current = files.read_memory()
        new = revert_lines(current, "".join(change.before), "".join(change.after))
        if new is None:
            raise MemoryRefused(
                f"{MEMORY} was changed since {change.id} in the same lines. Undo the later change "
                f"first (`kode memory log`), or edit {files.root / MEMORY}."
            )
        new = new.strip()
        if new == current:
            raise nothing_left(change)
        undoing = replace(undoing, before=(current,), after=(new,) if new else ())
        with history.making(undoing):
            files.write_memory(new)
        return _undid(change, MEMORY, undoing)
    undoing = undo_of(change, author, target=files.folder.target(HISTORY))
    blocks = {*change.after, *change.before}
    there = {block for path in files.history_files() for block in blocks if block in _text(path)}
    if there != set(change.after):
        raise nothing_left(change)
    with history.making(undoing):
        for block in change.after:
            files.remove_block(block)
        for block in change.before:
            stamp = block.partition("\n")[0].removeprefix("## ")
            files.append_block(block, datetime.fromisoformat(stamp), recovering=True)
    return _undid(change, HISTORY, undoing)


def _undid(change: Change, file: str, undoing: Change) -> Outcome:
    return Outcome(line=f"undid {change.kind} {change.id} in {file}", change_id=undoing.id)


def quoted(block: str) -> str:
    """The beginning of an entry, on one line."""
    return shorten(block.partition("\n")[2], QUOTED_CHARS)


def _text(path: Path) -> str:
    with suppress(OSError):
        return path.read_bytes().decode(errors="replace")
    return ""
