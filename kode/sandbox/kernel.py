"""What the kernel does for the sandbox: it enforces limits, and reports what they block.

Landlock limits files, seccomp system calls; `launcher` applies both in the process that becomes the
command. A second filter reports each call that opens a file for writing, changes a folder or
connects, before it runs; the answer is "go ahead" (seccomp_unotify(2)). A report permits nothing:
the memory that it is about may change before the kernel reads it, so a report may lead to a
question, never to a permission. The answer is "no" only for internet sockets under Landlock alone,
whose family is in a register.
"""

import contextlib
import errno
import fcntl
import ipaddress
import json
import marshal
import os
import re
import select
import socket
import struct
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from kode import beneath
from kode.paths import real_path
from kode.permissions.shell.programs import script_of
from kode.sandbox import launcher
from kode.sandbox.reach import Interest, Reach, access, to_landlock
from kode.tool import Blocked
from kode.values import dataclass, field
from kode.workplace import is_below, is_below_any

BOOT = (
    *("-I", "-S", "-X", f"utf8={int(sys.getfilesystemencoding() == 'utf-8')}", "-c"),
    "import marshal,posix,sys\n"
    "f=int(sys.argv[1]);c,o=marshal.loads(posix.pread(f,posix.fstat(f).st_size,0));posix.close(f)\n"
    "g={'__name__':'launcher'};exec(c,g);g['become'](o,sys.argv[2:])",
)
"""Makes Python read the launcher and its orders from the descriptor in the next argument: argument
lists have a size limit, and everybody can read them. Both processes decode paths alike."""


def launch(reach: Reach, *, alone: bool, report_to: int, opens: bool, **orders: Any) -> bytes:
    """The launcher and its orders, as `BOOT` reads them. `alone`: without bubblewrap; `report_to`:
    the socket that takes the monitor's listening end; `opens`: every file that is opened or run is
    reported. Raises: KeyError for a machine whose system calls are not known."""
    machine, internet = os.uname().machine, reach.network == "all" or not alone
    # Without a network of its own, a command may create no internet socket: a listener answers its
    # report with no; without a listener, the filter denies. Unix sockets are always denied.
    orders |= {
        "landlock": _compile_landlock(reach, alone=alone),
        "filter": seccomp_filter(machine, internet=internet, alone=alone),
        "filter_of_reported": seccomp_filter(machine, internet=True, alone=alone),
        "report": (report_to, _compile_watcher(machine, sockets=not internet, opens=opens)),
        "ids": (os.getuid(), os.getgid()),
        "alone": alone,
    }
    code = launcher.__loader__.get_code(launcher.__name__)  # type: ignore[union-attr]
    return marshal.dumps((code, orders))


SUFFICES_ALONE = 6
"""Older versions of Landlock do not restrict signals to others (6), or `truncate` (3)."""

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8  # linux/landlock.h
_REMOVE_AND_MAKE = sum(1 << bit for bit in range(4, 13))
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_READS = _EXECUTE | _READ_FILE | _READ_DIR
_SCOPES = 3  # abstract unix sockets and signals stay inside


