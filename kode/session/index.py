"""Reads, lists and searches the files of sessions. A list reads the head and the tail of the files
that it shows; a search parses only files that contain the words.

The order of use is kept as a list of ids, the last used at the end, so that a wrong clock does not
matter. Sessions missing from it, or all if it is damaged, are ordered by their files' times."""

import contextlib
import json
import math
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import IO, Any, TypeVar

from kode import durable, paths
from kode.broken_json import object_of
from kode.errors import SessionError, StorageError, UserError
from kode.images import with_copy_in
from kode.messages import Image, Part, Text, ToolCall, ToolResult, cut_list, plural, text_of
from kode.plain_text import sanitize
from kode.session.entries import (
    KNOWN_TYPES,
    VERSION,
    Entry,
    Header,
    MessageEntry,
    NameEntry,
    is_turn,
    parse_line,
    settle_all,
    timestamp,
)
from kode.session.messages import effective
from kode.values import Value, dataclass, replace

ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")  # UTC date and time, then six random hex digits
LIKE_ID = re.compile(r"[a-f-]*\d[\da-f-]*")  # any part of one
NAME_CHARS = 60  # one line of a list with the task beside it
ORDER = "order"  # the list of ids in the folder of the sessions, one a line
HEAD_BYTES = 65_536  # the first task is not shown if it stands behind more than this
TASK_CHARS = 200  # two lines of a table
LAST_SECOND = 253_402_214_400  # the beginning of the last day that a date can name
CLOCK_LAG_S = 0.02  # of file systems: above a tick of Linux at 100 Hz
CONTEXT_CHARS = 160  # two lines around a hit

_USE = re.compile(rb"([0-9a-f-]{22}) ([0-9a-f]{8})")  # a line of the list: an id and its CRC-32
_END, _REWIND, _NAME = b'{"type":"turn"', b'{"type":"rewind"', b'{"type":"name"'
_USER = b'"role":"user"'

Item = TypeVar("Item")


def session_path(home: Path, session_id: str) -> Path:
    """The file of a session that exists. Raises: SessionError."""
    path = paths.session_file(home, session_id)
    with durable.storage_errors(path, "read"):
        if not ID.fullmatch(session_id) or not path.is_file():
            raise missing_session(session_id)
    return path


def missing_session(session_id: str, hint: str = "") -> SessionError:
    """The error for an unknown session id."""
    hint += " `kode session list --all` shows them all."
    return SessionError(f"There is no session {session_id[:80]!r}.{hint}")


def writable_path(path: Path | str) -> str:
    """A path in a form that JSON can hold: invalid UTF-8 is escaped with a backslash."""
    return str(path).encode("utf-8", "backslashreplace").decode()


def parse_lines(data: bytes) -> Iterator[tuple[bytes, Header | Entry | str | None]]:
    """Yields each complete line of a session with its entry, or with the type of an entry that only
    a newer kode knows, or with None if the line is damaged or repeats an id."""
    ids = set[str]()
    for line in data.split(b"\n")[:-1]:
        try:
            entry = parse_line(line)
        except ValueError:
            kind = _field(object_of(line), "type", "")
            is_newer = kind not in KNOWN_TYPES and re.fullmatch(r"[a-z_-]{1,40}", kind)
            yield line, kind if is_newer else None
            continue
        id = "" if isinstance(entry, Header) else entry.id
        yield line, None if id in ids else entry
        ids.add(id)


def read(path: Path) -> tuple[Header, list[Entry], list[str]]:
    """The header and every readable entry of a file, and a plain sentence for each problem; ignores
    an unfinished line. Raises: SessionError for a file of a newer version; StorageError."""
    with durable.storage_errors(path, "read"):
        noted, data = durable.read_length(path), path.read_bytes()
        created_at = timestamp(path.stat().st_mtime)
    if (version := _field(_parse_header(data.partition(b"\n")[0]), "version", 0)) > VERSION:
        by = f"by a newer kode (format {version}). Update kode to continue it."
        raise SessionError(f"Session {path.stem} was written {by}")
    header, entries, damaged, types = None, list[Entry](), list[str](), set[str]()
    for number, (_, entry) in enumerate(parse_lines(data), 1):
        match entry:
            case Header():
                header = entry
            case str():
                types.add(entry)
            case None:
                damaged.append(str(number))
            case Entry():
                entries.append(entry)
    name, faults, entries = f"session {path.stem}", list[str](), settle_all(entries)
    if header is None:
        damaged = [number for number in damaged if number != "1"]
        header = Header(id=path.stem, created_at=created_at, cwd="", model="", provider="")
        others = "the rest is used" if entries else "nor can anything else in its file"
        faults.append(f"The first line of {name} cannot be read; {others}.")
    if header.id != path.stem:
        faults.append(f"The file of {name} calls itself {header.id[:80]!r}: renamed?")
        header = replace(header, id=path.stem)
    if damaged:
        count, numbers = plural(len(damaged), "damaged line"), ", ".join(cut_list(damaged, 5))
        faults.append(f"Skipped {count} of {name}, still in the file (line {numbers}).")
    if types:
        left_out = f"has entries of a newer kode ({', '.join(sorted(types))}), which were left out"
        faults.append(f"S{name[1:]} {left_out}. Update kode to use them.")
    if (lost := noted - len(data)) > 0:
        faults.append(f"The end of {name} is lost: {lost} bytes that kode had written.")
    # Pictures are in the session's own folder, wherever it was copied or moved to.
    folder = paths.images_folder(path.with_suffix(""))
    for index, entry in enumerate(entries):
        if isinstance(entry, MessageEntry) and Image in map(type, entry.parts):
            parts = (with_copy_in(p, folder) if isinstance(p, Image) else p for p in entry.parts)
            entries[index] = replace(entry, parts=tuple(parts))
    return header, entries, faults


