"""A goal and its attempts: as programs, the model and the person read them, and as the session has
them, whose records are

    {"goal": N, ...}       a goal begins, with its check, its limits and what was spent before
    {"reads": [...], ...}  what it protects, and which of that its check opens before any attempt
    {"began": N, ...}      the turn of an attempt begins
    {"attempt": N, ...}    what became of it: written when its check has ended
    {"ended": STATUS, ...} the goal is no longer pursued

Each is on disk before the next step, so that a resumed goal repeats no attempt.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from kode.plugin import AnyEntry, MessageEntry, PluginSession, Session, money, plural, shorten
from kode.plugins.goals.guard import Guard

Record = Mapping[str, Any]
Status = Literal["unfinished", "reached", "not_reached", "stalled", "out_of_budget"]
Limit = Literal["requests", "usd", "seconds"]


@dataclass(frozen=True, kw_only=True)
class FileCount:
    """How many lines of a file came and went."""

    path: str
    added: int
    removed: int


@dataclass(frozen=True, kw_only=True)
class CheckRun:
    """How a check ended."""

    exit_status: int | None
    """None if it did not start or end."""
    fault: str
    """Why there is no exit status, a phrase that completes "it ..."."""
    output: str
    failure: str
    """Digest of the exit status, and of the output without numbers."""
    tree: str
    """Digest of the files of the project that it opened, as they are on disk."""


@dataclass(frozen=True, kw_only=True)
class Attempt(CheckRun):
    attempt: int
    turn: int
    files: list[FileCount]
    passed: bool
    restored: list[str]
    differing: list[str]
    unread: list[str]
    requests: int
    cost_usd: float | None
    seconds: float
    type: Literal["goal_attempt"] = "goal_attempt"


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What a goal has used so far, killed turns included."""

    requests: int
    usd: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class GoalReport:
    text: str
    verify: str
    status: Status
    protected: list[str]
    attempts: list[Attempt]
    spent: Spent
    limits: Mapping[Limit, float]
    type: Literal["goal"] = "goal"


@dataclass(kw_only=True)
class Goal:
    """A goal that is or was pursued in a session."""

    number: int
    """From 1 in the session."""
    text: str
    verify: str
    """The command that checks it."""
    limits: Mapping[Limit, float] = field(default_factory=dict)
    """Of the whole goal, those that are set."""
    before_usd: float = 0.0
    """What the session had cost before it."""
    protect: Sequence[str] | None = None
    """Patterns of the person; None: what the check runs."""
    guard: Guard = field(default_factory=Guard)
    """Empty before the first run of the check."""
    reads: Sequence[str] | None = None
    """The protected files that its check opened before the first attempt; None before that."""
    attempts: list[Attempt] = field(default_factory=list)
    first_turn: int | None = None
    """Of an attempt that has no end yet: a turn that is cut begins again. None between attempts."""
    status: Status = "unfinished"
    error: str = ""


def records_of(entries: Iterable[AnyEntry]) -> list[Record]:
    """What the plug-in has recorded in a session."""
    return [vars(entry)["value"] for entry in entries if entry.type == "x-goals"]


def goals_of(records: Iterable[Record]) -> list[Goal]:
    """Every goal of a session, the oldest first."""
    goals: list[Goal] = []
    for record in records:
        if "goal" in record:
            fields = {key: value for key, value in record.items() if key != "goal"}
            goals.append(Goal(number=record["goal"], **fields))
        elif not goals:
            continue
        elif "reads" in record:
            installed = tuple(record["guard"]["installed"])
            goals[-1].guard = Guard(**{**record["guard"], "installed": installed})
            goals[-1].reads = record["reads"]
        elif "began" in record:
            goals[-1].first_turn = goals[-1].first_turn or record["turn"]
        elif "attempt" in record:
            files = [FileCount(**file) for file in record["files"]]
            goals[-1].attempts.append(Attempt(**{**record, "files": files}))
            goals[-1].first_turn = None
        elif "ended" in record:
            goals[-1].status, goals[-1].error = record["ended"], record["error"]
    return goals


def current(records: Iterable[Record]) -> Goal | None:
    """The goal that is pursued; None for none."""
    goals = goals_of(records)
    return goals[-1] if goals and goals[-1].status == "unfinished" else None


def history_of(goal: Goal, session: Session) -> tuple[Spent, Any]:
    """What the session has since the goal began: what was spent, and the end of the turn that it
    began last; None where that was cut.

    Requests are the replies; the time is that of the turns and checks, and of a turn without a
    check, up to its end or last reply."""
    seconds, requests, began, last = 0.0, 0, "", ""
    turn: Any = None
    for entry in session.entries:
        record = next(iter(records_of([entry])), {})
        if record.get("goal") == goal.number:  # of a number that was rewound, the last counts
            seconds, requests, began, last, turn = 0.0, 0, "", "", None
        elif "began" in record:
            seconds += _between(began, last)
            began, last, turn = entry.at, "", None
        elif "attempt" in record or "reads" in record:
            seconds += record["seconds"]
            began = ""
        elif isinstance(entry, MessageEntry) and entry.role == "assistant":
            last, requests = entry.at, requests + 1
        elif entry.type == "turn":
            last, turn = entry.at, entry
    usd = max(0.0, session.spent.cost_usd - goal.before_usd)
    spent = Spent(requests=requests, usd=usd, seconds=seconds + _between(began, last))
    return spent, turn if goal.first_turn is not None else None


