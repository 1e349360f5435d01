"""What is happening now, and since when: the spinner's line, the last output of running tools, the
status line.

Built from events; it holds nothing that has ended. `render` and `editor` show it.
"""

from typing import TYPE_CHECKING

from kode import events
from kode.cli.screen.describe import describe_call
from kode.cli.screen.lines import clip, count, money, one_line
from kode.plain_text import sanitize
from kode.values import dataclass, field

if TYPE_CHECKING:
    from kode.conversation import Conversation

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
ASKING = "Waiting for the model"
THINKING = "Thinking"
MAX_THOUGHT_CHARS = 100_000
"""Limit of what is shown of one thought."""
OUTPUT_LINES = 5
"""Lines shown of a running tool's output."""
MAX_OUTPUT_CHARS = 4000  # more than its lines show
STOP, STOP_COMMAND = "Ctrl-C to stop", "Ctrl-C to stop · Ctrl-B to background"
KEY_COLUMNS = 70
"""From this width on, both keys of a running command are named, and the key that switches modes."""

TIPS = (
    "Shift-Tab switches the permission mode",
    "Esc Esc edits your last message",
    "Ctrl-O shows the last calls in full",
    "!COMMAND runs a shell command, #FACT remembers a fact",
    "Alt+Enter queues a message for the end of the turn",
    "/undo undoes a turn's file changes, /rewind goes further back",
    "/goal TEXT --verify CMD works until the command passes",
    "kode start TASK works without a terminal; kode ps lists such sessions",
    "kode view shows sessions and their cost in the browser",
)
TIP_AFTER_S = 3.0  # a person who has waited this long has time for one

MODE_STYLES = {"ask": "accent", "plan": "string", "auto-edit": "good", "full": "error"}


@dataclass
class RunningCall:
    started: events.ToolStarted
    since: float
    output: str = ""
    """The end of what it has printed."""


@dataclass
class Progress:
    """What is happening, by the events so far, with times in seconds of the caller's clock."""

    running: dict[str, RunningCall] = field(default_factory=dict)
    agents: dict[int, events.AgentProgress] = field(default_factory=dict)
    since: float | None = None
    """When the turn started; None between turns."""
    thought: str = ""
    """What the model is thinking."""
    doing: str = ""
    """What is happening while no call runs, such as `Thinking`; "" for nothing."""
    doing_since: float = 0.0

    @property
    def idle(self) -> bool:
        return self.since is None and not self.doing

    @property
    def is_thinking(self) -> bool:
        """Whether the latest output of the model was thinking."""
        return self.doing == THINKING

    def update(self, event: events.Event, now: float) -> None:
        """Updates the state from an event."""
        match event:
            case events.TurnStarted():
                self.since = now
                self.begin("", now)
            case events.StepStarted() | events.RetryScheduled():
                self.begin(ASKING, now)
            case events.Replied() | events.ContextReduced():
                self.begin("", now)
            case events.ThinkingDelta():
                self.begin(THINKING, now)
                self.thought = (self.thought + event.text)[-MAX_THOUGHT_CHARS:]
            case events.TextDelta():
                self.begin("Answering", now)
            case events.Working():
                self.begin(event.what, now)
            case events.ToolStarted():
                self.running[event.call_id] = RunningCall(event, now)
            case events.ToolOutput() if call := self.running.get(event.call_id):
                whole = call.output.rpartition("\n")[0] + "\n" if call.output else ""
                call.output = (whole + event.text + event.partial)[-MAX_OUTPUT_CHARS:]
            case events.ToolFinished():
                self.running.pop(event.call_id, None)
                if event.name == "delegate_tasks":  # those in the background are listed by /bg
                    self.agents.clear()
            case events.AgentProgress():
                self.agents[event.index] = event
            case events.AgentFinished():
                self.agents.pop(event.index, None)
            case events.TurnEnded():
                self.clear()

    def begin(self, what: str, now: float) -> None:
        """Sets the current activity and its start; one that continues keeps its start."""
        if what != self.doing or what == ASKING:
            self.doing, self.doing_since, self.thought = what, now, ""

    def clear(self) -> None:
        """Clears the state: nothing is running any more."""
        self.running.clear()
        self.agents.clear()
        self.since, self.doing, self.thought = None, "", ""

    def format_line(self, now: float, width: int, stop: str = STOP) -> str:
        """Returns the line with the spinner, the activity, its duration, and how to stop it."""
        what, since = self.doing or "Working", self.doing_since if self.doing else self.since
        if self.running:
            *others, last = self.running.values()
            if last.started.name == "shell" and stop == STOP and width >= KEY_COLUMNS:
                stop = STOP_COMMAND
            more = f" (+{len(others)})" if others else ""
            room = max(width - len(stop) - len(more) - 10, 10)
            what, since = describe_call(last.started, room).text + more, last.since
        return spinner_line(what, now, since, width, stop)

    def choose_tip(self, now: float) -> str:
        """Returns one tip throughout a long turn; "" in its first seconds, and between turns."""
        if self.since is None or now - self.since < TIP_AFTER_S:
            return ""
        return f"  Tip: {TIPS[int(self.since) % len(TIPS)]}"

    def list_output(self, width: int) -> list[str]:
        """Returns the last output lines of running calls, each at most `width` columns wide."""
        lines = []
        for call in self.running.values():
            text = sanitize(call.output).expandtabs(4).split("\n")
            last = [line for line in text if line.strip()][-OUTPUT_LINES:]
            lines += [clip("  " + line, width) for line in last]
        return lines


def spinner_line(what: str, now: float, since: float | None, width: int, stop: str = STOP) -> str:
    """`⠋ Thinking… 4s · Ctrl-C to stop`; on a narrow screen the activity is cut."""
    frame = SPINNER[int(now * 10) % len(SPINNER)]
    end = f" {int(now - since)}s" if since is not None else ""
    if stop:
        end += f" · {stop}"
    what, room = one_line(what), width - len(end) - 3
    shown = clip(what, room) if room >= 8 else what
    dots = "" if shown.endswith("…") else "…"
    return clip(f"{frame} {shown}{dots}{end}", width)


def status_line(conversation: "Conversation", width: int) -> list[tuple[str, str]]:
    """Returns the (style, text) parts of the status line: the mode, and what else fits `width`."""
    provider, mode = conversation.agent.provider, conversation.gate.state.mode
    used, window = conversation.context_tokens, provider.info.context_window
    # Before the first turn the window may be a guess: a local server has not been asked yet.
    context = f"{used / window:.0%} of {count(window)}" if used and window else ""
    cost_usd = conversation.cost_usd
    cost = money(cost_usd) + ("+" if cost_usd and conversation.session.spent.unpriced else "")
    running = len(conversation.commands.list_running())
    jobs = f"{running} in background" if running else ""
    key = " (Shift-Tab)" if width >= KEY_COLUMNS else ""
    parts = [f"{mode}{key}", jobs, provider.model, context, cost]
    # On a narrow screen the cost is dropped first, then the window, and so on.
    while len(parts) > 1 and len(" · ".join(filter(None, parts))) > width:
        parts.pop()
    line = clip(" · ".join(filter(None, parts)), width)
    return [(MODE_STYLES[mode], line[: len(mode)]), ("dim", line[len(mode) :])]
