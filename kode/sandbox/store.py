"""Where the layers of one process lie, and that what a killed one left there goes."""

import contextlib
import fcntl
import os
import secrets
import shutil
import stat
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Store:
    """A folder for the layers of one process; the lock says that it is in use."""

    folder: Path
    lock: int

    def close(self) -> None:
        remove_tree(self.folder)
        os.close(self.lock)


def open_store(parents: Iterable[Path]) -> Store | None:
    """A store below the first of `parents` that can be written; None when none can. What a killed
    process left there is removed."""
    for parent in parents:
        with contextlib.suppress(OSError):
            parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if _is_private(parent):
                with _alone_in(parent):
                    _remove_abandoned(parent)
                    folder = parent / f"layers-{secrets.token_hex(6)}"
                    folder.mkdir(mode=0o700)
                    return Store(folder=folder, lock=_lock(folder, fcntl.LOCK_EX))
    return None


@contextlib.contextmanager
def _alone_in(parent: Path) -> Iterator[None]:
    """Keeps others from taking a folder for abandoned before it is locked."""
    lock = _lock(parent, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(lock)


def _lock(folder: Path, how: int) -> int:
    """Raises: OSError, when `how` says not to wait."""
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, how)
    except OSError:
        os.close(lock)
        raise
    return lock


def _is_private(folder: Path) -> bool:
    """Whether nobody else can put anything there: in a temporary folder, the name may be taken."""
    status = os.lstat(folder)
    mine = status.st_uid == os.geteuid() and stat.S_ISDIR(status.st_mode)
    return mine and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _remove_abandoned(parent: Path) -> None:
    for folder in parent.glob("layers-*"):
        with contextlib.suppress(OSError):
            lock = _lock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_tree(folder)
            os.close(lock)


def remove_tree(folder: Path) -> None:
    """Never raises; what cannot be removed stays."""
    try:
        with contextlib.suppress(OSError):
            _give_rights(folder)
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:
        for words in (("chmod", "-R", "u+rwx"), ("rm", "-rf")):
            subprocess.run([*words, "--", str(folder)], capture_output=True, check=False)


def _give_rights(folder: Path) -> None:
    """The kernel's own folders, and those of a command, may let nobody in."""
    let_in(folder)
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _give_rights(Path(entry.path))


def let_in(folder: Path) -> None:
    mode = stat.S_IMODE(os.lstat(folder).st_mode)
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        os.chmod(folder, mode | stat.S_IRWXU)
