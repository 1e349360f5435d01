"""What an approved extension loads of the project besides what its approval shows: files that the
sandbox saw it open. They are pinned with the approval, so that a change to one of them is a change
of the extension.
"""

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from kode.credentials import redact
from kode.diffs import unified_diff
from kode.errors import ConfigError
from kode.paths import real_path

MAX_FILES = 5_000  # a package with its dependencies
MAX_TEXT_BYTES = 64 * 1024  # longer scripts are programs, which load by other ways
MAX_TEXTS_BYTES = 256 * 1024
"""Limits of the texts that are kept to show a change, of one file and of all."""


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A file that an extension opened, as it was approved."""

    path: str
    """Absolute, as the extension named it."""
    digest: str
    """SHA-256 of its content; "" if it came or changed before it was seen, so that no
    content is approved."""
    text: str = ""
    """To show what changed: without credentials, "" if it is too large or no text."""


def add_opened(
    known: Sequence[Loaded], opened: Iterable[str], *, project: Path, since: float
) -> tuple[Loaded, ...]:
    """`known` with the project's files among `opened`. One that was changed after `since`, in
    seconds of the clock, counts as not approved.

    Raises: ConfigError for too many files.
    """
    files = {file.path: file for file in known}
    room = MAX_TEXTS_BYTES - sum(len(file.text) for file in known)
    for path in opened:
        # What git keeps there changes with each commit; what it runs, no command may change.
        inside = Path(path).is_relative_to(project)
        if path in files or not inside or ".git" in Path(path).relative_to(project).parts:
            continue
        if (now := _read(path, project)) is None:
            continue
        content, changed_at = now
        digest = hashlib.sha256(content).hexdigest() if changed_at <= since else ""
        text = _text_of(content) if digest and len(content) <= room else ""
        files[path] = Loaded(path=path, digest=digest, text=text)
        room -= len(text)
        if len(files) > MAX_FILES:
            raise ConfigError(
                f"It opens more than {MAX_FILES:,} files of the project, too many to approve with "
                "it: it has to load less, or belongs into your own configuration."
            )
    return tuple(files.values())


def is_changed(file: Loaded, project: Path) -> bool:
    """Whether a file differs from the approved one. Never raises."""
    states = []
    with contextlib.suppress(OSError):
        states += [os.lstat(file.path)]
        states += [os.stat(file.path)]
    # The kernel sets this time, whatever a program wants.
    version = tuple((state.st_ino, state.st_size, state.st_ctime_ns) for state in states)
    return _digest_of(file.path, project, version) != file.digest


def diff(file: Loaded, project: Path) -> str:
    """What changed in a file, without credentials; "" if nothing did. Never raises."""
    if not is_changed(file, project):
        return ""
    name, now = os.path.relpath(file.path, project), _read(file.path, project)
    after = _text_of(now[0]) if now is not None else ""
    shown = unified_diff(name, file.text, after)
    return shown or f"{name}, which it loads, is {'another file now' if now else 'gone'}\n"


def folders_of(opened: Iterable[str], project: Path) -> tuple[str, ...]:
    """The folders in which an extension found, or looked for, what it opened."""
    inside = (Path(path) for path in opened)
    folders = {str(path if path.is_dir() else path.parent) for path in inside}
    return tuple(sorted(folder for folder in folders if ".git" not in Path(folder).parts))


def names_in(folders: Sequence[str]) -> str:
    """SHA-256 over the names in these folders: another one means that the extension may find other
    files than before. Never raises."""
    names = hashlib.sha256()
    for folder in folders:
        try:
            entries = sorted(os.listdir(folder))
        except OSError:
            entries = ["/"]
        names.update("\0".join((folder, *entries, "")).encode("utf-8", "surrogateescape"))
    return names.hexdigest()


@lru_cache(maxsize=4 * MAX_FILES)
def _digest_of(path: str, project: Path, version: object) -> str:
    """`version` is for the cache: files are compared before each run."""
    now = _read(path, project)
    return hashlib.sha256(now[0]).hexdigest() if now is not None else ""


def _read(path: str, project: Path) -> tuple[bytes, float] | None:
    """The content of a regular file, and when it or the link to it last changed; None if there is
    none. Of a link out of the project only where it leads, never what is there."""
    try:
        link, real = os.lstat(path), real_path(path)
        if not Path(real).is_relative_to(project):
            return f"-> {real}".encode("utf-8", "surrogateescape"), link.st_ctime
        descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return None
            return file.read(), max(link.st_ctime, status.st_ctime)
    except OSError:
        return None


def _text_of(content: bytes) -> str:
    if len(content) > MAX_TEXT_BYTES:
        return ""
    try:
        return redact(content.decode())
    except UnicodeDecodeError:
        return ""
