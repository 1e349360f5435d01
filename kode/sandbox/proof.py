"""`kode doctor --sandbox`: runs commands in this machine's sandbox that try to get out of it.

All of it happens in a temporary folder with a project, a home and keys of its own. What a command
could do is judged from outside: by the files, the sockets and the processes that it was after.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kode import paths
from kode.errors import SandboxUnknownError
from kode.sandbox.sandbox import Sandbox, open_sandbox
from kode.sandbox.shared import Shared
from kode.workplace import Workplace

TIMEOUT_S = 20.0  # each attempt takes milliseconds; a loaded machine is slow
SECRET = "a-secret-of-the-proof"

_TRY = """
import json, os, signal, socket, sys
todo = json.loads(sys.argv[1])

def tried(act, *given):
    try:
        return act(*given)
    except OSError as error:
        print(error)

def read(path):
    with open(path, errors="replace") as file:
        print(file.read())

def write(path):
    with open(path, "a") as file:
        file.write("x")

def reach(family, kind, address):
    with socket.socket(family, kind) as made:
        made.settimeout(2)
        made.connect(tuple(address) if isinstance(address, list) else address)
        made.send(b"x")

for _ in range(2 if todo.get("detached") else 0):
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        os._exit(0)
    os.setsid()
for path in todo.get("read", ()):
    tried(read, path)
for path in todo.get("write", ()):
    tried(write, path)
for path in todo.get("delete", ()):
    tried(os.unlink, path)
for one in todo.get("reach", ()):
    tried(reach, *one)
for pid in todo.get("end", ()):
    tried(os.kill, pid, signal.SIGTERM)
sys.stdout.flush()
"""


@dataclass(frozen=True)
class Proof:
    what: str
    holds: bool | None
    """None where this kind of sandbox does not promise it."""
    detail: str
    next_step: str = ""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A sandbox, and what its commands must not get at."""

    sandbox: Sandbox
    folder: Path
    bystander: "subprocess.Popen[bytes]"
    listeners: Mapping[str, socket.socket]
    """How to reach it → a socket that waits."""

    @property
    def project(self) -> Path:
        return self.folder / "project"

    @property
    def keys(self) -> list[Path]:
        return [
            self.project / ".env",
            self.folder / "home" / ".ssh" / "id_ed25519",
            self.folder / "kode" / "config.json",
            Path(f"/proc/{self.bystander.pid}/environ"),
        ]

    @property
    def outside(self) -> list[Path]:
        """Files that are not there, in places that the user may write."""
        name = self.folder.name
        own, temp = paths.user_home() or self.folder, Path(tempfile.gettempdir())
        places = (self.folder, self.folder / "home", temp, own)
        return [place / f"{name}-written" for place in places]

    @property
    def addresses(self) -> list[tuple[Any, ...]]:
        return [
            (listener.family, listener.type, listener.getsockname())
            for listener in self.listeners.values()
        ]

    def run(self, *argv: str) -> str:
        """The output of a command in the sandbox. Raises: OSError, TimeoutExpired."""
        attempt = self.sandbox.attempt(self.sandbox.standing().kind, layered=False)
        wrapped = attempt.wrap(argv)
        try:
            with subprocess.Popen(
                wrapped.argv,
                cwd=self.project,
                env={"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.folder)},
                pass_fds=wrapped.descriptors,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            ) as process:
                try:
                    return process.communicate(timeout=TIMEOUT_S)[0]
                finally:
                    with contextlib.suppress(OSError):
                        os.killpg(process.pid, signal.SIGKILL)
        finally:
            wrapped.settle()
            attempt.close()

    def attack(self, **todo: Any) -> str:
        given = json.dumps(todo, default=str)
        return self.run(paths.real_path(sys.executable), "-I", "-S", "-c", _TRY, given)


def prove() -> Iterator[Proof]:
    """Tries one promise of the sandbox after the other, and yields whether it holds."""
    with contextlib.ExitStack() as stack:
        folder = paths.real_path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kode-")))
        scene = _furnished(Path(folder), stack)
        try:
            standing = scene.sandbox.standing()
        except SandboxUnknownError as error:
            yield Proof("sandbox", False, str(error))
            return
        if standing.kind == "none":
            yield Proof("sandbox", False, f"none on this machine: {standing.why}")
            return
        yield Proof("sandbox", True, "; ".join((standing.kind, *standing.gaps)))
        for what, check in CHECKS.items():
            if what == "git" and standing.kind == "landlock":
                yield Proof(what, None, NOT_OF_LANDLOCK)
                continue
            try:
                wrong = check(scene)
            except (OSError, subprocess.SubprocessError) as error:
                wrong = [f"could not be tried ({error})"]
            if wrong:
                yield Proof(what, False, f"it {', '.join(wrong)}", REPORT)
            else:
                yield Proof(what, True, HOLDS[what])


NOT_OF_LANDLOCK = "what git runs is not protected from a server that may write in the project"
REPORT = "do not rely on it: set `sandbox.enabled` to false, and report this as a vulnerability"


def _furnished(folder: Path, stack: contextlib.ExitStack) -> Scene:
    project, home, kode = folder / "project", folder / "home", folder / "kode"
    for path in (project / ".git" / "hooks", home / ".ssh", kode):
        path.mkdir(parents=True)
    (project / ".git" / "config").write_text("[core]\n")
    for key in (project / ".env", home / ".ssh" / "id_ed25519", kode / "config.json"):
        key.write_text(f"KEY={SECRET}\n")
    (folder / "kept").write_text("kept")
    place = Workplace(
        cwd=project,
        project=project,
        roots=(project,),
        home=kode,
        protected=(kode,),
        outputs=kode / "outputs",
        user_home=home,
    )
    ground = open_sandbox(place, network=False, writable=True).ground
    sandbox = Sandbox(Shared(replace(ground, homes=(*ground.homes, home))))
    stack.callback(sandbox.close)
    bystander = subprocess.Popen(
        (sys.executable, "-I", "-S", "-c", "input()"),
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"SECRET": SECRET},
    )
    stack.enter_context(bystander)
    stack.callback(bystander.kill)
    tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    udp.bind(("127.0.0.1", 0))
    unix = stack.enter_context(socket.socket(socket.AF_UNIX))
    unix.bind(str(project / "socket"))
    unix.listen()
    listeners = {"TCP": tcp, "UDP": udp, "a unix socket": unix}
    for listener in listeners.values():
        listener.setblocking(False)
    return Scene(sandbox=sandbox, folder=folder, bystander=bystander, listeners=listeners)


