"""Which sessions there are: list, find, newest. A list reads the head and the tail of each file,
never all of it, and only of the files it shows. There is no index to keep in step.

What is done to sessions is in `upkeep.py`; what one session says is `log.py`'s business.
"""

import contextlib
import difflib
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import IO, Any

from kode import durable, paths
from kode.broken_json import object_of
from kode.errors import SessionError
from kode.messages import Text, text_of
from kode.paths import real_path
from kode.session import order
from kode.session.entries import (
    VERSION,
    AnyEntry,
    ContextEntry,
    MessageEntry,
    settle_all,
    timestamp,
)
from kode.session.log import writable_path
from kode.session.messages import effective, turns_of
from kode.session.reading import ID, missing_session, read

HEAD_BYTES = 65_536
"""Of a longer system prompt the first task behind it is not shown."""
TASK_CHARS = 200  # two lines of a table
MAX_NAMED = 5
"""Candidates named in an error."""
LAST_SECOND = 253_402_214_400
"""The beginning of the last day that a date can name."""

_END, _CONTEXT = b'{"type":"turn"', b'{"type":"context"'


@dataclass(frozen=True, kw_only=True)
class Summary:
    """One line of a list of sessions."""

    id: str
    created_at: str = ""
    updated_at: str = ""
    """When it was last used: the time of its last entry, or of the file where that is earlier."""
    cwd: str = ""
    model: str = ""
    provider: str = ""
    task: str = ""
    """The beginning of the first thing the person asked."""
    turns: int = 0
    tokens: int = 0
    """Input and output of all requests, as of the last finished turn."""
    cost_usd: float | None = None
    """As of the last finished turn; None where no turn has finished, or the price is unknown."""
    size_bytes: int = 0
    parent: str | None = None
    """The session that started this one as a subagent."""
    damaged: bool = False
    """Its first line cannot be read, or nothing is in it. `kode session check ID` says more."""
    warnings: tuple[str, ...] = ()
    """What is wrong with it, as far as its two ends tell."""


def files(home: Path) -> list[tuple[float, str]]:
    """(time of the last change, id) of every session file, unsorted; one folder scan.

    Raises: StorageError when the folder may not be read.
    """
    folder, sessions = paths.sessions_folder(home), []
    with durable.storage_errors(folder, "read"), contextlib.suppress(FileNotFoundError):
        with os.scandir(folder) as entries:
            for entry in entries:
                stem, _, ending = entry.name.partition(".")
                if ending == "jsonl" and ID.fullmatch(stem):
                    with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                        if entry.is_file():
                            sessions.append((entry.stat().st_mtime, stem))
    return sessions


def list_sessions(
    home: Path, *, cwd: Path | None = None, limit: int | None = None
) -> list[Summary]:
    """Sessions, the last used first: those of `cwd` or, with None, of every directory; at most
    `limit`. One that is damaged is in the list all the same, marked."""
    return list(islice(last_used_first(home, cwd), limit))


def find(home: Path, prefix: str) -> str:
    """The id that begins with `prefix`. Raises: SessionError when none or several do."""
    ids = sorted(session_id for _, session_id in files(home))
    matching = [session_id for session_id in ids if prefix and session_id.startswith(prefix)]
    if prefix in matching or len(matching) == 1:
        return matching[0]
    if matching:
        newest_ids = ", ".join(matching[-MAX_NAMED:]) + ", ..." * (len(matching) > MAX_NAMED)
        raise SessionError(
            f"{len(matching)} sessions start with {prefix!r} ({newest_ids}). Give more of the id."
        )
    near = difflib.get_close_matches(prefix, ids, n=1, cutoff=0.6)
    raise missing_session(prefix, f" Did you mean {near[0]}?" if near else "")


def newest(home: Path, cwd: Path) -> tuple[str, tuple[Summary, ...]]:
    """The id of the session of this directory that was used last, and those used since that cannot
    be continued: damaged, or without a task. Raises: SessionError."""
    passed: list[Summary] = []
    for summary in last_used_first(home, cwd):
        if summary.turns and not summary.parent and not summary.damaged:
            return summary.id, tuple(passed)
        if not summary.parent:
            passed.append(summary)
    if whole := [summary for summary in passed if not summary.damaged]:
        return whole[0].id, tuple(summary for summary in passed if summary is not whole[0])
    raise SessionError(
        f"There is no session of {cwd} yet. Start one with `kode`; `kode session list --all` "
        "shows those of other directories."
    )


def last_used_first(home: Path, cwd: Path | None = None) -> Iterator[Summary]:
    """Sessions as `list_sessions` has them. Reads only as many files as are asked for.

    Their `order` decides. Those that are not in it come after the others, by the time of their
    files.
    """
    folder = paths.sessions_folder(home)
    ranks = order.ranks(folder)
    sessions = ((ranks.get(id, -1), changed, id) for changed, id in files(home))
    for _, _, session_id in sorted(sessions, reverse=True):
        if summary := summarize(folder / f"{session_id}.jsonl", cwd):
            yield summary


