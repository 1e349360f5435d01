"""The tiered system: facts in the prompt, recent turns kept in the session, notes on sessions."""

import json
from collections.abc import Sequence
from datetime import UTC

from kode import durable
from kode.memory import digest, frame
from kode.memory.contract import Injection, InjectReason, Turn
from kode.memory.markdown import WHOLE
from kode.memory.policy import OpenMemory, Policy
from kode.memory.question import LearnedFact
from kode.memory.statement import Statement, statement_of_session, timestamp
from kode.memory.tiered.layout import is_of_project, make_layout, place_of, target_of
from kode.memory.tiered.tools import use_memory
from kode.messages import shorten
from kode.session.record import SessionRecord

MAX_LINE_CHARS, SUMMARY_CHARS = 160, 120  # as the document has them
SHOWN_OVER_LIMIT = 2
"""A file that was edited far over its limit is shown up to this many times the limit."""
ARCHIVED = "Archived facts that may bear on this request."


class TieredPolicy(Policy):
    tools = (use_memory,)
    keeps_unquoted_facts = False  # the model has a tool to keep what it finds

    def set_up(self) -> None:
        settings = self.settings
        self._limits = {"user": settings.facts_limit_user, "env": settings.facts_limit_env}
        self.layout = make_layout(self._limits)

    def prompt(self, memory: OpenMemory, reason: InjectReason) -> Injection:
        """Facts are separated by blank lines: another one changes no other lines."""
        facts, sections = memory.visible_facts(), list[str]()
        for place in dict.fromkeys(fact.place for fact in facts):
            title = self.layout.title(place)
            title += ", this project only" if is_of_project(place) else ""
            lines = (memory.describe(fact) for fact in facts if fact.place == place)
            shown = frame.cut_lines(
                "\n\n".join(lines), SHOWN_OVER_LIMIT * self._limits[target_of(place)]
            )
            sections.append(f"── {title} ──\n\n{shown}")
        body = "\n\n".join(sections)
        memory.mark_shown(frame.escape(body), facts)
        return self.injection(reason, frame.wrap(frame.FACTS, body))

    async def recall(self, memory: OpenMemory, turn: Turn) -> str:
        """The latest note of this project comes with the first message."""
        notes, here = memory.notes(), memory.store.project.hash
        latest = [note for note in notes if note.project == here][-1:] if turn.number == 1 else []
        related = [note for note in memory.find_related(turn.text, notes) if note not in latest]
        facts = memory.find_related(turn.text, memory.archived_facts())
        memory.shown_notes += [fact.id for fact in facts]
        archived = "\n\n".join(map(memory.describe, facts))
        memory.mark_shown(frame.escape(archived), facts)
        parts = (frame.wrap(ARCHIVED, archived), memory.show_notes([*latest, *related]))
        return "\n\n".join(filter(None, parts))

    async def after_turn(self, memory: OpenMemory, turn: Turn) -> None:
        count = self.settings.buffer_lines if self.settings.buffer_enabled else 0
        if count and turn.messages:
            clock = memory.context.now().strftime("%H:%M")
            lines = digest.lines_of_turn(turn.messages, clock, MAX_LINE_CHARS)
            self.buffer = [*self.buffer, *lines][-count:]

    def note(self, record: SessionRecord, narrative: str, facts: Sequence[str]) -> Statement:
        lines = [f"- {' '.join(fact.split())}" for fact in facts]
        text = "\n".join((narrative, *(("", "## Facts", *lines) if lines else ())))
        started = timestamp(record.started_at.astimezone(UTC))
        return statement_of_session(
            record,
            f"episodes/{record.id}.md",
            WHOLE.fit(text),
            kind="episode",
            project=record.project.hash,
            details={"created_at": started, "path": str(record.project.root)},
        )

    def fact(self, fact: LearnedFact, record: SessionRecord) -> Statement:
        place = place_of("user" if fact.about == "user" else "env", "", record.project)
        return statement_of_session(record, place, fact.text)

    async def after_learning(self, memory: OpenMemory) -> None:
        """Writes the list of notes for other programs. It may be deleted at any time."""
        rows = [
            {
                "session_id": note.session or target_of(note.place),
                "turns": note.turn,
                "created_at": note.details.get("created_at", note.claimed_at),
                "summary": shorten(note.text, SUMMARY_CHARS),
            }
            for note in memory.notes()
        ]
        path = memory.context.root / "episodes" / "index.json"
        data = f"{json.dumps(rows, ensure_ascii=False, indent=0)}\n".encode(errors="replace")
        if path.parent.is_dir() and (not path.exists() or path.read_bytes() != data):
            durable.replace(path, data)

    async def maintain(self, memory: OpenMemory) -> None:
        await self.after_learning(memory)
