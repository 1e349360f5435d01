"""Converts a session's events, and its transcript, to the updates that a client shows. A tool call
has a kind, a title and a location, and edits appear as old and new text."""

import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from acp import schema
from acp.helpers import (
    SessionUpdate,
    plan_entry,
    start_tool_call,
    text_block,
    tool_content,
    tool_diff_content,
    update_agent_message_text,
    update_agent_thought_text,
    update_plan,
    update_tool_call,
    update_user_message,
)

from kode.plugin import (
    Conversation,
    Event,
    Image,
    Text,
    Thinking,
    ToolCall,
    Transcript,
    describe_event,
    expand_path,
    shorten,
)

Edit = schema.FileEditToolCallContent
Content = schema.ContentToolCallContent | Edit | schema.TerminalToolCallContent

KINDS: Mapping[str, schema.ToolKind] = {
    "read": "read",
    "edit": "edit",
    "run": "execute",
    "fetch": "fetch",
    "delegate": "think",
    "none": "think",
}
"""The tool's effect → the kind of its calls; other effects are of the kind `other`."""

SEARCHES = ("search_files", "list_files")
CALL_TITLE_CHARS = 200  # two lines of an editor's panel
MAX_LINE = 2**32 - 1
"""The protocol's maximum line number."""


@dataclass(frozen=True, kw_only=True)
class ShownCall:
    """A tool call as the client was shown it, before its result."""

    name: str
    subject: str
    start: schema.ToolCallStart

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The call's arguments; {} if they are not a JSON object."""
        arguments: Mapping[str, Any] = self.start.raw_input or {}
        return arguments


def show_call(event: Any, action: Any, cwd: Path) -> ShownCall:
    """Converts a call; `event` and `action` are those of `Conversation.preview_call`."""
    name, arguments = event.name, dict(action.arguments) if action is not None else {}
    effect = action.tool.effect if action is not None else ""
    kind = "search" if name in SEARCHES else KINDS.get(effect, "other")
    path = arguments.get("path") if kind in ("read", "edit", "search") else None
    path = str(cwd / expand_path(path)) if isinstance(path, str) and path else ""
    line = arguments.get("offset") if kind == "read" else None
    line = line if isinstance(line, int) and 0 < line <= MAX_LINE else None
    described = describe_event(event, CALL_TITLE_CHARS)
    title = event.subject if name == "shell" else described.text if described else ""
    start = start_tool_call(
        event.call_id,
        shorten(title, CALL_TITLE_CHARS) or name,
        kind=kind,
        status="pending",
        content=_proposed_edits(path, arguments) if kind == "edit" and path else None,
        locations=[schema.ToolCallLocation(path=path, line=line)] if path else None,
        raw_input=arguments,
    )
    return ShownCall(name=name, subject=event.subject, start=start)


def text_content(text: str) -> schema.ContentToolCallContent:
    return tool_content(text_block(text))


def _proposed_edits(path: str, arguments: Mapping[str, Any]) -> list[Content] | None:
    """The old and new text in an edit's arguments."""
    if isinstance(arguments.get("content"), str):
        return [tool_diff_content(path, arguments["content"])]
    listed = arguments.get("edits")
    edits = listed if isinstance(listed, list) else [arguments]
    texts = [(e.get("old_text"), e.get("new_text")) for e in edits if isinstance(e, dict)]
    return [
        tool_diff_content(path, new, old)
        for old, new in texts
        if isinstance(old, str) and isinstance(new, str)
    ] or None


Update = SessionUpdate | schema.ConfigOptionUpdate | schema.UsageUpdate

MAX_LIVE_CHARS = 16_000
"""How much of the end of a running command's output is shown."""
MAX_RESULT_CHARS = 60_000  # as much as a tool's result for the model
TITLE_CHARS = 80  # one line of an editor's list
LINE_CHARS = 400  # a few lines of a panel
TODO_STATUS: dict[str, schema.PlanEntryStatus] = {"doing": "in_progress", "done": "completed"}


