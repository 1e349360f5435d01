"""What was said in a session as the entries a consolidation works on, each with a lasting key.

The messages of the person and the texts of the model count; tool traffic shows as the names of the
tools used. Not here: what becomes of the entries (`consolidator`).
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kode import credentials
from kode.memory.ask import keep_ends
from kode.messages import Message, calls_of, text_of

ENTRY_CHARS = 4_000
"""Of one message in a prompt; the session's file has it whole."""
BATCH_CHARS = 32_000
"""Of one consolidation; more becomes several."""
RECAP_CHARS = 160
RAW_ENTRIES = 10
RAW_CHARS = 200


@dataclass(frozen=True, kw_only=True)
class Said:
    key: str
    """Tells this message from every other of its session."""
    role: str
    content: str
    index: int
    """Its place among the messages it was taken from."""
    at: str = ""
    """ISO time, where it is known."""
    tools_used: tuple[str, ...] = ()
    counts: bool = True
    """Whether it counts for the window: a message of the person or a final answer."""


def said_in(messages: Sequence[Message]) -> list[Said]:
    """The entries of a conversation; messages without text of their own are left out, and the
    tools they called are named by the next one that has some."""
    entries: list[Said] = []
    seen: Counter[str] = Counter()
    tools: list[str] = []
    for index, message in enumerate(messages):
        if message.role == "tool":
            continue
        calls = calls_of(message)
        tools += [call.name for call in calls]
        text = text_of(message).strip()
        if message.role == "user":
            tools = []
        if not text:
            continue
        known = str(getattr(message, "id", "") or "")
        digest = hashlib.sha256(f"{message.role}\0{text}".encode(errors="replace")).hexdigest()[:12]
        seen[digest] += 1
        entries.append(
            Said(
                key=known or f"{digest}.{seen[digest]}",
                role=message.role,
                content=text,
                index=index,
                at=str(getattr(message, "at", "") or ""),
                tools_used=tuple(dict.fromkeys(tools)),
                counts=not calls,
            )
        )
        tools = []
    return entries


def line_of(entry: Said) -> str:
    """An entry as a model reads it."""
    at = f"[{entry.at[:16].replace('T', ' ')}] " if entry.at else ""
    tools = f" [tools: {', '.join(entry.tools_used)}]" if entry.tools_used else ""
    text = keep_ends(credentials.redact(entry.content), ENTRY_CHARS)
    return f"{at}{entry.role.upper()}{tools}: {text}"


def batches(entries: Sequence[Said]) -> list[list[Said]]:
    """The entries in parts that one prompt can hold, in order."""
    parts: list[list[Said]] = []
    room = 0
    for entry in entries:
        size = len(line_of(entry)) + 1
        if not parts or size > room:
            parts.append([])
            room = BATCH_CHARS
        parts[-1].append(entry)
        room -= size
    return parts


def recap_lines(entries: Sequence[Said]) -> list[str]:
    """The latest messages, one short line each."""
    return [f"{e.role}: {_short(e.content, RECAP_CHARS)}" for e in entries if e.counts]


def raw_lines(entries: Sequence[Said]) -> list[str]:
    """The last ten messages, 200 characters each, for the entry of a failed consolidation."""
    return [f"{e.role}: {_short(e.content, RAW_CHARS)}" for e in entries[-RAW_ENTRIES:]]


def _short(text: str, max_chars: int) -> str:
    return " ".join(credentials.redact(text).split())[:max_chars]
