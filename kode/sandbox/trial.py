"""The self-tests of the sandbox: acts of `probe` that must succeed in it, or must fail.

`find_support` tries this machine's kinds of sandbox with the session's own folders, the best first.
`prove`, for `kode doctor --sandbox`, tries to get out of it, in a temporary folder with a project,
a home and keys of its own; what was written, sent and ended there is judged from outside.
"""

import contextlib
import json
import marshal
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import not_
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from kode import paths
from kode.errors import SandboxUnknownError
from kode.paths import real_path
from kode.sandbox import launcher, limits
from kode.sandbox.reach import (
    SYSTEM_PATH,
    Grants,
    Kind,
    find_private_inside,
    find_program,
    own_homes,
)
from kode.workplace import Workplace

if TYPE_CHECKING:
    from kode.sandbox.sandbox import Sandbox

TEST_TIMEOUTS_S = (10.0, 40.0)
"""The self-test takes milliseconds; on a loaded machine it is repeated with more time."""

KINDS: Mapping[str, tuple[Kind, ...]] = {
    "linux": ("bubblewrap", "landlock"),
    "darwin": ("seatbelt",),
}
"""Those of each operating system, the best first."""
_READ_ONLY = "commands cannot write in the project, and have no network of their own"
_GAPS = {
    "landlock": (_READ_ONLY, "names and arguments of other processes can be seen"),
    "seatbelt": (_READ_ONLY,),
}
_NEXT_STEP = (
    "Please report it with the output of `kode doctor --sandbox`."
    if sys.platform == "darwin"
    else "Install bubblewrap (package `bubblewrap`)."
)
_RUN_PROBE = (
    "import marshal,sys\n"
    "c,o=marshal.loads(bytes.fromhex(sys.argv[1]));g={'__name__':'probe'};exec(c,g);g['run'](*o)"
)


@dataclass(frozen=True, kw_only=True)
class Support:
    """How good the sandbox is on this machine."""

    kind: Kind
    why: str
    """For `none` and `landlock`: the reason, with the next step."""
    gaps: tuple[str, ...] = ()
    """What it does not cover."""
    layered: bool = False
    """Whether commands can change a throw-away copy of the project."""


class Trial(NamedTuple):
    fault: str
    """What is wrong with the sandbox, to complete "it ..."."""
    act: tuple[Any, ...]
    """The name of a function of `probe`, and its arguments."""
    is_broken: Callable[[bool], bool] = bool
    """Whether that is so, given whether the act says that it succeeded."""
    promise: str = ""
    """Which of `PROMISES` is then broken."""


def find_faults(
    sandbox: "Sandbox",
    kind: Kind,
    trials: Sequence[Trial],
    timeout_s: float,
    *,
    layered: bool = False,
    detached: bool = False,
) -> list[Trial]:
    """The trials that find something wrong. Raises: OSError, ValueError, KeyError,
    SubprocessError."""
    acts = [trial.act for trial in trials]
    done = try_acts(sandbox, kind, acts, timeout_s, layered=layered, detached=detached)
    if not done.stdout:
        output = done.stderr.strip()[-300:] or f"exit status {done.returncode}"
        raise OSError(f"it does not start ({output})")
    results = zip(trials, json.loads(done.stdout), strict=True)
    return [trial for trial, has_succeeded in results if trial.is_broken(has_succeeded)]


def try_acts(
    sandbox: "Sandbox",
    kind: Kind,
    acts: list[tuple[Any, ...]],
    timeout_s: float,
    *,
    layered: bool,
    detached: bool,
) -> "subprocess.CompletedProcess[str]":
    """Has `probe` do acts in a sandbox; prints what it prints. Raises: OSError, TimeoutExpired."""
    probe = marshal.dumps((limits.code_of("probe"), (acts, detached))).hex()
    attempt = sandbox.attempt(kind, layered=layered)
    try:
        argv = (real_path(sys.executable), "-I", "-S", "-c", _RUN_PROBE, probe)
        wrapped = attempt.wrap(argv)
        try:
            return subprocess.run(
                wrapped.argv,
                pass_fds=wrapped.descriptors,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout_s,
                check=False,
                env={"PATH": SYSTEM_PATH},
            )
        finally:
            wrapped.settle()
    finally:
        attempt.close()


# ── what this machine has ────────────────────────────────────────────────────────────────────


def find_support(sandbox: "Sandbox") -> Support:
    """The best kind whose self-test finds no leak. Raises: SandboxUnknownError."""
    faults: dict[Kind, str] = {}
    for kind in KINDS.get(sys.platform, ()):
        if fault := sandbox.fault(kind):
            faults[kind] = fault
            continue
        if kind != "bubblewrap":
            why = " ".join(f"{other}: {fault}." for other, fault in faults.items())
            return Support(kind=kind, why=why, gaps=_GAPS[kind])
        no_layer = sandbox.fault(kind, layered=True) if sandbox.has_layers else ""
        gaps = [] if launcher.landlock_version() else ["named pipes elsewhere can be written to"]
        gaps += [f"commands cannot write in the project ({no_layer})"] if no_layer else []
        if sandbox.loopback() is None and not sandbox.grants.network:
            gaps.append("a command cannot ask a server that another one runs (no `nsenter`)")
        layered = sandbox.has_layers and not no_layer
        return Support(kind=kind, why="", gaps=tuple(gaps), layered=layered)
    reasons = "; ".join(f"{kind}: {fault}" for kind, fault in faults.items())
    return Support(kind="none", why=f"{reasons or 'it needs Linux or macOS'}. {_NEXT_STEP}")


