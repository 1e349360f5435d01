"""Reads a session file of Claude Code (`~/.claude/projects/*/*.jsonl`): one event per line with its
parent's id, so the file is a tree. What counts is the path to its last message.

A model's message may be split over several lines; results are messages of the user.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from kode.plugin import (
    CompactionEntry,
    Text,
    Thinking,
    ToolResult,
    Transcript,
)
from kode.plugins.imports.lines import (
    HEAD_LINES,
    Line,
    Part,
    Piece,
    build_transcript,
    first_text,
    first_time,
    make_call,
    read_lines,
)

AGENT = "Claude Code"
_HARNESS = (
    "<command-name>",
    "<command-message>",
    "<local-command-",
    "<system-reminder>",
    "<task-notification>",
    "Caveat: ",
    "[Request interrupted",
)
"""Prefixes of user messages that no person wrote."""


def read(path: Path) -> Transcript | None:
    """The session in a file; None for one of somebody else. Raises: OSError."""
    lines, damaged = read_lines(path)
    if not any("sessionId" in line and "message" in line for line in lines[:HEAD_LINES]):
        return None
    spoken = [line for line in lines if _is_spoken(line)]
    ids = {"", *_path(lines)}
    # Results of parallel calls are siblings: only one is on the path, and all count.
    branch = [line for line in spoken if line.text("uuid") in ids or _has_result(line)]
    began = first_time(lines)
    models = [line.object("message").text("model") for line in branch]
    return build_transcript(
        first_text(lines, "sessionId"),
        (piece for line in branch for piece in _pieces(line, began)),
        {
            "damaged lines, skipped": damaged,
            "messages of abandoned branches, left out": len(spoken) - len(branch),
        },
        cwd=first_text(lines, "cwd"),
        model=next((model for model in models[::-1] if model and model[0] != "<"), ""),
        provider="anthropic",
    )


def _is_spoken(line: Line) -> bool:
    """Subagents have their own lines, the sidechains."""
    if line.get("isSidechain"):
        return False
    return line.get("type") in ("user", "assistant") or bool(_queued_text(line))


def _queued_text(line: Line) -> str:
    """What the person typed while the model worked; "" for any other line."""
    attachment = line.object("attachment")
    text = attachment.texts("prompt") if attachment.get("type") == "queued_command" else ""
    return "" if text.lstrip().startswith(_HARNESS) else text


def _path(lines: Sequence[Line]) -> set[str]:
    """The ids from the last message back to the first; a missing parent is replaced by the previous
    line."""
    numbers = {line.text("uuid"): number for number, line in enumerate(lines)}
    position = next((i for i in reversed(range(len(lines))) if _is_spoken(lines[i])), -1)
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


def _has_result(line: Line) -> bool:
    return any(block.get("type") == "tool_result" for block in _blocks(line))


def _blocks(line: Line) -> list[Line]:
    return line.object("message").objects("content")


def _pieces(line: Line, began: str) -> Iterator[Piece | CompactionEntry]:
    message, at, uuid = line.object("message"), line.time(began), line.text("uuid")
    if text := _queued_text(line):
        yield Piece(role="user", part=Text(text=text, source="steering"), at=at, group=uuid)
    if line.get("isCompactSummary"):
        yield CompactionEntry(summary=message.texts("content"), at=at)
        return
    is_answer = line.get("type") == "assistant"
    group = message.text("id") or uuid
    model = message.text("model") if is_answer else ""
    text = message.text("content")
    for block in [Line(type="text", text=text)] if text else _blocks(line):
        part = _part(block, line)
        if isinstance(part, ToolResult):
            yield Piece(role="tool", part=part, at=at)
        elif part is not None:
            yield Piece(
                role="assistant" if is_answer else "user",
                part=part,
                at=at,
                group=group,
                model=model,
            )


def _part(block: Line, line: Line) -> Part | None:
    """None for an empty block."""
    text = block.text("text")
    match block.get("type"):
        case "text" if text.strip():
            is_harness = bool(line.get("isMeta")) or text.lstrip().startswith(_HARNESS)
            is_note = is_harness and line.get("type") != "assistant"
            return Text(text=text, source="note" if is_note else "")
        case "thinking" if thinking := block.text("thinking"):
            return Thinking(text=thinking, origin=AGENT)  # never sent to a provider
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
