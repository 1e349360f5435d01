"""What the kernel is told to hold: Landlock for files, seccomp for system calls.

Here limits become what the kernel reads; `confine_launcher` applies them in the process that
becomes the command. Which limits a command gets is decided in `sandbox`.
"""

import importlib.util
import marshal
import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from types import CodeType
from typing import Any

from kode.tools.confine_launcher import landlock_version

BOOT = (
    "import marshal,posix,sys\n"
    "f=int(sys.argv[1]);c,o=marshal.loads(posix.pread(f,posix.fstat(f).st_size,0));posix.close(f)\n"
    "g={'__name__':'launcher'};exec(c,g);g['become'](o,sys.argv[2:])"
)
"""Reads the launcher and its orders from the descriptor that the first argument names: an argument
list has a limit, and everybody can read it."""

Paths = Iterable[tuple[str, bool]]
"""Paths, each with whether it is a folder."""


def launch(
    *,
    write: Paths,
    read: Paths | None,
    internet: bool,
    alone: bool,
    environment: Mapping[str, str | None],
    probe: tuple[CodeType, dict[str, Any]] | None = None,
) -> bytes:
    """The launcher and its orders, as `BOOT` reads them.

    `write` are real paths that may be changed, and nothing else; `read` may be read and executed,
    None: everything. `internet`: whether internet sockets may be made; unix sockets never. `alone`:
    whether there is no bubblewrap around it. `environment`: variables to set, or to leave out where
    the value is None. `probe`: code to run instead of a command.

    Raises: KeyError for a machine whose system calls are not known.
    """
    version = landlock_version()
    orders = {
        "files": _attributes(version, read is not None) if version else None,
        "rules": _rules(version, write, read) if version else [],
        "filter": seccomp_filter(os.uname().machine, internet=internet, alone=alone),
        "environment": list(environment.items()),
        "probe": probe,
    }
    return marshal.dumps((code_of("confine_launcher"), orders))


@cache
def code_of(name: str) -> CodeType:
    """The compiled code of a module of this package."""
    found = importlib.util.find_spec(f"kode.tools.{name}")
    assert found is not None
    code = found.loader.get_code(found.name)  # type: ignore[union-attr]
    assert isinstance(code, CodeType)
    return code


# ── Landlock ─────────────────────────────────────────────────────────────────────────────────

SUFFICES_ALONE = 3
"""Older versions let everything be emptied by `truncate`."""

HOLDS_SIGNALS = 6
"""Older versions let other processes be ended."""

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


def _rules(version: int, write: Paths, read: Paths | None) -> list[tuple[str, int, bool]]:
    """Path, rights, and whether the path has to be real. A file takes no rights of a folder: the
    kernel refuses such a rule."""
    handled = _handled(version, read is not None)
    rules = [(path, handled if folder else handled & _OF_FILES, True) for path, folder in write]
    more = [(path, _READS if folder else _READS & _OF_FILES, False) for path, folder in read or ()]
    return rules + more


# ── seccomp ──────────────────────────────────────────────────────────────────────────────────

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_NAMES = (
    "socket socketpair clone clone3 ioctl prlimit64 mount umount2 pivot_root chroot setns unshare "
    "bpf perf_event_open keyctl add_key request_key userfaultfd io_uring_setup io_uring_enter "
    "io_uring_register open_by_handle_at kexec_load kexec_file_load init_module finit_module "
    "delete_module reboot swapon swapoff settimeofday clock_settime acct quotactl move_mount "
    "open_tree fsopen fsconfig fsmount fspick mount_setattr process_vm_writev fanotify_init "
    "shmget shmat semget msgget mq_open"
).split()
_NUMBERS = {
    "x86_64": (
        41, 53, 56, 435, 16, 302, 165, 166, 155, 161, 308, 272, 321,
        298, 250, 248, 249, 323, 425, 426,
        427, 304, 246, 320, 175, 313,
        176, 169, 167, 168, 164, 227, 163, 179, 429,
        428, 430, 431, 432, 433, 442, 311, 300,
        29, 30, 64, 68, 240,
    ),
    "aarch64": (
        198, 199, 220, 435, 29, 261, 40, 39, 41, 51, 268, 97, 280,
        241, 219, 217, 218, 282, 425, 426,
        427, 265, 104, 294, 105, 273,
        106, 142, 224, 225, 170, 112, 89, 60, 429,
        428, 430, 431, 432, 433, 442, 271, 262,
        194, 196, 190, 186, 180,
    ),
}  # fmt: skip
_JUDGED = ("socket", "socketpair", "clone", "clone3", "ioctl", "prlimit64")
"""Denied by their arguments only; the others always."""

