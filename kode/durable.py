"""Durable files: once a call returns, what it wrote survives a power cut.

The common idioms do not: a plain write can be torn, a rename without fsync can leave an empty file,
and a rename whose folder was not synced can be undone by a power cut.
Lines of JSON may have a checksum that tells when they have been damaged: the last member of each
object, `sum`, is the CRC-32 of the line without it; whoever edits a line by hand leaves it out. A
file that is one object has its `sum` over all its members, in any layout.
"""

import contextlib
import errno
import fcntl
import json
import os
import re
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar

from kode import beneath
from kode.errors import BusyError, StorageError

_BLOCK_BYTES = 65_536  # larger reads are no faster

One = TypeVar("One")
Result = TypeVar("Result")

_synced: set[Path] = set()
"""Folders whose names this process has already synced."""


def make_folder(folder: Path, *, follow: bool = True) -> None:
    """Creates a folder and its missing parents, mode 0700, each synced in its parent, also if it
    exists: its creator may have been killed before the sync. With `follow=False` a link in the path
    is an error.

    Raises: StorageError.
    """
    real = Path(beneath.real_path(folder)) if follow else folder

    def private_mode(step: int) -> int:
        _synced.difference_update((real, *real.parents))
        return 0o700

    with storage_errors(folder, "create the folder"), beneath.open_folder(real, make=private_mode):
        sync_names(real)


def sync_names(folder: Path) -> None:
    """Syncs the names of a folder and its parents, once per process. Skips folders that belong to
    somebody else or cannot be read: they existed before kode. Raises: StorageError."""
    for path in (folder, *folder.parents):
        if path in _synced:
            return
        with storage_errors(path, "make durable"):
            try:
                if os.stat(path.parent).st_uid == os.geteuid():
                    sync_folder(path.parent)
            except PermissionError:
                pass
        _synced.add(path)


def replace_file(
    path: Path, data: bytes, *, mode: int = 0o600, follow: bool = True, sync_name: bool = True
) -> None:
    """Replaces `path` by a file with exactly `data`, atomically. A symlink is followed, so that the
    link stays.

    With `follow=False` the path must contain no link: one that appears before or during the write
    is an error. With `sync_name=False` the caller must call `sync_folder` before it relies on the
    file: once for many files of a folder.

    Raises: StorageError; then the old file is untouched and nothing is confirmed.
    """
    target = Path(beneath.real_path(path)) if follow else path
    with storage_errors(path, "write"), beneath.open_folder(target.parent) as folder:
        for is_last in (False, True):
            try:
                with contextlib.ExitStack() as lock, beneath.stage(folder, target.name) as name:
                    _write_new(name, data, mode, folder, lock)
                break
            except OSError as error:
                # After a failed fsync the kernel may have dropped the pages: retrying on the same
                # file would succeed without the data. So: one new file, then give up.
                if is_last or error.errno not in (errno.EIO, errno.EAGAIN):
                    raise
        if sync_name:
            os.fsync(folder)


_NO_OTHER_FILE = frozenset({errno.EBUSY, errno.EACCES, errno.EPERM})
"""Errors for a file that cannot be replaced by a rename: it is a mount point, or its folder is not
writable."""


def replace_content(path: Path, data: bytes, *, mode: int, sync_name: bool = True) -> bool:
    """Replaces the content of the file at a path without links: by `replace_file` or, if the file
    cannot be replaced, in place; returns whether in place. Save its old content first: a kill
    during a write in place leaves a mixture of both.

    Raises: StorageError; then the file has its old content.
    """
    try:
        replace_file(path, data, mode=mode, follow=False, sync_name=sync_name)
        return False
    except StorageError as error:
        code = error.__cause__.errno if isinstance(error.__cause__, OSError) else None
        if code not in _NO_OTHER_FILE or not path.is_file():
            raise
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with storage_errors(path, "write"), beneath.open_folder(path.parent) as folder:
        with open(os.open(path.name, flags, dir_fd=folder), "r+b", buffering=0) as file:
            old = file.read()
            try:
                _overwrite(file.fileno(), data)
            except OSError:
                with contextlib.suppress(OSError):
                    _overwrite(file.fileno(), old)
                raise
    return True


def _overwrite(descriptor: int, data: bytes) -> None:
    os.lseek(descriptor, 0, os.SEEK_SET)
    _write_all(descriptor, data)
    os.ftruncate(descriptor, len(data))
    os.fsync(descriptor)


