"""Where the layers of one process lie; cleans up after killed processes."""

import contextlib
import fcntl
import os
import secrets
import shutil
import stat
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kode import beneath, paths
from kode.paths import real_path

_PREFIX = "layers-"


@dataclass(frozen=True, kw_only=True)
class Store:
    """A folder for the layers of one process; its lock says that it is in use."""

    folder: Path
    lock: int

    def close(self) -> None:
        remove_tree(self.folder)
        os.close(self.lock)


def places(home: Path) -> list[Path]:
    """Where stores may lie, the best first, for a kode home."""
    temporary = (Path(real_path(folder)) for folder in ("/tmp", "/dev/shm"))
    return [paths.sandbox_folder(home), *(path / f"kode-{os.getuid()}" for path in temporary)]


def open_store(parents: Iterable[Path]) -> Store | None:
    """Opens a store below the first writable of `parents`; None if there is none. Removes leftovers
    of killed processes."""
    for parent in parents:
        with contextlib.suppress(OSError):
            parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            _remove_abandoned(parent)
            name = secrets.token_hex(6)
            folder = parent / f"new-{name}"
            folder.mkdir(mode=0o700)
            lock = _lock(folder)
            # Under this name it is locked from the first moment.
            return Store(folder=folder.rename(parent / f"{_PREFIX}{name}"), lock=lock)
    return None


def remove_abandoned(parents: Iterable[Path]) -> None:
    """Removes the stores of killed processes below `parents`. Never raises."""
    for parent in parents:
        with contextlib.suppress(OSError):
            _remove_abandoned(parent)


def _remove_abandoned(parent: Path) -> None:
    """Raises: OSError, also where others can write: in a temporary folder, the name may be
    taken."""
    status = os.lstat(parent)
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(parent)
    for folder in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError), beneath.closing(_lock(folder)):
            remove_tree(folder)


def _lock(folder: Path) -> int:
    """Raises: OSError where another process has it, and for what is no folder."""
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise
    return lock


def remove_tree(folder: Path) -> None:
    """Removes a folder. Never raises; what cannot be removed stays."""
    with contextlib.suppress(OSError):
        give_rights(folder)
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:
        subprocess.run(["rm", "-rf", "--", str(folder)], capture_output=True, check=False)


def give_rights(folder: Path) -> None:
    """The kernel's own folders, and those of a command, may be unreadable."""
    folders = [folder]
    for each in folders:  # which grows meanwhile
        let_in(each)
        with os.scandir(each) as entries:
            folders += [Path(entry) for entry in entries if entry.is_dir(follow_symlinks=False)]


def let_in(folder: Path) -> None:
    mode = stat.S_IMODE(os.lstat(folder).st_mode)
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        os.chmod(folder, mode | stat.S_IRWXU)
