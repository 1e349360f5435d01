"""Ctrl-O: the model's last calls in full, and its thinking.

Collects events and renders painted text, in bounded memory. `lines` prints a call's one line on the
screen; `pager` pages.
"""

import json
from collections import deque
from dataclasses import dataclass, field
from typing import Any

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
from kode.messages import Thinking, calls_of, plural
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
class ThoughtDetails:
    text: str


@dataclass
class Details:
    """The last calls and thoughts of a session, bounded."""

    entries: deque[CallDetails | ThoughtDetails] = field(
        default_factory=lambda: deque(maxlen=MAX_ENTRIES)
    )
    _thinking: str = ""
    _asked: dict[str, str] = field(default_factory=dict)
    """Id of a call that has not started → its arguments."""
    _running: dict[str, CallDetails] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        """Stores what is worth opening later."""
        match event:
            case TurnStarted():
                self._asked.clear()
                self._running.clear()
                self._settle()
            case ThinkingDelta():
                self._thinking = (self._thinking + event.text)[-MAX_CHARS:]
            case Replied():
                self._replied(event)
            case ToolStarted():
                self._running[event.call_id] = self._begun(event)
            case ToolOutput():
                if call := self._running.get(event.call_id):
                    call.output = (call.output + event.text)[-MAX_CHARS:]
            case ToolFinished():
                call = self._running.pop(event.call_id, None) or self._begun(event)
                call.event, call.output = event, ""

    def _replied(self, event: Replied) -> None:
        if not self._thinking:
            thoughts = (part.text for part in event.message.parts if isinstance(part, Thinking))
            self._thinking = "\n".join(thoughts)[-MAX_CHARS:]
        self._settle()
        self._asked = {call.id: call.arguments[:MAX_CHARS] for call in calls_of(event.message)}

    def _settle(self) -> None:
        if self._thinking.strip():
            self.entries.append(ThoughtDetails(self._thinking))
        self._thinking = ""

    def _begun(self, event: ToolStarted | ToolFinished) -> CallDetails:
        call = CallDetails(event, self._asked.pop(event.call_id, ""))
        self.entries.append(call)
        return call

    def render(self, screen: Screen, newest: int | None = None) -> tuple[str, int]:
        """The entries as painted text, newest last, and the line number, from 1, where the last
        call begins. The `newest` calls with the thinking since, or all."""
        chosen = list(self.entries)
        if self._thinking.strip():
            chosen.append(ThoughtDetails(self._thinking))
        calls = [index for index, entry in enumerate(chosen) if isinstance(entry, CallDetails)]
        if newest and calls:
            first = calls[-newest:][0]
            chosen, calls = chosen[first:], [position - first for position in calls[-newest:]]
        texts = [_entry(screen, entry) for entry in chosen]
        before = texts[: calls[-1]] if calls else []
        return "\n\n".join(texts), sum(text.count("\n") + 2 for text in before) + 1


def _entry(screen: Screen, entry: CallDetails | ThoughtDetails) -> str:
    width = screen.width
    if isinstance(entry, ThoughtDetails):
        thought = fold(clean(entry.text).strip(), width)
        return f"{_title(screen, 'Thought')}\n{screen.paint('dim', thought)}"
    finished = entry.event if isinstance(entry.event, ToolFinished) else None
    parts = [_title(screen, describe_call(entry.event, max(width - 6, 10)).text)]
    diff = finished.diff if finished else ""
    arguments = _arguments(entry.arguments, without=_SHOWN_BY_DIFF if diff else ())
    parts += [fold(line, width) for line in arguments]
    if diff:
        from kode.cli.screen.diffs import painted_diff

        parts.append("\n" + painted_diff(screen, diff).rstrip("\n"))
    elif text := clean((finished.for_model if finished else entry.output)[:MAX_CHARS]).strip("\n"):
        error = finished is not None and finished.is_error
        text = fold(text, width)
        parts.append("\n" + (screen.paint("error", text) if error and len(text) < 500 else text))
    return "\n".join(parts)


def _title(screen: Screen, text: str) -> str:
    shown = clip(text, max(screen.width - 6, 10))
    line = "─" * max(screen.width - cell_width(shown) - 5, 0)
    return screen.paint("title", f"── {shown} {line}".rstrip())


def _arguments(text: str, without: tuple[str, ...]) -> list[str]:
    """One line per argument; a multi-line text is indented below its name."""
    if not text.strip():
        return []
    arguments = object_of(text)
    if arguments is None:
        return [clean(text)]
    lines = []
    for name, value in arguments.items():
        if name in without:
            lines.append(f"{clean(name)}: ({_size(value)}, see the diff)")
            continue
        shown = clean(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        if "\n" in shown:
            shown = "\n" + "\n".join(f"    {line}" for line in shown.rstrip("\n").split("\n"))
        lines.append(f"{clean(name)}: {shown}")
    return lines


def _size(value: Any) -> str:
    if isinstance(value, list):
        return plural(len(value), "edit")
    return plural(len(str(value).splitlines()) or 1, "line")
