"""Writes what was decided for an item: the entry, the memory, the end of the item.

A crash may follow any step, and each can be repeated: an entry is searched before it is written
again, changes have fixed ids, and merging twice changes nothing.
"""

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime

from kode.memory.base import Outcome
from kode.memory.change import Author, Change
from kode.memory.history import History
from kode.memory.journal.files import (
    HISTORY,
    MEMORY,
    SYSTEM,
    JournalFiles,
    as_read,
    block_of,
    size_of,
)
from kode.memory.journal.said import Queue, of
from kode.memory.lines import merge_lines
from kode.memory.queue import Item
from kode.memory.stored import read_row
from kode.memory.waiting import Proposal, came_from, hold
from kode.messages import shorten

QUOTED_CHARS = 80
RAW = "[raw-fallback]"
"""Begins the entry of a failed consolidation."""
OUTSIDE = "[from a session that took in outside text]"
"""Begins the entry of such a session: reading it counts as reading outside text."""


@dataclass(frozen=True, kw_only=True)
class Decided:
    """What will be written for an item, unchanged however often it is tried: its `answer`."""

    at: str
    """ISO time of the entry, UTC."""
    block: str
    """The entry as text in the history."""
    changes: tuple[str, str]
    """Ids of the changes to history and memory."""
    base: str = ""
    """The memory that the model saw."""
    update: str | None = None
    """The model's new memory; None leaves it unchanged."""
    done: bool = True
    """False for a raw fallback: the conversation still waits for a model."""


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
        item = replace(item, answer=json.dumps(asdict(decided), ensure_ascii=False))
        self._queue.write(item)
        return item

    def commit(self, item: Item, *, recovering: bool = False) -> list[Outcome]:
        """Writes what was decided. Raises: StorageError, MemoryRefused."""
        decided = read_row(Decided, item.answer.encode(errors="replace"))
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
                    author_of(item),
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
            more = asdict(replace(of(item), fallen_back=True))
            self._queue.write(replace(item, answer="", more=more))
        return outcomes

    def recover(self) -> list[Outcome]:
        """Finishes what an earlier process decided. Raises: StorageError, MemoryRefused."""
        outcomes: list[Outcome] = []
        for item in self._queue.items():
            if item.answer:
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
        change = Change.by(author_of(item), SYSTEM, "append", target, after=block, id=id)
        at = datetime.fromisoformat(decided.at)
        with self._making(change, recovering):
            self._files.append_block(decided.block, at, recovering=recovering)
        return [Outcome(line=f'added to the history "{quoted(decided.block)}"', change_id=id)]

    @contextmanager
    def _making(self, change: Change, recovering: bool) -> Iterator[None]:
        """Records a change once, also if an interrupted process has recorded it; one that it could
        not make is recorded again."""
        if recovering and self._history.find(change.id):
            if self._history.is_in_effect(change.id):
                yield
                return
            change = replace(change, id=secrets.token_hex(6))
        with self._history.making(change):
            yield

    def _hold(self, item: Item, decided: Decided, update: str) -> list[Outcome]:
        """Lets an update wait, once, also if an interrupted process has recorded it."""
        if not self._history.find(decided.changes[1]):
            proposal = self.proposal(item.id, item.session, decided.base, update, item.outside)
            hold(self._history, proposal, author_of(item), id=decided.changes[1])
        line = f"an update of {MEMORY} waits for `kode memory review`: outside text was read"
        return [Outcome(line=line)]


def author_of(item: Item) -> Author:
    return Author(who="consolidation", session=item.session, turn=item.turn)


def quoted(block: str) -> str:
    """The beginning of an entry, on one line."""
    return shorten(block.partition("\n")[2], QUOTED_CHARS)
