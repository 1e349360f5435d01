"""Runs searches over files, by ripgrep if it is on the PATH, else by kode's own worker; and matches
globs.

Both have the same output format. A process started here never outlives its call, be it at a time
limit or on cancellation.
"""

import asyncio
import functools
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from kode.errors import ToolError
from kode.paths import real_path
from kode.programs import find_program
from kode.tool import ToolContext
from kode.tools import search_worker
from kode.tools.processes import ProcessTree
from kode.tools.program import feed, open_program

TIMEOUT_S = 30.0  # a very large repository on a cold disk
MAX_PIECE_BYTES = 8 * 1024 * 1024
"""Longer single messages (a hit on an enormous line) are dropped and counted."""

_COMMON = (
    "--no-config",
    "--no-messages",
    "--hidden",
    "--no-require-git",
    "--no-ignore-dot",
    "--no-ignore-global",
    "--no-ignore-exclude",
    "--sort=path",
    "--glob=!.git",
    "--glob=!.hg",
    "--glob=!.svn",
)


class Ended(NamedTuple):
    status: int
    stderr: str
    timed_out: bool = False
    dropped: int = 0
    """Number of messages that were too long."""


def ripgrep(context: ToolContext) -> str | None:
    """The program `rg` on the tools' PATH, outside the working folders."""
    path = context.place.environment.get("PATH", "")
    return find_program("rg", (context.place.cwd, *context.place.roots), path=path)


async def search(
    rg: str | None,
    root: Path,
    take: Callable[[bytes], bool],
    pattern: str | None = None,
    ignore_case: bool = False,
    context: int = 0,
) -> Ended:
    """Passes the path of each file below `root` to `take`; with a pattern, messages as those of
    `rg --json`. Ends early where that returns False.

    Raises: OSError if no program can be started; CancelledError, after it was killed.
    """
    question, options = b"", ["--files", "--null"]
    if pattern is not None:
        case = "--ignore-case" if ignore_case else "--case-sensitive"
        options = ["--json", "--crlf", "--no-mmap", f"--context={context}", case]
        options.append(f"--regexp={pattern}")
    argv = [rg or "", *_COMMON, *options, "--", str(root)]
    if not rg:
        argv, folder = [*_PYTHON, search_worker.__file__], os.fsencode(root).hex()
        words = {"pattern": pattern, "ignore_case": ignore_case, "context": context}
        question = json.dumps({"root": folder, **words}).encode()
    timed_out, dropped, stderr = False, 0, b""
    async with open_program(ProcessTree(), argv, _environment()) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await feed(process.stdin, question)
                separator = b"\0" if pattern is None else b"\n"
                dropped = await _split(process.stdout, separator, take)
                stderr = await process.stderr.read(65536)
        except TimeoutError:
            timed_out = True
    return Ended(process.returncode or 0, stderr.decode(errors="replace"), timed_out, dropped)


async def _split(
    stream: asyncio.StreamReader, separator: bytes, take: Callable[[bytes], bool]
) -> int:
    """Splits the output at the separator, in bounded memory; returns how many pieces it dropped."""
    rest, dropped, is_dropping = b"", 0, False
    while data := await stream.read(262_144):
        *pieces, rest = (rest + data).split(separator)
        if pieces and is_dropping:
            del pieces[0]
            is_dropping = False
        if not all(map(take, pieces)):
            return dropped
        if is_dropping or len(rest) > MAX_PIECE_BYTES:
            dropped += not is_dropping
            is_dropping, rest = True, b""
    return dropped


# -P: without it the working directory could shadow modules of the standard library.
_PYTHON = (sys.executable, "-P")


def _environment() -> dict[str, str]:
    """The variables of such a process: none of the person's."""
    package_parent = str(Path(real_path(__file__)).parents[2])
    return {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "PYTHONPATH": package_parent}


# Hostile input must not fill the machine; not every system can limit that.
_LIMITED = ("/bin/sh", "-c", 'ulimit -t 30; ulimit -v 1048576 2>/dev/null; exec "$@"', "sh")


async def ask(script: str, question: bytes) -> bytes | None:
    """Runs a self-contained file of kode with `question` on stdin, with limits of processor time
    and memory; returns its stdout, or None if it failed. The process has always ended when this
    returns or raises.

    Raises: OSError if it cannot be started.
    """
    argv = (*_LIMITED, *_PYTHON, script)
    async with open_program(ProcessTree(), argv, _environment()) as process:
        answer, _ = await process.communicate(question)
    return answer if process.returncode == 0 else None


@functools.lru_cache(maxsize=64)
def _compile_glob(pattern: str) -> re.Pattern[str]:
    """Compiles a glob to a regular expression that matches whole relative paths.

    Raises: ToolError for unbalanced braces and brackets, and for too many alternatives.
    """
    from wcmatch import glob

    # Without escaped characters and sets.
    rest = re.sub(r"(?s)\\.|\[[!^]?.[^]]*\]", "", pattern)
    fault = "a bracket is not closed" if "[" in rest else ""
    if rest.count("{") > rest.count("}"):
        fault = "a brace is not closed"
    # Drops a brace around one alternative, as ripgrep does.
    anchored = re.sub(r"(?<!\\)\{([^{},]*)\}", r"\1", pattern).removeprefix("./")
    flags = glob.GLOBSTAR | glob.BRACE | glob.DOTGLOB | glob.FORCEUNIX | glob.CASE
    if "/" not in anchored.rstrip("/"):
        flags |= glob.MATCHBASE
    try:
        expressions, _ = glob.translate(anchored.strip("/"), flags=flags)
        expression = re.compile("|".join(expressions))
    except Exception as error:  # wcmatch's exception for too many alternatives is private
        fault = str(error)
    if fault:
        raise ToolError(
            f"{pattern!r} is not a glob: {fault}. Use patterns such as *.py or src/**/*.ts."
        )
    return expression


def matches(pattern: str, path: str) -> bool:
    """Whether a relative path matches the glob; a leading `!` negates. Raises: ToolError."""
    glob = _compile_glob(pattern.removeprefix("!"))
    return (glob.fullmatch(path) is None) == pattern.startswith("!")
