"""A person's operations on a journal: add, approve, confirm and remove lines."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from kode.errors import MemoryRefused
from kode.memory.base import Outcome, joined
from kode.memory.change import Change
from kode.memory.journal.commit import Committer
from kode.memory.journal.files import MEMORY, SYSTEM, JournalFiles
from kode.memory.project import ProjectMemory
from kode.memory.stored import locked, read_row, stems
from kode.memory.waiting import Proposal


class JournalByHand(ProjectMemory):
    """The journal of an open memory; opening it sets the attributes."""

    system = SYSTEM
    files: JournalFiles
    _committer: Committer
    _noticed: set[str]

    async def accept(self, proposal: Proposal) -> Outcome:
        """As in any system; an update of MEMORY.md from a session with outside text is merged."""
        self.check_writable()
        if not proposal.place:
            return await super().accept(proposal)
        author = replace(
            self._author("user"),
            source=f"an update that waited, {proposal.id}",
            approves=proposal.id,
        )
        change = Change.by(author, SYSTEM, "approve", self.folder.target(MEMORY))
        async with locked(self.files.root):
            outcomes = self._committer.update_memory(proposal.base or "", proposal.text, change)
        done = [self._report(one) for one in outcomes]
        return joined(done) if done else Outcome(line=f"{MEMORY} reads so already")

    def left_waiting(self) -> Iterable[tuple[Path, Proposal]]:
        folder = self.files.root / "approval"
        for path in (folder / f"{name}.json" for name in stems(folder)):
            row = read_row(dict[str, str], path.read_bytes()) or {}
            yield (
                path,
                self._committer.proposal(path.stem, row["session"], row["base"], row["update"]),
            )

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
