"""Shared by readers of other agents' sessions: parsing JSON lines, and building messages.

A reader returns pieces of messages in order. This module matches calls and results: the results of
a call come right after it, wherever they were, and those without a call are dropped. A call without
a result stays: loading the session answers it, as for kode's own.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from kode.plugin import (
    AnyEntry,
    CompactionEntry,
    MessageEntry,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Transcript,
    object_of,
)

Part = Text | Thinking | ToolCall | ToolResult

MAX_NAME_CHARS = 64  # the longest name of a tool that vendors take
HEAD_LINES = 50  # agents say whose a file is at its beginning


class Line(dict[str, Any]):
    """An object of another agent's file, in which a key may hold anything."""

    def text(self, key: str) -> str:
        """The value of a key that holds a text; "" for any other."""
        value = self.get(key)
        return value if isinstance(value, str) else ""

    def object(self, key: str) -> "Line":
        """The value of a key that holds an object; an empty one for any other."""
        value = self.get(key)
        return Line(value) if isinstance(value, dict) else Line()

    def objects(self, key: str) -> "list[Line]":
        """The objects in the list of a key."""
        value = self.get(key)
        items = value if isinstance(value, list) else ()
        return [Line(item) for item in items if isinstance(item, dict)]

    def texts(self, key: str) -> str:
        """The text of a content: a string, or a list of parts with text."""
        return self.text(key) or "\n".join(
            filter(None, (p.text("text") for p in self.objects(key)))
        )

    def time(self, otherwise: str) -> str:
        """The time it says it was written; `otherwise` if it says none."""
        at = self.text("timestamp")
        try:
            datetime.fromisoformat(at)
        except ValueError:
            return otherwise
        return at


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A piece of a message. Neighbours with the same `group` form one message."""

    role: Literal["user", "assistant", "tool"]
    part: Part
    at: str
    group: str = ""
    model: str = ""


def read_lines(path: Path) -> tuple[list[Line], int]:
    """The objects in a file of JSON lines, and the number of lines that are not objects. Raises:
    OSError."""
    values = [object_of(line) for line in path.read_bytes().split(b"\n") if line.strip()]
    lines = [Line(value) for value in values if value is not None]
    return lines, len(values) - len(lines)


def first_text(lines: Iterable[Line], key: str) -> str:
    """The first text that one of the lines has at a key; "" if none has."""
    return next(filter(None, (line.text(key) for line in lines)), "")


def first_time(lines: Iterable[Line]) -> str:
    """When a session began, by its lines; now if none says so."""
    return next(filter(None, (line.time("") for line in lines)), "") or datetime.now(UTC).isoformat(
        timespec="milliseconds"
    )


def build_transcript(
    id: str,
    pieces: Iterable[Piece | CompactionEntry],
    faults: Mapping[str, int],
    *,
    cwd: str,
    model: str,
    provider: str,
) -> Transcript:
    """A session of another agent, under its id there; `faults` says what is missing in it, and how
    often."""
    entries, orphans = entries_of(pieces)
    counted = {**faults, "results without a call, left out": orphans}
    lines = [f"{what}: {count}" for what, count in counted.items() if count]
    return Transcript.of_agent(entries, lines, id=id, cwd=cwd, model=model, provider=provider)


def make_call(id: str, name: str, arguments: Any) -> ToolCall:
    """A call whose arguments are an object, as every provider requires."""
    fields = object_of(arguments) if isinstance(arguments, str) else arguments
    if not isinstance(fields, dict):
        fields = {"input": arguments}
    allowed = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:MAX_NAME_CHARS] or "unknown"
    return ToolCall(id=id, name=allowed, arguments=json.dumps(fields, ensure_ascii=False))


def entries_of(pieces: Iterable[Piece | CompactionEntry]) -> tuple[list[AnyEntry], int]:
    """The messages, each call with a unique id and its result, and how many results had no call."""
    spoken: list[Piece | CompactionEntry] = []
    results: dict[str, list[tuple[ToolResult, str]]] = defaultdict(list)
    for piece in pieces:
        if isinstance(piece, Piece) and isinstance(piece.part, ToolResult):
            results[piece.part.call_id].append((piece.part, piece.at))
        else:
            spoken.append(piece)
    entries: list[AnyEntry] = []
    ids: set[str] = set()
    for _, group in groupby(spoken, _group_of):
        parts: list[Any] = []
        answers: list[AnyEntry] = []
        for piece in group:
            if isinstance(piece, CompactionEntry):
                entries.append(piece)
                continue
            part, first = piece.part, piece
            if isinstance(part, ToolCall):
                matching, part = results[part.id], _with_unique_id(part, ids)
                if matching:
                    result, at = matching.pop(0)
                    result = replace(result, call_id=part.id, name=part.name)
                    answers.append(MessageEntry(role="tool", parts=(result,), at=at))
            parts.append(part)
        if parts:
            reply = MessageEntry(
                role=first.role, parts=tuple(parts), stop="end", model=first.model, at=first.at
            )
            if first.role != "assistant":
                reply = replace(reply, stop=None)
            elif any(isinstance(part, ToolCall) for part in parts):
                reply = replace(reply, stop="tool_calls")
            entries.append(reply)
            entries += answers
    return entries, sum(map(len, results.values()))


def _group_of(piece: Piece | CompactionEntry) -> tuple[str, str]:
    return (piece.role, piece.group) if isinstance(piece, Piece) else ("", piece.id)


def _with_unique_id(call: ToolCall, ids: set[str]) -> ToolCall:
    id = call.id or "call"
    while id in ids:
        id += "_"
    ids.add(id)
    return replace(call, id=id)
