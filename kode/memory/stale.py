"""Finds entries that may no longer be true: cited code has changed, or their last day has passed.

Nothing is removed. A model sees the first kind marked, and the second not at all.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from pathlib import Path

from kode.errors import MemoryRefused
from kode.memory import scan, source, when
from kode.memory.change import Author, Change
from kode.memory.ledger import Ledger
from kode.memory.lineage import Place

SINCE_CHARS = 40

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, kw_only=True)
class Doubt:
    """Why an entry may not hold any more."""

    change: Change
    """The change that says what it rests on."""
    why: str
    """In a few words: `app.py:7-9 changed`, `it held until 2026-03-06`."""
    expired: bool

    @property
    def mark(self) -> str:
        """Precedes the text when shown to a model."""
        return f"[may be stale: {self.why}] "


def doubts(
    ledger: Ledger, project: Path, today: date, keys: Collection[str] | None = None
) -> dict[Place, Doubt]:
    """The doubts about entries, by place, of those with these keys or of all; paths of code are
    relative to `project`. Costs time only for changes with a source or a last day."""
    found = (
        (place, doubt(one.terms, project, today))
        for place, one in ledger.standing().items()
        if keys is None or place[1] in keys
    )
    return {place: reason for place, reason in found if reason is not None}


def holding(author: Author, since: str | None, until: str | None) -> Author:
    """The author of something that holds from a version or day, until the end of a day. Raises:
    MemoryRefused for an invalid value."""
    since = " ".join((since or "").split())
    if len(since) > SINCE_CHARS:
        raise MemoryRefused(
            f"`since` has {len(since)} characters, at most {SINCE_CHARS} are kept: give a version "
            "or a day. Nothing was changed."
        )
    scan.check(since)
    last = day_of(until, "until").isoformat() if until and until.strip() else ""
    return replace(author, since=since, until=last)


def day_of(text: str, name: str, now: datetime | None = None) -> date:
    """Parses a day like `2026-03-06`; with `now` also the last day of what a search understands,
    like `yesterday` or `2 days ago`. Raises: MemoryRefused that names the option."""
    try:
        if _DAY.fullmatch(text.strip()):
            return date.fromisoformat(text.strip())
    except ValueError:
        pass
    period, rest = when.read(text, now) if now else (None, text)
    if now and period and period.end and not rest.strip():
        ends = datetime.fromisoformat(period.end).astimezone(now.tzinfo)
        return min((ends - timedelta(seconds=1)).date(), now.date())
    words = ", yesterday, or 2 days ago" if now else ""
    raise MemoryRefused(
        f"`{name}` is {text!r}: write a day as 2026-03-06{words}. Nothing was changed."
    )


def doubt(change: Change | None, project: Path, today: date) -> Doubt | None:
    """Why what a change says of its text may not hold any more; None for no reason, or no
    change."""
    if change is None:
        return None
    if change.until and change.until < today.isoformat():
        return Doubt(change=change, why=f"it held until {change.until}", expired=True)
    state = source.state(project, change.source, change.source_hash)
    if state in ("changed", "gone"):
        return Doubt(change=change, why=f"{change.source} {_STATES[state]}", expired=False)
    return None


_STATES = {"changed": "changed", "gone": "is gone"}
