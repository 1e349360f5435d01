"""Contents kept for undo, each in a file named by its SHA-256, with size limits: the oldest are
deleted first.

A state says what is at a path: None for nothing, the SHA-256 of a file's bytes, `link:TARGET` for a
symbolic link, or a word for what is not kept. `checkpoints` decides when to keep something and what
for.
"""

import contextlib
import errno
import hashlib
import os
import re
import stat
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from kode import beneath, durable, paths
from kode.errors import StorageError

State = str | None
"""What is at a path; see above."""

TOO_LARGE = "too-large"
FOLDER = "folder"
OTHER = "other"
"""A device, a socket, or an unreadable file."""
LINK = "link:"

MEGABYTE = 1024 * 1024  # bytes
_DIGEST = re.compile(r"[0-9a-f]{64}")


def is_digest(state: State) -> bool:
    """Whether a state is the hash of a file's bytes."""
    return state is not None and _DIGEST.fullmatch(state) is not None


@dataclass(frozen=True, kw_only=True)
class Seen:
    """The state of a path at one moment."""

    state: State
    mode: int = 0o644
    size_bytes: int = 0
    data: bytes = b""
    """The file's bytes; b"" unless requested."""

    @property
    def is_file(self) -> bool:
        """Whether it is a file that can be kept."""
        return is_digest(self.state)

    @property
    def can_be_kept(self) -> bool:
        return self.state not in (TOO_LARGE, FOLDER, OTHER)


