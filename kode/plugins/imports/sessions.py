"""Reads the session files of other agents: JSON lines → pieces of messages in order → a transcript.

A result is moved to right after its call, wherever the file has it; results without a call are
dropped. A call without a result stays: loading the session adds one, as in sessions of kode.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
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


class ForeignLine(dict[str, Any]):
    """A JSON object from another agent's file, in which any key may be missing or of any type."""

    def text(self, key: str) -> str:
        """The text under a key; "" if there is none."""
        value = self.get(key)
        return value if isinstance(value, str) else ""

    def object(self, key: str) -> "ForeignLine":
        """The object under a key; an empty one if there is none."""
        value = self.get(key)
        return ForeignLine(value) if isinstance(value, dict) else ForeignLine()

    def objects(self, key: str) -> "list[ForeignLine]":
        """The objects in the list under a key; other items are skipped."""
        value = self.get(key)
        items = value if isinstance(value, list) else ()
        return [ForeignLine(item) for item in items if isinstance(item, dict)]

    def texts(self, key: str) -> str:
        """The text under a key, which holds a string, or a list of parts with texts to join."""
        return self.text(key) or "\n".join(
            filter(None, (p.text("text") for p in self.objects(key)))
        )

    def time(self, otherwise: str) -> str:
        """The line's timestamp in ISO format; `otherwise` if there is no valid one."""
        at = self.text("timestamp")
        try:
            datetime.fromisoformat(at)
        except ValueError:
            return otherwise
        return at


@dataclass(frozen=True, kw_only=True)
class MessagePiece:
    """A piece of a message. Neighbours with the same `group` form one message."""

    role: Literal["user", "assistant", "tool"]
    part: Part
    at: str
    group: str = ""
    model: str = ""


def read_lines(path: Path) -> tuple[list[ForeignLine], int]:
    """The objects in a file of JSON lines, and the number of lines that are not objects. Raises:
    OSError."""
    values = [object_of(line) for line in path.read_bytes().split(b"\n") if line.strip()]
    lines = [ForeignLine(value) for value in values if value is not None]
    return lines, len(values) - len(lines)


def first_text(lines: Iterable[ForeignLine], key: str) -> str:
    """The first non-empty text under this key in any of the lines; "" if none has one."""
    return next(filter(None, (line.text(key) for line in lines)), "")


def first_time(lines: Iterable[ForeignLine]) -> str:
    """When a session began: the first timestamp in its lines, or now if none has one."""
    return next(filter(None, (line.time("") for line in lines)), "") or datetime.now(UTC).isoformat(
        timespec="milliseconds"
    )


def build_transcript(
    id: str,
    pieces: Iterable[MessagePiece | CompactionEntry],
    faults: Mapping[str, int],
    *,
    cwd: str,
    model: str,
    provider: str,
) -> Transcript:
    """Builds the transcript of another agent's session, with the id that it has there. `faults` are
    what was left out, in words → how often."""
    entries, orphans = build_entries(pieces)
    counted = {**faults, "results without a call, left out": orphans}
    lines = [f"{what}: {count}" for what, count in counted.items() if count]
    return Transcript.of_agent(entries, lines, id=id, cwd=cwd, model=model, provider=provider)


def make_call(id: str, name: str, arguments: Any) -> ToolCall:
    """A call with a valid name and an object as arguments, as every provider requires."""
    fields = object_of(arguments) if isinstance(arguments, str) else arguments
    if not isinstance(fields, dict):
        fields = {"input": arguments}
    allowed = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:MAX_NAME_CHARS] or "unknown"
    return ToolCall(id=id, name=allowed, arguments=json.dumps(fields, ensure_ascii=False))


def build_entries(pieces: Iterable[MessagePiece | CompactionEntry]) -> tuple[list[AnyEntry], int]:
    """The messages, with unique ids of calls and results in place; the count of orphan results."""
    spoken: list[MessagePiece | CompactionEntry] = []
    results: dict[str, list[tuple[ToolResult, str]]] = defaultdict(list)
    for piece in pieces:
        if isinstance(piece, MessagePiece) and isinstance(piece.part, ToolResult):
            results[piece.part.call_id].append((piece.part, piece.at))
        else:
            spoken.append(piece)
    entries: list[AnyEntry] = []
    ids: set[str] = set()
    for _, group in groupby(spoken, _group_key):
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
            has_calls = any(isinstance(part, ToolCall) for part in parts)
            reply = MessageEntry(
                role=first.role,
                parts=tuple(parts),
                stop=("tool_calls" if has_calls else "end") if first.role == "assistant" else None,
                model=first.model,
                at=first.at,
            )
            entries += [reply, *answers]
    return entries, sum(map(len, results.values()))


