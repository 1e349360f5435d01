"""Imports that a crash has cut short: what was to be imported is on disk before the first file is,
and until after the last. The lock of that file says that its import still runs.
"""

import contextlib
import fcntl
import json
import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path

from kode import durable, paths
from kode.errors import SessionError, StorageError
from kode.session.foreign.take import Taken, imported, take


@contextlib.contextmanager
def begun(home: Path, files: Sequence[Path]) -> Iterator[None]:
    """Notes what is imported meanwhile. Whoever ends it in good order knows what was imported.
    Raises: StorageError."""
    path = paths.unfinished_import(home, secrets.token_hex(4))
    durable.make_folder(path.parent)
    with durable.storage_errors(path, "write"):
        marker = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with durable.storage_errors(path, "write"):
            fcntl.flock(marker, fcntl.LOCK_EX)
            with open(marker, "w", closefd=False) as file:
                json.dump([str(one.absolute()) for one in files], file)
            os.fsync(marker)
            durable.sync_folder(path.parent)
        yield
    finally:
        durable.remove(path)
        os.close(marker)


def cut_short(home: Path) -> list[Path]:
    """The markers of imports, running or cut short."""
    return sorted(paths.unfinished_import(home, "").parent.glob("*.import"))


def finish(home: Path, marker: Path) -> Iterator[Taken | int]:
    """Completes an import: first the number of its files, then what becomes of each. Nothing for
    one that still runs. Raises: StorageError; then it is not tried again."""
    with contextlib.suppress(OSError), marker.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        files = _files_in(file.read())
        known = imported(home)
        try:
            yield len(files)
            for path in files:
                with contextlib.suppress(SessionError):
                    yield take(home, path, known)
        except StorageError:
            durable.remove(marker)
            raise
        durable.remove(marker)


def _files_in(data: bytes) -> list[Path]:
    """Those of a marker; none where it was not written whole, because then none was imported."""
    try:
        return list(map(Path, json.loads(data)))
    except (ValueError, TypeError):
        return []
