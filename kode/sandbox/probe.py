"""What the sandbox's self-tests try inside of it: each act is one that a command should or should
not be able to do. An interpreter in the sandbox is given this module compiled.
"""

import json
import os
import socket
import sys
from typing import Any


def run(acts: "list[tuple[Any, ...]]", detached: bool = False) -> None:
    """Does acts, each the name of a function and its arguments, and prints as a JSON list which
    succeeded; `detached`: in a process that left its parents and their session."""
    for _ in range(2 if detached else 0):
        if child := os.fork():
            os.waitpid(child, 0)
            return
        os.setsid()
    print(json.dumps([succeeds(*act) for act in acts]), flush=True)


def succeeds(name: str, *arguments: object) -> bool:
    try:
        return bool(globals()[name](*arguments))
    except OSError:
        return False


def read(path: str, text: str = "") -> bool:
    """Whether a folder has names, or a file can be opened and has this text."""
    if os.path.isdir(path):
        return bool(os.listdir(path))
    with open(path, errors="replace") as file:
        return text in file.read(1 << 20)


def write(place: str) -> bool:
    """Opens a file for writing, or makes one in a folder and removes it."""
    path = f"{place}/.kode-sandbox-test-{os.getpid()}"
    if os.path.isfile(place):
        os.close(os.open(place, os.O_WRONLY))
        return True
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    os.unlink(path)
    return True


def append(path: str) -> bool:
    with open(path, "a") as file:
        return bool(file.write("x"))


def delete(path: str) -> bool:
    os.unlink(path)
    return True


def start(program: str) -> bool:
    return os.spawnl(os.P_WAIT, program, program) == 0


def make_socket(family: int) -> bool:
    socket.socket(family).close()
    return True


def send(family: int, kind: int, address: "str | tuple[str, int]") -> bool:
    with socket.socket(family, kind) as client:
        client.settimeout(2)
        client.connect(address)
        return bool(client.send(b"x"))


def find_network() -> bool:
    """Whether there is an internet socket and an interface besides the loopback."""
    make_socket(socket.AF_INET)
    with open("/proc/net/dev") as file:
        return any(":" in line and line.split(":")[0].strip() != "lo" for line in file)


def end(pid: int, number: int) -> bool:
    """Sends another process a signal; 0 only asks whether that is possible."""
    os.kill(pid, number)
    return True


def look_into(pid: int) -> bool:
    """Whether another process's variables can be read."""
    if sys.platform != "darwin":
        return read(f"/proc/{pid}/environ")
    import ctypes

    kern, arguments = 1, 49
    name, size = (ctypes.c_int * 3)(kern, arguments, pid), ctypes.c_size_t(1 << 20)
    buffer = ctypes.create_string_buffer(size.value)
    failed = ctypes.CDLL(None).sysctl(name, 3, buffer, ctypes.byref(size), None, 0)
    return not failed and size.value > 0
