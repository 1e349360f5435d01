"""Applies what a command changed in its layer, or keeps it for the next command.

`kode.permissions` decides which changes; each is checked once more here, because others work in the
same folders: all is done by `beneath`, so that nothing is written where a link leads.
"""

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kode import beneath, paths
from kode.paths import real_path
from kode.sandbox.layer import Layer, is_opaque, is_plain, is_whiteout
from kode.tool import FileChange


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
    ordered = sorted(wanted, key=lambda change: change.path)
    ordered = [c for c in reversed(ordered) if c.change == "deleted"] + [
        c for c in ordered if c.change != "deleted"
    ]
    for change in ordered:
        try:
            why = _apply_one(layer, change, started_ns, is_hidden)
        except OSError as error:
            why = error.strerror or str(error)
        if why:
            left[change.path] = why
    return left


def _apply_one(
    layer: Layer, change: FileChange, started_ns: int, is_hidden: Callable[[str], bool]
) -> str:
    """Applies one change; returns why it was skipped, or ""."""
    parents = Path(change.path).relative_to(layer.root).parts[:-1]
    name = os.path.basename(change.path)

    def mode(step: int) -> int:
        given = os.lstat(layer.upper.joinpath(*parents[: step + 1]))
        return stat.S_IMODE(given.st_mode) & 0o777

    with contextlib.ExitStack() as opened:
        try:
            root = opened.enter_context(beneath.open_folder(layer.root))
            make = None if change.change == "deleted" else mode
            folder = opened.enter_context(beneath.open_below(root, parents, make=make))
        except (beneath.LinkInTheWay, NotADirectoryError):
            return "its folder is a link"
        except FileNotFoundError:
            if change.change != "deleted":
                raise
            return ""  # deleted with its folder
        before = beneath.status(folder, name)
        is_folder = before is not None and stat.S_ISDIR(before.st_mode)
        if before is not None and not is_folder and before.st_ctime_ns > started_ns:
            return "someone else changed it meanwhile"
        if change.change == "deleted":
            return _delete(folder, name, before)
        if change.change == "changed" and before is None:
            return "someone else deleted it meanwhile"
        upper = opened.enter_context(beneath.open_folder(layer.upper))
        new = opened.enter_context(beneath.open_below(upper, parents))
        place = _Place(Path(change.path).parent, new, folder, is_hidden)
        if stat.S_ISDIR(os.lstat(name, dir_fd=new).st_mode):
            _move_folder(place, name)
            return ""
        if _leads_to_hidden(place, name):
            return "it leads to a place hidden from commands"
        if is_folder:
            os.rmdir(name, dir_fd=folder)
        _move(place, name)
    return ""


def _delete(folder: int, name: str, before: os.stat_result | None) -> str:
    if before is None:
        return ""
    if stat.S_ISDIR(before.st_mode):
        try:
            os.rmdir(name, dir_fd=folder)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return ""  # replaced meanwhile, or not to be deleted
            raise
    else:
        os.unlink(name, dir_fd=folder)
    return ""


@dataclass(frozen=True)
class _Place:
    """A folder of the layer and the real one that its files are moved to, both open."""

    path: Path
    """Of the real folder, to say where a link leads."""
    new: int
    real: int
    is_hidden: Callable[[str], bool]


def _leads_to_hidden(place: _Place, name: str) -> bool:
    if not stat.S_ISLNK(os.lstat(name, dir_fd=place.new).st_mode):
        return False
    target = os.readlink(name, dir_fd=place.new)
    return place.is_hidden(paths.real_path(place.path / target))


def _move_folder(place: _Place, name: str) -> None:
    """Moves a folder that is new, file by file; what is no file or link stays behind."""
    mode = stat.S_IMODE(os.lstat(name, dir_fd=place.new).st_mode) & 0o777
    with (
        beneath.open_below(place.new, [name]) as new,
        beneath.open_below(place.real, [name], make=lambda _: mode) as real,
    ):
        below = _Place(place.path / name, new, real, place.is_hidden)
        for one in sorted(os.listdir(new)):
            status = os.lstat(one, dir_fd=new)
            if stat.S_ISDIR(status.st_mode):
                _move_folder(below, one)
            elif is_plain(status) and not _leads_to_hidden(below, one):
                _move(below, one)