def _write_new(name: str, data: bytes, mode: int, folder: int, lock: contextlib.ExitStack) -> None:
    """Writes a new file and syncs it. The file stays locked until the caller has renamed it and
    closes `lock`: see `remove_stale_temporaries`."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(name, flags, mode, dir_fd=folder)
    lock.callback(os.close, descriptor)
    lock.callback(unlock, descriptor)
    with contextlib.suppress(OSError):  # a file system without locks
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    if os.fstat(descriptor).st_nlink == 0:
        raise OSError(errno.EAGAIN, "another process removed it as stale before it was locked")
    os.fchmod(descriptor, mode)
    _write_all(descriptor, data)
    os.fsync(descriptor)


def append_lines(path: Path, lines: Sequence[bytes]) -> None:
    """Appends lines without their line feeds under a lock with one sync, creating the file (0600)
    if it is missing; a crash may keep only the first ones. A torn last line from a crash is first
    moved to `NAME.torn`, or the new ones would be glued to it.

    Raises: StorageError; then the file ends as it did before.
    """
    with hold_log(path) as file:
        append_line(file, b"\n".join(lines), path)


@contextlib.contextmanager
def hold_log(path: Path) -> Iterator[IO[bytes]]:
    """Opens, creates if missing, and locks a file for `append_line`. Raises: StorageError."""
    with storage_errors(path, "append to"), open_for_append(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield file
        finally:
            unlock(file)


def open_for_append(path: Path) -> IO[bytes]:
    """Opens a file of lines for `append_line`, unbuffered, created 0600 when missing."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    return os.fdopen(descriptor, "r+b", buffering=0)


def append_line(file: IO[bytes], line: bytes, path: Path) -> None:
    """`append_lines` on an open file whose lock the caller holds. A later loss of the file's end is
    found: see `count_lost_bytes`. Raises: StorageError; then the file ends as it did before."""
    descriptor, end = file.fileno(), None
    try:
        end = os.fstat(descriptor).st_size
        if end and os.pread(descriptor, 1, end - 1) != b"\n":
            end = cut_torn_line(file, path)
        if end == 0:
            # Before the first line, so that a file with lines always has a durable name, whichever
            # process was killed when.
            sync_folder(path.parent)
        _write_all(descriptor, line + b"\n")
        os.fsync(descriptor)
    except OSError as error:
        if end is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, end)
        raise make_storage_error(error, path, "append to") from error
    write_length(path, end + len(line) + 1)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def cut_torn_line(file: IO[bytes], path: Path) -> int:
    """Cuts off what follows the last line feed, into `NAME.torn`; returns the new length."""
    descriptor, torn = file.fileno(), next(read_backwards(file))
    end = os.fstat(descriptor).st_size - len(torn)
    if torn:
        aside = path.with_name(path.name + ".torn")
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        with beneath.auto_close(os.open(aside, flags, 0o600)) as saved:
            os.write(saved, torn + b"\n")
            os.fsync(saved)
        os.ftruncate(descriptor, end)
    return end


def read_backwards(file: IO[bytes]) -> Iterator[bytes]:
    """The lines of a file without line feeds, last first. Raises: OSError."""
    position, rest, size = file.seek(0, os.SEEK_END), b"", _BLOCK_BYTES
    while position > 0:
        start = max(0, position - size)
        file.seek(start)
        rest, *lines = (file.read(position - start) + rest).split(b"\n")
        yield from reversed(lines)
        position, size = start, _BLOCK_BYTES if lines else size * 2  # a long line is read once
    yield rest


@contextlib.contextmanager
def hold_lock(folder: Path, *, timeout_s: float = 30.0, follow: bool = True) -> Iterator[None]:
    """Holds a folder's exclusive lock across processes, for a short read-modify-write; creates the
    folder if it is missing. With `follow=False` a link in the path is an error.

    The lock file `.lock` is never deleted: deleting it would let two processes hold two locks. The
    lock dies with its process, however that ends. Never call a model while holding it.

    Raises: BusyError after `timeout_s`; StorageError.
    """
    make_folder(folder, follow=follow)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    with contextlib.ExitStack() as opened:
        with storage_errors(folder / ".lock", "open"):
            real = Path(beneath.real_path(folder)) if follow else folder
            locked_folder = opened.enter_context(beneath.open_folder(real))
            lock = os.open(".lock", flags, 0o600, dir_fd=locked_folder)
        opened.callback(os.close, lock)
        opened.callback(unlock, lock)
        deadline, pause_s = time.monotonic() + timeout_s, 0.001
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            if time.monotonic() > deadline:
                raise busy_error(folder, timeout_s)
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, 0.02)
        with storage_errors(folder, "make durable"):
            # The previous holder may have been killed between a rename and its sync; what is read
            # now, and perhaps confirmed, must not be undone.
            os.fsync(locked_folder)
        yield


