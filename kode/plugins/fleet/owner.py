"""Tells whether this home made a queue. A queue sets kode's mode and flags, so only a queue of this
home is obeyed; a queue from elsewhere is just a list of tasks, and the person chooses the mode."""

import contextlib
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kode.plugin import PermissionMode, StorageError, durable, paths
from kode.plugins.fleet.folders import fleet_folder
from kode.plugins.fleet.records import Fleet, Task

KEY_BYTES = 32  # as long as the SHA-256 it is for
SIGNATURE = "signature"
"""In the folder of a queue: the HMAC-SHA256 of its tasks under the key of the home that made it."""


def sign(home: Path, folder: Path, tasks: bytes) -> None:
    """Signs the tasks of a new queue. Raises: StorageError."""
    durable.replace(folder / SIGNATURE, _digest(home, tasks).encode())


def is_own(home: Path, folder: Path, tasks: bytes) -> bool:
    """Whether this home made a queue with exactly these tasks. A queue inside the home, where only
    the owner can write, needs no signature. Raises: StorageError."""
    if Path(paths.real_path(folder)).parent == Path(paths.real_path(fleet_folder(home))):
        return True
    try:
        signature = (folder / SIGNATURE).read_text("ascii", "replace")
    except OSError:
        return False
    return hmac.compare_digest(signature.encode(), _digest(home, tasks).encode())


def adopt(
    fleet: Fleet, tasks: Sequence[Task], *, id: str, trees: Path, mode: PermissionMode
) -> tuple[Fleet, list[Task]]:
    """Another home's fleet and tasks as a new fleet `id` of this home: in the given mode, without
    the original's flags, with worktrees below `trees`."""
    own = replace(fleet, id=id, trees=str(trees / id), flags=())
    return own, [replace(task, mode=mode) for task in tasks]


def _digest(home: Path, tasks: bytes) -> str:
    return hmac.new(_key(home), tasks, hashlib.sha256).hexdigest()


def _key(home: Path) -> bytes:
    """The secret of a home, created on first use. Raises: StorageError."""
    path = fleet_folder(home) / "key"
    with durable.storage_errors(path, "read"), contextlib.suppress(FileNotFoundError):
        return _sound(path, path.read_bytes())
    durable.make_folder(path.parent)
    with durable.locked(path.parent):
        if not path.exists():
            key = secrets.token_bytes(KEY_BYTES)
            durable.replace(path, key + hashlib.sha256(key).digest())
    return _sound(path, path.read_bytes())


def _sound(path: Path, data: bytes) -> bytes:
    """Checks the content of a key file, which is the key and its digest, and returns the key.
    Raises: StorageError for a damaged file, which is renamed."""
    key, digest = data[:KEY_BYTES], data[KEY_BYTES:]
    if len(key) == KEY_BYTES and digest == hashlib.sha256(key).digest():
        return key
    aside = durable.set_aside(path)
    raise StorageError(
        f"{path} was damaged and is now {aside.name}; the next fleet makes a new key. Queues "
        "outside the home that were signed with the old key count as another's: `kode fleet "
        "resume` asks for their mode."
    )
