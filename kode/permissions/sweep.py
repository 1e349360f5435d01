"""Which file that holds keys would a command meet that reads files without naming them?

`grep -r`, `cat *` and `find -exec cat` read what is there: the classes know nothing of that, so the
folders are looked at when a call is decided. What a command reads is `shell.readers`'s.
"""

import fnmatch
import glob
import itertools
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator

from kode.permissions import sensitive
from kode.permissions.shell.classes import Sweep

MAX_FOLDERS_UNSEEN = 300
"""In so many of those the likeliest names are looked for all the same."""

_LIKELY = (".env", ".env.local", ".env.production", "id_rsa", "credentials.json", "secrets.json")

MAX_SAMPLE_BYTES = 65_536


def meets(sweeps: Iterable[Sweep], where: sensitive.Ground) -> str | None:
    """The first file likely to hold keys among those that some sweeps read; None when there is
    none. Folders that a build or an installation fills are left out. Never raises."""
    left = [sensitive.MAX_ENTRIES]
    for sweep in dict.fromkeys(sweeps):
        for path in _starts(sweep, left):
            if sensitive.place(path, where) == "system":
                continue  # certificates and examples that every machine has
            found = _below(path, sweep, where, left) if sweep.deep else _itself(path, where)
            if found is not None:
                return found
    return None


def _starts(sweep: Sweep, left: list[int]) -> Iterator[str]:
    """The paths that a sweep begins with: of a glob's matches, as the shell would find them, those
    that matter."""
    if not glob.has_magic(sweep.path):
        yield sweep.path
        return
    folder, last = os.path.split(sweep.path)
    for parent in _folders(folder, left):
        secret = sensitive.is_secret_folder(parent)
        for entry in _globbed(parent, last, left):
            matters = secret or sensitive.may_be_secret_name(entry.name) or entry.is_symlink()
            if matters or (sweep.deep and entry.is_dir()):
                yield entry.path


def _folders(pattern: str, left: list[int]) -> Iterator[str]:
    if not glob.has_magic(pattern):
        yield pattern
        return
    folder, last = os.path.split(pattern)
    for parent in _folders(folder, left):
        yield from (entry.path for entry in _globbed(parent, last, left) if entry.is_dir())


def _globbed(folder: str, pattern: str, left: list[int]) -> Iterator[os.DirEntry[str]]:
    matches = re.compile(fnmatch.translate(pattern)).match
    for entry in _entries(folder, left):
        if matches(entry.name) and (pattern.startswith(".") or not entry.name.startswith(".")):
            yield entry


def _itself(path: str, where: sensitive.Ground) -> str | None:
    return path if os.path.isfile(path) and _holds_keys(path, where) else None


def _below(start: str, sweep: Sweep, where: sensitive.Ground, left: list[int]) -> str | None:
    """Breadth first: a `.env` lies near the top. By names first, which is cheap."""
    if not os.path.isdir(start):
        return _itself(start, where)
    folders = deque([start])
    while folders:
        folder = folders.popleft()
        secret = sensitive.is_secret_folder(folder)
        below, found = [], []
        for entry in _entries(folder, left):
            name = entry.name
            if entry.is_dir(follow_symlinks=False):
                if not sensitive.is_made_by_tools(name) and not _skipped(name, sweep):
                    below.append(entry.path)
                continue
            matters = secret or sensitive.may_be_secret_name(name) or entry.is_symlink()
            if matters and _reads(entry.path, name, sweep, where):
                found.append(entry.path)
        if found:
            return min(found)
        folders.extend(sorted(below))
        if left[0] < 0:
            unseen = itertools.islice((folder, *folders), MAX_FOLDERS_UNSEEN)
            likely = (f"{each}/{name}" for each in unseen for name in _LIKELY)
            return next((path for path in likely if _reads_there(path, sweep, where)), None)
    return None


def _reads(path: str, name: str, sweep: Sweep, where: sensitive.Ground) -> bool:
    return (
        not _skipped(name, sweep)
        and _matches(name, sweep)
        and _holds_keys(path, where)
        and (sweep.ignored or not _is_ignored(path, where))
    )


def _reads_there(path: str, sweep: Sweep, where: sensitive.Ground) -> bool:
    return os.path.isfile(path) and _reads(path, os.path.basename(path), sweep, where)


def _entries(folder: str, left: list[int]) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                left[0] -= 1
                if left[0] < 0:
                    return
                yield entry
    except (OSError, ValueError):
        return


def _skipped(name: str, sweep: Sweep) -> bool:
    if not sweep.hidden and name.startswith("."):
        return True
    return any(fnmatch.fnmatch(name, each) for each in sweep.without)


def _matches(name: str, sweep: Sweep) -> bool:
    return not sweep.names or fnmatch.fnmatch(name.lower(), sweep.names.lower())


def _holds_keys(path: str, where: sensitive.Ground) -> bool:
    return sensitive.is_secret(path, where) and sensitive.holds_keys(path)


def _is_ignored(path: str, where: sensitive.Ground) -> bool:
    """Whether a `.gitignore` between the working folder and the file names it, roughly."""
    root = next((root for root in where.roots if sensitive.below(path, root)), None)
    if root is None:
        return False
    folder, ignored = root, False
    steps = os.path.relpath(path, root).split("/")
    for depth in range(len(steps)):
        for line in _lines(os.path.join(folder, ".gitignore")):
            if _names(line.lstrip("!"), steps[depth:]):
                ignored = not line.startswith("!")
        folder = os.path.join(folder, steps[depth])
    return ignored


def _names(pattern: str, steps: list[str]) -> bool:
    pattern = pattern.removeprefix("**/").rstrip("/")
    if "/" not in pattern:
        return any(fnmatch.fnmatchcase(step, pattern) for step in steps)
    return fnmatch.fnmatchcase("/".join(steps), pattern.lstrip("/"))


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read(MAX_SAMPLE_BYTES).splitlines()
    except OSError:
        return []
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]
