"""Records which files hold text written by sessions that had read outside text.

A later session would take such text for the project's own words. So path and content are recorded
for every session of `$KODE_HOME`, in one file of JSON lines, with what a person approved of it. By
its content a mark follows a copy, a rename, a commit and a checkout. A session that reads a file
with such content has read outside text too. What is loaded unasked (instructions, skills, hooks) is
also marked by its path, so that an edit does not lift the mark: only a person does.
"""

import hashlib
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from json import dumps
from pathlib import Path

from kode import durable, paths
from kode.broken_json import object_of
from kode.credentials import redact
from kode.errors import StorageError
from kode.events import Emit, Notice
from kode.paths import real_path

SPARE_LINES = 1_000  # that no longer count, before the file is rewritten
MAX_MARKS = 5_000
"""Kept when it is rewritten; the oldest of files that are gone or changed are dropped."""
MAX_COPIES = 200  # older copies are removed; bounds the disk
HASHED_BYTES = 16 * 1024 * 1024
"""For a longer file only the beginning and the size are compared."""
MAX_SOURCE_CHARS = 300  # a URL or path that can be recognized


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
        self._version: tuple[int, ...] = ()
        """What tells the file that was read from any other; () for none."""
        self._lines = 0
        self._digests: dict[str, tuple[tuple[int, ...], str]] = {}

    def source(self, path: str | Path) -> str:
        """The outside text that a session had read which wrote this file, or one with the same
        content; "" for none, and once a person approved the content."""
        real = real_path(path)
        content = self.content(real) if self.paths else None
        if content is None:
            return ""
        above = (self.paths.get(str(folder)) for folder in Path(real).parents)
        folder_mark = next((mark for mark in above if mark and not mark.sha256), None)
        mark = self.contents.get(content[1]) or self.paths.get(real) or folder_mark
        return mark.source if mark else ""

    def content(self, path: str, sizes: Iterable[int] | None = None) -> tuple[int, str] | None:
        """Size and SHA-256 of a regular file with content; None if there is none, or none of these
        sizes. An unchanged file is not read again."""
        try:
            status = os.lstat(path)
            if not stat.S_ISREG(status.st_mode) or not status.st_size:
                return None
            if sizes is not None and status.st_size not in sizes:
                return None
            version = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            cached = self._digests.get(path)
            if cached is None or cached[0] != version:
                cached = self._digests[path] = version, _digest(path)
        except OSError:
            return None
        return status.st_size, cached[1]

    def content_now(self, path: str) -> tuple[int, str] | None:
        """The content of a file that may have changed within the resolution of its time; for a
        folder with something in it, 0 and "". Raises: StorageError."""
        self._digests.pop(path, None)
        with durable.storage_errors(Path(path), "read"):
            if os.path.isdir(path):
                return (0, "") if os.listdir(path) else None
        return self.content(path)

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
        """The text of a path before a session with outside text first changed it, if there is
        one."""
        try:
            return self._copy_of(path).read_bytes().decode("utf-8", "replace")
        except OSError:
            return None

    def keep_before(self, path: str, text: str) -> None:
        """Stores the text that a path had when it was last loaded. Raises: StorageError."""
        durable.make_folder(self._copies)
        durable.replace(self._copy_of(path), text.encode("utf-8", "replace"))
        with durable.storage_errors(self._copies, "read"):
            copies = sorted(self._copies.iterdir(), key=os.path.getmtime)
        for copy in copies[:-MAX_COPIES]:
            durable.remove(copy)

    def _copy_of(self, path: str) -> Path:
        return self._copies / paths.path_hash(Path(path))

    def read(self) -> str:
        """Reads the file if it has changed; returns a sentence if it was damaged, and rewrites it
        without what is damaged. Raises: StorageError, BusyError."""
        with self._lock, durable.storage_errors(self._path, "read"):
            noted, version = durable.noted_length(self._path), self._version_now()
            if version == self._version and (version or not noted):
                return ""
            data = self._path.read_bytes() if version else b""
            # A last line without its end is still being written.
            lines = data.split(b"\n")[:-1]
            marks = list(filter(None, map(_mark, lines)))
            self.paths = {mark.path: mark for mark in marks}
            self.contents = {mark.sha256: mark for mark in marks if mark.sha256}
            self._version, self._lines = version, len(lines)
            damaged, lost_bytes = len(lines) - len(marks), noted - len(data)
            if not damaged and lost_bytes <= 0:
                return ""
            with durable.locked(self._path.parent):
                if self._version_now() != version:  # another kode was faster
                    return ""
                what = f"its last {lost_bytes} bytes are lost."
                if damaged:
                    aside = durable.set_aside(self._path).name
                    what = f"{damaged} of its lines could not be read. It is kept as {aside}."
                self._replace(self._marks())
        return (
            f"{self._path} was damaged: {what} Files they were about now count as the project's "
            "own, though they may hold text from outside."
        )

    def _version_now(self) -> tuple[int, ...]:
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            return ()
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns

    def append(self, marks: Sequence[Mark]) -> None:
        """Raises: StorageError, BusyError."""
        with (
            self._lock,
            durable.locked(self._path.parent),
            durable.storage_errors(self._path, "append to"),
        ):
            with durable.open_for_append(self._path) as file:
                durable.append_to(file, b"\n".join(map(_line, marks)), self._path)
            self.read()
            counting = self._marks()
            if self._lines < min(len(counting), MAX_MARKS) + SPARE_LINES:
                return
            # Without an approval a person is asked once more; without a mark, never again: so those
            # that count longest are the marks of what lies there as it was written.
            worth = [
                (
                    bool(mark.source),
                    self.content(mark.path, {mark.size}) == (mark.size, mark.sha256),
                )
                for mark in counting
            ]
            best = sorted(range(len(counting)), key=lambda at: (*worth[at], at))[-MAX_MARKS:]
            self._replace(counting[at] for at in sorted(best))

    def _marks(self) -> list[Mark]:
        """Those that count, in their order by content and by path."""
        marks = (*self.contents.values(), *self.paths.values())
        return list({id(mark): mark for mark in marks}.values())

    def _replace(self, marks: Iterable[Mark]) -> None:
        """Call with the folder's lock held."""
        data = b"".join(_line(mark) + b"\n" for mark in marks)
        durable.note_length(self._path, len(data))  # before: a shorter file would have lost its end
        durable.replace(self._path, data)
        self.read()


