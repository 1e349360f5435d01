"""Runs commands in a sandbox of a chosen kind, as this user or another, and says what came of it.

As a program (`python -m tests.sandbox.sandboxed`, with the arguments of `attempted` as JSON on its
standard input) it is how a test runs one as another user.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from kode.git import git_folders
from kode.sandbox.attempt import Attempt
from kode.sandbox.reach import Grants
from kode.sandbox.sandbox import Sandbox
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
    return sandbox.fault(
        "landlock" if kind == "landlock" else "bubblewrap", layered=kind == "layered"
    )


def begun(sandbox: Sandbox, kind: Kind) -> Attempt:
    return sandbox.attempt(
        "landlock" if kind == "landlock" else "bubblewrap", layered=kind == "layered"
    )


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


def attempted(
    home: Path,
    work: Path,
    kind: Kind,
    text: str,
    *,
    apply: bool = False,
    network: bool = False,
    read: Sequence[str] = (),
    denied: Callable[[str], bool] = lambda path: False,
) -> Done:
    """A bash command in a sandbox of its own, and what it hit and changed. `apply`: makes real what
    it changed."""
    return attempted_in(
        opened(home, work, network=network, read=read, denied=denied), kind, text, apply=apply
    )


def attempted_in(sandbox: Sandbox, kind: Kind, text: str, *, apply: bool = False) -> Done:
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
class User:
    """Who runs the sandbox."""

    uid: int
    gid: int
    python: str
    """An interpreter that this user may read."""
    sources: Path = SOURCES
    """A folder with `kode` and this module that this user may read."""

    def popen(self, argv: list[str], **more: Any) -> "subprocess.Popen[Any]":
        return subprocess.Popen(argv, **self.identity(), **more)

    def identity(self) -> dict[str, Any]:
        """What makes a process that `subprocess` starts theirs."""
        if self.uid == os.getuid():
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def owns(self, *paths: Path) -> None:
        if self.uid != os.getuid():
            for path in paths:
                os.chown(path, self.uid, self.gid, follow_symlinks=False)


MYSELF = User(os.getuid(), os.getgid(), sys.executable)


def ordinary_user(sources: Path) -> User | str:
    """An ordinary user of this machine who reads `sources`, or why there is none to test as."""
    if os.getuid() != 0:
        return "only root becomes one"
    for python in ("/usr/bin/python3", "/usr/local/bin/python3"):
        user = User(54321, 54321, python, sources)
        done = subprocess.run(
            [python, "-c", "import sys, kode.sandbox; assert sys.version_info >= (3, 11)"],
            cwd="/", env={"PYTHONPATH": str(sources)}, capture_output=True, check=False,
            **user.identity(),
        ) if os.access(python, os.X_OK) else None  # fmt: skip
        if done is not None and done.returncode == 0:
            return user
    return "no Python 3.11 that every user may read: apt install python3"


def copy_sources(folder: Path) -> None:
    """Copies what another user needs to run this module, readable by all, wherever these sources
    lie."""
    shutil.copytree(SOURCES / "kode", folder / "kode")
    for name in (
        "tests/__init__.py",
        "tests/workplaces.py",
        "tests/sandbox/__init__.py",
        "tests/sandbox/sandboxed.py",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(SOURCES / name, folder / name)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


@dataclass(frozen=True)
class Run:
    """Runs a bash command in one kind of sandbox, as one user, in one home."""

    kind: Kind
    home: Path
    work: Path
    user: User = MYSELF
    more: dict[str, Any] = field(default_factory=dict)

    def __call__(self, text: str, *, apply: bool = False) -> Done:
        if self.user.uid == os.getuid():
            return attempted(self.home, self.work, self.kind, text, apply=apply, **self.more)
        given = {"home": str(self.home), "work": str(self.work), "kind": self.kind, "text": text,
                 "apply": apply, **self.more}  # fmt: skip
        said = self._as_user(given)
        return Done(
            said["code"],
            said["out"],
            said["err"],
            tuple(said["blocked"]),
            tuple((path, change, ignored) for path, change, ignored in said["changes"]),
        )

    def fault(self) -> str:
        """Why this kind does not hold for this user here."""
        if self.user.uid == os.getuid():
            return fault(opened(self.home, self.work), self.kind)
        given = {"home": str(self.home), "work": str(self.work), "kind": self.kind}
        return str(self._as_user(given)["fault"])

    def python(self, text: str) -> str:
        """A command line that runs Python code."""
        return f"{shlex.quote(os.path.realpath(self.user.python))} -I -c {shlex.quote(text)}"

    def _as_user(self, given: dict[str, Any]) -> dict[str, Any]:
        done = subprocess.run(
            [self.user.python, "-m", "tests.sandbox.sandboxed"],
            cwd=self.user.sources, input=json.dumps(given), timeout=100,
            text=True, capture_output=True,
            env={"PATH": os.environ["PATH"], "HOME": str(self.home)},
            check=False, **self.user.identity(),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        said = json.loads(done.stdout)
        assert isinstance(said, dict)
        return said


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


def main() -> None:
    given = json.loads(sys.stdin.read())
    home, work = Path(given.pop("home")), Path(given.pop("work"))
    if "text" in given:
        print(json.dumps(asdict(attempted(home, work, **given))))
    else:
        print(json.dumps({"fault": fault(opened(home, work), given["kind"])}))


if __name__ == "__main__":
    main()
