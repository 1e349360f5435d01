"""Which file that holds keys would a command meet that reads files without naming them?

`grep -r`, `cat *` and `find -exec cat` read what is there: the classes know nothing of that, so the
folders are looked at when a call is decided. What a command reads is `shell_readers`'s.
"""

import fnmatch
import glob
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator

from kode.permissions import sensitive
from kode.permissions.shell_class import Sweep

MAX_ENTRIES = 20_000
"""So many names are looked at, those near the top first. What lies behind them is not found."""

MAX_SAMPLE_BYTES = 65_536

_SETTINGS = frozenset({".npmrc", ".yarnrc.yml", ".pypirc", ".yarnrc"})
"""Files of many projects that hold keys only now and then: these are looked into."""

_KEY_IN_SETTINGS = re.compile(rb"_auth|_password|authtoken|password\s*[:=]", re.IGNORECASE)


def meets(sweeps: Iterable[Sweep], where: sensitive.Ground) -> str | None:
    """The first file likely to hold keys among those that some sweeps read; None when there is
    none. Folders that a build or an installation fills are left out. Never raises."""
    left = [MAX_ENTRIES]
    for sweep in dict.fromkeys(sweeps):
        for path in _starts(sweep, left):
            if sensitive.place(path, where) == "system":
                continue  # certificates and examples that every machine has
            found = _below(path, sweep, where, left) if sweep.deep else _itself(path, where)
            if found is not None:
                return found
    return None


def _starts(sweep: Sweep, left: list[int]) -> Iterator[str]:
    """The paths that a sweep begins with: a glob's matches, as the shell would find them."""
    if not any(mark in sweep.path for mark in "*?["):
        yield sweep.path
        return
    try:
        for path in glob.iglob(sweep.path):
            left[0] -= 1
            if left[0] < 0:
                return
            yield path
    except (OSError, ValueError, re.error):
        return


def _itself(path: str, where: sensitive.Ground) -> str | None:
    return path if os.path.isfile(path) and _holds_keys(path, where) else None


def _below(start: str, sweep: Sweep, where: sensitive.Ground, left: list[int]) -> str | None:
    """Breadth first: a `.env` lies near the top."""
    if not os.path.isdir(start):
        return _itself(start, where)
    folders = deque([start])
    while folders:
        folder = folders.popleft()
        for entry in _entries(folder):
            left[0] -= 1
            if left[0] < 0:
                return None
            if _skipped(entry, sweep):
                continue
            if entry.is_dir(follow_symlinks=False):
                if not sensitive.is_made_by_tools(entry.name):
                    folders.append(entry.path)
            elif (
                _matches(entry.name, sweep)
                and _holds_keys(entry.path, where)
                and (sweep.ignored or not _is_ignored(entry.path, where))
            ):
                return entry.path
    return None


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except (OSError, ValueError):
        return []


def _skipped(entry: os.DirEntry[str], sweep: Sweep) -> bool:
    if not sweep.hidden and entry.name.startswith("."):
        return True
    return any(fnmatch.fnmatch(entry.name, name) for name in sweep.without)


def _matches(name: str, sweep: Sweep) -> bool:
    return not sweep.names or fnmatch.fnmatch(name.lower(), sweep.names.lower())


def _holds_keys(path: str, where: sensitive.Ground) -> bool:
    """By its name first, which is cheap; an empty file holds nothing."""
    try:
        if not sensitive.may_be_secret(path) and not os.path.islink(path):
            return False
        if not sensitive.is_secret(path, where) or os.path.getsize(path) == 0:
            return False
        if os.path.basename(path) not in _SETTINGS:
            return True
        with open(path, "rb") as file:
            return _KEY_IN_SETTINGS.search(file.read(MAX_SAMPLE_BYTES)) is not None
    except (OSError, ValueError):
        return False


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
