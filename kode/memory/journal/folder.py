"""MEMORY.md as a file of the memory tool; the history beside it, read-only."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kode.errors import MemoryRefused
from kode.memory import folder, scan
from kode.memory.base import Outcome
from kode.memory.change import Author, Change
from kode.memory.folder import MemoryFile
from kode.memory.journal.commit import Committer
from kode.memory.journal.files import MEMORY, SYSTEM, JournalFiles, size_of
from kode.memory.replacing import Seen
from kode.memory.stored import locked, read_text


@dataclass
class JournalFolder:
    notice = f"{MEMORY} is in every prompt. The history is written by kode."

    seen: Seen
    _files: JournalFiles
    _committer: Committer
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
        target = self._files.folder.target(MEMORY)
        change = Change.by(self._author(), SYSTEM, "edit", target)
        async with locked(self._files.root):
            done = self._committer.update_memory(before.strip(), after.strip(), change)
        return done or [Outcome(line=f"{MEMORY} reads so already")]
