"""The sandbox that shell commands run in when `sandbox.enabled` asks for one.

    bubblewrap   the whole: root read-only, the home and kode's folder hidden, a private temporary
                 folder, no other processes, no network; inside it Landlock and seccomp (`confine`)
    landlock     where bubblewrap is missing or not allowed: Landlock and seccomp alone, which
                 leaves gaps that are named
    none         neither: then nothing runs at all

Which one holds is found out by trying it on this machine, once a process. What a command sees in
it is `sandbox_view`'s; what may run unasked in it is decided in `kode.permissions`; how a command
is run and ended, in `shell`.
"""

import atexit
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any, Literal

from kode import paths
from kode.contracts import Wrapped
from kode.errors import ToolError
from kode.tools import confine, sandbox_git, sandbox_view
from kode.tools.confine_launcher import landlock_version
from kode.tools.sandbox_guard import guard
from kode.tools.sandbox_view import Ground

Kind = Literal["bubblewrap", "landlock", "none"]

TEST_TIMEOUT_S = 10.0

_WHERE = "/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin:/run/wrappers/bin"
"""Where bubblewrap is looked for: a project's folder on PATH must not supply it."""

_LEFT_OUT = (
    "SSH_AUTH_SOCK", "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS",
)  # fmt: skip
"""Variables that name what is out of reach."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What a sandbox is worth on this machine."""

    kind: Kind
    why: str
    """For `none` and `landlock`: why it is no better, with the next step."""
    gaps: tuple[str, ...] = ()
    """What it does not cover."""
    holds: bool = False
    """Whether an unknown program may run in it unasked: it can end and change nothing outside."""


