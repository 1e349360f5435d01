"""The tiered system: facts in the prompt, recent turns kept in the session, notes on sessions."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import TYPE_CHECKING, Any

from kode import durable
from kode.contracts import Injection, InjectReason, SessionRecord, Tool, Turn
from kode.memory import digest, frame
from kode.memory.markdown import WHOLE
from kode.memory.policy import OpenMemory, Policy
from kode.memory.question import LearnedFact
from kode.memory.statement import Statement, statement_of_session, timestamp
from kode.memory.tiered.layout import (
    index_rows,
    is_of_project,
    make_layout,
    place_of,
    target_of,
)
from kode.memory.tiered.tools import memory_tool

if TYPE_CHECKING:
    from kode.config import MemoryConfig

MAX_LINE_CHARS = 160  # as the document has it
SHOWN_OVER_LIMIT = 2
"""A file that was edited far over its limit is shown up to this many times the limit."""
TURNS = "What the last turns of this session were about. Some are no longer shown in full."
_BLANK_LINES = re.compile(r"\n\s*\n")
ARCHIVED = "Archived facts that may bear on this request."


def make_policy(settings: "MemoryConfig") -> Policy:
    return TieredPolicy(settings)


class TieredPolicy(Policy):
    keeps_unquoted_facts = False  # the model has a tool to keep what it finds

    def __init__(self, settings: "MemoryConfig") -> None:
        super().__init__(settings)
        self._limits = {"user": settings.facts_limit_user, "env": settings.facts_limit_env}
        self.layout = make_layout(self._limits)
        self._turns: list[str] = []

    def tools(self, memory: OpenMemory) -> tuple[Tool, ...]:
        return (memory_tool(memory),)

    def prompt(self, memory: OpenMemory, reason: InjectReason) -> Injection:
        facts = memory.visible_facts()
        sections = [
            self._section(memory, place, [fact for fact in facts if fact.place == place])
            for place in dict.fromkeys(fact.place for fact in facts)
        ]
        body = "\n\n".join(sections)
        memory.mark_shown(frame.escape(body), facts)
        has_lost_messages = reason in ("compacted", "trimmed")
        turns = "\n".join(self._turns) if has_lost_messages else ""
        return Injection(
            system=f"# Memory\n{frame.wrap(frame.FACTS, body)}" if body else "",
            first_user=frame.wrap(TURNS, turns) if turns else "",
        )

    def _section(self, memory: OpenMemory, place: str, facts: Sequence[Statement]) -> str:
        """Facts are separated by blank lines: another one changes no other lines."""
        title = self.layout.title(place) + (", this project only" if is_of_project(place) else "")
        texts = "\n\n".join(_BLANK_LINES.sub("\n", memory.describe(fact)) for fact in facts)
        shown = frame.cut_lines(texts, SHOWN_OVER_LIMIT * self._limits[target_of(place)])
        return f"── {title} ──\n\n{shown}"

    async def recall(self, memory: OpenMemory, turn: Turn) -> str:
        """The latest note of this project comes with the first message."""
        notes = memory.find_related(turn.text, memory.notes())
        if turn.number == 1:
            here = [note for note in memory.notes() if note.project == memory.store.project.hash]
            latest = [note for note in here[-1:] if note.id not in memory.shown_notes]
            notes = [*latest, *(note for note in notes if note not in latest)]
        facts = memory.find_related(turn.text, memory.archived_facts())
        memory.shown_notes += [fact.id for fact in facts]
        archived = "\n\n".join(map(memory.describe, facts))
        memory.mark_shown(frame.escape(archived), facts)
        parts = [frame.wrap(ARCHIVED, archived) if facts else "", memory.show_notes(notes)]
        return "\n\n".join(part for part in parts if part)

    async def after_turn(self, memory: OpenMemory, turn: Turn) -> None:
        settings = self.settings
        if settings.buffer_enabled and turn.messages:
            clock = memory.context.now().strftime("%H:%M")
            lines = digest.lines_of_turn(turn.messages, clock, MAX_LINE_CHARS)
            self._turns = [*self._turns, *lines][-settings.buffer_lines or len(lines) + 1 :]

    def note(self, record: SessionRecord, narrative: str, facts: Sequence[str]) -> Statement:
        text = narrative
        if facts:
            text += "\n\n## Facts\n" + "\n".join(f"- {' '.join(fact.split())}" for fact in facts)
        started = record.started_at.astimezone(UTC)
        return statement_of_session(
            record,
            f"episodes/{record.id}.md",
            WHOLE.fit(text),
            kind="episode",
            project=record.project.hash,
            details={"created_at": timestamp(started), "path": str(record.project.root)},
        )

    def fact(self, fact: LearnedFact, record: SessionRecord) -> Statement:
        place = place_of("user" if fact.about == "user" else "env", "", record.project)
        return statement_of_session(record, place, fact.text)

    async def after_learning(self, memory: OpenMemory) -> None:
        """Writes the list of notes for other programs. It may be deleted at any time."""
        path = memory.context.root / "episodes" / "index.json"
        data = index_rows(memory.notes()).encode(errors="replace")
        if path.parent.is_dir() and (not path.exists() or path.read_bytes() != data):
            durable.replace(path, data)

    async def maintain(self, memory: OpenMemory) -> None:
        await self.after_learning(memory)

    def restore(self, state: Mapping[str, Any]) -> None:
        turns = state.get("buffer")
        self._turns = [str(line) for line in turns] if isinstance(turns, list) else []

    def state(self) -> Mapping[str, Any]:
        return {"buffer": self._turns}
