"""What requests cost, for a person: a session step by step, with reasons for lost caches; or many
by session. `kode.session.spending` computes the figures."""

import heapq
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from kode.plugin import (
    Header,
    SessionSummary,
    Spending,
    Spent,
    Step,
    paths,
    requests_by_folder,
    session_files,
    session_path,
    spending_of,
    step_of,
    summarize_session,
    writable_path,
)
from kode.plugin import read_session as read
from kode.plugin import total_spent as total
from kode.plugins.cost.breaks import Break, Price, break_of, first_break
from kode.plugins.cost.sent import Sent, requests_of

SESSIONS_LOOKED_THROUGH = 50
"""How many recent sessions to search for the request before a session's first."""


@dataclass(frozen=True, kw_only=True)
class SessionCost:
    session: str
    cwd: str
    steps: tuple[Step, ...]
    """Oldest first; includes rewound steps, which were paid for all the same."""
    models: Spending
    total: Spent
    breaks: tuple[Break, ...] = ()
    recorded: bool = True
    """Whether requests are on record; without records, breaks are unknown."""


@dataclass(frozen=True, kw_only=True)
class SessionTotal:
    session: str
    cwd: str
    spent: Spent


@dataclass(frozen=True, kw_only=True)
class Period:
    """The cost of all sessions in a period."""

    sessions: tuple[SessionTotal, ...]
    """The most expensive first."""
    models: Spending
    total: Spent


def session_cost(home: Path, session_id: str, price: Price | None = None) -> SessionCost:
    """The cost of one session, at `price` if given, with the breaks in it.

    Raises: SessionError, StorageError.
    """
    header, entries, _ = read(session_path(home, session_id))
    steps = tuple(step for entry in entries if (step := step_of(entry)))
    models = spending_of(entries)
    cost = SessionCost(
        session=session_id, cwd=header.cwd, steps=steps, models=models, total=total(models)
    )
    if price is None:
        return cost
    sent = requests_of(header, entries)
    answered = _answered(sent)
    caches = has_cache(cost.total)
    breaks = [_first(home, header, answered[0], price, caches)] if answered else []
    for before, now in pairwise(answered):
        between = entries[before.number + 1 : now.number]
        breaks.append(break_of(home, before, now, between, price, caches=caches))
    kept = tuple(cache_break for cache_break in breaks if cache_break is not None)
    return replace(cost, breaks=kept, recorded=bool(sent))


def has_cache(spent: Spent) -> bool:
    """Whether the server reported cached tokens."""
    return spent.usage.cached_tokens + spent.usage.cache_write_tokens > 0


def period_cost(
    home: Path, since: datetime, until: datetime | None = None, folder: Path | None = None
) -> Period:
    """The cost of sessions from one moment to another; with `folder`, only of those at work in or
    below it. Steps copied by a fork count once. Raises: StorageError."""
    by_session: dict[str, list[Step]] = {}
    entries = []
    within = None if folder is None else writable_path(folder)
    folders: dict[str, str] = {}
    for session_id, cwd, entry in requests_by_folder(home, since):
        step = step_of(entry)
        if step is None or (until is not None and datetime.fromisoformat(entry.at) >= until):
            continue
        if within is None or Path(cwd).is_relative_to(within):
            folders[session_id] = cwd
            by_session.setdefault(session_id, []).append(step)
            entries.append(entry)
    totals = [
        SessionTotal(
            session=one, cwd=folders[one], spent=sum((step.spent for step in steps), Spent())
        )
        for one, steps in by_session.items()
    ]
    totals.sort(key=lambda one: (-one.spent.cost_usd, -one.spent.usage.input_tokens))
    models = spending_of(entries)
    return Period(sessions=tuple(totals), models=models, total=total(models))


def _first(home: Path, header: Header, now: Sent, price: Price, caches: bool) -> Break | None:
    """Compares the session's first request with the latest one to the same model in any session."""
    best: Sent | None = None
    where, cached_before = header, False
    for summary in _used_before(home, now):
        if best is not None and summary.updated_at < best.record.at:
            break
        other, entries, _ = read(session_path(home, summary.id))
        sent = _answered(requests_of(other, entries))
        earlier = [request for request in sent if _is_before(request, now)]
        if earlier and (best is None or best.record.at < earlier[-1].record.at):
            best, where = earlier[-1], other
            cached_before = has_cache(total(spending_of(entries)))
    if best is None:
        return None
    folders, caches = (where.cwd, header.cwd), caches or cached_before
    cache_break = first_break(home, best, now, folders, price, caches=caches)
    return replace(cache_break, session_before=where.id) if cache_break else None


def _answered(sent: list[Sent]) -> list[Sent]:
    """Those to compare: a server may not have read a request that it never answered."""
    return [request for request in sent if request.step is not None]


def _used_before(home: Path, now: Sent) -> list[SessionSummary]:
    """Sessions that began before this request, last used first."""
    changed = heapq.nlargest(SESSIONS_LOOKED_THROUGH, session_files(home))
    known = (summarize_session(paths.session_file(home, one)) for _, one in changed)
    summaries = [summary for summary in known if summary.created_at < now.record.at]
    return sorted(summaries, key=lambda summary: summary.updated_at, reverse=True)


def _is_before(request: Sent, now: Sent) -> bool:
    old, new = request.record, now.record
    return (old.provider, old.model) == (new.provider, new.model) and old.at < new.at
