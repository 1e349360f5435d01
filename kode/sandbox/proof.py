"""`kode doctor --sandbox`: runs commands in this machine's sandbox that try to get out of it.

All of it happens in a temporary folder with a project, a home and keys of its own. What a command
could do is judged from outside: by the files, the sockets and the processes that it was after.
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from kode import paths
from kode.errors import SandboxUnknownError
from kode.sandbox.sandbox import Sandbox
from kode.sandbox.support import run_attempt
from kode.workplace import Workplace

TIMEOUT_S = 20.0  # each attempt takes milliseconds; a loaded machine is slow
SECRET = "a-secret-of-the-proof"
REPORT = "do not rely on it: set `sandbox.enabled` to false, and report this as a vulnerability"

_TRY = """
import json, os, socket, sys

def read(path):
    print(open(path, errors="replace").read())

def write(path):
    open(path, "a").write("x")

def reach(family, kind, address):
    with socket.socket(family, kind) as client:
        client.settimeout(2)
        client.connect(tuple(address) if isinstance(address, list) else address)
        client.send(b"x")

for _ in range(2 if sys.argv[2:] else 0):
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        os._exit(0)
    os.setsid()
for name, *arguments in json.loads(sys.argv[1]):
    try:
        {"delete": os.unlink, "end": os.kill}.get(name, globals().get(name))(*arguments)
    except OSError as error:
        print(error)
