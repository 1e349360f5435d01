"""The sandbox of a session: which kind this machine has, and what the session's commands share. An
`Attempt` is one command in it: how it starts, what was blocked, what it changes in its layers. The
modules that enforce the limits are imported when a command first needs them.
"""

import asyncio
import atexit
import contextlib
import errno
import fcntl
import os
import re
import secrets
import shutil
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from kode import beneath, paths
from kode.errors import KodeError, SandboxUnknownError
from kode.sandbox import reach
from kode.sandbox.layer import (
    Layer,
    Masks,
    apply_changes,
    carry_layer,
    list_changes,
    make_layer,
    make_mask,
    remove_tree,
    settle_indexes,
)
from kode.sandbox.reach import (
    BUBBLEWRAP,
    STAGE,
    Grants,
    Interest,
    Kind,
    Network,
    Opens,
    Reach,
    find_program,
    is_visible,
)
from kode.tool import Blocked, FileChange
from kode.values import dataclass, field
from kode.workplace import Workplace, is_below, is_below_any

if TYPE_CHECKING:
    from kode.sandbox.kernel import SyscallMonitor
    from kode.sandbox.trial import Support

SandboxKind = Literal["none", "plain", "layered", "unknown"]
"""Where commands can run unapproved: nowhere; in a sandbox with a read-only project; in one where
they write to a copy of it; `unknown` if its self-test ran out of time."""

WrapCommand = Callable[[tuple[str, ...]], "Attempt"]
"""Turns a command's argument list into an attempt that runs it in the sandbox. Raises: OSError."""


@dataclass(eq=False, repr=False, kw_only=True)
class ProgramError(KodeError):
    """A program does not exist, or the sandbox hides it from commands, at the `hidden` paths."""

    hidden: Sequence[str] = ()


_PREFIX = "layers-"


class LayerStore(NamedTuple):
    """A folder for the layers of one process; its lock shows that it is in use."""

    folder: Path
    lock: int

    def close(self) -> None:
        remove_tree(self.folder)
        os.close(self.lock)


def store_places(home: Path) -> list[Path]:
    """The folders that may hold the stores of a kode home, the best first."""
    temporary = (Path(paths.real_path(folder)) for folder in ("/tmp", "/dev/shm"))
    return [paths.sandbox_folder(home), *(path / f"kode-{os.getuid()}" for path in temporary)]


def open_store(home: Path, *, outside: Sequence[Path] = ()) -> LayerStore:
    """Opens a store for a kode home, in the first writable place that lies in none of the folders
    `outside`. Raises: OSError if there is none."""
    places = [path for path in store_places(home) if not any(map(path.is_relative_to, outside))]
    for parent in places:
        with contextlib.suppress(OSError):
            parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            # Until the new folder is locked, nobody may take it for an abandoned one.
            with beneath.auto_close(_lock_private(parent)):
                folder = parent / f"{_PREFIX}{secrets.token_hex(6)}"
                folder.mkdir(mode=0o700)
                return LayerStore(folder=folder, lock=_lock_folder(folder))
    raise OSError(f"make one of {', '.join(map(str, places))} writable, for you alone")


def remove_abandoned(home: Path) -> None:
    """Removes the stores of killed processes. Never raises."""
    for parent in store_places(home):
        abandoned: list[LayerStore] = []
        with contextlib.suppress(OSError), beneath.auto_close(_lock_private(parent)):
            for folder in parent.glob(f"{_PREFIX}*"):
                with contextlib.suppress(OSError):
                    abandoned.append(LayerStore(folder=folder, lock=_lock_folder(folder)))
        for store in abandoned:
            store.close()


def _lock_private(parent: Path) -> int:
    """Locks a folder of stores. Raises: OSError, also if others can write to the folder: in a
    temporary folder, anybody may have made one of its name."""
    status = os.lstat(parent)
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(parent)
    return _lock_folder(parent, fcntl.LOCK_EX)


def _lock_folder(folder: Path, kind: int = fcntl.LOCK_EX | fcntl.LOCK_NB) -> int:
    """Locks a folder. Raises: OSError if another process holds the lock, or if it is no folder."""
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, kind)
    except OSError:
        os.close(lock)
        raise
    return lock