_SHARED_BY_NAME = ("shmget", "shmat", "semget", "msgget", "mq_open")
"""Reach other processes of the user; bubblewrap gives a name space of its own for them."""

_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_DATAGRAM_OR_RAW = 2
"""The bit that 2 and 3 have, and neither streams (1) nor packets in sequence (5)."""
_NEW_NAMESPACES = 0x7E020000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_EPERM, _ENOSYS = 1, 38
_ALLOW = 0x7FFF0000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST, _SECOND = 0, 4, 16, 24
"""Where the call's number, and the low words of its arguments, are."""

Step = tuple[int, int, int, int]
"""Code, jump if true, jump if false, operand."""


@cache
def seccomp_filter(machine: str, *, internet: bool, alone: bool) -> bytes:
    """A program of BPF that denies what leads out of the sandbox. Raises KeyError for a machine
    it has no numbers of."""
    number = dict(zip(_NAMES, _NUMBERS[machine], strict=True))
    families = [_NETLINK, *([_INET, _INET6] if internet else [])]
    program: list[Step] = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        # Another architecture (32-bit calls) has other numbers: none of its calls is let through.
        (_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        _deny(_EPERM),
        (_LOAD, 0, 0, _NUMBER_AT),
    ]
    if machine == "x86_64":  # x32 counts from here
        program += [(_AT_LEAST, 0, 1, 0x40000000), _deny(_EPERM)]
    for name in _NAMES:
        if name not in _JUDGED and (alone or name not in _SHARED_BY_NAME):
            program += [(_EQUAL, 0, 1, number[name]), _deny(_EPERM)]
    # clone3 hides its flags in memory; without it programs fall back to clone.
    program += [(_EQUAL, 0, 1, number["clone3"]), _deny(_ENOSYS)]
    program += _judged(number["clone"], [(_FIRST, _ANY_BIT, _NEW_NAMESPACES)])
    if alone:  # the limits of other processes; 0 is oneself
        program += _judged(number["prlimit64"], [(_FIRST, _ANY_BIT, 0xFFFFFFFF)])
    terminal = [(_SECOND, _EQUAL, _TIOCSTI), (_SECOND, _EQUAL, _TIOCLINUX)]
    program += _judged(number["ioctl"], terminal)
    # A pair needs no socket of another, but one end of a datagram pair can be pointed anywhere, and
    # of other families than unix it is a socket like any. Streams are connected for good.
    pairs = [(_FIRST, _ANY_BIT, ~_UNIX & 0xFFFFFFFF), (_SECOND, _ANY_BIT, _DATAGRAM_OR_RAW)]
    program += _judged(number["socketpair"], pairs)
    # An allow-list: vsock and packet sockets lead past a network namespace, too.
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
    """Denies a call by its arguments: where one is, how it is compared, and with what. Other calls
    go on behind it."""
    body: list[Step] = []
    for at, (argument, code, value) in enumerate(denied):
        to_the_end = 2 * (len(denied) - at) - 1
        body += [(_LOAD, 0, 0, argument), (code, to_the_end, 0, value)]
    body += [(_RETURN, 0, 0, _ALLOW), _deny(_EPERM)]
    return [(_EQUAL, 0, len(body), number), *body]