@dataclass
class Contents:
    """The kept contents of one session. `folder` is created on first use."""

    folder: Path
    max_file_bytes: int
    """Larger files are not kept."""
    max_bytes: int
    """Limit for all contents of the session; the oldest are deleted first."""
    held_bytes: int | None = None
    """Size of the folder; counted once, then updated."""
    _counting: threading.Lock = field(default_factory=threading.Lock)

    def see(self, path: Path) -> Seen:
        """The current state, without keeping it. Never raises: an unreadable path is `OTHER`."""
        try:
            return self._look(path)
        except OSError:
            return Seen(state=OTHER)

    def keep(self, path: Path) -> Seen:
        """Keeps the current state, durably. Raises: StorageError if it cannot be read or kept."""
        return self._keep(path, sync_name=True)

    def keep_all(self, paths: Iterable[str]) -> dict[str, Seen | StorageError]:
        """The same for many, in a fraction of the time; all are durable when it returns. `data` of
        what was seen is empty. Raises: StorageError when nothing can be kept."""

        def keep(path: str) -> tuple[str, Seen | StorageError]:
            try:
                return path, replace(self._keep(Path(path), sync_name=False), data=b"")
            except StorageError as error:
                return path, error

        found = dict(durable.for_each(keep, paths))
        if self.folder.is_dir():
            with durable.storage_errors(self.folder, "make durable"):
                durable.sync_folder(self.folder)
        return found

    def data(self, state: str) -> bytes | None:
        """The bytes of a kept file; None if missing or damaged."""
        if not is_digest(state):
            return None
        try:
            data = (self.folder / state).read_bytes()
        except OSError:
            return None
        return data if hashlib.sha256(data).hexdigest() == state else None

    def why_missing(self, state: str) -> str:
        """Why a content that was kept has no `data`. What is left of a damaged one is set aside,
        so that the content can be kept again. Never raises."""
        with contextlib.suppress(StorageError):
            if (self.folder / state).exists():
                durable.set_aside(self.folder / state)
        aside = next(iter(self.folder.glob(f"{state}.damaged-*")), None)
        if aside is None:
            return "its old content is no longer saved (oldest deleted first)"
        return f"its old content was damaged on the disk (what is left: {aside})"

    def damaged(self) -> Iterator[Path]:
        """The kept contents that are not what was kept; reads all."""
        for _, _, path in _kept_in(self.folder):
            if self.data(path.name) is None:
                yield path

    def restore(self, path: Path, state: State, mode: int, *, sync_name: bool = True) -> None:
        """Restores a path, which must contain no link, to this state; `sync_name`: see
        `durable.replace`. Raises: StorageError if its content is no longer kept; OSError."""
        if state is None:
            _remove(path, sync_name=sync_name)
            return
        # The folders belong to the project: use the modes that a person's would have.
        with beneath.open_folder(path.parent, make=beneath.usual_mode) as folder:
            found = beneath.status(folder, path.name)
            is_folder = found is not None and stat.S_ISDIR(found.st_mode)
            if is_folder and state != FOLDER:
                _remove_if_empty(folder, path.name)
            if state == FOLDER:
                if found is not None and not is_folder:
                    os.unlink(path.name, dir_fd=folder)
                with beneath.open_below(folder, [path.name], make=beneath.usual_mode) as made:
                    os.fchmod(made, mode)
                return
            if state.startswith(LINK):
                beneath.link_in(state.removeprefix(LINK), folder, path.name)
                return
        data = self.data(state)
        if data is None:
            raise StorageError(self.why_missing(state))
        durable.replace(path, data, mode=mode, follow=False, sync_name=sync_name)

    def put(self, data: bytes) -> str:
        """Keeps bytes that are in no file; returns their state. Raises: StorageError."""
        digest = hashlib.sha256(data).hexdigest()
        self._put(digest, data, sync_name=True)
        return digest

    def _keep(self, path: Path, *, sync_name: bool) -> Seen:
        with durable.storage_errors(path, "read"):
            seen = self._look(path)
        if is_digest(seen.state):
            assert seen.state is not None
            self._put(seen.state, seen.data, sync_name=sync_name)
        return seen

    def _look(self, path: Path) -> Seen:
        """Never blocks: a pipe or a device is not read."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(path, flags)
        except (FileNotFoundError, NotADirectoryError):
            return Seen(state=None)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EMLINK) and path.is_symlink():
                return Seen(state=LINK + os.readlink(path))
            if error.errno == errno.ENXIO:
                return Seen(state=OTHER)
            raise
        status = os.fstat(descriptor)
        mode = status.st_mode & 0o7777
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            return Seen(state=FOLDER if stat.S_ISDIR(status.st_mode) else OTHER, mode=mode)
        with os.fdopen(descriptor, "rb") as file:
            if status.st_size > self.max_file_bytes:
                return Seen(state=TOO_LARGE, mode=mode, size_bytes=status.st_size)
            data = file.read(self.max_file_bytes + 1)
        if len(data) > self.max_file_bytes:  # it grew meanwhile
            return Seen(state=TOO_LARGE, mode=mode, size_bytes=len(data))
        digest = hashlib.sha256(data).hexdigest()
        return Seen(state=digest, mode=mode, size_bytes=len(data), data=data)

    def _put(self, digest: str, data: bytes, *, sync_name: bool) -> None:
        durable.make_folder(self.folder)
        path = self.folder / digest
        with contextlib.suppress(OSError):
            if path.stat().st_size == len(data) and path.read_bytes() == data:
                os.utime(path)  # used again, so no longer among the oldest
                return
        durable.replace(path, data, sync_name=sync_name)
        with self._counting:
            if self.held_bytes is None:
                self.held_bytes = sum(size for _, size, _ in _kept_in(self.folder))
            else:
                self.held_bytes += len(data)
            if self.held_bytes > self.max_bytes:
                self.held_bytes = drop_oldest([self.folder], self.max_bytes, spare=path)


def _remove_if_empty(folder: int, name: str) -> None:
    """Removes a folder that holds nothing but folders. Raises: OSError."""
    with beneath.open_below(folder, [name]) as inner:
        for one in os.listdir(inner):
            if stat.S_ISDIR(os.lstat(one, dir_fd=inner).st_mode):
                _remove_if_empty(inner, one)
    os.rmdir(name, dir_fd=folder)


def _remove(path: Path, *, sync_name: bool) -> None:
    """Deletes a file, unless a link has come into its path; a missing one is not an error. Raises:
    StorageError."""
    with (
        durable.storage_errors(path, "delete"),
        contextlib.suppress(FileNotFoundError, NotADirectoryError),
        durable.open_folder(path.parent) as folder,
    ):
        os.unlink(path.name, dir_fd=folder)
        if sync_name:
            os.fsync(folder)


def drop_oldest(folders: list[Path], max_bytes: int, *, spare: Path | None = None) -> int:
    """Deletes the oldest contents of these folders down to nine tenths of `max_bytes`, if they hold
    more than that; returns their size."""
    kept = sorted(entry for folder in folders for entry in _kept_in(folder))
    held = sum(size for _, size, _ in kept)
    if held <= max_bytes:
        return held
    for _, size, path in kept:
        if held <= max_bytes * 9 // 10:
            break
        if path != spare:
            with contextlib.suppress(OSError):
                path.unlink()
                held -= size
    return held


def drop_oldest_of_all(home: Path, max_bytes: int) -> int:
    """Does the same over all sessions."""
    sessions = paths.sessions_folder(home).glob("*/")
    return drop_oldest(list(map(paths.checkpoints_folder, sessions)), max_bytes)


def _kept_in(folder: Path) -> Iterator[tuple[int, int, Path]]:
    """(time of last use in ns, size, path) of each kept content."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if is_digest(entry.name):
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    yield status.st_mtime_ns, status.st_size, Path(entry.path)
