"""What requests used and cost: of a turn, a session, or all sessions of a day; by model.

Read from sessions' entries; nothing else is stored. A request's cost is computed when its answer is
recorded.
"""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from kode import durable, paths
from kode.messages import Usage
from kode.session.entries import AnyEntry, MessageEntry, UsageEntry, is_turn, parse_line
from kode.session.index import files, folder_of


@dataclass(frozen=True, kw_only=True)
class Spent:
    requests: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float = 0.0
    """Total of the requests with a known price."""
    unpriced: int = 0
    """Number of requests with an unknown price."""

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(
            requests=self.requests + other.requests,
            usage=self.usage + other.usage,
            cost_usd=self.cost_usd + other.cost_usd,
            unpriced=self.unpriced + other.unpriced,
        )


class Spending(dict[str, Spent]):
    """Model → usage and cost of its requests."""

    @classmethod
    def of(cls, entries: Iterable[AnyEntry]) -> "Spending":
        """That of these entries' requests, the most expensive model first."""
        found: dict[str, Spent] = {}
        for entry in entries:
            if step := step_of(entry):
                found[step.model] = found.get(step.model, Spent()) + step.spent
        by_cost = sorted(found, key=lambda model: (-found[model].cost_usd, -found[model].requests))
        return cls({model: found[model] for model in by_cost})

    @staticmethod
    def requests_by_folder(
        home: Path, since: datetime
    ) -> "Iterator[tuple[str, str, MessageEntry | UsageEntry]]":
        """(session, working folder, entry), otherwise as `requests_since`; "" if the file does not
        name the folder."""
        folders: dict[str, str] = {}
        for session_id, entry in requests_since(home, since):
            if session_id not in folders:
                folders[session_id] = folder_of(paths.session_file(home, session_id))
            yield session_id, folders[session_id], entry

    @property
    def total(self) -> Spent:
        """That of all models."""
        return sum(self.values(), Spent())


@dataclass(frozen=True, kw_only=True)
class Step:
    """One answered request."""

    entry: str
    """The id of its entry in the session."""
    at: str
    purpose: str
    """`turn`, `memory`, `compaction` or `subagent` (possibly several requests)."""
    model: str
    usage: Usage
    """As counted by the server."""
    cost_usd: float | None
    """None if the model's price was unknown."""

    @property
    def spent(self) -> Spent:
        cost = self.cost_usd
        return Spent(requests=1, usage=self.usage, cost_usd=cost or 0.0, unpriced=int(cost is None))


def step_of(entry: AnyEntry) -> Step | None:
    """The request whose answer or usage an entry records; None for any other entry."""
    match entry:
        case MessageEntry(role="assistant", usage=Usage() as usage):
            purpose, model = "turn", entry.model or "?"
        case UsageEntry(usage=usage, purpose=purpose, model=model):
            pass
        case _:
            return None
    return Step(
        entry=entry.id,
        at=entry.at,
        purpose=purpose,
        model=model,
        usage=usage,
        cost_usd=entry.cost_usd,
    )


def last_turn(entries: list[AnyEntry]) -> list[AnyEntry]:
    """The entries of the current or last turn, and what followed it."""
    for index in range(len(entries) - 1, -1, -1):
        if is_turn(entries[index]):
            return entries[index:]
    return []


def spending_since(home: Path, since: datetime) -> Spending:
    """Spending of all sessions since a moment.

    Raises: StorageError if the sessions folder cannot be read.
    """
    return Spending.of(entry for _, entry in requests_since(home, since))


def requests_since(home: Path, since: datetime) -> Iterator[tuple[str, MessageEntry | UsageEntry]]:
    """(session, entry) of each request of all sessions since a moment. Opens only files changed
    since, and reads each backwards up to that moment. Entries copied by a fork count once.

    Raises: StorageError if the sessions folder cannot be read.
    """
    seen: set[tuple[str, str]] = set()
    # Oldest id first: a copied entry belongs to the session it was copied from.
    for changed, session_id in sorted(files(home), key=lambda file: file[1]):
        if changed < since.timestamp():
            continue
        for entry in _entries_since(paths.session_file(home, session_id), since):
            if (entry.id, entry.at) not in seen:
                seen.add((entry.id, entry.at))
                yield session_id, entry


def _entries_since(path: Path, since: datetime) -> Iterator[MessageEntry | UsageEntry]:
    """The entries about requests, newest first; none for an unreadable file."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        for line in durable.lines_backwards(file):
            if b'"usage":{' not in line or line.startswith(b'{"type":"turn"'):
                continue
            entry = _entry(line)
            at = None if entry is None else _time_of(entry.at)
            if entry is None or at is None:
                continue
            if at < since:
                return
            yield entry


def _entry(line: bytes) -> MessageEntry | UsageEntry | None:
    """None for an unreadable line, or one of another kind."""
    try:
        entry = parse_line(line)
    except ValueError:
        return None
    return entry if isinstance(entry, MessageEntry | UsageEntry) else None


def _time_of(at: str) -> datetime | None:
    """None for text that names no moment."""
    try:
        found = datetime.fromisoformat(at)
    except ValueError:
        return None
    return None if found.tzinfo is None else found
