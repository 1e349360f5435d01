"""A person's operations on a vault: approve and drop tasks, and what these need."""

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from kode.errors import MemoryRefused
from kode.memory.base import Outcome
from kode.memory.project import ProjectMemory
from kode.memory.queue import Item, Queue
from kode.memory.stored import locked
from kode.memory.vault.files import SYSTEM, VaultFiles
from kode.memory.waiting import Proposal, came_from
from kode.messages import shorten

LISTED_CHARS = 100


class VaultByHand(ProjectMemory):
    """The vault of an open memory; opening it sets the attributes."""

    system = SYSTEM
    files: VaultFiles
    _queue: Queue

    async def accept(self, proposal: Proposal) -> Outcome:
        """As in any system; what a task with outside text waits for is to be reflected on."""
        self.check_writable()
        if not proposal.place:
            return await super().accept(proposal)
        session, _, turn = proposal.id.rpartition(".")
        item = Item(
            id=proposal.id,
            session=session,
            turn=int(turn),
            at=proposal.at,
            text=proposal.text,
            asked=proposal.title,
            approved=True,
        )
        async with locked(self._queue.folder):
            self._queue.write(item)
        return Outcome(line=f"approved {proposal.id}: it is reflected on at the next start")

    async def reject(self, proposal: Proposal) -> None:
        if proposal.place:
            async with locked(self._queue.folder):
                self._queue.remove(proposal.id)

    def left_waiting(self) -> Iterable[tuple[Path, Proposal]]:
        return [
            (self._queue.folder / f"{one.id}.json", self.proposal(one))
            for one in self._queue.items()
            if one.tainted
        ]

    def proposal(self, task: Item) -> Proposal:
        """A task with outside text, as it waits for approval."""
        return Proposal(
            id=task.id,
            text=task.text,
            title=shorten(task.asked, LISTED_CHARS) or "a task",
            source=came_from(task.session, task.outside),
            place=self.place,
        )

    def now(self) -> datetime:
        """In local time."""
        return self._context.now()

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    def _text(self, name: str) -> str:
        """The text of a file; "" if unreadable."""
        try:
            return self.files.read(name) or ""
        except MemoryRefused:
            return ""
