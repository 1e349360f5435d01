"""What is still to be consolidated, on disk until it is: the conversation itself, as raw material.

An item is written before the model is asked. From then on its messages count as taken: they are
never taken again, and never lost. Its life:

    waiting    the conversation is in it; a model is, or will be, asked
    decided    it also holds what will be written: nothing is decided twice
    done       it is gone, and `done/` holds the keys of its messages

`turn` is the one lock of kode's memory that is held while a model works. It guards no file: it is
the right to consolidate, one at a time among all processes, so that each builds on the memory that
the one before has left. Files are written under the journal's own lock, held for a moment. Both die
with their process, so a killed one holds up nobody, and a lease to wait for is not needed.
"""

import json
import secrets
import time
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from pathlib import Path

from kode import durable
from kode.memory.history import Author
from kode.memory.stored import WaitingFolder, locked, read_row, stems

DONE_KEPT_S = 90 * 86_400.0
"""How long the keys of done items are kept, for sessions whose own file could not keep them."""


@dataclass(frozen=True, kw_only=True)
class Decided:
    """What will be written for an item, once and the same however often it is tried."""

    at: str
    """ISO time of the entry, UTC."""
    block: str
    """The entry as it stands in the history."""
    changes: tuple[str, str]
    """Ids of the changes to history and memory."""
    base: str = ""
    """The memory that the model was shown."""
    update: str | None = None
    """What it made of it; None leaves it."""
    done: bool = True
    """False for a raw fallback: the conversation itself still waits for a model."""


@dataclass(frozen=True, kw_only=True)
class Item:
    id: str
    session: str
    turn: int | None
    at: str
    """When it was put down, ISO, UTC."""
    keys: tuple[str, ...]
    """Of its messages."""
    text: str
    """The conversation for the model, bounded, without credentials."""
    raw: tuple[str, ...]
    """Its last messages, short, for a raw fallback."""
    session_path: str = ""
    """The file that has them whole."""
    tainted: bool = False
    attempts: int = 0
    """Counted before the model is asked: a killed process has asked as well."""
    fallen_back: bool = False
    """Whether the history has a raw fallback for it."""
    decided: Decided | None = None

    @property
    def author(self) -> Author:
        return Author(who="consolidation", session=self.session, turn=self.turn)


class Queue(WaitingFolder[Item]):
    """`queue/` of a project's journal, and `queue/done/`."""

    kind = Item

    def turn(self, timeout_s: float) -> AbstractAsyncContextManager[None]:
        """The right to consolidate. Raises: BusyError after `timeout_s`."""
        return locked(self.folder, timeout_s=timeout_s)

    def finish(self, item: Item) -> None:
        """Done: its keys are kept, then it goes. Raises: StorageError."""
        durable.make_folder(self.folder / "done")
        keys = json.dumps(list(item.keys)).encode()
        durable.replace(self._done(item.id), keys)
        self.remove(item.id)

    def ids(self, session: str | None = None) -> list[str]:
        """Of all that wait, or of one session: in the order they were put down, whichever session
        they are of, so that what was said last is what memory ends with."""
        ids = [id for id in stems(self.folder) if session is None or _of(id) == session]
        return sorted(ids, key=lambda id: id.rpartition(".")[2])

    def taken(self, session: str) -> set[str]:
        """The keys of a session's messages that are in items, waiting or done."""
        keys: set[str] = set()
        for item in map(self.read, self.ids(session)):
            keys.update(item.keys if item else ())
        for id in stems(self.folder / "done"):
            if _of(id) == session:
                keys.update(self._keys(id))
        return keys

    def forget_done(self, session: str, keys: Iterable[str]) -> None:
        """Removes what is done of a session that keeps these keys by itself, and what is old."""
        known = set(keys)
        for id in stems(self.folder / "done"):
            with suppress(OSError):
                path = self._done(id)
                old = time.time() - path.stat().st_mtime > DONE_KEPT_S
                if old or (_of(id) == session and known.issuperset(self._keys(id))):
                    durable.remove(path)

    def _keys(self, id: str) -> list[str]:
        """Of what is done; none where that cannot be read."""
        with suppress(OSError):
            return read_row(list[str], self._done(id).read_bytes()) or []
        return []

    def _done(self, id: str) -> Path:
        return self.folder / "done" / f"{id}.json"


def new_id(session: str, known: Iterable[str]) -> str:
    """An id of a new item: items of a session are in the order they were put down, whatever the
    clock does. `known` are those that wait."""
    last = max((id.rpartition(".")[2][:20] for id in known if _of(id) == session), default="")
    now = max(time.time_ns(), int(last) + 1 if last.isdecimal() else 0)
    return f"{session}.{now:020d}{secrets.token_hex(3)}"


def _of(id: str) -> str:
    return id.rpartition(".")[0]
