"""A goal and its attempts, as the plug-in's records in the session say.

A record is one of

    {"goal": N, ...}       a goal begins, with its check, the files that this guards, its limits
                           and what had been spent before
    {"reads": [...], ...}  the protected files that the check opens before the first attempt, and
                           what it guards by then
    {"began": N, ...}      the turn of an attempt begins
    {"attempt": N, ...}    what became of it: written when its check has ended
    {"ended": STATUS, ...} the goal is no longer pursued

Each is on disk before the next step, so that a resumed goal repeats no attempt.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kode.plugin import AnyEntry, MessageEntry, PluginEntry, Session, TurnEntry

Record = Mapping[str, Any]

TYPE = "x-goals"


@dataclass(kw_only=True)
class Goal:
    """A goal that is or was pursued in a session."""

    number: int
    """From 1 in the session."""
    text: str
    verify: str
    """The command that checks it."""
    limits: Mapping[str, float] = field(default_factory=dict)
    """Of the whole goal: `requests`, `usd`, `seconds`, those that are limited."""
    before_usd: float = 0.0
    """What the session had cost before it."""
    guard: Record = field(default_factory=dict)
    """See `guard.Guard`."""
    reads: Sequence[str] | None = None
    """The protected files that its check opened before the first attempt; None before that."""
    attempts: list[Record] = field(default_factory=list)
    began: Record | None = None
    """The first record of an attempt that has none of its end: a turn that is cut begins again."""
    status: str = "unfinished"
    error: str = ""

    @property
    def next_attempt(self) -> int:
        return len(self.attempts) + 1


def goals_of(records: Iterable[Record]) -> list[Goal]:
    """Every goal of a session, the oldest first."""
    found: list[Goal] = []
    for record in records:
        if "goal" in record:
            given = {k: v for k, v in record.items() if k != "goal"}
            found.append(Goal(number=record["goal"], **given))
        elif not found:
            continue
        elif "reads" in record:
            found[-1].reads, found[-1].guard = record["reads"], record["guard"]
        elif "began" in record:
            found[-1].began = found[-1].began or record
        elif "attempt" in record:
            found[-1].attempts.append(record)
            found[-1].began = None
        elif "ended" in record:
            found[-1].status, found[-1].error = record["ended"], record["error"]
    return found


def current(records: Iterable[Record]) -> Goal | None:
    """The goal that is pursued; None for none."""
    goals = goals_of(records)
    return goals[-1] if goals and goals[-1].status == "unfinished" else None


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What a goal has used so far, killed turns included."""

    requests: int
    usd: float
    seconds: float


def spent(goal: Goal, session: Session) -> Spent:
    """Requests are the replies since the goal began; the time is that of the turns and checks, and
    of a turn without a check, up to its end or last reply."""
    since = _since(session.entries, goal.number)
    seconds, replies = 0.0, 0
    began = last = ""
    for entry in since:
        if isinstance(entry, MessageEntry) and entry.role == "assistant":
            last, replies = entry.at, replies + 1
        elif isinstance(entry, TurnEntry):
            last = entry.at
        if not isinstance(entry, PluginEntry) or entry.type != TYPE:
            continue
        if "began" in entry.value:
            seconds += _between(began, last)
            began, last = entry.at, ""
        elif "attempt" in entry.value:
            seconds += entry.value["seconds"]
            began = ""
        elif "reads" in entry.value:
            seconds += entry.value["seconds"]
    seconds += _between(began, last)
    usd = max(0.0, session.cost_usd - goal.before_usd)
    return Spent(requests=replies, usd=usd, seconds=seconds)


def finished_turn(goal: Goal, session: Session) -> TurnEntry | None:
    """The end of the turn that the goal began last; None where it was cut."""
    found = None
    for entry in _since(session.entries, goal.number):
        if isinstance(entry, PluginEntry) and entry.type == TYPE and "began" in entry.value:
            found = None
        elif isinstance(entry, TurnEntry):
            found = entry
    return found if goal.began is not None else None


def is_asked(goal: Goal, session: Session) -> bool:
    """Whether the model has the message that began the goal, or the one about its last attempt."""
    asked = False
    for entry in _since(session.entries, goal.number):
        if isinstance(entry, PluginEntry) and entry.type == TYPE and "attempt" in entry.value:
            asked = False
        elif isinstance(entry, MessageEntry) and entry.role == "user":
            asked = True
    return asked


def _since(entries: Sequence[AnyEntry], number: int) -> Sequence[AnyEntry]:
    for at in range(len(entries) - 1, -1, -1):
        entry = entries[at]
        if not isinstance(entry, PluginEntry) or entry.type != TYPE:
            continue
        if entry.value.get("goal") == number:
            return entries[at:]
    return ()


def _between(begin: str, end: str) -> float:
    if not begin or not end:
        return 0.0
    took = datetime.fromisoformat(end) - datetime.fromisoformat(begin)
    return max(0.0, took.total_seconds())


def as_object(goal: Goal, used: Spent) -> dict[str, Any]:
    """The goal for programs: `goal` in the result of a task."""
    return {
        "text": goal.text,
        "verify": goal.verify,
        "status": goal.status,
        "protected": sorted(goal.guard.get("rules", {})),
        "attempts": [shown(one) for one in goal.attempts],
        "spent": {"requests": used.requests, "usd": used.usd, "seconds": used.seconds},
        "limits": dict(goal.limits),
    }


def shown(attempt: Record) -> dict[str, Any]:
    """An attempt for programs."""
    return {key: value for key, value in attempt.items() if key not in ("same", "tree")}
