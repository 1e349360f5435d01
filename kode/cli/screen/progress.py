"""What is happening now, and since when: the spinner's line, the last output of running tools, the
status line.

Built from events; keeps nothing settled. `render` and `editor` show it.
"""

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kode.cli.screen.describe import describe_agent, describe_call
from kode.cli.screen.lines import cell_width, clip, count, head, money, one_line
from kode.events import (
    AgentFinished,
    AgentProgress,
    ContextReduced,
    Event,
    Replied,
    RetryScheduled,
    StepStarted,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Working,
)
from kode.plain_text import clean

if TYPE_CHECKING:
    from kode.conversation import Conversation

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
ASKING = "Waiting for the model"
THINKING = "Thinking"
MAX_THOUGHT_CHARS = 100_000
"""Limit of what is shown of one thought."""
MIN_THOUGHT_COLUMNS = 16
"""In less room its last words say nothing."""
OUTPUT_LINES = 5
"""Lines shown of a running tool's output."""
MAX_OUTPUT_CHARS = 4000  # more than its lines show
BACKGROUND_IS_OFFERED_AFTER_S = 5.0
"""How long a shell command runs before the line offers the background."""
ROOM_FOR_AN_OFFER = 70
"""Columns."""


@dataclass
class RunningCall:
    started: ToolStarted
    since: float
    output: str = ""
    partial: str = ""
    """The unfinished line."""


@dataclass
class Progress:
    """What is happening, by the events so far. Times are of the caller's clock, in seconds."""

    running: dict[str, RunningCall] = field(default_factory=dict)
    agents: dict[int, AgentProgress] = field(default_factory=dict)
    since: float | None = None
    """When the turn started; None between turns."""
    thought: str = ""
    """What the model is thinking."""
    doing: str = ""
    """The activity when no call runs: `Thinking`."""
    doing_since: float = 0.0
    _again_at: float = 0.0
    """When the failed request is sent again."""

    @property
    def idle(self) -> bool:
        return self.since is None and not self.doing

    @property
    def is_thinking(self) -> bool:
        """Whether the last that came of the model was a thought."""
        return self.doing == THINKING

    def take(self, event: Event, now: float) -> None:
        """Notes what an event says of what is happening."""
        match event:
            case TurnStarted():
                self.since = now
                self.begin("", now)
            case StepStarted():
                self.begin(ASKING, now)
            case Replied() | ContextReduced():
                self.begin("", now)
            case ThinkingDelta():
                self.begin(THINKING, now)
                self.thought = (self.thought + event.text)[-MAX_THOUGHT_CHARS:]
            case TextDelta():
                self.begin("Answering", now)
            case RetryScheduled():
                self._again_at = now + event.delay_s
                self.begin(ASKING, self._again_at)
            case Working():
                self.begin(event.what, now)
            case ToolStarted():
                self.running[event.call_id] = RunningCall(event, now)
            case ToolOutput():
                self._output(event)
            case ToolFinished():
                self.running.pop(event.call_id, None)
                if event.name == "delegate_tasks":  # those in the background are listed by /bg
                    self.agents.clear()
            case AgentProgress():
                self.agents[event.index] = event
            case AgentFinished():
                self.agents.pop(event.index, None)
            case TurnEnded():
                self.clear()
            case _:
                pass

    def clear(self) -> None:
        """Clears the state: nothing is running any more."""
        self.running.clear()
        self.agents.clear()
        self.since, self.doing, self._again_at, self.thought = None, "", 0.0, ""

    def line(self, now: float, width: int, stop: str = "Ctrl-C stops") -> str:
        """The spinner, the activity, its duration, how to stop it, and the last words of what the
        model thinks."""
        what, since = self.doing or "Working", self.doing_since if self.doing else self.since
        if self.running:
            *others, last = self.running.values()
            more = f" (+{len(others)})" if others else ""
            room = max(width - len(stop) - len(more) - 12, 10)
            what, since = describe_call(last.started, room).text + more, last.since
        elif now < self._again_at:
            what, since = f"Retrying in {math.ceil(self._again_at - now)}s", self.since
        line = spinner_line(what, now, since, width, stop)
        if not self.is_thinking or self.running:
            return line
        thought = last_words(self.thought[-width:], width - len(line) - 3)
        return f"{line} · {thought}" if thought else line

    def commands_since(self) -> float | None:
        """When the last of the running shell commands started; None if none runs."""
        times = [call.since for call in self.running.values() if call.started.name == "shell"]
        return times[-1] if times else None

    def output(self, width: int) -> list[str]:
        """The last output lines of running calls, of at most `width` columns."""
        lines = []
        for call in self.running.values():
            text = clean(call.output + call.partial).expandtabs(4).rstrip("\n")
            last = [line for line in text.split("\n") if line.strip()][-OUTPUT_LINES:]
            lines += [clip("  " + line, width) for line in last]
        return lines

    def agent_lines(self, width: int) -> list[str]:
        """One line per running subagent."""
        return [f"  {describe_agent(agent, width - 2).text}" for agent in self.agents.values()]

    def begin(self, what: str, now: float) -> None:
        """Notes what is done now."""
        if what != self.doing or what == ASKING:
            self.doing, self.doing_since, self.thought = what, now, ""

    def _output(self, event: ToolOutput) -> None:
        if call := self.running.get(event.call_id):
            call.output = (call.output + event.text)[-MAX_OUTPUT_CHARS:]
            call.partial = event.partial


