"""Finds the period that a query asks about, in plain English or as a date.

The expressions are few: where a model ranks, it reads the dates of the texts in any language.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from kode.memory.statement import timestamp

DAY = timedelta(days=1)
_FIRST_DAY: dict[str, Callable[[datetime], datetime]] = {
    "day": lambda day: day,
    "week": lambda day: day - day.weekday() * DAY,
    "month": lambda day: day.replace(day=1),
    "year": lambda day: day.replace(month=1, day=1),
}
_LONGEST = {"day": 1, "week": 7, "month": 31, "year": 366}
_NUMBERS = {"today": 0, "yesterday": 1, "last night": 1, "a": 1, "an": 1, "one": 1}
_PERIOD = re.compile(
    r"\b(?:(?P<date>\d{4}-\d{2}-\d{2})|(?P<month>\d{4}-\d{2})|(?P<day>today|yesterday|last night)"
    r"|(?P<which>this|last) (?P<unit>week|month|year)"
    r"|(?P<number>\d{1,3}|an?|one) (?P<ago>day|week|month|year)s? ago)\b",
    re.IGNORECASE,
)
_NEWEST = re.compile(
    r"\b(?:(?:the )?(?:last|previous) (?:time|session|conversation)"
    r"|(?:(?:continue|carry on|go on|pick up) )?where (?:we|i|you) (?:stopped|left off|were))\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class Period:
    """From `start` up to but excluding `end`; both "" mean the newest texts."""

    words: str
    """The expression in the query."""
    start: str = ""
    end: str = ""


def find_period(query: str, now: datetime) -> tuple[Period | None, str]:
    """The period that a query asks about, or None, and the rest of the query. `now` is aware; days
    begin in its time zone."""
    newest, rest = _NEWEST.search(query), _NEWEST.sub(" ", query)
    for match in _PERIOD.finditer(query):
        words = {name: text.lower() for name, text in match.groupdict().items() if text}
        try:
            start, end = _span(words, now.replace(hour=0, minute=0, second=0, microsecond=0))
            period = Period(words=match[0], start=timestamp(start), end=timestamp(end))
        except (ValueError, OverflowError):
            continue  # no day of the calendar
        return period, rest.replace(match[0], " ")
    return (Period(words=newest[0]), rest) if newest else (None, query)


def _span(words: dict[str, str], today: datetime) -> tuple[datetime, datetime]:
    """The beginnings of a period and of the next one. Raises: ValueError, OverflowError."""
    unit = words.get("unit") or words.get("ago") or ("month" if "month" in words else "day")
    first_day = _FIRST_DAY[unit]
    if "date" in words or "month" in words:
        day = datetime.fromisoformat(words.get("date") or f"{words['month']}-01")
        start = today.replace(year=day.year, month=day.month, day=day.day)
    else:
        ago = words.get("day") or words.get("number") or ("1" if words["which"] == "last" else "0")
        start = first_day(today)
        for _ in range(_NUMBERS[ago] if ago in _NUMBERS else int(ago)):
            start = first_day(start - DAY)
    return start, first_day(start + _LONGEST[unit] * DAY)