_LOOPBACK_S = 10.0  # takes milliseconds; a loaded machine is slow
_OWNER = 0xB701  # the call for the user namespace that owns a namespace (ioctl_ns(2))
_WHOLE = ("--ro-bind", "/", "/", "--unshare-user-try")
_LISTEN = (
    "import socket; listener = socket.create_server(('127.0.0.1', 0)); "
    "socket.send_fds(socket.socket(fileno=0), [b'l'], [listener.fileno()])"
)


class Loopback(NamedTuple):
    """A network namespace with only a loopback. It lives as long as a descriptor of it is open:
    nothing has to be watched or ended, not even after `kill -9`."""

    enter: tuple[str, ...] = ()
    """The beginning of an argument list that starts a program in it; empty if it was not made."""
    descriptors: tuple[int, ...] = ()  # must be passed to the child under the same numbers

    def run(self, *argv: str, stdin: int = subprocess.DEVNULL) -> None:
        """Runs a program in it. Raises: OSError, SubprocessError, also if the program fails."""
        subprocess.run(
            [*self.enter, *argv],
            pass_fds=self.descriptors,
            stdin=stdin,
            capture_output=True,
            timeout=_LOOPBACK_S,
            check=True,
        )

    def listen(self) -> socket.socket:
        """Returns this process a socket that listens in it. Raises: OSError, SubprocessError."""
        if not self.enter:
            raise OSError("this machine has no network apart for it")
        ours, theirs = socket.socketpair()
        with ours, theirs:
            self.run(sys.executable, "-I", "-S", "-c", _LISTEN, stdin=theirs.fileno())
            return socket.socket(fileno=socket.recv_fds(ours, 1, 1)[1][0])

    def close(self) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)


def make_loopback() -> Loopback:
    """Makes such a network and tries it (about 10 ms); returns an empty one if that fails."""
    bubblewrap, nsenter = map(reach.find_program, ("bwrap", "nsenter"))
    if bubblewrap is None or nsenter is None:
        return Loopback()
    with (
        contextlib.suppress(OSError, ValueError, subprocess.SubprocessError),
        contextlib.ExitStack() as opened,
    ):
        net = _open_network(bubblewrap)
        opened.callback(os.close, net)
        user = fcntl.ioctl(net, _OWNER)
        opened.callback(os.close, user)
        names = (f"--user=/proc/self/fd/{user}", f"--net=/proc/self/fd/{net}")
        made = Loopback((nsenter, *names, "--preserve-credentials", "--"), (user, net))
        made.run(bubblewrap, *_WHOLE, "--unshare-pid", "--", "/bin/sh", "-c", ":")
        opened.pop_all()
        return made
    return Loopback()


