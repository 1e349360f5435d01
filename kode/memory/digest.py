"""A session as text: its transcript for a model, and a short record that needs no model.

Undo and redo are messages of kode's own in it (`Text.source` of "note"), so both tell of them.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import PurePath

from kode import credentials
from kode.messages import (
    Message,
    Part,
    Text,
    ToolCall,
    ToolResult,
    calls_of,
    keep_ends,
    results_of,
    shorten,
    text_of,
)

MAX_TRANSCRIPT_CHARS = 24_000  # about 6,000 tokens: a few cents
MAX_PART_CHARS = 2_000  # a long message; more is a pasted text
MAX_RESULT_CHARS = 200  # enough to tell success from failure
MAX_RECORD_CHARS = 500  # several fit into a message
MAX_SUBJECT_CHARS = 60  # a path or the beginning of a command
MAX_SUBJECTS = 4
"""Of one kind of call in a record."""

_SOURCES_LEFT_OUT = ("memory", "opening")
_VERBS = {
    "read_file": "read",
    "write_file": "wrote",
    "edit_file": "edited",
    "str_replace_based_edit_tool": "edited",
    "apply_patch": "edited",
    "search_files": "searched for",
    "list_files": "listed",
    "shell": "ran",
    "fetch_url": "fetched",
    "delegate_tasks": "delegated",
}
"""For a reader; other tools are named as they are."""
_TOOLS_LEFT_OUT = frozenset(
    "todo memory history_search remember recall update_memory update_soul forget memory_list "
    "memory_read memory_write memory_patch memory_append".split()
)
"""A plan, and what memory's own tools did, is no news of a session."""
_SUBJECTS = ("command", "path", "pattern", "url", "query", "description", "name", "goal")
"""The arguments that say what a call is about, the most telling first."""
_PATCHED = re.compile(r"(?m)^\*\*\* (?:Add|Update|Delete) File: (.+)$")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]+")


def transcript(messages: Iterable[Message], *, max_chars: int = MAX_TRANSCRIPT_CHARS) -> str:
    """What was said and done, without memory's own text and without credentials. A longer session
    is cut in its middle."""
    lines = [line for message in messages for line in _lines(message)]
    return keep_ends(credentials.redact("\n".join(lines)), max_chars)


def record_of(messages: Sequence[Message], *, max_chars: int = MAX_RECORD_CHARS) -> str:
    """What was asked, what was changed and run, and how it ended, on a few lines of at most
    `max_chars` in all; "" if nothing was said."""
    requests = [text for m in messages if m.role == "user" and (text := text_of(m).strip())]
    answers = [text for m in messages if m.role == "assistant" and (text := text_of(m).strip())]
    if not requests and not answers:
        return ""
    lines = [f'Asked: "{_shorten(requests[0], 140)}"' if requests else ""]
    if len(requests) > 1:
        lines.append(f'Last asked, of {len(requests)} messages: "{_shorten(requests[-1], 80)}"')
    if work := _what_was_done(messages):
        lines.append(f"Done: {work}")
    lines += [_shorten(note, 100) for note in _notes(messages)[-2:]]
    lines.append(_ending(messages, answers))
    return keep_ends("\n".join(filter(None, lines)), max_chars)


def lines_of_turn(messages: Sequence[Message], clock: str, max_chars: int) -> tuple[str, str]:
    """A turn on two lines: what the person asked and what the agent did. `clock` is the time of day
    for a reader."""
    request = next((text_of(message) for message in messages if message.role == "user"), "")
    answer = next((text_of(m) for m in reversed(messages) if m.role == "assistant"), "")
    work = _what_was_done(messages) or (f"answered: {answer}" if answer.strip() else "no answer")
    user, agent = f"{clock}  user  ", f"{clock}  agent  "
    return (
        f'{user}"{_shorten(request, max_chars - len(user) - 2)}"',
        agent + _shorten(work, max_chars - len(agent)),
    )


