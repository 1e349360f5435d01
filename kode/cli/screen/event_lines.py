"""Events as short plain texts: the words of one line on the screen, without style.

Pure functions. `render` places them in the REPL, `run_render` elsewhere.
"""

import re

from kode.cli.screen.lines import cell_width, clip, clip_middle, count, duration, money, one_line
from kode.events import (
    AgentFinished,
    ContextReduced,
    MemoryChanged,
    Notice,
    PlanKept,
    RetryScheduled,
    ToolFinished,
    TurnEnded,
)
from kode.messages import plural
from kode.permissions.tool_names import verbs_of
from kode.plain_text import clean


def doing(name: str, subject: str, width: int) -> str:
    """What a running tool is doing: `Running pytest -q`."""
    verb = verbs_of(one_line(name))[0]
    return clip(f"{verb} {_subject(name, subject, width - len(verb) - 1)}".strip(), width)


def tool_line(event: ToolFinished, width: int) -> str:
    """Verb, subject, outcome, time in one line of at most `width` columns.

    On a narrow screen the subject is cut first: people look for the outcome.
    """
    # A failed call did not do it.
    verb = verbs_of(one_line(event.name))[0 if event.is_error else 1]
    ended_well = event.exit_status == 0 and not event.failed and not event.refusals
    summary = "" if ended_well else event.summary
    outcome = one_line(summary) or ("failed" if event.is_error else "")
    time = duration(event.duration_ms / 1000) if event.duration_ms >= 100 else ""
    end = "".join(f" · {part}" for part in (outcome, time) if part)
    end = clip(end, max(width - len(verb) - 8, width // 2))
    room = width - cell_width(verb) - cell_width(end) - 1
    subject = _subject(event.name, event.subject, room) if room >= 4 else ""
    return clip(f"{verb} {subject}".rstrip() + end, width)


def denied_line(event: ToolFinished, width: int) -> str:
    """The line about a call that did not run."""
    what = f"Denied: {verbs_of(one_line(event.name))[0].lower()} "
    room = max(width - cell_width(what), 8)
    return (what + _subject(event.name, event.subject, room)).rstrip()


def refused_line(event: ToolFinished, width: int) -> str:
    """The line about a call that a rule or the mode refused, with the first sentence of the
    reason."""
    why = event.refusals[0].reason if event.refusals else event.text
    reason = re.split(r"(?<=\.)\s", one_line(why), maxsplit=1)[0]
    return clip(f"{denied_line(event, width // 2 + 16)} · {reason}", width)


def refusal_text(event: ToolFinished) -> str:
    """Why a call was refused, and what would let it run."""
    return event.refusals[0].for_person if event.refusals else event.summary


def not_kept_lines(event: ToolFinished) -> list[str]:
    """What of a command's changes is not in the project, and why: a line for each reason that the
    person has not given."""
    return [
        refusal.for_person
        for refusal in event.refusals
        if refusal.not_kept and refusal.by not in ("person", "mode")
    ]


def _subject(name: str, subject: str, width: int) -> str:
    """A command is most telling at its beginning, a path at both ends."""
    shorten = clip if name in ("shell", "delegate_tasks") else clip_middle
    return shorten(one_line(subject), width)


def agent_line(event: AgentFinished, width: int) -> str:
    """A finished subagent in one line of at most `width` columns: at least a word of its goal."""
    end = f" · {event.status} · {duration(event.elapsed_s)} · {count(event.tokens)} tokens"
    head = f"Agent {event.index + 1}: "
    while end and len(head + end) > width - 12:
        end = end.rpartition(" · ")[0]
    return clip(head + clip(one_line(event.goal), width - len(head + end)) + end, width)


MIN_SAME_CHARS = 40  # enough of a fact to know it by
NOTICE_STYLE = {"info": "dim", "warning": "warning", "error": "error"}


def summary_line(event: TurnEnded) -> str:
    """What a turn used, in one line."""
    changed, used = len(event.files_changed), event.usage
    known = bool(used.input_tokens or used.output_tokens)
    thought = f" ({count(used.thinking_tokens)} thinking)" if used.thinking_tokens else ""
    parts = (
        duration(event.duration_ms / 1000),
        plural(event.steps, "step"),
        f"{count(used.input_tokens)} in, {count(used.output_tokens)} out{thought}" if known else "",
        money(event.cost_usd) if known else "",
        plural(changed, "file") + " changed" if changed else "",
    )
    return " · ".join(part for part in parts if part)


def evidence_line(event: TurnEnded) -> str:
    """What was checked since the last edit, with results; "" for nothing."""
    since = [check for check in event.checks if check.after_last_edit]
    parts = [
        f"{one_line(check.command)} {'passed' if check.passed else 'failed'}" for check in since
    ]
    if parts:
        return f"checked: {', '.join(parts)}"
    return "not checked since the last edit" if event.checked == "not_since_last_edit" else ""


def ending_line(event: TurnEnded) -> str:
    if event.status == "interrupted":
        return "Stopped. Progress is saved; tell kode what to do next."
    if event.status == "timeout":
        return f"Time limit reached. {event.error or 'Send `continue`, or raise --timeout.'}"
    return f"Error: {event.error or 'the turn failed for an unknown reason.'}"


def retry_line(event: RetryScheduled, said: str) -> str:
    """`said` is the previous reason: it is not repeated."""
    nth = f"attempt {event.attempt + 1} of {event.max_attempts}"
    why = f"{event.reason.rstrip('.')}. " if event.reason != said else ""
    return f"{why}Retrying in {duration(event.delay_s)} ({nth})."


def plan_line(event: PlanKept) -> str:
    return f"plan: {plural(event.steps, 'step')}, in {one_line(event.path)}"


def reduced_line(event: ContextReduced) -> str:
    what = "compacted" if event.kind == "compaction" else "old tool output dropped"
    before, after = count(event.tokens_before), count(event.tokens_after)
    freed = (
        "" if event.tokens_after < event.tokens_before and after != before else "nothing freed, "
    )
    return f"context: {what}, {freed}{before} → {after} tokens"


def memory_line(event: MemoryChanged, *, undo: bool) -> str:
    how = f" · /memory undo {event.change_id[:8]}" if undo and event.change_id else ""
    return f"memory: {one_line(event.text)}{how}"


def notice_line(event: Notice) -> str:
    return {"info": "", "warning": "Warning: ", "error": "Error: "}[event.level] + event.text


def mark(event: ToolFinished) -> tuple[str, str]:
    """The sign before a call's line, and its style."""
    if event.is_error:
        return "✗", "error"
    return ("✗", "warning") if event.failed else ("●", "good")


def is_reported(event: ToolFinished, memory: str) -> bool:
    """Whether the last line about memory already describes a call: one is enough."""
    said = one_line(memory)[:MIN_SAME_CHARS]
    return not event.is_error and bool(said) and one_line(event.summary).startswith(said)


def same_beginning(text: str, summary: str) -> bool:
    """Whether a summary is only the beginning of the text, cut."""
    said = one_line(summary).rstrip("…").rstrip()
    return bool(said) and one_line(text).startswith(said)


def indent(text: str, limit: int, *, tail: bool = False) -> str:
    """The first or last lines of a text, indented under the line they explain."""
    lines = [line.rstrip() for line in clean(text).strip("\n").split("\n")]
    if len(lines) > limit:
        rest = f"… {plural(len(lines) - limit, 'more line')}"
        lines = [rest, *lines[-limit:]] if tail else [*lines[:limit], rest]
    return "\n".join("  " + line for line in lines)
