"""Describes events for people: each on one line, in words without style.

The prompt, `kode run`, editors and other programs show the same words. `render` places them on a
screen.
"""

import re
from collections.abc import Sequence

from kode import events
from kode.cli.screen.lines import cell_width, clip, clip_middle, count, duration, money, one_line
from kode.messages import plural
from kode.permissions.names import tool_verbs
from kode.plain_text import sanitize
from kode.values import dataclass

SUBJECT_COLUMNS = 12  # enough to recognize a path or a task
MIN_SAME_CHARS = 40  # enough of a fact to recognize it
NOTICES = {"info": ("", "dim"), "warning": ("Warning:", "warning"), "error": ("Error:", "error")}
"""The level of a notice → the word before it, and its style."""


@dataclass(frozen=True)
class EventLine:
    """One line about an event, without control sequences."""

    mark: str
    """`●` done, `✗` failed, `–` refused, `…` still running; "" for what kode itself says."""
    verb: str
    subject: str = ""
    outcome: str = ""
    style: str = "dim"
    """The style of the mark, or of the whole line if it has no mark."""

    @property
    def text(self) -> str:
        """The line without its mark."""
        begin = " ".join(filter(None, (self.verb, self.subject)))
        return f"{begin} · {self.outcome}" if self.outcome else begin


def describe_event(event: events.Event, width: int) -> EventLine | None:
    """Returns the line about an event; None for an event without one: streamed text, a reply, the
    end of a turn. A line about a call or a subagent takes at most `width` columns; what kode itself
    says is not cut."""
    match event:
        case events.ToolStarted() | events.ToolFinished():
            return describe_call(event, width)
        case events.AgentProgress() | events.AgentFinished():
            return describe_agent(event, width)
        case events.Working() if event.what:
            return EventLine("…", one_line(event.what))
        case events.Steered():
            return EventLine("", "Heard:", one_line(event.text))
        case events.RetryScheduled():
            reason = f"{one_line(event.reason).rstrip('.')}. " if event.reason else ""
            number = f"{event.attempt + 1} of {event.max_attempts}"
            text = f"{reason}Retrying in {duration(event.delay_s)} ({number})."
            return EventLine("", "", text)
        case events.ContextReduced():
            before, after = count(event.tokens_before), count(event.tokens_after)
            is_smaller = event.tokens_after < event.tokens_before and after != before
            freed = "" if is_smaller else "nothing freed, "
            return EventLine("", "context:", f"compacted, {freed}{before} → {after} tokens")
        case events.PlanKept():
            steps = plural(event.steps, "step")
            return EventLine("", "plan:", f"{steps}, in {one_line(event.path)}")
        case events.MemoryChanged(of_session=False):
            return EventLine("", "memory:", one_line(event.text))
        case events.Notice():
            word, style = NOTICES[event.level]
            return EventLine("", word, one_line(event.text), style=style)
    return None


