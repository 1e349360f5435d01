"""The page of costs: all sessions of a period, by project, model and day."""

from datetime import datetime, timedelta
from pathlib import Path

from kode.plugin import AnyEntry, Spending

PERIODS = (7, 30, 90, 365)
"""Periods, in days."""


def costs_of(home: Path, period: str) -> dict[str, object]:
    """The values of the page: days with requests come newest first, projects and models by cost.
    Raises: StorageError."""
    days = next((days for days in PERIODS if str(days) == period), 30)
    now = datetime.now().astimezone()
    first = (now - timedelta(days=days - 1)).replace(hour=0, minute=0, second=0, microsecond=0)
    by_day: dict[str, list[AnyEntry]] = {}
    by_project: dict[str, list[AnyEntry]] = {}
    for _, folder, entry in Spending.requests_by_folder(home, first):
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
    return {"costs": values, "period": days, "periods": PERIODS}
