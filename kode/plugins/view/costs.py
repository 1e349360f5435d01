"""The page of costs: all sessions of a period, by project, model and day."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from kode.plugin import AnyEntry, Page, Place, Spending

PERIODS = (7, 30, 90, 365)
"""Periods, in days."""


def costs(place: Place, query: Mapping[str, str]) -> tuple[str, Mapping[str, object]]:
    """Days with requests come newest first, projects and models by cost. Raises: StorageError."""
    days = next((period for period in PERIODS if str(period) == query.get("days")), 30)
    now = datetime.now().astimezone()
    first = (now - timedelta(days=days - 1)).replace(hour=0, minute=0, second=0, microsecond=0)
    by_day: dict[str, list[AnyEntry]] = {}
    by_project: dict[str, list[AnyEntry]] = {}
    for _, folder, entry in Spending.requests_by_folder(place.home, first):
        day = f"{datetime.fromisoformat(entry.at).astimezone():%Y-%m-%d}"
        by_day.setdefault(day, []).append(entry)
        by_project.setdefault(folder or "unknown", []).append(entry)
    models = Spending.of(entry for entries in by_day.values() for entry in entries)
    totals = [(name, Spending.of(by_project[name]).total) for name in sorted(by_project)]
    values = {
        "days": [(day, Spending.of(by_day[day]).total) for day in sorted(by_day)[::-1]],
        "projects": sorted(totals, key=lambda row: -row[1].cost_usd),
        "models": [*models.items()],
        "total": models.total,
    }
    return "costs.html", {"costs": values, "period": days, "periods": PERIODS}


PAGES = (Page(path="/costs", title="Costs", show=costs),)
