"""A session's messages as entries for consolidation, each with a lasting key; and the queue of what
waits to be consolidated. Keys of done items are kept, so that no message is queued again."""

import hashlib
import json
import secrets
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kode import credentials, durable
from kode.memory import queue
from kode.memory.ask import keep_ends
from kode.memory.queue import Item, details
from kode.memory.stored import read_row, stems
from kode.messages import Message, calls_of, text_of

DONE_KEPT_S = 90 * 86_400.0
"""How long keys of done items are kept, for sessions whose own file could not store them."""


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """What the queue keeps of a conversation besides."""

    keys: tuple[str, ...]
    """Keys of its messages."""
    raw: tuple[str, ...]
    """Its last messages, short, for a raw fallback."""
    session_path: str = ""
    """The file with the complete messages."""
    fallen_back: bool = False
    """Whether the history has a raw fallback for it."""


def of(item: Item) -> Conversation:
    return details(Conversation, item) or Conversation(keys=(), raw=())


class Queue(queue.Queue):
    """`queue/` of a project's journal, and `queue/done/`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, Conversation)

    def finish(self, item: Item) -> None:
        """Marks an item as done: stores its keys, then deletes it. Raises: StorageError."""
        durable.make_folder(self.folder / "done")
        keys = json.dumps(of(item).keys).encode()
        durable.replace(self._done(item.id), keys)
        super().finish(item)

    def taken(self, session: str) -> set[str]:
        """The keys of a session's messages in items, waiting or done."""
        keys: set[str] = set()
        for item in self.items(session):
            keys.update(of(item).keys)
        for id in stems(self.folder / "done"):
            if id.rpartition(".")[0] == session:
                keys.update(self._keys(id))
        return keys

    def forget_done(self, session: str, keys: Iterable[str]) -> None:
        """Deletes done keys that the session stores itself, and old ones."""
        known = set(keys)
        for id in stems(self.folder / "done"):
            with suppress(OSError):
                path = self._done(id)
                old = time.time() - path.stat().st_mtime > DONE_KEPT_S
                if old or (id.rpartition(".")[0] == session and known.issuperset(self._keys(id))):
                    durable.remove(path)

    def _keys(self, id: str) -> list[str]:
        """The keys of a done item; none if unreadable."""
        with suppress(OSError):
            return read_row(list[str], self._done(id).read_bytes()) or []
        return []

    def _done(self, id: str) -> Path:
        return self.folder / "done" / f"{id}.json"


def new_id(session: str, known: Iterable[str]) -> str:
    """An id for a new item: a session's items are ordered as queued, whatever the clock does.
    `known` are the waiting ones."""
    ours = (id for id in known if id.rpartition(".")[0] == session)
    last = max((id.rpartition(".")[2][:20] for id in ours), default="")
    now = max(time.time_ns(), int(last) + 1 if last.isdecimal() else 0)
    return f"{session}.{now:020d}{secrets.token_hex(3)}"


ENTRY_CHARS = 4_000
"""Limit of one message in a prompt; the session's file has it in full."""
BATCH_CHARS = 32_000
"""Limit of one consolidation; more is split."""
RECAP_CHARS = 160
RAW_ENTRIES = 10
RAW_CHARS = 200


@dataclass(frozen=True, kw_only=True)
class Said:
    key: str
    """Identifies this message within its session."""
    role: str
    content: str
    index: int
    """Its index among the original messages."""
    at: str = ""
    """ISO time, if known."""
    tools_used: tuple[str, ...] = ()
    counts: bool = True
    """Whether it counts for the window: a message of the person or a final answer."""


def said_in(messages: Sequence[Message]) -> list[Said]:
    """The entries of a conversation; messages without text are left out, and their tool calls are
    named by the next one with text."""
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
    """An entry for a model."""
    at = f"[{entry.at[:16].replace('T', ' ')}] " if entry.at else ""
    tools = f" [tools: {', '.join(entry.tools_used)}]" if entry.tools_used else ""
    text = keep_ends(credentials.redact(entry.content), ENTRY_CHARS)
    return f"{at}{entry.role.upper()}{tools}: {text}"


def batches(entries: Sequence[Said]) -> list[list[Said]]:
    """Splits the entries into parts that fit a prompt, in order."""
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