def last_words(text: str, width: int) -> str:
    """The whole words at the end of a text that fit `width` columns; "" in too little room."""
    line = one_line(text)
    if width < MIN_THOUGHT_COLUMNS or not line:
        return ""
    if cell_width(line) <= width:
        return line
    tail = head(line[::-1], width - 1)[::-1]
    _, space, whole = tail.partition(" ")
    return f"…{whole if space and whole else tail}"


def how_to_stop(command_runs_s: float, width: int) -> str:
    """What the person can do about a shell command that takes long."""
    if command_runs_s < BACKGROUND_IS_OFFERED_AFTER_S or width < ROOM_FOR_AN_OFFER:
        return "Ctrl-C stops"
    return "Ctrl-C stops · Ctrl-B backgrounds"


def spinner_line(
    what: str, now: float, since: float | None, width: int, stop: str = "Ctrl-C stops"
) -> str:
    """`⠋ Thinking… 4s · Ctrl-C stops`; on a narrow screen the activity is cut."""
    frame = SPINNER[int(now * 10) % len(SPINNER)]
    end = f" {int(now - since)}s" if since is not None else ""
    if stop:
        end += f" · {stop}"
    what, room = one_line(what), width - len(end) - 3
    shown = clip(what, room) if room >= 8 else what
    dots = "" if shown.endswith("…") else "…"
    return clip(f"{frame} {shown}{dots}{end}", width)


def status_line(conversation: "Conversation", width: int) -> list[tuple[str, str]]:
    """The most important parts that fit `width` columns, as (style, text)."""
    provider, mode = conversation.agent.provider, conversation.gate.mode
    used, window = conversation.context_tokens, provider.info.context_window
    # Before the first turn the window may be a guess: a local server has not been asked yet.
    context = f"{used / window:.0%} of {count(window)}" if used and window else ""
    cost_usd = conversation.cost_usd
    cost = money(cost_usd) + ("+" if cost_usd and conversation.session.spent.unpriced else "")
    running = len(conversation.commands.running())
    jobs = f"{running} in background" if running else ""
    parts = [mode, jobs, provider.model, context, cost]
    # On a narrow screen the cost is dropped first, then the window, and so on.
    while len(parts) > 1 and len(" · ".join(filter(None, parts))) > width:
        parts.pop()
    line = clip(" · ".join(filter(None, parts)), width)
    if mode != "full":
        return [("", line)]
    return [("danger", line[: len("full")]), ("", line[len("full") :])]
