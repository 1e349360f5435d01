"""A session as text: its transcript for a model, and a short record that needs no model. Both
mention undo and redo, which kode records as messages of its own (`Text.source` "note").
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain
from operator import attrgetter
from pathlib import PurePath

from kode import credentials
from kode.broken_json import object_of
from kode.memory.ask import cut_middle
from kode.messages import Message, Text, ToolCall, ToolResult, cut_list, shorten, text_of
from kode.plain_text import sanitize

MAX_TRANSCRIPT_CHARS = 24_000  # about 6,000 tokens: a few cents
MAX_PART_CHARS = 2_000  # a long message; more is a pasted text
MAX_RESULT_CHARS = 200  # enough to tell success from failure
MAX_RECORD_CHARS = 500  # several fit into a message
MAX_SUBJECT_CHARS = 60  # a path or the beginning of a command
MAX_SUBJECTS = 4
"""How many subjects of one kind of call a record names."""

_SOURCES_LEFT_OUT = ("memory", "opening")
_VERBS = {
    "read_file": "read",
    "write_file": "wrote",
    "edit_file": "edited",
    "str_replace_based_edit_tool": "edited",
    "apply_patch": "edited",
    "shell": "ran",
}
"""Tool → its verb for a reader; other tools keep their names."""
_CHANGES = frozenset(("edited", "wrote", "ran"))
"""Verbs of calls that change something. They say more than reads do, and come first."""
_TOOLS_LEFT_OUT = frozenset(
    "todo memory history_search remember recall update_memory update_soul forget memory_list "
    "memory_read memory_write memory_patch memory_append".split()
)
"""Plans, and calls of memory's own tools, are no news of a session."""
_SUBJECTS = ("command", "path", "pattern", "url", "query", "description", "name", "goal")
"""The arguments that say what a call is about, the most telling first."""
_PATCHED = re.compile(r"(?m)^\*\*\* (?:Add|Update|Delete) File: (.+)$")


def render_transcript(messages: Iterable[Message]) -> str:
    """Returns what was said and done, without memory's own text, credentials masked. A session over
    the limit loses its middle."""
    lines = list[str]()
    for role, part in ((message.role, part) for message in messages for part in message.parts):
        match part:
            case Text(text=text, source=source) if text.strip() and source not in _SOURCES_LEFT_OUT:
                speaker = (role if source in ("", "steering") else source).capitalize()
                lines.append(f"{speaker}: {cut_middle(text.strip(), MAX_PART_CHARS)}")
            case ToolCall(name=name, arguments=arguments):
                lines.append(f"  calls {name} {cut_middle(arguments, MAX_RESULT_CHARS)}")
            case ToolResult(name=name, text=text):
                outcome = "failed" if part.is_error or part.exit_status else "returned"
                lines.append(f"  {name} {outcome}: {cut_middle(text.strip(), MAX_RESULT_CHARS)}")
    return cut_middle(credentials.redact("\n".join(lines)), MAX_TRANSCRIPT_CHARS)


def record_of(messages: Sequence[Message]) -> str:
    """What was asked, what was changed and run, and how it ended, on a few lines; "" for a session
    in which no tool ran to its end."""
    work, request = describe_work(messages), _first_text(messages, "user")
    if not work:
        return ""
    lines = [f'Asked: "{_shorten(request, 140)}"'] if request else []
    parts = [part for message in messages for part in message.parts if isinstance(part, Text)]
    notes = [part.text.strip("[]") for part in parts if part.source == "note"]
    lines += [f"Done: {work}", *(_shorten(note, 100) for note in notes[-2:])]
    stop = [message.stop for message in messages if message.role == "assistant"][-1]
    answer = _shorten(_first_text(reversed(messages), "assistant"), 160)
    lines.append(f"Ended: {answer if stop in (None, 'end') else f'{stop}.'}")
    return cut_middle("\n".join(lines), MAX_RECORD_CHARS)


def summarize_turn(messages: Sequence[Message], clock: str, max_chars: int) -> tuple[str, str]:
    """A turn on two lines: what the person asked and what the agent did. `clock` is the time of day
    for a reader."""
    work = describe_work(messages)
    if not work:
        answer = _first_text(reversed(messages), "assistant")
        work = f"answered: {answer}" if answer else "no answer"
    user, agent = f"{clock}  user  ", f"{clock}  agent  "
    request = _shorten(_first_text(messages, "user"), max_chars - len(user) - 2)
    return f'{user}"{request}"', agent + _shorten(work, max_chars - len(agent))


def describe_work(messages: Sequence[Message]) -> str:
    """The calls that ran, by kind: `edited a.py, b.py; ran pytest -q (exit status 1)`."""
    kinds, calls = defaultdict[str, dict[str, str]](dict), dict[str, ToolCall]()
    for part in chain.from_iterable(map(attrgetter("parts"), messages)):
        if isinstance(part, ToolCall):
            calls[part.id] = part
        call = calls.pop(part.call_id, None) if isinstance(part, ToolResult) else None
        if call is None or part.refusals or part.cut or call.name in _TOOLS_LEFT_OUT:
            continue
        failure = f" (exit status {part.exit_status})" if part.exit_status else ""
        failure = failure or " (failed)" * (part.is_error and part.exit_status is None)
        for subject in _name_subjects(call):
            kinds[_VERBS.get(call.name, call.name)][_shorten(subject, MAX_SUBJECT_CHARS)] = failure
    texts = list[str]()
    for kind in sorted(kinds, key=_CHANGES.__contains__, reverse=True):
        names = cut_list([*filter(None, map("".join, kinds[kind].items()))], MAX_SUBJECTS)
        texts.append(f"{kind} {', '.join(names)}".strip())
    return "; ".join(texts)


def _first_text(messages: Iterable[Message], role: str) -> str:
    """The first text of a role; "" for none."""
    for message in messages:
        if message.role == role and (text := text_of(message).strip()):
            return text
    return ""


def _name_subjects(call: ToolCall) -> list[str]:
    """What a call is about: the files of a patch, else its most telling argument."""
    arguments = object_of(call.arguments) or {}
    if paths := _PATCHED.findall(str(arguments.get("input", ""))):
        return paths
    name = next(filter(arguments.get, _SUBJECTS), "")
    subject = str(arguments.get(name, ""))
    return [PurePath(subject).name if name == "path" and subject.startswith("/") else subject]


def _shorten(text: str, max_chars: int) -> str:
    """Returns a text on one line, without control characters and with credentials masked."""
    return shorten(sanitize(credentials.redact(text)), max_chars)