def _starts(scene: Scene) -> list[str]:
    said = scene.run("/bin/sh", "-c", "ls -d /usr && echo started")
    return [] if said.endswith("started\n") else [f"did not start a program: {said[-300:]!r}"]


def _project(scene: Scene) -> list[str]:
    said = scene.run("/bin/sh", "-c", "mkdir sub && echo written > sub/file && mv sub moved")
    path = scene.project / "moved" / "file"
    held = path.is_file() and path.read_text() == "written\n"
    return [] if held else [f"could not write in the project: {said[-300:]!r}"]


def _temporary(scene: Scene) -> list[str]:
    planted = Path(tempfile.gettempdir(), f"{scene.folder.name}-planted")
    planted.write_text(SECRET)
    try:
        command = 'echo own > "$TMPDIR/own" && cat "$TMPDIR/own"; cat "$0"'
        said = scene.run("/bin/sh", "-c", command, str(planted))
    finally:
        planted.unlink()
    wrong = [] if said.startswith("own\n") else [f"could not write there: {said[-300:]!r}"]
    wrong += ["read a file of the machine's"] if SECRET in said else []
    return wrong + (["wrote in the machine's"] if (planted.parent / "own").exists() else [])


def _outside(scene: Scene) -> list[str]:
    scene.attack(write=[*scene.outside, scene.folder / "kept"], delete=[scene.folder / "kept"])
    return _written(scene)


def _written(scene: Scene) -> list[str]:
    wrong = []
    for path in scene.outside:
        if path.exists():
            wrong.append(f"wrote {path}")
            path.unlink()
    kept = scene.folder / "kept"
    if not kept.exists() or kept.read_text() != "kept":
        wrong.append(f"changed {kept}")
    return wrong


def _git(scene: Scene) -> list[str]:
    git = scene.project / ".git"
    paths = [git / "config", git / "hooks" / "post-commit"]
    scene.attack(write=paths, delete=[git / "config"])
    held = (git / "config").exists() and (git / "config").read_text() == "[core]\n"
    return [] if held and not paths[1].exists() else ["changed what git runs"]


def _keys(scene: Scene) -> list[str]:
    return [f"read {key}" for key in scene.keys if SECRET in scene.attack(read=[key])]


def _network(scene: Scene) -> list[str]:
    scene.attack(reach=scene.addresses)
    return _reached(scene)


def _reached(scene: Scene) -> list[str]:
    return [f"reached this machine by {how}" for how, one in scene.listeners.items() if _hit(one)]


def _hit(listener: socket.socket) -> bool:
    with contextlib.suppress(BlockingIOError):
        if listener.type == socket.SOCK_DGRAM:
            listener.recv(1)
        else:
            listener.accept()[0].close()
        return True
    return False


def _processes(scene: Scene) -> list[str]:
    scene.attack(end=[scene.bystander.pid])
    with contextlib.suppress(subprocess.TimeoutExpired):
        scene.bystander.wait(0.2)
        return ["ended another process"]
    return []


def _children(scene: Scene) -> list[str]:
    said = scene.attack(
        detached=True,
        read=scene.keys,
        write=[*scene.outside, scene.folder / "kept"],
        reach=scene.addresses,
        end=[scene.bystander.pid],
    )
    wrong = [*_written(scene), *_reached(scene), *(["read a key"] if SECRET in said else [])]
    return wrong + (["ended another process"] if scene.bystander.poll() is not None else [])


CHECKS: Mapping[str, Callable[[Scene], Sequence[str]]] = {
    "programs": _starts,
    "project": _project,
    "temporary": _temporary,
    "outside": _outside,
    "git": _git,
    "keys": _keys,
    "network": _network,
    "processes": _processes,
    "children": _children,
}
HOLDS = {
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
