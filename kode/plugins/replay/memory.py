"""The memory of a replay: what memory returned in the recorded session. It stores nothing."""

from collections.abc import Sequence

from kode.plugin import (
    AnyEntry,
    CompactionEntry,
    Drop,
    DropReason,
    Injection,
    InjectReason,
    Message,
    MessageEntry,
    NullMemory,
    Text,
    Turn,
    UsageEntry,
)
from kode.plugins.replay.played import Played


class RecordedMemory(NullMemory):
    """Returns memory's recorded texts; stores nothing."""

    def __init__(self, played: Played) -> None:
        self._played = played
        self._section = ""

    @property
    def name(self) -> str:
        """See `contracts.MemorySystem`."""
        return "recorded"

    @property
    def message_window(self) -> int | None:
        """0 if memory had the conversation compacted before the next reply."""
        return 0 if self._compaction() is not None else None

    async def inject(self, reason: InjectReason) -> Injection:
        """See `contracts.MemorySystem`."""
        self._section = self._played.section_ahead("memory", self._section)
        return Injection(system=self._section, first_user=self._first_user())

    async def recall(self, turn: Turn) -> str:
        """See `contracts.MemorySystem`."""
        if self._played.turn is None:
            return ""
        prompt = self._played.recording.entries[self._played.turn.begins]
        assert isinstance(prompt, MessageEntry)
        parts = (p for p in prompt.parts if isinstance(p, Text) and p.source == "memory")
        return next((part.text for part in parts), "")

    async def before_drop(self, messages: Sequence[Message], reason: DropReason) -> Drop:
        """See `contracts.MemorySystem`."""
        note = self._compaction()
        if note is None:
            return Drop()
        ids = [message.id if isinstance(message, MessageEntry) else "" for message in messages]
        keep = len(ids) - ids.index(note.kept_from) if note.kept_from in ids else 0
        return Drop(keep=keep, recap=note.summary)

    def _first_user(self) -> str:
        """Memory's text after the coming compaction."""
        if self._played.turn is None:
            return ""
        for entry in self._played.upcoming():
            if text := memory_alone(entry):
                return text
        return ""

    def _compaction(self) -> CompactionEntry | None:
        """The next compaction, if memory wrote its note without asking a model."""
        if self._played.turn is None:
            return None
        for entry in self._played.upcoming():
            if isinstance(entry, UsageEntry) and entry.purpose == "compaction":
                return None
            if isinstance(entry, CompactionEntry):
                return entry
        return None


def memory_alone(entry: AnyEntry) -> str:
    """The text of a message written only by memory; "" for every other entry."""
    if not isinstance(entry, MessageEntry) or entry.role != "user":
        return ""
    texts = [
        part.text for part in entry.parts if isinstance(part, Text) and part.source == "memory"
    ]
    return texts[0] if len(texts) == len(entry.parts) == 1 else ""
