"""What the kernel enforces: Landlock for files, seccomp for system calls.

Translates limits to the kernel's format; `launcher` applies them in the process that becomes the
command. `sandbox` decides which limits a command gets.
"""

import importlib.util
import marshal
import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from types import CodeType
from typing import Any

from kode.sandbox.launcher import landlock_version

BOOT = (
    "import marshal,posix,sys\n"
    "f=int(sys.argv[1]);c,o=marshal.loads(posix.pread(f,posix.fstat(f).st_size,0));posix.close(f)\n"
    "g={'__name__':'launcher'};exec(c,g);g['become'](o,sys.argv[2:])"
)
"""Reads the launcher and its orders from the descriptor named by the first argument: argument lists
have a size limit, and everybody can read them."""

Paths = Iterable[tuple[str, bool]]
"""Paths, each with whether it is a folder."""


def launch(
    *,
    write: Paths,
    read: Paths | None,
    listed: Iterable[str] = (),
    internet: bool,
    alone: bool,
    environment: Mapping[str, str | None],
    layers: Sequence[tuple[str, str, str]] = (),
    masks: Sequence[tuple[str, str]] = (),
    cwd: str = "",
    report_to: int | None = None,
    opens: bool = False,
    probe: tuple[CodeType, dict[str, Any]] | None = None,
) -> bytes:
    """The launcher and its orders, as `BOOT` reads them.

    write, read   real paths that may be changed, and nothing else; that may be read and executed,
                  and nothing else, None: everything. The names in the folders `listed` may be read.
    internet      whether internet sockets may be made; unix sockets never
    alone         whether there is no bubblewrap around it
    environment   variables to set, or to leave out where the value is None
    layers        see `layer.Layer.mount`; `masks`: what is then hidden, each with the empty file in
                  its place ("" for a folder); `cwd`: the folder to be in after that
    report_to     a socket to send the listening end of the wall through, see `wall`
    opens         whether it also learns of every file that is opened or run
    probe         code to run instead of a command

    Raises: KeyError for a machine whose system calls are not known.
    """
    version = landlock_version()
    machine = os.uname().machine
    # Without a network of its own, no internet socket may be created: with a listener, it answers
    # no to the report; otherwise the filter denies.
    answered = alone and not internet
    orders = {
        "files": _attributes(version, read is not None) if version else None,
        "rules": _rules(version, write, read, listed) if version else [],
        "filter": seccomp_filter(machine, internet=internet, alone=alone),
        "filter_of_reported": seccomp_filter(machine, internet=internet or answered, alone=alone),
        "report": None
        if report_to is None
        else (
            report_to,
            watching(machine, sockets=answered, opens=opens),
        ),
        "layers": list(layers),
        "masks": list(masks),
        "cwd": cwd,
        "ids": (os.getuid(), os.getgid()),
        "alone": alone,
        "environment": list(environment.items()),
        "probe": probe,
    }
    return marshal.dumps((code_of("launcher"), orders))


@cache
def code_of(name: str) -> CodeType:
    """The compiled code of a module of this package."""
    found = importlib.util.find_spec(f"kode.sandbox.{name}")
    assert found is not None
    code = found.loader.get_code(found.name)  # type: ignore[union-attr]
    assert isinstance(code, CodeType)
    return code


# ── Landlock ─────────────────────────────────────────────────────────────────────────────────

SUFFICES_ALONE = 6
"""Older versions do not protect other processes from signals (6), or files from `truncate` (3)."""

HOLDS_SIGNALS = 6
"""Older versions do not protect other processes from signals."""

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_REMOVE_AND_MAKE = sum(1 << bit for bit in range(4, 13))
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_READS = _EXECUTE | _READ_FILE | _READ_DIR
_SCOPES = 3
"""Abstract unix sockets and signals stay inside."""


def _handled(version: int, reads: bool) -> int:
    changes = _WRITE_FILE | _REMOVE_AND_MAKE
    changes |= _REFER if version >= 2 else 0
    changes |= _TRUNCATE if version >= 3 else 0
    return changes | (_READS if reads else 0)