@dataclass
class Updates:
    """Converts the events of one session for its client."""

    conversation: Conversation = field(init=False)
    last_stop: str | None = None
    """The stop reason of the last reply."""
    titled: bool = False
    calls: dict[str, ShownCall] = field(default_factory=dict)
    """Calls without a result, in order."""
    _output: dict[str, str] = field(default_factory=dict)
    _agents: dict[int, str] = field(default_factory=dict)
    _message_id: str = ""
    _turn_usd: float = 0.0
    """Cost of the running turn, which the session adds to its own only when the turn ends."""

    def convert_event(self, event: Event) -> list[Update]:
        """The updates for an event; none if a client does not show it."""
        match event.type:
            case "turn_started" if not self.titled and event.text.strip():
                self.titled = True
                return [info_update(_format_now(), event.text)]
            case "step_started":
                self._message_id = str(uuid.uuid4())
            case "text_delta":
                return [message_update(event.text, self._message_id)]
            case "thinking_delta" if event.text:
                return [thought_update(event.text, self._message_id)]
            case "replied":
                self.last_stop = event.message.stop
                self._turn_usd += event.cost_usd or 0.0
                starts = [self.start_call(p) for p in event.message.parts if p.type == "tool_call"]
                return [*starts, self.usage_update(event.context_tokens, event.context_window)]
            case "tool_started":
                call = self._begin_call(event.call_id, event.name, event.subject)
                return [*call, update_tool_call(event.call_id, status="in_progress")]
            case "tool_output":
                text = (self._output.get(event.call_id, "") + event.text)[-2 * MAX_LIVE_CHARS :]
                self._output[event.call_id] = text
                shown = text_content((text + event.partial)[-MAX_LIVE_CHARS:])
                return [update_tool_call(event.call_id, content=[shown])]
            case "tool_finished":
                return self._finish_call(event)
            case "plan_kept":
                return [plan_update(self.conversation.plan.steps)]
            case "agent_progress" | "agent_finished":
                return self._show_agent(event)
            case "retry_scheduled" | "context_reduced" | "memory_changed" | "notice":
                if event.type == "retry_scheduled" and event.discards_text:
                    self._message_id = str(uuid.uuid4())  # repeated text is another message
                # Sent as thoughts, because what kode itself says is not part of the answer.
                line = describe_event(event, LINE_CHARS)
                return (
                    [thought_update(f"{line.text}\n", str(uuid.uuid4()))]
                    if line is not None
                    else []
                )
            case "turn_ended":
                # Calls that never finished were stopped, or not started.
                stopped = [update_tool_call(call_id, status="failed") for call_id in self.calls]
                self.calls.clear()
                self._output.clear()
                self._turn_usd = 0.0
                return [*stopped, info_update(_format_now())]
        return []

    def start_call(self, call: ToolCall) -> Update:
        """Notes a call that the model has made, and returns the update that shows it."""
        event, action = self.conversation.preview_call(call)
        shown = self.calls[call.id] = show_call(event, action, self.conversation.place.cwd)
        return shown.start

    def usage_update(self, used: int, size: int) -> Update:
        """How full the model's window is, and the session's cost so far."""
        usd = self.conversation.cost_usd  # of the finished turns
        cost = None if usd is None else schema.Cost(amount=usd + self._turn_usd, currency="USD")
        return schema.UsageUpdate(session_update="usage_update", used=used, size=size, cost=cost)

    def _begin_call(self, call_id: str, name: str, subject: str) -> list[Update]:
        """Shows a call that no reply announced: one made by a command of the person."""
        if call_id in self.calls:
            return []
        start = self.start_call(ToolCall(id=call_id, name=name, arguments="{}"))
        return [start.model_copy(update={"title": subject or name})]

    def _finish_call(self, event: Event) -> list[Update]:
        assert event.type == "tool_finished"
        call = self._begin_call(event.call_id, event.name, event.subject)
        shown = self.calls.pop(event.call_id)
        self._output.pop(event.call_id, None)
        if event.name == "delegate_tasks":
            self._agents.clear()
        has_failed = event.is_error or event.failed
        progress = finish_call(shown, event.for_model, has_failed=has_failed)
        is_todo = event.name == "todo" and not event.is_error
        return [*call, progress, *([todo_update(shown)] if is_todo else [])]

    def _show_agent(self, event: Event) -> list[Update]:
        """Shows the progress of subagents as content of the call that started them."""
        assert event.type in ("agent_progress", "agent_finished")
        if (line := describe_event(event, LINE_CHARS)) is not None:
            summary = f"\n{event.summary}" if event.type == "agent_finished" else ""
            self._agents[event.index] = line.text + summary
        lines = "\n".join(line for _, line in sorted(self._agents.items()))
        running = [call_id for call_id, call in self.calls.items() if call.name == "delegate_tasks"]
        return [update_tool_call(call_id, content=[text_content(lines)]) for call_id in running[:1]]


