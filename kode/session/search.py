"""Searches the text of all sessions: prompts, answers, calls and results, straight from the files.
There is no index to keep in sync: files without the words are skipped unparsed."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kode import paths
from kode.errors import SessionError, StorageError
from kode.messages import Part, Text, ToolCall, ToolResult
from kode.session.entries import AnyEntry, MessageEntry, is_turn, timestamp
from kode.session.index import files
from kode.session.reading import read

CLOCK_LAG_S = 0.02  # above a tick of Linux at 100 Hz
CONTEXT_CHARS = 160  # two lines around a hit


@dataclass(frozen=True, kw_only=True)
class Place:
    """A match."""

    session: str
    entry: str
    """The id of the message, as in `kode session show`."""
    at: str
    turn: int
    """From 1; 0 for anything before the first."""
    who: str
    """`you`, `kode`, or `tool NAME` for a call or its result."""
    line: str
    """The line with the words, or most of them; cut if it is long."""
    cwd: str


def search(home: Path, words: Sequence[str], limit: int | None = None) -> list[Place]:
    """Texts that contain all `words`, ignoring case, newest first; at most `limit`.

    Raises: StorageError if the sessions folder cannot be read.
    """
    wanted = [word.lower() for word in words if word.strip()]
    places: list[Place] = []
    for changed, session_id in sorted(files(home), reverse=True) if wanted else ():
        # Nothing in this file, or in those after it, is newer than its last change. The clock of
        # file systems may be some milliseconds behind.
        newest = timestamp(changed + CLOCK_LAG_S)
        if limit is not None and len(places) >= limit and places[-1].at >= newest:
            break
        places += reversed(list(_in_file(paths.session_file(home, session_id), wanted)))
        places = sorted(places, key=lambda place: place.at, reverse=True)[:limit]
    return places


def _in_file(path: Path, words: Sequence[str]) -> Iterator[Place]:
    # Case changes the bytes of non-ASCII letters.
    needles = [json.dumps(word)[1:-1].encode() for word in words if word.isascii()]
    try:
        data = path.read_bytes().lower()
        if not all(needle in data for needle in needles):
            return
        header, entries, _ = read(path)
    except (OSError, SessionError, StorageError):  # deleted meanwhile, or of a newer kode
        return
    turn = 0
    for entry in entries:
        turn += is_turn(entry)
        for part in entry.parts if isinstance(entry, MessageEntry) else ():
            author, text = _author_and_text(entry, part)
            if author and all(word in text.lower() for word in words):
                yield Place(
                    session=path.stem,
                    entry=entry.id,
                    at=entry.at,
                    turn=turn,
                    who=author,
                    line=line_with(text, words),
                    cwd=header.cwd,
                )


def _author_and_text(entry: AnyEntry, part: Part) -> tuple[str, str]:
    """Who wrote a part, and its text; "" for memory, attachments and notes."""
    match part:
        case Text(source="" | "steering"):
            return ("you" if getattr(entry, "role", "") == "user" else "kode"), part.text
        case ToolCall():
            return f"tool {part.name}", part.arguments
        case ToolResult():
            return f"tool {part.name}", part.text
    return "", ""


def line_with(text: str, words: Sequence[str]) -> str:
    """The line of a text with most of the words, cut around the first of them."""
    lines = [" ".join(line.split()) for line in text.splitlines()]
    best = max(lines, key=lambda line: sum(word in line.lower() for word in words))
    positions = [at for word in words if (at := best.lower().find(word)) >= 0]
    start = max(0, min(min(positions, default=0) - CONTEXT_CHARS // 3, len(best) - CONTEXT_CHARS))
    end = start + CONTEXT_CHARS
    return "…" * (start > 0) + best[start:end] + "…" * (end < len(best))
