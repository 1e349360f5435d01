"""Reads a session's file: header, entries, and what is unreadable. Takes no lock and writes
nothing; `log.py` opens a session to continue it."""

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from kode import durable, paths
from kode.broken_json import object_of
from kode.errors import SessionError
from kode.images import kept_beside
from kode.messages import Image, images_of, plural
from kode.session.entries import (
    KNOWN_TYPES,
    VERSION,
    AnyEntry,
    Header,
    MessageEntry,
    parse_line,
    settle_all,
    timestamp,
)

ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")
"""UTC date and time, then six random hex digits."""


def session_path(home: Path, session_id: str) -> Path:
    """The file of a session that exists. Raises: SessionError."""
    path = paths.session_file(home, session_id)
    with durable.storage_errors(path, "read"):
        if not ID.fullmatch(session_id) or not path.is_file():
            raise missing_session(session_id)
    return path


def read(path: Path) -> tuple[Header, list[AnyEntry], list[str]]:
    """The header and every readable entry of a file, and a plain sentence for each problem. Needs
    no lock: an unfinished line is ignored.

    Raises: SessionError for a file of a newer version; StorageError.
    """
    with durable.storage_errors(path, "read"):
        noted = durable.noted_length(path)
        data = path.read_bytes()
        changed = path.stat().st_mtime
    lines, name = read_lines(data, path.stem), f"session {path.stem}"
    header, entries, faults = lines.header, settle_all(lines.entries.values()), []
    damaged = lines.damaged
    if header is None:
        damaged = [number for number in damaged if number > 1]
        created_at = timestamp(changed)
        header = Header(id=path.stem, created_at=created_at, cwd="", model="", provider="")
        faults.append(
            f"The first line of {name} cannot be read; the rest is used."
            if entries
            else f"{name.capitalize()} is empty: nothing in its file can be read."
        )
    if header.id != path.stem:
        faults.append(f"The file of {name} calls itself {header.id[:80]!r}: renamed?")
        header = replace(header, id=path.stem)
    if damaged:
        numbers = ", ".join(map(str, damaged[:5])) + (" ..." if len(damaged) > 5 else "")
        faults.append(
            f"Skipped {plural(len(damaged), 'damaged line')} of {name} (line {numbers}), still in "
            "the file."
        )
    if lines.unknown:
        faults.append(
            f"{name.capitalize()} has entries of a newer kode "
            f"({', '.join(sorted(lines.unknown))}), which were left out. Update kode to use them."
        )
    if len(data) < noted:
        faults.append(
            f"The end of {name} is lost: {noted - len(data)} bytes that kode had written are no "
            "longer in its file. The rest is used."
        )
    return header, [_with_pictures_beside(entry, path) for entry in entries], faults


@dataclass
class Lines:
    """The lines of a file, sorted."""

    header: Header | None = None
    entries: dict[str, AnyEntry] = field(default_factory=dict)
    """By id, in file order."""
    damaged: list[int] = field(default_factory=list)
    """Numbers of lines, from 1, that are unreadable or duplicate."""
    unknown: set[str] = field(default_factory=set)
    """Entry types of a newer kode."""


def read_lines(data: bytes, session_id: str) -> Lines:
    """Reads every whole line. Raises: SessionError for a session of a newer version."""
    lines = Lines()
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        try:
            entry = parse_line(line)
        except ValueError:
            value = object_of(line) or {}
            kind = str(value.get("type"))
            if kind == "session":
                _refuse_newer(value.get("version"), session_id)
            if kind not in KNOWN_TYPES and re.fullmatch(r"[a-z_-]{1,40}", kind):
                lines.unknown.add(kind)
            else:
                lines.damaged.append(number)
            continue
        if isinstance(entry, Header) and lines.header is None:
            _refuse_newer(entry.version, session_id)
            lines.header = entry
        elif isinstance(entry, Header) or entry.id in lines.entries:
            lines.damaged.append(number)
        else:
            lines.entries[entry.id] = entry
    return lines


def sound_lines(data: bytes, session_id: str) -> list[bytes]:
    """The whole lines of a session that are entries, or may be those of a newer kode, each once.
    Raises: SessionError."""
    damaged = set(read_lines(data, session_id).damaged)
    return [line for number, line in enumerate(data.split(b"\n")[:-1], 1) if number not in damaged]


def missing_session(session_id: str, hint: str = "") -> SessionError:
    """The error for an unknown session id."""
    return SessionError(
        f"There is no session {session_id[:80]!r}.{hint} `kode session list --all` shows them all."
    )


def unusable_id(session_id: str) -> SessionError:
    """The error for an id that a new session cannot have."""
    if ID.fullmatch(session_id):
        return SessionError(
            f"There is a session {session_id} already: `kode -r {session_id}` resumes it."
        )
    return SessionError(
        f"{session_id[:80]!r} cannot be the id of a session. Leave it to kode, or give one of the "
        "form YYYYMMDD-HHMMSS-xxxxxx: a time in UTC and six hex digits."
    )


def _refuse_newer(version: object, session_id: str) -> None:
    if isinstance(version, int) and version > VERSION:
        raise SessionError(
            f"Session {session_id} was written by a newer kode (format {version}). "
            "Update kode to continue it."
        )


def _with_pictures_beside(entry: AnyEntry, path: Path) -> AnyEntry:
    """Points pictures to the session's own folder, wherever it was copied or moved to."""
    if not isinstance(entry, MessageEntry) or not images_of(entry):
        return entry
    folder = paths.images_folder(path.with_suffix(""))
    parts = (kept_beside(p, folder) if isinstance(p, Image) else p for p in entry.parts)
    return replace(entry, parts=tuple(parts))