def note_use(path: Path) -> None:
    """Notes that the session in this file is the last used. Neither raises nor syncs."""
    order, id = path.with_name(ORDER), path.stem.encode()
    # The line feed before it ends a line that a crash has torn.
    line = b"\n%s %08x\n" % (id, zlib.crc32(id))
    with contextlib.suppress(OSError), open(order, "rb") as file:
        file.seek(-len(line), os.SEEK_END)
        if file.read() == line:
            return
    with contextlib.suppress(StorageError), durable.hold_log(order) as file:
        if not durable.count_lost_bytes(order):
            os.write(file.fileno(), line)
            durable.write_length(order, os.fstat(file.fileno()).st_size)


def repair_order(home: Path) -> str:
    """Sets the list of uses aside if it is damaged; returns a sentence about it, else ""."""
    order, aside = paths.sessions_folder(home) / ORDER, ""
    if _read_use_list(order) is not None:
        return ""
    durable.remove_length(order)
    with contextlib.suppress(StorageError):
        aside = f", and is now {durable.set_aside(order).name}"
    return f"{order} was damaged{aside}: sessions are in the order of their files' times."


def _read_use_list(order: Path) -> list[str] | None:
    """The ids in order of use; None if the list is damaged, since its order may be outdated."""
    noted, data = durable.read_length(order), b""
    with contextlib.suppress(OSError):
        data = order.read_bytes()
    matches = [_USE.fullmatch(line) for line in data.splitlines() if line]
    ids = [m[1].decode() for m in matches if m and int(m[2], 16) == zlib.crc32(m[1])]
    return ids if len(ids) == len(matches) and len(data) >= noted else None


def files(home: Path) -> list[tuple[float, str]]:
    """(time of the last change, id) of every session file, unsorted. Raises: StorageError."""
    folder, sessions = paths.sessions_folder(home), []
    with durable.storage_errors(folder, "read"), contextlib.suppress(FileNotFoundError):
        for entry in os.scandir(folder):
            stem, _, ending = entry.name.partition(".")
            with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                if ending == "jsonl" and ID.fullmatch(stem) and entry.is_file():
                    sessions.append((entry.stat().st_mtime, stem))
    return sessions


def find_session(home: Path, word: str) -> str:
    """The id that begins with `word`, or else of the session so named. Raises: SessionError."""
    import difflib

    ids, names = sorted(session_id for _, session_id in files(home)), dict[str, str]()
    matching = [session_id for session_id in ids if word and session_id.startswith(word)]
    what, advice = "start with", "Give more of the id."
    if not matching:
        names = {each.id: each.name for each in list_sessions(home) if each.name}
        matching = sorted(id for id, name in names.items() if name == "-".join(word.split()))
        what, advice = "are called", "Give the id of one: `/rename` gives it another name."
    if word in matching or len(matching) == 1:
        return matching[0]
    if matching:
        listed = ", ".join(cut_list(matching[::-1], 5))
        raise SessionError(f"{len(matching)} sessions {what} {word!r} ({listed}). {advice}")
    near = difflib.get_close_matches(word, [*ids, *names.values()], n=1, cutoff=0.6)
    raise missing_session(word, f" Did you mean {near[0]}?" if near else "")


def name_from(text: str) -> str:
    """Makes one hyphenated word of the name a person gives. Raises: UserError that says what to do,
    if it is empty or too long, starts with a hyphen, or could be part of an id."""
    name = "-".join(sanitize(text).split())
    if not name or name.startswith("-") or len(name) > NAME_CHARS:
        raise UserError(f"A name has 1 to {NAME_CHARS} characters, such as login-page.")
    if LIKE_ID.fullmatch(name):
        raise UserError(f"{name!r} looks like an id. Give a name with a word, such as login-page.")
    return name


