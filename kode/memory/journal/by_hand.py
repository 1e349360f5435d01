"""A person's operations on a journal: add, approve, confirm and remove lines."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from kode.errors import MemoryRefused
from kode.memory import standing
from kode.memory.base import Outcome
from kode.memory.journal.files import MEMORY, SYSTEM, JournalFiles, as_read
from kode.memory.lines import merge_lines
from kode.memory.places import whole
from kode.memory.project import ProjectMemory
from kode.memory.stored import read_row, stems
from kode.memory.waiting import Proposal, came_from


class JournalByHand(ProjectMemory):
    """The journal of an open memory; opening it sets the attributes."""

    system = SYSTEM
    files: JournalFiles
    _noticed: set[str]

    async def accept(self, proposal: Proposal) -> Outcome:
        """As in any system; an update of MEMORY.md, which an older kode let wait, is merged."""
        self.check_writable()
        if not proposal.place:
            return await super().accept(proposal)
        author = replace(
            self._author("user"),
            source=f"an update that waited, {proposal.id}",
            approves=proposal.id,
        )
        update = as_read(proposal.text)
        change = await standing.rewrite(
            self,
            self.folder.target(MEMORY),
            lambda state: whole(merge_lines(proposal.base or "", "".join(state), update)),
            author,
            "approve",
        )
        if change is None:
            return Outcome(line=f"{MEMORY} reads so already")
        return self._report(Outcome(line=f"updated {MEMORY}", change_id=change.id))

    def left_waiting(self) -> Iterable[tuple[Path, Proposal]]:
        folder = self.files.root / "approval"
        for path in (folder / f"{name}.json" for name in stems(folder)):
            row = read_row(dict[str, str], path.read_bytes()) or {}
            proposal = Proposal(
                id=path.stem,
                text=row["update"],
                base=row["base"],
                title=f"an update of {MEMORY}",
                source=came_from(row["session"], ""),
                place=self.place,
            )
            yield path, proposal

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