def _attributes(version: int, reads: bool) -> bytes:
    files = struct.pack("Q", _handled(version, reads))
    return files + struct.pack("QQ", 0, _SCOPES) if version >= HOLDS_SIGNALS else files


def _rules(
    version: int, write: Paths, read: Paths | None, listed: Iterable[str]
) -> list[tuple[str, int, bool]]:
    """Path, rights, and whether the path must not be a link. The kernel refuses folder rights for a
    file."""
    changes = _handled(version, False)  # who may change a folder may not read all files in it
    rules = [(path, changes if folder else changes & _OF_FILES, True) for path, folder in write]
    more = [(path, _READS if folder else _READS & _OF_FILES, False) for path, folder in read or ()]
    return [*rules, *more, *((path, _READ_DIR, True) for path in listed)]


# ── seccomp ──────────────────────────────────────────────────────────────────────────────────

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_NAMES = (
    "socket socketpair clone clone3 ioctl prlimit64 mount umount2 pivot_root chroot setns unshare "
    "bpf perf_event_open keyctl add_key request_key userfaultfd io_uring_setup io_uring_enter "
    "io_uring_register open_by_handle_at kexec_load kexec_file_load init_module finit_module "
    "delete_module reboot swapon swapoff settimeofday clock_settime acct quotactl move_mount "
    "open_tree fsopen fsconfig fsmount fspick mount_setattr process_vm_writev fanotify_init "
    "ptrace adjtimex clock_adjtime sethostname setdomainname "
    "open_tree_attr quotactl_fd "
    "shmget shmat shmctl semget semop semctl semtimedop msgget msgsnd msgrcv msgctl "
    "mq_open mq_unlink "
    "setpriority ioprio_set sched_setparam sched_setscheduler sched_setaffinity sched_setattr "
    "chmod fchmod fchmodat fchmodat2 chown lchown fchown fchownat utime utimes futimesat utimensat "
    "setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr "
    "setxattrat removexattrat file_setattr"
).split()
_NUMBERS = {
    "x86_64": (
        41, 53, 56, 435, 16, 302, 165, 166, 155, 161, 308, 272, 321,
        298, 250, 248, 249, 323, 425, 426,
        427, 304, 246, 320, 175, 313,
        176, 169, 167, 168, 164, 227, 163, 179, 429,
        428, 430, 431, 432, 433, 442, 311, 300,
        101, 159, 305, 170, 171,
        467, 443,
        29, 30, 31, 64, 65, 66, 220, 68, 69, 70, 71,
        240, 241,
        141, 251, 142, 144, 203, 314,
        90, 91, 268, 452, 92, 94, 93, 260, 132, 235, 261, 280,
        188, 189, 190, 197, 198, 199, 463, 466, 469,
    ),
    "aarch64": (
        198, 199, 220, 435, 29, 261, 40, 39, 41, 51, 268, 97, 280,
        241, 219, 217, 218, 282, 425, 426,
        427, 265, 104, 294, 105, 273,
        106, 142, 224, 225, 170, 112, 89, 60, 429,
        428, 430, 431, 432, 433, 442, 271, 262,
        117, 171, 266, 161, 162,
        467, 443,
        194, 196, 195, 190, 193, 191, 192, 186, 189, 188, 187,
        180, 181,
        140, 30, 118, 119, 122, 274,
        None, 52, 53, 452, None, None, 55, 54, None, None, None, 88,
        5, 6, 7, 14, 15, 16, 463, 466, 469,
    ),
}  # fmt: skip
_OF_A_PROCESS = {
    "prlimit64": 0, "setpriority": 1, "ioprio_set": 1, "sched_setparam": 0,
    "sched_setscheduler": 0, "sched_setaffinity": 0, "sched_setattr": 0,
}  # fmt: skip
"""The argument that holds the process they change; 0 is the caller."""
_JUDGED = ("socket", "socketpair", "clone", "clone3", "ioctl", *_OF_A_PROCESS)
"""Denied depending on their arguments; the others always."""

