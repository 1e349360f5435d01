"""Searches the text of all sessions: prompts, answers, calls and results, straight from the files.
There is no index to keep in sync: files without the words are skipped unparsed."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kode import paths
from kode.broken_json import object_of
from kode.session.entries import timestamp
from kode.session.index import files

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
    if not wanted:
        return places
    for changed, session_id in sorted(files(home), reverse=True):
        # Nothing in this file, or in those after it, is newer than its last change. The clock of
        # file systems may be some milliseconds behind.
        newest = timestamp(changed + CLOCK_LAG_S)
        if limit is not None and len(places) >= limit and places[-1].at >= newest:
            break
        places += reversed(list(_in_file(paths.session_file(home, session_id), wanted)))
        places.sort(key=lambda place: place.at, reverse=True)
        del places[limit if limit is not None else len(places) :]
    return places


def _in_file(path: Path, words: Sequence[str]) -> Iterator[Place]:
    try:
        data = path.read_bytes()
    except OSError:  # deleted meanwhile
        return
    may_hold = _Sieve(words)
    if not may_hold(data):
        return
    turn, cwd = 0, ""
    for line in data.split(b"\n"):
        is_users = line.startswith(b'{"type":"message","role":"user"')
        if not (is_users or not cwd or may_hold(line)):
            continue
        value = object_of(line) or {}
        if value.get("type") == "session":
            cwd = str(value.get("cwd") or "?")
        if value.get("type") != "message":
            continue
        parts = [part for part in value.get("parts") or () if isinstance(part, dict)]
        turn += is_users and any(_is_prompt(part) for part in parts)
        for part in parts:
            who, text = _said(value, part)
            folded = text.lower()
            if who and all(word in folded for word in words):
                yield Place(
                    session=path.stem,
                    entry=str(value.get("id", "")),
                    at=str(value.get("at", "")),
                    turn=turn,
                    who=who,
                    line=line_with(text, words),
                    cwd=cwd,
                )


class _Sieve:
    """A cheap test whether bytes of a session's file may contain all words."""

    def __init__(self, words: Sequence[str]) -> None:
        # Case changes the bytes of non-ASCII letters.
        plain = [word for word in words if word.isascii()]
        self._needles = [json.dumps(word)[1:-1].lower().encode() for word in plain]

    def __call__(self, data: bytes) -> bool:
        lowered = data.lower()
        return all(needle in lowered for needle in self._needles)


def _is_prompt(part: dict[str, Any]) -> bool:
    return part.get("type") == "text" and not part.get("source")


def _said(message: dict[str, Any], part: dict[str, Any]) -> tuple[str, str]:
    """Who wrote a part, and its text; "" for memory, attachments and notes."""
    match part.get("type"):
        case "text" if not part.get("source") or part.get("source") == "steering":
            return ("you" if message.get("role") == "user" else "kode"), str(part.get("text", ""))
        case "tool_call":
            return f"tool {part.get('name')}", str(part.get("arguments", ""))
        case "tool_result":
            return f"tool {part.get('name')}", str(part.get("text", ""))
    return "", ""


def line_with(text: str, words: Sequence[str]) -> str:
    """The line of a text with most of the words, cut around the first of them."""
    lines = [" ".join(line.split()) for line in text.splitlines()]
    best = max(lines, key=lambda line: sum(word in line.lower() for word in words))
    folded = best.lower()
    position = min((found for word in words if (found := folded.find(word)) >= 0), default=0)
    start = max(0, min(position - CONTEXT_CHARS // 3, len(best) - CONTEXT_CHARS))
    cut = best[start : start + CONTEXT_CHARS]
    ends = start + CONTEXT_CHARS < len(best)
    return ("…" if start else "") + cut + ("…" if ends else "")
