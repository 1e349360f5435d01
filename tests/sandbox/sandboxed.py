"""Runs commands in a sandbox of a chosen kind, and says what came of it."""

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from kode.git import git_folders
from kode.sandbox.reach import Grants, Interest
from kode.sandbox.sandbox import Attempt, Sandbox
from kode.tool import FileChange
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
    changes: Mapping[str, FileChange] = field(default_factory=dict)
    """By the path in the project; what git ignores is relative too."""


def ran(wrapped: Attempt, cwd: Path, environment: dict[str, str] | None = None) -> Done:
    """Runs to the end of the command and of all it started."""
    variables = {name: os.environ[name] for name in ("PATH", "HOME")} | (environment or {})
    try:
        done = subprocess.run(
            wrapped.argv,
            cwd=cwd,
            env=variables | processes.mark_environment(MARK),
            pass_fds=wrapped.descriptors,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            start_new_session=True,
            timeout=60,
            check=False,
        )
    finally:  # as the shell tool does: bubblewrap takes a moment longer
        processes.ProcessTree(MARK).kill()
        wrapped.settle()
    return Done(done.returncode, done.stdout, done.stderr)


@dataclass(frozen=True)
class Run:
    """Runs commands, bash or an argument list, in one kind of a sandbox."""

    kind: Kind
    made: Sandbox

    @property
    def home(self) -> Path:
        return self.made.place.home.parent

    @property
    def work(self) -> Path:
        return self.made.place.cwd

    def again(self, **more: Any) -> "Run":
        """The same kind in a sandbox opened anew, with other grants or another place."""
        return Run(self.kind, opened(self.home, more.pop("work", self.work), **more))

    @contextmanager
    def attempt(
        self,
        command: str | tuple[str, ...],
        environment: dict[str, str] | None = None,
        marked: Mapping[str, str] | None = None,
    ) -> Iterator[tuple[Attempt, Done]]:
        """A command that has run, its changes still in the copy."""
        argv = ("/bin/bash", "-c", command) if isinstance(command, str) else command
        attempt = self.made.begin(Interest(marked or {}), kind=self.kind)
        try:
            yield attempt, ran(attempt.wrap(argv), self.work, environment)
        finally:
            attempt.close()

    def __call__(self, command: str | tuple[str, ...], *, apply: bool = False) -> Done:
        """What a command printed, hit and changed. `apply`: makes real what it changed."""
        with self.attempt(command) as (attempt, done):
            changes = attempt.changes()
            if apply:
                attempt.apply(changes)
            blocked = tuple(hit.words for hit in attempt.find_blocked(done.out + done.err))
        found = {
            os.path.relpath(change.path, self.work): replace(
                change, ignored=change.ignored.removeprefix(f"{self.work}/")
            )
            for change in changes
        }
        return replace(done, blocked=blocked, changes=found)

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
    denied: Any = lambda path: False,
    **more: Any,
) -> Sandbox:
    """`more`: of the place."""
    roots = (work, *roots)
    kode = home / ".kode"
    place = workplace(work, home=kode, user_home=home, roots=roots, git=git_folders(roots), **more)
    grants = Grants(network=network, read=tuple(map(Path, read)))
    return Sandbox(place=place, grants=grants, denied=denied)


def put(root: Path, files: Mapping[str, str]) -> None:
    """Writes files, in folders that need not exist."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def bash(folder: Path, command: str) -> str:
    """What a command prints that a person runs, outside the sandbox."""
    done = subprocess.run(
        ["/bin/bash", "-ec", command], cwd=folder, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


def end_of_all(text: str) -> bool:
    """Whether every process with this text in its argument list ends within a while."""
    until = time.monotonic() + 10
    while text in running() and time.monotonic() < until:
        time.sleep(0.02)
    return text not in running()


def running() -> str:
    """The argument lists of all processes."""
    texts = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            texts.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return "\n".join(texts)