def _group_key(piece: MessagePiece | CompactionEntry) -> tuple[str, str]:
    return (piece.role, piece.group) if isinstance(piece, MessagePiece) else ("", piece.id)


def _with_unique_id(call: ToolCall, ids: set[str]) -> ToolCall:
    id = call.id or "call"
    while id in ids:
        id += "_"
    ids.add(id)
    return replace(call, id=id)


# ── Claude Code ──────────────────────────────────────────────────────────────────────────────────
#
# `~/.claude/projects/*/*.jsonl`: one event per line with its parent's id, so the file is a tree.
# Only the path to the last message counts. A model's message may be split over several lines;
# results are messages of the user.

_CLAUDE_CODE = "Claude Code"
_CLAUDE_HARNESS = (
    "<command-name>",
    "<command-message>",
    "<local-command-",
    "<system-reminder>",
    "<task-notification>",
    "Caveat: ",
    "[Request interrupted",
)
"""Prefixes of user messages that no person wrote."""


def read_claude_code(path: Path) -> Transcript | None:
    """The session in a file; None if it is no file of Claude Code. Raises: OSError."""
    lines, damaged = read_lines(path)
    if not any("sessionId" in line and "message" in line for line in lines[:HEAD_LINES]):
        return None
    spoken = [line for line in lines if _is_main_message(line)]
    ids = {"", *_find_thread_ids(lines)}
    # Results of parallel calls are siblings: all count, though only one is on the path.
    branch = [line for line in spoken if line.text("uuid") in ids or _has_result(line)]
    began = first_time(lines)
    models = [line.object("message").text("model") for line in branch]
    return build_transcript(
        first_text(lines, "sessionId"),
        (piece for line in branch for piece in _read_claude_line(line, began)),
        {
            "damaged lines, skipped": damaged,
            "messages of abandoned branches, left out": len(spoken) - len(branch),
        },
        cwd=first_text(lines, "cwd"),
        model=next((model for model in models[::-1] if model and model[0] != "<"), ""),
        provider="anthropic",
    )


def _is_main_message(line: ForeignLine) -> bool:
    """Whether a line is a message of the main conversation, not of a subagent (a sidechain)."""
    if line.get("isSidechain"):
        return False
    return line.get("type") in ("user", "assistant") or bool(_queued_text(line))


def _queued_text(line: ForeignLine) -> str:
    """What the person typed while the model worked; "" for any other line."""
    attachment = line.object("attachment")
    text = attachment.texts("prompt") if attachment.get("type") == "queued_command" else ""
    return "" if text.lstrip().startswith(_CLAUDE_HARNESS) else text


def _find_thread_ids(lines: Sequence[ForeignLine]) -> set[str]:
    """The ids on the path from the last message back to the first. If a parent is missing, the path
    continues at the previous line."""
    numbers = {line.text("uuid"): number for number, line in enumerate(lines)}
    position = next((i for i in reversed(range(len(lines))) if _is_main_message(lines[i])), -1)
    path: set[str] = set()
    while position >= 0:
        line = lines[position]
        path.add(line.text("uuid"))
        parent = line.text("parentUuid") or line.text("logicalParentUuid")
        # A line without a parent belongs to the conversation if it is about a compaction.
        is_compaction = line.get("isCompactSummary") or line.get("subtype") == "compact_boundary"
        if not parent and "parentUuid" in line and not is_compaction:
            break
        position = min(numbers.get(parent, position - 1) if parent else position - 1, position - 1)
    return path


def _has_result(line: ForeignLine) -> bool:
    return "tool_result" in [it.get("type") for it in line.object("message").objects("content")]


def _read_claude_line(line: ForeignLine, began: str) -> Iterator[MessagePiece | CompactionEntry]:
    message, at, uuid = line.object("message"), line.time(began), line.text("uuid")
    if text := _queued_text(line):
        yield MessagePiece(role="user", part=Text(text=text, source="steering"), at=at, group=uuid)
    if line.get("isCompactSummary"):
        yield CompactionEntry(summary=message.texts("content"), at=at)
        return
    is_answer = line.get("type") == "assistant"
    group = message.text("id") or uuid
    model = message.text("model") if is_answer else ""
    text = message.text("content")
    for block in [ForeignLine(type="text", text=text)] if text else message.objects("content"):
        part = _convert_claude_block(block, line)
        if isinstance(part, ToolResult):
            yield MessagePiece(role="tool", part=part, at=at)
        elif part is not None:
            yield MessagePiece(
                role="assistant" if is_answer else "user",
                part=part,
                at=at,
                group=group,
                model=model,
            )


