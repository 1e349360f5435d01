"""Records what the sandbox blocked, as the kernel reports it.

A seccomp filter reports each call that opens a file for writing, changes a folder or connects,
before it runs; the answer is "go ahead". Nothing is decided here: the limits are enforced
elsewhere, and what is read of the calling process may change before the kernel reads it. So a
report serves a question and never a permission. Only internet sockets under Landlock alone, whose
family is in a register, are answered with "no". (seccomp_unotify(2))
"""

import array
import contextlib
import errno
import fcntl
import ipaddress
import os
import re
import select
import socket
import struct
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from kode.paths import real_path
from kode.permissions.shell.programs import script_of
from kode.sandbox.limits import OPENS, OPENS_FOR_WRITING, RUNS, SOCKET, WATCHED, Reported
from kode.sandbox.reach import Reach, access
from kode.tool import Blocked
from kode.workplace import below_any

MAX_HITS = 20  # more do not help a person decide
MAX_OPENED = 20_000  # a large build; bounds memory
_RECEIVE, _ANSWER = 0xC0502100, 0xC0182101  # SECCOMP_IOCTL_NOTIF_* of linux/seccomp.h
_CONTINUE = 1  # SECCOMP_USER_NOTIF_FLAG_CONTINUE
_CALL = struct.Struct("=QIIiIQ6Q")
_REPLY = struct.Struct("=QqiI")
_PATH_BYTES = 4096
"""PATH_MAX of linux/limits.h."""
_ADDRESS = struct.Struct("=Q")
_MAX_WORDS = 32
"""Of a command line: a program stands at its beginning."""
_MAX_SENT = 100
"""Descriptors that the launcher may send."""
_WITHOUT_HARM = re.compile(
    r"/(?:__pycache__|\.pytest_cache|pytest-cache-files-[^/]*|\.mypy_cache|\.ruff_cache|\.hypothesis"
    r"|\.cache|var/cache)(?:/|$)"
)
"""Caches that programs try to write beside their input, and can do without."""
_MAX_SHOWN = 200  # a line or two
_MAKES = ("mkdir", "link", "symlink")
"""Calls that fail anyway if the target exists."""


