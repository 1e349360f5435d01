"""Converts events to updates of a session. Keeps the state that updates need: the calls, their
output so far, the current message."""

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from acp import schema
from acp.helpers import (
    SessionUpdate,
    plan_entry,
    update_agent_message_text,
    update_agent_thought_text,
    update_plan,
    update_tool_call,
)

from kode.plugin import (
    Event,
    ToolCall,
    describe_event,
    shorten,
)
from kode.plugins.acp.calls import ShownCall, edits_of, show_call, text_content

Update = SessionUpdate | schema.ConfigOptionUpdate | schema.UsageUpdate

MAX_LIVE_CHARS = 16_000
"""How much of a running command's output is shown: its end."""
MAX_RESULT_CHARS = 60_000  # as much as a tool's result for the model
TITLE_CHARS = 80  # one line of an editor's list
LINE_CHARS = 400  # a few lines of a panel
TODO_STATUS: dict[str, schema.PlanEntryStatus] = {"doing": "in_progress", "done": "completed"}


@dataclass
class Updates:
    """Converts the events of one session for its client."""

    cwd: Path
    preview: Callable[[ToolCall], tuple[Any, Any]]
    """See `Conversation.preview_call`."""
    plan_steps: Callable[[], Iterable[tuple[str, bool]]] = tuple
    """Those of the plan on disk."""
    cost_usd: Callable[[], float | None] = lambda: None
    """Cost of the session's finished turns."""
    last_stop: str | None = None
    """The stop reason of the last reply."""
    titled: bool = False
    calls: dict[str, ShownCall] = field(default_factory=dict)
    """Calls without a result, in order."""
    _output: dict[str, str] = field(default_factory=dict)
    _agents: dict[int, str] = field(default_factory=dict)
    _message_id: str = ""
    _usage: schema.UsageUpdate | None = None
    _turn_usd: float = 0.0
    """Cost of the running turn: the session counts it at its end."""

    def of(self, event: Event) -> list[Update]:
        """The updates for an event; none if a client does not show it."""
        match event.type:
            case "turn_started" if not self.titled and event.text.strip():
                self.titled = True
                return [info_update(_now(), event.text)]
            case "step_started":
                self._message_id = str(uuid.uuid4())
            case "text_delta":
                return [message(event.text, self._message_id)]
            case "thinking_delta" if event.text:
                return [make_thought(event.text, self._message_id)]
            case "replied":
                self.last_stop = event.message.stop
                self._turn_usd += event.cost_usd or 0.0
                starts = [self.start(p) for p in event.message.parts if p.type == "tool_call"]
                return [*starts, *self.usage(event.context_tokens, event.context_window)]
            case "tool_started":
                call = self._begin(event.call_id, event.name, event.subject)
                return [*call, update_tool_call(event.call_id, status="in_progress")]
            case "tool_output":
                text = (self._output.get(event.call_id, "") + event.text)[-2 * MAX_LIVE_CHARS :]
                self._output[event.call_id] = text
                shown = text_content((text + event.partial)[-MAX_LIVE_CHARS:])
                return [update_tool_call(event.call_id, content=[shown])]
            case "tool_finished":
                return self._finish(event)
            case "plan_kept":
                return [plan_update(self.plan_steps())]
            case "agent_progress" | "agent_finished":
                return self._show_agent(event)
            case "retry_scheduled" | "context_reduced" | "memory_changed" | "notice":
                if event.type == "retry_scheduled" and event.discards_text:
                    self._message_id = str(uuid.uuid4())  # repeated text is another message
                # What kode itself says is no part of the answer.
                line = describe_event(event, LINE_CHARS)
                return (
                    [make_thought(f"{line.text}\n", str(uuid.uuid4()))] if line is not None else []
                )
            case "turn_ended":
                # Calls that never finished were stopped, or not started.
                stopped = [update_tool_call(call_id, status="failed") for call_id in self.calls]
                self.calls.clear()
                self._output.clear()
                self._turn_usd = 0.0
                return [*stopped, info_update(_now())]
        return []

    def start(self, call: ToolCall) -> Update:
        """A call that the model has made, before any outcome."""
        shown = self.calls[call.id] = show_call(*self.preview(call), self.cwd)
        return shown.start

    def usage(self, used: int, size: int) -> list[Update]:
        """How full the model's window is, and the session's cost so far; nothing if unchanged."""
        known = self.cost_usd()
        cost = None if known is None else schema.Cost(amount=known + self._turn_usd, currency="USD")
        usage = schema.UsageUpdate(session_update="usage_update", used=used, size=size, cost=cost)
        if usage == self._usage:
            return []
        self._usage = usage
        return [usage]

    def _begin(self, call_id: str, name: str, subject: str) -> list[Update]:
        """A call made by the person's command belongs to no reply."""
        if call_id in self.calls:
            return []
        start = self.start(ToolCall(id=call_id, name=name, arguments="{}"))
        return [start.model_copy(update={"title": subject or name})]

    def _finish(self, event: Event) -> list[Update]:
        assert event.type == "tool_finished"
        call = self._begin(event.call_id, event.name, event.subject)
        shown = self.calls.pop(event.call_id)
        self._output.pop(event.call_id, None)
        if event.name == "delegate_tasks":
            self._agents.clear()
        edits = list(edits_of(event.diff, self.cwd))
        is_edit = shown.start.kind == "edit" and edits and not event.is_error
        text = [] if is_edit else [text_content(event.for_model[:MAX_RESULT_CHARS])]
        progress = update_tool_call(
            event.call_id,
            status="failed" if event.is_error or event.failed else "completed",
            content=[*(edit for edit, _ in edits), *text],
            locations=[place for _, place in edits] or None,
        )
        is_todo = event.name == "todo" and not event.is_error
        return [*call, progress, *([todo_update(shown)] if is_todo else [])]

    def _show_agent(self, event: Event) -> list[Update]:
        """Subagents work within the one call that started them."""
        assert event.type in ("agent_progress", "agent_finished")
        if (line := describe_event(event, LINE_CHARS)) is not None:
            summary = f"\n{event.summary}" if event.type == "agent_finished" else ""
            self._agents[event.index] = line.text + summary
        lines = "\n".join(line for _, line in sorted(self._agents.items()))
        running = [call_id for call_id, call in self.calls.items() if call.name == "delegate_tasks"]
        return [update_tool_call(call_id, content=[text_content(lines)]) for call_id in running[:1]]


def message(text: str, message_id: str | None = None) -> Update:
    return update_agent_message_text(text).model_copy(update={"message_id": message_id or None})


def make_thought(text: str, message_id: str | None = None) -> Update:
    return update_agent_thought_text(text).model_copy(update={"message_id": message_id or None})


def info_update(updated_at: str, text: str = "") -> Update:
    title = shorten(text, TITLE_CHARS) or None
    return schema.SessionInfoUpdate(
        session_update="session_info_update", title=title, updated_at=updated_at
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def todo_update(call: ShownCall) -> Update:
    """The model's todo list as a plan."""
    listed = call.arguments.get("items")
    items = (
        item for item in (listed if isinstance(listed, list) else []) if isinstance(item, dict)
    )
    return update_plan(
        plan_entry(
            str(item.get("text", "")), status=TODO_STATUS.get(str(item.get("status")), "pending")
        )
        for item in items
    )


def plan_update(steps: Iterable[tuple[str, bool]]) -> Update:
    """The steps of the session's plan file."""
    return update_plan(
        plan_entry(text, status="completed" if done else "pending") for text, done in steps
    )