def _move(place: _Place, name: str) -> None:
    """Moves one file without overlay attributes and setuid bits."""
    status = os.lstat(name, dir_fd=place.new)
    if not stat.S_ISLNK(status.st_mode):
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        _clean(os.open(name, flags, dir_fd=place.new), status)
    beneath.move_in(place.new, name, place.real, name)


def _clean(file: int, status: os.stat_result) -> None:
    try:
        if status.st_mode & (stat.S_ISUID | stat.S_ISGID):
            os.fchmod(file, stat.S_IMODE(status.st_mode) & ~(stat.S_ISUID | stat.S_ISGID))
        with contextlib.suppress(OSError):
            for name in os.listxattr(file):
                if name.startswith("user.overlay."):
                    os.removexattr(file, name)
    finally:
        os.close(file)


def drop_replaced(layer: Layer, below: Path) -> None:
    """Drops what earlier commands left and this one deleted or replaced. Never raises."""
    for path in list(_replaced(layer.upper, below)):
        with contextlib.suppress(OSError):
            _remove(below / path)


def carry_layer(layer: Layer, changes: Iterable[FileChange], below: Path) -> set[Path]:
    """Moves files that a command wrote to where the session's next command finds them: a build's
    products are there for the tests, but not in the real folder. Returns the whiteouts among them,
    relative. Never raises: what cannot be moved is rebuilt."""
    whiteouts: set[Path] = set()
    for change in changes:
        path = Path(change.path).relative_to(layer.root)
        with contextlib.suppress(OSError):
            whiteouts.update(_whiteouts(layer.upper, path))
            _merge(layer.upper / path, below / path)
    return whiteouts


def drop_idle_whiteouts(root: Path, below: Path, whiteouts: set[Path]) -> None:
    """Drops those in `below` that hide nothing of the real folder, also from `whiteouts`: where no
    folder lies under theirs, the kernel shows them as broken files. Never raises."""
    for path in [path for path in whiteouts if not _hides(root, below, path)]:
        whiteouts.remove(path)
        with contextlib.suppress(OSError):
            if is_whiteout(os.lstat(below / path)):
                _remove(below / path)


def _hides(root: Path, below: Path, path: Path) -> bool:
    real = root / path
    if not os.path.lexists(real) or real_path(real.parent) != str(real.parent):
        return False
    return not any(is_opaque(below / above) for above in path.parents[:-1])


def _whiteouts(upper: Path, path: Path) -> Iterator[Path]:
    status = os.lstat(upper / path)
    if is_whiteout(status):
        yield path
    elif stat.S_ISDIR(status.st_mode):
        with os.scandir(upper / path) as entries:
            for entry in entries:
                if not entry.is_file(follow_symlinks=False):
                    yield from _whiteouts(upper, path / entry.name)


def take_carried(layer: Layer, folders: Iterable[str], below: Path) -> list[str]:
    """Moves what earlier commands left in these folders into the layer, where it is not newer; what
    `drop_replaced` drops must be gone. Returns the folders that had any. Never raises."""
    taken = []
    for folder in folders:
        path = Path(folder).relative_to(layer.root)
        if (below / path).is_dir():
            with contextlib.suppress(OSError):
                _fill(below / path, layer.upper / path)
            taken.append(folder)
    return taken


def _fill(source: Path, target: Path) -> None:
    for name in os.listdir(source):
        if not os.path.lexists(target / name):
            os.rename(source / name, target / name)
        elif (source / name).is_dir() and not (source / name).is_symlink():
            _fill(source / name, target / name)
    if not os.listdir(source):
        source.rmdir()


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
