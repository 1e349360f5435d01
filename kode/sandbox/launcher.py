"""The last step into the sandbox: limits its own process, then becomes the command.

It runs in a separate Python, inside bubblewrap or alone, and starts with every command. So it is
small, arrives compiled together with its orders (see `kernel.launch`), and imports little. Landlock
limits files, seccomp system calls; both survive `exec` and cannot be lifted.
"""

import _socket
import ctypes
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` costs more than all the rest
    from typing import Any

_libc = ctypes.CDLL(None, use_errno=True)
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # asm/unistd.h
_MORE_THAN_CAN_BE_OPEN = 1 << 24  # above the kernel's fs.nr_open
_READ_ONLY, _PLAIN, _REMOUNT, _BIND = 1, 2 | 4, 32, 4096
"""`_PLAIN`: MS_NOSUID and MS_NODEV, so no setuid programs and no devices."""
_DETACH, _NEW_USER = 2, 0x10000000  # MNT_DETACH and CLONE_NEWUSER of Linux
_LISTENER, _PATIENT = 8, 32  # a filter with a listener; a reported call that waits through signals
_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER, _DROP_FROM_BOUND = 38, 22, 2, 24  # linux/prctl.h
_ADOPTS_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER


def landlock_version() -> int:
    """The kernel's Landlock version; 0 without it."""
    return max(0, int(_libc.syscall(_CREATE_RULESET, None, 0, 1)))


def enter(orders: dict[str, "Any"]) -> None:
    """Limits this process permanently. `orders` comes from `kernel.launch`. Raises: OSError."""
    if orders["layers"]:
        _mount_layers(orders)
    _check(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    # Root keeps its name but loses its powers, which could read other processes' memory and
    # environments past Landlock.
    for capability in range(64):
        if _libc.prctl(_DROP_FROM_BOUND, capability, 0, 0, 0) < 0:
            break
    _check(_libc.capset(b"\x22\x05\x08\x20" + bytes(4), bytes(24)))
    _restrict_files(*orders["landlock"])
    is_reported = _report_calls(*orders["report"])
    _memory, program = _program(orders["filter_of_reported" if is_reported else "filter"])
    _check(_libc.prctl(_SECCOMP, _FILTER, program, 0, 0))


def _mount_layers(orders: dict[str, "Any"]) -> None:
    """Mounts the layers over the working folders, then the masks over the files with keys, and
    hides the folder of the layers. Runs as root of a namespace without other users; afterwards the
    process has its own user again."""
    stage = orders["layers"][0][0].rpartition("/")[0]
    for holder, root, options in orders["layers"]:
        os.chdir(holder)
        _check(_libc.mount(b"kode", os.fsencode(root), b"overlay", _PLAIN, options.encode()))
    for path, mask in orders["masks"]:
        at = os.fsencode(path)
        if not os.path.lexists(path):  # gone, or deleted by an earlier command: nothing to hide
            continue
        if os.path.isdir(path):
            _check(_libc.mount(b"kode", at, b"tmpfs", _READ_ONLY | _PLAIN, b"mode=000"))
        else:
            _check(_libc.mount(os.fsencode(mask or "/dev/null"), at, None, _BIND, None))
            _check(_libc.mount(None, at, None, _BIND | _REMOUNT | _READ_ONLY | _PLAIN, None))
    os.chdir(orders["cwd"])
    _check(_libc.umount2(os.fsencode(stage), _DETACH))
    user, group = orders["ids"]
    if user or group:
        _check(_libc.unshare(_NEW_USER))
        texts = {"setgroups": "deny", "uid_map": f"{user} 0 1", "gid_map": f"{group} 0 1"}
        for name, text in texts.items():
            os.write(os.open(f"/proc/self/{name}", os.O_WRONLY), text.encode())


def _program(steps: bytes) -> "tuple[Any, bytes]":
    """The memory that holds a filter, and the structure for the kernel that points to it."""
    buffer = ctypes.create_string_buffer(steps, len(steps))
    return buffer, _number(len(steps) // 8, 2) + bytes(6) + _number(ctypes.addressof(buffer), 8)


def _report_calls(report_to: int, steps: bytes) -> bool:
    """Has the kernel report the command's calls to a listener outside; returns whether it can. If
    not, nothing is reported, but the limits hold. A call that nobody answers fails."""
    _memory, program = _program(steps)
    number = 317 if os.uname().machine == "x86_64" else 277
    for flags in (_LISTENER | _PATIENT, _LISTENER):
        listener = _libc.syscall(number, 1, flags, program)
        if listener >= 0:
            sender = _socket.socket(fileno=report_to)
            rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, _number(listener, 4))
            sender.sendmsg([b"w"], [rights])
            sender.detach()
            return True
    return False


def _restrict_files(attributes: bytes, rules: list[tuple[str, int, bool]]) -> None:
    """Restricts files by Landlock; does nothing without it. Skips missing paths, and paths that
    have become links, which an earlier command may have made."""
    if not attributes:
        return
    ruleset = _check(_libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0))
    for path, access, is_real in rules:
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            target = os.readlink(f"/proc/self/fd/{descriptor}") if is_real else path
        except OSError:
            continue
        if target == path:
            rule = _number(access, 8) + _number(descriptor, 4)
            _check(_libc.syscall(_ADD_RULE, ruleset, 1, rule, 0))
        os.close(descriptor)  # there may be thousands of paths
    _check(_libc.syscall(_RESTRICT_SELF, ruleset, 0))


def _number(value: int, size: int) -> bytes:
    return value.to_bytes(size, sys.byteorder)


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _watch_over_command() -> None:
    """Forks; the child becomes the command. This process stays outside the limits, adopts whatever
    the command starts, and kills it at the end: without a process namespace, processes can leave
    group, session and environment behind."""
    _check(_libc.prctl(_ADOPTS_ORPHANS, 1, 0, 0, 0))
    command = os.fork()
    if command == 0:
        return
    import _signal as signal  # type: ignore[import-not-found]

    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):  # meant for the command
        signal.signal(number, signal.SIG_IGN)
    os.closerange(3, _MORE_THAN_CAN_BE_OPEN)
    code, ended = 0, 0
    while ended != command:
        ended, status = os.waitpid(-1, 0)
        code = os.waitstatus_to_exitcode(status)
    try:
        while True:
            with open(f"/proc/self/task/{os.getpid()}/children") as file:
                for child in file.read().split():
                    os.kill(int(child), signal.SIGKILL)
            os.waitpid(-1, 0)
    except OSError:  # none is left
        os._exit(code if code >= 0 else 128 - code)


def become(orders: dict[str, "Any"], argv: list[str]) -> None:
    """Becomes the command; exits with 126, having run none of it, if it cannot be limited or
    started."""
    try:
        if orders["alone"]:
            _watch_over_command()
        enter(orders)
        environment = {**os.environ, **orders["environment"]}
        environment = {name: value for name, value in environment.items() if value is not None}
        # bubblewrap passes on open descriptors of folders outside of the sandbox.
        os.closerange(3, _MORE_THAN_CAN_BE_OPEN)
    except OSError as error:
        print(f"kode: the sandbox could not be entered: {error!r}", file=sys.stderr)
        sys.exit(126)
    try:
        os.execve(argv[0], argv, environment)
    except OSError as error:
        print(f"kode: {argv[0]} could not be started: {error.strerror}", file=sys.stderr)
    sys.exit(126)