def unlock(file: IO[bytes] | int) -> None:
    """Releases the lock of a file that is about to be closed: closing alone would leave it with a
    child process that is starting and holds the file until its exec."""
    with contextlib.suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_UN)


def busy_error(folder: Path, waited_s: float) -> BusyError:
    """The error for a lock that another process holds for too long."""
    return BusyError(
        f"Another kode has held {folder} locked for {waited_s:g} s. "
        "Wait for it to finish, or stop it, and try again."
    )


def set_aside(path: Path, data: bytes | None = None) -> Path:
    """Renames a damaged file to a telling name, overwriting nothing, and returns the new path. With
    `data` the file stays, and these bytes of it are saved under that name.

    Raises: StorageError.
    """
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    aside = path.with_name(f"{path.name}.damaged-{stamp}-{os.urandom(2).hex()}")
    if data is not None:
        replace_file(aside, data)
        return aside
    with storage_errors(path, "set aside"):
        os.rename(path, aside)
        sync_folder(path.parent)
    return aside


def remove_stale_temporaries(folder: Path, *, also_below: bool = False) -> None:
    """Removes half-written files of crashed writers from a folder, or from all below it; those that
    cannot be removed stay. Never raises.

    A living writer holds its file's lock, which dies with the process, so age does not matter and a
    slow writer loses nothing. A link, which cannot be locked, it makes again: `beneath.make_link`.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):  # a link to a folder is among the folders
            if name.startswith(beneath.TEMPORARY_PREFIX):
                path = os.path.join(place, name)
                with contextlib.suppress(OSError), contextlib.ExitStack() as opened:
                    if not os.path.islink(path):
                        descriptor = opened.enter_context(beneath.auto_close(os.open(path, flags)))
                        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(path)
        if not also_below:
            return


def remove(path: Path) -> None:
    """Deletes a file durably; a missing one is not an error. Raises: StorageError."""
    with storage_errors(path, "delete"):
        try:
            os.unlink(path)
        except FileNotFoundError:
            return
        sync_folder(path.parent)


def map_in_threads(do: Callable[[One], Result], many: Iterable[One]) -> list[Result]:
    """Calls `do` for each item, several at the same time, and returns the results in order: syncs
    that wait at the same time share one write of the journal. Raises: the first error of `do` in
    that order; items that were not begun by then are left out."""
    waiting = list(many)
    if len(waiting) < 2:
        return [do(item) for item in waiting]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(max_workers=12) as pool:
        return list(pool.map(do, waiting))


def sync_folder(folder: Path) -> None:
    """Makes names in a folder durable. Raises: OSError."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    with beneath.auto_close(os.open(folder, flags)) as descriptor:
        os.fsync(descriptor)


@contextlib.contextmanager
def storage_errors(path: Path, doing: str) -> Iterator[None]:
    """Turns an OSError into a StorageError that says what to do. Raises: StorageError."""
    try:
        yield
    except OSError as error:
        raise make_storage_error(error, path, doing) from error


def make_storage_error(error: OSError, path: Path, doing: str) -> StorageError:
    """The error for a person: what could not be done with a file, and what to do."""
    denied = "Permission denied: check who owns it, or set KODE_HOME elsewhere."
    is_file = "A part of that path is a file: set KODE_HOME to a folder."
    advice = {
        errno.ENOSPC: "The disk is full: free some space and try again.",
        errno.EDQUOT: "Your disk quota is used up: free some space and try again.",
        errno.EROFS: "The file system is read-only: set KODE_HOME to a folder you can write.",
        errno.EACCES: denied,
        errno.EPERM: denied,
        errno.EEXIST: is_file,
        errno.ENOTDIR: is_file,
        errno.EISDIR: "A folder stands in its place: move it away.",
        errno.EIO: "The disk reported an error: check the disk before you continue.",
    }.get(error.errno or 0, f"The system says: {error.strerror or error}.")
    return StorageError(f"Could not {doing} {path}. {advice}")


