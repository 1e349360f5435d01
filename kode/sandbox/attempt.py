"""One command in the sandbox: how it starts, what was blocked, what it changes in its layers."""

import asyncio
import contextlib
import errno
import itertools
import marshal
import os
import stat
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

from kode import beneath
from kode.paths import real_path
from kode.sandbox import layer as layers
from kode.sandbox import limits, seatbelt, view
from kode.sandbox.apply import apply, drop_replaced, take_carried
from kode.sandbox.layer import Layer
from kode.sandbox.loopback import Loopback
from kode.sandbox.masks import make_mask
from kode.sandbox.monitor import CommandLimits, SyscallMonitor, listening_ports
from kode.sandbox.values import Kind, Opens, find_program
from kode.sandbox.view import Ground, Reach
from kode.tool import Blocked, FileChange

if TYPE_CHECKING:
    from kode.sandbox.sandbox import Sandbox

_LEFT_OUT = (
    "SSH_AUTH_SOCK", "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS",
)  # fmt: skip
"""Variables that name unreachable things."""

_QUIET = {
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "NO_UPDATE_NOTIFIER": "1",
    "npm_config_update_notifier": "false",
    "DO_NOT_TRACK": "1",
    "GIT_OPTIONAL_LOCKS": "0",
}
"""Keeps tools from checking the network for updates, and git from writing an index unasked."""

_TRUST_SIZES = {
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "core.checkStat",
    "GIT_CONFIG_VALUE_0": "minimal",
    "GIT_CONFIG_KEY_1": "core.trustctime",
    "GIT_CONFIG_VALUE_1": "false",
}
"""A mask of a file that git tracks has the real file's size and time: to git it is unchanged."""

_RUN_PROBE = (
    "import marshal,sys\n"
    "c,o=marshal.loads(bytes.fromhex(sys.argv[1]));g={'__name__':'probe'};exec(c,g);g['run'](o)"
)


