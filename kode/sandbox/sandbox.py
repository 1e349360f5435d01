"""The sandbox of a session: which one this machine has, and what its commands share. One command in
it is an `Attempt`. What enforces it is imported when a command first needs it.

    bubblewrap   complete: root read-only, the home and kode's folder hidden, a private temporary
                 folder, no other processes, no network; inside it Landlock and seccomp (`limits`);
                 the folders of work in a throw-away layer where the kernel can make one
    landlock     Landlock and seccomp alone; only the temporary folder can be changed
    seatbelt     macOS: the same by a profile, see `seatbelt`
    none         neither: then only plain reading commands run unasked
"""

import atexit
import contextlib
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

from kode import paths
from kode.errors import SandboxUnknownError
from kode.paths import real_path
from kode.sandbox.values import SEATBELT, Grants, Kind, SandboxKind, Support, find_program
from kode.tool import FileChange
from kode.workplace import Workplace

if TYPE_CHECKING:
    from kode.sandbox.attempt import Attempt
    from kode.sandbox.layer import Layer
    from kode.sandbox.loopback import Loopback
    from kode.sandbox.masks import Masks
    from kode.sandbox.store import Store
    from kode.sandbox.view import Ground


@dataclass(eq=False, kw_only=True)
class Sandbox:
    """The sandbox of one process; tried on first use. Everything that its commands share is made
    when it is first needed."""

    place: Workplace
    network: bool = False
    writable: bool = False
    """Whether changes to the project are real."""
    has_layers: bool = True
    """Whether commands are to change a copy of the project, where the machine can make one."""
    denied: Callable[[str], bool] = lambda path: False
    """Whether a rule of the person denies reading a path."""
    shown: Iterable[Path] = ()
    cache: Path | None = None
    """See `Ground`, as for `shown`."""
    running: "list[Attempt]" = field(default_factory=list)
    """The commands in it that have not ended."""
    carried: dict[Path, Path] = field(default_factory=dict)
    """Working folder → holder of what commands of this session wrote and is not real."""
    _whiteouts: dict[Path, set[Path]] = field(default_factory=dict)
    """Working folder → the paths in it that such a holder hides."""
    _support: Support | None = None
    _is_unknown: bool = False
    """Whether the last self-test ran out of time."""
    _temporary: str = ""
    _store: "Store | None" = None
    _masks: "tuple[Masks, ...]" = ()
    _loopback: "Loopback | None" = None
    _can_share: bool = True
    """Whether to try for a network that its commands share: False once that has failed."""
    _lock: threading.RLock = field(default_factory=threading.RLock)
    """A hook and a command may need something for the first time at once; parallel self-tests would
    spoil each other's folders, and select a weaker sandbox."""

    @cached_property
    def ground(self) -> "Ground":
        from kode.sandbox.view import make_ground

        return make_ground(
            self.place,
            network=self.network,
            writable=self.writable,
            shown=self.shown,
            cache=self.cache,
        )

    # ── what this machine has ────────────────────────────────────────────────────────────────

    def support(self) -> Support:
        """The supported sandbox; tries (about 0.1 s) while it is not known. Raises:
        SandboxUnknownError where the trial runs out of time; the next call tries again. Nothing may
        run outside for that reason."""
        with self._lock:
            if self._support is None:
                from kode.sandbox.support import find_support

                try:
                    self._support = find_support(self)
                except SandboxUnknownError:
                    self._is_unknown = True
                    raise
                self._is_unknown = False
            return self._support

    def is_available(self) -> bool:
        """Whether this machine can run one; see `support`. Raises: SandboxUnknownError."""
        return self.support().kind != "none"

    def kind(self) -> SandboxKind:
        """Where commands can be tried, as far as is known; tries once if nobody has."""
        with contextlib.suppress(SandboxUnknownError):
            if not self._is_unknown and (support := self.support()).kind != "none":
                return "layered" if support.layered else "plain"
        return "unknown" if self._is_unknown else "none"

    def unavailable_reason(self) -> str:
        """Why there is certainly no sandbox, without trying; "" if only a trial can tell."""
        if sys.platform == "darwin":
            return "" if os.access(SEATBELT, os.X_OK) else f"{SEATBELT} is missing"
        if sys.platform != "linux":
            return "it needs Linux or macOS"
        if find_program("bwrap") is None:
            from kode.sandbox import launcher, limits

            if launcher.landlock_version() < limits.SUFFICES_ALONE:
                return "bubblewrap is not installed"
        return ""

    def why_missing(self) -> str:
        """Why a trial has found none; "" where nobody has tried, or it has."""
        return self._support.why if self._support and self._support.kind == "none" else ""

    def fault(self, kind: Kind, *, layered: bool = False) -> str:
        """Tries one kind; returns what is wrong with it, or "". Raises: SandboxUnknownError if the
        trial runs out of time."""
        from kode.sandbox.support import find_fault

        return find_fault(self, kind, layered=layered)

    # ── its commands ─────────────────────────────────────────────────────────────────────────

    def begin(self, *, records_opens: bool = False, grants: Grants | None = None) -> "Attempt":
        """Starts an attempt at one command. Not on the event loop: it may ask git. Raises: OSError
        when the sandbox cannot be created, SandboxUnknownError.

        records_opens: whether to record what it opens of the project, which is then as it is on
            disk, without the ignored files of earlier commands. Costs about 0.05 ms for each file.
        grants: for a program of its own, as a hook: what it may do besides. Of such a one
            `Attempt.blocked` has the writes to the empty home too, which are lost.
        """
        support = self.support()
        attempt = self.attempt(support.kind, layered=support.layered, records_opens=records_opens)
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
        """Starts an attempt in one kind of sandbox, tried or not. `probe`: see `limits.launch`;
        `records_opens`: see `begin`. Raises: OSError."""
        from kode.sandbox import masks
        from kode.sandbox.attempt import Attempt
        from kode.sandbox.layer import make_layer

        ground = self.ground
        if probe is None:  # before it counts as somebody else's change
            masks.settle_indexes(self.masked(), ground.git)
        layers: tuple[Layer, ...] = ()
        if layered and kind == "bubblewrap":
            if (store := self.store()) is None:
                raise OSError("there is no place for a copy of the project")
            lower = (lambda folder: None) if records_opens else self.carried_layer
            layers = tuple(make_layer(store, f, lower(f), ground.git) for f in ground.folders)
        return Attempt(
            sandbox=self, kind=kind, layers=layers, probe=probe, records_opens=records_opens
        )

    def refresh_running_commands(self, names: Iterable[str]) -> None:
        """Shows commands that still run these files as they are now. Never raises."""
        if running := tuple(self.running):
            masked = set(self.masked())
            real = [path for path in map(Path, names) if masked.isdisjoint((path, *path.parents))]
            for attempt in running:
                attempt.refresh(real)

    def carry_layer(self, layers: "Sequence[Layer]", changes: Sequence[FileChange]) -> None:
        """Keeps what a command wrote for the next ones."""
        from kode.sandbox.apply import carry_layer

        store = self.store()
        for layer in layers:
            inside = [each for each in changes if Path(each.path).is_relative_to(layer.root)]
            if store is not None and inside:
                holder = store / f"below-{paths.path_hash(layer.root)}"
                (holder / "upper").mkdir(parents=True, exist_ok=True)
                whiteouts = carry_layer(layer, inside, holder / "upper")
                self._whiteouts.setdefault(layer.root, set()).update(whiteouts)
                self.carried[layer.root] = holder

    def carried_layer(self, root: Path) -> Path | None:
        """The holder of what commands wrote in a working folder, as it fits what is real now."""
        from kode.sandbox.apply import drop_idle_whiteouts

        holder = self.carried.get(root)
        if holder is not None:
            drop_idle_whiteouts(root, holder / "upper", self._whiteouts[root])
        return holder

    def forget(self) -> None:
        """Drops ignored files of earlier commands: what a build created outside is newer."""
        for holder in self.carried.values():
            shutil.rmtree(holder, ignore_errors=True)
        self.carried, self._whiteouts = {}, {}

    # ── what they share ──────────────────────────────────────────────────────────────────────

    def masked(self) -> list[Path]:
        """The files and folders with keys in the working folders, as they are now."""
        with self._lock:
            if not self._masks:
                from kode.sandbox.masks import Masks

                git = frozenset(folder.path for folder in self.ground.git)
                self._masks = tuple(Masks(tree, self.denied, git) for tree in self.ground.trees)
        return [path for masks in self._masks for path in masks.paths()]

    def private_tmp(self) -> Path | None:
        """The folder that its commands see as `/tmp`; None where they see the machine's or none.
        The first call may try the sandbox."""
        if self._support is None and self.unavailable_reason():
            return None
        if self.kind() in ("none", "unknown") or self.support().kind != "bubblewrap":
            return None
        return Path(self.temporary_folder())

    def temporary_inside(self, kind: Kind) -> str:
        return "/tmp" if kind == "bubblewrap" else self.temporary_folder()

    def temporary_folder(self) -> str:
        """One folder for all commands of a process, because one leaves files for the next."""
        with self._lock:
            if not os.path.isdir(self._temporary):  # never created, or deleted
                store = self.store()
                if store is None:
                    import tempfile

                    self._temporary = real_path(tempfile.mkdtemp(prefix="kode-sandbox-"))
                    atexit.register(shutil.rmtree, self._temporary, ignore_errors=True)
                else:
                    (store / "tmp").mkdir(mode=0o700, exist_ok=True)
                    self._temporary = real_path(store / "tmp")
            return self._temporary

    def loopback(self) -> "Loopback | None":
        """The network that its commands share; None where each has its own, or the machine's."""
        with self._lock:
            if self._loopback is None and self._can_share and not self.ground.network:
                from kode.sandbox.loopback import make_loopback

                self._loopback = make_loopback()
                self._can_share = self._loopback is not None
            return self._loopback

    def store(self) -> Path | None:
        """The folder for layers and masks, not in a working folder, and hidden from commands; None
        if none can be created."""
        from kode.sandbox.store import open_store, places

        with self._lock:
            if self._store is None:
                ground = self.ground
                folders = ground.folders
                self._store = open_store(
                    place
                    for place in places(ground.kode_home)
                    if not any(place.is_relative_to(folder) for folder in folders)
                )
                if self._store is not None:
                    atexit.register(self._store.close)
            return None if self._store is None else self._store.folder

    def close(self) -> None:
        """Removes its `/tmp` and copies, unless a command still runs in it. It can be used
        again."""
        with self._lock:
            if self.running:
                return
            self.carried, self._whiteouts, self._temporary = {}, {}, ""
            if self._store is not None:
                atexit.unregister(self._store.close)
                self._store.close()
                self._store = None
            if self._loopback is not None:
                self._loopback.close()
                self._loopback = None


def missing_protection() -> str:
    """What commands lack on a Linux without bubblewrap, and how to get it; "" elsewhere."""
    if sys.platform != "linux" or find_program("bwrap"):
        return ""
    return (
        "bubblewrap is not installed: no copy of the project takes what commands write, other "
        "processes are not hidden from them, and kode asks before each that writes. Install your "
        "system's package `bubblewrap`; `kode doctor` says what this machine has."
    )
