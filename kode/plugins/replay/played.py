"""A provider that answers from a recording, in order, and compares each request with the recorded
one."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from kode.plugin import (
    FINISHED,
    AnyEntry,
    CompactionEntry,
    ContextOverflow,
    Emit,
    KodeError,
    Message,
    MessageEntry,
    ModelInfo,
    Part,
    ProviderError,
    PruneEntry,
    Request,
    RequestEntry,
    RestoreEntry,
    RewindEntry,
    Session,
    SystemEntry,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolSpec,
    TrimEntry,
    UsageEntry,
    calls_of,
    shorten,
    text_of,
)
from kode.plugins.replay.recording import PastTurn, Recording, is_reply, is_request
from kode.plugins.replay.same import Difference, Form

SAID_CHARS = 60  # one line
CHANGES_THE_PAST = (CompactionEntry, PruneEntry, TrimEntry, RewindEntry, RestoreEntry)


class Diverged(KodeError):
    """The loop wants something that the record does not contain."""


@dataclass(kw_only=True)
class Step:
    """One reply of the model, with the comparison of its request and results."""

    number: int
    turn: int
    what: str
    """What the model did, in a few words."""
    differences: list[Difference] = field(default_factory=list)
    """Differences in its request, except results; and in the results of its calls."""

    @property
    def same(self) -> bool:
        return not self.differences


def first_difference(steps: Sequence[Step]) -> tuple[Step, Difference] | None:
    """The first difference, with its step."""
    return next(((step, difference) for step in steps for difference in step.differences), None)


class Played:
    """A `contracts.Provider` for one replay."""

    def __init__(
        self,
        recording: Recording,
        *,
        info: ModelInfo,
        strict: bool = False,
    ) -> None:
        """`strict`: refuses a request that differs instead of answering."""
        self.recording = recording
        self.name = recording.header.provider
        self.model = recording.header.model
        self._info = info
        self.form = Form()
        """Set before the first request."""
        self.strict = strict
        self.steps: list[Step] = []
        self.sections: Callable[[], Mapping[str, str]] = dict
        """The current sections of the system prompt; set once there is a context."""
        self.turn: PastTurn | None = None
        """The turn being played; set before each."""
        self.at = 0
        """Index of the next entry to play."""
        self._then = Session(header=recording.header, path=None)
        self._seen_then = 0
        self._seen_now = 0
        self._overflowed_at = -1
        self.interrupted = False
        """Whether a recorded interruption was played."""

    @property
    def info(self) -> ModelInfo:
        """See `contracts.Provider`."""
        window = self._window()
        return self._info if window is None else replace(self._info, context_window=window)

    async def reply(self, request: Request, emit: Emit) -> Message:
        """See `contracts.Provider`. Raises what ended the recorded turn; Diverged."""
        if request.aside:
            return self._summary()
        where = self._next_reply()
        if where is None:
            raise self._end_of_turn()
        if self._has_overflowed(where):
            raise ContextOverflow("The recorded request did not fit the model's window.")
        self._then.append(*self.recording.entries[self.at : where])
        self.at = where
        said = self.recording.entries[where]
        assert isinstance(said, MessageEntry)
        assert self.turn is not None
        step = Step(number=len(self.steps) + 1, turn=self.turn.number, what=_what(said))
        self._compare(step, request)
        self.steps.append(step)
        if self.strict and (found := first_difference(self.steps)) is not None:
            raise Diverged(_miss(*found))
        return await self._say(said, emit)

    def follow(
        self,
        home: Path,
        project: Path,
        session_id: str | None,
        sections: Callable[[], Mapping[str, str]],
    ) -> None:
        """See `contracts.Recorded`."""
        self.form = Form.between(self.recording, home, project, session_id)
        self.sections = sections
        self.turn = self.recording.turns[0]
        self.skip_to(self.turn.begins)

    async def aclose(self) -> None:
        """See `contracts.Provider`."""

    def _window(self) -> int | None:
        """The recorded context window for the next request: it decides when a conversation is
        compacted. None if it was not kept."""
        ahead = self.recording.entries[self.at :] if self.turn is None else self.upcoming()
        requests = [e for e in ahead if isinstance(e, RequestEntry) and is_request(e)]
        # A server may say only with an overflow how large its window is.
        overflowed = self.turn is not None and self._overflowed_at == self._next_reply()
        return requests[-1 if overflowed else 0].context_window if requests else None

    def upcoming(self) -> tuple[AnyEntry, ...]:
        """The entries from the reply that was played last up to the turn's next one, or its end."""
        assert self.turn is not None
        end = self._next_reply()
        return self.recording.entries[self.at : self.turn.ends if end is None else end]

    def section_ahead(self, name: str, otherwise: str) -> str:
        """A section of the next recorded request's system prompt; `otherwise` if it is
        unchanged."""
        begun = self._then.beginning
        for entry in self.recording.entries[self.at :]:
            if isinstance(entry, SystemEntry):
                begun = entry
            if is_request(entry):
                return begun.texts.get(name, "") if begun and begun.sections else otherwise
        return otherwise

    def steering(self) -> list[str]:
        """What the person typed while the turn ran, before its next reply."""
        return [
            part.text
            for entry in self.upcoming()
            if isinstance(entry, MessageEntry) and entry.role == "user"
            for part in entry.parts
            if isinstance(part, Text) and part.source == "steering"
        ]

    @property
    def is_cut(self) -> bool:
        """Whether the turn ended although the record has another reply for it."""
        return self._next_reply() is not None

    def compare_rest(self, session: Session) -> None:
        """After a turn: compares what followed its last request."""
        if self.turn is None:
            return
        self._then.append(*self.recording.entries[self.at : self.turn.ends])
        self.at = max(self.at, self.turn.ends)
        if not self.steps:
            return
        differences = self._new_messages(self._then.messages, session.messages)
        self.steps[-1].differences += [d for d in differences if d.part == "result"]

    def skip_to(self, at: int) -> None:
        """Skips entries that the replay has handled itself."""
        self._then.append(*self.recording.entries[self.at : at])
        if any(isinstance(e, CHANGES_THE_PAST) for e in self.recording.entries[self.at : at]):
            self._seen_then = self._seen_now = 0
        self.at = at

    def _next_reply(self) -> int | None:
        assert self.turn is not None
        entries = self.recording.entries
        # The one that was played last does not count.
        first = self.at + any(map(is_reply, entries[self.at : self.at + 1]))
        return next((i for i in range(first, self.turn.ends) if is_reply(entries[i])), None)

    def _end_of_turn(self) -> BaseException:
        """How the recorded turn ended, if it has no further reply."""
        end = self.turn.end if self.turn is not None else None
        if end is not None and end.status in FINISHED:
            return Diverged("The recorded turn ended here, and the replay continues.")
        if end is not None and end.status == "error":
            return ProviderError(end.error or "The recorded turn failed here.")
        return self.interruption()

    def interruption(self) -> asyncio.CancelledError:
        """Interrupts a turn that was interrupted in the record."""
        self.interrupted = True
        return asyncio.CancelledError()

    def _has_overflowed(self, where: int) -> bool:
        """Whether the request before this reply first overflowed; True once."""
        if self._overflowed_at == where:
            return False
        kinds = [
            entry
            for entry in self.recording.entries[self.at : where]
            if isinstance(entry, CompactionEntry | PruneEntry) or is_request(entry)
        ]
        self._overflowed_at = where
        return (
            len(kinds) > 1
            and isinstance(kinds[0], RequestEntry)
            and not isinstance(kinds[1], RequestEntry)
        )

    def _compare(self, step: Step, request: Request) -> None:
        begun = self._then.beginning
        if self._then.last_request is not None and begun is not None and begun.tools:
            step.differences += self.form.sections(begun.texts, dict(self.sections()))
            tools = [ToolSpec(**tool) for tool in begun.tools]
            step.differences += self.form.tools(tools, request.tools)
        if self.steps:
            # A lasting difference is reported once.
            known = {(one.part, one.name) for s in self.steps for one in s.differences}
            step.differences = [
                one for one in step.differences if (one.part, one.name) not in known
            ]
        for difference in self._new_messages(self._then.messages, request.messages):
            owner = self.steps[-1] if difference.part == "result" and self.steps else step
            owner.differences.append(difference)

    def _new_messages(self, then: list[Message], now: Sequence[Message]) -> list[Difference]:
        if len(then) < self._seen_then or len(now) < self._seen_now:
            self._seen_then = self._seen_now = 0
        differences = self.form.messages(then[self._seen_then :], now[self._seen_now :])
        self._seen_then, self._seen_now = len(then), len(now)
        return differences

    async def _say(self, entry: MessageEntry, emit: Emit) -> Message:
        for part in entry.parts:
            if isinstance(part, Thinking) and part.text:
                emit(ThinkingDelta(text=part.text))
            if isinstance(part, Text):
                emit(TextDelta(text=part.text))
        if entry.stop == "interrupted":
            raise self._end_of_turn()
        parts = tuple(self._as_now(part) for part in entry.parts)
        return Message(
            role="assistant", parts=parts, stop=entry.stop, usage=entry.usage, model=entry.model
        )

    def _as_now(self, part: Part) -> Part:
        if isinstance(part, ToolCall):
            return replace(part, arguments=self.form.then_to_now(part.arguments))
        return part

    def _summary(self) -> Message:
        """The note of a compaction."""
        rest = self.recording.entries[self.at :]
        position = next((n for n, one in enumerate(rest) if isinstance(one, CompactionEntry)), None)
        if position is None:
            raise Diverged("The replay compacts the conversation here, and the record does not.")
        note = rest[position]
        assert isinstance(note, CompactionEntry)
        usages = [one for one in rest[:position] if isinstance(one, UsageEntry)]
        usage = next((entry.usage for entry in usages if entry.purpose == "compaction"), None)
        return Message(role="assistant", parts=(Text(text=note.summary),), stop="end", usage=usage)


def _what(message: Message) -> str:
    calls = ", ".join(call.name for call in calls_of(message))
    return calls or shorten(text_of(message), SAID_CHARS) or f"({message.stop or 'nothing'})"


def _miss(step: Step, difference: Difference) -> str:
    return (
        f"Step {step.number} is not as recorded: {difference.part} {difference.name} differs.\n"
        f"{difference.diff()}\n"
        "Record it again where that is meant (`kode run --record FILE`)."
    )
