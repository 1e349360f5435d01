"""`kode doctor --sandbox`: tries in this machine's sandbox to get out of it.

All of it happens in a temporary folder with a project, a home and keys of its own. What was
written, sent and ended is judged from outside: by the files, the sockets and the processes.
"""

import contextlib
import operator
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from kode import paths
from kode.errors import SandboxUnknownError
from kode.sandbox.reach import Grants
from kode.sandbox.sandbox import Sandbox
from kode.sandbox.trial import Try, find_broken
from kode.workplace import Workplace

TIMEOUT_S = 20.0  # the attempt takes milliseconds; a loaded machine is slow
SECRET = "a-secret-of-the-proof"
REPORT = "do not rely on it: set `sandbox.enabled` to false, and report this as a vulnerability"

PROMISES = {
    "programs": "those of the machine start",
    "project": "can be written where that is allowed",
    "temporary": "has a private folder, and not the machine's",
    "outside": "nothing written in the home, beside the project or in the machine's /tmp",
    "git": "its hooks and settings cannot be changed",
    "keys": "none read: of the project, of a home, of kode, of another process",
    "network": "nothing reached by TCP, UDP or a unix socket",
    "processes": "no other can be ended",
    "children": "nor can what a command leaves behind in a session of its own",
}


@dataclass(frozen=True)
class Proof:
    what: str
    state: Literal["ok", "missing", "optional"]
    """Whether it holds; `optional` where this kind of sandbox does not promise it."""
    detail: str
    next_step: str = ""


def prove() -> Iterator[Proof]:
    """Tries one promise of the sandbox after the other, and yields whether it holds."""
    with contextlib.ExitStack() as stack:
        folder = paths.real_path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kode-")))
        sandbox = _furnish(Path(folder))
        stack.callback(sandbox.close)
        try:
            support = sandbox.support()
        except SandboxUnknownError as error:
            yield Proof("sandbox", "missing", str(error))
            return
        if support.kind == "none":
            yield Proof("sandbox", "missing", f"none on this machine: {support.why}")
            return
        yield Proof("sandbox", "ok", "; ".join((support.kind, *support.gaps)))
        tries = _list_tries(sandbox, stack)
        faults, untried = {what: list[str]() for what in PROMISES}, ""
        for detached in (False, True):
            try:
                broken = find_broken(sandbox, support.kind, tries, (TIMEOUT_S,), detached=detached)
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                untried = f"could not be tried ({error})"
                break
            for each in broken:
                faults["children" if detached else each.promise].append(each.fault)
            tries = [each for each in tries if each.promise not in ("programs", "project", "git")]
        for what, promise in PROMISES.items():
            if what == "git" and support.kind == "landlock":
                why = "can be changed by a server that may write in the project"
                yield Proof(what, "optional", why)
            elif untried or faults[what]:
                yield Proof(what, "missing", f"it {', '.join(faults[what]) or untried}", REPORT)
            else:
                yield Proof(what, "ok", promise)


def _furnish(folder: Path) -> Sandbox:
    """A sandbox for a project, a home and a folder of kode in a new folder. Raises: OSError."""
    project, home, kode = folder / "project", folder / "home", folder / "kode"
    for path in (project / ".git" / "hooks", home / ".ssh", kode):
        path.mkdir(parents=True)
    place = Workplace(
        cwd=project,
        project=project,
        roots=(project,),
        home=kode,
        protected=(kode,),
        outputs=kode / "outputs",
        user_home=home,
    )
    return Sandbox(place=place, grants=Grants(project=True), has_layers=False)


def _list_tries(sandbox: Sandbox, stack: contextlib.ExitStack) -> list[Try]:
    """What is tried, with what it is tried on. Raises: OSError."""
    project, kode = sandbox.place.project, sandbox.place.home
    folder, home, git = project.parent, sandbox.place.user_home, project / ".git"
    inside = sandbox.temporary_inside(sandbox.support().kind)
    planted = Path(tempfile.gettempdir(), f"{folder.name}-planted")
    stack.callback(planted.unlink, missing_ok=True)
    keys = (project / ".env", home / ".ssh" / "id_ed25519", kode / "config.json")
    file, config = folder / "file", git / "config"
    for path in (planted, file, config, *keys):
        path.write_text(SECRET)
    command = (sys.executable, "-I", "-S", "-c", "input()")
    environment = {"KEY": SECRET}
    bystander = stack.enter_context(
        subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
    )
    stack.callback(bystander.kill)
    tries = [
        Try("starts none", ("start", "/bin/true"), operator.not_, "programs"),
        Try("cannot write there", ("write", str(project)), operator.not_, "project"),
        Try("cannot write there", ("write", inside), operator.not_, "temporary"),
        Try("reads the machine's", ("read", str(planted), SECRET), bool, "temporary"),
        Try(
            "ended another process",
            ("end", bystander.pid, int(signal.SIGTERM)),
            lambda _: _ends(bystander),
            "processes",
        ),
    ]
    for key in (*keys, Path(f"/proc/{bystander.pid}/environ")):
        tries.append(Try(f"read {key}", ("read", str(key), SECRET), bool, "keys"))
    around = (folder, home, Path(tempfile.gettempdir()), paths.user_home() or folder)
    new = (*(("outside", place / f"{folder.name}-written") for place in around),
           ("git", git / "hooks" / "update"))  # fmt: skip
    for promise, path in (*new, ("outside", file), ("git", config)):
        before = path.read_text() if path.exists() else ""
        stack.callback(path.unlink, missing_ok=True)
        is_changed = partial(_is_changed, path, before)
        for act in ("append", "delete") if before else ("append",):
            tries.append(Try(f"changed {path}", (act, str(path)), is_changed, promise))
    for how, family, kind, address in (
        ("TCP", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
        ("UDP", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
        ("a unix socket", socket.AF_UNIX, socket.SOCK_STREAM, str(project / "socket")),
    ):
        listener = stack.enter_context(socket.socket(family, kind))
        listener.bind(address)
        if kind == socket.SOCK_STREAM:
            listener.listen()
        send = ("send", int(family), int(kind), listener.getsockname())
        fault = f"reached this machine by {how}"
        tries.append(Try(fault, send, partial(_has_data, listener), "network"))
    return tries


def _is_changed(path: Path, before: str, _: bool) -> bool:
    return (path.read_text() if path.exists() else "") != before


def _has_data(listener: socket.socket, _: bool) -> bool:
    return bool(select.select([listener], [], [], 0)[0])


def _ends(process: "subprocess.Popen[bytes]") -> bool:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(0.2)
        return True
    return False
