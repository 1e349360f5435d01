"""Files of a bundle in memory, as they are pinned; a link is never followed."""

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from kode.plugin import ConfigError, real_path, visible

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
    """Path below the bundle, with `/` → file; sorted."""
    left: Mapping[str, str] = field(default_factory=dict)
    """What is there and was left out → why."""

    def digest(self, more: str) -> str:
        """SHA-256, in hexadecimal, over every file's path, mode and content, and `more`."""
        files = [
            [path, file.executable, hashlib.sha256(file.data).hexdigest()]
            for path, file in sorted(self.files.items())
        ]
        return hashlib.sha256(json.dumps([files, more]).encode()).hexdigest()


def read_tree(folder: Path, below: str = "") -> Tree:
    """The files of a folder, or of one below it. Raises: ConfigError for too many, for a name that
    cannot be shown, for what cannot be read, and where a link leads to `below`."""
    top = Path(real_path(folder)).joinpath(*steps_of(below))
    if real_path(top) != str(top):
        raise ConfigError(f"{folder / below}: {LINK}. Name where it leads.")
    files: dict[str, File] = {}
    left: dict[str, str] = {}
    try:
        _collect(top, files, left)
    except OSError as error:
        raise ConfigError(
            f"{visible(str(error.filename))} cannot be read: {error.strerror}."
        ) from error
    return Tree(files=dict(sorted(files.items())), left=left)


def _collect(top: Path, files: dict[str, File], left: dict[str, str]) -> None:
    """Raises: OSError; ConfigError."""
    size = 0
    for where, folders, names, opened in os.fwalk(top, onerror=_raise):
        folders[:] = sorted({*folders} - {*SKIPPED})
        for name in [*folders, *sorted(names)]:
            steps = [*Path(where).relative_to(top).parts, name]
            path = "/".join(steps_of("/".join(steps)))
            mode = os.stat(name, dir_fd=opened, follow_symlinks=False).st_mode
            if stat.S_ISREG(mode):
                data = _read(opened, name, MAX_BYTES - size)
                size += len(data)
                files[path] = File(data=data, executable=bool(mode & 0o111))
            elif not stat.S_ISDIR(mode):
                left[path] = LINK if stat.S_ISLNK(mode) else "it is no regular file"
            if len(steps) > MAX_DEPTH or len(files) + len(left) > MAX_FILES:
                raise _too_large()


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


def _read(folder: int, name: str, most: int) -> bytes:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(name, flags, dir_fd=folder), "rb") as file:
        data = file.read(most + 1) if os.fstat(file.fileno()).st_size <= most else None
    if data is None or len(data) > most:
        raise _too_large()
    return data


def _raise(error: OSError) -> NoReturn:
    raise error


def _too_large() -> ConfigError:
    return ConfigError(
        f"It has more than {MAX_FILES:,} files or {MAX_BYTES >> 20} MB, too much for a bundle. "
        "Name a folder in it."
    )
