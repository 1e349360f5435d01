"""What the sandbox's self-tests try inside of it: each act is one that a command should or should
not be able to do. An interpreter in the sandbox is given this module compiled.
"""

import json
import os
import socket
from typing import Any


def run(acts: "list[tuple[Any, ...]]") -> None:
    """Does acts, each the name of a function and its arguments, and prints as a JSON list which
    succeeded."""
    print(json.dumps([succeeds(*act) for act in acts]), flush=True)


def succeeds(name: str, *arguments: object) -> bool:
    try:
        return globals()[name](*arguments) is not False
    except OSError:
        return False


def read(path: str) -> bool:
    """Whether a folder has names, or a file can be opened."""
    if os.path.isdir(path):
        return bool(os.listdir(path))
    os.close(os.open(path, os.O_RDONLY))
    return True


def write(path: str) -> None:
    """Opens a file for writing, or makes one in a folder and removes it."""
    if os.path.isdir(path):
        path = f"{path}/.kode-sandbox-test-{os.getpid()}"
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        os.unlink(path)
    else:
        os.close(os.open(path, os.O_WRONLY))


def make_socket(family: int) -> None:
    socket.socket(family).close()


def connect(address: "tuple[str, int]") -> None:
    socket.create_connection(address, 2).close()


def find_network() -> bool:
    """Whether there is an internet socket and an interface besides the loopback."""
    make_socket(socket.AF_INET)
    with open("/proc/net/dev") as file:
        return any(":" in line and line.split(":")[0].strip() != "lo" for line in file)


def reach_process(pid: int) -> None:
    os.kill(pid, 0)
