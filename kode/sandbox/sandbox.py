"""Finds out by trying which sandbox this machine supports, once per process. One command in it is
an `Attempt`.

    bubblewrap   complete: root read-only, the home and kode's folder hidden, a private temporary
                 folder, no other processes, no network; inside it Landlock and seccomp (`limits`);
                 the folders of work in a throw-away layer where the kernel can make one
    landlock     Landlock and seccomp alone; only the temporary folder can be changed
    seatbelt     macOS: the same by a profile, see `seatbelt`
    none         neither: then only plain reading commands run unasked
"""

import contextlib
import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import CodeType
from typing import Any

from kode import paths
from kode.errors import SandboxUnknownError
from kode.paths import real_path
from kode.sandbox import layer as layers
from kode.sandbox import limits, seatbelt, view
from kode.sandbox.attempt import Attempt
from kode.sandbox.deferred import WHERE
from kode.sandbox.launcher import landlock_version
from kode.sandbox.layer import Layer
from kode.sandbox.masks import settle_indexes
from kode.sandbox.shared import Kind, Shared
from kode.sandbox.values import Grants, SandboxKind
from kode.sandbox.view import Ground
from kode.workplace import Workplace

TEST_TIMEOUTS_S = (10.0, 40.0)
"""The self-test takes milliseconds; on a loaded machine it is repeated with more time."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How good the sandbox is on this machine."""

    kind: Kind
    why: str
    """For `none` and `landlock`: the reason, with the next step."""
    gaps: tuple[str, ...] = ()
    """What it does not cover."""
    layered: bool = False
    """Whether commands can change a throw-away copy of the project."""