def find_fault(sandbox: "Sandbox", kind: Kind, *, layered: bool) -> str:
    """Tries one kind; returns what is wrong with it, or "". Raises: SandboxUnknownError if the
    self-test runs out of time."""
    return _find_obstacle(sandbox, kind, layered) or find_leaks(sandbox, kind, layered)


def find_leaks(sandbox: "Sandbox", kind: Kind, layered: bool) -> str:
    """Why the self-test of a kind fails, or "". Raises: SandboxUnknownError."""
    with contextlib.ExitStack() as opened:
        for timeout_s in TEST_TIMEOUTS_S:
            try:
                trials = _list_leaks(sandbox, kind, layered, opened)
                broken = find_faults(sandbox, kind, trials, timeout_s, layered=layered)
                faults = ", ".join(dict.fromkeys(trial.fault for trial in broken))
                return f"its self-test found that it {faults}" if faults else ""
            except subprocess.TimeoutExpired:
                continue
            except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
                return f"its self-test failed: {error}"
    raise SandboxUnknownError(
        f"The sandbox's self-test took over {TEST_TIMEOUTS_S[-1]:g} s, so whether there is a "
        "sandbox is not known: try again when the machine is less busy."
    )


def _find_obstacle(sandbox: "Sandbox", kind: Kind, layered: bool) -> str:
    """What is known to be wrong with a kind without a trial; "" for nothing."""
    if kind == "seatbelt":
        return sandbox.unavailable_reason()
    if kind == "bubblewrap" and find_program("bwrap") is None:
        return "not installed"
    inside = find_private_inside(sandbox.place, sandbox.folders)
    if kind == "landlock":
        version = launcher.landlock_version()
        if version < limits.SUFFICES_ALONE:
            is_old = "this kernel's is too old (Linux 6.12 is needed)"
            return is_old if version else "not in this kernel"
        # New files of it could not be hidden.
        return f"it cannot hide {inside} inside the working folder" if inside else ""
    if layered and inside:
        return f"the working folder contains {inside}, a home or kode's own folder"
    mounted = _mounts_inside(sandbox.folders) if layered else []
    return f"{mounted[0]} is a file system of its own" if mounted else ""


def _mounts_inside(folders: Sequence[Path]) -> list[str]:
    """The mounts in some folders, which an overlay would not show."""
    with open("/proc/self/mountinfo", "rb") as file:
        points = [line.split()[4].decode("unicode_escape") for line in file]
    return [point for point in points if point.startswith(tuple(f"{f}/" for f in folders))]


def _list_leaks(
    sandbox: "Sandbox", kind: Kind, layered: bool, opened: contextlib.ExitStack
) -> list[Trial]:
    place, homes, folders = sandbox.place, own_homes(), sandbox.folders
    hidden = [place.home / name for name in ("config.json", "history")]
    hidden += [folder / "history.jsonl" for folder in (place.home / "memory", *place.protected[1:])]
    for home in homes:
        hidden += [home / ".ssh", home / ".aws"]
        hidden += [home / ".bashrc"] if home not in folders else []
        hidden += [home] if kind == "seatbelt" and home not in folders else []
    fixed = [Path(name) for name in ("/", "/usr", "/proc/sys/kernel/core_pattern")]
    fixed = [path for path in fixed if not any(path.is_relative_to(f) for f in folders)]
    fixed += [] if layered or sandbox.grants.project else [place.cwd]
    fixed += [*hidden, Path(real_path("/tmp"))] if kind == "seatbelt" else []
    writable = [str(place.cwd)] if layered and os.access(place.cwd, os.W_OK) else []
    writable.append(sandbox.temporary_inside(kind))
    trials = [Trial(f"reads {path}", ("read", str(path))) for path in hidden]
    trials += [Trial(f"writes {path}", ("write", str(path))) for path in fixed]
    trials += [Trial(f"cannot write {path}", ("write", path), not_) for path in writable]
    trials.append(Trial("sees other processes", ("look_into", os.getpid())))
    if kind == "seatbelt":  # which lets sockets be made, and forbids to connect them
        trials.append(Trial("sees other processes", ("end", os.getpid(), 0)))
        network = _listen(opened, socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))[1]
    else:
        trials.append(Trial("makes unix sockets", ("make_socket", int(socket.AF_UNIX))))
        network = ("find_network",)
    return [*trials, *([] if sandbox.grants.network else [Trial("has a network", network)])]


def _listen(
    opened: contextlib.ExitStack, family: int, kind: int, address: "str | tuple[str, int]"
) -> tuple[socket.socket, tuple[Any, ...]]:
    """A socket of this process, and the act that reaches it."""
    listener = opened.enter_context(socket.socket(family, kind))
    listener.bind(address)
    if kind == socket.SOCK_STREAM:
        listener.listen()
    return listener, ("send", int(family), int(kind), listener.getsockname())