def summarize(path: Path, cwd: Path | None = None) -> Summary | None:
    """What the head and the tail of a file tell; None for a session of another directory than
    `cwd`, and for a file that is gone. A damaged one may be of any directory."""
    try:
        with path.open("rb") as file:
            noted, status = durable.noted_length(path), os.fstat(file.fileno())
            head = file.read(HEAD_BYTES)
            lines = (head + (file.readline() if len(head) == HEAD_BYTES else b"")).split(b"\n")
            header = _header(lines[0])
            if header and cwd is not None and not _is_of(_text(header, "cwd"), cwd):
                return None
            at, turns, end = _read_tail(file, path)
    except OSError:
        return None
    usage = end.get("total_usage")
    usage = usage if isinstance(usage, dict) else {}
    changed = min(max(status.st_mtime, 0.0), LAST_SECOND)
    prompts = (prompt for prompt in _prompts(lines[:-1]) if isinstance(prompt, MessageEntry))
    first = next(prompts, None)
    return Summary(
        id=path.stem,
        updated_at=timestamp(min(changed, seconds_of(at) or changed)),
        **{name: _text(header, name) for name in ("created_at", "cwd", "model", "provider")},
        task=" ".join(text_of(first).split())[:TASK_CHARS] if first else "",
        turns=turns,
        tokens=_whole(usage, "input_tokens") + _whole(usage, "output_tokens"),
        # A total of turns without a price is no cost of zero.
        cost_usd=_amount(end.get("total_cost_usd") or end.get("cost_usd")),
        size_bytes=status.st_size,
        parent=_text(header, "parent") or None,
        damaged=not header,
        warnings=tuple(_warnings(path.stem, header, noted - status.st_size)),
    )


def _warnings(session_id: str, header: dict[str, Any], lost_bytes: int) -> Iterator[str]:
    check = f"`kode session check {session_id}` says more."
    if not header:
        yield f"Its first line cannot be read. {check}"
    if _whole(header, "version") > VERSION:
        yield "It was written by a newer kode. Update kode to continue it."
    if lost_bytes > 0:
        yield f"Its last {lost_bytes} bytes are lost. {check}"


def folder_of(path: Path) -> str:
    """Where a session was started; "" where its file does not tell."""
    try:
        with path.open("rb") as file:
            return _text(_header(file.readline(HEAD_BYTES)), "cwd")
    except OSError:
        return ""


def _is_of(folder: str, cwd: Path) -> bool:
    return bool(folder) and (
        folder in (str(cwd), writable_path(cwd)) or real_path(folder) == real_path(cwd)
    )


def _header(line: bytes) -> dict[str, Any]:
    """Empty for a line that is no header."""
    value = object_of(line) or {}
    return value if value.get("type") == "session" else {}


def _read_tail(file: IO[bytes], path: Path) -> tuple[str, int, dict[str, Any]]:
    """The time of the last entry, how many turns there are, and the end of the last finished one,
    empty where none has finished. Raises: OSError."""
    at, end, newest_first = "", dict[str, Any](), durable.pieces_backwards(file)
    next(newest_first)  # torn, and no line to any reader
    lines = list[bytes]()
    for line in newest_first:
        if b'"rewind"' in line:
            return _read_all(path)
        value = object_of(line) or {} if line.startswith(_END) or not at else {}
        at = at or _text(value, "at")
        if line.startswith(_END) and value:
            end = value
            break
        if line.startswith(_CONTEXT) or b'"role":"user"' in line:
            lines.append(line)
    return at, _whole(end, "number") + len(_prompts(reversed(lines))), end


def _read_all(path: Path) -> tuple[str, int, dict[str, Any]]:
    """The same from all entries, for the rare file whose end does not tell."""
    try:
        _, entries, _ = read(path)
    except SessionError:
        return "", 0, {}
    last = entries[-1] if entries else None
    turns = turns_of(effective(entries)) + getattr(last, "is_pending", False)
    return last.at if last else "", turns, {}


def _prompts(lines: Iterable[bytes]) -> list[AnyEntry]:
    """What the person asked in these lines, but what was refused; with their words, and without
    the types that reading a whole session takes long to build."""
    return settle_all(filter(None, map(_prompt, lines)))


def _prompt(line: bytes) -> AnyEntry | None:
    """A line that is a message of the person, or the context of one, as far as a list needs it."""
    if not line.startswith(_CONTEXT) and b'"role":"user"' not in line:
        return None
    value = object_of(line) or {}
    if value.get("type") == "context":
        return ContextEntry(of=_text(value, "of"), refused=value.get("refused") is True)
    parts = value.get("parts") if value.get("type") == "message" else None
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict) and part.get("type", "text") == "text" and not part.get("source"):
            words = Text(text=_text(part, "typed") or _text(part, "text"))
            is_pending = value.get("is_pending") is True
            id = _text(value, "id")
            return MessageEntry(role="user", parts=(words,), id=id, is_pending=is_pending)
    return None


def _text(value: dict[str, Any], key: str) -> str:
    text = value.get(key)
    return text if isinstance(text, str) else ""


def _whole(value: dict[str, Any], key: str) -> int:
    number = value.get(key)
    return number if isinstance(number, int) else 0


def _amount(value: Any) -> float | None:
    try:
        amount = float(value) if isinstance(value, int | float) else None
    except OverflowError:
        return None
    return amount if amount is not None and math.isfinite(amount) else None


def seconds_of(at: str) -> float | None:
    """A time as seconds since the epoch; None for what is no time, or one that no session was used
    at."""
    try:
        seconds = datetime.fromisoformat(at).timestamp() if at else 0.0
    except (ValueError, OverflowError, OSError):
        return None
    return seconds if 0 < seconds < LAST_SECOND else None
