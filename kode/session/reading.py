"""Reads a session's file: header, entries, and what is unreadable. Takes no lock and writes
nothing; `log.py` opens a session to continue it."""

import re
import time
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
    settled,
)

ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")
"""UTC date and time, then six random hex digits."""


def session_path(home: Path, session_id: str) -> Path:
    """The file of a session that exists. Raises: SessionError."""
    path = paths.session_file(home, session_id)
    with durable.storage_errors(path, "read"):
        if not ID.fullmatch(session_id) or not path.is_file():
            raise no_session(session_id)
    return path


def read(path: Path) -> tuple[Header, list[AnyEntry], list[str]]:
    """The header and every readable entry of a file, and a plain sentence for each problem. Needs
    no lock: an unfinished line is ignored.

    Raises: SessionError for a file of a newer version; StorageError.
    """
    with durable.storage_errors(path, "read"):
        noted = durable.noted_length(path)
        data = path.read_bytes()
        created = path.stat().st_mtime
    found = _found(data, path.stem)
    header, entries, faults = found.header, settled(found.entries.values()), []
    if header is None:
        found.damaged = [number for number in found.damaged if number > 1]
        header = _made_up_header(path.stem, created)
        faults.append(
            f"The first line of session {path.stem} cannot be read; the rest is used."
            if entries
            else f"Session {path.stem} is empty: nothing in its file can be read."
        )
    if header.version > VERSION:
        raise _newer(path.stem, header.version)
    if header.id != path.stem:
        faults.append(f"The file of session {path.stem} calls itself {header.id[:80]!r}: renamed?")
        header = replace(header, id=path.stem)
    faults += found.faults(path.stem)
    if len(data) < noted:
        faults.append(
            f"The end of session {path.stem} is lost: {noted - len(data)} bytes that kode had "
            "written are no longer in its file. The rest is used."
        )
    return header, [_with_pictures_beside(entry, path) for entry in entries], faults


@dataclass
class _Found:
    """The lines of a file, sorted."""

    header: Header | None = None
    entries: dict[str, AnyEntry] = field(default_factory=dict)
    """By id, in file order."""
    damaged: list[int] = field(default_factory=list)
    """Numbers of lines, from 1, that are unreadable or duplicate."""
    unknown: set[str] = field(default_factory=set)
    """Entry types of a newer kode."""

    def take(self, number: int, line: bytes, session_id: str) -> None:
        """Raises: SessionError for a header of a newer version."""
        try:
            entry = parse_line(line)
        except ValueError:
            return self._take_unread(number, line, session_id)
        if isinstance(entry, Header) and self.header is None:
            self.header = entry
        elif isinstance(entry, Header) or entry.id in self.entries:
            self.damaged.append(number)
        else:
            self.entries[entry.id] = entry

    def _take_unread(self, number: int, line: bytes, session_id: str) -> None:
        kind, version = _kind_and_version(line)
        if kind == "session" and version > VERSION:
            raise _newer(session_id, version)
        if kind is None or kind in KNOWN_TYPES:
            self.damaged.append(number)
        else:
            self.unknown.add(kind)

    def faults(self, session_id: str) -> list[str]:
        """What was left out, in plain words."""
        faults = []
        if self.damaged:
            numbers = ", ".join(map(str, self.damaged[:5]))
            shown = numbers + (" ..." if len(self.damaged) > 5 else "")
            faults.append(
                f"Skipped {plural(len(self.damaged), 'damaged line')} of session {session_id} "
                f"(line {shown}), still in the file."
            )
        if self.unknown:
            faults.append(
                f"Session {session_id} has entries of a newer kode "
                f"({', '.join(sorted(self.unknown))}), which were left out. "
                "Update kode to use them."
            )
        return faults


def sound_lines(data: bytes, session_id: str) -> list[bytes]:
    """The whole lines of a session that are entries, or may be those of a newer kode, each once.
    Raises: SessionError."""
    damaged = set(_found(data, session_id).damaged)
    return [line for number, line in enumerate(data.split(b"\n")[:-1], 1) if number not in damaged]


def is_readable(line: bytes) -> bool:
    """Whether a line is an entry, or may be one of a newer kode."""
    try:
        parse_line(line)
    except ValueError:
        return (_kind_and_version(line)[0] or "message") not in KNOWN_TYPES
    return True


def _found(data: bytes, session_id: str) -> _Found:
    found = _Found()
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        found.take(number, line, session_id)
    return found


def no_session(session_id: str) -> SessionError:
    """The error for an unknown session id."""
    return SessionError(
        f"There is no session {session_id[:80]!r}. `kode session list --all` shows them."
    )


def not_new(session_id: str) -> SessionError:
    """The error for an id that a new session cannot have."""
    if ID.fullmatch(session_id):
        return SessionError(
            f"There is a session {session_id} already: `kode -r {session_id}` resumes it."
        )
    return SessionError(
        f"{session_id[:80]!r} cannot be the id of a session. Leave it to kode, or give one of the "
        "form YYYYMMDD-HHMMSS-xxxxxx: a time in UTC and six hex digits."
    )


def _newer(session_id: str, version: int) -> SessionError:
    return SessionError(
        f"Session {session_id} was written by a newer kode (format {version}). "
        "Update kode to continue it."
    )


def _kind_and_version(line: bytes) -> tuple[str | None, int]:
    """`type` and `version` of a line that is not an entry of this version; None if it is not an
    object with a type."""
    value = object_of(line) or {}
    kind = value.get("type")
    if not isinstance(kind, str) or not re.fullmatch(r"[a-z_-]{1,40}", kind):
        return None, 0
    version = value.get("version")
    return kind, version if isinstance(version, int) else 0


def _made_up_header(session_id: str, created: float) -> Header:
    when = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(created))
    return Header(id=session_id, created_at=when, cwd="", model="", provider="")


def _with_pictures_beside(entry: AnyEntry, path: Path) -> AnyEntry:
    """Points pictures to the session's own folder, wherever it was copied or moved to."""
    if not isinstance(entry, MessageEntry) or not images_of(entry):
        return entry
    folder = paths.images_folder(path.with_suffix(""))
    parts = (kept_beside(p, folder) if isinstance(p, Image) else p for p in entry.parts)
    return replace(entry, parts=tuple(parts))
