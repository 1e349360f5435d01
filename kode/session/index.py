"""Which sessions there are: list, find, newest. A list reads the head and the tail of each file,
never all of it, and only of the files it shows. There is no index to keep in step.

What is done to sessions is in `upkeep.py`; what one session says is `log.py`'s business.
"""

import contextlib
import difflib
import heapq
import json
import math
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from kode import durable, paths
from kode.broken_json import object_of
from kode.errors import SessionError
from kode.paths import real_path
from kode.session import order
from kode.session.entries import timestamp
from kode.session.log import writable_path
from kode.session.messages import effective, turns_of
from kode.session.reading import ID, read

HEAD_BYTES = 8_192
"""Mostly enough for the header, the system prompt and the first task."""
LONG_HEAD_BYTES = 65_536
"""For a long system prompt; a first task behind it is not shown, one that begins before it is."""
TAIL_BYTES = (16_384, 262_144)
"""Where the end of the last turn is looked for, before the whole file is read."""
TASK_CHARS = 200  # two lines of a table
MAX_NAMED = 5
"""Candidates named in an error."""
FROM_THE_FUTURE_S = 86_400
"""A file that changed so much later than now was written while a clock was wrong: it comes last."""
LAST_SECOND = 253_402_214_400
"""The beginning of the last day that a date can name."""


_LETTER = r'(?:[^"\\]|\\u[0-9a-fA-F]{4}|\\["\\/bfnrt])'
_TEXT_PART = re.compile(rf'{{"text":"({_LETTER}{{0,1000}}){_LETTER}*(?:",("source")?|)')
"""The beginning of a text in a line that may be cut anywhere, and whether it has a source."""


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


def files(home: Path) -> list[tuple[float, str]]:
    """(time of the last change, id) of every session file, unsorted; one folder scan.

    Raises: StorageError when the folder may not be read.
    """
    folder = paths.sessions_folder(home)
    with durable.storage_errors(folder, "read"), contextlib.suppress(FileNotFoundError):
        with os.scandir(folder) as entries:
            return [known for known in map(_file, entries) if known is not None]
    return []


def _file(entry: "os.DirEntry[str]") -> tuple[float, str] | None:
    """None for what is no session file, or was deleted meanwhile."""
    stem, _, ending = entry.name.partition(".")
    if ending != "jsonl" or not ID.fullmatch(stem):
        return None
    try:
        return (entry.stat().st_mtime, stem) if entry.is_file() else None
    except FileNotFoundError:
        return None


def list_sessions(
    home: Path, *, cwd: Path | None = None, limit: int | None = None
) -> list[Summary]:
    """Sessions, the last used first: those of `cwd` or, with None, of every directory; at most
    `limit`. One that is damaged is in the list all the same, marked."""
    summaries = last_used_first(home, cwd)
    if limit is None:
        return list(summaries)
    return [summary for summary, _ in zip(summaries, range(limit), strict=False)]


def find(home: Path, prefix: str, cwd: Path | None = None) -> str:
    """The id that begins with `prefix`. Where several do, one of `cwd` that is alone there wins.

    Raises: SessionError when none or several do.
    """
    ids = sorted(session_id for _, session_id in files(home))
    fitting = [known for known in ids if prefix and known.startswith(prefix)]
    if prefix in fitting:
        return prefix
    if len(fitting) > 1 and cwd is not None:
        here = [s for s in fitting if _is_of(_header_of(paths.session_file(home, s)), cwd)]
        fitting = here if len(here) == 1 else fitting
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        shown = ", ".join(fitting[-MAX_NAMED:])
        more = "" if len(fitting) <= MAX_NAMED else ", ..."
        raise SessionError(
            f"{len(fitting)} sessions start with {prefix!r} ({shown}{more}). Give more of the id."
        )
    near = difflib.get_close_matches(prefix, ids, n=1, cutoff=0.6)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise SessionError(
        f"There is no session {prefix[:80]!r}.{hint} `kode session list --all` shows them all."
    )


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


def last_used(path: Path) -> float:
    """When a session was last used, in seconds since the epoch; 0 for a file that is gone."""
    summary = summarize(path)
    return _seconds(summary.updated_at) or 0.0


