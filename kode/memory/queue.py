"""One queue for what a session leaves to a model: its note, its facts, a reflection, a summary.

An item holds the raw material, and is on disk before a model is asked. One process works on a queue
at a time, by a lock that ends with it; attempts are counted before the question, and the answer is
on disk before it is used. So a kill at any moment loses nothing, and nothing is paid for twice.
"""

import asyncio
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from kode import durable
from kode.errors import BusyError
from kode.memory.stored import locked, may_name_a_file, read_row, stems

Kind = TypeVar("Kind")

ENDED = "kode ended in the middle of it"
"""Why an item was not done, if nothing else is known."""
LETS_OTHERS_S = 0.05
"""Between two items: longer than `stored.locked` pauses, so that a session that ends gets a turn
while another process works through many."""


@dataclass(frozen=True, kw_only=True)
class Item:
    id: str
    session: str
    turn: int | None = None
    """The last turn that it covers."""
    at: str
    """When it was queued, ISO."""
    text: str
    """What happened: bounded, without credentials."""
    said: tuple[str, ...] = ()
    """The messages that the person typed, without credentials."""
    asked: str = ""
    """How the person worded them, each shortened."""
    tainted: bool = False
    """Whether outside text was read."""
    outside: str = ""
    """Which, as far as known."""
    approved: bool = False
    """Whether a person approved asking about it all the same."""
    joined: tuple[str, ...] = ()
    """The ids of the items that it took in: they are gone, or about to be."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """What only its system needs, as the fields of a dataclass of its own."""
    attempts: int = 0
    """Counted before the model is asked: a killed process has asked as well."""
    given_up: bool = False
    """Whether it stays untried, and a person was notified."""
    answer: str = ""
    """The model's answer without credentials, or what it came to; "" for none so far."""


class Job(Protocol):
    """What becomes of a queue's items."""

    @property
    def attempts(self) -> int:
        """Attempts without a usable answer, after which an item is given up."""

    def is_answered(self, item: Item) -> bool:
        """Whether nothing needs to be asked any more."""

    async def do(self, item: Item) -> str:
        """Asks about an item, stores the answer with `Queue.write`, and uses it. Returns why that
        failed, "" if it did not. Raises: StorageError, BusyError, MemoryRefused; CancelledError."""

    async def fail(self, item: Item, why: str) -> None:
        """After a failure: the item stays. Raises as `do`."""

    async def give_up(self, item: Item, why: str) -> None:
        """The attempts are used up. The item is gone afterwards, or marked as given up. Raises as
        `do`."""


