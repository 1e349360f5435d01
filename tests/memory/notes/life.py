"""An open notes memory with a clock that tests move."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kode.config import MemoryConfig
from kode.contracts import Tool
from kode.memory import replacing
from kode.memory.notes.note import Note
from kode.memory.notes.store import Wanted
from kode.memory.notes.system import Notes
from tests.memory.life import Answers, in_messages, memory_context, use_tool

EVERYTHING = Wanted(sensitive=True, unapproved=True, limit=10_000)


@dataclass
class Clock:
    """Stands still until it is moved."""

    time: datetime = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time

    def pass_(self, **duration: float) -> None:
        self.time += timedelta(**duration)


async def opened(
    root: Path,
    *,
    model: Answers | None = None,
    clock: Clock | None = None,
    state: Mapping[str, Any] | None = None,
    config: MemoryConfig | None = None,
    **changes: Any,
) -> Notes:
    system = Notes(config or MemoryConfig(system="notes"))
    context = memory_context(root, ask_reply=in_messages(model), now=clock or Clock(), **changes)
    await system.open(context, state or {})
    return system


async def use(
    system: Notes, tool_name: str, emit: Any = lambda event: None, **arguments: Any
) -> str:
    """A call of one of the tools as the loop makes it, by a model that has read the note. Raises:
    ToolError."""
    if note := system.store.by_ids([arguments.get("id", "")]).get(arguments.get("id", "")):
        replacing.note(system.seen, f"note {note.id}", note.content)
    return await use_tool(tool(system, tool_name), emit, **arguments)


def tool(system: Notes, name: str) -> Tool:
    return next(one for one in system.tools() if one.name == name)


async def keep(system: Notes, *contents: str, **fields: Any) -> list[Note]:
    """Writes notes past the tools, each a millisecond after the other where the clock can move."""
    notes = []
    for content in contents:
        if isinstance(system._context.now, Clock):
            system._context.now.pass_(milliseconds=1)
        outcome = await system.writer.remember(content, **fields)
        assert outcome.note is not None
        notes.append(outcome.note)
    return notes


def active(system: Notes, *kinds: Any) -> list[Note]:
    """Newest first, sensitive ones too; without the soul unless it is asked for."""
    found = system.store.get(EVERYTHING)
    return [note for note in found if note.kind in (kinds or ("log", "summary", "rule"))]


def contents(notes: list[Note]) -> list[str]:
    return [note.content for note in notes]