def folder_of(path: Path) -> str:
    """Where a session was started; "" where its file does not tell."""
    return _text(_header_of(path), "cwd")


def summarize(path: Path) -> Summary:
    """What the head and the tail of a file tell. Never raises for what is in it."""
    return _summarize(path, None) or Summary(id=path.stem, damaged=True)


def last_used_first(home: Path, cwd: Path | None = None) -> Iterator[Summary]:
    """Sessions as `list_sessions` has them. Reads only as many files as are asked for.

    Their `order` decides. Of sessions that are not in it times do, and they come after the others:
    nothing was used after its file changed, so a session is the next one as soon as no unread file
    changed later. A time from the future, written while a clock was wrong, comes last.
    """
    folder = paths.sessions_folder(home)
    ranks, known = order.ranks(folder), files(home)
    in_order = [session_id for _, session_id in known if session_id in ranks]
    order.shorten(folder, ranks, in_order)
    for session_id in sorted(in_order, key=ranks.__getitem__, reverse=True):
        if summary := _summarize(paths.session_file(home, session_id), cwd):
            yield summary
    limit = time.time() + FROM_THE_FUTURE_S
    others = [one for one in known if one[1] not in ranks]
    yield from _by_time(home, cwd, [other for other in others if other[0] <= limit])
    yield from _by_time(home, cwd, [other for other in others if other[0] > limit])


def _by_time(home: Path, cwd: Path | None, known: list[tuple[float, str]]) -> Iterator[Summary]:
    waiting: list[tuple[float, str, Summary]] = []
    for changed, session_id in sorted(known, reverse=True):
        while waiting and -waiting[0][0] >= changed:
            yield heapq.heappop(waiting)[2]
        summary = _summarize(paths.session_file(home, session_id), cwd)
        if summary is not None:
            used = _seconds(summary.updated_at) or 0.0
            heapq.heappush(waiting, (-used, session_id, summary))
    while waiting:
        yield heapq.heappop(waiting)[2]


def _summarize(path: Path, cwd: Path | None) -> Summary | None:
    """The summary, or None for one that is not of `cwd`; a damaged one may be of any."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            head = file.read(HEAD_BYTES)
            header = _header(head)
            if header and cwd is not None and not _is_of(header, cwd):
                return None
            task = _first_task(head)
            if task is None and status.st_size > HEAD_BYTES:
                head += file.read(LONG_HEAD_BYTES - HEAD_BYTES)
                task = _first_task(head) or _task_that_is_cut(head)
            tail = _tail(path, file.fileno(), status.st_size)
    except OSError:
        return None
    changed = min(max(status.st_mtime, 0.0), LAST_SECOND)
    used = min(changed, _seconds(tail.at) or changed)
    return Summary(
        id=path.stem,
        created_at=_text(header, "created_at"),
        updated_at=timestamp(used),
        cwd=_text(header, "cwd"),
        model=_text(header, "model"),
        provider=_text(header, "provider"),
        task=task or "",
        turns=tail.turns,
        tokens=tail.tokens,
        cost_usd=tail.cost_usd,
        size_bytes=status.st_size,
        parent=_text(header, "parent") or None,
        damaged=not header,
    )


# ── what a head tells ────────────────────────────────────────────────────────────────────────


def _header_of(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return _header(file.read(HEAD_BYTES))
    except OSError:
        return {}


def _header(head: bytes) -> dict[str, Any]:
    """The first line; empty when it is not a header."""
    value = object_of(head.partition(b"\n")[0]) or {}
    return value if value.get("type") == "session" else {}


def _is_of(header: dict[str, Any], cwd: Path) -> bool:
    folder = _text(header, "cwd")
    return bool(folder) and (
        folder in (str(cwd), writable_path(cwd)) or real_path(folder) == real_path(cwd)
    )


def _first_task(head: bytes) -> str | None:
    """The first thing the person asked that was not refused; None when the head does not reach
    that far."""
    task = None
    for line in head.split(b"\n")[1:-1]:
        if line.startswith(_CONTEXT) and task is not None:
            if (object_of(line) or {}).get("refused") is not True:
                break
            task = None
        elif task is None and (asked := _asked(line)) is not None:
            task = " ".join(asked.split())[:TASK_CHARS]
            if b'"is_pending":true' not in line:
                break
    return task


def _task_that_is_cut(head: bytes) -> str | None:
    """The beginning of a first task that is longer than the head, such as a pasted log."""
    cut = head.rpartition(b"\n")[2].decode("utf-8", "ignore")
    if not cut.startswith('{"type":"message","role":"user"'):
        return None
    for text, source in _TEXT_PART.findall(cut):
        if not source:
            asked = json.loads(f'"{text}"', strict=False)
            return " ".join(asked.split())[:TASK_CHARS]
    return None


_CONTEXT = b'{"type":"context"'


def _asked(line: bytes) -> str | None:
    """The person's words in a line that is their message; None for any other line."""
    if b'"user"' not in line:
        return None
    value = object_of(line) or {}
    if value.get("type") != "message" or value.get("role") != "user":
        return None
    parts = value.get("parts")
    for part in parts if isinstance(parts, list) else []:
        if isinstance(part, dict) and part.get("type") == "text" and not part.get("source"):
            return str(part.get("text", ""))
    return None


