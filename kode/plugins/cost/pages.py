"""What `kode view` shows of costs: all sessions by day and project, and why a session lost a
cache."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from kode.plugin import (
    AnyEntry,
    Page,
    Place,
    Spent,
    given_prices,
    models,
    requests_by_folder,
    spending_of,
    total_spent,
)
from kode.plugins.cost.figures import session_cost

PERIODS = (7, 30, 90, 365)
"""Periods, in days."""

Rows = tuple[tuple[str, Spent], ...]
"""Name of a day, project or model → its spending."""


@dataclass(frozen=True, kw_only=True)
class Overview:
    days: Rows
    """Days with requests, newest first."""
    projects: Rows
    """The most expensive first, like the models."""
    models: Rows
    total: Spent


def costs(place: Place, query: Mapping[str, str]) -> tuple[str, Mapping[str, object]]:
    """The page of all sessions. Raises: StorageError."""
    days = next((one for one in PERIODS if str(one) == query.get("days")), 30)
    found = overview(place.home, days, datetime.now().astimezone())
    return "costs.html", {"costs": found, "days": days, "periods": PERIODS}


def lost(place: Place, query: Mapping[str, str]) -> tuple[str, Mapping[str, object]]:
    """Where a server had to read a beginning of this session again. Raises: SessionError,
    StorageError."""
    price = models.pricing(given_prices(place.config))
    return "lost.html", {"breaks": session_cost(place.home, query["id"], price).breaks}


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
    per_project = [
        (name, total_spent(spending_of(entries))) for name, entries in by_project.items()
    ]
    models = spending_of(entry for entries in by_day.values() for entry in entries)
    return Overview(
        days=tuple(
            (day, spent)
            for day in sorted(by_day, reverse=True)
            if (spent := total_spent(spending_of(by_day[day]))).requests
        ),
        projects=tuple(sorted(per_project, key=lambda row: (-row[1].cost_usd, row[0]))),
        models=tuple(models.items()),
        total=total_spent(models),
    )


PAGES = (
    Page(path="/costs", title="Costs", show=costs),
    Page(path="/sessions/{id}/lost", show=lost),
)
