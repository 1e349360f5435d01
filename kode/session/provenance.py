"""Records which files hold text written by sessions that had read outside text.

A later session would take such text for the project's own words. So one file of JSON lines, shared
by all sessions of `$KODE_HOME`, has path and hash of such files, and what a person approved. By its
hash a mark follows a copy, a rename, a commit and a checkout. A session that reads marked content
has read outside text too. What is loaded unasked (instructions, skills, hooks) is also marked by
its path, so that an edit does not lift the mark: only a person does."""

import contextlib
import hashlib
import json
import os
import stat
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from kode import durable, paths
from kode.broken_json import object_of
from kode.credentials import redact
from kode.errors import StorageError
from kode.events import Emit, Notice
from kode.values import Value, asdict, replace

MAX_MARKS, SPARE_MARKS = 5_000, 500
"""Above their sum only `MAX_MARKS` stay: approvals go first, then changed and lost files."""
HASHED_BYTES = 16 * 1024 * 1024  # of a longer file only the beginning is hashed
MAX_SOURCE_CHARS = 300  # a URL or path that can be recognized


class Mark(Value):
    path: str
    """The real path."""
    sha256: str
    """Of the content; "" for a folder that was made with all that is in it."""
    source: str
    """The outside text that the session had read; "" where a person approved the content."""


class MarksFile:
    """The file of all marks of a `$KODE_HOME`; other processes may add to it at any time. The last
    line about a content, and the last about a path, count."""

    def __init__(self, home: Path) -> None:
        self._path = paths.marks_file(home)
        self._lock = threading.RLock()
        self._data, self._damaged = b"", 0
        self._marks: list[Mark] = []  # those of all lines, in order
        self.contents: dict[str, Mark] = {}
        self.paths: dict[str, Mark] = {}

    def source(self, path: str | Path) -> str:
        """The outside text that had been read by the session that wrote this file, or one with the
        same content; "" if there is none, or a person approved the content."""
        real = paths.real_path(path)
        sha256 = hash_content(real) if self.paths else ""
        if not sha256:
            return ""
        above = (self.paths.get(str(folder)) for folder in Path(real).parents)
        folder_mark = next((mark for mark in above if mark and not mark.sha256), None)
        mark = self.contents.get(sha256) or self.paths.get(real) or folder_mark
        return mark.source if mark else ""

    def approve(self, approved: Iterable[tuple[str, str]]) -> None:
        """Lifts the marks of paths and contents (SHA-256). Raises: StorageError, BusyError."""
        lifted = [Mark(path=path, sha256=sha, source="") for path, sha in approved]
        if lifted:
            self.add(lifted)
        for mark in lifted:
            durable.remove(self._copy_of(mark.path))

    def withdraw(self, path: str) -> None:
        """Withdraws an approval: marks the path again. Raises: StorageError, BusyError."""
        self.read()
        if (last := self.paths.get(path)) and not last.source:
            self.add([replace(last, source="its approval was withdrawn")])

    def text_before(self, path: str) -> str | None:
        """The text of a path before a session with outside text first changed it, if any."""
        with contextlib.suppress(OSError):
            return self._copy_of(path).read_bytes().decode("utf-8", "replace")
        return None

    def keep_before(self, path: str, text: str) -> None:
        """Stores the text that a path had when it was last loaded. Raises: StorageError."""
        copy = self._copy_of(path)
        durable.make_folder(copy.parent)
        durable.replace_file(copy, text.encode("utf-8", "replace"))

    def _copy_of(self, path: str) -> Path:
        return self._path.parent / "before" / paths.path_hash(Path(path))

    def read(self) -> str:
        """Reads the file if it has changed. If it is damaged, sets it aside, keeps intact marks and
        returns a sentence about it. Raises: StorageError, BusyError."""
        return self.add(()) if self._load() else ""

    def add(self, marks: Sequence[Mark]) -> str:
        """Adds marks; repairs and reports like `read`. Raises: StorageError, BusyError."""
        with self._lock, durable.hold_lock(self._path.parent):
            problem = ""
            if damaged := self._load():
                aside = durable.set_aside(self._path, self._data).name
                problem = (
                    f"{self._path} was damaged: {damaged} of its lines could not be read. It is "
                    f"kept as {aside}. Files they were about now count as the project's own."
                )
            counting, seen = list[Mark](), {""}
            for mark in reversed([*self._marks, *marks]):
                if not {mark.path, mark.sha256} <= seen:
                    counting.insert(0, mark)
                seen |= {mark.path, mark.sha256}
            if len(counting) > MAX_MARKS + SPARE_MARKS:
                best = set(sorted(counting, key=_mark_rank)[-MAX_MARKS:])
                counting = [mark for mark in counting if mark in best]
            lines = (durable.seal(json.dumps(asdict(mark)).encode()) for mark in counting)
            durable.replace_file(self._path, b"".join(line + b"\n" for line in lines))
            self._load()
        return problem

    def _load(self) -> int:
        """Reads the file if it has changed; returns how many lines are damaged. Raises:
        StorageError."""
        data = b""
        with self._lock, durable.storage_errors(self._path, "read"):
            with contextlib.suppress(FileNotFoundError):
                data = self._path.read_bytes()
            if data != self._data:
                lines = data.splitlines()
                self._data, self._marks = data, list(filter(None, map(_parse_mark, lines)))
                self._damaged = len(lines) - len(self._marks)
                self.paths = {mark.path: mark for mark in self._marks}
                self.contents = {mark.sha256: mark for mark in self._marks if mark.sha256}
            return self._damaged