# ── what a person can have proved ────────────────────────────────────────────────────────────

PROVE_TIMEOUT_S = 20.0  # takes milliseconds; a loaded machine is slow
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


def prove(sandbox_type: "type[Sandbox]") -> Iterator[Proof]:
    """Tries one promise of the sandbox after the other, and yields whether it holds."""
    with contextlib.ExitStack() as opened:
        folder = Path(real_path(opened.enter_context(tempfile.TemporaryDirectory(prefix="kode-"))))
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
        sandbox = sandbox_type(place=place, grants=Grants(project=True), has_layers=False)
        opened.callback(sandbox.close)
        try:
            support = sandbox.support()
        except SandboxUnknownError as error:
            yield Proof("sandbox", "missing", str(error))
            return
        if support.kind == "none":
            yield Proof("sandbox", "missing", f"none on this machine: {support.why}")
            return
        yield Proof("sandbox", "ok", "; ".join((support.kind, *support.gaps)))
        faults, untried = {what: list[str]() for what in PROMISES}, ""
        trials = _list_escapes(place, sandbox.temporary_inside(support.kind), opened)
        lasting = [it for it in trials if it.promise not in ("programs", "project", "git")]
        try:
            for trial in find_faults(sandbox, support.kind, trials, PROVE_TIMEOUT_S):
                faults[trial.promise].append(trial.fault)
            for trial in find_faults(
                sandbox, support.kind, lasting, PROVE_TIMEOUT_S, detached=True
            ):
                faults["children"].append(trial.fault)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            untried = f"could not be tried ({error})"
        for what, promise in PROMISES.items():
            if what == "git" and support.kind == "landlock":
                why = "can be changed by a server that may write in the project"
                yield Proof(what, "optional", why)
            elif untried or faults[what]:
                yield Proof(what, "missing", f"it {', '.join(faults[what]) or untried}", REPORT)
            else:
                yield Proof(what, "ok", promise)


def _list_escapes(place: Workplace, inside: str, opened: contextlib.ExitStack) -> list[Trial]:
    """What is tried, with what it is tried on; `inside`: the private temporary folder. Raises:
    OSError."""
    project, home, folder = place.project, place.user_home, place.project.parent
    tmp, git = Path(tempfile.gettempdir()), project / ".git"
    planted, written = tmp / f"{folder.name}-planted", f"{folder.name}-written"
    keys = [project / ".env", home / ".ssh" / "id_ed25519", place.home / "config.json"]
    files = {folder / "file": "outside", git / "config": "git"}
    for path in (planted, *files, *keys):
        path.write_text(SECRET)
    new = {around / written: "outside" for around in (folder, home, tmp, paths.user_home() or home)}
    for path in (planted, *new):
        opened.callback(path.unlink, missing_ok=True)
    bystander = opened.enter_context(
        subprocess.Popen(
            (sys.executable, "-I", "-S", "-c", "input()"),
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"KEY": SECRET},
        )
    )
    opened.callback(bystander.kill)
    ends = ("end", bystander.pid, int(signal.SIGTERM))
    trials = [
        Trial("starts none", ("start", "/bin/true"), not_, "programs"),
        Trial("cannot write there", ("write", str(project)), not_, "project"),
        Trial("cannot write there", ("write", inside), not_, "temporary"),
        Trial("reads the machine's", ("read", str(planted), SECRET), bool, "temporary"),
        Trial("ended another process", ends, _watch(bystander), "processes"),
    ]
    for path in (*keys, Path(f"/proc/{bystander.pid}/environ")):
        trials.append(Trial(f"read {path}", ("read", str(path), SECRET), bool, "keys"))
    for path, promise in (new | files | {git / "hooks" / "update": "git"}).items():
        for change in ("append", "delete") if path in files else ("append",):
            is_changed = _watch(path, "" if path not in files else SECRET)
            trials.append(Trial(f"changed {path}", (change, str(path)), is_changed, promise))
    for name, family, kind, address in (
        ("TCP", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
        ("UDP", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
        ("a unix socket", socket.AF_UNIX, socket.SOCK_STREAM, str(project / "socket")),
    ):
        listener, act = _listen(opened, family, kind, address)
        has_data = _watch(listener)
        trials.append(Trial(f"reached this machine by {name}", act, has_data, "network"))
    return trials


def _watch(
    it: "Path | socket.socket | subprocess.Popen[bytes]", text: str = ""
) -> Callable[[bool], bool]:
    """A test, whatever an act says of itself: whether a file has another text, a socket data, or
    whether a process has ended."""

    def is_touched(_: bool) -> bool:
        if isinstance(it, Path):
            return (it.read_text() if it.exists() else "") != text
        if isinstance(it, socket.socket):
            return bool(select.select([it], [], [], 0)[0])
        with contextlib.suppress(subprocess.TimeoutExpired):
            it.wait(0.2)
        return it.returncode is not None

    return is_touched