def ran_a_tool(messages: Iterable[Message]) -> bool:
    """Whether a tool ran to its end in a session, so that it leaves a record."""
    results = (result for message in messages for result in results_of(message))
    return any(not result.cut and result.name not in _TOOLS_LEFT_OUT for result in results)


def _lines(message: Message) -> Iterable[str]:
    for part in message.parts:
        match part:
            case Text(text=text, source=source) if text.strip() and source not in _SOURCES_LEFT_OUT:
                yield f"{_speaker(message, source)}: {keep_ends(text.strip(), MAX_PART_CHARS)}"
            case ToolCall(name=name, arguments=arguments):
                yield f"  calls {name} {keep_ends(arguments, MAX_RESULT_CHARS)}"
            case ToolResult(name=name, text=text):
                outcome = "failed" if _has_failed(part) else "returned"
                yield f"  {name} {outcome}: {keep_ends(text.strip(), MAX_RESULT_CHARS)}"
            case _:
                pass


def _speaker(message: Message, source: str) -> str:
    if source in ("", "steering"):
        return "User" if message.role == "user" else "Assistant"
    return {"compaction": "Summary of what was said before"}.get(source, source.capitalize())


def _what_was_done(messages: Sequence[Message]) -> str:
    """The calls that ran, by kind: `edited a.py, b.py; ran pytest -q (exit status 1)`."""
    results = {result.call_id: result for message in messages for result in results_of(message)}
    kinds: dict[str, dict[str, str]] = defaultdict(dict)
    for call in (call for message in messages for call in calls_of(message)):
        result = results.get(call.id)
        if result is None or result.refusals or result.cut or call.name in _TOOLS_LEFT_OUT:
            continue
        for subject in _subjects(call):
            kinds[_VERBS.get(call.name, call.name)][subject] = _outcome(result)
    # What changed something says more than what was looked at.
    order = sorted(kinds, key=lambda kind: kind not in ("edited", "wrote", "ran"))
    return "; ".join(f"{kind} {_listed(kinds[kind])}".strip() for kind in order)


def _listed(subjects: dict[str, str]) -> str:
    some = [subject + outcome for subject, outcome in list(subjects.items())[:MAX_SUBJECTS]]
    more = len(subjects) - len(some)
    return ", ".join(filter(None, some)) + (f" and {more} more" if more else "")


def _subjects(call: ToolCall) -> list[str]:
    try:
        arguments = json.loads(call.arguments or "{}")
    except ValueError:
        return [""]
    if not isinstance(arguments, dict):
        return [""]
    if paths := _PATCHED.findall(str(arguments.get("input", ""))):
        return [_shorten(path, MAX_SUBJECT_CHARS) for path in paths]
    subject = next((str(arguments[name]) for name in _SUBJECTS if arguments.get(name)), "")
    if arguments.get("path") == subject and PurePath(subject).is_absolute():
        subject = PurePath(subject).name
    return [_shorten(subject, MAX_SUBJECT_CHARS)]


def _outcome(result: ToolResult) -> str:
    if result.exit_status is not None:
        return f" (exit status {result.exit_status})" if result.exit_status else ""
    return " (failed)" if result.is_error else ""


def _has_failed(result: ToolResult) -> bool:
    return result.is_error or bool(result.exit_status)


def _notes(messages: Iterable[Message]) -> list[str]:
    parts: Iterable[Part] = (part for message in messages for part in message.parts)
    return [
        part.text.strip("[]") for part in parts if isinstance(part, Text) and part.source == "note"
    ]


def _ending(messages: Sequence[Message], answers: Sequence[str]) -> str:
    last = next((m for m in reversed(messages) if m.role == "assistant"), None)
    if last is None:
        return "Ended without an answer."
    if last.stop not in (None, "end"):
        return f"Ended: {last.stop}."
    return f"Ended: {_shorten(answers[-1], 160)}" if answers else ""


def _shorten(text: str, max_chars: int) -> str:
    """On one line, without control characters and credentials."""
    plain = _CONTROL.sub(" ", credentials.redact(text)).encode(errors="replace").decode()
    return shorten(plain, max_chars)
