"""Records which files hold text written by sessions that had read outside text.

A later session would take such text for the project's own words. So path and content are recorded
for every session of `$KODE_HOME`, in one file of JSON lines, with what a person approved of it. By
its content a mark follows a copy, a rename, a commit and a checkout. A session that reads a file
with such content has read outside text too. What is loaded unasked (instructions, skills, hooks) is
also marked by its path, so that an edit does not lift the mark: only a person does.
"""

import hashlib
import json
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from kode import durable, paths
from kode.credentials import redact
from kode.errors import StorageError
from kode.events import Emit, Notice
from kode.paths import real_path
from kode.record_log import is_intact, seal

LINES_BETWEEN_COMPACTIONS = 1_000  # bounds what every reader has to go through
MAX_MARKS = 5_000
"""Kept when the record is compacted; the oldest of files that are gone or changed are dropped."""
MAX_COPIES = 200  # older copies are removed; bounds the disk
HASHED_BYTES = 16 * 1024 * 1024
"""For a longer file only the beginning and the size are compared."""
MAX_SOURCE_CHARS = 300  # a URL or path that can be recognized
TAIL_BYTES = 200  # more than a line that a write cut short
_UNMARKED = (
    "Files they were about now count as the project's own, though they may hold text from outside."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    path: str
    """The real path."""
    sha256: str
    """Of the content; "" for a folder that was made with all that is in it."""
    size: int
    source: str
    """The outside text that the session had read; "" where a person approved the content."""


class Record:
    """The file of all marks of a `$KODE_HOME`; other processes may add to it at any time. The last
    line about a content, and the last about a path, count."""

    def __init__(self, home: Path) -> None:
        self._path = paths.marks_file(home)
        self._copies = self._path.parent / "before"
        self._lock = threading.RLock()
        self.contents: dict[str, Mark] = {}
        self.paths: dict[str, Mark] = {}
        self.sizes: set[int] = set()
        self._file: tuple[int, int] | None = None
        self._read_to = 0
        self._tail = b""
        """The end of what was read, to detect a new file that reuses an inode."""
        self._lines = 0
        self._digests: dict[str, tuple[tuple[int, ...], str]] = {}

    def source(self, path: str | Path) -> str:
        """The outside text that a session had read which wrote this file, or one with the same
        content; "" for none, and once a person approved the content."""
        real = real_path(path)
        if not self.paths:
            return ""
        found = self.content(real)
        mark = self.contents.get(found[1]) if found else None
        if mark is None:
            mark = self.paths.get(real) or self._made_folder(real)
        return mark.source if mark and found else ""

    def _made_folder(self, path: str) -> Mark | None:
        above = (self.paths.get(str(folder)) for folder in Path(path).parents)
        return next((mark for mark in above if mark and not mark.sha256), None)

    def content(self, path: str, sizes: set[int] | None = None) -> tuple[int, str] | None:
        """Size and SHA-256 of a regular file with content; None if there is none, or none of these
        sizes. An unchanged file is not read again."""
        try:
            status = os.lstat(path)
            if not stat.S_ISREG(status.st_mode) or not status.st_size:
                return None
            if sizes is not None and status.st_size not in sizes:
                return None
            seen = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            cached = self._digests.get(path)
            if cached is None or cached[0] != seen:
                cached = self._digests[path] = seen, _digest(path)
        except OSError:
            return None
        return status.st_size, cached[1]

    def changed(self, path: str) -> tuple[int, str] | None:
        """The content of a file that may have changed within the resolution of its time; for a
        folder with something in it, 0 and ""."""
        self._digests.pop(path, None)
        if os.path.isdir(path):
            with durable.storage_errors(Path(path), "read"):
                return (0, "") if os.listdir(path) else None
        return self.content(path)

    # ── what a person decides ────────────────────────────────────────────────────────────────

    def approve(self, approved: Iterable[tuple[str, str]]) -> None:
        """Lifts the marks of these paths and contents (SHA-256). Raises: StorageError,
        BusyError."""
        lifted = [Mark(path=path, sha256=sha, size=0, source="") for path, sha in approved]
        if lifted:
            self.append(lifted)
        for mark in lifted:
            durable.remove(self._copy_of(mark.path))

    def withdraw(self, path: str) -> None:
        """Marks again what was approved of a path. Raises: StorageError, BusyError."""
        self.read()
        last = self.paths.get(path)
        if last is not None and not last.source:
            self.append([replace(last, source="its approval was withdrawn")])

    def text_before(self, path: str) -> str | None:
        """The text of a path before a session with outside text first changed it, if kept."""
        try:
            return self._copy_of(path).read_bytes().decode("utf-8", "replace")
        except OSError:
            return None

    def keep_before(self, path: str, text: str) -> None:
        """Keeps the text that a path had when it was last loaded. Raises: StorageError."""
        durable.make_folder(self._copies)
        durable.replace(self._copy_of(path), text.encode("utf-8", "replace"))
        with durable.storage_errors(self._copies, "read"):
            kept_paths = sorted(self._copies.iterdir(), key=os.path.getmtime)
        for copy in kept_paths[:-MAX_COPIES]:
            durable.remove(copy)

    def _copy_of(self, path: str) -> Path:
        return self._copies / paths.path_hash(Path(path))

    # ── on disk ──────────────────────────────────────────────────────────────────────────────

    def read(self) -> str:
        """Reads what was added since the last look; returns a sentence if the file was damaged.
        Raises: StorageError, BusyError."""
        with self._lock:
            lost = self._cut_off() if durable.lost_bytes(self._path) else ""
            with durable.storage_errors(self._path, "read"):
                try:
                    file = open(self._path, "rb")  # noqa: SIM115
                except FileNotFoundError:
                    self._forget()
                    return lost
                with file:
                    status = os.fstat(file.fileno())
                    here = (status.st_dev, status.st_ino)
                    file.seek(self._read_to - len(self._tail))
                    if here != self._file or file.read(len(self._tail)) != self._tail:
                        self._forget()
                        self._file = here
                        file.seek(0)
                    # A last line without its end is still being written.
                    whole = file.read().rpartition(b"\n")[0]
            if not whole:
                return lost
            self._read_to += len(whole) + 1
            self._tail = whole[-TAIL_BYTES:] + b"\n"
            lines = whole.split(b"\n")
            self._lines += len(lines)
            marks = _decoded(lines)
            for mark in filter(None, marks):
                self.paths[mark.path] = mark
                if mark.sha256:
                    self.contents[mark.sha256] = mark
                    self.sizes.add(mark.size)
            return self._set_aside(marks.count(None)) if None in marks else lost

    def _forget(self) -> None:
        self.contents, self.paths, self.sizes, self._file = {}, {}, set(), None
        self._read_to, self._tail, self._lines = 0, b"", 0

    def append(self, marks: Sequence[Mark]) -> None:
        """Raises: StorageError, BusyError."""
        lines = b"\n".join(map(_line, marks))
        with (
            self._lock,
            durable.locked(self._path.parent),
            durable.storage_errors(self._path, "append to"),
        ):
            with durable.open_for_append(self._path) as file:
                durable.append_to(file, lines, self._path, note_end=True)
            due = self._lines % LINES_BETWEEN_COMPACTIONS + len(marks) >= LINES_BETWEEN_COMPACTIONS
            self.read()
            if due:
                self._replace(self._worth_keeping())

    def _worth_keeping(self) -> list[Mark]:
        """In their order. Without an approval a person is asked once more; without a mark, never
        again: so those that count longest are the marks of what lies there as it was written."""
        marks = list(
            {id(mark): mark for mark in (*self.contents.values(), *self.paths.values())}.values()
        )
        if len(marks) <= MAX_MARKS:
            return marks

        def rank(mark: Mark) -> tuple[bool, bool]:
            found = self.content(mark.path, {mark.size})
            return bool(mark.source), found is not None and found[1] == mark.sha256

        kept = sorted(range(len(marks)), key=lambda position: (rank(marks[position]), position))[
            -MAX_MARKS:
        ]
        return [marks[position] for position in sorted(kept)]

    def _replace(self, marks: Iterable[Mark]) -> None:
        """Call with the folder's lock held."""
        data = b"".join(_line(mark) + b"\n" for mark in marks)
        durable.note_length(self._path, len(data))  # before: a shorter file would have lost its end
        durable.replace(self._path, data)
        self._forget()
        self.read()

    def _cut_off(self) -> str:
        with durable.locked(self._path.parent):
            if not (lost := durable.lost_bytes(self._path)):
                return ""  # another kode has replaced it
            durable.note_length(
                self._path, os.stat(self._path).st_size if self._path.exists() else 0
            )
        return f"{self._path} was damaged: its last {lost} bytes are lost. {_UNMARKED}"

    def _set_aside(self, count: int) -> str:
        file, marks = self._file, [*self.contents.values(), *self.paths.values()]
        with durable.locked(self._path.parent):
            status = os.stat(self._path) if self._path.exists() else None
            if status is None or (status.st_dev, status.st_ino) != file:
                return ""  # another kode was faster
            aside = durable.set_aside(self._path)
            self._replace({id(mark): mark for mark in marks}.values())
        return (
            f"{self._path} was damaged: {count} of its lines could not be read. It is kept as "
            f"{aside.name}. {_UNMARKED}"
        )


@lru_cache(maxsize=8)
def record_of(home: Path) -> Record:
    """The record of a `$KODE_HOME`, as last read."""
    return Record(home)


class Marks:
    """The record as one session sees it."""

    def __init__(
        self, *, home: Path, folders: Sequence[Path], source: Callable[[], str], emit: Emit
    ) -> None:
        """`folders` are the working folders, the working directory first; `source` returns what
        outside text this session has read, "" if none."""
        self._record = record_of(home)
        self._folders = tuple(map(real_path, folders))
        self._source = source
        self._emit = emit
        self._loaded: dict[str, tuple[str, str]] = {}
        """Real path → SHA-256 and text of the instructions that this session began with."""
        self._own: set[str] = set()
        """Contents marked by this process: no news to its session."""

    def keep_loaded(self, path: str, text: str, sha256: str) -> None:
        """Remembers a file that this session has as instructions: what is restored to it needs no
        mark, and what replaces it is shown as a change of it."""
        self._loaded[real_path(path)] = sha256, text

    def record(self, changed: Iterable[str], source: str = "") -> None:
        """Records the current content of files that this session changed. Does nothing unless it
        has read outside text; `source` names what it reads with this very change.

        A disk error is reported, not raised: the files are changed already.
        """
        source = redact(source or self._source())[:MAX_SOURCE_CHARS]
        if not source:
            return
        try:
            self._read()
            new = []
            for path in dict.fromkeys(map(real_path, changed)):
                found = self._record.changed(path)
                if found is None:
                    continue  # deleted or empty
                size, sha256 = found
                by_content, by_path = map(
                    dict.get, (self._record.contents, self._record.paths), (sha256, path)
                )
                before, text = self._loaded.get(path, ("", ""))
                if (before and sha256 == before) or (by_content and not by_content.source):
                    continue  # as it was, or approved
                self._own.add(sha256)
                is_known = by_path is not None and bool(by_path.source)
                if text and not is_known:
                    self._record.keep_before(path, text)
                if not is_known or (sha256 and by_content is None):
                    new.append(Mark(path=path, sha256=sha256, size=size, source=source))
            if new:
                self._record.append(new)
        except StorageError as error:
            self._emit(
                Notice(
                    text=f"{error} It could not be noted that this session, which has read text "
                    "from outside, changed files: later sessions will take them for the project's.",
                    level="error",
                )
            )

    def among(self, read: Iterable[str] | None) -> str:
        """The source to name for a read of these files, or folders with all their files, if one
        still holds what a marked session wrote; "" otherwise. None: anything in the working
        folders. In a folder a file counts where it was written, not where it was moved."""
        try:
            self._read()
        except StorageError as error:
            self._emit(Notice(text=str(error), level="error"))
        for path in self._candidates(read):
            found = self._record.content(path, self._record.sizes)
            mark = self._record.contents.get(found[1]) if found else None
            if mark is not None and mark.source and mark.sha256 not in self._own:
                name = self._display_path(path)
                return f"{name}, written in a session that read outside text ({mark.source})"
        return ""

    def _read(self) -> None:
        """Raises: StorageError."""
        if damage := self._record.read():
            self._emit(Notice(text=damage))

    def _candidates(self, read: Iterable[str] | None) -> Iterator[str]:
        if not self._record.contents:
            return
        for path in self._folders if read is None else map(real_path, read):
            if os.path.isdir(path):
                inside = path.rstrip("/") + "/"
                known = list(self._record.paths)  # at once: another thread may read more
                yield from (one for one in known if one.startswith(inside))
            else:
                yield path

    def _display_path(self, path: str) -> str:
        for folder in self._folders:
            if path.startswith(folder.rstrip("/") + "/"):
                return os.path.relpath(path, folder)
        return path


def _digest(path: str) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    digest, left = hashlib.sha256(), HASHED_BYTES
    with os.fdopen(descriptor, "rb") as file:
        while left > 0 and (piece := file.read(min(left, 1 << 20))):
            digest.update(piece)
            left -= len(piece)
    return digest.hexdigest()


def _line(mark: Mark) -> bytes:
    return seal(json.dumps(asdict(mark)).encode())


def _decoded(lines: Sequence[bytes]) -> list[Mark | None]:
    """None for a damaged line. All in one text are read twice as fast."""
    try:
        values = json.loads(b"[%s]" % b",".join(lines))
    except (ValueError, RecursionError):
        values = []
    if len(values) != len(lines):
        values = [_value(line) for line in lines]
    return [
        _mark(value) if is_intact(line) else None for line, value in zip(lines, values, strict=True)
    ]


def _value(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _mark(value: Any) -> Mark | None:
    try:
        path, sha256, source = texts = value["path"], value["sha256"], value["source"]
        size = value["size"]
    except (TypeError, KeyError, IndexError):
        return None
    if list(map(type, texts)) != [str, str, str] or type(size) is not int:
        return None
    return Mark(path=path, sha256=sha256, size=size, source=source)