_LENGTH = re.compile(rb"(\d{20}) ([0-9a-f]{8})\n")
# A queue from elsewhere may have a link there, or a pipe, which cannot be written at a place.
_NO_LINK = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def write_length(log: Path, size_bytes: int) -> None:
    """Notes how long a log has been, in `NAME.end` beside it, after a sync of the log; the caller
    holds its lock. A log that is shorter now has lost its end. The note itself is not synced: after
    a power cut it may say less than was on disk, never more. Never raises."""
    digits = b"%020d" % size_bytes
    flags = os.O_RDWR | os.O_CREAT | _NO_LINK
    with contextlib.suppress(OSError), open(os.open(f"{log}.end", flags, 0o600), "rb") as file:
        os.pwrite(file.fileno(), b"%s %08x\n" % (digits, zlib.crc32(digits)), 0)


def read_length(log: Path) -> int:
    """The noted length of a log in bytes; 0 if unknown. Read it before the log, to which another
    kode may append."""
    with contextlib.suppress(OSError), open(os.open(f"{log}.end", _NO_LINK), "rb") as file:
        note = _LENGTH.fullmatch(os.pread(file.fileno(), 100, 0))
        return int(note[1]) if note and zlib.crc32(note[1]) == int(note[2], 16) else 0
    return 0


def count_lost_bytes(log: Path) -> int:
    """How many bytes are missing from the end of a log, by its noted length."""
    before = read_length(log)
    try:
        return max(0, before - os.stat(log).st_size)
    except OSError as error:
        return before if isinstance(error, FileNotFoundError) else 0


def remove_length(log: Path) -> None:
    """Removes the noted length of a log that is removed. Never raises."""
    with contextlib.suppress(OSError):
        os.unlink(f"{log}.end")


_SUM = re.compile(rb',"sum":"([0-9a-f]{8})"}\s*$')
"""Its quotes are unescaped, so no string inside the object can match."""


def seal(line: bytes) -> bytes:
    """A line, one JSON object with at least one member, with its checksum."""
    return b'%s,"sum":"%08x"}' % (line[:-1], zlib.crc32(line))


def is_intact(line: bytes) -> bool:
    """Whether a line is as it was sealed; one without a checksum, written by hand, is."""
    match = _SUM.search(line)
    return match is None or zlib.crc32(line[: match.start()] + b"}") == int(match[1], 16)


def seal_object(value: Mapping[str, Any]) -> dict[str, Any]:
    """Adds the checksum to an object that becomes a file."""
    return {**value, "sum": f"{zlib.crc32(json.dumps(value, sort_keys=True).encode()):08x}"}


def unseal_object(value: Mapping[str, Any]) -> dict[str, Any]:
    """The object without its checksum, if it has one. Raises: ValueError if that is wrong."""
    content = {key: item for key, item in value.items() if key != "sum"}
    if "sum" in value and value != seal_object(content):
        raise ValueError("its checksum does not fit")
    return content


class RecordLog:
    """Reads and appends to the log in one file, whose lines are all different. Damaged and repeated
    lines are skipped and counted."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damaged = 0
        """How many lines cannot be read."""
        self.duplicates = 0
        """How many lines repeat an earlier one."""
        self.lost_bytes = 0
        """How many bytes are missing from the end of the file."""
        self._read_to = 0
        self._hashes: set[int] = set()

    def read(self) -> Iterator[bytes]:
        """Yields the lines added since the last call. It leaves what follows the last line feed: it
        is still being written, or was cut off by a crash. Raises: StorageError."""
        noted = read_length(self.path)
        size, data = 0, b""
        with storage_errors(self.path, "read"), contextlib.suppress(FileNotFoundError):
            with self.path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                data = os.pread(file.fileno(), max(0, size - self._read_to), self._read_to)
        self.lost_bytes = max(0, noted - size)
        lines_read = data[: data.rfind(b"\n") + 1]
        self._read_to += len(lines_read)
        for line in lines_read.splitlines():
            if not is_intact(line):
                self.damaged += 1
            elif hash(line) in self._hashes:
                self.duplicates += 1
            else:
                self._hashes.add(hash(line))
                yield line

    @contextlib.contextmanager
    def hold(self) -> Iterator[Callable[[bytes], None]]:
        """Holds the file's lock, creating the file if missing. Gives a function that appends one
        JSON object, without a line feed, durably. Raises: StorageError."""
        with hold_log(self.path) as file:

            def append(line: bytes) -> None:
                lost = count_lost_bytes(self.path)
                # A line without checksum that no reader takes, so that the log counts as damaged.
                loss = [b'{"lost_bytes":%d}' % lost] if lost else []
                append_line(file, b"\n".join([*loss, seal(line)]), self.path)

            yield append
