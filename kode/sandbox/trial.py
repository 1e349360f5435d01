"""The self-tests of the sandbox: acts that must succeed in it, or must fail.

`find_support` tries this machine's kinds of sandbox with the session's own folders, the best first.
`prove_sandbox`, for `kode doctor --sandbox`, does so in a folder made for it, one promise a line.
"""

import json
import marshal
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kode.errors import SandboxUnknownError
from kode.paths import real_path
from kode.sandbox import kernel, launcher, reach
from kode.sandbox.reach import BUBBLEWRAP, KINDS, SYSTEM_PATH, Grants, Kind, user_homes
from kode.values import replace
from kode.workplace import NOWHERE

if TYPE_CHECKING:
    from kode.sandbox.sandbox import Sandbox

TIMEOUT_S = 40.0  # a trial takes milliseconds, but not on a loaded machine
_NAMES: Mapping[Kind, str] = {
    "layered": "a copy of the project",
    "plain": "bubblewrap",
    "landlock": "Landlock",
    "seatbelt": "Seatbelt",
}

_RUN_ACTS = """
import json, marshal, os, socket, sys, types
def succeeds(code, argument):
    try: return types.FunctionType(code, globals())(argument) is not False
    except OSError: return False
print(json.dumps([succeeds(*act) for act in marshal.loads(bytes.fromhex(sys.argv[1]))]))
"""
"""The program for an interpreter in the sandbox. It gets only the code objects of the acts, so that
they can use no modules but `os` and `socket`."""


def _can_read(path: str) -> bool:
    """Whether a folder lists any name, or a file can be opened."""
    return os.listdir(path) != [] if os.path.isdir(path) else os.open(path, os.O_RDONLY) >= 0


def _try_write(path: str) -> None:
    """Opens a file for writing, or makes one in a folder and removes it."""
    is_folder = os.path.isdir(path)
    name = f"{path}/.kode-sandbox-test-{os.getpid()}" if is_folder else path
    os.open(name, os.O_WRONLY | (os.O_CREAT | os.O_EXCL if is_folder else 0), 0o600)
    if is_folder:
        os.unlink(name)


def _connect(address: tuple[str, int]) -> None:
    socket.create_connection(address, 2).close()


class Support(NamedTuple):
    """The best kind of sandbox on this machine."""

    kind: Kind
    why: str = ""
    """Why no better kind works; for kind `none`, also what to do next."""


class Trial(NamedTuple):
    fault: str
    """What is wrong with the sandbox if the act turns out otherwise, to complete "it ..."."""
    act: Callable[[Any], object]
    argument: object
    should_succeed: bool = False


def find_faults(sandbox: "Sandbox", kind: Kind, trials: Sequence[Trial]) -> dict[str, None]:
    """Runs trials; returns the faults. Raises: OSError, KeyError, ValueError, SubprocessError."""
    acts = marshal.dumps([(trial.act.__code__, trial.argument) for trial in trials]).hex()
    attempt = sandbox.begin(kind=kind)
    try:
        attempt.wrap((real_path(sys.executable), "-I", "-S", "-c", _RUN_ACTS, acts))
        done = subprocess.run(
            attempt.argv,
            pass_fds=attempt.descriptors,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
            env={"PATH": SYSTEM_PATH},
        )
    finally:
        attempt.settle()
        attempt.close()
    if not done.stdout:
        output = os.fsdecode(done.stderr).strip()[-300:] or f"exit status {done.returncode}"
        raise OSError(f"it does not start ({output})")
    results = zip(trials, json.loads(done.stdout), strict=True)
    return dict.fromkeys(it.fault for it, succeeded in results if succeeded != it.should_succeed)


def find_support(sandbox: "Sandbox") -> Support:
    """The best kind whose self-test finds no leak. Raises: SandboxUnknownError."""
    why = ""
    for kind in KINDS.get(sys.platform, ()):
        if kind == "layered" and not sandbox.has_layers:
            continue
        if not (fault := find_fault(sandbox, kind)):
            return Support(kind, why.strip())
        why += f"{_NAMES[kind]}: {fault}. " if fault not in why else ""
    next_step = (
        "Install bubblewrap (package `bubblewrap`)."
        if sys.platform == "linux" and not reach.find_program("bwrap")
        else "`kode doctor --sandbox` shows what fails: please report it."
    )
    return Support("none", f"{why or 'It needs Linux or macOS. '}{next_step}")


def find_fault(sandbox: "Sandbox", kind: Kind) -> str:
    """Tries one kind; returns what is wrong with it, or "". Raises: SandboxUnknownError if the
    self-test runs out of time."""
    if obstacle := find_obstacle(sandbox, kind):
        return obstacle
    try:
        with socket.create_server(("127.0.0.1", 0)) as outside:
            faults = find_faults(sandbox, kind, _list_trials(sandbox, kind, outside.getsockname()))
    except subprocess.TimeoutExpired:
        raise SandboxUnknownError(
            f"The sandbox's self-test took over {TIMEOUT_S:g} s, so whether there is a sandbox is "
            "not known: try again when the machine is less busy."
        ) from None
    except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
        return f"its self-test failed: {error}"
    return f"its self-test found that it {', '.join(faults)}" if faults else ""


