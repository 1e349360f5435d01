"""Contents saved for undo, each in a file named by its SHA-256, with size limits: the oldest are
deleted first.

A state says what is at a path: None for nothing, the SHA-256 of a file's bytes, `link:TARGET` for a
symbolic link, or a word for what is not saved.
"""

import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from kode import beneath, durable, paths
from kode.errors import StorageError
from kode.values import dataclass, field

State = str | None
"""What is at a path; see above."""

TOO_LARGE = "too-large"
FOLDER = "folder"
OTHER = "other"  # a device, a socket, or an unreadable file
FILTERED = "filtered"
LINK = "link:"

WHY_NOT_SAVED: Mapping[State, str] = {
    TOO_LARGE: "it is too large to save",
    OTHER: "it is not a file that can be saved",
    FILTERED: "git stores it through a program of the repository, which kode does not run",
}

MEGABYTE = 1024 * 1024  # bytes
_DIGEST = re.compile(r"[0-9a-f]{64}")


def is_digest(state: State) -> bool:
    """Whether a state is the hash of a file's bytes."""
    return state is not None and _DIGEST.fullmatch(state) is not None


class Seen(NamedTuple):
    """What is at a path at one moment."""

    state: State
    mode: int = 0o644

    @property
    def has_content(self) -> bool:
        """Whether it is a file or a link that can be saved."""
        return is_digest(self.state) or (self.state or "").startswith(LINK)


