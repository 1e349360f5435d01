"""Records what the sandbox blocked, as the kernel reports it. (seccomp_unotify(2))

A seccomp filter reports each call that opens a file for writing, changes a folder or connects,
before it runs; the answer is "go ahead". Nothing is decided here: what is read of the calling
process may change before the kernel reads it, so a report serves a question and never a permission.
Only internet sockets under Landlock alone, whose family is in a register, are answered with "no".
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

from kode import beneath
from kode.paths import real_path
from kode.permissions.shell.programs import script_of
from kode.sandbox.limits import OPENS, OPENS_FOR_WRITING, RUNS, SOCKET, WATCHED
from kode.sandbox.reach import Reach, access
from kode.tool import Blocked
from kode.workplace import below_any

MAX_HITS = 20  # more do not help a person decide
MAX_OPENED = 40_000  # a large build; bounds memory
_RECEIVE, _ANSWER = 0xC0502100, 0xC0182101  # SECCOMP_IOCTL_NOTIF_* of linux/seccomp.h
_CONTINUE = 1  # SECCOMP_USER_NOTIF_FLAG_CONTINUE
_CALL, _REPLY = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")
_PAGE_BYTES = 4096  # also PATH_MAX of linux/limits.h
_MAX_WORDS = 32  # of a command line: a program stands at its beginning
_MAX_SENT = 100  # descriptors that the launcher may send
_MAX_SHOWN = 200  # a line or two
_HERE = (1 << 64) - 100  # AT_FDCWD
_WITHOUT_HARM = re.compile(
    r"/(?:__pycache__|\.pytest_cache|pytest-cache-files-[^/]*|\.mypy_cache|\.ruff_cache|\.hypothesis"
    r"|\.cache|var/cache)(?:/|$)"
)
"""Caches that programs try to write beside their input, and can do without."""
_MAKES = ("mkdir", "link", "symlink")  # calls that fail anyway if the target exists


@dataclass
class SyscallMonitor:
    """Listens while one command runs, until `stop`."""

    reach: Reach
    """What the command reaches: what it may change, and whether it has a network."""
    counts_home: bool = False
    """Whether a write to an empty home is blocked: what is written there is lost."""
    records_opens: bool = False
    granted: tuple[str, ...] = ()
    """Folders that a rule shows: what lies there may be text from outside."""
    outside_text: str = ""
    """The first path below `granted` that it opened."""
    blocked: dict[Blocked, None] = field(default_factory=dict)
    opened: dict[str, None] = field(default_factory=dict)
    """Absolute paths as they were named, whether they were there or not; at most `MAX_OPENED`."""
    scripts: set[str] = field(default_factory=set)
    """Those that were executed, or given to an interpreter as its program."""
    listens: bool = False
    """Whether the kernel reports anything."""
    copies: list[int] = field(default_factory=list)
    """Descriptors of the command's copies of the working folders, once it has started."""

    def __post_init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._stop, self._stopping = os.pipe()
        self.descriptor = self._theirs.fileno()  # for the launcher, to send the listening end
        self._thread = threading.Thread(target=self._listen, name="kode-monitor", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stops listening and completes `blocked`. Call once, when the command has ended."""
        os.close(self._stopping)
        self._thread.join()
        self._theirs.close()
        self._ours.close()
        for descriptor in (self._stop, *self.copies):
            os.close(descriptor)
        self.copies.clear()

    def _listen(self) -> None:
        if not self._waits_for(self._ours.fileno()):
            return
        _, descriptors, _, _ = socket.recv_fds(self._ours, 1, _MAX_SENT)
        if not descriptors:
            return
        listener, *self.copies[:] = descriptors
        self.listens = True
        while self._waits_for(listener):
            request = bytearray(_CALL.size)
            with contextlib.suppress(OSError):  # it was interrupted, or has ended
                fcntl.ioctl(listener, _RECEIVE, request, True)
                call = _CALL.unpack(request)
                with contextlib.suppress(Exception):  # what cannot be understood is not reported
                    hit = self._note(call[1], call[3], call[6:])
                    if hit is not None and len(self.blocked) < MAX_HITS:
                        self.blocked[hit] = None
                answer = (-errno.EPERM, 0) if call[3] == SOCKET else (0, _CONTINUE)
                fcntl.ioctl(listener, _ANSWER, _REPLY.pack(call[0], 0, *answer))
        os.close(listener)

    def _waits_for(self, descriptor: int) -> bool:
        """Whether there is something to read before this is stopped, or the other end closed: a
        process whose end was missed must not keep it running."""
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.register(self._stop, select.POLLHUP)
        ready = dict(poll.poll())
        return self._stop not in ready and bool(ready.get(descriptor, 0) & select.POLLIN)

    def _note(self, pid: int, number: int, arguments: Sequence[int]) -> Blocked | None:
        """Notes what a call opens or runs; returns what of it is blocked."""
        if number == SOCKET:
            return Blocked("socket")
        name, call = WATCHED[number]
        if name in ("connect", "sendto"):
            address, size = arguments[1:3] if name == "connect" else arguments[4:6]
            return self._of_address(pid, _read(pid, address, min(size, 128)))
        folder = _HERE if call.folder is None else arguments[call.folder]
        path = _resolve(pid, folder, _text(pid, arguments[call.path]))
        if name in (*OPENS, *RUNS, "openat2"):
            if self.granted and not self.outside_text:
                real = _real_path_of(pid, path)
                self.outside_text = real if below_any(real, self.granted) else ""
            if self.records_opens and len(self.opened) < MAX_OPENED:
                self.opened[path] = None
        if name in RUNS:
            if self.records_opens and len(self.scripts) < MAX_OPENED:
                script = script_of(_words(pid, arguments[call.path + 1]))
                self.scripts |= {path, _resolve(pid, _HERE, script)}
            return None
        is_read = call.flags is not None and not arguments[call.flags] & OPENS_FOR_WRITING
        is_there = name.startswith(_MAKES) and os.path.lexists(path)
        return None if is_there or (name in OPENS and is_read) else self._of_path(path)

    def _of_path(self, path: str) -> Blocked | None:
        if not path or _WITHOUT_HARM.search(path):
            return None
        folder, name = os.path.split(path)
        real = os.path.join(real_path(folder), name)
        may_change = access(self.reach, real)
        if may_change in ("writable", "private") or below_any(real, ("/dev", "/proc")):
            return None
        if may_change == "empty" and not self.counts_home:
            return None
        # Not blocked by the sandbox: it could not change this outside either.
        if not os.access(real if os.path.lexists(real) else os.path.dirname(real), os.W_OK):
            return None
        # The command chose the name: it must not add lines to a question, nor fill the screen.
        text = path if path.isprintable() else ascii(path)[1:-1]
        return Blocked("write", text if len(text) <= _MAX_SHOWN else f"…{text[-_MAX_SHOWN:]}")

    def _of_address(self, pid: int, address: bytes) -> Blocked | None:
        family = int.from_bytes(address[:2], "little")
        begin, end = {2: (4, 8), 10: (8, 24)}.get(family, (0, 0))  # AF_INET, AF_INET6 of Linux
        if self.reach.network == "all" or not end or len(address) < end:
            return None
        port, host = int.from_bytes(address[2:4], "big"), ipaddress.ip_address(address[begin:end])
        if port == 53:
            return Blocked("lookup")
        if host.is_loopback or host.is_unspecified:
            is_outside = port in listening_ports() - listening_ports(pid)
            return Blocked("port", str(port)) if is_outside else None
        return Blocked("connection", f"{host}:{port}") if port else None


def _real_path_of(pid: int, path: str) -> str:
    """Where a path leads for a process, which may have made links that only it sees."""
    with contextlib.suppress(OSError):
        opened = os.open(f"/proc/{pid}/root{path}", os.O_PATH | os.O_CLOEXEC)
        with beneath.closing(opened):
            return os.readlink(f"/proc/self/fd/{opened}")
    return path


def _words(pid: int, address: int) -> list[str]:
    """The first words of a command line in the memory of a process."""
    data = _read(pid, address, 8 * _MAX_WORDS)
    addresses = array.array("Q", data[: len(data) // 8 * 8])
    end = addresses.index(0) if 0 in addresses else len(addresses)
    return [_text(pid, each) for each in addresses[:end]]


def _text(pid: int, address: int) -> str:
    return os.fsdecode(_read(pid, address, _PAGE_BYTES).partition(b"\0")[0])


def _resolve(pid: int, folder: int, text: str) -> str:
    """A path as a process names it, absolute; "" for none."""
    if not text or text.startswith("/"):
        return os.path.normpath(text) if text else ""
    number = folder & 0xFFFFFFFF
    base = "cwd" if number == _HERE & 0xFFFFFFFF else f"fd/{number}"
    return os.path.normpath(os.path.join(os.readlink(f"/proc/{pid}/{base}"), text))


def _read(pid: int, address: int, size: int) -> bytes:
    """Reads memory of another process, of a second page only what it needs and can have."""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
        in_page = _PAGE_BYTES - address % _PAGE_BYTES
        data = os.pread(file.fileno(), min(size, in_page), address)
        if size > in_page and b"\0" not in data:
            with contextlib.suppress(OSError):
                data += os.pread(file.fileno(), size - in_page, address + in_page)
        return data


def listening_ports(of: int | str = "self") -> frozenset[int]:
    """The ports that programs in the network of a process listen on, on any of its addresses."""
    ports = set()
    for name in (f"/proc/{of}/net/tcp", f"/proc/{of}/net/tcp6"):
        with contextlib.suppress(OSError, ValueError), open(name) as file:
            for fields in map(str.split, list(file)[1:]):
                if fields[3] == "0A":
                    ports.add(int(fields[1].rpartition(":")[2], 16))
    return frozenset(ports)