def _between(begin: str, end: str) -> float:
    if not begin or not end:
        return 0.0
    return max(0.0, (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds())


ALIKE = 3
"""So many failures in a row of which the later ones brought nothing new end a goal."""

RESUME = "Continue with the goal."
"""The message of a goal that continues after kode was stopped."""
UNFINISHED = "The goal is not reached yet: `/goal resume` or `kode continue` resumes it."
FAILED = "The goal is not reached: its check failed. Continue until it passes."
STALLED = f"the check failed {ALIKE} times in the same way, and nothing it reads changed"
PASSES_BEFORE = (
    "The check passes already, before anything has changed: it cannot say when the goal is reached."
)

_GOAL = """\
Goal: {text}

The goal is reached when this command exits with status 0:

    {verify}

kode runs it after each of your turns, on the files as they are on disk, in a sandbox; what you \
say about it does not count.{protected} Work until it passes, then end your turn."""

_PROTECTED = (
    " The files that it runs are protected: edits of {names} are refused, whatever the reason. "
    "Change what is checked."
)

LIMITS = {
    "requests": ("--max-steps", "{} requests"),
    "usd": ("--max-budget-usd", "${}"),
    "seconds": ("--timeout", "{} s"),
}
"""Limit → the flag that sets it, and its amount in words."""

MAX_NAMED = 12
MAX_LINE_CHARS = 120  # of the last line of a check's output


def goal_text(goal: Goal) -> str:
    """The goal and its check, word for word: in the first message, and after a compaction."""
    held = sorted(goal.guard.held)
    more = f" and {len(held) - MAX_NAMED} more" if len(held) > MAX_NAMED else ""
    names = ", ".join(held[:MAX_NAMED]) + more or "them"
    protected = _PROTECTED.format(names=names) if goal.protect != [] else ""
    return _GOAL.format(text=goal.text, verify=goal.verify, protected=protected)


def sections(opened: PluginSession) -> Mapping[str, str]:
    """The section of the system prompt while a goal is pursued."""
    goal = current(opened.records())
    return {} if goal is None else {"goal": f"# Goal\n{goal_text(goal)}"}


def output_note(goal: Goal, attempt: Attempt) -> str:
    """The sentence for the model about a failed check, above its output."""
    restored = ""
    if attempt.restored:
        names = ", ".join(attempt.restored)
        restored = f" Before it ran, these protected files were made as they had been: {names}."
    return f"[The goal's check `{goal.verify}` {ending(attempt)}.{restored} Its output:]"


def ending(attempt: Attempt) -> str:
    """How a check ended, a phrase that completes "it ..."."""
    if attempt.fault or attempt.exit_status != 0:
        return attempt.fault or f"failed with exit status {attempt.exit_status}"
    if attempt.unread:
        return (
            f"exited with status 0 without opening {', '.join(attempt.unread)}, which it opened "
            "when the goal began: something ends it early or runs in its place"
        )
    if attempt.differing:
        return (
            f"passed on protected files that are not as they were: {', '.join(attempt.differing)}"
        )
    return "passed"


def attempt_line(attempt: Attempt) -> str:
    """One line: what changed, what the check says, what it cost."""
    files = attempt.files
    names = ", ".join(f"{file.path} +{file.added} -{file.removed}" for file in files[:4])
    names += f" and {len(files) - 4} more" if len(files) > 4 else ""
    last = shorten(attempt.output.rstrip().rpartition("\n")[2], MAX_LINE_CHARS)
    tail = f" ({last})" if last else " and printed nothing"
    cost = money(attempt.cost_usd) or "unknown cost"
    return (
        f"Attempt {attempt.attempt}: {names or 'no file changed'} · the check {ending(attempt)}"
        f"{tail} · {plural(attempt.requests, 'request')}, {cost}, {attempt.seconds:.0f} s"
    )


def summary(goal: Goal) -> str:
    """A goal and how it stands, for a person, as Markdown that changes no name in it."""
    head = f"Goal: {shorten(goal.text, 1000)}\nCheck: {shorten(goal.verify, 1000)}"
    text = "\n".join((head, f"Status: {goal.status}", *map(attempt_line, goal.attempts)))
    fence = "`" * max(3, *(len(ticks) + 1 for ticks in re.findall("`+", text)), 0)
    return f"{fence}\n{text}\n{fence}"
