"""What one process heard of a session, kept small, for the note of a session that ends unheard.

Not here: how messages become text (`kode.memory.transcript`), what the model is asked about it
(`episodes`).
"""

from collections import deque

from kode import credentials
from kode.contracts import Turn
from kode.memory.ask import keep_ends
from kode.memory.transcript import MAX_CHARS, transcript


class Recording:
    """What this process heard of the session, kept small: a beginning and an end."""

    def __init__(self) -> None:
        self.turns = 0
        """The number of the last turn heard."""
        self.heard = 0
        """Turns heard since the last `taken`."""
        self.tainted = False
        self._head: list[str] = []
        self._tail: deque[str] = deque()
        self._head_chars = 0
        self._tail_chars = 0

    def add(self, turn: Turn) -> None:
        self.turns = max(self.turns, turn.number)
        self.heard += 1
        self.tainted = self.tainted or turn.tainted
        messages = turn.messages
        text = transcript(messages) if messages else f"User: {turn.text}\nAssistant: {turn.answer}"
        text = keep_ends(credentials.redact(text), MAX_CHARS // 3)
        if self._head_chars + len(text) <= MAX_CHARS // 3:
            self._head.append(text)
            self._head_chars += len(text)
            return
        self._tail.append(text)
        self._tail_chars += len(text)
        while len(self._tail) > 1 and self._tail_chars > MAX_CHARS * 2 // 3:
            self._tail_chars -= len(self._tail.popleft())

    def taken(self) -> None:
        """What was heard so far has been kept."""
        self.heard = 0

    def text(self) -> str:
        return "\n".join((*self._head, *self._tail))
