"""Detects which period a query asks about, in plain English or as a date.

Deliberately few expressions: where a model ranks, it reads the candidates' dates in any language.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

DAY = timedelta(days=1)
_BEGIN: dict[str, Callable[[datetime], datetime]] = {
    "day": lambda day: day,
    "week": lambda day: day - day.weekday() * DAY,
    "month": lambda day: day.replace(day=1),
    "year": lambda day: day.replace(month=1, day=1),
}
_AGO = {"today": "0", "yesterday": "1", "last night": "1", "a": "1", "an": "1", "one": "1"}

_TIME = re.compile(
    r"\b(?:(?P<date>\d{4}-\d{2}-\d{2})|(?P<month>\d{4}-\d{2})|(?P<day>today|yesterday|last night)"
    r"|(?P<which>this|last) (?P<unit>week|month|year)"
    r"|(?P<number>\d{1,3}|an?|one) (?P<ago>day|week|month|year)s? ago)\b",
    re.IGNORECASE,
)
_DATED = re.compile(r"\b\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2})?\b")
_NEWEST = re.compile(
    r"\b(?:(?:the )?(?:last|previous) (?:time|session|conversation)"
    r"|(?:(?:continue|carry on|go on|pick up) )?where (?:we|i|you) (?:stopped|left off|were))\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class Period:
    """From `start` up to but excluding `end`, as from `stamp`; both "" ask for the newest."""

    said: str
    """The expression in the query."""
    start: str = ""
    end: str = ""


def read(query: str, now: datetime) -> tuple[Period | None, str]:
    """The period that a query asks about, or None, and the rest of the query.

    `now` is aware; days begin in its time zone.
    """
    newest, rest = _NEWEST.search(query), _NEWEST.sub(" ", query)
    for match in _TIME.finditer(query):
        said = {name: text.lower() for name, text in match.groupdict().items() if text}
        try:
            start, end = _span(said, now.replace(hour=0, minute=0, second=0, microsecond=0))
            period = Period(said=match[0], start=stamp(start), end=stamp(end))
        except (ValueError, OverflowError):
            continue  # not a calendar day
        return period, rest.replace(match[0], " ")
    return (Period(said=newest[0]), rest) if newest else (None, query)


def stamp(moment: datetime) -> str:
    """UTC in one format, so that times compare as texts."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def stamp_of(text: str, zone: tzinfo | None = UTC) -> str:
    """The stamp of an ISO time, by default in `zone`; "" for anything else."""
    try:
        moment = datetime.fromisoformat(text)
        return stamp(moment if moment.tzinfo else moment.replace(tzinfo=zone))
    except (ValueError, OverflowError):
        return ""


def first_in(text: str, zone: tzinfo | None) -> str:
    """The stamp of the first date in a text; "" for none."""
    found = (stamp_of(match[0], zone) for match in _DATED.finditer(text))
    return next(filter(None, found), "")


def _span(said: dict[str, str], today: datetime) -> tuple[datetime, datetime]:
    """The beginning of a period, and of the next one. Raises: ValueError, OverflowError."""
    unit = said.get("unit") or said.get("ago") or ("month" if "month" in said else "day")
    begin = _BEGIN[unit]
    if "date" in said or "month" in said:
        day = datetime.fromisoformat(said.get("date") or f"{said['month']}-01")
        start = today.replace(year=day.year, month=day.month, day=day.day)
    else:
        ago = said.get("day") or said.get("number") or ("1" if said["which"] == "last" else "0")
        start = begin(today)
        for _ in range(int(_AGO.get(ago, ago))):
            start = begin(start - DAY)
    # The maximum length of each: counted from its first day, it reaches into the next one.
    length = {"day": 1, "week": 7, "month": 31, "year": 366}[unit]
    return start, begin(start + length * DAY)
