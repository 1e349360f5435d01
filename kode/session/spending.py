"""What requests used and cost: of a turn, a session, or all sessions of a day; by model.

Read from sessions' entries; nothing else is stored. A request's cost is computed when its answer is
recorded.
"""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
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
    """As counted by the server."""
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


@dataclass(frozen=True, kw_only=True)
class Step(Spent):
    """One answered request; several, perhaps, of a subagent."""

    entry: str
    """The id of its entry in the session."""
    at: str
    purpose: str
    """`turn`, `memory`, `compaction` or `subagent`."""
    model: str


def step_of(entry: AnyEntry) -> Step | None:
    """The request whose answer or usage an entry records; None for any other entry."""
    if not isinstance(entry, MessageEntry | UsageEntry) or entry.usage is None:
        return None
    purpose = "turn" if isinstance(entry, MessageEntry) else entry.purpose
    return Step(
        entry=entry.id,
        at=entry.at,
        purpose=purpose,
        model=entry.model or ("?" if purpose == "turn" else ""),
        requests=1,
        usage=entry.usage,
        cost_usd=entry.cost_usd or 0.0,
        unpriced=int(entry.cost_usd is None),
    )


class Spending(dict[str, Spent]):
    """Model → usage and cost of its requests."""

    @classmethod
    def of(cls, entries: Iterable[AnyEntry]) -> "Spending":
        """That of these entries' requests, the most expensive model first."""
        sums: dict[str, Spent] = {}
        for step in filter(None, map(step_of, entries)):
            sums[step.model] = sums.get(step.model, Spent()) + step
        by_cost = sorted(sums, key=lambda model: (-sums[model].cost_usd, -sums[model].requests))
        return cls({model: sums[model] for model in by_cost})

    @staticmethod
    def requests_by_folder(
        home: Path, since: datetime
    ) -> "Iterator[tuple[str, str, MessageEntry | UsageEntry]]":
        """(session, working folder, entry) of each request of all sessions since a moment; "" if
        the file does not name the folder. Opens only files changed since, and reads each backwards
        up to that moment. Entries copied by a fork count once.

        Raises: StorageError if the sessions folder cannot be read.
        """
        seen: set[tuple[str, str]] = set()
        # Oldest id first: a copied entry belongs to the session it was copied from.
        for changed, session_id in sorted(files(home), key=lambda file: file[1]):
            path, folder = paths.session_file(home, session_id), None
            for entry in _entries_since(path, since) if changed >= since.timestamp() else ():
                if (entry.id, entry.at) not in seen:
                    seen.add((entry.id, entry.at))
                    folder = folder_of(path) if folder is None else folder
                    yield session_id, folder, entry

    @property
    def total(self) -> Spent:
        """That of all models."""
        return sum(self.values(), Spent())


def last_turn(entries: Sequence[AnyEntry]) -> Sequence[AnyEntry]:
    """The entries of the current or last turn, and what followed it."""
    begins = (index for index in reversed(range(len(entries))) if is_turn(entries[index]))
    return entries[next(begins, len(entries)) :]


def spending_since(home: Path, since: datetime) -> Spending:
    """Spending of all sessions since a moment. Raises: StorageError if the sessions folder cannot
    be read."""
    return Spending.of(entry for *_, entry in Spending.requests_by_folder(home, since))


def _entries_since(path: Path, since: datetime) -> Iterator[MessageEntry | UsageEntry]:
    """The entries about requests, newest first; none for an unreadable file."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        for line in durable.pieces_backwards(file):
            if b'"usage":{' not in line or line.startswith(b'{"type":"turn"'):
                continue
            try:
                entry = parse_line(line)
                is_earlier = datetime.fromisoformat(getattr(entry, "at", "")) < since
            except (ValueError, TypeError):  # damaged, or a time that names no moment
                continue
            if is_earlier:
                return
            if isinstance(entry, MessageEntry | UsageEntry):
                yield entry