class Summary(Value):
    """One line of a list of sessions."""

    id: str
    created_at: str = ""
    updated_at: str = ""
    """When it was last used: the time of its last entry, or of its file if that is earlier."""
    cwd: str = ""
    model: str = ""
    provider: str = ""
    name: str = ""
    """What the person calls it."""
    task: str = ""
    """The beginning of the first thing the person asked."""
    turns: int = 0
    tokens: int = 0
    """Input and output of all requests, as of the last finished turn."""
    cost_usd: float | None = None
    """As of the last finished turn; None where no turn has finished, or the price is unknown."""
    parent: str | None = None
    """The session that started this one as a subagent."""
    damaged: bool = False
    """Its first line cannot be read, or nothing is in it. `kode session check ID` says more."""

    @property
    def title(self) -> str:
        """Its name and its task, as far as it has them."""
        return " · ".join(filter(None, (self.name, self.task)))


def list_sessions(home: Path, cwd: Path | None = None, limit: int | None = None) -> list[Summary]:
    """Lists the sessions of `cwd` (default: of all folders), the last used first, damaged ones too;
    at most `limit`. Raises: StorageError."""
    return list(islice(_last_used_first(home, cwd), limit))


def find_newest(home: Path, cwd: Path) -> tuple[str, tuple[Summary, ...]]:
    """Finds the session of this directory that was used last; also returns those used since that
    cannot be continued, being damaged or without a task. Raises: SessionError."""
    passed: list[Summary] = []
    for summary in (each for each in _last_used_first(home, cwd) if not each.parent):
        if summary.turns and not summary.damaged:
            return summary.id, tuple(passed)
        passed.append(summary)
    if whole := [each for each in passed if not each.damaged]:  # a kill has torn its first message
        return whole[0].id, tuple(each for each in passed if each is not whole[0])
    if passed:  # damaged, so perhaps of another directory
        raise SessionError(f"Session {passed[0].id} is damaged: `kode session check` says more.")
    others = "`kode session list --all` shows those of other directories"
    raise SessionError(f"There is no session of {cwd} yet. Start one with `kode`; {others}.")


def _last_used_first(home: Path, cwd: Path | None) -> Iterator[Summary]:
    """Yields what `list_sessions` lists, reading only as many files as the caller consumes."""
    folder = paths.sessions_folder(home)
    ranks = {id: place for place, id in enumerate(_read_use_list(folder / ORDER) or ())}
    sessions = ((ranks.get(id, -1), changed, id) for changed, id in files(home))
    for _, _, session_id in sorted(sessions, reverse=True):
        if summary := summarize_session(folder / f"{session_id}.jsonl", cwd):
            yield summary


