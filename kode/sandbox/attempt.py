"""One command in the sandbox: how it starts, what was blocked, what it changes in its layers."""

import asyncio
import contextlib
import errno
import os
import re
import sys
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from kode.paths import real_path
from kode.sandbox import kernel, reach
from kode.sandbox.layer import Layer, apply, carry, list_changes, make_mask, remove_tree
from kode.sandbox.reach import STAGE, Interest, Kind, Opens, Reach, find_program
from kode.tool import Blocked, FileChange
from kode.values import dataclass, field
from kode.workplace import is_below_any

if TYPE_CHECKING:
    from kode.sandbox.sandbox import Sandbox

_NAMES_UNREACHABLE = (
    "SSH_AUTH_SOCK DISPLAY WAYLAND_DISPLAY XDG_RUNTIME_DIR DBUS_SESSION_BUS_ADDRESS".split()
)
_VARIABLES: Mapping[str, str | None] = {
    **dict.fromkeys(_NAMES_UNREACHABLE),
    # Keeps tools from checking the network for updates, and git from writing an index unasked
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "NO_UPDATE_NOTIFIER": "1",
    "npm_config_update_notifier": "false",
    "DO_NOT_TRACK": "1",
    "GIT_OPTIONAL_LOCKS": "0",
}
"""What a command gets besides, or not at all."""
_TRUST_SIZES = {
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "core.checkStat",
    "GIT_CONFIG_VALUE_0": "minimal",
    "GIT_CONFIG_KEY_1": "core.trustctime",
    "GIT_CONFIG_VALUE_1": "false",
}
"""A mask of a file that git tracks has the real file's size and time: to git it is unchanged."""

_MISSING = re.compile(
    rf"(?i){os.strerror(errno.ENOENT)}|{os.strerror(errno.EACCES)}|not found|does not exist|ENOENT"
)
_PATH = re.compile(r"/[\w@.+/-]*[\w+-]")