@lru_cache(maxsize=8)
def record_of(home: Path) -> Record:
    """The record of a `$KODE_HOME`, as last read."""
    return Record(home)


class Provenance:
    """The record as one session sees it."""

    def __init__(
        self, *, home: Path, folders: Sequence[Path], source: Callable[[], str], emit: Emit
    ) -> None:
        """`folders` are the working folders, the working directory first; `source` returns what
        outside text this session has read, "" if none."""
        self._record = record_of(home)
        self._folders = tuple(real_path(folder).rstrip("/") + "/" for folder in folders)
        self._source = source
        self._emit = emit
        self._loaded: dict[str, tuple[str, str]] = {}
        """Real path → SHA-256 and text of the instructions that this session began with."""
        self._marked_here: set[str] = set()
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
            marks = (self._mark(path, source) for path in dict.fromkeys(map(real_path, changed)))
            if new := list(filter(None, marks)):
                self._record.append(new)
        except StorageError as error:
            self._emit(
                Notice(
                    text=f"{error} It could not be noted that this session, which has read text "
                    "from outside, changed files: later sessions will take them for the project's.",
                    level="error",
                )
            )

    def _mark(self, path: str, source: str) -> Mark | None:
        """None where the record needs none: the file is gone, empty, restored, approved, or marked
        already. Raises: StorageError."""
        content = self._record.content_now(path)
        if content is None:
            return None
        size, sha256 = content
        before, text = self._loaded.get(path, ("", ""))
        of_content, of_path = self._record.contents.get(sha256), self._record.paths.get(path)
        if (before and sha256 == before) or (of_content and not of_content.source):
            return None
        self._marked_here.add(sha256)
        is_marked = of_path is not None and bool(of_path.source)
        if text and not is_marked:
            self._record.keep_before(path, text)
        if is_marked and (not sha256 or of_content is not None):
            return None
        return Mark(path=path, sha256=sha256, size=size, source=source)

    def find_source(self, read: Iterable[str] | None) -> str:
        """The source to name for a read of these files, or folders with all their files, if one
        still holds what a marked session wrote; "" otherwise. None: anything in the working
        folders. In a folder a file counts where it was written, not where it was moved."""
        try:
            self._read()
        except StorageError as error:
            self._emit(Notice(text=str(error), level="error"))
        contents = self._record.contents
        sizes = {mark.size for mark in contents.values()}
        for path in self._candidates(read) if contents else ():
            content = self._record.content(path, sizes)
            mark = contents.get(content[1]) if content else None
            if mark is not None and mark.source and mark.sha256 not in self._marked_here:
                folder = next((f for f in self._folders if path.startswith(f)), "")
                name = path.removeprefix(folder)
                return f"{name}, written in a session that read outside text ({mark.source})"
        return ""

    def _read(self) -> None:
        """Raises: StorageError."""
        if damage := self._record.read():
            self._emit(Notice(text=damage))

    def _candidates(self, read: Iterable[str] | None) -> Iterator[str]:
        for path in self._folders if read is None else map(real_path, read):
            if os.path.isdir(path):
                inside = path.rstrip("/") + "/"
                yield from (other for other in list(self._record.paths) if other.startswith(inside))
            else:
                yield path


def _digest(path: str) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    digest, left = hashlib.sha256(), HASHED_BYTES
    with os.fdopen(descriptor, "rb") as file:
        while left > 0 and (piece := file.read(min(left, 1 << 20))):
            digest.update(piece)
            left -= len(piece)
    return digest.hexdigest()


def _line(mark: Mark) -> bytes:
    return durable.seal(dumps(asdict(mark)).encode())


def _mark(line: bytes) -> Mark | None:
    """None for a damaged line."""
    match object_of(line) if durable.is_intact(line) else None:
        case {"path": str(path), "sha256": str(sha256), "source": str(source), "size": int(size)}:
            return Mark(path=path, sha256=sha256, source=source, size=size)
    return None
