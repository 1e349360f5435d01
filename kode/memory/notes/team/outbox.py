"""What was written in a copy of a team's notes and is not sent yet, in the copy's own database: a
change is queued in the transaction that makes it.
"""

import json
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from kode.errors import MemoryRefused
from kode.memory.history import Change
from kode.memory.notes.database import Database
from kode.memory.notes.note import Note
from kode.memory.notes.team.rebase import shared
from kode.memory.stored import read_row

PERSON = "team_person"
"""The role that the server knew when it was last reached."""


@dataclass(frozen=True)
class Queued:
    number: int
    push: str
    """A UUID: a change that is sent twice, because kode ended in between, counts once."""
    change: Change
    fault: str
    """Why the server refused it; it is offered again."""


class Outbox:
    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, change: Change, before: Sequence[Note], after: Sequence[Note]) -> None:
        """Inside a transaction: queues a change, if any of it is the team's. One that held a
        credential stays here: the history does not have it whole."""
        if change.redacted or not shared(before, after).ids:
            return
        line = json.dumps(asdict(change), ensure_ascii=False)
        values = (str(uuid.uuid4()), line)
        self._database.rows("INSERT INTO outbox (push, change) VALUES (?, ?)", values)

    def queued(self) -> list[Queued]:
        """All that waits, oldest first. A row that was spoiled is passed over."""
        rows = self._database.rows("SELECT number, push, change, fault FROM outbox ORDER BY number")
        read = ((*row[:2], read_row(Change, row[2].encode()), row[3]) for row in rows)
        return [Queued(n, push, change, fault) for n, push, change, fault in read if change]

    def remove(self, number: int) -> None:
        """Inside a transaction: it has arrived."""
        self._database.rows("DELETE FROM outbox WHERE number = ?", (number,))

    def refuse(self, number: int, why: str) -> None:
        """Inside a transaction: it was refused."""
        self._database.rows("UPDATE outbox SET fault = ? WHERE number = ?", (why, number))

    def __len__(self) -> int:
        return int(self._database.value("SELECT count(*) FROM outbox") or 0)

    def check_approval(self, note: Note) -> None:
        """What came from outside in a session of one person is approved by another. The server
        holds to that too. Raises: MemoryRefused."""
        person = self._database.meta(PERSON)
        if note.person in ("", person):
            raise MemoryRefused(
                f"Note {note.id} comes from outside, through your session: in a team "
                "somebody else approves it. You can drop it (`kode memory review`). Nothing "
                "was changed."
            )
