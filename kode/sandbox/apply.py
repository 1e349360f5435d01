"""Applies what a command changed in its layer, or keeps it for the next command.

`kode.permissions` decides which changes; each is checked once more here, because it is made by name
while others work in the same folders.
"""

import contextlib
import errno
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from kode.contracts import FileChange
from kode.durable import TEMPORARY_PREFIX
from kode.sandbox.layer import Layer, is_opaque, is_plain, version


def apply(
    layer: Layer,
    wanted: Iterable[FileChange],
    started_ns: int,
    is_hidden: Callable[[str], bool],
) -> dict[str, str]:
    """Applies changes; returns those skipped, each with the reason. A file that somebody else
    changed since `started_ns` (time of day) is skipped. So is a link to a path that `is_hidden`
    from commands: others would read it for them."""
    left: dict[str, str] = {}
    ordered = sorted(wanted, key=lambda one: one.path)
    gone = [one for one in reversed(ordered) if one.change == "deleted"]
    for one in (*gone, *(one for one in ordered if one.change != "deleted")):
        try:
            why = _apply_one(layer, one, started_ns, is_hidden)
        except OSError as error:
            why = error.strerror or str(error)
        if why:
            left[one.path] = why
    return left


def _apply_one(
    layer: Layer, one: FileChange, started_ns: int, is_hidden: Callable[[str], bool]
) -> str:
    """Applies one change; returns why it was skipped, or ""."""
    real = Path(one.path)
    if os.path.realpath(real.parent) != str(real.parent):
        return "its folder is a link"
    if one.change != "deleted":
        _make_folder(version(layer, one.path).parent, real.parent)
    try:
        before = os.lstat(real)
    except FileNotFoundError:
        before = None
    if before is not None and not stat.S_ISDIR(before.st_mode) and before.st_ctime_ns > started_ns:
        return "someone else changed it meanwhile"
    if one.change == "deleted":
        return _delete(real, before)
    if one.change == "changed" and before is None:
        return "someone else deleted it meanwhile"
    new = version(layer, one.path)
    status = os.lstat(new)
    if stat.S_ISDIR(status.st_mode):
        return _move_folder(new, real, is_hidden)
    if _leads_to(new, real, is_hidden):
        return "it leads to a place hidden from commands"
    if before is not None and stat.S_ISDIR(before.st_mode):
        real.rmdir()
    _clean(new, status)
    _move(new, real)
    return ""


def _delete(real: Path, before: os.stat_result | None) -> str:
    if before is None:
        return ""
    if stat.S_ISDIR(before.st_mode):
        try:
            real.rmdir()
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return ""  # replaced meanwhile, or not to be deleted
            raise
    else:
        real.unlink()
    return ""


def _make_folder(new: Path, real: Path) -> None:
    """Creates missing folders with the permissions that the command gave them."""
    if real.is_dir():
        return
    _make_folder(new.parent, real.parent)
    real.mkdir()
    real.chmod(real.stat().st_mode & ~0o777 | stat.S_IMODE(new.stat().st_mode) & 0o777)


def _leads_to(new: Path, real: Path, is_hidden: Callable[[str], bool]) -> bool:
    return new.is_symlink() and is_hidden(os.path.realpath(real.parent / new.readlink()))


def _move_folder(new: Path, real: Path, is_hidden: Callable[[str], bool]) -> str:
    _make_folder(new, real)
    for name in sorted(os.listdir(new)):
        status = os.lstat(new / name)
        if stat.S_ISDIR(status.st_mode):
            _move_folder(new / name, real / name, is_hidden)
        elif is_plain(status) and not _leads_to(new / name, real / name, is_hidden):
            _clean(new / name, status)
            _move(new / name, real / name)
    return ""


def _clean(new: Path, status: os.stat_result) -> None:
    """Removes overlay attributes and setuid bits from a file."""
    if stat.S_ISLNK(status.st_mode):
        return
    if status.st_mode & (stat.S_ISUID | stat.S_ISGID):
        os.chmod(new, stat.S_IMODE(status.st_mode) & ~(stat.S_ISUID | stat.S_ISGID))
    with contextlib.suppress(OSError):
        for name in os.listxattr(new):
            if name.startswith("user.overlay."):
                os.removexattr(new, name)


def _move(new: Path, real: Path) -> None:
    try:
        os.rename(new, real)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        beside = real.with_name(f"{TEMPORARY_PREFIX}{secrets.token_hex(4)}")
        try:
            shutil.copy2(new, beside, follow_symlinks=False)
            os.rename(beside, real)
        except OSError:
            beside.unlink(missing_ok=True)
            raise
        new.unlink()


def carry_over(layer: Layer, ignored: Iterable[FileChange], below: Path) -> None:
    """Moves ignored files that a command wrote to where the session's next command finds them: a
    build's products are there for the tests, but not in the real folder. Never raises: what cannot
    be moved is rebuilt."""
    for path in list(_replaced(layer.upper, below)):
        with contextlib.suppress(OSError):
            _remove(below / path)
    for one in ignored:
        path = Path(one.path).relative_to(layer.root)
        with contextlib.suppress(OSError):
            _merge(layer.upper / path, below / path)


def _replaced(upper: Path, below: Path, folder: Path = Path()) -> Iterator[Path]:
    """Leftovers of earlier commands that this one deleted or replaced."""
    with contextlib.suppress(OSError), os.scandir(upper / folder) as entries:
        for entry in entries:
            path = folder / entry.name
            if not os.path.lexists(below / path):
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            was_folder = (below / path).is_dir() and not (below / path).is_symlink()
            if not is_folder or not was_folder or is_opaque(upper / path):
                yield path
            else:
                yield from _replaced(upper, below, path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _merge(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir() and not source.is_symlink() and target.is_dir() and not target.is_symlink():
        for name in os.listdir(source):
            _merge(source / name, target / name)
        return
    if os.path.lexists(target):
        _remove(target)
    os.rename(source, target)
