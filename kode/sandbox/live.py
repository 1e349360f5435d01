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

from kode.durable import TEMPORARY_PREFIX


def show(view: int, root: Path, path: Path) -> None:
    """Makes a file below the folder of the descriptor `view` what it is below `root`: there with
    this content, or gone. Never follows a link, of the command or of the project. Never raises:
    what cannot be shown stays as the command has it."""
    *folders, name = path.relative_to(root).parts
    with contextlib.suppress(OSError), contextlib.ExitStack() as opened:
        folder = _folder(view, folders, make=True)
        opened.callback(os.close, folder)
        try:
            top = os.open(root, _FOLDER)
            opened.callback(os.close, top)
            real = _folder(top, folders, make=False)
            opened.callback(os.close, real)
            status = os.lstat(name, dir_fd=real)
        except (FileNotFoundError, NotADirectoryError):  # also where a folder has become a link
            os.unlink(name, dir_fd=folder)
            return
        _show(folder, name, real, status)


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def _folder(top: int, steps: list[str], *, make: bool) -> int:
    folder = os.dup(top)
    for step in steps:
        try:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(step, dir_fd=folder)
            below = os.open(step, _FOLDER, dir_fd=folder)
        finally:
            os.close(folder)
        folder = below
    return folder


def _show(folder: int, name: str, real: int, status: os.stat_result) -> None:
    beside = f"{TEMPORARY_PREFIX}{secrets.token_hex(4)}"
    try:
        if stat.S_ISLNK(status.st_mode):
            os.symlink(os.readlink(name, dir_fd=real), beside, dir_fd=folder)
        elif stat.S_ISREG(status.st_mode):
            _copy(real, name, folder, beside, stat.S_IMODE(status.st_mode))
        else:
            return
        os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(beside, dir_fd=folder)
        raise


def _copy(real: int, name: str, folder: int, beside: str, mode: int) -> None:
    reads = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with (
        open(os.open(name, reads, dir_fd=real), "rb") as file,
        open(os.open(beside, flags, 0o600, dir_fd=folder), "wb") as shown,
    ):
        shutil.copyfileobj(file, shown)
        os.fchmod(shown.fileno(), mode & 0o777)
