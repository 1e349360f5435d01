"""A session as text: its transcript for a model, and a short record that needs no model.

Undo and redo are messages of kode's own in it (`Text.source` of "note"), so both tell of them.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import PurePath

from kode import credentials
from kode.broken_json import object_of
from kode.messages import (
    Message,
    Text,
    ToolCall,
    ToolResult,
    calls_of,
    first_of,
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
_SPEAKERS = {"compaction": "Summary of what was said before"}
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
    requests, answers = _texts(messages, "user"), _texts(messages, "assistant")
    if not requests and not answers:
        return ""
    lines = [f'Asked: "{_shorten(requests[0], 140)}"'] if requests else []
    if requests[1:]:
        lines.append(f'Last asked, of {len(requests)} messages: "{_shorten(requests[-1], 80)}"')
    if work := describe_work(messages):
        lines.append(f"Done: {work}")
    parts = [part for message in messages for part in message.parts if isinstance(part, Text)]
    notes = [part.text.strip("[]") for part in parts if part.source == "note"]
    lines += [_shorten(note, 100) for note in notes[-2:]]
    stops = [message.stop for message in messages if message.role == "assistant"]
    if not stops:
        lines.append("Ended without an answer.")
    elif stops[-1] not in (None, "end"):
        lines.append(f"Ended: {stops[-1]}.")
    elif answers:
        lines.append(f"Ended: {_shorten(answers[-1], 160)}")
    return keep_ends("\n".join(lines), max_chars)


def lines_of_turn(messages: Sequence[Message], clock: str, max_chars: int) -> tuple[str, str]:
    """A turn on two lines: what the person asked and what the agent did. `clock` is the time of day
    for a reader."""
    requests, answers = _texts(messages, "user"), _texts(messages, "assistant")
    work = describe_work(messages) or (f"answered: {answers[-1]}" if answers else "no answer")
    user, agent = f"{clock}  user  ", f"{clock}  agent  "
    request = _shorten("".join(requests[:1]), max_chars - len(user) - 2)
    return f'{user}"{request}"', agent + _shorten(work, max_chars - len(agent))


def ran_a_tool(messages: Iterable[Message]) -> bool:
    """Whether a tool ran to its end in a session, so that it leaves a record."""
    results = (result for message in messages for result in results_of(message))
    return any(not result.cut and result.name not in _TOOLS_LEFT_OUT for result in results)


def describe_work(messages: Sequence[Message]) -> str:
    """The calls that ran, by kind: `edited a.py, b.py; ran pytest -q (exit status 1)`."""
    results = {result.call_id: result for message in messages for result in results_of(message)}
    kinds = defaultdict[str, dict[str, str]](dict)
    for call in (call for message in messages for call in calls_of(message)):
        result = results.get(call.id)
        if result is None or result.refusals or result.cut or call.name in _TOOLS_LEFT_OUT:
            continue
        failure = " (failed)" if result.is_error else ""
        if result.exit_status is not None:
            failure = f" (exit status {result.exit_status})" if result.exit_status else ""
        for subject in _subjects(call):
            kinds[_VERBS.get(call.name, call.name)][_shorten(subject, MAX_SUBJECT_CHARS)] = failure
    works = list[str]()
    # What changed something says more than what was looked at.
    for kind in sorted(kinds, key=lambda kind: kind not in ("edited", "wrote", "ran")):
        subjects = [subject + failure for subject, failure in kinds[kind].items()]
        works.append(
            f"{kind} {', '.join(first_of([*filter(None, subjects)], MAX_SUBJECTS))}".strip()
        )
    return "; ".join(works)


def _texts(messages: Iterable[Message], role: str) -> list[str]:
    texts = (text_of(message).strip() for message in messages if message.role == role)
    return [text for text in texts if text]


def _lines(message: Message) -> Iterable[str]:
    for part in message.parts:
        match part:
            case Text(text=text, source=source) if text.strip() and source not in _SOURCES_LEFT_OUT:
                speaker = _SPEAKERS.get(source, source.capitalize())
                if source in ("", "steering"):
                    speaker = "User" if message.role == "user" else "Assistant"
                yield f"{speaker}: {keep_ends(text.strip(), MAX_PART_CHARS)}"
            case ToolCall(name=name, arguments=arguments):
                yield f"  calls {name} {keep_ends(arguments, MAX_RESULT_CHARS)}"
            case ToolResult(name=name, text=text):
                outcome = "failed" if part.is_error or part.exit_status else "returned"
                yield f"  {name} {outcome}: {keep_ends(text.strip(), MAX_RESULT_CHARS)}"
            case _:
                pass


def _subjects(call: ToolCall) -> list[str]:
    """What a call is about: the files of a patch, else its most telling argument."""
    arguments = object_of(call.arguments) or {}
    if paths := _PATCHED.findall(str(arguments.get("input", ""))):
        return paths
    name = next((name for name in _SUBJECTS if arguments.get(name)), "")
    subject = str(arguments.get(name, ""))
    is_file = name == "path" and PurePath(subject).is_absolute()
    return [PurePath(subject).name if is_file else subject]


def _shorten(text: str, max_chars: int) -> str:
    """On one line, without control characters and credentials."""
    plain = _CONTROL.sub(" ", credentials.redact(text)).encode(errors="replace").decode()
    return shorten(plain, max_chars)
