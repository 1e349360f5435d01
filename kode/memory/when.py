"""Questions of time: which period a query asks about, in plain English or as a date.

A handful of expressions and no more: where a model ranks, it reads the dates of the candidates in
any language. Not here: which texts fall into a period (whoever keeps them knows their times).
"""

import re
from calendar import day_name
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_DAYS = [name.lower() for name in day_name]
_LENGTHS = {"day": 1, "week": 7, "month": 30, "year": 365}
_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3}

_DATE = re.compile(r"\b(?P<year>\d{4})-(?P<month>0[1-9]|1[0-2])(?:-(?P<date>\d{2}))?\b")
_RELATIVE = re.compile(
    r"\b(?:(?P<day>today|yesterday|last night)"
    r"|(?P<which>this|last|past) (?P<unit>week|month|year)"
    rf"|(?:last|on|since) (?P<weekday>{'|'.join(_DAYS)})"
    rf"|(?P<number>\d{{1,3}}|{'|'.join(_NUMBERS)}) (?P<ago>{'|'.join(_LENGTHS)})s? ago)\b",
    re.IGNORECASE,
)
_NEWEST = re.compile(
    r"\b(?:(?:the )?(?:last|previous) (?:time|session|conversation)"
    r"|(?:(?:continue|carry on|go on|pick up) )?where (?:we|i|you) (?:stopped|left off|were))\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class Period:
    """From `start` up to but not with `end`, as `stamp` gives them; both "" ask for the newest."""

    said: str
    """The expression in the query."""
    start: str = ""
    end: str = ""

    @property
    def is_newest(self) -> bool:
        return not self.end

    def holds(self, since: str, until: str) -> bool:
        """Whether what began at `since` and ended at `until` lies in it, or reaches into it."""
        return bool(self.end and until) and since < self.end and until >= self.start


def read(query: str, now: datetime) -> tuple[Period | None, str]:
    """The period that a query asks about, None for none, and what the query says besides.

    `now` is aware; its zone is the one in which a day begins.
    """
    newest = _NEWEST.search(query)
    rest = _NEWEST.sub(" ", query)
    for match in (*_DATE.finditer(query), *_RELATIVE.finditer(query)):
        try:
            start, end = _span(match, now.replace(hour=0, minute=0, second=0, microsecond=0))
        except (ValueError, OverflowError):
            continue  # no day of the calendar
        period = Period(said=match[0], start=stamp(start), end=stamp(end))
        return period, rest.replace(match[0], " ")
    return (Period(said=newest[0]), rest) if newest else (None, query)


def stamp(moment: datetime) -> str:
    """UTC in one format, so that times compare as texts."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def stamp_of(text: str) -> str:
    """The same of an ISO time, where one without a zone is UTC; "" for anything else."""
    try:
        moment = datetime.fromisoformat(text)
        return stamp(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return ""


def _span(match: re.Match[str], today: datetime) -> tuple[datetime, datetime]:
    """Raises ValueError, OverflowError."""
    said = {name: value.lower() for name, value in match.groupdict().items() if value}
    day = timedelta(days=1)
    match said:
        case {"year": year, "month": month, "date": date}:
            start = today.replace(year=int(year), month=int(month), day=int(date))
            return start, start + day
        case {"year": year, "month": month}:
            start = today.replace(year=int(year), month=int(month), day=1)
            return start, _begin("month", start + 31 * day)
        case {"day": "today"}:
            return today, today + day
        case {"day": "yesterday"}:
            return today - day, today
        case {"weekday": name}:
            start = today - ((today.weekday() - _DAYS.index(name) - 1) % 7 + 1) * day
            return start, start + day
        case {"which": "this", "unit": unit}:
            return _begin(unit, today), today + day
        case {"which": "last", "unit": unit}:
            return _begin(unit, _begin(unit, today) - day), _begin(unit, today)
        case {"unit": unit}:
            return today - _LENGTHS[unit] * day, today + day
        case {"number": number, "ago": unit}:
            length = _LENGTHS[unit]
            start = today - int(_NUMBERS.get(number, number)) * length * day
            # "Two weeks ago" is meant as roughly as it is said.
            return start - length // 2 * day, start + (length // 2 + 1) * day
    return today - day, today + day  # last night


def _begin(unit: str, day: datetime) -> datetime:
    if unit == "week":
        return day - timedelta(days=day.weekday())
    return day.replace(day=1) if unit == "month" else day.replace(month=1, day=1)