@dataclass(eq=False)
class Attempt:
    """One command in the sandbox: what it hit, and what it changed in its layers. Call `close` once
    the command has ended; it drops what was not applied."""

    sandbox: "Sandbox"
    kind: Kind
    layers: tuple[Layer, ...]
    probe: tuple[CodeType, dict[str, Any]] | None = None
    records_opens: bool = False
    argv: tuple[str, ...] = ()
    """What runs the command, once `wrap` has been called."""
    descriptors: tuple[int, ...] = ()
    """Must be passed to it under the same numbers."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the command and everything it started have ended."""
    ground: Ground = field(init=False)
    """What it may reach: as the others, or more."""
    started_ns: int = 0
    since_ns: dict[str, int] = field(default_factory=dict)
    """Ignored folder that earlier commands wrote in, too → when the first of them had ended."""
    _monitor: SyscallMonitor | None = None
    _descriptors: list[int] = field(default_factory=list)
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.ground = self.sandbox.ground

    def wrap(self, argv: tuple[str, ...]) -> "Attempt":
        """Prepares the one start of a command, with its `argv` from then on. Whoever starts it, or
        fails to, calls `settle`. Raises: OSError."""
        self.started_ns = time.time_ns()
        if self.probe is None and self.kind != "seatbelt":
            self._monitor = SyscallMonitor(self._limits())
        try:
            launcher = self._in_seatbelt() if self.kind == "seatbelt" else self._launcher()
        except BaseException:
            self.settle()
            raise
        if self._monitor is not None:
            self._monitor.start()
        if self.probe is None:
            self.sandbox.running.append(self)
        reporting = () if self._monitor is None else (self._monitor.descriptor,)
        loopback = self._loopback()
        network = () if loopback is None else loopback.descriptors
        self.argv = (*launcher, *argv)
        self.descriptors = (*self._descriptors, *reporting, *network)
        return self

    def blocked(self, output: str = "") -> tuple[Blocked, ...]:
        """What the sandbox blocked. `output` is the command's output, where the kernel reports
        nothing else."""
        if self.kind == "seatbelt":  # which reports nothing: its refusals are errors in the output
            return (
                (Blocked("unknown"),) if os.strerror(errno.EPERM).lower() in output.lower() else ()
            )
        return tuple(self._monitor.blocked) if self._monitor is not None else ()

    def changes(self) -> tuple[FileChange, ...]:
        """The command's changes in the working folders. Raises: SandboxError."""
        return tuple(change for layer in self.layers for change in self._changes_in(layer))

    def _changes_in(self, layer: Layer) -> tuple[FileChange, ...]:
        found = layers.changes(layer)
        below = self.sandbox.carried.get(layer.root)
        if below is None:
            return found
        drop_replaced(layer, below / "upper")
        since_ns = below.stat().st_ctime_ns  # its first command's end
        folders = {change.ignored for change in found if change.kind != "cache" and change.ignored}
        if taken := take_carried(layer, folders, below / "upper"):
            self.since_ns |= dict.fromkeys(taken, since_ns)
            found = layers.changes(layer)
        return found

    def files(self, change: FileChange) -> tuple[str, ...]:
        """The paths that become real with a change, a new folder's own before those in it."""
        layer, version = self._layer_of(change.path), self.version(change.path)
        is_folder = version is not None and version.is_dir() and not version.is_symlink()
        if layer is None or change.change == "deleted" or not is_folder:
            return (change.path,)
        return layers.new_files(layer, change.path)

    def version(self, path: str) -> Path | None:
        """Where its version of a real path lies; None for a path outside the layers."""
        layer = self._layer_of(path)
        return layers.version(layer, path) if layer is not None else None

    def _hides(self, path: str) -> bool:
        return view.is_hidden(self.sandbox.ground, Path(path))

    def _layer_of(self, path: str) -> Layer | None:
        return next((each for each in self.layers if Path(path).is_relative_to(each.root)), None)

    def apply(self, changes: Sequence[FileChange]) -> dict[str, str]:
        left: dict[str, str] = {}
        by_start: dict[int, list[FileChange]] = {}
        for change in changes:
            since_ns = self.since_ns.get(change.ignored, self.started_ns)
            by_start.setdefault(since_ns, []).append(change)
        for layer, (since_ns, those) in itertools.product(self.layers, by_start.items()):
            inside = [change for change in those if self._layer_of(change.path) is layer]
            left |= apply(layer, inside, since_ns, self._hides)
        return left

    def refresh(self, paths: Iterable[Path]) -> None:
        """Shows the running command these files as they are now."""
        with self._one_at_a_time:
            copies = self._monitor.copies if self._monitor is not None else []
            for layer, copy in zip(self.layers, copies, strict=False):
                for path in paths:
                    if path.is_relative_to(layer.root):
                        refresh_file(copy, layer.root, path)

    def carry_layer(self, changes: Sequence[FileChange]) -> None:
        """Keeps what it wrote for the session's next commands."""
        self.sandbox.carry_layer(self.layers, changes)

    def close(self) -> None:
        for layer in self.layers:
            layers.discard(layer)

    def opened(self) -> Opens | None:
        """What it has opened so far; None if that is not recorded."""
        monitor = self._monitor
        if monitor is None or not self.records_opens or not monitor.listens:
            return None
        return Opens(
            project=tuple(monitor.opened),
            scripts=tuple(path for path in monitor.scripts if path in monitor.opened),
            elsewhere=tuple(monitor.elsewhere),
        )

    def settle(self) -> None:
        """Is called when everything the command started has ended. Idempotent. Never raises."""
        while self._descriptors:
            os.close(self._descriptors.pop())
        if self._monitor is not None and not self.ended.is_set():
            with self._one_at_a_time:  # nothing may be written to a descriptor of something else
                self._monitor.stop()
        if self in self.sandbox.running:
            self.sandbox.running.remove(self)
        self.ended.set()

    def _limits(self) -> CommandLimits:
        ground, reach = self.ground, self._whole_reach
        layered = [layer.root for layer in self.layers]
        return CommandLimits(
            writable=tuple(view.writable(reach, layered, alone=self.kind == "landlock")),
            fixed=tuple(view.fixed(reach, layered, homes=ground.home_counts)),
            network=ground.network,
            services=listening_ports,
            opens_below=tuple(map(str, ground.trees)) if self.records_opens else (),
        )

    def _launcher(self) -> tuple[str, ...]:
        """The beginning of a command's argument list; keeps the descriptors it names open."""
        sandbox, ground = self.sandbox, self.ground
        alone = self.kind == "landlock"
        masked = sandbox.masked()
        masks = {} if alone else {path: _mask_for(path, sandbox.store()) for path in masked}
        read, roots = None, (layer.root for layer in self.layers)
        write = [(path, True) for path in view.writable(self._whole_reach, roots, alone=alone)]
        if alone:
            more = map(str, (self.sandbox.temporary_folder(), *ground.granted))
            read = [*((path, True) for path in more), *view.landlock_read(ground, masked)]
            write += view.DEVICES[:4]
        orders = limits.launch(
            write=write,
            read=read,
            listed=view.landlock_listed(ground, masked) if alone else (),
            internet=ground.network or not alone,
            alone=alone,
            environment=self._environment(masked),
            layers=[layer.mount() for layer in self.layers],
            masks=[
                (str(path), mask and mask.replace(str(self.sandbox.store()), layers.STAGE))
                for path, mask in masks.items()
            ]
            if self.layers
            else (),
            cwd=str(ground.cwd),
            report_to=self._monitor.descriptor if self._monitor is not None else None,
            opens=self.records_opens,
            probe=self.probe,
        )
        python = real_path(sys.executable)
        launcher = (python, "-I", "-S", "-c", limits.BOOT, str(_carried(orders, self._descriptors)))
        return launcher if alone else (*self._in_bubblewrap(masks), *launcher)

    def _environment(self, masked: Sequence[Path]) -> dict[str, str | None]:
        """Variables to set, or to leave out where the value is None."""
        inside = self.sandbox.temporary_inside(self.kind)
        return {
            **dict.fromkeys(_LEFT_OUT),
            **_QUIET,
            **(_TRUST_SIZES if masked else {}),
            "TMPDIR": inside,
            "XDG_CACHE_HOME": str(self.sandbox.ground.cache or f"{inside}/.cache"),
            # Byte code beside a source would be one more file to approve, and any run makes it.
            **({"PYTHONPYCACHEPREFIX": f"{inside}/.cache"} if self.records_opens else {}),
        }

    @cached_property
    def _whole_reach(self) -> Reach:
        """What it may reach where nothing is masked."""
        return self._reach(())

    def _reach(self, masked: Iterable[Path]) -> Reach:
        has_network = self._loopback() is not None
        return view.reach(
            self.ground,
            self.sandbox.temporary_folder(),
            masked=masked,
            network="all" if self.ground.network else "loopback" if has_network else "none",
        )

    def _loopback(self) -> Loopback | None:
        """The network of the session's commands; None for one with its own, or the machine's."""
        if self.kind != "bubblewrap" or self.ground.network:
            return None
        return self.sandbox.loopback()

    def _in_bubblewrap(self, masks: Mapping[Path, str]) -> tuple[str, ...]:
        sandbox, loopback = self.sandbox, self._loopback()
        # Over layers, the launcher hides the files with keys.
        mounts = view.bubblewrap_arguments(
            self.ground,
            self._whole_reach if self.layers else self._reach(masks),
            masks=masks,
            store=str(sandbox.store()) if self.layers else "",
            lowers=[
                (layer.root, f"{layers.STAGE}/{layer.holder.name}/lower") for layer in self.layers
            ],
        )
        carried = _carried("\0".join(mounts).encode(errors="surrogateescape"), self._descriptors)
        bubblewrap = find_program("bwrap") or "bwrap"
        enter = () if loopback is None else loopback.enter
        return (*enter, bubblewrap, "--args", str(carried), "--")

    def _in_seatbelt(self) -> tuple[str, ...]:
        masked = self.sandbox.masked()
        given = self._environment(masked).items()
        unset = [word for name, value in given if value is None for word in ("-u", name)]
        changed = [f"{name}={value}" for name, value in given if value is not None]
        launcher = (*seatbelt.command(self._reach(masked)), seatbelt.ENV, *unset, *changed)
        if self.probe is None:
            return launcher
        python = real_path(sys.executable)
        return (*launcher, python, "-I", "-S", "-c", _RUN_PROBE, marshal.dumps(self.probe).hex())


