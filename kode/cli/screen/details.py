"""Ctrl-O: the model's last calls in full, and its thinking. Collects events and renders painted
text, in bounded memory."""

from collections import deque
from dataclasses import dataclass, field

from kode.cli.screen.describe import describe_call
from kode.cli.screen.lines import cell_width, clip, fold
from kode.cli.screen.screen import Screen
from kode.events import Event, Replied, ThinkingDelta, ToolFinished
from kode.messages import Thinking
from kode.plain_text import clean

MAX_ENTRIES = 50  # a few screens
MAX_CHARS = 100_000
"""Limit of each text of an entry."""


@dataclass
class Details:
    """The last calls and thoughts of a session, bounded."""

    entries: deque[ToolFinished | str] = field(default_factory=lambda: deque(maxlen=MAX_ENTRIES))
    """A text is a thought."""
    _thinking: str = ""

    def take(self, event: Event) -> None:
        """Stores what is worth opening later."""
        match event:
            case ThinkingDelta():
                self._thinking = (self._thinking + event.text)[-MAX_CHARS:]
            case Replied():
                parts = event.message.parts
                thoughts = [part.text for part in parts if isinstance(part, Thinking)]
                thought = self._thinking or "\n".join(thoughts)[-MAX_CHARS:]
                self.entries.extend([thought] if thought.strip() else [])
                self._thinking = ""
            case ToolFinished():
                self.entries.append(event)

    def render(self, screen: Screen, *, only_last: bool = False) -> str:
        """The entries as painted text, newest last; with `only_last` the last call and the thinking
        since."""
        entries = [*self.entries, *([self._thinking] if self._thinking.strip() else ())]
        calls = [index for index, entry in enumerate(entries) if isinstance(entry, ToolFinished)]
        if only_last and calls:
            entries = entries[calls[-1] :]
        return "\n\n".join(_entry(screen, entry) for entry in entries)


def _entry(screen: Screen, entry: ToolFinished | str) -> str:
    width = screen.width
    if isinstance(entry, str):
        return f"{_title(screen, 'Thought')}\n{screen.paint('dim', fold(clean(entry), width))}"
    title = _title(screen, describe_call(entry, max(width - 6, 10)).text)
    if entry.diff:
        from kode.cli.screen.diffs import painted_diff

        return f"{title}\n{painted_diff(screen, entry.diff)}"
    is_cut = entry.subject not in title
    whole = f"{entry.subject}\n\n" if is_cut else ""
    text = fold(clean(whole + entry.for_model[:MAX_CHARS]).strip("\n"), width)
    return f"{title}\n{screen.paint('error' if entry.is_error else '', text)}"


def _title(screen: Screen, text: str) -> str:
    title = clip(text, max(screen.width - 6, 10))
    line = "─" * max(screen.width - cell_width(title) - 5, 0)
    return screen.paint("title", f"── {title} {line}".rstrip())
