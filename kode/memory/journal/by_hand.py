"""A person's operations on a journal: add, approve, drop, confirm and remove lines."""

from dataclasses import replace

from kode.errors import MemoryRefused
from kode.memory import lineage, scan
from kode.memory.base import Addition, Outcome, Waiting, joined, only_waiting
from kode.memory.history import Change
from kode.memory.journal import report
from kode.memory.journal.commit import Committer
from kode.memory.journal.files import MEMORY, SYSTEM, JournalFiles
from kode.memory.project import ProjectMemory
from kode.memory.stale import Doubt
from kode.memory.stored import locked


class JournalByHand(ProjectMemory):
    """The journal of an open memory; opening it sets the attributes."""

    system = SYSTEM
    files: JournalFiles
    _committer: Committer
    _noticed: set[str]

    def entries(self) -> list[lineage.Entry]:
        """Every line of MEMORY.md, and the entries of the history."""
        return report.entries(self.files, self._memory())

    def sides(self, change: Change) -> tuple[list[lineage.Entry], list[lineage.Entry]]:
        return report.sides(self.files, change)

    async def add(self, addition: Addition) -> Outcome:
        """Adds a line to MEMORY.md or an entry to the history, for the person.

        Raises: MemoryRefused, StorageError, BusyError.
        """
        self._check_writable()
        addition.check(SYSTEM, allowed=())
        noticed = scan.check(addition.text, author="user")
        author = addition.kept_by(self._author("user"))
        text = addition.text.strip()
        async with locked(self.files.root):
            if addition.target == "memory":
                done = self._committer.add_line(text, author)
            else:
                done = self._committer.add_entry(text, self._context.now(), author)
        return replace(self._report(done), remark=noticed)

    async def waiting(self) -> list[Waiting]:
        """Updates of MEMORY.md from sessions that read untrusted content."""
        updates = [(id, _added(base, update)) for id, base, update in self._committer.waiting()]
        return [
            Waiting(id=id, line=f"an update of {MEMORY}\n{added}", text=added)
            for id, added in updates
        ]

    async def approve(self, id: str) -> Outcome:
        """Applies an update from such a session to MEMORY.md. Raises: MemoryRefused, StorageError,
        BusyError."""
        self._check_writable()
        waits = self._committer.waiting()
        found = only_waiting("update", (name for name, _, _ in waits), id)
        name, base, update = next(one for one in waits if one[0] == found)
        author = replace(self._author("user"), source=f"an update that waited, {found}")
        change = Change.by(author, SYSTEM, "approve", self.folder.target(MEMORY))
        async with locked(self.files.root):
            outcomes = self._committer.approve(name, base, update, change)
        done = [self._report(one) for one in outcomes]
        return joined(done) if done else Outcome(line=f"{MEMORY} reads so already")

    async def drop(self, id: str) -> Outcome:
        """Drops a waiting update. Raises: MemoryRefused, StorageError, BusyError."""
        self._check_writable()
        found = only_waiting("update", (name for name, _, _ in self._committer.waiting()), id)
        async with locked(self.files.root):
            return self._drop(f"approval/{found}.json")

    def facts(self) -> list[lineage.Entry]:
        """Every line of MEMORY.md except headings."""
        lines = report.entries(self.files, self._memory())
        target = self.folder.target(MEMORY)
        return [one for one in lines if one.target == target and not one.text.startswith("#")]

    async def confirm(self, entry: lineage.Entry, doubt: Doubt | None) -> Outcome:
        self._check_writable()
        author = self._confirming(doubt)
        async with locked(self.files.root):
            return self._report(self._committer.confirm(entry.key, author))

    async def remove_entry(self, entry: lineage.Entry) -> Outcome:
        self._check_writable()
        async with locked(self.files.root):
            return self._report(self._committer.remove_line(entry.key, self._author("user")))

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    def _memory(self) -> str:
        """MEMORY.md; "" if unreadable."""
        try:
            return self.files.read_memory()
        except MemoryRefused as error:
            if str(error) not in self._noticed:
                self._noticed.add(str(error))
                self._notice(str(error))
            return ""


def _added(base: str, update: str) -> str:
    known = set(base.split("\n"))
    lines = [line for line in update.split("\n") if line.strip() and line not in known]
    return "\n".join(f"    + {line}" for line in lines) or "    (only removes)"
