"""What the kernel enforces: Landlock for files, seccomp for system calls. `launcher` applies it in
the process that becomes the command."""

import importlib.util
import json
import marshal
import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from types import CodeType
from typing import Any, NamedTuple

from kode.sandbox.launcher import landlock_version
from kode.sandbox.reach import LandlockPath

BOOT = (
    *("-I", "-S", "-c"),
    "import marshal,posix,sys\n"
    "f=int(sys.argv[1]);c,o=marshal.loads(posix.pread(f,posix.fstat(f).st_size,0));posix.close(f)\n"
    "g={'__name__':'launcher'};exec(c,g);g['become'](o,sys.argv[2:])",
)
"""Has Python read the launcher and its orders from the descriptor named by the next argument:
argument lists have a size limit, and everybody can read them."""


def launch(
    paths: Iterable[LandlockPath],
    *,
    internet: bool,
    alone: bool,
    report_to: int,
    opens: bool,
    **orders: Any,
) -> bytes:
    """The launcher and its orders, as `BOOT` reads them. `internet`: internet sockets may be made
    (unix sockets never); `alone`: it runs without bubblewrap; `report_to`: the socket for the
    listening end of the monitor; `opens`: that also learns of every file that is opened or run.
    Raises: KeyError for a machine whose system calls are not known."""
    machine = os.uname().machine
    # Without a network of its own, no internet socket may be created: with a listener, it answers
    # no to the report; otherwise the filter denies.
    answered = alone and not internet
    orders |= {
        "landlock": _compile_landlock(landlock_version(), paths, reads=alone),
        "filter": seccomp_filter(machine, internet=internet, alone=alone),
        "filter_of_reported": seccomp_filter(machine, internet=internet or answered, alone=alone),
        "report": (report_to, compile_watcher(machine, sockets=answered, opens=opens)),
        "ids": (os.getuid(), os.getgid()),
        "alone": alone,
    }
    return marshal.dumps((code_of("launcher"), orders))


@cache
def code_of(name: str) -> CodeType:
    """The compiled code of a module of this package."""
    spec = importlib.util.find_spec(f"kode.sandbox.{name}")
    assert spec is not None
    code = spec.loader.get_code(spec.name)  # type: ignore[union-attr]
    assert isinstance(code, CodeType)
    return code


SUFFICES_ALONE = 6
"""Older versions do not protect other processes from signals (6), or files from `truncate` (3)."""

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8  # linux/landlock.h
_REMOVE_AND_MAKE = sum(1 << bit for bit in range(4, 13))
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_READS = _EXECUTE | _READ_FILE | _READ_DIR
_SCOPES = 3  # abstract unix sockets and signals stay inside


def _compile_landlock(
    version: int, paths: Iterable[LandlockPath], *, reads: bool
) -> tuple[bytes, list[tuple[str, int, bool]]] | None:
    """What the kernel restricts, reading only with `reads`, and the exceptions: path, rights, and
    whether the path must not be a link. The kernel refuses folder rights for a file. The right to
    change a folder does not include reading all files in it."""
    if not version:
        return None
    changes = _WRITE_FILE | _REMOVE_AND_MAKE
    changes |= (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    attributes = struct.pack("Q", changes | (_READS if reads else 0))
    attributes += struct.pack("QQ", 0, _SCOPES) if version >= SUFFICES_ALONE else b""
    rights = {"write": changes, "read": _READS, "list": _READ_DIR}
    return attributes, [
        (path, rights[kind] if is_folder else rights[kind] & _OF_FILES, kind != "read")
        for path, kind, is_folder in paths
    ]


_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # AUDIT_ARCH_* of linux/audit.h
_NUMBERS: Mapping[str, Mapping[str, int]] = json.loads(
    resources.files("kode.sandbox").joinpath("syscalls.json").read_bytes()
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
"""The same for what bubblewrap's mounts or namespaces cover, and Landlock leaves to any owner."""

_OF_A_PROCESS = {
    "prlimit64": 0, "setpriority": 1, "ioprio_set": 1, "sched_setparam": 0,
    "sched_setscheduler": 0, "sched_setaffinity": 0, "sched_setattr": 0,
}  # fmt: skip
"""Scheduling: the argument that holds the process they change; 0 is the caller. Denied alone."""

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
    """The calls that a machine has. Raises: KeyError for an unknown machine."""
    if machine not in _ARCHITECTURES:
        raise KeyError(machine)
    return {name: row[machine] for name, row in _NUMBERS.items() if machine in row}


@cache
def seccomp_filter(machine: str, *, internet: bool, alone: bool) -> bytes:
    """A BPF program that denies what leads out of the sandbox. Raises: KeyError for an unknown
    machine."""
    number = _numbers(machine)
    families = [_NETLINK, *([_INET, _INET6] if internet else [])]
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
    allowed = [(_FIRST, _EQUAL, family) for family in families]
    program += [*_judge(number["socket"], allowed, _ALLOW, _NOT_PERMITTED), _ALLOW]
    return _assemble(program)


def _assemble(program: Iterable[Step]) -> bytes:
    return b"".join(struct.pack("=HBBI", *step) for step in program)


def _judge(
    number: int | None,
    tests: Sequence[tuple[int, int, int]],
    verdict: Step = _NOT_PERMITTED,
    otherwise: Step = _ALLOW,
) -> list[Step]:
    """Denies a call, or does what the verdict says: where there are tests (offset, comparison,
    operand), if one of them holds. Other calls go to the next instruction."""
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
    """Of the folder that a relative path begins at; None: the current one."""
    flags: int | None = None
    """Of the argument that must have a bit for the call to count; None: it always does."""


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
"""The latter are reported only together with all opened files."""

_HERE = _numbers(os.uname().machine) if os.uname().machine in _ARCHITECTURES else {}
WATCHED = {_HERE[name]: (name, call) for name, call in _REPORTED.items() if name in _HERE}
"""Call number → its name, and where its arguments are."""
SOCKET = _HERE.get(
    "socket"
)  # the number of the call that the listener denies; see `compile_watcher`


@cache
def compile_watcher(machine: str, *, sockets: bool, opens: bool = False) -> bytes:
    """A BPF program that reports the calls of `WATCHED` and lets all pass. `sockets`: also reports
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
    return _assemble((*program, _ALLOW))