_ONLY_ALONE = frozenset(_NAMES[_NAMES.index("shmget") :])
"""Covered by bubblewrap's mounts or namespaces: memory shared with other processes, their
scheduling, and modes, owners and times of files, which Landlock leaves to any owner."""

_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_DATAGRAM_OR_RAW = 2
"""The bit in 2 and 3, but not in streams (1) or sequenced packets (5)."""
_NEW_NAMESPACES = 0x7E020000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_EPERM, _ENOSYS = 1, 38
_ALLOW = 0x7FFF0000
_FLAGS_OF_FILES = (0x6600, 0x5800, 0x7600, 0x9400)
"""The ioctl families that change flags, versions and subvolumes through a file opened for reading:
of `chattr`, xfs and btrfs."""
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN, _AND = 0x20, 0x15, 0x35, 0x45, 0x06, 0x54
_IN_FAMILY = -1
"""Not a kernel constant: compares only the second byte."""
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST, _SECOND = 0, 4, 16, 24
"""Offsets of the call's number, and of the low words of its arguments."""

Step = tuple[int, int, int, int]
"""Code, jump if true, jump if false, operand."""


@cache
def seccomp_filter(machine: str, *, internet: bool, alone: bool) -> bytes:
    """A BPF program that denies what leads out of the sandbox. Raises: KeyError for an unknown
    machine."""
    number: dict[str, Any] = dict(zip(_NAMES, _NUMBERS[machine], strict=True))
    families = [_NETLINK, *([_INET, _INET6] if internet else [])]
    program: list[Step] = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        # Another architecture (32-bit calls) has other numbers: none of its calls may pass.
        (_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        _deny(_EPERM),
        (_LOAD, 0, 0, _NUMBER_AT),
    ]
    if machine == "x86_64":  # x32 starts here
        program += [(_AT_LEAST, 0, 1, 0x40000000), _deny(_EPERM)]
    for name in _NAMES:
        known = number[name]
        if known is not None and name not in _JUDGED and (alone or name not in _ONLY_ALONE):
            program += [(_EQUAL, 0, 1, known), _deny(_EPERM)]
    # clone3 hides its flags in memory; without it programs fall back to clone.
    program += [(_EQUAL, 0, 1, number["clone3"]), _deny(_ENOSYS)]
    program += _judged(number["clone"], [(_FIRST, _ANY_BIT, _NEW_NAMESPACES)])
    for name, argument in _OF_A_PROCESS.items() if alone else ():
        program += _judged(number[name], [(_FIRST + 8 * argument, _ANY_BIT, 0xFFFFFFFF)])
    terminal = [(_SECOND, _EQUAL, _TIOCSTI), (_SECOND, _EQUAL, _TIOCLINUX)]
    of_files = [(_SECOND, _IN_FAMILY, family) for family in _FLAGS_OF_FILES] if alone else []
    program += _judged(number["ioctl"], [*terminal, *of_files])
    # A pair cannot reach another socket, but an end of a datagram pair can be re-addressed, and
    # families other than unix are ordinary sockets. Streams stay connected.
    pairs = [(_FIRST, _ANY_BIT, ~_UNIX & 0xFFFFFFFF), (_SECOND, _ANY_BIT, _DATAGRAM_OR_RAW)]
    program += _judged(number["socketpair"], pairs)
    # An allow-list: vsock and packet sockets also bypass a network namespace.
    program += [
        (_EQUAL, 0, 2 + len(families), number["socket"]),
        (_LOAD, 0, 0, _FIRST),
        *((_EQUAL, len(families) - at, 0, family) for at, family in enumerate(families)),
        _deny(_EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *step) for step in program)


def _deny(error: int) -> Step:
    return (_RETURN, 0, 0, 0x00050000 | error)


