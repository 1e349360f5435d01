"""What makes a memory system: its policy says what a prompt shows, which tools there are, and in
which form a note and a fact stand; its layout says where.

A new system is a package with a `policy.py` that defines `make_policy(settings) -> Policy`, and a
row in `kode.registry.SYSTEMS`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kode import credentials
from kode.contracts import (
    Drop,
    DropReason,
    Injection,
    InjectReason,
    SessionRecord,
    Tool,
    Turn,
)
from kode.memory import digest
from kode.memory.opened import Addition, OpenMemory
from kode.memory.question import (
    INSTRUCTIONS,
    MAX_OUTPUT_TOKENS,
    Answer,
    LearnedFact,
    build,
    choose_known,
    read,
)
from kode.memory.rendering import Layout
from kode.memory.statement import Author, Statement
from kode.messages import Message

if TYPE_CHECKING:
    from kode.config import MemoryConfig
    from kode.memory.fold import View
    from kode.memory.pending import Pending, Progress

FACT_KINDS = ("fact", "rule", "log")
"""The kinds of statements that the closing question shows."""


class Policy(ABC):
    """What one system does, and when. One object serves one session; `memory` is always open.

    Everything but `layout`, `prompt`, `tools`, `note` and `fact` has a default.
    """

    layout: Layout
    keeps_unquoted_facts = True
    """Whether a fact that the closing question found without the person's words is stored as the
    model's own; else it stands in the session's note only."""
    message_window: int | None = None
    """See `MemorySystem.message_window`."""

    def __init__(self, settings: "MemoryConfig") -> None:
        self.settings = settings

    @abstractmethod
    def tools(self, memory: OpenMemory) -> tuple[Tool, ...]:
        """The tools of the model; fixed names and order."""

    @abstractmethod
    def prompt(self, memory: OpenMemory, reason: InjectReason) -> Injection:
        """What the model sees before its first message, and after messages were dropped."""

    @abstractmethod
    def note(self, record: SessionRecord, narrative: str, facts: Sequence[str]) -> Statement:
        """The note on a session, as `statement_of_session` makes it."""

    @abstractmethod
    def fact(self, fact: LearnedFact, record: SessionRecord) -> Statement:
        """A fact that the closing question found, in the same way."""

    def is_worth_asking(self, record: SessionRecord) -> bool:
        """Whether the model is asked about an ended session; else its note is a record without a
        model, if a tool ran."""
        settings = self.settings
        return settings.extract_on_end and record.turns >= settings.min_turns_for_extraction

    def part_to_sum_up(self, view: "View", record: SessionRecord) -> SessionRecord:
        """The part of a session that its next note is about."""
        return record

    def replaced_notes(self, view: "View", record: SessionRecord) -> list[Statement]:
        """The notes whose place a new note on the session takes: those of it, when it was
        continued."""
        notes = (note for note in view.statements() if note.kind in ("episode", "summary"))
        return [note for note in notes if note.session == record.id]

    def record_without_model(self, record: SessionRecord) -> str:
        """The text of a note that no model wrote; "" for a session without a trace."""
        return digest.record_of(record.messages) if digest.ran_a_tool(record.messages) else ""

    async def ask(self, memory: OpenMemory, record: SessionRecord, pending: "Pending") -> bool:
        """Asks the model about a pending session that this process has taken, and stores what it
        answers; whether it answered. Raises: StorageError, BusyError."""
        store, text = memory.store, digest.transcript(record.messages)
        facts = [
            fact for fact in store.statements() if fact.kind in FACT_KINDS and not fact.private
        ]
        shown = choose_known(facts, "\n".join(record.typed) or text, record.id)
        prompt = build(
            text,
            shown,
            conflicts=store.view().conflicts(),
            earlier="\n".join(note.text for note in self.replaced_notes(store.view(), record)),
            keeps_unquoted=self.keeps_unquoted_facts,
        )
        reply = await memory.model.ask(
            INSTRUCTIONS,
            prompt,
            max_output_tokens=MAX_OUTPUT_TOKENS,
            timeout_s=self.settings.drop_deadline_s,
            patient=True,
        )
        if reply.message is not None:
            ids = tuple(fact.id for fact in shown)
            pending.answer(record.id, credentials.redact(reply.text), ids)
        return reply.message is not None

    def answer_text(self, progress: "Progress") -> str:
        """What the model answered about a session; "" for nothing so far."""
        return progress.answer

    def read_answer(
        self, memory: OpenMemory, record: SessionRecord, progress: "Progress"
    ) -> Answer:
        """The same as a value; with a record in place of a note that the model did not write."""
        answer = read(self.answer_text(progress), len(progress.shown))
        narrative = answer.narrative or self.record_without_model(record)
        return replace(answer, narrative=narrative)

    async def recall(self, memory: OpenMemory, turn: Turn) -> str:
        """Text for this turn's message, framed; "" for none."""
        return ""

    async def after_turn(self, memory: OpenMemory, turn: Turn) -> None:
        """Called after each turn, which is marked as pending already."""
        return

    async def before_drop(
        self, memory: OpenMemory, messages: Sequence[Message], reason: DropReason
    ) -> Drop:
        """Called before the context loses messages. When the session ends, it is summed up after
        that. `memory.sum_up()` sums it up at once."""
        return Drop()

    async def after_learning(self, memory: OpenMemory) -> None:
        """Called after a session was summed up, of this or another process."""
        return

    async def maintain(self, memory: OpenMemory) -> None:
        """Called in the background after opening and every six hours, when all else is done."""
        return

    async def follow(self, memory: OpenMemory, wait_s: float) -> None:
        """Brings what others share into memory, and theirs what is shared here, and waits so long
        at most. Called after opening, before each message, and at the end."""
        return

    async def status(self, memory: OpenMemory) -> list[str]:
        """What a person should know of it besides what all systems have, a line each."""
        return []

    def draft(self, memory: OpenMemory, addition: Addition, author: Author) -> Statement:
        """The statement that a person or a tool wants to add. Raises: MemoryRefused."""
        return memory.new_statement(addition, author)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Takes over what `state` returned when the session was saved, whatever else it holds."""
        return

    def state(self) -> Mapping[str, Any]:
        """What the policy wants stored in the session, as JSON."""
        return {}