@dataclass
class Sandbox:
    """The sandbox of one process; found out when first needed."""

    ground: Ground
    _standing: Standing | None = None
    _temporary: str = ""

    def standing(self) -> Standing:
        """What holds here; the first call tries it (about 0.1 s)."""
        if self._standing is None:
            self._standing = self._tried()
        return self._standing

    def holds_anything(self) -> bool:
        """Whether a program that nobody knows may run in it unasked. It then gets no network
        (`wrap`), whatever the settings say."""
        return self.standing().holds

    def wrap(self, argv: tuple[str, ...], network: bool | None) -> Wrapped:
        """What runs a command in the sandbox; see `contracts.Wrapped`. `network`: see
        `contracts.Verdict`.

        Raises: ToolError where there is none to be had: a command is never run bare instead.
        """
        standing = self.standing()
        if standing.kind == "none":
            raise ToolError(
                f"Not run: commands are to run in a sandbox, and there is none. {standing.why} "
                "Tell the person; go on with the file tools meanwhile."
            )
        try:
            return self.command(standing.kind, argv, network=network)
        except OSError as error:
            raise ToolError(
                f"Not run: the sandbox could not be made ({error}). Tell the person; go on with "
                "the file tools meanwhile."
            ) from None

    def _tried(self) -> Standing:
        faults = {}
        for kind in ("bubblewrap", "landlock"):
            fault = self.fault(kind)
            faults[kind] = fault
            if not fault:
                why = f"bubblewrap: {faults['bubblewrap']}." if kind == "landlock" else ""
                return _standing(kind, why, self.ground)
        said = "; ".join(f"{kind}: {fault}" for kind, fault in faults.items())
        return Standing(
            kind="none", why=f"{said}. Install bubblewrap, or set sandbox.enabled to false."
        )

    def fault(self, kind: Kind) -> str:
        """What is wrong with one kind, by trying it; "" when it holds."""
        if sys.platform != "linux":
            return "needs Linux"
        if kind == "bubblewrap" and not shutil.which("bwrap", path=_WHERE):
            return "not installed"
        if kind == "landlock" and (fault := self._fault_of_landlock()):
            return fault
        try:
            done = self._tested(kind)
            leaks = json.loads(done.stdout or "null")
        except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
            return f"its self-test failed ({error!r})"
        if leaks is None:
            said = done.stderr.strip()[-300:] or f"exit status {done.returncode}"
            return f"it does not start ({said})"
        return f"its self-test found that it {', '.join(leaks)}" if leaks else ""

    def _fault_of_landlock(self) -> str:
        version = landlock_version()
        if version < confine.SUFFICES_ALONE:
            return (
                "this kernel's is too old (Linux 6.2 is needed)"
                if version
                else "not in this kernel"
            )
        inside = sandbox_view.cannot_hide(self.ground)
        return f"it cannot hide {inside} inside of the working folder" if inside else ""

    def _tested(self, kind: Kind) -> "subprocess.CompletedProcess[str]":
        """The self-test, run inside; it prints what leaks."""
        probe = (confine.code_of("sandbox_probe"), self._probe(kind))
        wrapped = self.command(kind, (), probe=probe)
        try:
            return subprocess.run(
                wrapped.argv,
                env={"PATH": _WHERE},
                pass_fds=wrapped.descriptors,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=TEST_TIMEOUT_S,
                check=False,
            )
        finally:
            wrapped.settle()

    def _probe(self, kind: Kind) -> dict[str, Any]:
        ground = self.ground
        hidden = [ground.kode_home / name for name in ("config.json", "history")]
        for folder in (ground.kode_home / "memory", *ground.elsewhere):
            hidden += sandbox_view.not_readable(ground, folder)
        for home in ground.homes:
            names = (".ssh", ".aws") if home in ground.roots else (".ssh", ".aws", ".bashrc")
            hidden += [home / name for name in names]
        fixed = [Path(name) for name in ("/", "/usr", "/proc/sys/kernel/core_pattern")]
        above = [
            folder for folder in fixed if not any(folder.is_relative_to(r) for r in ground.roots)
        ]
        held = sandbox_git.held(ground.folders_of_work) if kind == "bubblewrap" else ()
        kept = [ground.cwd] if os.access(ground.cwd, os.W_OK) else []
        return {
            "hidden": [str(path) for path in hidden],
            "fixed": [*map(str, above), *(str(path) for hold, path in held if hold == "keep")],
            "kept": [*map(str, kept), self._temporary_inside(kind)],
            "network": ground.network,
            "outer_pid": os.getpid(),
        }

    def command(
        self,
        kind: Kind,
        argv: tuple[str, ...],
        *,
        network: bool | None = None,
        probe: tuple[CodeType, dict[str, Any]] | None = None,
    ) -> Wrapped:
        """What runs a command in one kind, tried or not. `network`: None is what the settings say;
        `probe`: see `confine.launch`.

        Raises: OSError when a folder of work is gone; KodeError when nothing can be kept of git.
        """
        ground = self.ground
        network = ground.network if network is None else network
        watched = [*sandbox_git.guarded(ground.folders_of_work), *sandbox_view.kept_inside(ground)]
        settle = guard(
            watched if probe is None else (),
            whole=kind == "landlock",
            records=paths.sandbox_folder(ground.kode_home),
        )
        carried: list[int] = []
        settle = _once(settle, carried)
        try:
            launcher = self._launcher(kind, carried, network=network, probe=probe)
        except BaseException:
            settle()
            raise
        return Wrapped(
            argv=(*launcher, *argv),
            descriptors=tuple(carried),
            settle=settle,
            note=_note(network, self.ground.network),
        )

    def _launcher(
        self,
        kind: Kind,
        carried: list[int],
        *,
        network: bool,
        probe: tuple[CodeType, dict[str, Any]] | None,
    ) -> tuple[str, ...]:
        """What the argument list of a command begins with; adds to `carried` the descriptors that
        it names."""
        ground = self.ground
        alone = kind == "landlock"
        inside = self._temporary_inside(kind)
        if alone:
            write = sandbox_view.landlock_write(ground, inside)
        else:
            folders = (*sandbox_view.changeable(ground), *sandbox_view.homes_inside(ground))
            write = [(path, True) for path in (*folders, inside, "/var/tmp", "/dev")]
        orders = confine.launch(
            write=write,
            read=sandbox_view.landlock_read(ground) if alone else None,
            internet=network or not alone,
            alone=alone,
            environment={
                **dict.fromkeys(_LEFT_OUT),
                "TMPDIR": inside,
                "XDG_CACHE_HOME": f"{inside}/.cache",
            },
            probe=probe,
        )
        python = os.path.realpath(sys.executable)
        launcher = (python, "-I", "-S", "-c", confine.BOOT, str(_carried(orders, carried)))
        if alone:
            return launcher
        mounts = sandbox_view.bubblewrap_arguments(
            ground,
            self._temporary_folder(),
            network=network,
            pin=lambda path: _pinned(path, carried),
        )
        arguments = _carried("\0".join(mounts).encode(errors="surrogateescape"), carried)
        bubblewrap = shutil.which("bwrap", path=_WHERE) or "bwrap"
        return (bubblewrap, "--args", str(arguments), "--", *launcher)

    def _temporary_inside(self, kind: Kind) -> str:
        return "/tmp" if kind == "bubblewrap" else self._temporary_folder()

    def _temporary_folder(self) -> str:
        """One folder for all commands of a process, since one leaves files for the next."""
        if not os.path.isdir(self._temporary):  # never made, or swept away
            self._temporary = os.path.realpath(tempfile.mkdtemp(prefix="kode-sandbox-"))
            atexit.register(shutil.rmtree, self._temporary, ignore_errors=True)
        return self._temporary


