"""A goal and its attempts: how a person asks for one (`/goal`, or the flags of `kode run`), the
texts for person and model, and the records in the session:

    {"goal": N, ...}       a goal begins, with its check, its limits and what was spent before
    {"reads": [...], ...}  the protected files, and those its check opens before any attempt
    {"began": N, ...}      the turn of an attempt begins
    {"attempt": N, ...}    the result of that attempt: written when its check has ended
    {"ended": STATUS, ...} the goal is no longer pursued

Each is on disk before the next step, so that a resumed goal repeats no attempt.
"""

import argparse
import contextlib
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from kode.plugin import (
    AnyEntry,
    ConfigError,
    MessageEntry,
    PluginSession,
    Prompt,
    Session,
    SessionError,
    Transcript,
    UserError,
    find_session,
    kode_home,
    money,
    plural,
    session_file,
    shorten,
)
from kode.plugins.goals.check import CheckRun, ProtectedFiles

Record = Mapping[str, Any]
Status = Literal["unfinished", "reached", "not_reached", "stalled", "out_of_budget"]
Limit = Literal["requests", "usd", "seconds"]


@dataclass(frozen=True, kw_only=True)
class GoalAttempt(CheckRun):
    attempt: int
    turn: int
    files: list[str]
    """The files that its turns changed."""
    passed: bool
    restored: list[str]
    differing: list[str]
    unread: list[str]
    requests: int
    cost_usd: float | None
    seconds: float
    type: Literal["goal_attempt"] = "goal_attempt"


@dataclass(kw_only=True)
class Goal:
    """A goal that is or was pursued in a session."""

    number: int
    """Counts the goals of the session, from 1."""
    text: str
    verify: str
    """The command that checks it."""
    limits: Mapping[Limit, float] = field(default_factory=dict)
    """The limits that are set, each for the whole goal."""
    before_usd: float = 0.0
    """The session's cost before the goal began."""
    guard: ProtectedFiles = field(default_factory=ProtectedFiles)
    """Empty before the first run of the check."""
    reads: Sequence[str] | None = None
    """The protected files that its check opened before the first attempt; None before that."""
    attempts: list[GoalAttempt] = field(default_factory=list)
    first_turn: int | None = None
    """The turn in which the running attempt began, before any restart; None between attempts."""
    status: Status = "unfinished"


def read_records(entries: Iterable[AnyEntry]) -> list[Record]:
    """The plug-in's records among the entries of a session."""
    return [vars(entry)["value"] for entry in entries if entry.type == "x-goals"]


def replay_goals(records: Iterable[Record]) -> list[Goal]:
    """Every goal of a session, the oldest first."""
    goals: list[Goal] = []
    for record in records:
        if "goal" in record:
            fields = {key: value for key, value in record.items() if key != "goal"}
            goals.append(Goal(number=record["goal"], **fields))
        elif not goals:
            continue
        elif "reads" in record:
            folders = {name: tuple(record["guard"][name]) for name in ("tests", "installed")}
            goals[-1].guard = ProtectedFiles(**record["guard"] | folders)
            goals[-1].reads = record["reads"]
        elif "began" in record:
            goals[-1].first_turn = goals[-1].first_turn or record["turn"]
        elif "attempt" in record:
            goals[-1].attempts.append(GoalAttempt(**record))
            goals[-1].first_turn = None
        elif "ended" in record:
            goals[-1].status = record["ended"]
    return goals


def current_goal(records: Iterable[Record]) -> Goal | None:
    """The goal that is pursued now; None if there is none."""
    goals = replay_goals(records)
    return goals[-1] if goals and goals[-1].status == "unfinished" else None


def read_goal_history(goal: Goal, session: Session) -> tuple[dict[Limit, float], Any]:
    """How much of each limit the goal has used, killed turns included; and the entry that ends its
    latest turn, None if that turn was cut or its check has run.

    Each reply counts as a request. Time is that of attempts and their checks; without a check, from
    the start of the turn to its end or last reply."""
    seconds, requests, began, last = 0.0, 0, "", ""
    turn: Any = None
    for entry in session.entries:
        record = next(iter(read_records([entry])), {})
        if record.get("goal") == goal.number:  # after a rewind, the last of a number counts
            seconds, requests, began, last, turn = 0.0, 0, "", "", None
        elif "began" in record:
            seconds += _seconds_between(began, last)
            began, last, turn = entry.at, "", None
        elif "attempt" in record or "reads" in record:
            seconds += record["seconds"]
            began = ""
        elif isinstance(entry, MessageEntry) and entry.role == "assistant":
            last, requests = entry.at, requests + 1
        elif entry.type == "turn":
            last, turn = entry.at, entry
    usd = max(0.0, session.spent.cost_usd - goal.before_usd)
    spent: dict[Limit, float] = {
        "requests": requests,
        "usd": usd,
        "seconds": seconds + _seconds_between(began, last),
    }
    return spent, turn if goal.first_turn is not None else None


