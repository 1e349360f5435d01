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
from kode.memory.frame import MAX_CHARS, transcript
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


BATCH_CHARS = MAX_CHARS
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
    line: str
    """As a transcript has it."""
    index: int
    """Its index among the original messages."""
    counts: bool
    """Whether it counts for the window: a message of the person or a final answer."""


def said_in(messages: Sequence[Message]) -> list[Said]:
    """What the person and the model said and called."""
    entries: list[Said] = []
    seen: Counter[str] = Counter()
    for index, message in enumerate(messages):
        # What tools gave is not theirs; what memory gave is remembered already.
        line = "" if message.role == "tool" else transcript([message])
        if not line:
            continue
        digest = hashlib.sha256(f"{message.role}\0{line}".encode(errors="replace")).hexdigest()[:12]
        seen[digest] += 1
        text = text_of(message).strip()
        entries.append(
            Said(
                key=f"{digest}.{seen[digest]}",
                role=message.role,
                content=text,
                line=line,
                index=index,
                counts=bool(text) and not calls_of(message),
            )
        )
    return entries


def batches(entries: Sequence[Said]) -> list[list[Said]]:
    """Splits the entries into parts that fit a prompt, in order."""
    parts: list[list[Said]] = []
    room = 0
    for entry in entries:
        size = len(entry.line) + 1
        if not parts or size > room:
            parts.append([])
            room = BATCH_CHARS
        parts[-1].append(entry)
        room -= size
    return parts


def short_lines(entries: Sequence[Said], max_chars: int) -> list[str]:
    """What the person and the model said, one short line each."""
    told = ((entry.role, credentials.redact(entry.content)) for entry in entries)
    return [f"{role}: {' '.join(text.split())[:max_chars]}" for role, text in told if text]


def conversation(batch: Sequence[Said], session_path: str) -> Conversation:
    """What the queue keeps of a part of one besides its text."""
    return Conversation(
        keys=tuple(entry.key for entry in batch),
        raw=tuple(short_lines(batch, RAW_CHARS)[-RAW_ENTRIES:]),
        session_path=session_path,
    )
