"""Records the system calls of a real process, and kills it or fails it at a chosen one.

Only the calls that change files are looked at, and only below the folders that are asked for.
What a recording means for a disk is `power_cut.py`'s business.
"""

import functools
import os
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.needs import lacking, skip_without

WRITING = (
    "write pwrite64 writev ftruncate truncate rename renameat renameat2 unlink unlinkat "
    "mkdir mkdirat rmdir link linkat fsync fdatasync openat"
).split()
"""What may change a file or a folder, or make a change last."""

_LINE = re.compile(r"^(\d+)\s+(\w+)\((.*)\)\s+= (-?\d+|\?)(?:<[^>]*>)?(?:\s.*)?$", re.DOTALL)
_UNFINISHED = re.compile(r"^(\d+)\s+(\w+)\((.*?)\s*<unfinished \.\.\.>$", re.DOTALL)
_RESUMED = re.compile(r"^(\d+)\s+<\.\.\. (\w+) resumed>(.*)$", re.DOTALL)
_TOKEN = re.compile(r'"((?:\\x[0-9a-f]{2})*)"|(AT_FDCWD|-?\d+)<((?:\\x[0-9a-f]{2}|[^>])*)>')
_FLAGS = re.compile(r"\bO_[A-Z_|O]+")


@dataclass(frozen=True)
class Call:
    """One system call that succeeded, in the order of the recording."""

    pid: int
    name: str
    count: int
    """The how-manieth call of this name by this thread: what strace's `when=` counts."""
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


@functools.cache
def why_not() -> str:
    """Why processes cannot be traced here; "" where they can."""
    if os.uname().sysname != "Linux":
        return f"strace needs Linux, and this is {os.uname().sysname}"
    tried = subprocess.run(
        ["strace", "-f", "-o", "/dev/null", "-e", "inject=fsync:signal=KILL", "true"],
        capture_output=True,
        text=True,
    )
    return (
        "" if tried.returncode == 0 else f"strace cannot trace here: {tried.stderr.strip()[:200]}"
    )


def needed() -> None:
    """Skips the test, with the reason, where processes cannot be traced."""
    skip_without("strace")
    if why := why_not():
        lacking("strace", why)


def record(
    argv: Sequence[str],
    *,
    environ: Mapping[str, str],
    cwd: Path,
    killed_at: tuple[str, int] | None = None,
    timeout_s: float = 60.0,
) -> tuple[list[Call], "subprocess.CompletedProcess[bytes]"]:
    """Runs a command to its end, or to the call it is killed at, and returns what it did to files,
    standard output included."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace"
        done = subprocess.run(
            recording(argv, trace, killed_at=killed_at),
            env=dict(environ),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
        )
        return parse(trace.read_text(encoding="ascii", errors="replace")), done


def recording(
    argv: Sequence[str], trace: Path, *, killed_at: tuple[str, int] | None = None
) -> list[str]:
    """The command line that runs `argv` and writes its calls to `trace`, for `parse`."""
    prefix = ["strace", "-f", "-qq", "-y", "-xx", "-s", "10000000"]
    if killed_at is None:
        prefix.append("--seccomp-bpf")
    else:
        prefix += ["-e", f"inject={killed_at[0]}:signal=KILL:when={killed_at[1]}"]
    prefix += ["-e", "signal=none", "-e", f"trace={','.join([*WRITING, 'lseek'])}"]
    return [*prefix, "-o", str(trace), *argv]


def injected(
    argv: Sequence[str],
    call: str,
    fault: str,
    when: int | str,
    *,
    threads: bool = True,
    trace: Path = Path("/dev/null"),
) -> list[str]:
    """The command line that runs `argv` with a fault (`signal=KILL`, `error=EIO`) at a call, of
    whichever thread or child comes to it; without `threads` of the first thread alone. The calls
    are written to `trace`."""
    inject = f"inject={call}:{fault}:when={when}"
    # Not --seccomp-bpf: with it strace 6.1 loses the signals it is to inject.
    prefix = ["strace", *(["-f"] if threads else []), "-qq", "-s", "0", "-o", str(trace)]
    return [*prefix, "-e", "signal=none", "-e", f"trace={call}", "-e", inject, *argv]


def descriptors_hit(trace: Path) -> set[int]:
    """The descriptors whose calls were given the fault, by the trace of a command line that
    `injected` made."""
    begun: dict[str, int] = {}
    hit = set()
    for line in trace.read_text(encoding="ascii", errors="replace").splitlines():
        thread = line.partition(" ")[0]
        if number := re.search(r"\w\((\d+)", line):
            begun[thread] = int(number[1])
        if "(INJECTED)" in line:
            hit.add(begun[thread])
    return hit


def kill_points(calls: Sequence[Call], roots: Sequence[Path]) -> list[tuple[str, int]]:
    """(name, count) of every call that changes something below `roots`, in order, once each."""
    points: dict[tuple[str, int], None] = {}
    for call in calls:
        if changes_files(call) and below(call, roots):
            points[(call.name, call.count)] = None
    return list(points)


def changes_files(call: Call) -> bool:
    return call.name != "lseek" and (call.name != "openat" or "O_CREAT" in call.flags)


def below(call: Call, roots: Sequence[Path]) -> bool:
    return any(
        path.startswith(f"{root}/") or path == str(root) for path in call.paths for root in roots
    )


def parse(text: str) -> list[Call]:
    """The calls of a recording that succeeded; counts are of all, as strace counts them."""
    counts: Counter[tuple[int, str]] = Counter()
    begun: dict[int, tuple[str, str, int]] = {}
    calls = []
    for line in text.splitlines():
        if match := _UNFINISHED.match(line):
            pid, name, arguments = int(match[1]), match[2], match[3]
            counts[pid, name] += 1
            begun[pid] = (name, arguments, counts[pid, name])
            continue
        if match := _RESUMED.match(line):
            name, arguments, count = begun.pop(int(match[1]))
            whole = _LINE.match(f"{match[1]} {name}({arguments}{match[3]}")
        else:
            whole = _LINE.match(line)
            if whole is None:
                continue
            counts[int(whole[1]), whole[2]] += 1
            count = counts[int(whole[1]), whole[2]]
        if whole is None or whole[4] == "?" or int(whole[4]) < 0:
            continue
        calls.append(_call(int(whole[1]), whole[2], count, whole[3], int(whole[4])))
    return calls


def _call(pid: int, name: str, count: int, arguments: str, returned: int) -> Call:
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
            return Call(pid, name, count, (fds[0][1],), fd, strings[0][:returned])
        case "writev":
            return Call(pid, name, count, (fds[0][1],), fd, b"".join(strings)[:returned])
        case "pwrite64":
            offset = int(numbers[-1])
            return Call(pid, name, count, (fds[0][1],), fd, strings[0][:returned], offset)
        case "ftruncate":
            return Call(pid, name, count, (fds[0][1],), fd, size=int(numbers[-1]))
        case "lseek":
            return Call(pid, name, count, (fds[0][1],), fd, offset=returned)
        case "fsync" | "fdatasync":
            return Call(pid, name, count, (fds[0][1],), fd)
    flags = _FLAGS.search(arguments)
    size = int(numbers[-1]) if name == "truncate" else 0
    opened = returned if name == "openat" else None
    return Call(pid, name, count, tuple(paths), opened, size=size, flags=flags[0] if flags else "")


def _bytes(escaped: str) -> bytes:
    return bytes.fromhex(escaped.replace("\\x", "")) if "\\x" in escaped else escaped.encode()
