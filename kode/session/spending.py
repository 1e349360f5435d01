"""What requests took and cost: of one turn, of a session, of all sessions of a day; by model.

Read from the entries of sessions; nothing is kept beside them. What a request costs is worked out
when its answer is recorded.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from kode import durable, paths
from kode.messages import Usage
from kode.session.entries import AnyEntry, MessageEntry, UsageEntry, parse_line
from kode.session.index import files, folder_of
from kode.session.messages import is_turn


@dataclass(frozen=True, kw_only=True)
class Spent:
    requests: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float = 0.0
    """Of the requests whose price is known."""
    unpriced: int = 0
    """Requests whose price is not known."""

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(
            requests=self.requests + other.requests,
            usage=self.usage + other.usage,
            cost_usd=self.cost_usd + other.cost_usd,
            unpriced=self.unpriced + other.unpriced,
        )


Spending = Mapping[str, Spent]
"""Model → what its requests took."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One request that was answered."""

    entry: str
    """The id of the session's entry about it."""
    at: str
    purpose: str
    """`turn`, `memory`, `compaction` or `subagent`, which may be several requests."""
    model: str
    usage: Usage
    """As the server counted it."""
    cost_usd: float | None
    """None where the model's price was not known."""

    @property
    def spent(self) -> Spent:
        cost = self.cost_usd
        return Spent(requests=1, usage=self.usage, cost_usd=cost or 0.0, unpriced=int(cost is None))


def step_of(entry: AnyEntry) -> Step | None:
    """The request whose answer, or usage, an entry is; None for any other entry."""
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


def total(spending: Spending) -> Spent:
    """Of all models together."""
    whole = Spent()
    for spent in spending.values():
        whole += spent
    return whole


def spending_of(entries: Iterable[AnyEntry]) -> dict[str, Spent]:
    """What these entries' requests took, the dearest model first."""
    found: dict[str, Spent] = {}
    for entry in entries:
        if step := step_of(entry):
            found[step.model] = found.get(step.model, Spent()) + step.spent
    by_cost = sorted(found, key=lambda model: (-found[model].cost_usd, -found[model].requests))
    return {model: found[model] for model in by_cost}


def last_turn(entries: list[AnyEntry]) -> list[AnyEntry]:
    """The entries of the turn that runs or ran last, and what followed it."""
    for index in range(len(entries) - 1, -1, -1):
        if is_turn(entries[index]):
            return entries[index:]
    return []


def spending_since(home: Path, since: datetime) -> dict[str, Spent]:
    """What all kept sessions took since a moment.

    Raises: StorageError when the sessions' folder may not be read.
    """
    return spending_of(entry for _, entry in requests_since(home, since))


def requests_since(home: Path, since: datetime) -> Iterator[tuple[str, MessageEntry | UsageEntry]]:
    """(session, entry) of each request of all kept sessions since a moment. Only files that changed
    since are opened, and each is read from its end, no further than that moment. What a fork copied
    counts once.

    Raises: StorageError when the sessions' folder may not be read.
    """
    seen: set[tuple[str, str]] = set()
    # The oldest id first: what a fork copied belongs to the session it was copied from.
    for changed, session_id in sorted(files(home), key=lambda file: file[1]):
        if changed < since.timestamp():
            continue
        for entry in _entries_since(paths.session_file(home, session_id), since):
            if (entry.id, entry.at) not in seen:
                seen.add((entry.id, entry.at))
                yield session_id, entry


def requests_by_folder(
    home: Path, since: datetime
) -> Iterator[tuple[str, str, MessageEntry | UsageEntry]]:
    """(session, the folder it works in, entry), else as `requests_since`; "" for a folder that the
    file does not say."""
    folders: dict[str, str] = {}
    for session_id, entry in requests_since(home, since):
        if session_id not in folders:
            folders[session_id] = folder_of(paths.session_file(home, session_id))
        yield session_id, folders[session_id], entry


def _entries_since(path: Path, since: datetime) -> Iterator[MessageEntry | UsageEntry]:
    """The entries about requests, the newest first; none of a file that cannot be read."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        for line in durable.lines_backwards(file):
            if b'"usage":{' not in line or line.startswith(b'{"type":"turn"'):
                continue
            entry = _entry(line)
            if entry is None:
                continue
            if not _is_since(entry.at, since):
                return
            yield entry


def _entry(line: bytes) -> MessageEntry | UsageEntry | None:
    """None for a line that cannot be read, or is of another kind."""
    try:
        entry = parse_line(line)
    except ValueError:
        return None
    return entry if isinstance(entry, MessageEntry | UsageEntry) else None


def _is_since(at: str, since: datetime) -> bool:
    try:
        return datetime.fromisoformat(at) >= since
    except (ValueError, TypeError):
        return False