def _seconds_between(begin: str, end: str) -> float:
    if not begin or not end:
        return 0.0
    return max(0.0, (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds())


ALIKE = 3
"""A goal ends after this many failures in a row if the later ones brought nothing new."""

RESUME = "Continue with the goal."
"""The message of `/goal resume`: a goal that continues after kode was stopped."""
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
say about it does not count. The files that it runs are protected: edits of {names} are refused, \
whatever the reason. Change what is checked. Work until it passes, then end your turn."""

LIMITS = {
    "requests": ("--max-steps", "{} requests"),
    "usd": ("--max-budget-usd", "${}"),
    "seconds": ("--timeout", "{} s"),
}
"""Limit → the flag that sets it, and its amount in words."""

MAX_NAMED = 12
MAX_LINE_CHARS = 120  # of the last line of a check's output


def is_resume(text: str) -> bool:
    """Whether a message is that of `/goal resume`."""
    return text == RESUME


def goal_text(goal: Goal) -> str:
    """The text about the goal and its check for the model, in the first message and the prompt."""
    held = sorted(goal.guard.held)
    more = f" and {len(held) - MAX_NAMED} more" if len(held) > MAX_NAMED else ""
    names = ", ".join(held[:MAX_NAMED]) + more or "them"
    return _GOAL.format(text=goal.text, verify=goal.verify, names=names)


def goal_sections(opened: PluginSession) -> Mapping[str, str]:
    """The section of the system prompt while a goal is pursued."""
    goal = current_goal(opened.records())
    return {} if goal is None else {"goal": f"# Goal\n{goal_text(goal)}"}


def describe_failure(goal: Goal, attempt: GoalAttempt) -> str:
    """The sentence for the model about a failed check, above its output."""
    restored = ""
    if attempt.restored:
        names = ", ".join(attempt.restored)
        restored = f" Before it ran, these protected files were made as they had been: {names}."
    return f"[The goal's check `{goal.verify}` {describe_check(attempt)}.{restored} Its output:]"


def describe_check(attempt: GoalAttempt) -> str:
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


def describe_attempt(attempt: GoalAttempt) -> str:
    """One line: what changed, what the check says, what it cost."""
    files = attempt.files
    names = ", ".join(files[:4]) + (f" and {len(files) - 4} more" if len(files) > 4 else "")
    last = shorten(attempt.output.rstrip().rpartition("\n")[2], MAX_LINE_CHARS)
    tail = f" ({last})" if last else " and printed nothing"
    cost = money(attempt.cost_usd) or "unknown cost"
    return (
        f"Attempt {attempt.attempt}: {names or 'no file changed'} · the check "
        f"{describe_check(attempt)}{tail} · {plural(attempt.requests, 'request')}, {cost}, "
        f"{attempt.seconds:.0f} s"
    )


def describe_goal(goal: Goal) -> str:
    """A goal, its status and its attempts for a person, as a Markdown code block."""
    head = f"Goal: {shorten(goal.text, 1000)}\nCheck: {shorten(goal.verify, 1000)}"
    text = "\n".join((head, f"Status: {goal.status}", *map(describe_attempt, goal.attempts)))
    fence = "`" * max(3, *(len(ticks) + 1 for ticks in re.findall("`+", text)), 0)
    return f"{fence}\n{text}\n{fence}"


def is_stalled(attempts: Sequence[GoalAttempt]) -> bool:
    """Whether a goal makes no progress: each of the last `ALIKE` attempts but the first is like an
    earlier one. It has the same exit status, and either the files that the check opened are the
    same or no file was changed since."""
    return len(attempts) >= ALIKE and all(
        any(_is_alike(attempts[earlier:at], attempts[at]) for earlier in range(at))
        for at in range(len(attempts) - ALIKE + 1, len(attempts))
    )


def _is_alike(before: Sequence[GoalAttempt], attempt: GoalAttempt) -> bool:
    """Whether an attempt is like `before[0]`: the same exit status, and the same files or no change
    since, because a check that is stopped may open more or fewer files each time."""
    if before[0].exit_status != attempt.exit_status:
        return False
    is_changed = any(other.files for other in (*before[1:], attempt))
    return before[0].tree == attempt.tree or not is_changed


NAME = "/goal"
_FLAG = re.compile(r"(?:^|\s)--verify(?=\s|=|$)[=\s]*")


def goal_task(
    arguments: argparse.Namespace, text: str | None, session_id: str | None
) -> str | None:
    """The message that begins the goal of the flags, or resumes the goal of the session; otherwise
    `text` unchanged. Raises: ConfigError."""
    wish, verify = (vars(arguments).get(flag) for flag in ("goal", "verify"))  # `continue` has none
    if bool(wish) != bool(verify):
        raise ConfigError("A goal needs words and a check: give --goal TEXT and --verify CMD.")
    if wish and verify:
        words = (_join_paragraphs(wish, text or ""), "--verify", verify)
        return f"{NAME} {shlex.join(words)}"
    if session_id is None or (text or "").strip():
        return text
    try:
        transcript = Transcript.read(
            session_file(kode_home(), find_session(kode_home(), session_id))
        )
    except SessionError:
        return text
    if current_goal(read_records(transcript.entries)) is not None:
        return f"{NAME} resume"
    asked = transcript.pending_text
    return asked if asked.startswith(f"{NAME} ") else text


async def run_goal_command(opened: PluginSession, argument: str) -> str | Prompt:
    """`/goal`: shows the goal, begins or resumes one, or stops it. Raises: UserError,
    StorageError."""
    goals, word = replay_goals(opened.records()), argument.strip()
    is_pursued = bool(goals) and goals[-1].status == "unfinished"
    if not goals and not word:
        return "No goal. /goal TEXT --verify CMD begins one."
    if not word:
        return describe_goal(goals[-1])
    if word in ("stop", "resume") and not is_pursued:
        raise UserError("No goal is pursued. /goal TEXT --verify CMD begins one.")
    if word == "stop":
        _record_end(opened, "stopped by the person")
        return "The goal is no longer pursued. What was done stays; /undo takes back a turn."
    if word == "resume":
        return Prompt(text=RESUME)
    text, verify = parse_request(word)
    if is_pursued:
        _record_end(opened, "another goal took its place")
    opened.record(
        {
            "goal": len(goals) + 1,
            "text": text,
            "verify": verify,
            "limits": goal_limits(opened),
            "before_usd": opened.session.spent.cost_usd,
        }
    )
    return Prompt(text=goal_text(replay_goals(opened.records())[-1]), typed=text)


def goal_limits(opened: PluginSession) -> dict[Limit, float]:
    """The limits that the person has set; here they count for the whole goal."""
    config = opened.config
    limits: dict[Limit, float | None] = {"usd": config.max_budget_usd, "seconds": config.timeout_s}
    if config.max_steps != type(config)().max_steps:
        limits["requests"] = config.max_steps
    return {name: value for name, value in limits.items() if value is not None}


def _record_end(opened: PluginSession, why: str) -> None:
    opened.record({"ended": "not_reached", "error": f"The goal was not reached: {why}."})


def parse_request(line: str) -> tuple[str, str]:
    """Splits what a person typed into the goal, TEXT, and its check, `--verify CMD`, which ends at
    an empty line. Only a TEXT that contains the flag needs quotes. What follows the empty line is
    another message that had not been sent, and belongs to TEXT. Raises: UserError."""
    for quoted, _, rest in ((line, "", ""), line.partition("\n\n")):
        with contextlib.suppress(ValueError):
            text, flag, verify = shlex.split(quoted)
            if flag == "--verify":
                return _join_paragraphs(text, rest), verify
    text, *values = _FLAG.split(line, maxsplit=1)
    verify, _, rest = "".join(values).partition("\n\n")
    text, verify = _join_paragraphs(text, rest), _unquote(verify)
    if not text or not verify:
        raise UserError("A goal needs words and a check: /goal TEXT --verify CMD")
    return text, verify


def _join_paragraphs(*texts: str) -> str:
    return "\n\n".join(text.strip() for text in texts if text.strip())


def _unquote(text: str) -> str:
    """Removes the quotes around a value that is quoted as a whole."""
    quoted = re.fullmatch(r"\s*(?:'([^']*)'|\"([^\"]*)\")\s*", text)
    return (quoted[1] or quoted[2] or "") if quoted else text.strip()
