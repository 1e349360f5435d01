"""The programs that kode starts by itself (git, ripgrep, a pager): where they are found; and how
many kodes a process is inside of.

Not here: the commands of a model or a person, which are run as they are, with the whole PATH.
"""

import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from kode import paths

DEPTH = "KODE_DEPTH"
"""The variable that says how many kodes a process was started inside of."""


def depth(environ: Mapping[str, str]) -> int:
    """How many kodes this process was started inside of, as its environment says; 0 for none."""
    value = environ.get(DEPTH, "")
    return int(value) if value.isdecimal() and len(value) < 4 else 0


def one_deeper(environ: Mapping[str, str]) -> dict[str, str]:
    """The variable for what this process starts."""
    return {DEPTH: str(depth(environ) + 1)}


def find_program(name: str, work: Iterable[Path] = (), *, path: str | None = None) -> str | None:
    """The absolute path of a program on PATH (or `path`); None where there is none.

    One that lies in the working directory, in its repository or in the folders of `work` does not
    count: a virtual environment there is on the PATH of many, and a repository's author, a model
    or a command in the sandbox may have put something called `git` in it. A name with a slash is
    taken as it is: a person has chosen it.
    """
    if os.sep in name:
        return shutil.which(name)
    folders = os.environ.get("PATH", os.defpath) if path is None else path
    distrusted = [os.path.realpath(folder) for folder in (*_here(), *work)]
    for folder in folders.split(os.pathsep):
        found = shutil.which(name, path=folder) if os.path.isabs(folder) else None
        if found and not any(
            _lies_in(known, other) for known in (folder, found) for other in distrusted
        ):
            return found
    return None


def _here() -> list[Path]:
    with suppress(OSError):  # a working directory that is gone
        cwd = Path.cwd()
        return [cwd, paths.repository_root(cwd) or cwd]
    return []


def _lies_in(path: str, folder: str) -> bool:
    """Nothing is known about who may write in the whole machine."""
    real = os.path.realpath(path)
    return folder != "/" and (real == folder or real.startswith(f"{folder}/"))
