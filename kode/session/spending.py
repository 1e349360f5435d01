"""What requests used and cost: of a turn, a session, or all sessions of a day; by model.

Read from sessions' entries: a request's cost is computed when its answer is recorded."""

import contextlib
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

from kode import durable, paths
from kode.messages import Usage
from kode.session.entries import Entry, MessageEntry, UsageEntry, parse_line
from kode.session.index import files, summarize_session
from kode.values import Amounts, field

RequestEnd = MessageEntry | UsageEntry
"""An entry with the usage of one answered request, or of several requests of a subagent."""


class Spent(Amounts):
    requests: int = 0
    usage: Usage = field(default_factory=Usage)
    """As counted by the server."""
    cost_usd: float = 0.0
    """Total of the requests with a known price."""
    unpriced: int = 0
    """Number of requests with an unknown price."""

    def with_request(self, entry: RequestEnd) -> "Spent":
        """This and a request, or several of a subagent."""
        return Spent(
            requests=self.requests + 1,
            usage=self.usage + (entry.usage or Usage()),
            cost_usd=self.cost_usd + (entry.cost_usd or 0.0),
            unpriced=self.unpriced + (entry.cost_usd is None),
        )


def find_requests(entries: Iterable[Entry]) -> Iterator[RequestEnd]:
    """The ends of requests among these entries."""
    for entry in entries:
        if isinstance(entry, RequestEnd) and entry.usage is not None:
            yield entry


class Spending(dict[str, Spent]):
    """Model → usage and cost of its requests."""

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> "Spending":
        """Adds up these entries' requests by model, the most expensive model first."""
        sums: dict[str, Spent] = {}
        for entry in find_requests(entries):
            sums[entry.model] = sums.get(entry.model, Spent()).with_request(entry)
        by_cost = sorted(sums.items(), key=lambda item: (-item[1].cost_usd, -item[1].requests))
        return cls({model or "?": spent for model, spent in by_cost})

    @staticmethod
    def requests_by_folder(home: Path, since: datetime) -> Iterator[tuple[str, str, RequestEnd]]:
        """(session, working folder, end) of each request of all sessions since a moment; "" if the
        file does not name the folder. Opens only files changed since, and reads each backwards up
        to that moment. Entries copied by a fork count once. Raises: StorageError if the folder of
        sessions cannot be read."""
        seen: set[tuple[str, str]] = set()
        # Oldest id first: a copied entry belongs to the session it was copied from.
        for changed, session_id in sorted(files(home), key=lambda file: file[1]):
            if changed >= since.timestamp():
                path = paths.session_file(home, session_id)
                summary = summarize_session(path)
                for entry in _requests_since(path, since):
                    if (entry.id, entry.at) not in seen:
                        seen.add((entry.id, entry.at))
                        yield session_id, summary.cwd if summary else "", entry

    @property
    def total(self) -> Spent:
        """Usage and cost of all models together."""
        return sum(self.values(), Spent())


def _requests_since(path: Path, since: datetime) -> Iterator[RequestEnd]:
    """Yields a file's requests since a moment, newest first; none if it is unreadable."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        for line in durable.read_backwards(file):
            if b'"usage":{' not in line or line.startswith(b'{"type":"turn"'):
                continue
            with contextlib.suppress(ValueError, TypeError):  # damaged, or a time without a zone
                entry = parse_line(line)
                if isinstance(entry, RequestEnd):
                    if datetime.fromisoformat(entry.at) < since:
                        return
                    yield entry