def _convert_claude_block(block: ForeignLine, line: ForeignLine) -> Part | None:
    """The part that a block becomes; None for an empty or unknown block."""
    text = block.text("text")
    match block.get("type"):
        case "text" if text.strip():
            is_harness = bool(line.get("isMeta")) or text.lstrip().startswith(_CLAUDE_HARNESS)
            is_note = is_harness and line.get("type") != "assistant"
            return Text(text=text, source="note" if is_note else "")
        case "thinking" if thinking := block.text("thinking"):
            return Thinking(text=thinking, origin=_CLAUDE_CODE)  # never sent to a provider
        case "tool_use":
            return make_call(block.text("id"), block.text("name"), block.get("input"))
        case "tool_result":
            return ToolResult(
                call_id=block.text("tool_use_id"),
                name="",
                text=block.texts("content"),
                is_error=block.get("is_error") is True,
            )
        case "image":
            return Text(text="[An image was shown here.]", source="note")
    return None


# ── Codex ────────────────────────────────────────────────────────────────────────────────────────
#
# `~/.codex/sessions/**/rollout-*.jsonl`: one item of the conversation per line, in a wrapper with
# the kind of line.

_CODEX = "Codex"
_CODEX_HARNESS = (
    "<environment_context>",
    "<user_instructions>",
    "<turn_aborted>",
    "<permissions instructions>",
    "<skill>",
    "<INSTRUCTIONS>",
    "# AGENTS.md instructions",
)
"""Prefixes of user messages that no person wrote."""
_WRAPPERS = ("session_meta", "response_item", "turn_context", "event_msg", "compacted")
_CALLS = {"function_call": "arguments", "custom_tool_call": "input", "local_shell_call": "action"}
"""Type of a call → the key of its arguments; results are of type `TYPE_output`."""


def read_codex(path: Path) -> Transcript | None:
    """The session in a file; None if it is no file of Codex. Raises: OSError."""
    lines, damaged = read_lines(path)
    if not any(line.get("type") in _WRAPPERS and "payload" in line for line in lines[:HEAD_LINES]):
        return None
    at = first_time(lines)
    items = [(line.text("type"), line.object("payload"), at := line.time(at)) for line in lines]
    meta = [item for kind, item, _ in items if kind == "session_meta"]
    contexts = [item for kind, item, _ in items if kind == "turn_context"]
    model = first_text(contexts[::-1], "model")
    return build_transcript(
        first_text(meta, "id"),
        _read_codex_items(items, model),
        {"damaged lines, skipped": damaged},
        cwd=first_text([*meta, *contexts], "cwd"),
        model=model,
        provider="openai",
    )


def _read_codex_items(
    items: Iterable[tuple[str, ForeignLine, str]], model: str
) -> Iterator[MessagePiece | CompactionEntry]:
    """Converts items: the kind of each line, its payload, and its time."""
    step = 0
    # The model's items between two results are one message.
    for kind, item, at in items:
        if kind == "compacted":
            yield CompactionEntry(summary=item.text("message"), at=at)
        is_message = item.get("type") == "message"
        if kind != "response_item" or (
            is_message and item.get("role") not in ("user", "assistant")
        ):
            continue  # messages of other roles are Codex's own instructions
        for part in _convert_codex_item(item):
            if isinstance(part, ToolResult):
                step += 1
                yield MessagePiece(role="tool", part=part, at=at)
            elif is_message and item.get("role") == "user":
                yield MessagePiece(role="user", part=part, at=at, group=at)
            else:
                yield MessagePiece(role="assistant", part=part, at=at, group=str(step), model=model)


def _convert_codex_item(item: ForeignLine) -> Iterator[Part]:
    kind, call_id = item.text("type"), item.text("call_id")
    if kind == "message":
        for block in item.objects("content"):
            text = block.text("text")
            is_harness = item.get("role") == "user" and text.lstrip().startswith(_CODEX_HARNESS)
            if text.strip():
                yield Text(text=text, source="note" if is_harness else "")
            elif block.get("type") == "input_image":
                yield Text(text="[An image was shown here.]", source="note")
    elif kind == "reasoning":
        if text := item.texts("summary") or item.texts("content"):
            yield Thinking(text=text, origin=_CODEX)  # never sent to a provider
    elif kind in _CALLS:
        name = "local_shell" if kind == "local_shell_call" else item.text("name")
        yield make_call(call_id or item.text("id"), name, item.get(_CALLS[kind]))
    elif kind.removesuffix("_output") in _CALLS:
        output = item.object("output")
        text = output.texts("content") if output else item.texts("output")
        is_error = output.get("success") is False
        yield ToolResult(call_id=call_id, name="", text=text, is_error=is_error)
