"""Tasks that are still to be reflected on: what was said in them, on disk until that is done.

Not here: the reflection (`reflect`).
"""

from dataclasses import dataclass

from kode.memory.stored import WaitingFolder
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
    """Whether a person has been notified that it is not retried."""
    messages: tuple[Message, ...] = ()
    """What was said in its reflection so far."""

    @property
    def id(self) -> str:
        return f"{self.session}.{self.turn:04d}"


class PendingFolder(WaitingFolder[Pending]):
    """`pending/` of a project's vault. Who works on a task holds the folder's lock."""

    kind = Pending
