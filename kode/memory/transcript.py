"""What was said in a session, as text for a model: bounded, without secrets or memory's own words.

Not here: what the model is asked about it; that is each system's own.
"""

from collections.abc import Iterable, Sequence

from kode import credentials
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