def describe_call(event: events.ToolStarted | events.ToolFinished, width: int) -> EventLine:
    """Verb, subject and outcome of a call. On a narrow screen the subject is cut first: people look
    for the outcome. That of a refused call is the first sentence of the reason."""
    doing, did = tool_verbs(one_line(event.name))
    # A command says most at its beginning, a path at both ends.
    is_path = event.name not in ("shell", "delegate_tasks")
    if isinstance(event, events.ToolStarted):
        return _fit_line(EventLine("…", doing, event.subject), width, is_path=is_path)
    if event.refused:
        why = event.refusals[0].reason if event.refusals else event.text
        reason = re.split(r"(?<=\.)\s", one_line(why), maxsplit=1)[0]
        refused = EventLine("–", f"Denied: {doing.lower()}", event.subject, reason)
        return _fit_line(refused, width, is_path=is_path, subject_columns=width // 2)
    has_succeeded = event.exit_status == 0 and not event.failed and not event.refusals
    summary = "" if has_succeeded else one_line(event.summary)
    time = duration(event.duration_ms / 1000) if event.duration_ms >= 100 else ""
    outcome = " · ".join(filter(None, (summary, time)))
    has_failed = event.is_error or event.failed
    style = "error" if has_failed else "good"
    verb = did
    if event.is_error:  # it was not done
        verb = f"{'Stopped' if event.stopped else 'Failed'}: {doing.lower()}"
        outcome = time  # what went wrong stands below
    line = EventLine("✗" if has_failed else "●", verb, event.subject, outcome, style)
    return _fit_line(line, width, is_path=is_path)


def describe_calls(calls: Sequence[events.ToolFinished], width: int) -> EventLine:
    """Describes calls that only looked at something: each verb once, with its subjects."""
    if len(calls) == 1:
        return describe_call(calls[0], width)
    subjects: dict[str, list[str]] = {}
    for call in calls:
        subjects.setdefault(tool_verbs(one_line(call.name))[1], []).append(one_line(call.subject))
    text = " · ".join(f"{verb} {', '.join(names)}" for verb, names in subjects.items())
    return EventLine("●", clip(text, width), style="good")


def describe_agent(event: events.AgentProgress | events.AgentFinished, width: int) -> EventLine:
    """What a subagent is doing, or how it ended."""
    used = f"{duration(event.elapsed_s)} · {count(event.tokens)} tokens"
    verb = f"Agent {event.index + 1}:"
    if isinstance(event, events.AgentProgress):
        what = f"{one_line(event.goal)} · {event.activity}"
        return _fit_line(EventLine("…", verb, what, used), width)
    mark, style = ("●", "good") if event.status == "success" else ("✗", "error")
    return _fit_line(EventLine(mark, verb, event.goal, f"{event.status} · {used}", style), width)


def _fit_line(
    line: EventLine, width: int, *, is_path: bool = False, subject_columns: int = SUBJECT_COLUMNS
) -> EventLine:
    """Fits a line into `width` columns; up to `subject_columns` are kept for the subject before the
    outcome gets any."""
    subject, outcome = one_line(line.subject), one_line(line.outcome)
    verb = clip(line.verb, max(width - SUBJECT_COLUMNS, width // 2))
    free = width - cell_width(verb)
    if outcome:
        subject_needs = min(cell_width(subject) + 1, subject_columns)
        outcome = clip(outcome, min(free, max(free - subject_needs, width // 2)) - 3)
    free -= cell_width(outcome) + (4 if outcome else 1)
    subject = (clip_middle if is_path else clip)(subject, free) if free >= 4 else ""
    return EventLine(line.mark, verb, subject, outcome, line.style)


def summary_line(event: events.TurnEnded, waited_s: float, failed: int) -> str:
    """Returns one line about a turn: how long it worked, without waits for the person; what it cost
    and changed; how many calls were denied or failed. `/cost` has the rest."""
    changed, used, denied = len(event.files_changed), event.usage, len(event.refused)
    parts = (
        duration(max(event.duration_ms / 1000 - waited_s, 0.0)),
        money(event.cost_usd) if used.input_tokens or used.output_tokens else "",
        plural(changed, "file") + " changed" if changed else "",
        f"{denied} denied" if denied else "",
        f"{failed} failed" if failed else "",
    )
    return " · ".join(part for part in parts if part)


def evidence_line(event: events.TurnEnded) -> str:
    """Returns the checks since the last edit, with their results; "" if there is nothing to say."""
    runs = [check for check in event.checks if check.after_last_edit]
    if runs:
        ends = ("failed", "passed")
        return ", ".join(f"{one_line(run.command)} {ends[run.passed]}" for run in runs)
    return "not tested since the last edit" if event.checked == "not_since_last_edit" else ""


def describe_ending(event: events.TurnEnded) -> str:
    if event.status == "interrupted":
        return "Stopped. What next?"
    if event.status == "timeout":
        return f"Time limit reached. {event.error or 'Send `continue`, or raise --timeout.'}"
    return f"Error: {event.error or 'the turn failed for an unknown reason.'}"


def is_reported(event: events.ToolFinished, memory: str) -> bool:
    """Whether `memory`, the last line about memory, already tells what this call did."""
    beginning = one_line(memory)[:MIN_SAME_CHARS]
    return not event.is_error and bool(beginning) and one_line(event.summary).startswith(beginning)


def indent(text: str, limit: int, *, tail: bool = False) -> str:
    """Indents a text by two, cut to its first `limit` lines, or to its last ones with `tail`."""
    lines = [line.rstrip() for line in sanitize(text).strip("\n").split("\n")]
    if len(lines) > limit:
        rest = f"… {plural(len(lines) - limit, 'more line')}"
        lines = [rest, *lines[-limit:]] if tail else [*lines[:limit], rest]
    return "\n".join("  " + line for line in lines)