@dataclass
class Sandbox:
    """The sandbox of one process; probed on first use."""

    shared: Shared
    _standing: Standing | None = None
    _is_unknown: bool = False
    """Whether the last self-test ran out of time."""
    _one_probe: threading.RLock = field(default_factory=threading.RLock)
    """A hook and the first probe may run at the same time: parallel self-tests would spoil each
    other's folders, and select a weaker sandbox."""

    @property
    def ground(self) -> Ground:
        return self.shared.ground

    def standing(self) -> Standing:
        """The supported sandbox; probes (about 0.1 s) while it is not known. Raises:
        SandboxUnknownError."""
        with self._one_probe:
            if self._standing is None:
                try:
                    self._standing = self._find_out()
                except SandboxUnknownError:
                    self._is_unknown = True
                    raise
                self._is_unknown = False
            return self._standing

    def holds(self) -> bool:
        """Whether this machine can run one; finds out by trying (about 0.1 s) while that is not
        known. Raises: SandboxUnknownError where the trial runs out of time; the next call tries
        again. Nothing may run outside for that reason."""
        return self.standing().kind != "none"

    def kind(self) -> SandboxKind:
        """Where commands can be tried, as far as is known; tries once if nobody has."""
        with contextlib.suppress(SandboxUnknownError):
            if not self._is_unknown and (standing := self.standing()).kind != "none":
                return "layered" if standing.layered else "plain"
        return "unknown" if self._is_unknown else "none"

    def begin(self, *, records_opens: bool = False, grants: Grants | None = None) -> "Attempt":
        """Starts an attempt at one command. Not on the event loop: it may ask git. Raises: OSError
        when the sandbox cannot be created.

        records_opens: whether to record what it opens of the project, which is then as it is on
            disk, without the ignored files of earlier commands. Costs about 0.05 ms for each file.
        grants: for a program of its own, as a hook: what it may do besides. Of such a one
            `Attempt.hits` has the writes to the empty home too, which are lost.
        """
        standing = self.standing()
        attempt = self.attempt(standing.kind, layered=standing.layered, records_opens=records_opens)
        if grants is not None:
            write = tuple(folder for name in grants.write if (folder := Path(name)).is_dir())
            network = self.ground.network or grants.network
            attempt.ground = replace(self.ground, network=network, granted=write, home_counts=True)
        return attempt

    def attempt(
        self,
        kind: Kind,
        *,
        layered: bool,
        probe: tuple[CodeType, dict[str, Any]] | None = None,
        records_opens: bool = False,
    ) -> "Attempt":
        """Starts an attempt in one kind of sandbox, probed or not. `probe`: see `limits.launch`;
        `records_opens`: see `begin`.

        Raises: OSError.
        """
        if probe is None:
            settle_indexes(
                self.shared.masked(), self.ground.git
            )  # before it counts as somebody else's change
        over: tuple[Layer, ...] = ()
        if layered and kind == "bubblewrap":
            store = self.shared.store()
            if store is None:
                raise OSError("there is no place for a copy of the project")
            over = tuple(
                layers.make_layer(
                    store,
                    folder,
                    None if records_opens else self.shared.carried_layer(folder),
                    self.ground.git,
                )
                for folder in self.ground.folders
            )
        return Attempt(
            shared=self.shared, kind=kind, layers=over, probe=probe, records_opens=records_opens
        )

    def cannot_hold(self) -> str:
        """Why there is certainly no sandbox, without probing; "" if only a probe can tell."""
        if sys.platform == "darwin":
            return "" if os.access(seatbelt.PROGRAM, os.X_OK) else f"{seatbelt.PROGRAM} is missing"
        if sys.platform != "linux":
            return "it needs Linux or macOS"
        if not shutil.which("bwrap", path=WHERE) and landlock_version() < limits.SUFFICES_ALONE:
            return "bubblewrap is not installed"
        return ""

    def why_missing(self) -> str:
        return self._standing.why if self._standing and self._standing.kind == "none" else ""

    @property
    def carries(self) -> bool:
        return bool(self.shared.below)

    def forget(self) -> None:
        """Whether `carry_over` has kept anything."""
        self.shared.forget()

    def show(self, paths: Iterable[str]) -> None:
        """Shows commands that still run these files as they are now. Never raises."""
        showing = tuple(self.shared.showing)
        if not showing:
            return
        masked = set(self.shared.masked())
        real = [path for path in map(Path, paths) if masked.isdisjoint((path, *path.parents))]
        for show in showing:
            show(real)

    def private_tmp(self) -> Path | None:
        """The folder that its commands see as `/tmp`; None where they see the machine's or none.
        The first call may try the sandbox."""
        if self.kind() in ("none", "unknown") or self.standing().kind != "bubblewrap":
            return None
        return Path(self.shared.temporary_folder())

    def close(self) -> None:
        """Removes its `/tmp` and copies once no command runs in it. It can be used again."""
        self.shared.close()

    # ── what holds here ──────────────────────────────────────────────────────────────────────

    def _find_out(self) -> Standing:
        faults = {}
        for kind in kinds():
            faults[kind] = self.fault(kind)
            if faults[kind]:
                continue
            if kind != "bubblewrap":
                why = " ".join(f"{other}: {fault}." for other, fault in faults.items() if fault)
                return Standing(kind=kind, why=why, gaps=_GAPS[kind])
            no_layer = self.fault(kind, layered=True)
            gaps = [] if landlock_version() else ["named pipes elsewhere can be written to"]
            gaps += [f"commands cannot write in the project ({no_layer})"] if no_layer else []
            if self.shared.loopback() is None and not self.ground.network:
                gaps.append("a command cannot ask a server that another one runs (no `nsenter`)")
            return Standing(kind=kind, why="", gaps=tuple(gaps), layered=not no_layer)
        return Standing(kind="none", why=f"{said_of(faults)}. {_NEXT_STEP}")

    def fault(self, kind: Kind, *, layered: bool = False) -> str:
        """Probes one kind; returns what is wrong with it, or "". Raises: SandboxUnknownError if the
        probe runs out of time."""
        if kind not in kinds():
            return f"is not of this system ({sys.platform})"
        if kind == "seatbelt" and (missing := self.cannot_hold()):
            return missing
        if kind == "bubblewrap" and not shutil.which("bwrap", path=WHERE):
            return "not installed"
        if kind == "landlock" and (fault := self._fault_of_landlock()):
            return fault
        if layered and (fault := _fault_of_layers(self.ground)):
            return fault
        try:
            done = self._run_probe(kind, layered=layered)
            leaks = json.loads(done.stdout or "null")
        except subprocess.TimeoutExpired as error:
            raise SandboxUnknownError(
                f"The sandbox's self-test took over {error.timeout:g} s, so whether there is a "
                "sandbox is not known: try again when the machine is less busy."
            ) from None
        except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
            return f"its self-test failed ({error!r})"
        if leaks is None:
            said = done.stderr.strip()[-300:] or f"exit status {done.returncode}"
            return f"it does not start ({said})"
        return f"its self-test found that it {', '.join(leaks)}" if leaks else ""

    def _fault_of_landlock(self) -> str:
        version = landlock_version()
        if version < limits.SUFFICES_ALONE:
            return (
                "this kernel's is too old (Linux 6.12 is needed)"
                if version
                else "not in this kernel"
            )
        inside = view.cannot_hide(self.ground)
        return f"it cannot hide {inside} inside the working folder" if inside else ""

    def _run_probe(self, kind: Kind, *, layered: bool) -> "subprocess.CompletedProcess[str]":
        """Runs the self-test inside, with more time if it runs out of it; it prints what leaks."""
        with contextlib.ExitStack() as stack:
            orders = self._probe(kind, layered=layered)
            if kind == "seatbelt":
                listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
                orders["port"] = listener.getsockname()[1]
            probe = (limits.code_of("probe"), orders)

            def run(timeout_s: float) -> "subprocess.CompletedProcess[str]":
                attempt = self.attempt(kind, layered=layered, probe=probe)
                return run_attempt(attempt, (), timeout_s, env={"PATH": WHERE})

            with contextlib.suppress(subprocess.TimeoutExpired):
                return run(TEST_TIMEOUTS_S[0])
            return run(TEST_TIMEOUTS_S[1])

    def _probe(self, kind: Kind, *, layered: bool) -> dict[str, Any]:
        ground = self.ground
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
            "kept": [*map(str, kept_paths), self.shared.temporary_inside(kind)],
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