def open_sandbox(
    *,
    cwd: Path,
    roots: Sequence[Path],
    repository: Path | None,
    kode_home: Path,
    outputs: Path,
    network: bool,
    kept: Sequence[Path] = (),
    elsewhere: Sequence[Path] = (),
    readable: Sequence[Path] = (),
) -> Sandbox:
    """A sandbox for a session; nothing is tried yet. The fields of `Ground` say what is what."""
    homes = [Path.home(), Path(pwd.getpwuid(os.getuid()).pw_dir)]
    ground = Ground(
        cwd=_real(cwd),
        roots=tuple(dict.fromkeys(_real(root) for root in (cwd, *roots))),
        repository=_real(repository) if repository else None,
        homes=tuple(
            home for home in dict.fromkeys(map(_real, homes)) if home != Path("/") and home.is_dir()
        ),
        kode_home=_real(kode_home),
        outputs=_real(outputs),
        own=tuple(dict.fromkeys((_real(Path(sys.base_prefix)), _real(Path(sys.executable))))),
        kept=tuple(map(_real, kept)),
        elsewhere=tuple(map(_real, elsewhere)),
        readable=tuple(_real(path.parent) / path.name for path in readable),
        network=network,
    )
    return Sandbox(ground)


_GAPS_ALONE = (
    "git's hooks and settings are put back after a command, not kept from it",
    "editor tasks, workflows and .envrc of the project can be changed",
    "modes and times of your files elsewhere can be changed",
    "names and arguments of other processes can be seen",
    "shared memory of other programs can be reached",
)


def _standing(kind: Kind, why: str, ground: Ground) -> Standing:
    version = landlock_version()
    if kind == "bubblewrap":
        gap = "this kernel has no Landlock: named pipes elsewhere can be written to"
        return Standing(kind=kind, why=why, gaps=() if version else (gap,), holds=True)
    holds = version >= confine.HOLDS_SIGNALS
    more = [] if holds else ["other processes can be ended, so unknown programs are asked about"]
    more += ["all of the network can be used"] if ground.network else []
    return Standing(kind=kind, why=why, gaps=(*_GAPS_ALONE, *more), holds=holds)


def _note(network: bool, allowed: bool) -> str:
    if network:
        reach = ""
    elif allowed:
        reach = "no network, since nobody was asked about it (with an allow rule it has one), "
    else:
        reach = (
            "no network (a command that is known to need it, like `curl` or `git push`, has it "
            "after a yes of the person or with an allow rule), "
        )
    return f"It ran in the sandbox: {reach}only the project and $TMPDIR can be changed."


def _carried(data: bytes, descriptors: list[int]) -> int:
    """A descriptor of a file in memory that holds `data`, to be read from its beginning."""
    descriptor = os.memfd_create("kode")
    descriptors.append(descriptor)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _pinned(path: Path, descriptors: list[int]) -> str:
    """See `sandbox_view.Pin`. Raises OSError when it cannot be told what lies there."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    descriptors.append(descriptor)
    name = f"/proc/self/fd/{descriptor}"
    return name if os.readlink(name) == str(path) else ""


def _once(settle: Callable[[], str], descriptors: list[int]) -> Callable[[], str]:
    settled = False

    def once() -> str:
        nonlocal settled
        if settled:
            return ""
        settled = True
        while descriptors:
            os.close(descriptors.pop())
        return settle()

    return once


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