def find_obstacle(sandbox: "Sandbox", kind: Kind) -> str:
    """What keeps a kind from being used, as far as known without a trial; "" for nothing."""
    if kind == "seatbelt":
        return "" if os.access(reach.SEATBELT, os.X_OK) else f"{reach.SEATBELT} is missing"
    if kind in BUBBLEWRAP and not reach.find_program("bwrap"):
        return "bubblewrap is not installed"
    if kind == "landlock" and launcher.landlock_version() < kernel.SUFFICES_ALONE:
        return "this kernel's is too old (Linux 6.12 is needed)"
    folders = tuple(f"{folder}/" for folder in sandbox.folders)
    private = [f"{path}/" for path in (*sandbox.place.protected, *user_homes())]
    inside = next((path for path in private if path.startswith(folders)), "").rstrip("/")
    if inside and kind == "landlock":  # files made there later could not be hidden
        return f"it cannot hide {inside} inside the working folder"
    if inside and kind == "layered":
        return f"the working folder contains {inside}, a home or kode's own folder"
    if kind == "layered":  # an overlay would not show what is mounted inside
        with open("/proc/self/mountinfo", "rb") as file:
            mounts = [line.split()[4].decode("unicode_escape") for line in file]
        for mount in filter(lambda path: path.startswith(folders), mounts):
            return f"{mount} is a file system of its own"
    return ""


def _list_trials(sandbox: "Sandbox", kind: Kind, outside: tuple[str, int]) -> list[Trial]:
    """Lists what a command must be able to do, and what it must not, in the session's own folders
    and with an address of this machine."""
    place, grants, homes, folders = sandbox.place, sandbox.grants, user_homes(), sandbox.folders
    cwd, temporary = str(place.cwd), "/tmp" if kind in BUBBLEWRAP else sandbox.temporary_folder()
    hidden = [place.home / name for name in ("config.json", "history", "memory/history.jsonl")]
    hidden += [folder / "history.jsonl" for folder in place.protected[1:]]
    hidden += [home / name for home in homes for name in (".ssh", ".aws")]
    hidden += [home / ".bashrc" for home in homes if home not in folders]
    fixed = [Path(name) for name in ("/", "/usr", "/proc/sys/kernel/core_pattern")]
    fixed = [path for path in fixed if not any(path.is_relative_to(f) for f in folders)]
    fixed += [*hidden, Path(real_path("/tmp"))] if kind == "seatbelt" else []
    can_write = grants.project or kind == "layered"
    writable = [temporary, *[cwd] * (can_write and os.access(cwd, os.W_OK))]
    fixed += [] if can_write else [place.cwd]
    git, number, family = f"{cwd}/.git/config", os.getpid(), int(socket.AF_UNIX)
    others = [
        (grants.project and kind != "landlock", Trial("writes git's settings", _try_write, git)),
        # In bubblewrap, other processes have other numbers.
        (kind not in BUBBLEWRAP, Trial("sees other processes", lambda it: os.kill(it, 0), number)),
        (kind != "seatbelt", Trial("sees other processes", _can_read, f"/proc/{number}/environ")),
        (kind != "seatbelt", Trial("makes unix sockets", lambda it: socket.socket(it), family)),
        (not grants.network, Trial("has a network", _connect, outside)),
    ]
    return [
        *(Trial(f"cannot write {path}", _try_write, path, True) for path in writable),
        *(Trial(f"reads {path}", _can_read, str(path)) for path in hidden),
        *(Trial(f"writes {path}", _try_write, str(path)) for path in fixed),
        *(trial for is_meant, trial in others if is_meant),
    ]


PROMISES = {
    "project": "can be written where that is allowed",
    "temporary": "has a private folder",
    "outside": "nothing else can be written",
    "git": "its settings cannot be changed",
    "keys": "none read: of a home, or of kode",
    "network": "no interface, and no unix socket",
    "processes": "no other can be looked into or ended",
}
"""What the self-test checks → what holds once it has passed."""


def prove_sandbox(sandbox_type: "type[Sandbox]") -> Iterator[tuple[str, bool, str]]:
    """Tries the sandbox in a folder made for it; yields each promise, and whether it holds."""
    with tempfile.TemporaryDirectory(prefix="kode-") as name:
        project, home = Path(real_path(name)) / "project", Path(real_path(name)) / "kode"
        for path in (project / ".git" / "config", home / "config.json"):
            path.parent.mkdir(parents=True)
            path.write_text("")
        place = replace(NOWHERE, cwd=project, project=project, home=home, outputs=home / "outputs")
        sandbox = sandbox_type(place=place, grants=Grants(project=True), has_layers=False)
        try:
            kind, why = sandbox.support()
        except SandboxUnknownError as error:
            kind, why = "none", str(error)
        sandbox.close()
    if kind == "none":
        yield "sandbox", False, f"none on this machine: {why}"
        return
    yield "sandbox", True, _NAMES[kind]
    for promise, detail in PROMISES.items():
        if promise != "git" or kind != "landlock":
            yield promise, True, detail
