"""Shows a running command what became of files after it started.

The kernel's overlay does not promise that a command sees files of the real folder that changed
under it, and tells no watcher of them. So kode writes each file that a tool changed into the
command's copy, through a descriptor of the mounted copy that the launcher sent: there it is a
change like one of the command's own. Since the copy then equals the real file, it is none to apply.
"""

import contextlib
import os
import secrets
import shutil
import stat
from pathlib import Path


def show(view: int, root: Path, path: Path) -> None:
    """Makes a file below the folder of the descriptor `view` what it is below `root`: there with
    this content, or gone. Never follows a link of the command. Never raises: what cannot be shown
    stays as the command has it."""
    *folders, name = path.relative_to(root).parts
    with contextlib.suppress(OSError):
        folder = _folder(view, folders)
        try:
            _show(folder, name, path)
        finally:
            os.close(folder)


def _folder(view: int, steps: list[str]) -> int:
    folder = os.dup(view)
    for step in steps:
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(step, dir_fd=folder)
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            below = os.open(step, flags, dir_fd=folder)
        finally:
            os.close(folder)
        folder = below
    return folder


def _show(folder: int, name: str, path: Path) -> None:
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        os.unlink(name, dir_fd=folder)
        return
    beside = f".kode-tmp-{secrets.token_hex(4)}"
    try:
        if stat.S_ISLNK(status.st_mode):
            os.symlink(os.readlink(path), beside, dir_fd=folder)
        elif stat.S_ISREG(status.st_mode):
            _copy(path, folder, beside, stat.S_IMODE(status.st_mode))
        else:
            return
        os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(beside, dir_fd=folder)
        raise


def _copy(path: Path, folder: int, name: str, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with (
        open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as real,
        open(os.open(name, flags, 0o600, dir_fd=folder), "wb") as shown,
    ):
        shutil.copyfileobj(real, shown)
        os.fchmod(shown.fileno(), mode & 0o777)
