"""What was said in a session, as text for a model: without secrets or memory's own words."""

from collections import deque
from collections.abc import Iterable, Sequence

from kode import credentials
from kode.contracts import Turn
from kode.memory.ask import keep_ends
from kode.messages import Message, Text, ToolCall, ToolResult, text_of

MAX_CHARS = 24_000
MAX_PART_CHARS = 2_000
MAX_RESULT_CHARS = 200


def transcript(messages: Iterable[Message]) -> str:
    """At most `MAX_CHARS`; of a longer session the beginning and the end, the last turn whole as
    far as it fits."""
    lines = [line for message in messages for line in _lines(message)]
    return keep_ends(credentials.redact("\n".join(lines)), MAX_CHARS)


def count_turns(messages: Sequence[Message]) -> int:
    """How many messages are the person's own."""
    return sum(1 for m in messages if m.role == "user" and text_of(m).strip())


def _lines(message: Message) -> Iterable[str]:
    for part in message.parts:
        match part:
            case Text(text=text, source=source) if text.strip() and source != "memory":
                yield f"{_speaker(message, source)}: {keep_ends(text.strip(), MAX_PART_CHARS)}"
            case ToolCall(name=name, arguments=arguments):
                yield f"  calls {name} {keep_ends(arguments, MAX_RESULT_CHARS)}"
            case ToolResult(name=name, text=text, is_error=failed):
                outcome = "failed" if failed else "gave"
                yield f"  {name} {outcome}: {keep_ends(text.strip(), MAX_RESULT_CHARS)}"
            case _:
                pass


def _speaker(message: Message, source: str) -> str:
    if source:
        return {"compaction": "Summary of what was said before"}.get(source, source.capitalize())
    return "User" if message.role == "user" else "Assistant"


class Recording:
    """What this process heard of the session, kept small: a beginning and an end."""

    def __init__(self) -> None:
        self.turns = 0
        """The number of the last turn heard."""
        self.heard = 0
        """Turns heard since the last `taken`."""
        self.tainted = False
        self._head: list[str] = []
        self._tail: deque[str] = deque()
        self._head_chars = 0
        self._tail_chars = 0

    def add(self, turn: Turn) -> None:
        self.turns = max(self.turns, turn.number)
        self.heard += 1
        self.tainted = self.tainted or turn.tainted
        messages = turn.messages
        text = transcript(messages) if messages else f"User: {turn.text}\nAssistant: {turn.answer}"
        text = keep_ends(credentials.redact(text), MAX_CHARS // 3)
        if self._head_chars + len(text) <= MAX_CHARS // 3:
            self._head.append(text)
            self._head_chars += len(text)
            return
        self._tail.append(text)
        self._tail_chars += len(text)
        while len(self._tail) > 1 and self._tail_chars > MAX_CHARS * 2 // 3:
            self._tail_chars -= len(self._tail.popleft())

    def taken(self) -> None:
        """What was heard so far has been kept."""
        self.heard = 0

    def text(self) -> str:
        return "\n".join((*self._head, *self._tail))
