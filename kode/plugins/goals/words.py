"""What the model and the person read of a goal."""

import re
from collections.abc import Mapping

from kode.plugin import Opened, money, one_line, plural
from kode.plugins.goals.state import Goal, Record, current

RESUME = "Continue with the goal."
"""The message of a goal that continues after kode was stopped."""

UNFINISHED = "The goal is not reached yet: `/goal resume` or `kode continue` resumes it."

FAILED = "The goal is not reached: its check failed. Continue until it passes."

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

MAX_NAMED = 12
MAX_LINES, MAX_LINE_CHARS = 4, 120
"""Of the output of a check, for the person."""


def goal_text(goal: Goal) -> str:
    """The goal and its check, word for word: in the first message, and after a compaction."""
    held = sorted(goal.guard.get("held", {}))
    more = f" and {len(held) - MAX_NAMED} more" if len(held) > MAX_NAMED else ""
    names = ", ".join(held[:MAX_NAMED]) + more
    protected = _PROTECTED.format(names=names) if held else ""
    return _GOAL.format(text=goal.text, verify=goal.verify, protected=protected)


def sections(opened: Opened) -> Mapping[str, str]:
    """The section of the system prompt while a goal is pursued."""
    goal = current(opened.records())
    return {} if goal is None else {"goal": f"# Goal\n{goal_text(goal)}"}


def output_note(goal: Goal, attempt: Record) -> str:
    """What the model is told of a failed check, above its output."""
    said = f"[The goal's check `{goal.verify}` {how(attempt)}."
    if attempt["restored"]:
        names = ", ".join(attempt["restored"])
        said += f" Before it ran, these protected files were made as they had been: {names}."
    return f"{said} Its output:]"


def how(attempt: Record) -> str:
    """How a check ended, a phrase that completes "it ..."."""
    if attempt["fault"]:
        return str(attempt["fault"])
    status = attempt["exit_status"]
    if status == 0 and attempt.get("unread"):
        names = ", ".join(attempt["unread"])
        return (
            f"exited with status 0 without opening {names}, which it opened when the goal began: "
            "something ends it early or runs in its place"
        )
    if status == 0 and not attempt["passed"]:
        names = ", ".join(attempt["differing"])
        return f"passed on protected files that are not as they were: {names}"
    return "passed" if status == 0 else f"failed with exit status {status}"


def attempt_line(attempt: Record) -> str:
    """One line: what changed, what the check says, what it cost."""
    files = attempt["files"]
    names = ", ".join(f"{one['path']} +{one['added']} -{one['removed']}" for one in files[:4])
    names += f" and {len(files) - 4} more" if len(files) > 4 else ""
    said = _last_line(attempt["output"])
    tail = f" ({said})" if said else " and printed nothing"
    cost = money(attempt["cost_usd"]) or "unknown cost"
    return (
        f"Attempt {attempt['attempt']}: {names or 'no file changed'} · the check {how(attempt)}"
        f"{tail} · {plural(attempt['requests'], 'request')}, {cost}, {attempt['seconds']:.0f} s"
    )


def passed_output(attempt: Record) -> list[str]:
    """The end of what a check printed that passed, for the person: code under test can end the
    process of its check with status 0, and then this is not how the check ends. Of a line or none,
    `attempt_line` says it."""
    lines = [line for line in attempt["output"].splitlines() if line.strip()]
    if len(lines) < 2:
        return []
    shown = [f"  {one_line(line)[:MAX_LINE_CHARS]}" for line in lines[-MAX_LINES:]]
    return ["The output of its check ends with:", *shown]


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return one_line(lines[-1])[:MAX_LINE_CHARS] if lines else ""


def summary(goal: Goal) -> str:
    """A goal and how it stands, for a person."""
    lines = [
        f"Goal: {one_line(goal.text)}",
        f"Check: {one_line(goal.verify)}",
        f"Status: {STATUS[goal.status]}",
        *map(attempt_line, goal.attempts),
    ]
    return "\n".join(lines)


def as_it_is(text: str) -> str:
    """Text that Markdown shows as it is: `__init__.py` is a name."""
    longest = max((len(ticks) for ticks in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


STATUS: Mapping[str, str] = {
    "unfinished": "not reached yet; /goal resume continues, /goal stop ends it",
    "reached": "reached",
    "not_reached": "not reached",
    "stalled": "stalled: the check kept failing in the same way",
    "out_of_budget": "out of budget",
}