def summarize_session(path: Path, cwd: Path | None = None) -> Summary | None:
    """Summarizes a session from the head and the tail of its file; None for one of a directory
    other than `cwd`, and for a file that is gone. A damaged one may be of any directory."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            head = file.read(HEAD_BYTES)
            lines = (head + (file.readline() if len(head) == HEAD_BYTES else b"")).split(b"\n")
            header = _parse_header(lines[0])
            folder = _field(header, "cwd", "")
            if header and cwd and paths.real_path(folder) != writable_path(paths.real_path(cwd)):
                return None
            at, name, turns, end = _read_tail(file, path)
    except OSError:
        return None
    asked = settle_all(filter(None, map(_read_prompt, lines[:-1])))
    task = text_of(asked[0]) if asked and isinstance(asked[0], MessageEntry) else ""
    usage, changed = end.get("total_usage"), min(max(status.st_mtime, 0.0), LAST_SECOND)
    # A total of zero may come from turns without a price.
    cost_usd = _field(end, "total_cost_usd", 0.0) or _field(end, "cost_usd", math.nan)
    return Summary(
        id=path.stem,
        updated_at=timestamp(min(changed, parse_time(at) or changed)),
        **{name: _field(header, name, "") for name in ("created_at", "cwd", "model", "provider")},
        name=name,
        task=" ".join(task.split())[:TASK_CHARS],
        turns=turns,
        tokens=_field(usage, "input_tokens", 0) + _field(usage, "output_tokens", 0),
        cost_usd=cost_usd if math.isfinite(cost_usd) else None,
        parent=_field(header, "parent", "") or None,
        damaged=not header,
    )


def _parse_header(line: bytes) -> dict[str, Any]:
    """The header in a line; {} if the line is none."""
    value = object_of(line) or {}
    return value if value.get("type") == "session" else {}


def _read_tail(file: IO[bytes], path: Path) -> tuple[str, str, int, dict[str, Any]]:
    """The time of the last entry, the session's name, the number of turns, and the end of the last
    finished one."""
    at, end, prompts, names = "", dict[str, Any](), list[Entry](), list[str]()
    newest_first = durable.read_backwards(file)
    next(newest_first)  # what follows the last line feed is an unfinished line
    for line in newest_first:
        is_end, is_name = line.startswith(_END), line.startswith(_NAME)
        value = object_of(line) or {} if is_end or is_name or not at else {}
        names += [_field(value, "text", "")] if is_name else []
        at = at or _field(value, "at", "")
        if line.startswith(_REWIND):  # rare: it takes all entries to tell
            with contextlib.suppress(SessionError):
                every = read(path)[1]
                names = ["", *(entry.text for entry in every if isinstance(entry, NameEntry))]
                turns = [is_turn(e) or getattr(e, "is_pending", False) for e in effective(every)]
                return at, names[-1], sum(turns), {}
        if is_end and value:
            end = value
            break
        prompts += filter(None, [_read_prompt(line)])
    name = [*names, _field(end, "session_name", "")][0]
    return at, name, _field(end, "number", 0) + len(settle_all(reversed(prompts))), end


def _read_prompt(line: bytes) -> MessageEntry | None:
    """Reads the part of a person's message that a list needs: parsing with pydantic is slow."""
    value = object_of(line) if _USER in line else None
    words = [
        Text(text=_field(part, "typed", "") or _field(part, "text", ""))
        for part in _field(value, "parts", list[Any]())
        if _field(part, "type", "text") == "text" and not _field(part, "source", "")
    ]
    match _field(value, "type", ""):
        case "context":
            return MessageEntry(type="context", role="user", parts=(), of=_field(value, "of", ""))
        case "message" if words:
            id, is_pending = _field(value, "id", ""), _field(value, "is_pending", False)
            return MessageEntry(role="user", parts=(words[0],), id=id, is_pending=is_pending)
    return None


def _field(value: Any, name: str, default: Item) -> Item:
    """A field of a line that anybody may have edited; the default for one of another type."""
    item = value.get(name) if isinstance(value, dict) else None
    return item if type(item) is type(default) else default


def parse_time(at: str) -> float | None:
    """Parses a time to seconds since the epoch; None if it cannot be a time of a session."""
    try:
        seconds = datetime.fromisoformat(at).timestamp() if at else 0.0
    except (ValueError, OverflowError, OSError):
        return None
    return seconds if 0 < seconds < LAST_SECOND else None


@dataclass(frozen=True)
class TextHit:
    """A text that contains the words of a search."""

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


def search_sessions(home: Path, words: Sequence[str], limit: int | None = None) -> list[TextHit]:
    """Texts with all words, ignoring case, newest first; at most `limit`. Raises: StorageError."""
    wanted = [word.lower() for word in words if word.strip()]
    places: list[TextHit] = []
    for changed, session_id in sorted(files(home), reverse=True) if wanted else ():
        # Nothing in this file, or in those after it, is newer than its last change.
        if len(places) == limit and places[-1].at >= timestamp(changed + CLOCK_LAG_S):
            break
        places += reversed(list(_find_hits(paths.session_file(home, session_id), wanted)))
        places = sorted(places, key=lambda place: place.at, reverse=True)[:limit]
    return places


def _find_hits(path: Path, words: Sequence[str]) -> Iterator[TextHit]:
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
                line = line_with(text, words)
                yield TextHit(path.stem, entry.id, entry.at, turn, author, line, header.cwd)


def _author_and_text(entry: Entry, part: Part) -> tuple[str, str]:
    """Who wrote a part, and its text; "" for memory, attachments and notes."""
    match part:
        case Text(source="" | "steering"):
            return ("you" if getattr(entry, "role", "") == "user" else "kode"), part.text
        case ToolCall(arguments=text) | ToolResult(text=text):
            return f"tool {part.name}", text
    return "", ""


def line_with(text: str, words: Sequence[str]) -> str:
    """The line of a text with most of the words, cut around the first of them."""
    lines = [" ".join(line.split()) for line in text.splitlines()]
    best = max(lines, key=lambda line: sum(word in line.lower() for word in words))
    positions = [at for word in words if (at := best.lower().find(word)) >= 0]
    start = max(0, min(min(positions, default=0) - CONTEXT_CHARS // 3, len(best) - CONTEXT_CHARS))
    end = start + CONTEXT_CHARS
    return "…" * (start > 0) + best[start:end] + "…" * (end < len(best))
