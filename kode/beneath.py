"""The one way to files in trees that others change meanwhile: a project, a layer, a scratch copy.

A folder that was looked at can be a link elsewhere when it is used. So a folder is opened component
by component, none of them a link, and everything in it is done relative to its descriptor. All
functions raise OSError; those that open a folder raise `LinkInTheWay` for a link in its path.
"""

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

TEMPORARY_PREFIX = ".kode-tmp-"
"""Prefix of files not yet renamed into place. A leftover of a crash is never read."""

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PASS = _OPEN | getattr(os, "O_PATH", 0)
"""Flags to open a folder that is only passed through, and may be unreadable."""

ModeOf = Callable[[int], int | None]
"""Index of a missing folder among the steps → its exact mode; None: the person's default."""


class LinkInTheWay(OSError):
    """A component of the path is a link."""


LOOKS = 16
"""So many times `real_path` looks at a path that a process keeps changing, before it fails."""


def real_path(path: str | os.PathLike[str]) -> str:
    """The path without links, like `os.path.realpath`, but it tries again if a link became a folder
    meanwhile, for which `realpath` raises. Raises: OSError."""
    for _ in range(LOOKS):
        with contextlib.suppress(OSError):
            return os.path.realpath(path)
    return os.path.realpath(path)


@contextlib.contextmanager
def auto_close(descriptor: int) -> Iterator[int]:
    """Closes a descriptor at the end of the block."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def folder_mode(step: int) -> None:
    """The mode that a person's new folder has."""


def open_folder(path: Path, *, make: ModeOf | None = None) -> AbstractContextManager[int]:
    """Opens a folder by its absolute path; creates it and its parents if `make` is given."""
    return open_below(path.anchor, path.parts[1:], make=make)


@contextlib.contextmanager
def open_below(
    top: int | str, steps: Iterable[str], *, make: ModeOf | None = None
) -> Iterator[int]:
    """Opens a folder by the names that lead to it from an open one or a path. Raises: OSError."""
    folder = os.open(top, _PASS) if isinstance(top, str) else os.dup(top)
    try:
        for place, step in enumerate(steps):
            if step in ("", ".", "..") or "/" in step:
                raise OSError(errno.EINVAL, "not the name of a folder", step)
            below = _enter_or_make(folder, step, place, make)
            os.close(folder)
            folder = below
        below = os.open(".", _OPEN, dir_fd=folder)
        os.close(folder)
        folder = below
        yield folder
    finally:
        os.close(folder)


def _enter_or_make(folder: int, name: str, place: int, make: ModeOf | None) -> int:
    try:
        return os.open(name, _PASS, dir_fd=folder)
    except FileNotFoundError:
        if make is None:
            raise
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o777 if (mode := make(place)) is None else 0o700, dir_fd=folder)
            if mode is not None:
                with auto_close(os.open(name, _OPEN, dir_fd=folder)) as made:
                    # The given bits, and those inherited from the parent folder: a group's.
                    os.fchmod(made, os.fstat(made).st_mode & 0o7000 | mode)
        return _enter_or_make(folder, name, place, None)
    except OSError as error:
        entry = stat_entry(folder, name)
        if entry is not None and stat.S_ISLNK(entry.st_mode):
            raise LinkInTheWay(errno.ELOOP, "a link is in the way", name) from error
        raise


def set_mode(folder: int, name: str, mode: int) -> None:
    """Sets the mode of a folder, even of one that its owner cannot open."""
    with auto_close(os.open(name, _PASS, dir_fd=folder)) as target:
        os.chmod(target if _PASS == _OPEN else f"/proc/self/fd/{target}", mode)


def stat_entry(folder: int, name: str) -> os.stat_result | None:
    """The `lstat` of a name in an open folder; None if there is nothing."""
    try:
        return os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return None


def _copy_over(source: int, name: str, folder: int, to: str) -> None:
    """Replaces the entry `to` of a folder by a copy of a regular file, atomically. Raises: OSError,
    for a pipe or a device too, which reading might wait for."""
    reads = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(name, reads, dir_fd=source), "rb") as file, stage(folder, to) as temporary:
        entry = os.fstat(file.fileno())
        if not stat.S_ISREG(entry.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", name)
        writes = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(temporary, writes, 0o600, dir_fd=folder), "wb") as copy:
            shutil.copyfileobj(file, copy)
            copy.flush()
            os.fchmod(copy.fileno(), stat.S_IMODE(entry.st_mode))
            os.utime(copy.fileno(), ns=(entry.st_atime_ns, entry.st_mtime_ns))


def make_link(target: str, folder: int, to: str) -> None:
    """Puts a symbolic link into a folder, atomically."""
    for is_last in (False, True):
        try:
            with stage(folder, to) as temporary:
                os.symlink(target, temporary, dir_fd=folder)
            return
        except FileNotFoundError:  # a link has no lock, so another kode removed it as a leftover
            if is_last:
                raise


def move_entry(source: int, name: str, folder: int, to: str) -> None:
    """Moves a file or a link from one folder into another, atomically, even across disks."""
    try:
        os.rename(name, to, src_dir_fd=source, dst_dir_fd=folder)
        return
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    entry = os.lstat(name, dir_fd=source)
    if stat.S_ISLNK(entry.st_mode):
        make_link(os.readlink(name, dir_fd=source), folder, to)
    else:
        _copy_over(source, name, folder, to)
    os.unlink(name, dir_fd=source)


def remove_entry(folder: int, name: str) -> None:
    """Removes an entry of a folder, itself a folder or not; a missing one is no error."""
    entry = stat_entry(folder, name)
    if entry is None:
        return
    if stat.S_ISDIR(entry.st_mode):
        shutil.rmtree(name, dir_fd=folder)
    else:
        os.unlink(name, dir_fd=folder)


def remove_tree(path: Path, *, only_empty: bool = False) -> None:
    """Removes the file or the folder with all its content at a path without links; with
    `only_empty`, only an empty folder. A missing one is no error."""
    with contextlib.suppress(OSError if only_empty else FileNotFoundError):
        with open_folder(path.parent) as folder:
            os.rmdir(path.name, dir_fd=folder) if only_empty else remove_entry(folder, path.name)


@contextlib.contextmanager
def stage(folder: int, to: str) -> Iterator[str]:
    """Gives the name of a temporary file to make in a folder. It is renamed to `to` at the end of
    the block, and removed after an OSError."""
    temporary = f"{TEMPORARY_PREFIX}{os.urandom(8).hex()}"
    try:
        yield temporary
        os.rename(temporary, to, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
