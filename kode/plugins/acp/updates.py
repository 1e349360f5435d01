"""Converts events to updates of a session. Keeps the state that updates need: the calls, their
output so far, the current message."""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, assert_never

from acp.schema import (
    AgentMessageChunk,
    AgentPlanUpdate,
    AgentThoughtChunk,
    AvailableCommandsUpdate,
    ConfigOptionUpdate,
    Cost,
    CurrentModeUpdate,
    PlanEntry,
    PlanEntryStatus,
    SessionInfoUpdate,
    TextContentBlock,
    ToolCallProgress,
    ToolCallStart,
    UsageUpdate,
    UserMessageChunk,
)

from kode.plugin import (
    AgentFinished,
    AgentProgress,
    ContextReduced,
    Event,
    MemoryChanged,
    Notice,
    PlanKept,
    Replied,
    RetryScheduled,
    SessionStarted,
    Steered,
    StepStarted,
    StopReason,
    TextDelta,
    ThinkingDelta,
    Tool,
    ToolCall,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Working,
    calls_of,
    read_plan,
    shorten,
    timestamp,
)
from kode.plugin import (
    ToolOutputEvent as ToolOutput,
)
from kode.plugin import plan_steps as steps_of
from kode.plugins.acp.calls import Shown, edits_of, proposed_edits, show_call, text_content

Update = (
    UserMessageChunk
    | AgentMessageChunk
    | AgentThoughtChunk
    | ToolCallStart
    | ToolCallProgress
    | AgentPlanUpdate
    | AvailableCommandsUpdate
    | CurrentModeUpdate
    | ConfigOptionUpdate
    | SessionInfoUpdate
    | UsageUpdate
)

MAX_LIVE_CHARS = 16_000
"""How much of a running command's output is shown: its end."""
MAX_RESULT_CHARS = 60_000  # as much as a tool's result for the model
TITLE_CHARS = 80  # one line of an editor's list

TODO_STATUS: dict[str, PlanEntryStatus] = {
    "pending": "pending",
    "doing": "in_progress",
    "done": "completed",
}


