"""What can happen in a turn. The terminal, the JSON printer, a parent process and a test's
`list.append` are all functions of one of these.

A turn is from `TurnStarted`, when the person's text is on disk, to `TurnEnded`, when everything of
it is. Each of its requests to the model is a `StepStarted`, a `TextDelta` or `ThinkingDelta` as the
reply streams, a `RetryScheduled` after a transient fault, and a `Replied` when the whole message is
on disk; each call of a tool is a `ToolStarted` once the gate let it pass, a `ToolOutput` as it
comes, and a `ToolFinished`.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from kode.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, EXIT_TIMEOUT, Setting
from kode.messages import Message, Refusal, Usage
from kode.paths import relative_path
from kode.values import Value, asdict, field, replace

Status = Literal["success", "incomplete", "error", "timeout", "interrupted"]
"""`incomplete`: the model answered, but some work was refused, or a check failed last."""

FINISHED: tuple[Status, ...] = ("success", "incomplete")
"""The model came to its answer."""

EXIT_CODES: Mapping[Status, int] = {
    "success": EXIT_OK,
    "incomplete": EXIT_FAILED,
    "error": EXIT_FAILED,
    "timeout": EXIT_TIMEOUT,
    "interrupted": EXIT_INTERRUPTED,
}


class SessionStarted(Value):
    session_id: str | None
    """None with `--no-session`."""
    cwd: str
    provider: str
    model: str
    resumed: bool = False
    type: Literal["session_started"] = "session_started"


class TurnStarted(Value):
    text: str
    type: Literal["turn_started"] = "turn_started"


class Steered(Value):
    text: str
    """What the person typed while the turn ran; the model gets it with its next step."""
    type: Literal["steered"] = "steered"


class StepStarted(Value):
    step: int
    """From 1 within the turn."""
    type: Literal["step_started"] = "step_started"


class TextDelta(Value):
    text: str
    type: Literal["text_delta"] = "text_delta"


class ThinkingDelta(Value):
    text: str
    """"" when the model begins to think: what it thinks may not be shown."""
    type: Literal["thinking_delta"] = "thinking_delta"


class CallAnnounced(Value):
    """A call of a tool begins to arrive in a reply. For the engine alone, which does not pass it
    on."""

    type: Literal["call_announced"] = "call_announced"


class RetryScheduled(Value):
    attempt: int
    """The failed attempt, from 1."""
    max_attempts: int
    delay_s: float
    reason: str
    discards_text: bool = False
    """True when streamed text of the failed attempt will be repeated."""
    type: Literal["retry_scheduled"] = "retry_scheduled"


class Replied(Value):
    message: Message
    usage: Usage
    cost_usd: float | None
    """None when the model's price is unknown."""
    context_tokens: int
    context_window: int
    type: Literal["replied"] = "replied"


class ToolStarted(Value):
    call_id: str
    name: str
    subject: str
    """The argument that identifies the call: a path, a command, a URL."""
    type: Literal["tool_started"] = "tool_started"


class ToolOutput(Value):
    call_id: str
    text: str
    """Added since the last event: whole lines, without control sequences."""
    partial: str = ""
    """The unfinished last line, which the next event repeats, or completes in `text`."""
    type: Literal["tool_output"] = "tool_output"


class ToolFinished(Value):
    call_id: str
    name: str
    subject: str
    is_error: bool
    summary: str
    """Short, for a person: "142 lines", "exit 1", "3 hits"."""
    text: str
    """What the tool returned: of a command, its own output."""
    notes: tuple[str, ...] = ()
    """What kode tells the model below it."""
    diff: str = ""
    """A unified diff of what changed, for a person."""
    duration_ms: int = 0
    refused: bool = False
    """Whether it was refused by a person, a rule or the mode."""
    failed: bool = False
    """Whether a command ran and failed, or a check in it did: no error of the call."""
    stopped: bool = False
    """Whether the end of the turn cut the call short."""
    exit_status: int | None = None
    """Of a finished command; -1 when it timed out. None for other tools."""
    checks: tuple[tuple[str, int | None], ...] = ()
    """See `tool.ToolOutput`: a pipeline has a status of its own for each check in it."""
    refusals: tuple[Refusal, ...] = ()
    """The refusals: of the whole call if `refused`, else of a part."""
    type: Literal["tool_finished"] = "tool_finished"

    @property
    def for_model(self) -> str:
        """The result as sent to the model."""
        return "\n".join((self.text, *self.notes))


class ContextReduced(Value):
    tokens_before: int
    tokens_after: int
    type: Literal["context_reduced"] = "context_reduced"


class Denial(Value):
    """Something that the model wanted and was refused."""

    tool: str
    subject: str
    reason: str = ""
    """The reason, and what would allow it, in words for the model."""


class Check(Value):
    """A command that checked the project: tests, types, style, a build."""

    command: str
    passed: bool
    after_last_edit: bool
    """Whether the turn changed no file after it."""


Checked = Literal["passed", "failed", "not_since_last_edit", "unknown"]
"""`unknown`: nothing was edited or checked, or what ran since the last edit tells nothing."""


