"""The last step into the sandbox: limits its own process, then becomes the command.

Run as a program, `python -I -S confine.py LIMITS COMMAND ...`, inside bubblewrap or alone. It
imports nothing of kode and little of the standard library, since it starts with every command.
What the limits are is decided in `sandbox.py`. LIMITS is a JSON object:

    write      folders and files that may be changed; nothing else may
    read       what may be read and executed; null: everything there is
    internet   whether internet sockets may be made; unix sockets never
    environment  variables to set, or to leave out where the value is null

Landlock holds the files, seccomp the system calls. Both outlast `exec` and cannot be lifted. With
`{"probe": {...}}` in LIMITS it tries what must fail and prints what did not, as a JSON list.
"""

import ctypes
import json
import os
import struct
import sys

_LIBC = ctypes.CDLL(None, use_errno=True)

# ── Landlock ─────────────────────────────────────────────────────────────────────────────────

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_REMOVE_AND_MAKE = sum(1 << bit for bit in range(4, 13))
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_SCOPES = 3
"""Abstract unix sockets and signals stay inside."""


def landlock_version() -> int:
    """The version of Landlock in this kernel, 0 without it."""
    return max(0, int(_LIBC.syscall(_CREATE_RULESET, None, 0, 1)))


def restrict_files(write: list[str], read: list[str] | None) -> None:
    """Raises OSError. Paths that are not there are left out."""
    version = landlock_version()
    changes = _WRITE_FILE | _REMOVE_AND_MAKE
    changes |= _REFER if version >= 2 else 0
    changes |= _TRUNCATE if version >= 3 else 0
    reads = _EXECUTE | _READ_FILE | _READ_DIR
    handled = changes | (reads if read is not None else 0)
    attributes = struct.pack("QQQ", handled, 0, _SCOPES if version >= 6 else 0)
    size = 24 if version >= 6 else 8
    ruleset = _checked(_LIBC.syscall(_CREATE_RULESET, attributes, size, 0))
    for path in write:
        _allow(ruleset, path, handled)
    for path in read or ():
        _allow(ruleset, path, reads)
    _checked(_LIBC.syscall(_RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)


def _allow(ruleset: int, path: str, access: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    if not os.path.isdir(path):
        access &= _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
    try:
        rule = struct.pack("=Qi", access, descriptor)
        _checked(_LIBC.syscall(_ADD_RULE, ruleset, 1, rule, 0))
    finally:
        os.close(descriptor)


# ── seccomp ──────────────────────────────────────────────────────────────────────────────────

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_NAMES = (
    "socket clone clone3 ioctl mount umount2 pivot_root chroot setns unshare bpf perf_event_open "
    "keyctl add_key request_key userfaultfd io_uring_setup io_uring_enter io_uring_register "
    "open_by_handle_at kexec_load kexec_file_load init_module finit_module delete_module reboot "
    "swapon swapoff settimeofday clock_settime acct quotactl move_mount open_tree fsopen fsconfig "
    "fsmount fspick mount_setattr process_vm_writev"
).split()
_NUMBERS = {
    "x86_64": (
        41, 56, 435, 16, 165, 166, 155, 161, 308, 272, 321, 298,
        250, 248, 249, 323, 425, 426, 427,
        304, 246, 320, 175, 313, 176, 169,
        167, 168, 164, 227, 163, 179, 429, 428, 430, 431,
        432, 433, 442, 311,
    ),
    "aarch64": (
        198, 220, 435, 29, 40, 39, 41, 51, 268, 97, 280, 241,
        219, 217, 218, 282, 425, 426, 427,
        265, 104, 294, 105, 273, 106, 142,
        224, 225, 170, 112, 89, 60, 429, 428, 430, 431,
        432, 433, 442, 271,
    ),
}  # fmt: skip
_JUDGED = ("socket", "clone", "clone3", "ioctl")
"""Denied by their arguments only; the others always."""

_UNIX_FAMILY, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_NEW_NAMESPACES = 0x7E020000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_EPERM, _ENOSYS = 1, 38
_ALLOW = 0x7FFF0000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT, _SECOND_ARGUMENT_AT = 0, 4, 16, 24


def seccomp_filter(machine: str, internet: bool) -> bytes:
    """A program of BPF that denies what leads out of the sandbox. Raises KeyError for a machine
    it has no numbers of."""
    number = dict(zip(_NAMES, _NUMBERS[machine], strict=True))
    families = [_NETLINK, *([_INET, _INET6] if internet else [])]
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        # Another architecture (32-bit calls) has other numbers: none of its calls is let through.
        (_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        _deny(_EPERM),
        (_LOAD, 0, 0, _NUMBER_AT),
    ]
    if machine == "x86_64":  # x32 counts from here
        program += [(_AT_LEAST, 0, 1, 0x40000000), _deny(_EPERM)]
    for name in _NAMES:
        if name not in _JUDGED:
            program += [(_EQUAL, 0, 1, number[name]), _deny(_EPERM)]
    # clone3 hides its flags in memory; without it programs fall back to clone.
    program += [(_EQUAL, 0, 1, number["clone3"]), _deny(_ENOSYS)]
    program += _judged(number["clone"], _FIRST_ARGUMENT_AT, [(_ANY_BIT, _NEW_NAMESPACES)])
    terminal = [(_EQUAL, _TIOCSTI), (_EQUAL, _TIOCLINUX)]
    program += _judged(number["ioctl"], _SECOND_ARGUMENT_AT, terminal)
    # An allow-list: vsock and packet sockets lead past a network namespace, too.
    program += [
        (_EQUAL, 0, 2 + len(families), number["socket"]),
        (_LOAD, 0, 0, _FIRST_ARGUMENT_AT),
        *((_EQUAL, len(families) - at, 0, family) for at, family in enumerate(families)),
        _deny(_EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *step) for step in program)


def _deny(error: int) -> tuple[int, int, int, int]:
    return (_RETURN, 0, 0, 0x00050000 | error)


def _judged(
    number: int, argument_at: int, denied: list[tuple[int, int]]
) -> list[tuple[int, int, int, int]]:
    """Denies a call by the low word of one argument; other calls go on behind it."""
    tests = [(code, len(denied) - at, 0, value) for at, (code, value) in enumerate(denied)]
    body = [(_LOAD, 0, 0, argument_at), *tests, (_RETURN, 0, 0, _ALLOW), _deny(_EPERM)]
    return [(_EQUAL, 0, len(body), number), *body]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_void_p)]