@dataclass
class Updates:
    """Converts the events of one session for its client."""

    cwd: Path
    tools: Callable[[], Sequence[Tool]] = tuple
    """The current tools."""
    mask: Callable[[str], str] = lambda text: text
    """Masks the values of keys in the model's text."""
    cost_usd: Callable[[], float | None] = lambda: None
    """Cost of the session's finished turns."""
    last_stop: StopReason | None = None
    """The stop reason of the last reply."""
    titled: bool = False
    calls: dict[str, Shown] = field(default_factory=dict)
    """Calls without a result, in order."""
    _output: dict[str, str] = field(default_factory=dict)
    _agents: dict[int, str] = field(default_factory=dict)
    _message_id: str = ""
    _usage: UsageUpdate | None = None
    _turn_usd: float = 0.0
    """Cost of the running turn: the session counts it at its end."""

    def of(self, event: Event) -> list[Update]:
        """The updates for an event; none if a client does not show it."""
        match event:
            case TurnStarted():
                return self._title(event.text)
            case StepStarted():
                self._message_id = str(uuid.uuid4())
                return []
            case TextDelta():
                return [message(event.text, self._message_id)]
            case ThinkingDelta():
                return [thought(event.text, self._message_id)] if event.text else []
            case RetryScheduled():
                return self._announce_retry(event)
            case Replied():
                return self._show_reply(event)
            case ToolStarted():
                known = self._begin_call(event.call_id, event.name, event.subject)
                return [*known, progress(event.call_id, status="in_progress")]
            case ToolOutput():
                return self._show_output(event)
            case ToolFinished():
                return self._finish_call(event)
            case ContextReduced():
                what = "Compacted" if event.kind == "compaction" else "Dropped old tool output"
                said = f"{what}: {event.tokens_before:,} → {event.tokens_after:,} tokens"
                return [note(said)]
            case PlanKept():
                return [plan_update(read_plan(Path(event.path)))]
            case AgentProgress():
                return self._show_agent(event.index, f"{event.goal}: {event.activity}")
            case AgentFinished():
                return self._show_agent(
                    event.index, f"{event.goal}: {event.status}\n{event.summary}"
                )
            case MemoryChanged():
                return [] if event.of_session else [note(f"Memory: {event.text}")]
            case Notice():
                return [note(event.text)]
            case TurnEnded():
                return self._end_turn()
            case SessionStarted() | Steered() | Working():
                return []
            case _:
                assert_never(event)

    def start(self, call: ToolCall) -> ToolCallStart:
        """A call that the model has made, before any outcome."""
        masked = ToolCall(id=call.id, name=call.name, arguments=self.mask(call.arguments))
        shown = self.calls[call.id] = show_call(masked, self.tools(), self.cwd)
        return ToolCallStart(
            session_update="tool_call",
            tool_call_id=shown.id,
            title=shown.title,
            kind=shown.kind,
            status="pending",
            content=proposed_edits(shown) or None,
            locations=shown.locations,
            raw_input=dict(shown.arguments),
        )

    def usage(self, used: int, size: int) -> list[Update]:
        """How full the model's window is, and the session's cost so far; nothing if unchanged."""
        known = self.cost_usd()
        cost = None if known is None else known + self._turn_usd
        usage = UsageUpdate(
            session_update="usage_update",
            used=used,
            size=size,
            cost=None if cost is None else Cost(amount=cost, currency="USD"),
        )
        if usage == self._usage:
            return []
        self._usage = usage
        return [usage]

    def _title(self, text: str) -> list[Update]:
        if self.titled or not text.strip():
            return []
        self.titled = True
        return [title_update(text, timestamp())]

    def _announce_retry(self, event: RetryScheduled) -> list[Update]:
        if event.discards_text:  # repeated text is another message
            self._message_id = str(uuid.uuid4())
        tries = f"attempt {event.attempt + 1} of {event.max_attempts}"
        return [note(f"{event.reason} Retrying in {event.delay_s:.0f} s ({tries}).")]

    def _show_reply(self, event: Replied) -> list[Update]:
        self.last_stop = event.message.stop
        self._turn_usd += event.cost_usd or 0.0
        starts = [self.start(call) for call in calls_of(event.message)]
        return [*starts, *self.usage(event.context_tokens, event.context_window)]

    def _end_turn(self) -> list[Update]:
        """Marks calls that never finished as stopped, or not started."""
        stopped: list[Update] = [progress(call_id, status="failed") for call_id in self.calls]
        self.calls.clear()
        self._output.clear()
        self._turn_usd = 0.0
        return [
            *stopped,
            SessionInfoUpdate(session_update="session_info_update", updated_at=timestamp()),
        ]

    def _begin_call(self, call_id: str, name: str, subject: str) -> list[Update]:
        """A call made by the person's command belongs to no reply."""
        if call_id in self.calls:
            return []
        call = self.start(ToolCall(id=call_id, name=name, arguments="{}"))
        return [call.model_copy(update={"title": subject or name})]

    def _show_output(self, event: ToolOutput) -> list[Update]:
        text = self._output[event.call_id] = self._output.get(event.call_id, "") + event.text
        if len(text) > 2 * MAX_LIVE_CHARS:
            self._output[event.call_id] = text[-MAX_LIVE_CHARS:]
        shown = (text + event.partial)[-MAX_LIVE_CHARS:]
        return [progress(event.call_id, content=[text_content(shown)])]

    def _finish_call(self, event: ToolFinished) -> list[Update]:
        known = self._begin_call(event.call_id, event.name, event.subject)
        shown = self.calls.pop(event.call_id)
        self._output.pop(event.call_id, None)
        if event.name == "delegate_tasks":
            self._agents.clear()
        edits, places = edits_of(event.diff, self.cwd)
        status = "failed" if event.is_error or event.failed else "completed"
        content = [*edits]
        if shown.kind != "edit" or event.is_error or not edits:
            content.append(text_content(event.for_model[:MAX_RESULT_CHARS]))
        updates: list[Update] = [
            *known,
            progress(event.call_id, status=status, content=content, locations=places or None),
        ]
        if event.name == "todo" and not event.is_error:
            updates.append(todo_update(shown))
        return updates

    def _show_agent(self, index: int, line: str) -> list[Update]:
        """Subagents work within the one call that started them."""
        self._agents[index] = line
        running = [call.id for call in self.calls.values() if call.name == "delegate_tasks"]
        if not running:
            return []
        lines = "\n".join(f"{number + 1}. {line}" for number, line in sorted(self._agents.items()))
        return [progress(running[0], content=[text_content(lines)])]


def message(text: str, message_id: str | None = None) -> AgentMessageChunk:
    return AgentMessageChunk(
        session_update="agent_message_chunk", content=block(text), message_id=message_id or None
    )


def thought(text: str, message_id: str | None = None) -> AgentThoughtChunk:
    return AgentThoughtChunk(
        session_update="agent_thought_chunk", content=block(text), message_id=message_id or None
    )


def note(text: str) -> AgentThoughtChunk:
    """A note of kode's own, which is not part of the answer."""
    return thought(f"{text}\n", str(uuid.uuid4()))


def block(text: str) -> TextContentBlock:
    return TextContentBlock(type="text", text=text)


def progress(call_id: str, **changed: Any) -> ToolCallProgress:
    """What has changed about a call."""
    return ToolCallProgress(session_update="tool_call_update", tool_call_id=call_id, **changed)


def title_update(text: str, updated_at: str) -> SessionInfoUpdate:
    return SessionInfoUpdate(
        session_update="session_info_update",
        title=shorten(text, TITLE_CHARS),
        updated_at=updated_at,
    )


def todo_update(call: Shown) -> AgentPlanUpdate:
    """The model's todo list as a plan."""
    items = call.arguments.get("items")
    entries = [
        _entry(str(one.get("text", "")), TODO_STATUS.get(str(one.get("status")), "pending"))
        for one in (items if isinstance(items, list) else [])
        if isinstance(one, dict)
    ]
    return AgentPlanUpdate(session_update="plan", entries=entries)


def plan_update(plan: str) -> AgentPlanUpdate:
    """The steps of the session's plan file."""
    entries = [_entry(text, "completed" if done else "pending") for text, done in steps_of(plan)]
    return AgentPlanUpdate(session_update="plan", entries=entries)


def _entry(text: str, status: PlanEntryStatus) -> PlanEntry:
    return PlanEntry(content=text, priority="medium", status=status)
