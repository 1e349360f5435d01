"""Records which files hold text written by sessions that had read outside text.

A later session would take such text for the project's own words. So path and content are recorded
for every session of `$KODE_HOME`, in one file of JSON lines: a session that reads a file with
exactly that content has read outside text too. Any change of the content by somebody else ends
that.
"""

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from kode import durable, paths
from kode.credentials import redact
from kode.errors import StorageError
from kode.events import Emit, Notice

LINES_BETWEEN_COMPACTIONS = 1_000
HASHED_BYTES = 16 * 1024 * 1024
"""For a longer file only the beginning and the size are compared."""
MAX_SOURCE_CHARS = 300
TAIL_BYTES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    path: str
    """The real path."""
    sha256: str
    size: int
    source: str
    """The outside text that the session had read."""


class Marks:
    """The record as one session sees it; others may add to it at any time."""

    def __init__(
        self, *, home: Path, folders: Sequence[Path], source: Callable[[], str], emit: Emit
    ) -> None:
        """`folders` are the working folders, the working directory first; `source` returns what
        outside text this session has read, "" if none."""
        self._path = paths.marks_file(home)
        self._folders = tuple(map(os.path.realpath, folders))
        self._source = source
        self._emit = emit
        self._known: dict[str, dict[str, Mark]] = {}
        """Path → SHA-256 → mark. A path has several if its content alternates, as with git
        branches."""
        self._own: set[tuple[str, str]] = set()
        """Marks by this process: no news to its session."""
        self._file: tuple[int, int] | None = None
        self._read_to = 0
        self._tail = b""
        """The end of what was read, to detect a new file that reuses an inode."""
        self._lines = 0
        self._digests: dict[str, tuple[tuple[int, ...], str]] = {}

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
            for path in dict.fromkeys(map(os.path.realpath, changed)):
                self._digests.pop(path, None)
                size, sha256 = self._content(path) or (0, "")
                if not size:
                    continue  # deleted or empty
                self._own.add((path, sha256))
                if sha256 not in self._known.get(path, ()):
                    new.append(Mark(path=path, sha256=sha256, size=size, source=source))
            if new:
                self._append(new)
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
        folders."""
        try:
            self._read()
        except StorageError as error:
            self._emit(Notice(text=str(error), level="error"))
        for path in self._candidates(read):
            found = self._content(path, {mark.size for mark in self._known[path].values()})
            mark = self._known[path].get(found[1]) if found else None
            if mark is not None and (path, mark.sha256) not in self._own:
                name = self._display_path(path)
                return f"{name}, written in a session that read outside text ({mark.source})"
        return ""

    def _candidates(self, read: Iterable[str] | None) -> Iterator[str]:
        if not self._known:
            return
        for path in self._folders if read is None else map(os.path.realpath, read):
            if path in self._known:
                yield path
            elif os.path.isdir(path):
                inside = path.rstrip("/") + "/"
                yield from [known for known in self._known if known.startswith(inside)]

    def _display_path(self, path: str) -> str:
        for folder in self._folders:
            if path.startswith(folder.rstrip("/") + "/"):
                return os.path.relpath(path, folder)
        return path

    def _content(self, path: str, sizes: set[int] | None = None) -> tuple[int, str] | None:
        """Size and SHA-256 of a regular file; None if there is none, or none of these sizes. An
        unchanged file is not read again."""
        try:
            status = os.lstat(path)
            if not stat.S_ISREG(status.st_mode) or (sizes and status.st_size not in sizes):
                return None
            seen = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            cached = self._digests.get(path)
            if cached is None or cached[0] != seen:
                cached = self._digests[path] = seen, _digest(path)
        except OSError:
            return None
        return status.st_size, cached[1]

    # ── on disk ──────────────────────────────────────────────────────────────────────────────

    def _read(self) -> None:
        """Reads what was added since the last look. Raises: StorageError."""
        with durable.storage_errors(self._path, "read"):
            try:
                file = open(self._path, "rb")  # noqa: SIM115
            except FileNotFoundError:
                self._forget()
                return
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
            return
        self._read_to += len(whole) + 1
        self._tail = whole[-TAIL_BYTES:] + b"\n"
        lines = whole.split(b"\n")
        self._lines += len(lines)
        marks = list(map(_decode, lines))
        for mark in filter(None, marks):
            self._known.setdefault(mark.path, {})[mark.sha256] = mark
        if None in marks:
            self._set_aside(marks.count(None))

    def _forget(self) -> None:
        self._known, self._file = {}, None
        self._read_to, self._tail, self._lines = 0, b"", 0

    def _append(self, marks: Sequence[Mark]) -> None:
        lines = b"\n".join(map(_line, marks))
        with durable.locked(self._path.parent), durable.storage_errors(self._path, "append to"):
            with durable.open_for_append(self._path) as file:
                durable.append_to(file, lines, self._path)
            due = self._lines % LINES_BETWEEN_COMPACTIONS + len(marks) >= LINES_BETWEEN_COMPACTIONS
            self._read()
            if due:
                self._replace(self._still_true())

    def _still_true(self) -> list[Mark]:
        contents = {path: self._content(path) for path in self._known}
        return [
            mark
            for path, found in contents.items()
            if found is not None and (mark := self._known[path].get(found[1])) is not None
        ]

    def _replace(self, marks: Iterable[Mark]) -> None:
        """Call with the folder's lock held."""
        durable.replace(self._path, b"".join(_line(mark) + b"\n" for mark in marks))
        self._forget()
        self._read()

    def _set_aside(self, count: int) -> None:
        file, known = (
            self._file,
            [mark for marks in self._known.values() for mark in marks.values()],
        )
        with durable.locked(self._path.parent):
            status = os.stat(self._path) if self._path.exists() else None
            if status is None or (status.st_dev, status.st_ino) != file:
                return  # another kode was faster
            aside = durable.set_aside(self._path)
            self._replace(known)
        self._emit(
            Notice(
                text=f"{self._path} was damaged: {count} of its lines could not be read. It is "
                f"kept as {aside.name}. Files they were about now count as the project's own, "
                "though they may hold text from outside."
            )
        )


def _digest(path: str) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    digest, left = hashlib.sha256(), HASHED_BYTES
    with os.fdopen(descriptor, "rb") as file:
        while left > 0 and (piece := file.read(min(left, 1 << 20))):
            digest.update(piece)
            left -= len(piece)
    return digest.hexdigest()


def _line(mark: Mark) -> bytes:
    return json.dumps(asdict(mark)).encode()


def _decode(line: bytes) -> Mark | None:
    try:
        mark = Mark(**json.loads(line))
    except (ValueError, TypeError, RecursionError):
        return None
    texts = (mark.path, mark.sha256, mark.source)
    sound = all(isinstance(text, str) for text in texts) and isinstance(mark.size, int)
    return mark if sound else None
