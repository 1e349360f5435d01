"""The files of a project's journal: MEMORY.md, and an append-only history. No model, no network.

They lie in `memory/journal/<path-hash>/`. HISTORY.md has every entry, HISTORY-YYYY-MM.md (months in
UTC) those of one month, to keep a search of one month small.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from kode import durable
from kode.memory.project import ProjectFolder
from kode.memory.stored import plain_lines, read_text

SYSTEM = "journal"
MEMORY = "MEMORY.md"
HISTORY = "HISTORY.md"

RAW = "[raw-fallback]"
"""Begins the entry of a failed consolidation."""
OUTSIDE = "[from a session that took in outside text]"
"""Begins the entry of such a session: reading it counts as reading outside text."""

_HEADER = re.compile(r"^## (\d{4}-\d{2}-\d{2}T[0-9:.]+Z)$", re.MULTILINE)
_MONTH = re.compile(r"HISTORY-\d{4}-(?:0[1-9]|1[0-2])\.md")
_LIKE_A_HEADER = re.compile(r"^(?=## )", re.MULTILINE)
_LINE_ENDS = re.compile(r"\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One entry of the history."""

    at: str
    """Its ISO header, UTC."""
    text: str

    @property
    def is_outside(self) -> bool:
        """Whether its session took in outside text."""
        return self.text.startswith(OUTSIDE)


class JournalFiles:
    """Creates nothing before the first write; writing requires the lock of `root`."""

    def __init__(self, folder: ProjectFolder) -> None:
        self.folder = folder
        self.root = folder.path

    def read_memory(self) -> str:
        """MEMORY.md, trimmed; "" if missing.

        Raises: MemoryRefused if it is not readable UTF-8 text.
        """
        return (read_text(self.root / MEMORY) or "").strip()

    def append_block(self, block: str, at: datetime) -> None:
        """Adds an entry to both files, one durable write each, unless it is there, as after a kill;
        half of one is removed first. `block` is from `block_of`. Raises: StorageError.
        """
        durable.make_folder(self.root)
        month = f"HISTORY-{at.astimezone(UTC):%Y-%m}.md"
        for path in (self.root / HISTORY, self.root / month):
            data = block.encode(errors="replace")
            with durable.storage_errors(path, "append to"):
                with durable.open_for_append(path) as file:
                    if not _is_there(file.fileno(), data):
                        durable.append_to(file, data.removesuffix(b"\n"), path)
                durable.sync_folder(path.parent)

    def remove_block(self, block: str) -> bool:
        """Removes an entry from every file that has it, for an undo; False if none has.

        Raises: StorageError.
        """
        found = False
        for path in self.history_files():
            with durable.storage_errors(path, "read"):
                text = path.read_bytes()
            data = block.encode(errors="replace")
            if data in text:
                durable.replace(path, text.replace(data, b"", 1))
                found = True
        return found

    def history_files(self) -> list[Path]:
        """HISTORY.md, then the months in order."""
        found: list[Path] = []
        with suppress(OSError):
            names = [path.name for path in self.root.iterdir() if path.is_file()]
            found = [self.root / HISTORY] if HISTORY in names else []
            found += [self.root / name for name in sorted(filter(_MONTH.fullmatch, names))]
        return found

    def entries(self) -> list[Entry]:
        """Every entry once, oldest first, from all files: a person may have moved some. What a kill
        left of one in its second file is none."""
        found: dict[tuple[str, str], Entry] = {}
        for path in self.history_files():
            with suppress(OSError):
                for entry in parse(path.read_bytes().decode(errors="replace")):
                    found.setdefault((entry.at, entry.text), entry)
        torn = {one for one, next in pairwise(sorted(found)) if _begins(one, next)}
        whole = (entry for key, entry in found.items() if key not in torn)
        return sorted(whole, key=lambda entry: entry.at)


def _begins(one: tuple[str, str], other: tuple[str, str]) -> bool:
    return one[0] == other[0] and other[1].startswith(one[1])


def as_read(text: str) -> str:
    """A new text of MEMORY.md as it will read back: what the history records must be found again
    to be undone."""
    return plain_lines(text.encode(errors="replace").decode()).strip()


def block_of(text: str, at: datetime) -> str:
    """An entry's text in a file. Lines that look like headers are indented, so that it reads back
    as one entry."""
    stamp = at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    body = _LIKE_A_HEADER.sub(" ", _LINE_ENDS.sub("\n", text).strip())
    return f"## {stamp}\n\n{body}\n\n"


def parse(text: str) -> Iterator[Entry]:
    """The entries of one file. Text above the first is skipped."""
    parts = _HEADER.split(text.replace("\r\n", "\n"))
    for at, body in zip(parts[1::2], parts[2::2], strict=True):
        yield Entry(at=at, text=body.strip())


def size_of(text: str) -> int:
    """Bytes in UTF-8."""
    return len(text.encode(errors="replace"))


def _is_there(descriptor: int, data: bytes) -> bool:
    """Whether the file contains `data`; cuts off a beginning of it at the very end. One no longer
    than a heading mark stays: a person may have written it, and an incomplete line is set aside by
    the next write."""
    size = os.fstat(descriptor).st_size
    found = os.pread(descriptor, size, 0)
    if data in found:
        return True
    for length in range(min(len(data) - 1, size), len(b"## "), -1):
        begins_line = length == size or found[size - length - 1 : size - length] == b"\n"
        if begins_line and found.endswith(data[:length]):
            os.ftruncate(descriptor, size - length)
            return False
    return False
