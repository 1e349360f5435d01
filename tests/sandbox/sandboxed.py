"""Runs commands in a sandbox of a chosen kind, and says what came of it."""

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from kode.git import git_folders
from kode.sandbox.attempt import Attempt
from kode.sandbox.reach import Grants
from kode.sandbox.sandbox import Sandbox
from kode.sandbox.trial import find_fault
from kode.tools import processes
from tests.workplaces import workplace

Kind = Literal["layered", "plain", "landlock"]

KINDS: tuple[Kind, ...] = ("layered", "plain", "landlock")

MARK = processes.new_mark()

SOURCES = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str
    blocked: tuple[str, ...] = ()
    changes: tuple[tuple[str, str, str], ...] = ()
    """Relative path, what was done, what git ignores that it is in."""


def fault(sandbox: Sandbox, kind: Kind) -> str:
    """Why a kind of sandbox is not to be had here; "" where it holds."""
    return find_fault(sandbox, kind)


def begun(sandbox: Sandbox, kind: Kind) -> Attempt:
    return sandbox.begin(kind=kind)


def ran(wrapped: Attempt, cwd: Path, environment: dict[str, str] | None = None) -> Done:
    """Runs to the end of the command and of all it started."""
    process = None
    try:
        process = subprocess.Popen(
            wrapped.argv,
            cwd=cwd,
            env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **(environment or {})}
            | processes.mark_environment(MARK),
            pass_fds=wrapped.descriptors,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        out, err = process.communicate(timeout=60)
    finally:
        if process is not None:  # as the shell tool does: bubblewrap takes a moment longer
            processes.ProcessTree(MARK).kill()
        wrapped.settle()
    return Done(process.returncode, out, err)


def attempted_in(sandbox: Sandbox, kind: Kind, text: str, *, apply: bool = False) -> Done:
    """A bash command, and what it hit and changed. `apply`: makes real what it changed."""
    attempt = begun(sandbox, kind)
    try:
        done = ran(attempt.wrap(("/bin/bash", "-c", text)), sandbox.place.cwd)
        changes = attempt.changes()
        if apply:
            attempt.apply(changes)
    finally:
        attempt.close()
    root = sandbox.place.cwd
    found = tuple(
        (os.path.relpath(one.path, root), one.change, one.ignored.removeprefix(f"{root}/"))
        for one in changes
    )
    return replace(
        done,
        blocked=tuple(hit.words for hit in attempt.blocked(done.out + done.err)),
        changes=found,
    )


@dataclass(frozen=True)
class Run:
    """Runs a bash command in one kind of sandbox, in one home."""

    kind: Kind
    home: Path
    work: Path
    more: dict[str, Any] = field(default_factory=dict)

    def __call__(self, text: str, *, apply: bool = False) -> Done:
        made = opened(self.home, self.work, **self.more)
        return attempted_in(made, self.kind, text, apply=apply)

    def python(self, text: str) -> str:
        """A command line that runs Python code."""
        return f"{shlex.quote(os.path.realpath(sys.executable))} -I -c {shlex.quote(text)}"


def opened(
    home: Path,
    work: Path,
    *,
    network: bool = False,
    read: Sequence[str] = (),
    roots: tuple[Path, ...] = (),
    elsewhere: tuple[Path, ...] = (),
    readable: tuple[Path, ...] = (),
    denied: Callable[[str], bool] = lambda path: False,
) -> Sandbox:
    kode_home = home / ".kode"
    place = workplace(
        work,
        user_home=home,
        roots=(work, *roots),
        protected=(kode_home, *elsewhere),
        readable=readable,
        git=git_folders((work, *roots)),
    )
    return Sandbox(
        place=place, grants=Grants(network=network, read=tuple(map(Path, read))), denied=denied
    )


def end_of_all(text: str, within_s: float = 10.0) -> bool:
    """Whether every process with this text in its argument list ends within a while."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        if text not in running():
            return True
        time.sleep(0.02)
    return False


def running() -> str:
    """The argument lists of all processes."""
    texts = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            texts.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return "\n".join(texts)
