"""Files of a bundle in memory, as they are pinned. Reads them from folders that others may change
meanwhile, through open descriptors; a link is never followed."""

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kode.plugin import ConfigError, beneath, paths, visible

MAX_FILES = 5_000  # the largest public bundles have some hundreds
MAX_BYTES = 64 * 1024 * 1024
"""Limit of all files of a bundle."""
MAX_DEPTH = 24  # folders in folders
SKIPPED = (".git", "__pycache__")
"""What is no part of a bundle: git's records, which name programs, and byte code."""

LINK = "it is a link, and kode follows none"


@dataclass(frozen=True, kw_only=True)
class File:
    data: bytes
    executable: bool = False


@dataclass(frozen=True, kw_only=True)
class Tree:
    files: Mapping[str, File]
    """Path below the bundle, with `/` → file."""
    left: Mapping[str, str] = field(default_factory=dict)
    """What is there and was left out → why."""


def digest(tree: Tree, more: Mapping[str, Any]) -> str:
    """SHA-256, in hexadecimal, over every file's path, mode and content, and `more`."""
    files = [
        [path, file.executable, hashlib.sha256(file.data).hexdigest()]
        for path, file in sorted(tree.files.items())
    ]
    return hashlib.sha256(json.dumps([files, more], sort_keys=True).encode()).hexdigest()


def read_folder(folder: Path, below: str = "") -> Tree:
    """The files of a folder, or of one below it. Raises: ConfigError for too many, for a name that
    cannot be shown, for what cannot be read, and where a link leads to `below`."""
    gathering = Gathering()
    try:
        with (
            beneath.open_folder(Path(paths.real_path(folder))) as top,
            beneath.open_below(top, steps_of(below)) as opened,
        ):
            _walk(opened, (), gathering)
    except beneath.LinkInTheWay as error:
        raise ConfigError(f"{folder / below}: {LINK}. Name where it leads.") from error
    except OSError as error:
        said = error.strerror or error
        raise ConfigError(f"{visible(str(folder / below))} cannot be read: {said}.") from error
    return gathering.tree()


def read_file(folder: Path, name: str, most: int) -> bytes | None:
    """One file below a folder; None where there is none. Raises: ConfigError for a link, for one of
    more than `most` bytes, and for what cannot be read."""
    *steps, last = steps_of(name)
    try:
        with (
            beneath.open_folder(Path(paths.real_path(folder))) as top,
            beneath.open_below(top, steps) as opened,
        ):
            found = beneath.status(opened, last)
            if found is None:
                return None
            if not stat.S_ISREG(found.st_mode):
                raise ConfigError(f"{folder / name} is no file that kode reads.")
            return _read(opened, last, most, str(folder / name))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"{folder / name} cannot be read: {error.strerror or error}.") from error


def steps_of(path: str) -> list[str]:
    """The steps of a path below a bundle or a marketplace. Raises: ConfigError for one that leads
    elsewhere, or that cannot be shown."""
    steps = [step for step in path.split("/") if step not in ("", ".")]
    shown = visible(path)[:200]
    if path.startswith("/") or "\\" in path or ".." in steps:
        raise ConfigError(f"The path {shown!r} points outside, so nothing of this is used.")
    if any(not step.isprintable() for step in steps):
        raise ConfigError(f"The name {shown!r} has control characters, so nothing of this is used.")
    return steps


class Gathering:
    """Files as they come, within the limits of a bundle."""

    def __init__(self) -> None:
        self._files: dict[str, File] = {}
        self._left: dict[str, str] = {}
        self._bytes = 0

    @property
    def room(self) -> int:
        """How many bytes may still come."""
        return MAX_BYTES - self._bytes

    def add(self, name: str, file: File) -> None:
        """Raises: ConfigError for too much, or a name that leads elsewhere."""
        self._files["/".join(steps_of(name))] = file
        self._bytes += len(file.data)
        if len(self._files) > MAX_FILES or self._bytes > MAX_BYTES:
            raise too_large()

    def leave(self, name: str, why: str) -> None:
        """Notes what is left out. Raises: ConfigError as `add`."""
        self._left["/".join(steps_of(name))] = why
        if len(self._left) > MAX_FILES:
            raise too_large()

    def tree(self) -> Tree:
        return Tree(files=dict(sorted(self._files.items())), left=self._left)


def too_large() -> ConfigError:
    """The error for a bundle over the limits."""
    return ConfigError(
        f"It has more than {MAX_FILES:,} files or {MAX_BYTES >> 20} MB, too much for a bundle. "
        "Name a folder in it."
    )


def status_below(folder: Path) -> tuple[tuple[object, ...], ...]:
    """What tells one state of a folder's files from another: the kernel sets `st_ctime`, whatever a
    program wants. Raises: OSError."""
    return tuple(sorted(_statuses(str(folder))))


def _statuses(folder: str) -> Iterator[tuple[object, ...]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            found = entry.stat(follow_symlinks=False)
            yield entry.path, found.st_ino, found.st_mode, found.st_size, found.st_ctime_ns
            if entry.is_dir(follow_symlinks=False):
                yield from _statuses(entry.path)


def _walk(folder: int, steps: tuple[str, ...], gathering: Gathering) -> None:
    if len(steps) > MAX_DEPTH:
        raise too_large()
    for name in _names(folder):
        path, found = "/".join((*steps, name)), beneath.status(folder, name)
        if found is None or name in SKIPPED:
            continue
        if stat.S_ISLNK(found.st_mode):
            gathering.leave(path, LINK)
        elif stat.S_ISDIR(found.st_mode):
            with beneath.open_below(folder, [name]) as opened:
                _walk(opened, (*steps, name), gathering)
        elif stat.S_ISREG(found.st_mode):
            data = _read(folder, name, gathering.room, path)
            gathering.add(path, File(data=data, executable=bool(found.st_mode & 0o111)))
        else:
            gathering.leave(path, "it is no regular file")


def _names(folder: int) -> Iterable[str]:
    return sorted(os.listdir(folder))


def _read(folder: int, name: str, most: int, path: str) -> bytes:
    """Raises: OSError; ConfigError for more than `most` bytes."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(name, flags, dir_fd=folder), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{path} is no regular file")
        data = file.read(most + 1) if status.st_size <= most else b""
    if status.st_size > most or len(data) > most:
        raise ConfigError(f"{visible(path)} is larger than {max(most, 0) / 2**20:.1f} MB.")
    return data
