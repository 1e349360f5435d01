"""What the model and the person read of a goal."""

import re
from collections.abc import Mapping

from kode.plugin import PluginSession, money, plural, shorten
from kode.plugins.goals.check import ALIKE
from kode.plugins.goals.forms import Attempt, Goal, current

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
    """What the model is told of a failed check, above its output."""
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