sys.stdout.flush()
"""
"""Tries each [name, *arguments] of a JSON list; with a second argument, in a session of its own."""


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
Faults = dict[str, list[str]]
"""One of `PROMISES` → what a command did against it."""


@dataclass(frozen=True)
class Proof:
    what: str
    state: Literal["ok", "missing", "optional"]
    """Whether it holds; `optional` where this kind of sandbox does not promise it."""
    detail: str
    next_step: str = ""


class Scene:
    """A sandbox, and what its commands must not get at."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        """Fills a new folder. Raises: OSError."""
        self.folder, self.project, self.file = folder, folder / "project", folder / "file"
        self.git = self.project / ".git" / "config"
        home, kode = folder / "home", folder / "kode"
        for path in (self.git.with_name("hooks"), home / ".ssh", kode):
            path.mkdir(parents=True)
        for path in (self.git, self.file):  # the file is outside of the project
            path.write_text(SECRET)
        self.keys = [self.project / ".env", home / ".ssh" / "id_ed25519", kode / "config.json"]
        """Files that contain `SECRET` and their place in this list."""
        for number, key in enumerate(self.keys):
            key.write_text(f"KEY={SECRET}{number}\n")
        command = (sys.executable, "-I", "-S", "-c", "input()")
        environment = {"KEY": f"{SECRET}{len(self.keys)}"}
        self.bystander = stack.enter_context(
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
            )
        )
        stack.callback(self.bystander.kill)
        self.keys.append(Path(f"/proc/{self.bystander.pid}/environ"))
        place = Workplace(
            cwd=self.project,
            project=self.project,
            roots=(self.project,),
            home=kode,
            protected=(kode,),
            outputs=kode / "outputs",
            user_home=home,
        )
        self.sandbox = Sandbox(place=place, writable=True, has_layers=False)
        ground = self.sandbox.ground
        self.sandbox.ground = replace(ground, homes=(*ground.homes, home))
        stack.callback(self.sandbox.close)
        self.listeners = dict[str, socket.socket]()
        """How to reach it → a socket that waits."""
        for how, family, kind, address in (
            ("TCP", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
            ("UDP", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
            ("a unix socket", socket.AF_UNIX, socket.SOCK_STREAM, str(self.project / "socket")),
        ):
            listener = self.listeners[how] = stack.enter_context(socket.socket(family, kind))
            listener.bind(address)
            if kind == socket.SOCK_STREAM:
                listener.listen()
        places = (folder, home, Path(tempfile.gettempdir()), paths.user_home() or folder)
        self.outside = [place / f"{folder.name}-written" for place in places]
        """Files that are not there, in places that the user may write."""

    def run(self, *argv: str) -> str:
        """The output of a command in the sandbox. Raises: OSError, TimeoutExpired."""
        attempt = self.sandbox.begin()
        environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.folder)}
        done = run_attempt(attempt, argv, TIMEOUT_S, cwd=self.project, env=environment)
        return done.stdout + done.stderr


def prove() -> Iterator[Proof]:
    """Tries one promise of the sandbox after the other, and yields whether it holds."""
    with contextlib.ExitStack() as stack:
        folder = paths.real_path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kode-")))
        scene = Scene(Path(folder), stack)
        try:
            support = scene.sandbox.support()
        except SandboxUnknownError as error:
            yield Proof("sandbox", "missing", str(error))
            return
        if support.kind == "none":
            yield Proof("sandbox", "missing", f"none on this machine: {support.why}")
            return
        yield Proof("sandbox", "ok", "; ".join((support.kind, *support.gaps)))
        faults, untried = Faults(), ""
        for check in (_use, _escape, _leave_child):
            try:
                faults |= check(scene)
            except (OSError, subprocess.SubprocessError) as error:
                untried = f"could not be tried ({error})"
        for what, promise in PROMISES.items():
            if what == "git" and support.kind == "landlock":
                yield Proof(
                    what, "optional", "can be changed by a server that may write in the project"
                )
            elif wrong := faults.get(what, [untried]):
                yield Proof(what, "missing", f"it {', '.join(wrong)}", REPORT)
            else:
                yield Proof(what, "ok", promise)


def _use(scene: Scene) -> Faults:
    """What a command may do, and that it shares no temporary folder."""
    planted = Path(tempfile.gettempdir(), f"{scene.folder.name}-planted")
    planted.write_text(SECRET)
    command = (
        "ls -d /usr && echo started; mkdir sub && mv sub moved;"
        'echo own > "$TMPDIR/own" && cat "$TMPDIR/own"; cat "$0"'
    )
    try:
        output = scene.run("/bin/sh", "-c", command, str(planted))
    finally:
        planted.unlink()
    fault = f"failed: {output[-300:]!r}"
    temporary = [] if "own\n" in output else [fault]
    temporary += ["read a file of the machine's"] if SECRET in output else []
    temporary += ["wrote in the machine's"] if (planted.parent / "own").exists() else []
    return {
        "programs": [] if "started\n" in output else [fault],
        "project": [] if (scene.project / "moved").is_dir() else [fault],
        "temporary": temporary,
    }


def _escape(scene: Scene, *session: str) -> Faults:
    """Tries all that a command must not do, in a session of its own if that has a name."""
    sockets, hook = scene.listeners.values(), scene.git.with_name("hooks") / "update"
    acts: list[Sequence[Any]] = [("read", key) for key in scene.keys]
    acts += [("write", path) for path in (*scene.outside, scene.file, scene.git, hook)]
    acts += [("reach", it.family, it.type, it.getsockname()) for it in sockets]
    acts += [("delete", path) for path in (scene.file, scene.git)]
    acts += [("end", scene.bystander.pid, signal.SIGTERM)]
    script = ("-I", "-S", "-c", _TRY, json.dumps(acts, default=str), *session)
    output = scene.run(paths.real_path(sys.executable), *script)
    written = [f"wrote {path}" for path in scene.outside if path.exists()]
    for path in scene.outside:
        path.unlink(missing_ok=True)
    written += [f"changed {scene.file}"] if _is_changed(scene.file) else []
    git = ["changed what git runs"] if hook.exists() or _is_changed(scene.git) else []
    keys = [f"read {key}" for n, key in enumerate(scene.keys) if f"{SECRET}{n}" in output]
    hit = select.select(list(sockets), [], [], 0)[0]
    reached = [f"reached this machine by {how}" for how, it in scene.listeners.items() if it in hit]
    faults = {"outside": written, "git": git, "keys": keys, "network": reached, "processes": []}
    with contextlib.suppress(subprocess.TimeoutExpired):
        scene.bystander.wait(0.2)
        faults["processes"] = ["ended another process"]
    return faults


def _leave_child(scene: Scene) -> Faults:
    faults = _escape(scene, "detached")
    return {"children": [*chain(*(faults[what] for what in faults if what != "git"))]}


def _is_changed(path: Path) -> bool:
    return not path.exists() or path.read_text() != SECRET
