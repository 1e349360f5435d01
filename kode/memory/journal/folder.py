"""MEMORY.md as a file of the memory tool; the history beside it, read-only."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kode.errors import MemoryRefused
from kode.memory import folder, scan, standing
from kode.memory.base import Outcome
from kode.memory.folder import MemoryFile
from kode.memory.history import Author
from kode.memory.journal.files import MEMORY, JournalFiles, as_read, size_of
from kode.memory.lines import merge_lines
from kode.memory.places import whole
from kode.memory.project import ProjectMemory
from kode.memory.replacing import Seen
from kode.memory.stored import read_text


@dataclass
class JournalFolder:
    notice = f"{MEMORY} is in every prompt. The history is written by kode."

    seen: Seen
    _files: JournalFiles
    _memory: ProjectMemory
    _author: Callable[[], Author]
    _limit_bytes: int

    async def files(self) -> Sequence[MemoryFile]:
        memory = self._files.read_memory()
        fill = f"{size_of(memory):,} of {self._limit_bytes:,} bytes"
        return [
            MemoryFile(
                name=MEMORY,
                text=f"{memory}\n" if memory else "",
                about=f"what is known of the user and this project ({fill})",
            ),
            *(
                MemoryFile(name=f"history/{path.name}", text=read_text(path) or "", read_only=True)
                for path in self._files.history_files()
            ),
        ]

    async def put(self, name: str, before: str, after: str) -> Sequence[Outcome]:
        """Raises: MemoryRefused, StorageError, BusyError; then nothing was changed."""
        if name.startswith("history/"):
            raise folder.read_only(name)
        if name != MEMORY:
            raise folder.unknown(name, [MEMORY])
        known = {*before.split("\n")}
        scan.check("\n".join(line for line in after.split("\n") if line not in known))
        if not scan.scan(before):
            scan.check(after)  # two harmless lines may form one harmful text
        if size_of(after) > max(self._limit_bytes, size_of(before)):
            raise MemoryRefused(
                f"{MEMORY} would have {size_of(after):,} bytes, over its limit of "
                f"{self._limit_bytes:,}. Say the same in less, or remove what no longer holds. "
                "Nothing was changed."
            )
        new = as_read(after)
        change = await standing.rewrite(
            self._memory,
            self._files.folder.target(MEMORY),
            lambda state: whole(merge_lines(before.strip(), "".join(state), new)),
            self._author(),
            "edit",
        )
        if change is None:
            return [Outcome(line=f"{MEMORY} reads so already")]
        return [Outcome(line=f"updated {MEMORY} ({size_of(new):,} bytes)", change_id=change.id)]