def _open_network(bubblewrap: str) -> int:
    """Opens a descriptor of a new network with its loopback up. Raises: OSError, ValueError."""
    with subprocess.Popen(
        # The shell ends when its input does, so at the latest with kode.
        [bubblewrap, *_WHOLE, "--unshare-net", "--", "/bin/sh", "-c", "echo $$; read end"],
        env={"PATH": reach.SYSTEM_PATH},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())  # it has started, so its network is complete
        net = os.open(f"/proc/{child}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        process.kill()
        return net


@dataclass(eq=False, kw_only=True)
class Sandbox:
    """The sandbox of one process; tried on first use. What its commands share is made when it is
    first needed."""

    place: Workplace  # resolved to real paths
    grants: Grants = field(default_factory=Grants)  # what all of its commands may do
    has_layers: bool = True
    """Whether commands should change a copy of the project, if the machine can make one."""
    denied: Callable[[str], bool] = lambda path: False
    """Whether a rule of the person denies reading a path."""
    running: "list[Attempt]" = field(default_factory=list)
    """The commands in the sandbox that have not ended."""
    carried: dict[Path, Layer] = field(default_factory=dict)
    """Working folder → what commands of this session wrote there and nobody applied."""
    named: set[str] = field(default_factory=set)
    """Hidden paths that the person and the model were told about."""
    _support: "Support | None" = None
    _is_unknown: bool = False  # whether the last self-test ran out of time
    _store: LayerStore | None = None
    _loopback: Loopback | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock)
    """A hook and a command may need something for the first time at once; parallel self-tests would
    disturb each other's folders, and select a weaker sandbox."""

    def __post_init__(self) -> None:
        self.place = reach.resolve_workplace(self.place)

    @cached_property
    def folders(self) -> tuple[Path, ...]:
        """The working folders and git's folders of them, none inside another."""
        return reach.work_folders(self.place, with_git=not self.grants.project)

    @cached_property
    def siblings(self) -> tuple[Path, ...]:
        """The folders outside the project that its manifests name. Looked up once: a command cannot
        make more visible by changing a manifest."""
        return reach.find_siblings(self.place, self.folders)

    @cached_property
    def _shown(self) -> tuple[Path, ...]:
        return (*reach.find_tool_chains(), *self.siblings)

    @cached_property
    def masks(self) -> Masks:
        """The files and folders with keys in the working folders, and in the other project folders
        that commands can see."""
        git = frozenset(folder.path for folder in self.place.git)
        # What a server's config entry names is granted with the keys in it.
        granted = self.grants.read if self.has_layers else ()
        trees = reach.work_folders(self.place, with_git=False)
        return Masks((*trees, *self.siblings, *granted), self.denied, git)

    def reach(self, kind: Kind) -> Reach:
        """What a command may reach in a kind of sandbox, before the files with keys are hidden."""
        is_alone = not self.grants.network and kind in BUBBLEWRAP and self.loopback().enter
        network: Network = "loopback" if is_alone else "all" if self.grants.network else "none"
        temporary = self.temporary_folder()
        return reach.make_reach(self.place, self.grants, kind, self._shown, temporary, network)

    def hidden_paths(self, path: str) -> list[str]:
        """What commands cannot see of an existing path: the path itself, where its links lead."""
        spellings, shown = (os.path.abspath(path), paths.real_path(path)), self.reach("plain")
        hidden = (it for it in spellings if os.path.exists(path) and not is_visible(shown, it))
        return [*dict.fromkeys(hidden)]

    def shows(self, path: str) -> bool:
        """Whether commands can read an absolute path, and everything below it."""
        if self.kind() not in ("plain", "layered"):
            return False
        shown, real = self.reach(self.support().kind), paths.real_path(path)
        hidden = map(str, shown.of("hidden", "empty", "private"))
        return is_visible(shown, real) and not any(is_below(place, real) for place in hidden)

    @property
    def is_tried(self) -> bool:
        """Whether it is known which kind this machine has."""
        return self._support is not None

    def support(self) -> "Support":
        """The best sandbox of this machine, of kind `none` if it has none. Runs a self-test (about
        0.1 s) while that is unknown. Raises: SandboxUnknownError if the self-test runs out of time:
        the next call tries again, and meanwhile nothing may run outside."""
        with self._lock:
            if self._support is None:
                from kode.sandbox.trial import find_support

                self._is_unknown = True
                self._support = find_support(self)
            self._is_unknown = False
            return self._support

    def kind(self) -> SandboxKind:
        """Where commands can run unapproved, as far as is known; runs one self-test if none was."""
        with self._lock, contextlib.suppress(SandboxUnknownError):
            if not self._is_unknown:
                kind = self.support().kind
                return kind if kind in ("none", "layered") else "plain"
        return "unknown"

    def begin(self, interest: Interest | None = None, *, kind: Kind | None = None) -> "Attempt":
        """Prepares one command, in a `kind` of sandbox that need not have been tried. Do not call
        on the event loop: it may run git. Raises: OSError when the sandbox cannot be created,
        SandboxUnknownError."""
        interest, kind = interest or Interest(), kind or self.support().kind
        masked, layers = self.masks.paths(), []
        settle_indexes(masked, self.place.git)  # before the layers exist, or it counts as a change
        for root in self.folders if kind == "layered" else ():
            if root not in self.carried:
                self.carried[root] = make_layer(self.store(), root)
            below = None if interest.records_opens else self.carried[root]
            layers.append(make_layer(self.store(), root, below, self.place.git))
        return Attempt(self, kind, self.reach(kind), masked, layers, interest)

    def start_program(self, argv: tuple[str, ...], *, records_opens: bool = False) -> "Attempt":
        """Prepares a program that runs beside the session, such as an MCP server; wraps its
        arguments. Raises: OSError, ProgramError, SandboxUnknownError."""
        # The launcher does not search PATH: it executes exactly the program that is named.
        path = shutil.which(argv[0], path=self.place.environment.get("PATH"))
        program = path or str(self.place.cwd / argv[0])
        if path is None and ("/" not in argv[0] or not os.path.exists(program)):
            raise ProgramError(f"there is no program {argv[0]}: install it, or correct the name")
        if hidden := self.hidden_paths(program):
            message = f"{argv[0]} cannot be started: the sandbox hides {' and '.join(hidden)}"
            raise ProgramError(message, hidden=hidden)
        return self.begin(Interest(records_opens=records_opens)).wrap((program, *argv[1:]))

    def forget(self) -> None:
        """Drops unapplied files of earlier commands: what a build created outside is newer."""
        for carried in self.carried.values():
            shutil.rmtree(carried.holder, ignore_errors=True)
        self.carried = {}

    def private_tmp(self) -> Path | None:
        """The folder that commands see as `/tmp`; None if they see the machine's, or none at all.
        The first call may run the self-test."""
        is_shown = self.kind() != "unknown" and self.support().kind in BUBBLEWRAP
        return Path(self.temporary_folder()) if is_shown else None

    def temporary_folder(self) -> str:
        """The private temporary folder, one for all commands, which leave files there for each
        other. Raises: OSError."""
        folder = self.store() / "tmp"
        folder.mkdir(mode=0o700, exist_ok=True)
        return str(folder)

    def loopback(self) -> Loopback:
        """The network that all commands share; an empty one if each command has its own."""
        with self._lock:
            self._loopback = self._loopback or make_loopback()
            return self._loopback

    def store(self) -> Path:
        """The folder for layers, masks and temporary files: outside the working folders, and hidden
        from commands. Raises: OSError if none can be created."""
        with self._lock:
            if self._store is None:
                self._store = open_store(self.place.home, outside=self.folders)
                atexit.register(self._store.close)
            return self._store.folder

    def close(self) -> None:
        """Removes the private `/tmp` and all copies, unless a command still runs. The sandbox can
        be used again."""
        with self._lock:
            if self.running:
                return
            self.carried = {}
            if self._store is not None:
                atexit.unregister(self._store.close)
                self._store.close()
            if self._loopback is not None:
                self._loopback.close()
            self._store = self._loopback = None


