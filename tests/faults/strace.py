"""Records the system calls by which a real process changes files; what they mean for a disk is
`power_cut.py`'s business.
"""

import functools
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.faults.place import LONGEST_S, Run
from tests.needs import lacking, skip_without

TRACED = (
    "write pwrite64 writev lseek ftruncate truncate rename renameat renameat2 unlink unlinkat "
    "mkdir mkdirat rmdir link linkat fsync fdatasync openat"
).split()
"""What may change a file or a folder, or make a change last."""

_LINE = re.compile(r"^(\d+)\s+(\w+)\((.*)\)\s+= (-?\d+|\?)(?:<[^>]*>)?(?:\s.*)?$", re.DOTALL)
_UNFINISHED = re.compile(r"^(\d+)\s+(\w+)\((.*?)\s*<unfinished \.\.\.>$", re.DOTALL)
_RESUMED = re.compile(r"^(\d+)\s+<\.\.\. \w+ resumed>(.*)$", re.DOTALL)
_TOKEN = re.compile(r'"((?:\\x[0-9a-f]{2})*)"|(AT_FDCWD|-?\d+)<((?:\\x[0-9a-f]{2}|[^>])*)>')
_FLAGS = re.compile(r"\bO_[A-Z_|O]+")


@dataclass(frozen=True)
class Call:
    """One system call that succeeded, in the order of the recording."""

    pid: int
    name: str
    paths: tuple[str, ...]
    """Absolute paths it is about: the file, or (old, new)."""
    fd: int | None = None
    data: bytes = b""
    """What was written."""
    offset: int | None = None
    """Of a write at a place; None at the end or where the last one ended."""
    size: int = 0
    """Of a truncation."""
    flags: str = ""
    """Of an open."""


def needed() -> None:
    """Skips the test, with the reason, where processes cannot be traced."""
    skip_without("strace")
    if why := _why_not():
        lacking("strace", why)


@functools.cache
def _why_not() -> str:
    """Why processes cannot be traced here; "" where they can."""
    tried = subprocess.run(
        ["strace", "-f", "-o", "/dev/null", "true"], capture_output=True, text=True
    )
    return "" if tried.returncode == 0 else f"it cannot trace here: {tried.stderr.strip()[:200]}"


def record(line: Sequence[str], *, environ: Mapping[str, str], cwd: Path) -> tuple[list[Call], Run]:
    """Runs a command line to its end, and returns what it did to files, standard output
    included."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace"
        flags = ["-f", "-qq", "-y", "-xx", "-s", "10000000", "--seccomp-bpf", "-e", "signal=none"]
        done = subprocess.run(
            ["strace", *flags, "-e", f"trace={','.join(TRACED)}", "-o", str(trace), *line],
            env=dict(environ),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
        )
        text = trace.read_text(encoding="ascii", errors="replace")
        return parse(text), Run(done.returncode, done.stdout, done.stderr)


def parse(text: str) -> list[Call]:
    """The calls of a recording that succeeded, in the order in which they ended."""
    begun: dict[str, str] = {}
    calls = []
    for line in text.splitlines():
        if match := _UNFINISHED.match(line):
            begun[match[1]] = f"{match[2]}({match[3]}"
            continue
        if match := _RESUMED.match(line):
            line = f"{match[1]} {begun.pop(match[1])}{match[2]}"
        whole = _LINE.match(line)
        if whole is not None and whole[4] != "?" and int(whole[4]) >= 0:
            calls.append(_call(int(whole[1]), whole[2], whole[3], int(whole[4])))
    return calls


def _call(pid: int, name: str, arguments: str, returned: int) -> Call:
    strings, fds, paths = [], [], []
    base = "/"
    for token in _TOKEN.finditer(arguments):
        if token[2] is None:
            strings.append(_bytes(token[1]))
            paths.append(os.path.normpath(os.path.join(base, os.fsdecode(strings[-1]))))
        else:
            base = os.fsdecode(_bytes(token[3]))
            fds.append((token[2], base))
    fd = int(fds[0][0]) if fds and fds[0][0] != "AT_FDCWD" else None
    numbers = [part.strip() for part in re.sub(_TOKEN, "", arguments).split(",")]
    match name:
        case "write":
            return Call(pid, name, (fds[0][1],), fd, strings[0][:returned])
        case "writev":
            return Call(pid, name, (fds[0][1],), fd, b"".join(strings)[:returned])
        case "pwrite64":
            offset = int(numbers[-1])
            return Call(pid, name, (fds[0][1],), fd, strings[0][:returned], offset)
        case "ftruncate":
            return Call(pid, name, (fds[0][1],), fd, size=int(numbers[-1]))
        case "lseek":
            return Call(pid, name, (fds[0][1],), fd, offset=returned)
        case "fsync" | "fdatasync":
            return Call(pid, name, (fds[0][1],), fd)
    flags = _FLAGS.search(arguments)
    size = int(numbers[-1]) if name == "truncate" else 0
    opened = returned if name == "openat" else None
    return Call(pid, name, tuple(paths), opened, size=size, flags=flags[0] if flags else "")


def _bytes(escaped: str) -> bytes:
    return bytes.fromhex(escaped.replace("\\x", "")) if "\\x" in escaped else escaped.encode()
