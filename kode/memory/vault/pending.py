"""Tasks that are still to be reflected on: what was said in them, on disk until that is done.

Written before the model is asked, so that a crash, the end of the process or a fault of the
provider leaves them for the next start. Not here: the reflection (`reflect`).
"""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from kode import credentials, durable
from kode.memory.stored import may_name_a_file, read_row
from kode.messages import Message


@dataclass(frozen=True, kw_only=True)
class Pending:
    session: str
    turn: int
    at: str
    """When the task ended, local ISO time."""
    text: str
    """What was said, bounded, without credentials."""
    tainted: bool = False
    """Whether outside text was taken in: then a person approves it first."""
    attempts: int = 0
    """Counted before the model is asked: a killed process has asked as well."""
    given_up: bool = False
    """Whether a person was told that it is not tried any more."""
    messages: tuple[Message, ...] = ()
    """What was said in its reflection so far."""

    @property
    def id(self) -> str:
        return f"{self.session}.{self.turn:04d}"


class PendingFolder:
    """`vault/pending/`, one JSON file a task. Who works on one holds the folder's lock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, pending: Pending) -> None:
        """Raises: StorageError."""
        durable.make_folder(self.folder)
        row = {**asdict(pending), "text": credentials.redact(pending.text)}
        data = json.dumps(row, ensure_ascii=False).encode(errors="replace")
        durable.replace(self._path(pending.id), data)

    def read(self, id: str) -> Pending | None:
        """None when there is none, or it cannot be read."""
        try:
            pending = read_row(Pending, self._path(id).read_bytes())
        except OSError:
            return None
        return pending if pending is not None and pending.id == id else None

    def set_aside_damaged(self) -> list[Path]:
        """Moves tasks that cannot be read out of the way, and says where. Raises: StorageError."""
        paths = [self._path(id) for id in self.ids() if self.read(id) is None]
        return [durable.set_aside(path) for path in paths if path.exists()]

    def remove(self, pending: Pending) -> None:
        """Raises: StorageError."""
        durable.remove(self._path(pending.id))

    def ids(self) -> list[str]:
        """Of all that wait, oldest session first."""
        found: list[str] = []
        with suppress(OSError):
            found = sorted(path.stem for path in self.folder.glob("*.json"))
        return [id for id in found if may_name_a_file(id)]

    def _path(self, id: str) -> Path:
        return self.folder / f"{id}.json"
