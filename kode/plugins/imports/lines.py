"""Shared by readers of other agents' sessions: parsing JSON lines, and building messages.

A reader returns messages in order. This module matches calls and results: the results of a call
come right after it, wherever they were, and those without a call are dropped. A call without a
result stays: loading the session answers it, as for kode's own.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Any

from kode.plugin import (
    AnyEntry,
    CompactionEntry,
    Header,
    Import,
    MessageEntry,
    Part,
    Role,
    Thinking,
    ToolCall,
    ToolResult,
    Transcript,
    object_of,
    timestamp,
)

_NO_NAME = re.compile(r"[^A-Za-z0-9_-]")
MAX_NAME_CHARS = 64  # the longest name of a tool that vendors take
LOOKED_AT_LINES = 50  # agents say their folder and model at the beginning

Line = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Said:
    """A piece of a message. Neighbours with the same `group` form one message."""

    role: Role
    part: Part
    at: str
    group: str = ""
    model: str = ""


def read_lines(data: bytes) -> tuple[list[Line], int]:
    """The objects in a file of JSON lines, and the number of lines that are not objects."""
    found: list[Line] = []
    damaged = 0
    for line in filter(bytes.strip, data.split(b"\n")):
        value = object_of(line)
        if value is None:
            damaged += 1
        else:
            found.append(value)
    return found, damaged


def beginning(data: bytes) -> list[Line]:
    """The lines in which a file shows whose it is."""
    return read_lines(b"\n".join(data.split(b"\n", LOOKED_AT_LINES)[:LOOKED_AT_LINES]))[0]


def transcript_of(
    agent: str,
    session: str,
    entries: Sequence[AnyEntry],
    left_out: Mapping[str, int],
    *,
    cwd: str,
    model: str,
    provider: str,
) -> Transcript:
    """A session of another agent; `left_out` says what is missing in it, and how often."""
    header = Header(
        id="",
        created_at=entries[0].at if entries else "",
        cwd=cwd,
        model=model,
        provider=provider,
        imported_from=Import(agent=agent, session=session, file="", digest=""),
    )
    faults = tuple(f"{what}: {count}" for what, count in left_out.items() if count)
    return Transcript(header=header, entries=entries, faults=faults)


def texts(value: Any) -> str:
    """The text of a content: a string, or a list of parts with text."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return ""
    known = (part.get("text") for part in value if isinstance(part, dict))
    return "\n".join(text for text in known if isinstance(text, str))


def a_text(line: Line, name: str) -> str:
    """The value of a key that holds a text; "" for any other."""
    value = line.get(name)
    return value if isinstance(value, str) else ""


def time_of(line: Line, otherwise: str) -> str:
    """The time a line says it was written; `otherwise` if it says none."""
    at = a_text(line, "timestamp")
    try:
        datetime.fromisoformat(at)
    except ValueError:
        return otherwise
    return at


def first_time(lines: Iterable[Line]) -> str:
    """When a session began, by its lines; now if none says so."""
    return next((at for line in lines if (at := time_of(line, ""))), "") or timestamp()


def call_of(id: str, name: str, arguments: Any) -> ToolCall:
    """A call whose arguments are an object, as every provider requires."""
    given = object_of(arguments) if isinstance(arguments, str) else arguments
    if not isinstance(given, dict):
        given = {"input": arguments}
    known = _NO_NAME.sub("_", name)[:MAX_NAME_CHARS] or "unknown"
    return ToolCall(id=id, name=known, arguments=json.dumps(given, ensure_ascii=False))


@dataclass
class _Pairs:
    """The calls and results of a session."""

    results: dict[str, list[Said]] = field(default_factory=dict)
    """By call id, in order."""
    ids: set[str] = field(default_factory=set)

    def of(self, call: ToolCall) -> tuple[ToolCall, Said | None]:
        """The call under a unique id, and its result."""
        waiting = self.results.get(call.id, [])
        result = waiting.pop(0) if waiting else None
        id = call.id or "call"
        while id in self.ids:
            id += "_"
        self.ids.add(id)
        return ToolCall(id=id, name=call.name, arguments=call.arguments), result


def entries_of(said: Iterable[Said | CompactionEntry]) -> tuple[list[AnyEntry], int]:
    """The messages, and how many results had no call."""
    pieces = list(said)
    pairs = _Pairs()
    for piece in pieces:
        if isinstance(piece, Said) and isinstance(piece.part, ToolResult):
            pairs.results.setdefault(piece.part.call_id, []).append(piece)
    entries: list[AnyEntry] = []
    spoken = (piece for piece in pieces if not _is_result(piece))
    for _, group in groupby(spoken, _key):
        together = list(group)
        entries += [piece for piece in together if isinstance(piece, CompactionEntry)]
        if message := [piece for piece in together if isinstance(piece, Said)]:
            entries += _message(message, pairs)
    return entries, sum(map(len, pairs.results.values()))


def _is_result(piece: Said | CompactionEntry) -> bool:
    return isinstance(piece, Said) and isinstance(piece.part, ToolResult)


def _key(piece: Said | CompactionEntry) -> tuple[str, str]:
    return (piece.role, piece.group) if isinstance(piece, Said) else ("", piece.id)


def _message(group: list[Said], pairs: _Pairs) -> Iterator[AnyEntry]:
    """The message of a group, and the results of its calls."""
    first = group[0]
    parts: list[Part] = []
    answers: list[tuple[ToolCall, Said]] = []
    for piece in group:
        if not isinstance(piece.part, ToolCall):
            parts.append(piece.part)
            continue
        call, result = pairs.of(piece.part)
        parts.append(call)
        answers += [(call, result)] if result is not None else []
    is_answer = first.role == "assistant"
    calls = any(isinstance(part, ToolCall) for part in parts)
    yield MessageEntry(
        role=first.role,
        parts=tuple(parts),
        stop=("tool_calls" if calls else "end") if is_answer else None,
        model=first.model,
        at=first.at,
    )
    for call, result in answers:
        part = result.part
        assert isinstance(part, ToolResult)
        answer = ToolResult(call_id=call.id, name=call.name, text=part.text, is_error=part.is_error)
        yield MessageEntry(role="tool", parts=(answer,), at=result.at)


def thought(text: str, agent: str) -> Thinking:
    """Reasoning of a model of another agent: shown, never sent to a provider."""
    return Thinking(text=text, origin=agent)
