"""MEMORY.md as a file of the memory tool; the history beside it, read-only."""

from collections.abc import Callable

from kode.errors import MemoryRefused
from kode.memory import scan
from kode.memory.base import BaseMemory, Outcome
from kode.memory.change import Author, Change
from kode.memory.folder import Folder, MemoryFile
from kode.memory.journal.commit import Committer
from kode.memory.journal.files import MEMORY, SYSTEM, JournalFiles, size_of
from kode.memory.stored import locked, read_text

NOTICE = f"{MEMORY} is in every prompt. The history is written by kode."


def journal_folder(
    system: BaseMemory,
    memory: JournalFiles,
    committer: Committer,
    author: Callable[[], Author],
    limit_bytes: int,
) -> Folder:
    async def files() -> list[MemoryFile]:
        text = memory.read_memory()
        before = f"{text}\n" if text else ""

        async def write(after: str) -> list[Outcome]:
            _check(before, after, limit_bytes)
            change = Change.by(author(), SYSTEM, "edit", memory.folder.target(MEMORY))
            async with locked(memory.root):
                done = committer.update_memory(before.strip(), after.strip(), change)
            return done or [Outcome(line=f"{MEMORY} reads so already")]

        fill = f"{size_of(text):,} of {limit_bytes:,} bytes"
        about = f"what is known of the user and this project ({fill})"
        return [
            MemoryFile(name=MEMORY, text=before, about=about, write=write),
            *(
                MemoryFile(name=f"history/{path.name}", text=read_text(path) or "")
                for path in memory.history_files()
            ),
        ]

    return Folder(system=system, notice=NOTICE, files=files)


def _check(before: str, after: str, limit_bytes: int) -> None:
    """Raises: MemoryRefused."""
    known = {*before.split("\n")}
    scan.check("\n".join(line for line in after.split("\n") if line not in known))
    if not scan.scan(before):
        scan.check(after)  # two harmless lines may form one harmful text
    if size_of(after) > max(limit_bytes, size_of(before)):
        raise MemoryRefused(
            f"{MEMORY} would have {size_of(after):,} bytes, over its limit of {limit_bytes:,}. Say "
            "the same in less, or remove what no longer holds. Nothing was changed."
        )
