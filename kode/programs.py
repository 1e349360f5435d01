"""Finds the programs that kode itself starts (git, ripgrep, a pager), and counts nested kodes.

Not here: commands of a model or a person, which run unchanged with the full PATH.
"""

import asyncio
import contextlib
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kode import paths
from kode.paths import real_path
from kode.workplace import below

DEPTH = "KODE_DEPTH"
"""The variable that counts how many kodes a process is nested in."""


def depth(environ: Mapping[str, str]) -> int:
    """How many kodes this process is nested in, from its environment; 0 for none."""
    value = environ.get(DEPTH, "")
    return int(value) if value.isdecimal() and len(value) < 4 else 0


def one_deeper(environ: Mapping[str, str]) -> dict[str, str]:
    """The variable to set for child processes."""
    return {DEPTH: str(depth(environ) + 1)}


def find_program(name: str, work: Iterable[Path] = (), *, path: str | None = None) -> str | None:
    """The absolute path of a program on PATH (or `path`); None if there is none. A name with a
    slash is used unchanged: a person chose it.

    Programs inside the working directory, its repository or the folders in `work` are skipped: a
    repository's author, a model or a sandboxed command may have put a fake `git` there.
    """
    if os.sep in name:
        return shutil.which(name)
    folders = os.environ.get("PATH", os.defpath) if path is None else path
    distrusted = [real_path(folder) for folder in work]
    with contextlib.suppress(OSError):  # the working directory is gone
        cwd = Path.cwd()
        distrusted += map(real_path, (cwd, paths.repository_root(cwd) or cwd))
    for folder in folders.split(os.pathsep):
        program = shutil.which(name, path=folder) if os.path.isabs(folder) else None
        if program and not any(
            below(real_path(place), other)
            for place in (folder, program)
            for other in distrusted
            if other != "/"  # which says nothing about who may write
        ):
            return program
    return None


async def start_program(*argv: str | Path, **options: Any) -> asyncio.subprocess.Process:
    """`asyncio.create_subprocess_exec`, which waits for ever where it is cancelled before the pipes
    are connected (CPython up to 3.12). Cancelled here, the program is killed and waited for.

    Raises: OSError, ValueError.
    """
    starting = asyncio.ensure_future(asyncio.create_subprocess_exec(*argv, **options))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.wait([starting])
        if starting.exception() is None:
            process = starting.result()
            # Kills it, and closes the pipes, which programs of its own may hold.
            process._transport.close()  # type: ignore[attr-defined]
            await process.wait()
        raise