class TurnEnded(Value):
    status: Status
    result: str = ""
    """The final text, or as much of it as arrived."""
    error: str | None = None
    setting: Setting | None = None
    """The setting to change because of the error, if there is one."""
    steps: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = None
    files_changed: tuple[str, ...] = ()
    duration_ms: int = 0
    denials: tuple[Denial, ...] = ()
    """What was refused, in the order requested."""
    refused: tuple[Denial, ...] = ()
    """Those denials of more than reading or remembering whose effect did not come later, either."""
    checks: tuple[Check, ...] = ()
    """The last run of each check whose exit status is known."""
    checked: Checked = "unknown"
    """What the checks since the turn's last edit say."""
    fallback_model: str | None = None
    """The model that continued the turn because the session's was unavailable."""
    structured: Any = None
    """The answer parsed to the requested schema; None: it does not fit, or none was requested."""
    goal: Mapping[str, Any] | None = None
    """The state of the goal that the turns pursue, for programs; None: there is none."""
    type: Literal["turn_ended"] = "turn_ended"

    def join_with(self, later: "TurnEnded") -> "TurnEnded":
        """Both turns as one: the result of the later, the totals of both."""
        costs = [turn.cost_usd for turn in (self, later) if turn.cost_usd is not None]
        return replace(
            later,
            steps=self.steps + later.steps,
            usage=self.usage + later.usage,
            cost_usd=sum(costs) if len(costs) == 2 else None,
            files_changed=tuple(dict.fromkeys((*self.files_changed, *later.files_changed))),
            denials=(*self.denials, *later.denials),
            fallback_model=later.fallback_model or self.fallback_model,
            goal=later.goal or self.goal,
            duration_ms=self.duration_ms + later.duration_ms,
        )

    def with_check(self, command: str, *, passed: bool) -> "TurnEnded":
        """A copy of this end, with a check that ran after the turn."""
        run = Check(command=command, passed=passed, after_last_edit=True)
        return replace(self, checks=(*self.checks, run), checked="passed" if passed else "failed")

    @property
    def is_finished(self) -> bool:
        """Whether the model came to its answer."""
        return self.status in FINISHED


UNBEGUN = TurnEnded(status="interrupted", error="Interrupted before the turn began.")


def result_object(
    ended: TurnEnded,
    session_id: str | None,
    cwd: Path,
    *,
    untrusted: Sequence[str] = (),
    warnings: Sequence[str] = (),
) -> dict[str, Any]:
    """The result of one task as JSON; docs/scripts.md explains each field. Changed files inside
    `cwd` are relative to it; `untrusted` names what the repository brings and nobody has approved,
    `warnings` is what a person would have read."""
    values = asdict(ended) | {"session_id": session_id}
    del values["type"]
    tokens = ("input_tokens", "output_tokens", "cached_tokens")
    values["usage"] = {name: getattr(ended.usage, name) for name in tokens}
    values["files_changed"] = [relative_path(path, cwd) for path in ended.files_changed]
    values |= {"untrusted": untrusted, "warnings": warnings}
    return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}


class PlanKept(Value):
    path: str
    steps: int
    type: Literal["plan_kept"] = "plan_kept"


class Working(Value):
    """kode itself is busy. Ends with the turn's next event, or with an empty `what`."""

    what: str
    """For a person: `Compacting the conversation`; "" when done."""
    type: Literal["working"] = "working"


class MemoryChanged(Value):
    text: str
    """One line: `merged into env "uses pytest -q"`."""
    change_id: str = ""
    """The id of the change in the history, for undo."""
    of_session: bool = False
    """Whether it is the routine summary of a session: listed, but not announced."""
    type: Literal["memory_changed"] = "memory_changed"


class AgentProgress(Value):
    index: int
    goal: str
    activity: str
    """What the agent is doing now."""
    elapsed_s: float
    tokens: int
    type: Literal["agent_progress"] = "agent_progress"


class AgentFinished(Value):
    index: int
    goal: str
    status: Status
    summary: str
    elapsed_s: float
    tokens: int
    type: Literal["agent_finished"] = "agent_finished"


Level = Literal["info", "warning", "error"]


class Notice(Value):
    text: str
    level: Level = "warning"
    value: Any = None
    """The same for programs, where a plug-in says more than the text."""
    type: Literal["notice"] = "notice"


Event = (
    SessionStarted
    | TurnStarted
    | Steered
    | StepStarted
    | TextDelta
    | ThinkingDelta
    | CallAnnounced
    | RetryScheduled
    | Replied
    | ToolStarted
    | ToolOutput
    | ToolFinished
    | ContextReduced
    | TurnEnded
    | PlanKept
    | Working
    | MemoryChanged
    | AgentProgress
    | AgentFinished
    | Notice
)

Emit = Callable[[Event], None]
"""Must not raise and must not block."""


Subscriber = Callable[[Event], object]
"""Gets every event of a conversation, in the thread where it happens. It must not block; after an
exception it gets no more. Its `async aclose()`, if it has one, is awaited at the end, for at most
5 s."""


def make_loading_notice(model: str) -> Notice:
    """The notice that a server is loading its model."""
    text = f"The server is loading {model}: kode waits until it is ready."
    return Notice(text=text, level="info")


def no_emit(event: Event) -> None:
    """An `Emit` that discards events."""