def _compile_landlock(reach: Reach, *, alone: bool) -> tuple[bytes, list[tuple[str, int, bool]]]:
    """Returns what the kernel restricts (b"" without Landlock), and the exceptions: path, rights,
    whether the path must not be a link. `alone`: also restricts reading. The kernel refuses folder
    rights for a file. The right to change a folder does not include reading all files in it."""
    version = launcher.landlock_version()
    changes = _WRITE_FILE | _REMOVE_AND_MAKE
    changes |= (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    attributes = struct.pack("Q", changes | (_READS if alone else 0))
    attributes += struct.pack("QQ", 0, _SCOPES) if version >= SUFFICES_ALONE else b""
    rights = {"write": changes, "read": _READS, "list": _READ_DIR}
    return attributes if version else b"", [
        (path, rights[kind] & (-1 if os.path.isdir(path) else _OF_FILES), kind != "read")
        for path, kind in to_landlock(reach, alone=alone)
    ]


_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # AUDIT_ARCH_* of linux/audit.h
_NUMBERS: Mapping[str, Mapping[str, int]] = json.loads(
    Path(__file__).with_name("syscalls.json").read_bytes()
)
"""System call → its number on each machine that has it; asm/unistd.h of Linux 6.17."""

_DENIED = (
    # Mounts, roots and namespaces
    "mount umount2 pivot_root chroot move_mount mount_setattr open_tree open_tree_attr fsopen "
    "fsconfig fsmount fspick setns unshare "
    # The kernel, the machine's clock, name and disks
    "bpf perf_event_open kexec_load kexec_file_load init_module finit_module delete_module reboot "
    "settimeofday clock_settime adjtimex clock_adjtime sethostname setdomainname swapon swapoff "
    "acct quotactl quotactl_fd "
    # Other processes, keys, files past the mounts, calls past this filter
    "ptrace process_vm_writev keyctl add_key request_key open_by_handle_at fanotify_init "
    "userfaultfd io_uring_setup io_uring_enter io_uring_register"
).split()
_DENIED_ALONE = (
    # Memory shared with other processes
    "shmget shmat shmctl semget semop semctl semtimedop msgget msgsnd msgrcv msgctl mq_open "
    "mq_unlink "
    # Modes, owners, times and attributes of files
    "chmod fchmod fchmodat fchmodat2 file_setattr chown lchown fchown fchownat utime utimes "
    "futimesat utimensat setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr "
    "fremovexattr removexattrat"
).split()
"""Denied without bubblewrap, whose mounts or namespaces cover them: Landlock does not."""

_OF_A_PROCESS = {
    "prlimit64": 0, "setpriority": 1, "ioprio_set": 1, "sched_setparam": 0,
    "sched_setscheduler": 0, "sched_setaffinity": 0, "sched_setattr": 0,
}  # fmt: skip
"""Scheduling call → the argument with its process. Any but 0, the caller, is denied if alone."""

_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16  # AF_* of linux/socket.h
_DATAGRAM_OR_RAW = 2  # the bit in 2 and 3, but not in streams (1) or sequenced packets (5)
_NEW_NAMESPACES = 0x7E020000  # all CLONE_NEW* of linux/sched.h but CLONE_NEWTIME
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C  # asm-generic/ioctls.h
_FLAGS_OF_FILES = (0x6600, 0x5800, 0x7600, 0x9400)
"""The ioctl families that change flags, versions and subvolumes through a file opened for reading:
of `chattr`, xfs and btrfs."""
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN, _AND = 0x20, 0x15, 0x35, 0x45, 0x06, 0x54
"""Linux/bpf_common.h."""
_IN_FAMILY = -1  # not a kernel constant: compares only the second byte
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST, _SECOND = 0, 4, 16, 24
"""Offsets of the call's number, and of the low words of its arguments."""

Step = tuple[int, int, int, int]  # code, jump if true, jump if false, operand

# SECCOMP_RET_* of linux/seccomp.h, with numbers of asm-generic/errno.h
_ALLOW, _NOTIFY = (_RETURN, 0, 0, 0x7FFF0000), (_RETURN, 0, 0, 0x7FC00000)
_NOT_PERMITTED, _NO_SUCH_CALL = (_RETURN, 0, 0, 0x00050001), (_RETURN, 0, 0, 0x00050026)


def _numbers(machine: str) -> dict[str, int]:
    """System call → its number on a machine; empty for an unknown machine."""
    return {name: row[machine] for name, row in _NUMBERS.items() if machine in row}


@cache
def seccomp_filter(machine: str, *, internet: bool, alone: bool) -> bytes:
    """A BPF program that denies what leads out of the sandbox. Raises: KeyError for an unknown
    machine."""
    number = _numbers(machine)
    program: list[Step] = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        # Another architecture (32-bit calls) has other numbers: none of its calls may pass.
        (_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        _NOT_PERMITTED,
        (_LOAD, 0, 0, _NUMBER_AT),
    ]
    if machine == "x86_64":  # x32 starts here
        program += [(_AT_LEAST, 0, 1, 0x40000000), _NOT_PERMITTED]
    for name in (*_DENIED, *(_DENIED_ALONE if alone else ())):
        program += _judge(number.get(name), [])
    # clone3 hides its flags in memory; without it programs fall back to clone.
    program += _judge(number["clone3"], [], _NO_SUCH_CALL)
    program += _judge(number["clone"], [(_FIRST, _ANY_BIT, _NEW_NAMESPACES)])
    for name, argument in _OF_A_PROCESS.items() if alone else ():
        program += _judge(number[name], [(_FIRST + 8 * argument, _ANY_BIT, 0xFFFFFFFF)])
    terminal = [(_SECOND, _EQUAL, _TIOCSTI), (_SECOND, _EQUAL, _TIOCLINUX)]
    of_files = [(_SECOND, _IN_FAMILY, family) for family in _FLAGS_OF_FILES] if alone else []
    program += _judge(number["ioctl"], [*terminal, *of_files])
    # A pair cannot reach another socket, but an end of a datagram pair can be re-addressed, and
    # families other than unix are ordinary sockets. Streams stay connected.
    pairs = [(_FIRST, _ANY_BIT, ~_UNIX & 0xFFFFFFFF), (_SECOND, _ANY_BIT, _DATAGRAM_OR_RAW)]
    program += _judge(number["socketpair"], pairs)
    # An allow-list: vsock and packet sockets also bypass a network namespace.
    allowed = [(_FIRST, _EQUAL, it) for it in (_NETLINK, *((_INET, _INET6) if internet else ()))]
    program += [*_judge(number["socket"], allowed, _ALLOW, _NOT_PERMITTED), _ALLOW]
    return b"".join(struct.pack("=HBBI", *step) for step in program)


def _judge(
    number: int | None,
    tests: Sequence[tuple[int, int, int]],
    verdict: Step = _NOT_PERMITTED,
    otherwise: Step = _ALLOW,
) -> list[Step]:
    """Gives a verdict on a call; with tests (offset, comparison, operand), only if one of them
    holds, else `otherwise`. Other calls go to the next instruction."""
    body = [otherwise, verdict] if tests else [verdict]
    for argument, code, value in reversed(tests):
        test = [(_EQUAL if code == _IN_FAMILY else code, len(body) - 1, 0, value)]
        if code == _IN_FAMILY:
            test.insert(0, (_AND, 0, 0, 0xFF00))
        body = [(_LOAD, 0, 0, argument), *test, *body]
    return [(_EQUAL, 0, len(body), number), *body] if number is not None else []


OPENS_FOR_WRITING = 0o1 | 0o2 | 0o100 | 0o1000
"""O_WRONLY, O_RDWR, O_CREAT and O_TRUNC of asm-generic/fcntl.h."""


class Reported(NamedTuple):
    """A call whose path is reported, with the positions of its arguments."""

    path: int
    folder: int | None = None
    """The argument with the folder of a relative path; None: the current folder."""
    flags: int | None = None
    """The argument that must have a certain bit for the call to count; None: each call counts."""


_OF_PATHS: Mapping[Reported, str] = {
    Reported(path=0, flags=1): "open",
    Reported(path=1, folder=0, flags=2): "openat",
    Reported(path=0): "creat truncate mkdir rmdir unlink execve",
    Reported(path=1): "rename link symlink connect",
    Reported(path=1, folder=0): "openat2 mkdirat unlinkat execveat",
    Reported(path=2, folder=1): "symlinkat",
    Reported(path=3, folder=2): "renameat renameat2 linkat",
    Reported(path=4, flags=4): "sendto",
}
_REPORTED = {name: call for call, names in _OF_PATHS.items() for name in names.split()}
OPENS, RUNS = ("open", "openat"), ("execve", "execveat")
"""`RUNS` is reported only if every opened file is."""

_OF_THIS_MACHINE = _numbers(os.uname().machine)
_WATCHED = {number: name for name, number in _OF_THIS_MACHINE.items() if name in _REPORTED}
_SOCKET = _OF_THIS_MACHINE.get("socket")
"""The call that the listener denies; see `_compile_watcher`."""


@cache
def _compile_watcher(machine: str, *, sockets: bool, opens: bool = False) -> bytes:
    """A BPF program that reports the calls of `_REPORTED` and lets all pass. `sockets`: also
    internet sockets, which are then denied; `opens`: also files opened for reading, and programs
    run."""
    number, program = _numbers(machine), [(_LOAD, 0, 0, _NUMBER_AT)]
    families = [(_FIRST, _EQUAL, family) for family in (_INET, _INET6)]
    program += _judge(number["socket"] if sockets else None, families, _NOTIFY)
    for name, call in _REPORTED.items():
        bits = 0xFFFFFFFF if name == "sendto" else OPENS_FOR_WRITING
        is_every = call.flags is None or (opens and name in OPENS)
        tests = [] if is_every else [(_FIRST + 8 * (call.flags or 0), _ANY_BIT, bits)]
        program += _judge(number.get(name) if opens or name not in RUNS else None, tests, _NOTIFY)
    return b"".join(struct.pack("=HBBI", *step) for step in (*program, _ALLOW))


MAX_HITS = 20  # more do not help a person decide
MAX_OPENED = 40_000  # a large build; bounds memory
_RECEIVE, _ANSWER = 0xC0502100, 0xC0182101  # SECCOMP_IOCTL_NOTIF_* of linux/seccomp.h
_CONTINUE = 1  # SECCOMP_USER_NOTIF_FLAG_CONTINUE
_CALL, _REPLY = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")
_PATH_MAX = 4096  # linux/limits.h
_MAX_WORDS = 32  # of a command line: its program is among the first
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
    """Listens to the system calls of one command, from its creation until `stop`."""

    reach: Reach
    """What the command reaches: what it may change, and whether it has a network."""
    interest: Interest
    watched: Mapping[str, str]
    """Files and folders that may hold outside text → the source to report; "": the opened path."""
    outside_text: str = ""
    """The source of the first of these that the command opened; "" if there is none."""
    blocked: dict[Blocked, None] = field(default_factory=dict)
    opened: dict[str, None] = field(default_factory=dict)
    """Absolute paths as the command named them, existing or not; at most `MAX_OPENED`."""
    scripts: set[str] = field(default_factory=set)
    """The paths that were executed, or given to an interpreter as its program."""

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
        os.close(self._stop)

    def _listen(self) -> None:
        has_begun = self._waits_for(self._ours.fileno())
        listeners = socket.recv_fds(self._ours, 1, 1)[1] if has_begun else []  # one, or none
        while listeners and self._waits_for(listeners[0]):
            request = bytearray(_CALL.size)
            with contextlib.suppress(OSError):  # the call was interrupted, or its process ended
                fcntl.ioctl(listeners[0], _RECEIVE, request, True)
                call = _CALL.unpack(request)
                with contextlib.suppress(Exception):  # what cannot be understood is not reported
                    hit = self._note_call(call[1], call[3], call[6:])
                    if hit is not None and len(self.blocked) < MAX_HITS:
                        self.blocked[hit] = None
                answer = (-errno.EPERM, 0) if call[3] == _SOCKET else (0, _CONTINUE)
                fcntl.ioctl(listeners[0], _ANSWER, _REPLY.pack(call[0], 0, *answer))
        for listener in listeners:
            os.close(listener)

    def _waits_for(self, descriptor: int) -> bool:
        """Waits until there is something to read (True), or until `stop` is called or the other end
        is closed (False): a process whose end was missed must not keep the thread running."""
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.register(self._stop, select.POLLHUP)
        ready = dict(poll.poll())
        return self._stop not in ready and bool(ready.get(descriptor, 0) & select.POLLIN)

    def _note_call(self, pid: int, number: int, arguments: Sequence[int]) -> Blocked | None:
        """Notes what a call opens or runs; returns what the sandbox blocks of it, if anything."""
        if number == _SOCKET:
            return Blocked("socket")
        name = _WATCHED[number]
        call = _REPORTED[name]
        if name in ("connect", "sendto"):
            address, size = arguments[1:3] if name == "connect" else arguments[4:6]
            return self._report_address(pid, _read(pid, address, min(size, 128)))
        folder = _HERE if call.folder is None else arguments[call.folder]
        path = _resolve(pid, folder, _text(pid, arguments[call.path]))
        if name in (*OPENS, *RUNS, "openat2"):
            self._watch(pid, path)
            if self.interest.records_opens and len(self.opened) < MAX_OPENED:
                self.opened[path] = None
                if name in RUNS:
                    script = script_of(_read_argument_words(pid, arguments[call.path + 1]))
                    self.scripts |= {path, _resolve(pid, _HERE, script)}
        if name in RUNS:
            return None
        if name.startswith(("rename", "link")):
            at = 0 if call.folder is None else 1
            moved = _resolve(pid, arguments[0] if at else _HERE, _text(pid, arguments[at]))
            self._watch(pid, moved, moves=True)
        is_read = call.flags is not None and not arguments[call.flags] & OPENS_FOR_WRITING
        is_there = name.startswith(_MAKES) and os.path.lexists(path)
        return None if is_there or (name in OPENS and is_read) else self._report_path(path)

    def _watch(self, pid: int, path: str, *, moves: bool = False) -> None:
        """Notes if an opened path holds outside text, or (`moves`) has such files in it."""
        if self.watched and not self.outside_text:
            real = _real_path_of(pid, path)
            places = [it for it in (real, *map(str, Path(real).parents)) if it in self.watched]
            places += [it for it in self.watched if moves and is_below(it, real)]
            self.outside_text = (self.watched[places[0]] or real) if places else ""

    def _report_path(self, path: str) -> Blocked | None:
        if not path or _WITHOUT_HARM.search(path):
            return None
        folder, name = os.path.split(path)
        real = os.path.join(real_path(folder), name)
        harmless = ("writable", "private", *["empty"] * (not self.interest.counts_home))
        if access(self.reach, real) in harmless or is_below_any(real, ("/dev", "/proc")):
            return None
        # The sandbox does not block this: outside, the command could not change it either.
        if not os.access(real if os.path.lexists(real) else os.path.dirname(real), os.W_OK):
            return None
        # The command chose the name: it must not add lines to a question, nor fill the screen.
        text = path if path.isprintable() else ascii(path)[1:-1]
        return Blocked("write", text if len(text) <= _MAX_SHOWN else f"…{text[-_MAX_SHOWN:]}")

    def _report_address(self, pid: int, address: bytes) -> Blocked | None:
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
    to = f"/proc/{pid}/root{path}"
    with contextlib.suppress(OSError), beneath.auto_close(os.open(to, os.O_PATH)) as opened:
        return os.readlink(f"/proc/self/fd/{opened}")
    return path


def _read_argument_words(pid: int, address: int) -> list[str]:
    """The first words of a command line in the memory of a process."""
    data = _read(pid, address, 8 * _MAX_WORDS)
    addresses = struct.unpack(f"{len(data) // 8}Q", data[: len(data) // 8 * 8])
    return [_text(pid, each) for each in takewhile(bool, addresses)]


def _text(pid: int, address: int) -> str:
    return os.fsdecode(_read(pid, address, _PATH_MAX).partition(b"\0")[0])


def _resolve(pid: int, folder: int, text: str) -> str:
    """Makes a path that a process names absolute; "" for an empty one."""
    if not text or text.startswith("/"):
        return os.path.normpath(text) if text else ""
    number = folder & 0xFFFFFFFF
    base = "cwd" if number == _HERE & 0xFFFFFFFF else f"fd/{number}"
    return os.path.normpath(os.path.join(os.readlink(f"/proc/{pid}/{base}"), text))


def _read(pid: int, address: int, size: int) -> bytes:
    """Reads memory of another process, as far as it has any there."""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
        return os.pread(file.fileno(), size, address)


def listening_ports(of: int | str = "self") -> frozenset[int]:
    """The ports that programs in the network of a process listen on, on any of its addresses."""
    ports = set[int]()
    for name in (f"/proc/{of}/net/tcp", f"/proc/{of}/net/tcp6"):
        with contextlib.suppress(OSError, ValueError), open(name) as file:
            rows = [fields for fields in map(str.split, list(file)[1:]) if fields[3] == "0A"]
            ports |= {int(fields[1].rpartition(":")[2], 16) for fields in rows}
    return frozenset(ports)