@dataclass(eq=False)
class Attempt:
    """One command in the sandbox: what it hit, and what it changed in its layers. Call `close` once
    the command has ended; it drops what was not applied."""

    sandbox: "Sandbox"
    kind: Kind
    reach: Reach
    """What it reaches, before the files with keys are hidden."""
    masked: Sequence[Path]  # the files and folders with keys
    layers: Sequence[Layer]
    interest: Interest
    argv: tuple[str, ...] = ()  # what runs the command, once `wrap` has been called
    descriptors: tuple[int, ...] = ()  # must be passed to it under the same numbers
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the command and everything it started have ended."""
    _monitor: kernel.SyscallMonitor | None = None
    _files: list[int] = field(default_factory=list)  # descriptors of what is carried to it

    def wrap(self, argv: tuple[str, ...]) -> "Attempt":
        """Prepares the one start of a command, with its `argv` from then on. Whoever starts it, or
        fails to, calls `settle`. Raises: OSError, where a working folder has become a link too."""
        try:
            for folder in map(str, self.sandbox.folders):
                if real_path(folder) != folder:  # what it leads to would be shown
                    raise OSError(f"{folder} has become a link")
            launcher = (
                self._in_seatbelt() if self.kind == "seatbelt" else self._launcher_arguments()
            )
        except BaseException:
            self.settle()
            raise
        self.argv = (*launcher, *argv)
        self.sandbox.running.append(self)
        return self

    def settle(self) -> None:
        """Is called when everything the command started has ended. Idempotent. Never raises."""
        while self._files:
            os.close(self._files.pop())
        if self._monitor is not None and not self.ended.is_set():
            self._monitor.stop()
        if self in self.sandbox.running:
            self.sandbox.running.remove(self)
        self.ended.set()

    def close(self) -> None:
        """Removes its layers, with everything in them that did not become real. Never raises."""
        for layer in self.layers:
            remove_tree(layer.holder)

    def find_blocked(self, output: str = "") -> tuple[Blocked, ...]:
        """What the sandbox blocked. `output` is the command's output, where the kernel reports
        nothing else."""
        if self._monitor is None:  # Seatbelt reports nothing: its refusals are in the output
            is_refused = os.strerror(errno.EPERM).lower() in output.lower()
            return (Blocked("unknown"),) if is_refused else ()
        hidden = {self._find_hidden(output)} - {"", *self.sandbox.named}
        self.sandbox.named |= hidden
        return (*self._monitor.blocked, *(Blocked("hidden", path) for path in hidden))

    def _find_hidden(self, output: str) -> str:
        """The first path that exists, but not for the command, and that its output names as
        missing; "" for none."""
        lines = (line for line in output.splitlines() if _MISSING.search(line))
        for path in (path for line in lines for path in _PATH.findall(line)):
            with contextlib.suppress(OSError, ValueError):  # nobody may look there
                # Of homes and of kode's folders not even what exists is said.
                if reach.is_outside(self.reach, real_path(path)) and os.path.exists(path):
                    return real_path(path)
        return ""

    def list_opened(self) -> Opens | None:
        """What it has opened so far; None if that is not recorded."""
        if self._monitor is None or not self._monitor.opened:
            return None
        paths, scripts = tuple(self._monitor.opened), self._monitor.scripts
        trees = [*map(str, reach.work_folders(self.sandbox.place, with_git=False))]
        inside = dict.fromkeys(path for path in paths if is_below_any(path, trees))
        return Opens(
            project=tuple(inside),
            scripts=tuple(path for path in inside if path in scripts),
            elsewhere=tuple(path for path in paths if path not in inside),
        )

    @property
    def outside_text(self) -> str | None:
        """The first that it opened of the files that a rule shows and of those that are marked; ""
        for none, None if that is not known."""
        return self._monitor.outside_text if self._monitor is not None else None

    def changes(self) -> tuple[FileChange, ...]:
        """The command's changes in the working folders. Raises: OSError, KodeError."""
        return tuple(change for layer in self.layers for change in list_changes(layer))

    def version(self, path: str) -> Path:
        """Where its version of a changed path lies."""
        return next(it.version(path) for it in self.layers if Path(path).is_relative_to(it.root))

    def files(self, change: FileChange) -> tuple[str, ...]:
        """The paths that become real with a change, a new folder's own before those in it."""
        version, paths = str(self.version(change.path)), [change.path]
        for folder, folders, names in () if change.is_link else os.walk(version):
            inside = f"{change.path}{folder.removeprefix(version)}"
            paths += [f"{inside}/{name}" for name in (*folders, *names)]
        return tuple(paths)

    def apply(self, changes: Sequence[FileChange]) -> dict[str, str]:
        """Makes changes real; returns those skipped, each with the reason."""
        skipped = (apply(layer, changes, self.reach) for layer in self.layers)
        return {path: reason for each in skipped for path, reason in each.items()}

    def carry_layer(self, changes: Sequence[FileChange]) -> None:
        """Keeps what it wrote for the session's next commands. Never raises."""
        for layer in self.layers:
            carry(layer, changes)

    def _launcher_arguments(self) -> tuple[str, ...]:
        """The beginning of a command's argument list; keeps the descriptors it names open."""
        sandbox, alone, cwd = self.sandbox, self.kind == "landlock", self.sandbox.place.cwd
        store = sandbox.store()
        masks = {} if alone else {path: make_mask(store, path) for path in self.masked}
        # What the entry of a server names is no text from outside.
        watched = dict.fromkeys(map(str, sandbox.grants.read), "") if sandbox.has_layers else {}
        watched |= self.interest.marked
        sources = islice(self.interest.marked.values(), 1)  # git shows any file of its records
        watched |= {f"{git.path}/objects": it for it in sources for git in sandbox.place.git}
        self._monitor = kernel.SyscallMonitor(self.reach, self.interest, watched)
        orders = kernel.launch(
            self.reach.hide(self.masked) if alone else self.reach,
            alone=alone,
            report_to=self._monitor.descriptor,
            opens=self.interest.records_opens or bool(watched),
            environment=self._list_variables(),
            layers=[layer.mount() for layer in self.layers],
            masks=[(str(path), mask.replace(str(store), STAGE)) for path, mask in masks.items()],
            cwd=str(cwd),
        )
        words: tuple[str, ...] = (real_path(sys.executable), *kernel.BOOT, self._carry(orders))
        if not alone:
            mounts = reach.to_bubblewrap(
                # Over layers, the launcher hides the files with keys.
                self.reach if self.layers else self.reach.hide(masks),
                cwd,
                masks=masks,
                store=store,
                lowers={layer.root: f"{STAGE}/{layer.holder.name}/lower" for layer in self.layers},
            )
            carried = self._carry("\0".join(mounts).encode(errors="surrogateescape"))
            words = (find_program("bwrap") or "bwrap", "--args", carried, "--", *words)
        self.descriptors = (*self._files, self._monitor.descriptor)
        if self.reach.network != "loopback":
            return words
        self.descriptors += sandbox.loopback().descriptors
        return (*sandbox.loopback().enter, *words)

    def _in_seatbelt(self) -> tuple[str, ...]:
        variables = self._list_variables().items()
        unset = [word for name, value in variables if value is None for word in ("-u", name)]
        changed = [f"{name}={value}" for name, value in variables if value is not None]
        return (*reach.to_seatbelt(self.reach.hide(self.masked)), "/usr/bin/env", *unset, *changed)

    def _list_variables(self) -> dict[str, str | None]:
        """Variables to set, or to leave out where the value is None."""
        inside = "/tmp" if self.kind in reach.BUBBLEWRAP else self.reach.temporary
        cache = str(self.sandbox.grants.cache or f"{inside}/.cache")
        variables = {**_VARIABLES, **(_TRUST_SIZES if self.masked else {})}
        variables |= {"TMPDIR": inside, "XDG_CACHE_HOME": cache}
        if self.interest.records_opens:  # byte code beside a source would have to be approved
            variables["PYTHONPYCACHEPREFIX"] = cache
        return variables

    def _carry(self, data: bytes) -> str:
        """The number of a descriptor of a file in memory, to be read from its beginning."""
        self._files.append(os.memfd_create("kode"))
        os.pwrite(self._files[-1], data, 0)
        return str(self._files[-1])