@dataclass
class SyscallMonitor:
    """Listens while one command runs. Each of `blocked` is there once."""

    reach: Reach
    """What the command reaches: what it may change, and whether it has a network."""
    counts_home: bool = False
    """Whether a write to an empty home is blocked: what is written there is lost."""
    opens_below: tuple[str, ...] = ()
    """Folders of which to record what it opens or runs."""
    granted: tuple[str, ...] = ()
    """Folders that a rule shows: what lies there may be text from outside."""
    outside_text: str = ""
    """The first path below `granted` that it opened."""
    blocked: dict[Blocked, None] = field(default_factory=dict)
    opened: dict[str, None] = field(default_factory=dict)
    """Absolute paths below `opens_below`, as they were named, whether they were there
    or not; at most `MAX_OPENED`, as of the following."""
    scripts: dict[str, None] = field(default_factory=dict)
    """Those that were executed, or given to an interpreter as its program."""
    elsewhere: dict[str, None] = field(default_factory=dict)
    """Paths that are not below `opens_below`."""
    listens: bool = False
    """Whether the kernel reports anything."""
    copies: list[int] = field(default_factory=list)
    """Descriptors of the command's copies of the working folders, once it has started; closed by
    `stop`."""

    def __post_init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._stop, self._stopping = os.pipe()
        self._thread = threading.Thread(target=self._listen, name="kode-monitor", daemon=True)

    @property
    def descriptor(self) -> int:
        """The descriptor for the launcher, which sends the listening end through it."""
        return self._theirs.fileno()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stops listening and completes `blocked`. Call once, when the command has ended."""
        os.close(self._stopping)
        if self._thread.ident is not None:
            self._thread.join()
        self._theirs.close()
        self._ours.close()
        os.close(self._stop)
        while self.copies:
            os.close(self.copies.pop())

    def _listen(self) -> None:
        listener = self._receive()
        if listener < 0:
            return
        self.listens = True
        try:
            poll = select.poll()
            poll.register(listener, select.POLLIN)
            poll.register(self._stop, select.POLLHUP)
            while True:
                ready = dict(poll.poll())
                # A process whose end was missed must not keep this loop running.
                if self._stop in ready or not ready.get(listener, 0) & select.POLLIN:
                    return
                self._take(listener)
        finally:
            os.close(listener)

    def _receive(self) -> int:
        poll = select.poll()
        poll.register(self._ours, select.POLLIN)
        poll.register(self._stop, select.POLLHUP)
        if self._ours.fileno() not in dict(poll.poll()):
            return -1
        size = array.array("i").itemsize
        _, ancillary, _, _ = self._ours.recvmsg(1, socket.CMSG_SPACE(size * _MAX_SENT))
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                sent = array.array("i", data[: len(data) - len(data) % size])
                self.copies += sent[1:]
                return int(sent[0])
        return -1

    def _take(self, listener: int) -> None:
        asked = bytearray(_CALL.size)
        with contextlib.suppress(OSError):  # it was interrupted, or has ended
            fcntl.ioctl(listener, _RECEIVE, asked, True)
            call = _CALL.unpack(asked)
            with contextlib.suppress(Exception):  # what cannot be understood is not reported
                self._note(call[1], call[3], call[6:])
            denied = call[3] == SOCKET
            answer = (-errno.EPERM, 0) if denied else (0, _CONTINUE)
            fcntl.ioctl(listener, _ANSWER, _REPLY.pack(call[0], 0, *answer))

    def _note(self, pid: int, number: int, arguments: Sequence[int]) -> None:
        if number == SOCKET:
            self._add(Blocked("socket"))
            return
        name, call = WATCHED[number]
        if name in ("connect", "sendto"):
            address, size = arguments[1:3] if name == "connect" else arguments[4:6]
            self._add(self._of_address(pid, _read(pid, address, min(size, 128))))
            return
        path = _path_of(pid, call, arguments)
        if name in (*OPENS, *RUNS, "openat2"):
            self._note_open(pid, path, _words_of(pid, call, arguments) if name in RUNS else None)
        reads = call.flags is not None and not arguments[call.flags] & OPENS_FOR_WRITING
        if name not in RUNS and not (name in OPENS and reads):
            is_there = name.startswith(_MAKES) and os.path.lexists(path)
            self._add(None if is_there else self._of_path(path))

    def _add(self, blocked: Blocked | None) -> None:
        if blocked is not None and len(self.blocked) < MAX_HITS:
            self.blocked[blocked] = None

    def _note_open(self, pid: int, path: str, words: Sequence[str] | None) -> None:
        """`words`: the command line of a program that is started."""
        if self.granted and not self.outside_text:
            real = _real_path_of(pid, path)
            self.outside_text = real if below_any(real, self.granted) else ""
        if not self.opens_below:
            return
        if not self._keep(path, self.opened) and len(self.elsewhere) < MAX_OPENED:
            self.elsewhere[path] = None
        if words is not None:
            self._keep(path, self.scripts)
            self._keep(_resolve(pid, _HERE, script_of(words)), self.scripts)

    def _keep(self, path: str, paths: dict[str, None]) -> bool:
        """Whether the path is below `opens_below`; it is kept then."""
        is_inside = below_any(path, self.opens_below)
        if is_inside and len(paths) < MAX_OPENED:
            paths[path] = None
        return is_inside

    def _of_path(self, path: str) -> Blocked | None:
        if not path or _WITHOUT_HARM.search(path):
            return None
        folder, name = os.path.split(path)
        real = os.path.join(real_path(folder), name)
        if self._may_change(real):
            return None
        # Not blocked by the sandbox: it could not change this outside either.
        target = real if os.path.lexists(real) else os.path.dirname(real)
        return Blocked("write", _display_path(path)) if os.access(target, os.W_OK) else None

    def _may_change(self, path: str) -> bool:
        match access(self.reach, path):
            case "writable" | "private":
                return True
            case "empty":
                return not self.counts_home
        return below_any(path, ("/dev", "/proc"))

    def _of_address(self, pid: int, address: bytes) -> Blocked | None:
        if self.reach.network == "all" or len(address) < 8:
            return None
        family, port = struct.unpack("=H", address[:2])[0], struct.unpack(">H", address[2:4])[0]
        if family == socket.AF_INET:
            host: ipaddress.IPv4Address | ipaddress.IPv6Address = ipaddress.IPv4Address(
                address[4:8]
            )
        elif family == socket.AF_INET6 and len(address) >= 24:
            host = ipaddress.IPv6Address(address[8:24])
        else:
            return None
        if port == 53:
            return Blocked("lookup")
        if host.is_loopback or host.is_unspecified:
            if port in listening_ports() - listening_ports(pid):
                return Blocked("port", str(port))
            return None
        return Blocked("connection", f"{host}:{port}") if port else None


def _display_path(path: str) -> str:
    """The command chose the name: it must not add lines to a question, nor fill the screen."""
    text = path if path.isprintable() else ascii(path)[1:-1]
    return text if len(text) <= _MAX_SHOWN else f"…{text[-_MAX_SHOWN:]}"


_HERE = (1 << 64) - 100
"""AT_FDCWD."""


def _path_of(pid: int, call: Reported, arguments: Sequence[int]) -> str:
    """The path that a reported call names; "" for none."""
    folder = _HERE if call.folder is None else arguments[call.folder]
    return _resolve(pid, folder, _text(pid, arguments[call.path]))


def _real_path_of(pid: int, path: str) -> str:
    """Where a path leads for a process, which may have made links that only it sees."""
    try:
        descriptor = os.open(f"/proc/{pid}/root{path}", os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return path
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def _words_of(pid: int, call: Reported, arguments: Sequence[int]) -> list[str]:
    """The first words of the command line of a call of `RUNS`."""
    data = _read(pid, arguments[call.path + 1], _MAX_WORDS * _ADDRESS.size)
    words = []
    for (address,) in _ADDRESS.iter_unpack(data[: len(data) - len(data) % _ADDRESS.size]):
        if not address:
            break
        words.append(_text(pid, address))
    return words


def _text(pid: int, address: int) -> str:
    return os.fsdecode(_read(pid, address, _PATH_BYTES).partition(b"\0")[0])


def _resolve(pid: int, folder: int, text: str) -> str:
    """A path as a process names it, absolute; "" for none."""
    if not text or text.startswith("/"):
        return os.path.normpath(text) if text else ""
    number = folder & 0xFFFFFFFF
    base = "cwd" if number == _HERE & 0xFFFFFFFF else f"fd/{number}"
    return os.path.normpath(os.path.join(os.readlink(f"/proc/{pid}/{base}"), text))


def _read(pid: int, address: int, size: int) -> bytes:
    """Reads memory of another process, at most up to the end of its page."""
    descriptor = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        room = 4096 - address % 4096
        data = os.pread(descriptor, min(size, room), address)
        if size > room and b"\0" not in data:
            with contextlib.suppress(OSError):
                data += os.pread(descriptor, size - room, address + room)
        return data
    finally:
        os.close(descriptor)


def listening_ports(of: int | str = "self") -> frozenset[int]:
    """The ports that programs in the network of a process listen on, on any of its addresses."""
    ports = set()
    for name in (f"/proc/{of}/net/tcp", f"/proc/{of}/net/tcp6"):
        with contextlib.suppress(OSError, ValueError), open(name) as file:
            next(file, "")
            for line in file:
                fields = line.split()
                if fields[3] == "0A":
                    ports.add(int(fields[1].rpartition(":")[2], 16))
    return frozenset(ports)
