"""MEMORY.md as a file of the memory tool; the history beside it, read-only."""

from collections.abc import Callable

from kode.errors import MemoryRefused
from kode.memory import scan, standing
from kode.memory.base import BaseMemory, Outcome
from kode.memory.change import Author
from kode.memory.folder import Folder, MemoryFile
from kode.memory.journal.files import MEMORY, JournalFiles, as_read, size_of
from kode.memory.lines import merge_lines
from kode.memory.places import whole
from kode.memory.stored import read_text

NOTICE = f"{MEMORY} is in every prompt. The history is written by kode."


def journal_folder(
    system: BaseMemory, memory: JournalFiles, author: Callable[[], Author], limit_bytes: int
) -> Folder:
    async def files() -> list[MemoryFile]:
        text = memory.read_memory()
        before = f"{text}\n" if text else ""

        async def write(after: str) -> list[Outcome]:
            _check(before, after, limit_bytes)
            new = as_read(after)
            change = await standing.rewrite(
                system.history,
                memory.folder.target(MEMORY),
                lambda state: whole(merge_lines(before.strip(), "".join(state), new)),
                author(),
                "edit",
            )
            if change is None:
                return [Outcome(line=f"{MEMORY} reads so already")]
            line = f"updated {MEMORY} ({size_of(new):,} bytes)"
            return [Outcome(line=line, change_id=change.id)]

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
