"""Converts a session's messages to entries for consolidation, each with a lasting key, and keeps
them on disk until they are consolidated.

An item is written before the model is asked; from then on its messages are never queued again, and
never lost. It is waiting, then decided (it also holds what will be written), then deleted, and
`done/` holds the keys of its messages. `turn` is the right to consolidate, one process at a time;
files are written under the journal's own lock. Both end with their process.
"""

import hashlib
import json
import secrets
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from pathlib import Path

from kode import credentials, durable
from kode.memory.history import Author
from kode.memory.stored import WaitingFolder, locked, read_row, stems
from kode.messages import Message, calls_of, keep_ends, text_of

DONE_KEPT_S = 90 * 86_400.0
"""How long keys of done items are kept, for sessions whose own file could not store them."""


@dataclass(frozen=True, kw_only=True)
class Decided:
    """What will be written for an item, unchanged however often it is tried."""

    at: str
    """ISO time of the entry, UTC."""
    block: str
    """The entry as text in the history."""
    changes: tuple[str, str]
    """Ids of the changes to history and memory."""
    base: str = ""
    """The memory that the model saw."""
    update: str | None = None
    """The model's new memory; None leaves it unchanged."""
    done: bool = True
    """False for a raw fallback: the conversation still waits for a model."""


@dataclass(frozen=True, kw_only=True)
class Item:
    id: str
    session: str
    turn: int | None
    at: str
    """When it was queued, ISO, UTC."""
    keys: tuple[str, ...]
    """Keys of its messages."""
    text: str
    """The conversation for the model, bounded, without credentials."""
    raw: tuple[str, ...]
    """Its last messages, short, for a raw fallback."""
    session_path: str = ""
    """The file with the complete messages."""
    tainted: bool = False
    outside: str = ""
    """Which outside text its session took in, as far as known."""
    attempts: int = 0
    """Counted before the model is asked: a killed process has asked as well."""
    fallen_back: bool = False
    """Whether the history has a raw fallback for it."""
    decided: Decided | None = None

    @property
    def author(self) -> Author:
        return Author(who="consolidation", session=self.session, turn=self.turn)


class Queue(WaitingFolder[Item]):
    """`queue/` of a project's journal, and `queue/done/`."""

    kind = Item

    def turn(self, timeout_s: float) -> AbstractAsyncContextManager[None]:
        """The right to consolidate. Raises: BusyError after `timeout_s`."""
        return locked(self.folder, timeout_s=timeout_s)

    def finish(self, item: Item) -> None:
        """Marks an item as done: stores its keys, then deletes it. Raises: StorageError."""
        durable.make_folder(self.folder / "done")
        keys = json.dumps(list(item.keys)).encode()
        durable.replace(self._done(item.id), keys)
        self.remove(item.id)

    def ids(self, session: str | None = None) -> list[str]:
        """The ids of waiting items, of all sessions or one, in the order they were queued, so that
        memory ends with what was said last."""
        ids = [id for id in stems(self.folder) if session is None or _of(id) == session]
        return sorted(ids, key=lambda id: id.rpartition(".")[2])

    def taken(self, session: str) -> set[str]:
        """The keys of a session's messages in items, waiting or done."""
        keys: set[str] = set()
        for item in map(self.read, self.ids(session)):
            keys.update(item.keys if item else ())
        for id in stems(self.folder / "done"):
            if _of(id) == session:
                keys.update(self._keys(id))
        return keys

    def forget_done(self, session: str, keys: Iterable[str]) -> None:
        """Deletes done keys that the session stores itself, and old ones."""
        known = set(keys)
        for id in stems(self.folder / "done"):
            with suppress(OSError):
                path = self._done(id)
                old = time.time() - path.stat().st_mtime > DONE_KEPT_S
                if old or (_of(id) == session and known.issuperset(self._keys(id))):
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
    last = max((id.rpartition(".")[2][:20] for id in known if _of(id) == session), default="")
    now = max(time.time_ns(), int(last) + 1 if last.isdecimal() else 0)
    return f"{session}.{now:020d}{secrets.token_hex(3)}"


def _of(id: str) -> str:
    return id.rpartition(".")[0]


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
