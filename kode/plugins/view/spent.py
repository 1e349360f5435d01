"""Spending for the pages: of one session request by request, of all by day and project."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from kode.messages import Usage
from kode.session.entries import AnyEntry, MessageEntry
from kode.session.spending import Spent, requests_by_folder, spending_of, total
from kode.plugins.view.transcript import Turn

Rows = tuple[tuple[str, Spent], ...]
"""Name of a day, project or model → its spending."""


@dataclass(frozen=True, kw_only=True)
class TurnRow:
    """The cost of one turn."""

    turn: Turn
    spent: Spent
    context_tokens: int
    """The size of its last request and reply."""
    total_usd: float
    """Total of the session up to its end."""


@dataclass(frozen=True, kw_only=True)
class SessionSpending:
    rows: tuple[TurnRow, ...]
    models: Rows
    """The most expensive first."""
    total: Spent


@dataclass(frozen=True, kw_only=True)
class Overview:
    days: Rows
    """Days with requests, newest first."""
    projects: Rows
    """The most expensive first, like the models."""
    models: Rows
    total: Spent


def session_spending(turns: Sequence[Turn]) -> SessionSpending:
    """Tokens and cost of a session over time, including rewound turns, which were paid for too."""
    rows: list[TurnRow] = []
    so_far = 0.0
    for turn in turns:
        size = 0
        for entry in turn.entries:
            so_far += total(spending_of([entry])).cost_usd
            if isinstance(entry, MessageEntry) and isinstance(entry.usage, Usage):
                size = entry.usage.input_tokens + entry.usage.output_tokens
        spent = total(spending_of(turn.entries))
        if spent.requests:
            rows.append(TurnRow(turn=turn, spent=spent, context_tokens=size, total_usd=so_far))
    models = spending_of(entry for turn in turns for entry in turn.entries)
    return SessionSpending(rows=tuple(rows), models=tuple(models.items()), total=total(models))


def overview(home: Path, days: int, now: datetime) -> Overview:
    """Spending of all sessions in the last `days` days, including today, in the time zone of `now`.

    Raises: StorageError if the sessions folder cannot be read.
    """
    first = (now - timedelta(days=days - 1)).replace(hour=0, minute=0, second=0, microsecond=0)
    by_day: dict[str, list[AnyEntry]] = {}
    by_project: dict[str, list[AnyEntry]] = {}
    for _, folder, entry in requests_by_folder(home, first):
        day = f"{datetime.fromisoformat(entry.at).astimezone(now.tzinfo):%Y-%m-%d}"
        by_day.setdefault(day, []).append(entry)
        by_project.setdefault(folder or "unknown", []).append(entry)
    per_project = [(name, total(spending_of(entries))) for name, entries in by_project.items()]
    models = spending_of(entry for entries in by_day.values() for entry in entries)
    return Overview(
        days=tuple(
            (day, spent)
            for day in sorted(by_day, reverse=True)
            if (spent := total(spending_of(by_day[day]))).requests
        ),
        projects=tuple(sorted(per_project, key=lambda row: (-row[1].cost_usd, row[0]))),
        models=tuple(models.items()),
        total=total(models),
    )
