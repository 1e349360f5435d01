"""Ctrl-O: the model's last calls in full, and its thinking. Collects events and renders painted
text, in bounded memory."""

import json
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from kode.broken_json import object_of
from kode.cli.screen.describe import describe_call
from kode.cli.screen.lines import cell_width, clip, fold
from kode.cli.screen.screen import Screen
from kode.events import (
    Event,
    Replied,
    ThinkingDelta,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnStarted,
)
from kode.messages import Thinking, calls_of
from kode.plain_text import clean

MAX_ENTRIES = 50  # a few screens
MAX_CHARS = 100_000
"""Limit of each text of an entry."""

_SHOWN_BY_DIFF = ("content", "old_text", "new_text", "edits")
"""Arguments that are better shown as a diff."""


@dataclass
class CallDetails:
    """A call and its result."""

    event: ToolStarted | ToolFinished
    """The last one about it."""
    arguments: str = ""
    """As the model wrote them: JSON, or what it took for JSON."""
    output: str = ""
    """Output so far, while it runs."""


@dataclass
class Details:
    """The last calls and thoughts of a session, bounded."""

    entries: deque[CallDetails | str] = field(default_factory=lambda: deque(maxlen=MAX_ENTRIES))
    """A text is a thought."""
    _thinking: str = ""
    _arguments: dict[str, str] = field(default_factory=dict)
    """Id of a call that has not started → its arguments."""
    _running: dict[str, CallDetails] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        """Stores what is worth opening later."""
        match event:
            case TurnStarted():
                self._arguments.clear()
                self._running.clear()
                self._end_thought()
            case ThinkingDelta():
                self._thinking = (self._thinking + event.text)[-MAX_CHARS:]
            case Replied():
                parts = event.message.parts
                if not self._thinking:
                    thoughts = [part.text for part in parts if isinstance(part, Thinking)]
                    self._thinking = "\n".join(thoughts)[-MAX_CHARS:]
                self._end_thought()
                calls = calls_of(event.message)
                self._arguments = {call.id: call.arguments[:MAX_CHARS] for call in calls}
            case ToolStarted():
                self._running[event.call_id] = self._begin(event)
            case ToolOutput():
                if call := self._running.get(event.call_id):
                    call.output = (call.output + event.text)[-MAX_CHARS:]
            case ToolFinished():
                call = self._running.pop(event.call_id, None) or self._begin(event)
                call.event, call.output = event, ""

    def _end_thought(self) -> None:
        if self._thinking.strip():
            self.entries.append(self._thinking)
        self._thinking = ""

    def _begin(self, event: ToolStarted | ToolFinished) -> CallDetails:
        call = CallDetails(event, self._arguments.pop(event.call_id, ""))
        self.entries.append(call)
        return call

    def render(self, screen: Screen, *, only_last: bool = False) -> str:
        """The entries as painted text, newest last; with `only_last` the last call and the thinking
        since."""
        entries = [*self.entries, *([self._thinking] if self._thinking.strip() else ())]
        calls = [index for index, entry in enumerate(entries) if isinstance(entry, CallDetails)]
        if only_last and calls:
            entries = entries[calls[-1] :]
        return "\n\n".join(_entry(screen, entry) for entry in entries)


def _entry(screen: Screen, entry: CallDetails | str) -> str:
    width = screen.width
    if isinstance(entry, str):
        return f"{_title(screen, 'Thought')}\n{screen.paint('dim', fold(clean(entry), width))}"
    finished = entry.event if isinstance(entry.event, ToolFinished) else None
    parts = [_title(screen, describe_call(entry.event, max(width - 6, 10)).text)]
    diff = finished.diff if finished else ""
    parts += [
        fold(line, width) for line in _arguments(entry.arguments, _SHOWN_BY_DIFF if diff else ())
    ]
    if diff:
        from kode.cli.screen.diffs import painted_diff

        parts.append("\n" + painted_diff(screen, diff))
    elif text := clean((finished.for_model if finished else entry.output)[:MAX_CHARS]).strip("\n"):
        style = "error" if finished is not None and finished.is_error and len(text) < 500 else ""
        parts.append("\n" + screen.paint(style, fold(text, width)))
    return "\n".join(parts)


def _title(screen: Screen, text: str) -> str:
    title = clip(text, max(screen.width - 6, 10))
    line = "─" * max(screen.width - cell_width(title) - 5, 0)
    return screen.paint("title", f"── {title} {line}".rstrip())


def _arguments(text: str, omitted: Sequence[str]) -> list[str]:
    """One line per argument; a multi-line text is indented below its name."""
    arguments = object_of(text) if text.strip() else {}
    if arguments is None:
        return [clean(text)]
    lines = []
    for name, value in arguments.items():
        if name in omitted:
            continue
        shown = clean(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        if "\n" in shown:
            shown = "\n" + "\n".join(f"    {line}" for line in shown.rstrip("\n").split("\n"))
        lines.append(f"{clean(name)}: {shown}")
    return lines