@lru_cache(maxsize=8)
def marks_file(home: Path) -> MarksFile:
    """The record of a `$KODE_HOME`, as last read."""
    return MarksFile(home)


class Provenance:
    """The record as one session sees it."""

    def __init__(
        self, *, home: Path, folders: Sequence[Path], source: Callable[[], str], emit: Emit
    ) -> None:
        """`folders` are the working folders, the working directory first; `source` returns what
        outside text this session has read, "" if none."""
        self._record = marks_file(home)
        self._folders = tuple(paths.real_path(folder).rstrip("/") + "/" for folder in folders)
        self._source, self._emit = source, emit
        self._loaded: dict[str, tuple[str, str]] = {}
        """Real path → SHA-256 and text of the instructions that this session began with."""
        self._written = set[str]()  # contents marked by this process: no news to its session

    def keep_loaded(self, path: str, text: str, sha256: str) -> None:
        """Remembers the text of a file that this session loaded as instructions: restoring it needs
        no mark, and other text in its place is shown as a change to it."""
        self._loaded[paths.real_path(path)] = sha256, text

    def record(self, changed: Iterable[str], source: str = "") -> None:
        """Records the current content of files that this session changed. Does nothing unless it
        has read outside text; `source` names what it read along with this change. A disk error is
        reported, not raised: the files are changed already."""
        source = redact(source or self._source())[:MAX_SOURCE_CHARS]
        if not source:
            return
        try:
            if damage := self._record.read():
                self._emit(Notice(text=damage))
            marks = (
                self._mark(path, source) for path in dict.fromkeys(map(paths.real_path, changed))
            )
            if new := list(filter(None, marks)):
                self._record.add(new)
        except StorageError as error:
            what = "Files that this session changed after it read text from outside are not marked"
            text = f"{error} {what}: later sessions will take them for the project's."
            self._emit(Notice(text=text, level="error"))

    def _mark(self, path: str, source: str) -> Mark | None:
        """The mark that a file needs; None if it is gone, empty, restored, approved, or marked
        already. Raises: StorageError."""
        with durable.storage_errors(Path(path), "read"):
            is_folder = os.path.isdir(path) and bool(os.listdir(path))
        sha256 = hash_content(path)
        if not sha256 and not is_folder:
            return None
        before, text = self._loaded.get(path, (None, ""))
        of_content, of_path = self._record.contents.get(sha256), self._record.paths.get(path)
        if sha256 == before or (of_content and not of_content.source):
            return None
        self._written.add(sha256)
        is_marked = of_path is not None and bool(of_path.source)
        if text and not is_marked:
            self._record.keep_before(path, text)
        is_known = is_marked and (is_folder or of_content)
        return None if is_known else Mark(path=path, sha256=sha256, source=source)

    def find_source(self, read: Iterable[str] | None) -> str:
        """The source to name for reading these paths; "" if none is marked. See `find_marked`."""
        return next(iter(self.find_marked(read).values()), "")

    def find_marked(self, read: Iterable[str] | None = None) -> dict[str, str]:
        """Finds which of these files, and of the files in these folders (None: the working ones),
        hold content that another process marked; returns each with the source to name. In a folder,
        a file is found only where it was written, not where it was moved."""
        try:
            if damage := self._record.read():
                self._emit(Notice(text=damage))
        except StorageError as error:
            self._emit(Notice(text=str(error), level="error"))
        contents, marked = self._record.contents, dict[str, str]()
        if not contents:
            return marked
        places = self._folders if read is None else tuple(map(paths.real_path, read))
        inside = tuple(path.rstrip("/") + "/" for path in places if os.path.isdir(path))
        written = (path for path in self._record.paths if path.startswith(inside))
        for path in (*written, *places):
            mark = contents.get(hash_content(path))
            if mark is not None and mark.source and mark.sha256 not in self._written:
                name = next((path[len(f) :] for f in self._folders if path.startswith(f)), path)
                written_by = f"written in a session that read outside text ({mark.source})"
                marked[path] = f"{name}, {written_by}"
        return marked


def hash_content(path: str) -> str:
    """The SHA-256 of a regular file; "" if there is none, or nothing in it."""
    with contextlib.suppress(OSError):
        status = os.lstat(path)
        if stat.S_ISREG(status.st_mode):
            # A change of the content changes the last of these, which nobody can set.
            return _hash(path, status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns)
    return ""


@lru_cache(maxsize=MAX_MARKS + SPARE_MARKS)
def _hash(path: str, *_: int) -> str:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags), "rb") as file:
        data = file.read(HASHED_BYTES)
    return hashlib.sha256(data).hexdigest() if data else ""


def _mark_rank(mark: Mark) -> tuple[bool, bool]:
    """The sort key of a mark, least important first. A lost approval only asks the person again, a
    lost mark is lost for good: so marks of unchanged files last longest."""
    return bool(mark.source), hash_content(mark.path) == mark.sha256


def _parse_mark(line: bytes) -> Mark | None:
    """The mark in a line; None if the line is damaged."""
    match object_of(line) if durable.is_intact(line) else None:
        case {"path": str(path), "sha256": str(sha256), "source": str(source)}:
            return Mark(path=path, sha256=sha256, source=source)
    return None