def restrict_calls(internet: bool) -> None:
    """Raises OSError, or KeyError on a machine that is not known."""
    steps = seccomp_filter(os.uname().machine, internet)
    buffer = ctypes.create_string_buffer(steps, len(steps))
    program = _Program(len(steps) // 8, ctypes.addressof(buffer))
    _checked(_LIBC.prctl(22, 2, ctypes.byref(program), 0, 0))


def drop_capabilities() -> None:
    """Root keeps its name and loses its powers: they would read other processes' memory and
    environments past Landlock."""
    for capability in range(64):
        _LIBC.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP; fails beyond the last
    header = struct.pack("=Ii", 0x20080522, 0)
    _checked(_LIBC.capset(header, bytes(24)))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


# ── the self-test ────────────────────────────────────────────────────────────────────────────


def leaks(probe: dict[str, object]) -> list[str]:
    """What was possible that must not be. `probe`: `hidden` and `fixed` are lists of paths that
    must not be readable and not be writable, `kept` a folder that must be writable; `network` and
    `outer_pid` as they are."""
    found = [f"reads {path}" for path in _strings(probe["hidden"]) if _readable(path)]
    found += [f"writes {path}" for path in _strings(probe["fixed"]) if _writable(path)]
    found += [f"cannot write {path}" for path in _strings(probe["kept"]) if not _writable(path)]
    found += ["makes unix sockets"] if _makes_socket(_UNIX_FAMILY) else []
    if not probe["network"] and _has_network():
        found.append("has a network")
    outer = probe["outer_pid"]
    if isinstance(outer, int) and _sees(outer):
        found.append("sees other processes")
    return found


def _strings(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _readable(path: str) -> bool:
    try:
        if os.path.isdir(path):
            return bool(os.listdir(path))
        with open(path, "rb"):
            return True
    except OSError:
        return False


def _writable(folder: str) -> bool:
    path = f"{folder}/.kode-sandbox-test-{os.getpid()}"
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        os.unlink(path)
    except OSError:
        return False
    return True


def _makes_socket(family: int) -> bool:
    descriptor = _LIBC.socket(family, 1, 0)
    if descriptor >= 0:
        os.close(descriptor)
    return bool(descriptor >= 0)


def _has_network() -> bool:
    """An internet socket and an interface beside the loopback."""
    if not _makes_socket(_INET):
        return False
    with open("/proc/net/dev") as file:
        return any(":" in line and line.split(":")[0].strip() != "lo" for line in file)


def _sees(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return bool(file.read(1))
    except OSError:
        return False


def main(argv: list[str]) -> int:
    """Becomes the command; 126 when it cannot be limited or started, and nothing has run then."""
    limits = json.loads(argv[1])
    try:
        _checked(_LIBC.prctl(38, 1, 0, 0, 0))  # PR_SET_NO_NEW_PRIVS
        drop_capabilities()
        if landlock_version():
            restrict_files(limits["write"], limits["read"])
        elif limits["read"] is not None:
            raise OSError("this kernel has no Landlock")
        restrict_calls(limits["internet"])
        if "probe" in limits:
            print(json.dumps(leaks(limits["probe"])))
            return 0
        for name, value in limits["environment"].items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        os.execvp(argv[2], argv[2:])
    except (OSError, KeyError) as error:
        print(f"kode: the sandbox could not be entered: {error!r}", file=sys.stderr)
    return 126


if __name__ == "__main__":
    sys.exit(main(sys.argv))