def finish_call(call: ShownCall, result: str, *, has_failed: bool) -> Update:
    """The update for a finished call. A successful edit keeps its old and new text."""
    edits = () if has_failed else call.start.content or ()
    return update_tool_call(
        call.start.tool_call_id,
        status="failed" if has_failed else "completed",
        content=[*edits, text_content(result[:MAX_RESULT_CHARS])],
    )


def message_update(text: str, message_id: str | None = None) -> Update:
    return update_agent_message_text(text).model_copy(update={"message_id": message_id or None})


def thought_update(text: str, message_id: str | None = None) -> Update:
    return update_agent_thought_text(text).model_copy(update={"message_id": message_id or None})


def info_update(updated_at: str, text: str = "") -> Update:
    title = shorten(text, TITLE_CHARS) or None
    return schema.SessionInfoUpdate(
        session_update="session_info_update", title=title, updated_at=updated_at
    )


def _format_now() -> str:
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


_ATTACHED = re.compile(r'<(?:file|folder) path="([^"\n]*)">')


def replay_history(transcript: Transcript, updates: Updates) -> Iterator[Update]:
    """The updates for all that was not rewound, oldest first, then for the current plan and the
    title. `updates` are those of the loaded session; its title is then set."""
    last_plan: Update | None = None
    first_words = ""
    for message, item in transcript.messages:
        for part in item.parts:
            match part:
                case Text(source="" | "steering") if message.role == "user":
                    first_words = first_words or part.text
                    yield _person_update(part.text, message.id)
                case Text(source="" | "steering"):
                    yield message_update(part.text, message.id)
                case Text(source="attachment" | "outside"):
                    for name in _ATTACHED.findall(part.text)[:1]:
                        yield _person_update(f"[attached: {name}]\n", message.id)
                case Thinking(text=text) if text:
                    yield thought_update(text, message.id)
                case _ if part.type == "call":
                    call, answer = part.call, part.answer
                    yield updates.start_call(call)
                    shown = updates.calls.pop(call.id)
                    yield finish_call(shown, answer.text, has_failed=answer.is_error)
                    if shown.name == "todo" and not answer.is_error:
                        last_plan = todo_update(shown)
                case Image() if message.role == "user":
                    yield _person_update(f"[image: {part.name}]\n", message.id)
    plans = (item for item in transcript.items if item.entry.type == "plan" and not item.is_rewound)
    if last_plan is None and any(plans):
        last_plan = plan_update(updates.conversation.plan.steps)
    if last_plan is not None:
        yield last_plan
    if first_words:
        updates.titled = True
        yield info_update(transcript.entries[-1].at, first_words)


def _person_update(text: str, message_id: str) -> Update:
    said = update_user_message(text_block(text))
    return said.model_copy(update={"message_id": message_id or None})