def _judged(number: int, denied: Sequence[tuple[int, int, int]]) -> list[Step]:
    """Denies a call by its arguments: offset, comparison, operand. Other calls continue behind
    it."""
    body = [(_RETURN, 0, 0, _ALLOW), _deny(_EPERM)]
    for argument, code, value in reversed(denied):
        test = [(_EQUAL if code == _IN_FAMILY else code, len(body) - 1, 0, value)]
        if code == _IN_FAMILY:
            test.insert(0, (_AND, 0, 0, 0xFF00))
        body = [(_LOAD, 0, 0, argument), *test, *body]
    return [(_EQUAL, 0, len(body), number), *body]


# ── what is reported ─────────────────────────────────────────────────────────────────────────

_NOTIFY = 0x7FC00000
OPENS_FOR_WRITING = 0o1 | 0o2 | 0o100 | 0o1000
_CALLS: dict[str, tuple[int | None, int | None, int, int, int | None]] = {
    # name: number on x86_64, on aarch64; the argument with the folder (-1: none), the path, and the
    # one that must have a bit for the call to count (None: it always does)
    "open": (2, None, -1, 0, 1),
    "openat": (257, 56, 0, 1, 2),
    "openat2": (437, 437, 0, 1, None),
    "creat": (85, None, -1, 0, None),
    "truncate": (76, 45, -1, 0, None),
    "mkdir": (83, None, -1, 0, None),
    "mkdirat": (258, 34, 0, 1, None),
    "rmdir": (84, None, -1, 0, None),
    "unlink": (87, None, -1, 0, None),
    "unlinkat": (263, 35, 0, 1, None),
    "rename": (82, None, -1, 1, None),
    "renameat": (264, 38, 2, 3, None),
    "renameat2": (316, 276, 2, 3, None),
    "link": (86, None, -1, 1, None),
    "linkat": (265, 37, 2, 3, None),
    "symlink": (88, None, -1, 1, None),
    "symlinkat": (266, 36, 1, 2, None),
    "connect": (42, 203, -1, 1, None),
    "sendto": (44, 206, -1, 4, 4),
    "execve": (59, 221, -1, 0, None),
    "execveat": (322, 281, 0, 1, None),
}
RUNS = ("execve", "execveat")
"""Reported only together with all opened files."""
OPENS = ("open", "openat")

WATCHED = {
    numbers[0 if os.uname().machine == "x86_64" else 1]: (name, *numbers[2:])
    for name, numbers in _CALLS.items()
}
"""Call number → its name, and the arguments with its folder, its path and its flags."""

SOCKET = dict(zip(_NAMES, _NUMBERS.get(os.uname().machine, ()), strict=False)).get("socket")
"""The number of the call that the listener denies; see `watching`."""


@cache
def watching(machine: str, *, sockets: bool, opens: bool = False) -> bytes:
    """A BPF program that reports the calls of `WATCHED` and lets all pass. `sockets`: also reports
    internet sockets, which are then denied; `opens`: also files opened for reading, and programs
    run."""
    program: list[Step] = [(_LOAD, 0, 0, _NUMBER_AT)]
    if sockets:
        program += [
            (_EQUAL, 0, 5, _NUMBERS[machine][0] or 0),
            (_LOAD, 0, 0, _FIRST),
            (_EQUAL, 1, 0, _INET),
            (_EQUAL, 0, 1, _INET6),
            (_RETURN, 0, 0, _NOTIFY),
            (_RETURN, 0, 0, _ALLOW),
        ]
    for name, (on_x86, on_arm, _, _, argument) in _CALLS.items():
        number = on_x86 if machine == "x86_64" else on_arm
        if number is None or (name in RUNS and not opens):
            continue
        if argument is None or (opens and name in OPENS):
            program += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _NOTIFY)]
            continue
        at = _FIRST + 8 * argument
        bits = OPENS_FOR_WRITING if argument != 4 else 0xFFFFFFFF
        program += [
            (_EQUAL, 0, 4, number),
            (_LOAD, 0, 0, at),
            (_ANY_BIT, 0, 1, bits),
            (_RETURN, 0, 0, _NOTIFY),
            (_RETURN, 0, 0, _ALLOW),
        ]
    program.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *step) for step in program)