# ── what a tail tells ────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class _Tail:
    at: str = ""
    """Of the last entry."""
    turns: int = 0
    tokens: int = 0
    cost_usd: float | None = None


def _tail(path: Path, descriptor: int, size: int) -> _Tail:
    for length in TAIL_BYTES:
        start = max(0, size - length)
        # What follows the last line feed is torn, and no line to any reader.
        lines = os.pread(descriptor, size - start, start).split(b"\n")[:-1]
        tail = _tail_of(lines[1:] if start else lines, whole=start == 0)
        if tail is not None:
            return tail
    return _tail_of_all(path)


def _tail_of(lines: list[bytes], *, whole: bool) -> _Tail | None:
    """Figures as of the last finished turn, and the turns begun since. None when these lines do
    not tell: no turn has finished in them, or something was rewound since."""
    at, begun = "", 0
    refused = dict[str, bool]()  # by the id of a message
    for line in reversed(lines):
        if b'"rewind"' in line:
            return None
        at = at or _text(object_of(line) or {}, "at")
        if line.startswith(b'{"type":"turn"') and (value := object_of(line)):
            usage = value.get("total_usage")
            usage = usage if isinstance(usage, dict) else {}
            tokens = _whole(usage.get("input_tokens")) + _whole(usage.get("output_tokens"))
            return _Tail(
                at=at,
                turns=_whole(value.get("number")) + begun,
                tokens=tokens,
                # A total of turns without a price is no cost of zero.
                cost_usd=_amount(value.get("total_cost_usd") or value.get("cost_usd")),
            )
        value = object_of(line) or {} if b'"user"' in line or line.startswith(_CONTEXT) else {}
        if value.get("type") == "context":
            refused[_text(value, "of")] = value.get("refused") is True
        elif _asked(line) is not None:
            # Without a context a pending message counts only as the last one.
            is_replaced = value.get("is_pending") is True and begun > 0
            begun += not refused.get(_text(value, "id"), is_replaced)
    return _Tail(at=at, turns=begun) if whole else None


def _tail_of_all(path: Path) -> _Tail:
    """The same from all entries, for the rare file whose end does not tell."""
    try:
        _, entries, _ = read(path)
    except SessionError:
        return _Tail()
    last = entries[-1] if entries else None
    turns = turns_of(effective(entries)) + getattr(last, "is_pending", False)
    return _Tail(at=last.at if last else "", turns=turns)


def _text(value: dict[str, Any], key: str) -> str:
    found = value.get(key)
    return found if isinstance(found, str) else ""


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _amount(value: Any) -> float | None:
    try:
        amount = float(value) if isinstance(value, int | float) else None
    except OverflowError:
        return None
    return amount if amount is not None and math.isfinite(amount) else None


def _seconds(at: str) -> float | None:
    """None for what is no time, or one that no session was used at."""
    try:
        seconds = datetime.fromisoformat(at).timestamp() if at else 0.0
    except (ValueError, OverflowError, OSError):
        return None
    return seconds if 0 < seconds < LAST_SECOND else None
