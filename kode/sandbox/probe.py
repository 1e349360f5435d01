"""The sandbox's self-test, run inside of it: tries what must fail, prints what did not.

The launcher receives it compiled and runs it instead of a command (`launcher.become`) with

    hidden, fixed   lists of paths that must not be readable, and of those that must not be writable
    kept            folders that must be writable
    network         whether there may be one
    port            of the loopback outside, which must not be reachable without a network; or None
    outer_pid       a process that must not be readable
"""

import json
import os
import socket
import sys
from typing import Any


def run(probe: dict[str, Any]) -> None:
    """Prints the leaks as a JSON list."""
    print(json.dumps(leaks(probe)))


def leaks(probe: dict[str, Any]) -> list[str]:
    """What should be impossible but is not, and the reverse."""
    found = [f"reads {path}" for path in probe["hidden"] if _readable(path)]
    found += [f"writes {path}" for path in probe["fixed"] if _writable(path)]
    found += [f"cannot write {path}" for path in probe["kept"] if not _writable(path)]
    # Seatbelt lets them be made, and forbids to connect them.
    if sys.platform == "linux" and _makes_socket(socket.AF_UNIX):
        found.append("makes unix sockets")
    if not probe["network"] and (_has_network() or (probe["port"] and _connects(probe["port"]))):
        found.append("has a network")
    if _sees(probe["outer_pid"]):
        found.append("sees other processes")
    return found


def _readable(path: str) -> bool:
    try:
        if os.path.isdir(path):
            return bool(os.listdir(path))
        with open(path, "rb"):
            return True
    except OSError:
        return False


def _writable(place: str) -> bool:
    path = f"{place}/.kode-sandbox-test-{os.getpid()}"
    try:
        if os.path.isfile(place):
            os.close(os.open(place, os.O_WRONLY))
            return True
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        os.unlink(path)
    except OSError:
        return False
    return True


def _makes_socket(family: int) -> bool:
    try:
        socket.socket(family).close()
    except OSError:
        return False
    return True


def _has_network() -> bool:
    """Whether there is an internet socket and an interface besides the loopback."""
    if not _makes_socket(socket.AF_INET):
        return False
    if sys.platform != "linux":
        return False
    with open("/proc/net/dev") as file:
        return any(":" in line and line.split(":")[0].strip() != "lo" for line in file)


def _connects(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=2).close()
    except OSError:
        return False
    return True


def _sees(pid: int) -> bool:
    if sys.platform == "darwin":
        return _may_signal(pid) or _reads_arguments(pid)
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return bool(file.read(1))
    except OSError:
        return False


def _may_signal(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def _reads_arguments(pid: int) -> bool:
    """Whether the kernel of macOS tells another process's arguments and variables."""
    import ctypes

    kern, arguments = 1, 49
    name, size = (ctypes.c_int * 3)(kern, arguments, pid), ctypes.c_size_t(1 << 20)
    buffer = ctypes.create_string_buffer(size.value)
    failed = ctypes.CDLL(None).sysctl(name, 3, buffer, ctypes.byref(size), None, 0)
    return not failed and size.value > 0
