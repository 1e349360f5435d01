"""Finds out by trying which sandbox this machine supports: runs the self-test (`probe`) inside each
kind, the best first."""

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kode.errors import SandboxUnknownError
from kode.paths import real_path
from kode.sandbox import launcher, limits, view
from kode.sandbox.attempt import Attempt
from kode.sandbox.values import SYSTEM_PATH, Kind, Support, find_program

if TYPE_CHECKING:
    from kode.sandbox.sandbox import Sandbox

TEST_TIMEOUTS_S = (10.0, 40.0)
"""The self-test takes milliseconds; on a loaded machine it is repeated with more time."""

KINDS: Mapping[str, tuple[Kind, ...]] = {
    "linux": ("bubblewrap", "landlock"),
    "darwin": ("seatbelt",),
}
"""Those of each operating system, the best first."""
_GAPS = {
    "landlock": (
        "commands cannot write in the project, and have no network of their own",
        "names and arguments of other processes can be seen",
    ),
    "seatbelt": ("commands cannot write in the project, and have no network of their own",),
}
_NEXT_STEP = (
    "Please report it with the output of `kode doctor --sandbox`."
    if sys.platform == "darwin"
    else "Install bubblewrap (package `bubblewrap`)."
)


def find_support(sandbox: "Sandbox") -> Support:
    """The best kind whose self-test finds no leak. Raises: SandboxUnknownError."""
    faults: dict[Kind, str] = {}
    for kind in KINDS.get(sys.platform, ()):
        faults[kind] = sandbox.fault(kind)
        if faults[kind]:
            continue
        if kind != "bubblewrap":
            why = " ".join(f"{other}: {fault}." for other, fault in faults.items() if fault)
            return Support(kind=kind, why=why, gaps=_GAPS[kind])
        no_layer = sandbox.fault(kind, layered=True) if sandbox.has_layers else ""
        gaps = [] if launcher.landlock_version() else ["named pipes elsewhere can be written to"]
        gaps += [f"commands cannot write in the project ({no_layer})"] if no_layer else []
        if sandbox.loopback() is None and not sandbox.ground.network:
            gaps.append("a command cannot ask a server that another one runs (no `nsenter`)")
        layered = sandbox.has_layers and not no_layer
        return Support(kind=kind, why="", gaps=tuple(gaps), layered=layered)
    reasons = "; ".join(f"{kind}: {fault}" for kind, fault in faults.items())
    return Support(kind="none", why=f"{reasons or 'it needs Linux or macOS'}. {_NEXT_STEP}")


def find_fault(sandbox: "Sandbox", kind: Kind, *, layered: bool) -> str:
    """Tries one kind; returns what is wrong with it, or "". Raises: SandboxUnknownError if the
    self-test runs out of time."""
    if kind not in KINDS.get(sys.platform, ()):
        return f"is not of this system ({sys.platform})"
    if kind == "seatbelt" and (missing := sandbox.unavailable_reason()):
        return missing
    if kind == "bubblewrap" and find_program("bwrap") is None:
        return "not installed"
    if kind == "landlock" and (fault := _fault_of_landlock(sandbox)):
        return fault
    if layered and (fault := _fault_of_layers(sandbox)):
        return fault
    try:
        done = run_probe(sandbox, kind, layered=layered)
        leaks = json.loads(done.stdout or "null")
    except subprocess.TimeoutExpired as error:
        raise SandboxUnknownError(
            f"The sandbox's self-test took over {error.timeout:g} s, so whether there is a "
            "sandbox is not known: try again when the machine is less busy."
        ) from None
    except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
        return f"its self-test failed ({error!r})"
    if leaks is None:
        return (
            f"it does not start ({done.stderr.strip()[-300:] or f'exit status {done.returncode}'})"
        )
    return f"its self-test found that it {', '.join(leaks)}" if leaks else ""


def _fault_of_landlock(sandbox: "Sandbox") -> str:
    version = launcher.landlock_version()
    if version < limits.SUFFICES_ALONE:
        is_old = "this kernel's is too old (Linux 6.12 is needed)"
        return is_old if version else "not in this kernel"
    # New files of it could not be hidden.
    inside = view.find_private_inside(sandbox.ground)
    return f"it cannot hide {inside} inside the working folder" if inside else ""


def _fault_of_layers(sandbox: "Sandbox") -> str:
    """Why the working folders cannot be copied on write; "" if they can."""
    if inside := view.find_private_inside(sandbox.ground):
        return f"the working folder contains {inside}, a home or kode's own folder"
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            points = [line.split()[4].encode().decode("unicode_escape") for line in file]
    except (OSError, IndexError, UnicodeError):
        return ""
    for folder in sandbox.ground.folders:  # an overlay would not show what is mounted below it
        if inside := next((point for point in points if point.startswith(f"{folder}/")), ""):
            return f"{inside} is a file system of its own"
    return ""


def run_probe(
    sandbox: "Sandbox", kind: Kind, *, layered: bool
) -> "subprocess.CompletedProcess[str]":
    """Runs the self-test inside, with more time if it runs out of it; it prints what leaks."""
    with contextlib.ExitStack() as stack:
        probe_orders = _describe_probe(sandbox, kind, layered=layered)
        if kind == "seatbelt":
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            probe_orders["port"] = listener.getsockname()[1]
        probe = (limits.code_of("probe"), probe_orders)

        def run(timeout_s: float) -> "subprocess.CompletedProcess[str]":
            attempt = sandbox.attempt(kind, layered=layered, probe=probe)
            return run_attempt(attempt, (), timeout_s, env={"PATH": SYSTEM_PATH})

        with contextlib.suppress(subprocess.TimeoutExpired):
            return run(TEST_TIMEOUTS_S[0])
        return run(TEST_TIMEOUTS_S[1])


def _describe_probe(sandbox: "Sandbox", kind: Kind, *, layered: bool) -> dict[str, Any]:
    ground = sandbox.ground
    hidden = [ground.kode_home / name for name in ("config.json", "history")]
    memory = (ground.kode_home / "memory", *ground.elsewhere)
    hidden += [folder / "history.jsonl" for folder in memory]  # a log beside it may be shown
    for home in ground.homes:
        names = (".ssh", ".aws") if home in ground.folders else (".ssh", ".aws", ".bashrc")
        hidden += [home / name for name in names]
    if kind == "seatbelt":
        hidden += [home for home in ground.homes if home not in ground.folders]
    fixed = [Path(name) for name in ("/", "/usr", "/proc/sys/kernel/core_pattern")]
    above = [p for p in fixed if not any(p.is_relative_to(f) for f in ground.folders)]
    kept_paths = [ground.cwd] if layered and os.access(ground.cwd, os.W_OK) else []
    fixed_work = [] if layered or ground.writable else [ground.cwd]
    if kind == "seatbelt":
        fixed_work += [*hidden, Path(real_path("/tmp"))]
    return {
        "hidden": [str(path) for path in hidden],
        "fixed": [*map(str, above), *map(str, fixed_work)],
        "kept": [*map(str, kept_paths), sandbox.temporary_inside(kind)],
        "network": ground.network,
        "outer_pid": os.getpid(),
        "port": None,
    }


def run_attempt(
    attempt: Attempt, argv: Sequence[str], timeout_s: float, **options: Any
) -> "subprocess.CompletedProcess[str]":
    """Runs a program of kode to its end, with `options` of `subprocess.run`, and closes the
    attempt. Raises: OSError, TimeoutExpired."""
    try:
        wrapped = attempt.wrap(tuple(argv))
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
                **options,
            )
        finally:
            wrapped.settle()
    finally:
        attempt.close()