class Queue:
    """A folder of items, each a JSON file named by its id, shared by processes; `more` is the
    dataclass of `Item.more`."""

    def __init__(self, folder: Path, more: type) -> None:
        self.folder = folder
        self._more = more

    def write(self, item: Item) -> None:
        """Raises: StorageError."""
        durable.make_folder(self.folder)
        row = json.dumps(asdict(item), ensure_ascii=False)
        durable.replace(self._path(item.id), row.encode(errors="replace"))

    def remove(self, id: str) -> None:
        """Raises: StorageError."""
        durable.remove(self._path(id))

    def set_aside_damaged(self) -> list[Path]:
        """Moves unreadable items aside; returns their new paths. Raises: StorageError."""
        paths = [self._path(id) for id in self.ids() if self.read(id) is None]
        return [durable.set_aside(path) for path in paths if path.exists()]

    def turn(self, timeout_s: float) -> AbstractAsyncContextManager[None]:
        """The right to work on it; guards no file, so a model may be asked meanwhile. Raises:
        BusyError after `timeout_s`."""
        return locked(self.folder, timeout_s=timeout_s)

    def read(self, id: str) -> Item | None:
        """None if it is gone or unreadable."""
        try:
            item = read_item(self._path(id).read_bytes(), self._more)
        except OSError:
            return None
        return item if item is not None and item.id == id else None

    def ids(self, session: str | None = None) -> list[str]:
        """The ids of waiting items, of all sessions or one, in the order they were queued."""
        found = [id for id in stems(self.folder) if may_name_a_file(id)]
        ours = [id for id in found if session in (None, id.rpartition(".")[0] or id)]
        return sorted(ours, key=lambda id: id.rpartition(".")[2])

    def _path(self, id: str) -> Path:
        return self.folder / f"{id}.json"

    def items(self, session: str | None = None) -> list[Item]:
        """The readable ones, without those that another took in."""
        read = [item for item in map(self.read, self.ids(session)) if item is not None]
        taken = {id for item in read for id in item.joined}
        return [item for item in read if item.id not in taken]

    def join(self, lead: Item, others: Sequence[Item]) -> Item:
        """Makes other items of the session a part of `lead`, with the turn held. Raises:
        StorageError."""
        if not others:
            return lead
        items = sorted((lead, *others), key=lambda item: item.turn or 0)
        joined = replace(
            lead,
            turn=items[-1].turn,
            text="\n\n".join(item.text for item in items),
            said=tuple(dict.fromkeys(text for item in items for text in item.said)),
            asked="\n".join(dict.fromkeys(item.asked for item in items if item.asked)),
            tainted=any(item.tainted for item in items),
            outside=next((item.outside for item in items if item.outside), ""),
            joined=tuple(item.id for item in others),
        )
        self.write(joined)
        for id in joined.joined:
            self.remove(id)
        return joined

    def finish(self, item: Item) -> None:
        """Ends an item. Raises: StorageError."""
        for id in (*item.joined, item.id):
            self.remove(id)


def read_item(data: bytes, more: type) -> Item | None:
    """The item in a file; None for anything that no kode would have written."""
    item = read_row(Item, data)
    return item if item is not None and details(more, item) is not None else None


def details(kind: type[Kind], item: Item) -> Kind | None:
    """What only the item's system needs; None if it is not what that wrote."""
    return read_row(kind, json.dumps(item.more).encode())


async def work(queue: Queue, job: Job, id: str, *, timeout_s: float) -> bool:
    """Does one item; whether nothing is left to do about it.

    Raises: BusyError if another process had the turn for `timeout_s`; StorageError, MemoryRefused;
        CancelledError, with the item on disk.
    """
    async with queue.turn(timeout_s):
        item = queue.read(id)
        if item is None or item.given_up:
            return True
        if not job.is_answered(item):
            if item.attempts >= job.attempts:
                await job.give_up(item, ENDED)
                return True
            item = replace(item, attempts=item.attempts + 1)
            queue.write(item)
        why = await job.do(item)
        item = queue.read(id)
        if not why or item is None:
            return True
        if item.attempts >= job.attempts:
            await job.give_up(item, why)
            return True
        await job.fail(item, why)
        return False


async def work_through(
    queue: Queue, job: Job, ids: Callable[[], Collection[str]], *, timeout_s: float
) -> None:
    """Does the items that `ids` names, each once, until it names no other; ends after a failure,
    which the next would share. Raises as `work`."""
    tried: set[str] = set()
    while waiting := [id for id in ids() if id not in tried]:
        tried.add(waiting[0])
        if not await work(queue, job, waiting[0], timeout_s=timeout_s):
            return
        if waiting[1:]:
            await asyncio.sleep(LETS_OTHERS_S)


async def work_off(
    queue: Queue,
    job: Job,
    ids: Callable[[], Collection[str]],
    notice: Callable[[str], None],
    *,
    timeout_s: float = 0.0,
) -> None:
    """Does what earlier processes left, as `work_through`; what another process works on is left to
    it, and what cannot be read is moved aside. Raises: StorageError, MemoryRefused."""
    for path in queue.set_aside_damaged():
        notice(f"What memory kept of a session cannot be read. It was moved to {path}.")
    with suppress(BusyError):
        await work_through(queue, job, ids, timeout_s=timeout_s)
