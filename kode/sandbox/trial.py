"""Finds out by trying which sandbox this machine supports: does in each kind, the best first, what
must fail there (`probe`)."""

import contextlib
import json
import operator
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kode.errors import SandboxUnknownError
from kode.paths import real_path
from kode.sandbox import launcher, limits
from kode.sandbox.reach import SYSTEM_PATH, Kind, find_private_inside, find_program, own_homes

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


@dataclass(frozen=True)
class Try:
    """An act of `probe`, and what is wrong with a sandbox that it shows to be broken."""

    fault: str
    act: tuple[Any, ...]
    is_broken: Callable[[bool], bool] = bool
    """Given whether the act says that it succeeded."""
    promise: str = ""
    """What `kode doctor --sandbox` tells of it."""


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
    try:
        with contextlib.ExitStack() as stack:
            tries = _list_tries(sandbox, kind, layered, stack)
            broken = find_broken(sandbox, kind, tries, TEST_TIMEOUTS_S, layered=layered)
    except subprocess.TimeoutExpired as error:
        raise SandboxUnknownError(
            f"The sandbox's self-test took over {error.timeout:g} s, so whether there is a "
            "sandbox is not known: try again when the machine is less busy."
        ) from None
    except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
        return f"its self-test failed ({error or repr(error)})"
    faults = ", ".join(dict.fromkeys(each.fault for each in broken))
    return f"its self-test found that it {faults}" if faults else ""


def _find_obstacle(sandbox: "Sandbox", kind: Kind, layered: bool) -> str:
    """What is known to be wrong with a kind without a trial; "" for nothing."""
    if kind not in KINDS.get(sys.platform, ()):
        return f"is not of this system ({sys.platform})"
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
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            points = [line.split()[4].encode().decode("unicode_escape") for line in file]
    except (OSError, IndexError, UnicodeError):
        return []
    return [point for point in points if point.startswith(tuple(f"{f}/" for f in folders))]


def _list_tries(
    sandbox: "Sandbox", kind: Kind, layered: bool, stack: contextlib.ExitStack
) -> list[Try]:
    place, homes = sandbox.place, own_homes()
    hidden = [place.home / name for name in ("config.json", "history")]
    hidden += [folder / "history.jsonl" for folder in (place.home / "memory", *place.protected[1:])]
    for home in homes:
        names = (".ssh", ".aws") if home in sandbox.folders else (".ssh", ".aws", ".bashrc")
        hidden += [home / name for name in names]
        hidden += [home] if kind == "seatbelt" and home not in sandbox.folders else []
    fixed = [Path(name) for name in ("/", "/usr", "/proc/sys/kernel/core_pattern")]
    fixed = [p for p in fixed if not any(p.is_relative_to(f) for f in sandbox.folders)]
    fixed += [] if layered or sandbox.grants.project else [place.cwd]
    fixed += [*hidden, Path(real_path("/tmp"))] if kind == "seatbelt" else []
    kept = [str(place.cwd)] if layered and os.access(place.cwd, os.W_OK) else []
    kept.append(sandbox.temporary_inside(kind))
    tries = [Try(f"reads {path}", ("read", str(path))) for path in hidden]
    tries += [Try(f"writes {path}", ("write", str(path))) for path in fixed]
    tries += [Try(f"cannot write {path}", ("write", path), operator.not_) for path in kept]
    tries.append(Try("sees other processes", ("look_into", os.getpid())))
    if kind == "seatbelt":
        tries.append(Try("sees other processes", ("end", os.getpid(), 0)))
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        address = (int(listener.family), int(socket.SOCK_STREAM), listener.getsockname())
        network: tuple[Any, ...] = ("send", *address)
    else:  # Seatbelt lets sockets be made, and forbids to connect them
        tries.append(Try("makes unix sockets", ("make_socket", int(socket.AF_UNIX))))
        network = ("find_network",)
    return tries if sandbox.grants.network else [*tries, Try("has a network", network)]


def find_broken(
    sandbox: "Sandbox",
    kind: Kind,
    tries: Sequence[Try],
    timeouts_s: Sequence[float],
    *,
    layered: bool = False,
    detached: bool = False,
) -> list[Try]:
    """Does these tries in a sandbox, again with the next timeout if they run out of time; returns
    those that show it to be broken. Raises: OSError, ValueError for a sandbox that does not start,
    SubprocessError."""
    acts = [each.act for each in tries]
    try:
        options = {"layered": layered, "detached": detached}
        done = try_acts(sandbox, kind, acts, timeouts_s[0], **options)
    except subprocess.TimeoutExpired:
        if not timeouts_s[1:]:
            raise
        return find_broken(sandbox, kind, tries, timeouts_s[1:], **options)
    if not done.stdout:
        output = done.stderr.strip()[-300:] or f"exit status {done.returncode}"
        raise ValueError(f"it does not start: {output}")
    results = zip(tries, json.loads(done.stdout), strict=True)
    return [each for each, did in results if each.is_broken(did)]


def try_acts(
    sandbox: "Sandbox",
    kind: Kind,
    acts: "list[tuple[Any, ...]]",
    timeout_s: float,
    *,
    layered: bool = False,
    detached: bool = False,
) -> "subprocess.CompletedProcess[str]":
    """Has `probe` do acts in a sandbox; prints what it prints. Raises: OSError, TimeoutExpired."""
    probe = (limits.code_of("probe"), (acts, detached))
    attempt = sandbox.attempt(kind, layered=layered, probe=probe)
    try:
        wrapped = attempt.wrap(())
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
