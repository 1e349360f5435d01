"""Whose a queue is. A queue decides in which mode and with which flags kode runs, so only one that
this home has made is obeyed; another's is a list of tasks, and the person gives the mode."""

import contextlib
import hashlib
import hmac
import os
import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kode import durable, paths
from kode.contracts import PermissionMode
from kode.plugins.fleet.records import Fleet, Task

SIGNATURE = "signature"
"""In the folder of a queue: the HMAC-SHA256 of its tasks under the key of the home that made it."""


def sign(home: Path, folder: Path, tasks: bytes) -> None:
    """Signs the tasks of a new queue. Raises: StorageError."""
    durable.replace(folder / SIGNATURE, _digest(home, tasks).encode())


def is_own(home: Path, folder: Path, tasks: bytes) -> bool:
    """Whether this home made a queue with exactly these tasks. One that lies in the home, where
    only its owner writes, needs no signature: an older kode wrote none. Raises: StorageError."""
    if Path(os.path.realpath(folder)).parent == Path(os.path.realpath(paths.fleet_folder(home))):
        return True
    try:
        said = (folder / SIGNATURE).read_text("ascii", "replace")
    except OSError:
        return False
    return hmac.compare_digest(said.encode(), _digest(home, tasks).encode())


def taken_over(
    fleet: Fleet, tasks: Sequence[Task], *, id: str, trees: Path, mode: PermissionMode
) -> tuple[Fleet, list[Task]]:
    """What another's queue asks for, as a queue of one's own: in the mode that the person gives,
    without its flags, with trees in one's own home."""
    own = replace(fleet, id=id, trees=str(trees / id), flags=())
    return own, [replace(task, mode=mode) for task in tasks]


def _digest(home: Path, tasks: bytes) -> str:
    return hmac.new(_key(home), tasks, hashlib.sha256).hexdigest()


def _key(home: Path) -> bytes:
    """The secret of a home, made when it is first needed. Raises: StorageError."""
    path = paths.fleet_folder(home) / "key"
    with durable.storage_errors(path, "read"), contextlib.suppress(FileNotFoundError):
        return path.read_bytes()
    durable.make_folder(path.parent)
    with durable.locked(path.parent):
        if not path.exists():
            durable.replace(path, secrets.token_bytes(32))
    return path.read_bytes()