def missing_protection() -> str:
    """What commands lack on a Linux without bubblewrap, and how to get it; "" elsewhere."""
    if sys.platform != "linux" or reach.find_program("bwrap"):
        return ""
    return (
        "bubblewrap is not installed: commands have no copy of the project to write in, and kode "
        "asks before each that writes. Install your system's package `bubblewrap`."
    )


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
"""Variables to set for every command; None: to remove."""
_TRUST_SIZES = {
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "core.checkStat",
    "GIT_CONFIG_VALUE_0": "minimal",
    "GIT_CONFIG_KEY_1": "core.trustctime",
    "GIT_CONFIG_VALUE_1": "false",
}
"""Makes git compare sizes and whole seconds only: a mask then passes for the file it hides."""

_MISSING = re.compile(
    rf"(?i){os.strerror(errno.ENOENT)}|{os.strerror(errno.EACCES)}|not found|does not exist|ENOENT"
)
_PATH = re.compile(r"/[\w@.+/-]*[\w+-]")


@dataclass(eq=False)
class Attempt:
    """One command in the sandbox: what was blocked, and what it changed in its layers. Call `close`
    once the command has ended: it drops what was not applied."""

    sandbox: "Sandbox"
    kind: Kind
    reach: Reach
    """What the command can reach, before the files with keys are hidden."""
    masked: Sequence[Path]  # the files and folders with keys
    layers: Sequence[Layer]
    interest: Interest
    argv: tuple[str, ...] = ()  # what runs the command, once `wrap` has been called
    descriptors: tuple[int, ...] = ()  # must be passed to it under the same numbers
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the command and everything it started have ended."""
    _monitor: "SyscallMonitor | None" = None
    _files: list[int] = field(default_factory=list)  # descriptors of files in memory for it

    def wrap(self, argv: tuple[str, ...]) -> "Attempt":
        """Prepares the only start of a command, by `argv` from then on. Whoever starts it, or fails
        to, calls `settle`. Raises: OSError, also if a working folder has become a link."""
        try:
            for folder in map(str, self.sandbox.folders):
                if paths.real_path(folder) != folder:  # what it leads to would be shown
                    raise OSError(f"{folder} has become a link")
            begin = self._in_seatbelt if self.kind == "seatbelt" else self._launcher_arguments
            self.argv = (*begin(), *argv)
        except BaseException:
            self.settle()
            raise
        self.sandbox.running.append(self)
        return self

    def settle(self) -> None:
        """Call when everything the command started has ended. Idempotent. Never raises."""
        while self._files:
            os.close(self._files.pop())
        if self._monitor is not None and not self.ended.is_set():
            self._monitor.stop()
        if self in self.sandbox.running:
            self.sandbox.running.remove(self)
        self.ended.set()

    def close(self) -> None:
        """Removes the layers, with everything in them that was not applied. Never raises."""
        for layer in self.layers:
            remove_tree(layer.holder)

    def find_blocked(self, output: str = "") -> tuple[Blocked, ...]:
        """What the sandbox blocked, hidden paths only once per session. `output` is the command's
        output, the only source where the kernel reports nothing."""
        if self._monitor is None:  # Seatbelt reports nothing: its refusals are in the output
            is_refused = os.strerror(errno.EPERM).lower() in output.lower()
            return (Blocked("unknown"),) if is_refused else ()
        hidden = {self._find_hidden(output)} - {"", *self.sandbox.named}
        self.sandbox.named |= hidden
        return (*self._monitor.blocked, *(Blocked("hidden", path) for path in hidden))

    def _find_hidden(self, output: str) -> str:
        """The first path in the output's lines about missing files that exists, but not for the
        command; "" for none."""
        lines = (line for line in output.splitlines() if _MISSING.search(line))
        for path in (path for line in lines for path in _PATH.findall(line)):
            with contextlib.suppress(OSError, ValueError):  # nobody may look there
                real = paths.real_path(path)
                around = [it.path for it in self.reach.places if is_below(real, str(it.path))]
                # Whether a path exists in a home or in kode's folders is not told.
                if around == [Path("/")] and os.path.exists(path):
                    return real
        return ""

    def list_opened(self) -> Opens | None:
        """What the command has opened so far; None if nothing was recorded."""
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
        """The first file that the command opened of those that a rule shows or that are marked; ""
        for none, None if that is not known."""
        return self._monitor.outside_text if self._monitor is not None else None

    def changes(self) -> tuple[FileChange, ...]:
        """The command's changes in the working folders. Raises: OSError, KodeError."""
        return tuple(change for layer in self.layers for change in list_changes(layer))

    def version(self, path: str) -> Path:
        """The path of the command's version of a changed path."""
        return next(it.version(path) for it in self.layers if Path(path).is_relative_to(it.root))

    def files(self, change: FileChange) -> tuple[str, ...]:
        """The paths that applying a change creates, a new folder before what is in it."""
        version, paths = str(self.version(change.path)), [change.path]
        for folder, folders, names in () if change.is_link else os.walk(version):
            inside = f"{change.path}{folder.removeprefix(version)}"
            paths += [f"{inside}/{name}" for name in (*folders, *names)]
        return tuple(paths)

    def apply(self, changes: Sequence[FileChange]) -> dict[str, str]:
        """Applies changes to the real folders; returns the paths skipped, each with the reason."""
        skipped = (apply_changes(layer, changes, self.reach) for layer in self.layers)
        return {path: reason for each in skipped for path, reason in each.items()}

    def carry_layer(self, changes: Sequence[FileChange]) -> None:
        """Keeps what the command wrote for the session's next commands. Never raises."""
        for layer in self.layers:
            carry_layer(layer, changes)

    def _launcher_arguments(self) -> tuple[str, ...]:
        """Builds the beginning of the argument list; keeps the descriptors that it names open."""
        from kode.sandbox import kernel

        sandbox, alone, cwd = self.sandbox, self.kind == "landlock", self.sandbox.place.cwd
        store = sandbox.store()
        masks = {} if alone else {path: make_mask(store, path) for path in self.masked}
        # What a server's config entry names is no text from outside.
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
        words: tuple[str, ...] = (
            paths.real_path(sys.executable),
            *kernel.BOOT,
            self._carry(orders),
        )
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
        if self.interest.records_opens:  # else the person would have to approve byte code
            variables["PYTHONPYCACHEPREFIX"] = cache
        return variables

    def _carry(self, data: bytes) -> str:
        """Writes data to a file in memory, to be read from its start; returns its descriptor."""
        self._files.append(os.memfd_create("kode"))
        os.pwrite(self._files[-1], data, 0)
        return str(self._files[-1])