def refresh_file(view: int, root: Path, path: Path) -> None:
    """Makes a file below the folder of the descriptor `view`, a command's copy, what it is below
    `root`: there with this content, or gone. The kernel's overlay does not promise that a command
    sees files of the real folder that changed under it; since the copy then equals the real file,
    it is no change to apply. Never follows a link, of the command or of the project. Never raises:
    what cannot be shown stays as the command has it."""
    *folders, name = path.relative_to(root).parts
    with contextlib.suppress(OSError), contextlib.ExitStack() as opened:
        open_below = beneath.open_below(view, folders, make=beneath.usual_mode)
        folder = opened.enter_context(open_below)
        try:
            real = opened.enter_context(beneath.open_folder(root / Path(*folders)))
            status = os.lstat(name, dir_fd=real)
        except (FileNotFoundError, NotADirectoryError, beneath.LinkInTheWay):
            os.unlink(name, dir_fd=folder)
            return
        if stat.S_ISLNK(status.st_mode):
            beneath.link_in(os.readlink(name, dir_fd=real), folder, name)
        elif stat.S_ISREG(status.st_mode):
            beneath.copy_in(real, name, folder, name, stat.S_IMODE(status.st_mode) & 0o777)


def _mask_for(path: Path, store: Path | None) -> str:
    """The empty file that masks one with keys; "" for a folder."""
    if path.is_dir() or store is None:
        return "" if path.is_dir() else "/dev/null"
    try:
        return str(make_mask(store, path))
    except OSError:
        return "/dev/null"


def _carried(data: bytes, descriptors: list[int]) -> int:
    """A descriptor of an in-memory file with `data`, positioned at its beginning."""
    descriptor = os.memfd_create("kode")
    descriptors.append(descriptor)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