@dataclass
class Contents:
    """The saved contents of one session. `folder` is created on first use."""

    folder: Path
    max_file_bytes: int
    """Larger files are not saved."""
    max_bytes: int
    """Limit for all contents of the session; the oldest are deleted first."""
    _total_bytes: int | None = field(default=None, init=False)
    """The size of all contents, as far as this object knows; None before the first is saved."""

    def read_state(self, path: str) -> Seen:
        """What is there now: nothing if the path leads through a link, `OTHER` if unreadable."""
        return self.read_with_data(path)[0]

    def read_with_data(self, path: str, limit: int | None = None) -> tuple[Seen, bytes]:
        """Also returns the bytes of a file of at most `limit` bytes; reads no pipe or device."""
        limit = self.max_file_bytes if limit is None else limit
        folder = os.path.dirname(path)
        try:
            if paths.real_path(folder) != folder:
                return Seen(None), b""
            status = os.lstat(path)
            mode = stat.S_IMODE(status.st_mode)
            if stat.S_ISLNK(status.st_mode):
                return Seen(LINK + os.readlink(path)), b""
            if not stat.S_ISREG(status.st_mode):
                return Seen(FOLDER if stat.S_ISDIR(status.st_mode) else OTHER, mode), b""
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with os.fdopen(os.open(path, flags), "rb") as file:
                data = b"" if status.st_size > limit else file.read(limit + 1)
        except (FileNotFoundError, NotADirectoryError):
            return Seen(None), b""
        except OSError:
            return Seen(OTHER), b""
        if max(status.st_size, len(data)) > limit:  # it may have grown meanwhile
            return Seen(TOO_LARGE, mode), b""
        return Seen(hashlib.sha256(data).hexdigest(), mode), data

    def save(self, paths: Iterable[str], *, max_file_bytes: int | None = None) -> dict[str, Seen]:
        """Saves what is at these paths now, durably; deletes the oldest contents above `max_bytes`.
        Raises: StorageError if anything that can be read could not be saved."""

        def save(path: str) -> tuple[str, Seen, int]:
            seen, data = self.read_with_data(path, max_file_bytes)
            size = self._store_data(str(seen.state), data) if is_digest(seen.state) else 0
            return path, seen, size

        saved = durable.map_in_threads(save, paths)
        if self.folder.is_dir():
            with durable.storage_errors(self.folder, "make durable"):
                durable.sync_folder(self.folder)
            # The folder is looked through only at first, and when it is full.
            total = (self._total_bytes or 0) + sum(size for *_, size in saved)
            if self._total_bytes is None or total > self.max_bytes:
                total = drop_oldest([self.folder], self.max_bytes)
            self._total_bytes = total
        return {path: seen for path, seen, _ in saved}

    def read_saved(self, state: State) -> bytes | None:
        """The bytes of a saved file; None if missing or damaged."""
        if state is not None and is_digest(state):
            with contextlib.suppress(OSError):
                data = (self.folder / state).read_bytes()
                return data if hashlib.sha256(data).hexdigest() == state else None
        return None

    def explain_unrestorable(self, state: State) -> str:
        """Why this state cannot be restored; "" if it can. Sets a damaged content aside, so that it
        can be saved again. Never raises."""
        if not is_digest(state) or self.read_saved(state) is not None:
            return WHY_NOT_SAVED.get(state, "")
        with contextlib.suppress(StorageError):  # it is no longer there
            durable.set_aside(self.folder / str(state))
        aside = next(iter(self.folder.glob(f"{state}.damaged-*")), None)
        if aside is None:
            return "its old content is no longer saved (oldest deleted first)"
        return f"its old content was damaged on the disk (what is left: {aside})"

    def check(self, *, repair: bool) -> list[str]:
        """A sentence for each damaged content; `repair` sets it aside. Raises: StorageError."""
        faults = []
        for _, _, path in _list_saved(self.folder):
            if self.read_saved(path.name) is None:
                aside = f" It is kept as {durable.set_aside(path).name}." if repair else ""
                faults.append(f"{path}, a content kept for undo, is damaged.{aside}")
        return faults

    def restore(self, path: Path, state: State, mode: int) -> None:
        """Restores a path, which must contain no link, to this state; the caller syncs its folder.
        Raises: StorageError if its content is no longer saved; OSError."""
        data = self.read_saved(state)
        if is_digest(state) and data is None:
            raise StorageError(self.explain_unrestorable(state))
        # A missing folder belongs to the project: it gets the mode that the person's would have.
        make = None if state is None else beneath.folder_mode
        with beneath.open_folder(path.parent, make=make) as folder:
            status = beneath.stat_entry(folder, path.name)
            is_folder = status is not None and stat.S_ISDIR(status.st_mode)
            if is_folder and state != FOLDER:
                os.rmdir(path.name, dir_fd=folder)
            elif status is not None and not is_folder and state in (None, FOLDER):
                os.unlink(path.name, dir_fd=folder)
            if state == FOLDER:
                if not is_folder:
                    os.mkdir(path.name, dir_fd=folder)
                beneath.set_mode(folder, path.name, mode)
            elif state is not None and data is None:
                beneath.make_link(state.removeprefix(LINK), folder, path.name)
        if data is not None:
            durable.replace_content(path, data, mode=mode, sync_name=False)

    def _store_data(self, state: str, data: bytes) -> int:
        """Stores a content, if it is new; returns the bytes added. Raises: StorageError."""
        durable.make_folder(self.folder)
        path = self.folder / state
        with contextlib.suppress(OSError):
            if path.read_bytes() == data:
                os.utime(path)  # used again, so no longer among the oldest
                return 0
        durable.replace_file(path, data, sync_name=False)
        return len(data)


def drop_oldest(folders: list[Path], max_bytes: int) -> int:
    """Deletes the oldest contents of these folders down to nine tenths of `max_bytes`, if they hold
    more than that. Returns how many bytes they hold in the end."""
    saved = [entry for folder in folders for entry in _list_saved(folder)]
    total = sum(size for _, size, _ in saved)
    for _, size, path in sorted(saved) if total > max_bytes else ():
        if total > max_bytes * 9 // 10:
            with contextlib.suppress(OSError):
                path.unlink()
                total -= size
    return total


def drop_oldest_of_all(home: Path, max_bytes: int) -> None:
    """Applies `drop_oldest` to the contents of all sessions together."""
    sessions = paths.sessions_folder(home).glob("*/")
    drop_oldest([paths.undo_folder(session) / "contents" for session in sessions], max_bytes)


def _list_saved(folder: Path) -> Iterator[tuple[int, int, Path]]:
    """(time of last use in ns, size, path) of each saved content."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if is_digest(entry.name):
                    yield status.st_mtime_ns, status.st_size, Path(entry.path)
