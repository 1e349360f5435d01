"""A person's operations on a vault: add, approve, drop, confirm and remove lines of the facts."""

from dataclasses import replace
from datetime import datetime

from kode.errors import MemoryRefused
from kode.memory.base import Addition, Outcome, Waiting, only_waiting
from kode.memory.history import Change
from kode.memory.lineage import Entry
from kode.memory.project import ProjectMemory
from kode.memory.queue import Item, Queue
from kode.memory.stale import Doubt
from kode.memory.stored import locked
from kode.memory.vault import report
from kode.memory.vault.files import SYSTEM, VaultFiles, is_episodes, is_facts, month_file
from kode.memory.vault.write import VaultWriter
from kode.messages import shorten

LISTED_CHARS = 100


class VaultByHand(ProjectMemory):
    """The vault of an open memory; opening it sets the attributes."""

    system = SYSTEM
    files: VaultFiles
    _writer: VaultWriter
    _queue: Queue

    def entries(self) -> list[Entry]:
        """Every line of the facts, and every episode."""
        names = self.files.names()
        return [e for name in names for e in report.entries(self.files, name, self._text(name))]

    def sides(self, change: Change) -> tuple[list[Entry], list[Entry]]:
        return report.sides(self.files, change)

    async def add(self, addition: Addition) -> Outcome:
        """Adds an entry to a file for a person. Raises: MemoryRefused, StorageError, BusyError."""
        self._check_writable()
        addition.check(SYSTEM, allowed=())
        target = addition.target
        if target == "episodes" or is_episodes(target):
            path, entry = month_file(self.now()), addition.text
        else:
            path = target if "/" in target else f"facts/{target.removesuffix('.md')}.md"
            is_line = "\n" not in addition.text and not addition.text.startswith(("-", "*", "#"))
            entry = f"- {addition.text}" if is_line else addition.text
        author = addition.kept_by(self._author("user"))
        outcome = await self._writer.append(path, entry, author, self.now())
        return self._report(outcome)

    async def waiting(self) -> list[Waiting]:
        """Tasks that read untrusted content and wait for reflection."""
        return list(map(_waiting, self._tainted_tasks()))

    async def approve(self, id: str) -> Outcome:
        """Approves a task that read untrusted content for reflection. Raises: MemoryRefused,
        StorageError."""
        self._check_writable()
        waits = self._tainted_tasks()
        found = only_waiting("task", (item.id for item in waits), id)
        item = next(item for item in waits if item.id == found)
        async with locked(self._queue.folder):
            self._queue.write(replace(item, tainted=False, approved=True))
        return Outcome(line=f"approved {found}: it is reflected on at the next start")

    async def drop(self, id: str) -> Outcome:
        """Drops a waiting task without reflection. Raises: MemoryRefused, StorageError,
        BusyError."""
        found = only_waiting("task", (item.id for item in self._tainted_tasks()), id)
        async with locked(self._queue.folder):
            return self._drop(f"pending/{found}.json")

    def facts(self) -> list[Entry]:
        """Every line of the facts except headings."""
        names = filter(is_facts, self.files.names())
        found = (e for n in names for e in report.entries(self.files, n, self._text(n)))
        return [entry for entry in found if not entry.text.startswith("#")]

    async def confirm(self, entry: Entry, doubt: Doubt | None) -> Outcome:
        self._check_writable()
        name = self.files.of_target(entry.target)[1]
        return self._report(await self._writer.confirm(name, entry.key, self._confirming(doubt)))

    async def remove_entry(self, entry: Entry) -> Outcome:
        self._check_writable()
        name = self.files.of_target(entry.target)[1]
        author = self._author("user")
        return self._report(await self._writer.patch(name, [(f"{entry.key}\n", "")], author))

    def now(self) -> datetime:
        """In local time."""
        return self._context.now()

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    def _tainted_tasks(self) -> list[Item]:
        return [item for item in self._queue.items() if item.tainted]

    def _text(self, name: str) -> str:
        """The text of a file; "" if unreadable."""
        try:
            return self.files.read(name) or ""
        except MemoryRefused:
            return ""


def _waiting(item: Item) -> Waiting:
    begins = shorten(item.asked or item.text.strip().partition("\n")[0], LISTED_CHARS)
    return Waiting(id=item.id, line=f"{item.at[:16]}  {begins}", text=item.text)
