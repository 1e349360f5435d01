"""What the tests of the journal have in common: an open one, its files, a model's answers."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from kode.config import MemoryConfig
from kode.memory.journal.files import Entry, JournalFiles, block_of, parse
from kode.memory.journal.system import Journal
from kode.memory.project import ProjectFolder
from kode.messages import Message
from kode.paths import is_path_hash, project_memory
from tests.memory.life import memory_context, said
from tests.memory.replies import says

_MINUTE = re.compile(r"(?m)^\[\d{4}-\d\d-\d\d \d\d:\d\d\] ")


def files_in(root: Path) -> JournalFiles:
    """The files of a journal that lie in this very folder."""
    return JournalFiles(ProjectFolder(root, ""))


def add_entry(files: JournalFiles, text: str, at: datetime) -> str:
    """Adds an entry to the history; returns it as written."""
    block = block_of(text, at)
    files.append_block(block, at)
    return block


async def opened(
    root: Path, *, state: Mapping[str, Any] | None = None, journal: Any = None, **changes: Any
) -> Journal:
    """A journal with its files below `root`; `journal` is its part of the settings."""
    system = Journal(MemoryConfig(system="journal", journal=journal or {}))
    await system.open(memory_context(root, **changes), state or {})
    return system


def answer(note: str = "Did it.", *facts: str | Mapping[str, Any], **more: Any) -> Message:
    """A whole answer of the model; `facts` are texts, or rows with what they do to a line."""
    value = {"narrative": note, "facts": list(facts or ("likes tabs",)), **more}
    return says(json.dumps(value))


def messages(count: int, first: int = 0) -> tuple[Message, ...]:
    """`count` messages, numbered `message 0` and so on, of the person and the model by turns."""
    return said(*(f"message {number}." for number in range(first, first + count)))


def folder(root: Path) -> Path:
    """Where the journal of the one project lies; before there is one, that of `root`."""
    journal = root / "memory" / "journal"
    found = [path for path in journal.glob("*") if is_path_hash(path.name)]
    return found[0] if found else project_memory(journal, root)


def memory_of(root: Path) -> str:
    path = folder(root) / "MEMORY.md"
    return path.read_text().strip() if path.exists() else ""


def put_memory(root: Path, text: str) -> Path:
    """MEMORY.md as a person writes it."""
    folder(root).mkdir(parents=True, exist_ok=True)
    path = folder(root) / "MEMORY.md"
    path.write_text(text)
    return path


def history_of(root: Path, name: str = "HISTORY.md") -> list[Entry]:
    """The entries, without the minute that a note begins with."""
    path = folder(root) / name
    entries = parse(path.read_text()) if path.exists() else ()
    return [replace(entry, text=_MINUTE.sub("", entry.text)) for entry in entries]


def waiting(root: Path) -> list[Path]:
    return sorted((folder(root) / "queue").glob("*.json"))
