"""Which sessions there are: list, find, newest. A list reads the head and the tail of each file,
never all of it, and only of the files it shows. There is no index to keep in step.

What is done to sessions is in `upkeep.py`; what one session says is `log.py`'s business.
"""

import contextlib
import difflib
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from kode import durable, paths
from kode.broken_json import object_of
from kode.errors import SessionError
from kode.paths import real_path
from kode.session import order
from kode.session.entries import VERSION, timestamp
from kode.session.log import writable_path
from kode.session.messages import effective, turns_of
from kode.session.reading import ID, no_session, read

HEAD_BYTES = 65_536
"""Of a longer system prompt the first task behind it is not shown."""
TASK_CHARS = 200  # two lines of a table
MAX_NAMED = 5
"""Candidates named in an error."""
LAST_SECOND = 253_402_214_400
"""The beginning of the last day that a date can name."""

_CONTEXT = b'{"type":"context"'
_OF_PERSON = b'"role":"user"'


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
    fitting = [known for known in ids if prefix and known.startswith(prefix)]
    if prefix in fitting:
        return prefix
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        shown = ", ".join(fitting[-MAX_NAMED:])
        more = "" if len(fitting) <= MAX_NAMED else ", ..."
        raise SessionError(
            f"{len(fitting)} sessions start with {prefix!r} ({shown}{more}). Give more of the id."
        )
    near = difflib.get_close_matches(prefix, ids, n=1, cutoff=0.6)
    raise no_session(prefix, f" Did you mean {near[0]}?" if near else "")


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
            lines = file.read(HEAD_BYTES).split(b"\n")
            header = _header(lines[0])
            if header and cwd is not None and not _is_of(_text(header, "cwd"), cwd):
                return None
            is_whole = status.st_size < HEAD_BYTES
            newest_first = reversed(lines) if is_whole else durable.pieces_backwards(file)
            next(newest_first)  # torn, and no line to any reader
            at, turns, end = _tail(newest_first, path)
    except OSError:
        return None
    usage = end.get("total_usage")
    usage = usage if isinstance(usage, dict) else {}
    changed = min(max(status.st_mtime, 0.0), LAST_SECOND)
    return Summary(
        id=path.stem,
        updated_at=timestamp(min(changed, seconds_of(at) or changed)),
        **{name: _text(header, name) for name in ("created_at", "cwd", "model", "provider")},
        task=" ".join(_first_task(lines, is_cut=not is_whole).split())[:TASK_CHARS],
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


def _first_task(lines: Sequence[bytes], *, is_cut: bool) -> str:
    """The first thing the person asked that was not refused; "" when the head does not reach that
    far. The last line is torn, or cut by the length of the head."""
    task, cut = "", lines[-1]
    for line in lines[:-1]:
        if line.startswith(_CONTEXT) and task:
            if not (object_of(line) or {}).get("refused"):
                return task
            task = ""
        elif not task and _OF_PERSON in line:
            value = object_of(line) or {}
            task = _words_of(value) or ""
            if not value.get("is_pending") and task:
                return task
    if not task and is_cut and cut.startswith(b'{"type":"message",' + _OF_PERSON):
        # Longer than the head, such as a pasted log, and cut anywhere.
        ends = (object_of(cut[: len(cut) - lost] + b'"}]}') for lost in range(12))
        task = _words_of(next(filter(None, ends), {})) or ""
    return task


def _words_of(value: dict[str, Any]) -> str | None:
    """The person's words in a line that is their message; None for any other line."""
    if value.get("type") != "message" or value.get("role") != "user":
        return None
    parts = value.get("parts")
    for part in parts if isinstance(parts, list) else []:
        if isinstance(part, dict) and part.get("type", "text") == "text" and not part.get("source"):
            return str(part.get("text", ""))
    return None


def _tail(newest_first: Iterator[bytes], path: Path) -> tuple[str, int, dict[str, Any]]:
    """The time of the last entry, how many turns there are, and the end of the last finished one,
    empty where none has finished. Raises: OSError."""
    at, begun = "", 0
    refused = dict[str, bool]()  # by the id of a message
    for line in newest_first:
        if b'"rewind"' in line:
            return _tail_of_all(path)
        is_end, is_of_person = line.startswith(b'{"type":"turn"'), _OF_PERSON in line
        if at and not is_end and not is_of_person and not line.startswith(_CONTEXT):
            continue
        value = object_of(line) or {}
        at = at or _text(value, "at")
        if is_end and value:
            return at, _whole(value, "number") + begun, value
        if value.get("type") == "context":
            refused[_text(value, "of")] = value.get("refused") is True
        elif _words_of(value) is not None:
            # Without a context a pending message counts only as the last one.
            is_replaced = value.get("is_pending") is True and begun > 0
            begun += not refused.get(_text(value, "id"), is_replaced)
    return at, begun, {}


def _tail_of_all(path: Path) -> tuple[str, int, dict[str, Any]]:
    """The same from all entries, for the rare file whose end does not tell."""
    try:
        _, entries, _ = read(path)
    except SessionError:
        return "", 0, {}
    last = entries[-1] if entries else None
    turns = turns_of(effective(entries)) + getattr(last, "is_pending", False)
    return last.at if last else "", turns, {}


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