def open_sandbox(
    place: Workplace,
    *,
    network: bool,
    writable: bool = False,
    denied: Callable[[str], bool] = lambda path: False,
    shown: Iterable[Path] = (),
    cache: Path | None = None,
) -> Sandbox:
    """A sandbox for a session, not yet probed. `denied` says whether a rule of the person denies
    reading a path; `writable`, whether changes to the project are real; `shown`, `cache`: see
    `Ground`."""
    homes = [paths.user_home() or paths.NO_HOME]
    with contextlib.suppress(KeyError):  # a user without an entry, as in containers
        homes.append(Path(pwd.getpwuid(os.getuid()).pw_dir))
    # What a program writes for real is never git's, unless it lies in the project.
    git = () if writable else (Path(folder.path) for folder in place.git)
    folders = dict.fromkeys(map(_real, (place.project, place.cwd, *place.roots, *git)))
    ground = Ground(
        cwd=_real(place.cwd),
        folders=tuple(f for f in folders if not any(other in f.parents for other in folders)),
        git=place.git,
        homes=tuple(
            home for home in dict.fromkeys(map(_real, homes)) if home != Path("/") and home.is_dir()
        ),
        kode_home=_real(place.home),
        outputs=_real(place.outputs),
        elsewhere=tuple(_real(folder) for folder in place.protected if folder != place.home),
        readable=tuple(_real(path.parent) / path.name for path in place.readable),
        own=tuple(dict.fromkeys((_real(Path(sys.base_prefix)), _real(Path(sys.executable))))),
        network=network,
        writable=writable,
        shown=tuple(map(_real, shown)),
        cache=cache and _real(cache),
    )
    return Sandbox(Shared(ground, denied))


def kinds() -> tuple[Kind, ...]:
    """The kinds of sandbox of this operating system, the best first."""
    return _KINDS.get(sys.platform, ())


def said_of(faults: Mapping[Kind, str]) -> str:
    """Why there is none, in words."""
    said = "; ".join(f"{kind}: {fault}" for kind, fault in faults.items())
    return said or "it needs Linux or macOS"


_KINDS: Mapping[str, tuple[Kind, ...]] = {
    "linux": ("bubblewrap", "landlock"),
    "darwin": ("seatbelt",),
}
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


def _fault_of_layers(ground: Ground) -> str:
    """Why the working folders cannot be copied on write; "" if they can."""
    for folder in ground.folders:
        kept_paths = (ground.kode_home, *ground.elsewhere, *ground.homes)
        if any(path.is_relative_to(folder) for path in kept_paths):
            return f"{folder} contains a home, or kode's own folder"
        if inside := _mounted_inside(folder):
            return f"{inside} is a file system of its own"
    return ""


def _mounted_inside(folder: Path) -> str:
    """A mount below a folder, which an overlay would not show."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            points = [line.split()[4].encode().decode("unicode_escape") for line in file]
    except (OSError, IndexError, UnicodeError):
        return ""
    return next((point for point in points if point.startswith(f"{folder}/")), "")


def _real(path: Path) -> Path:
    return Path(real_path(path))
