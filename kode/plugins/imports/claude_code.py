"""Reads a session file of Claude Code (`~/.claude/projects/*/*.jsonl`): one event per line with its
parent's id, so the file is a tree. What counts is the path to its last message.

A model's message may be split over several lines; results are messages of the user.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from kode.plugin import CompactionEntry, Part, RewindEntry, Role, Text, ToolResult, Transcript
from kode.plugins.imports.lines import (
    Line,
    Said,
    a_text,
    beginning,
    call_of,
    entries_of,
    first_time,
    read_lines,
    texts,
    thought,
    time_of,
    transcript_of,
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


def _is_one(lines: Sequence[Line]) -> bool:
    return any("sessionId" in line and "message" in line for line in lines)


def read(path: Path) -> Transcript | None:
    """The session in a file; None for one of somebody else. Raises: OSError."""
    data = path.read_bytes()
    if not _is_one(beginning(data)):
        return None
    lines, damaged = read_lines(data)
    spoken = [line for line in lines if _is_spoken(line)]
    on_path = _on_path(lines, spoken)
    kept = [line for line in spoken if on_path(line)]
    began = first_time(lines)
    entries, orphans = entries_of(piece for line in kept for piece in _pieces(line, began))
    abandoned, more = entries_of(
        piece for line in spoken if not on_path(line) for piece in _pieces(line, began)
    )
    if abandoned:
        entries += [*abandoned, RewindEntry(to=abandoned[0].id, at=abandoned[-1].at)]
    models = [_message(line).get("model") for line in kept if line.get("type") == "assistant"]
    counts = {
        "damaged lines, skipped": damaged,
        "messages of abandoned branches, kept for a search only": len(abandoned),
        "results without a call, left out": orphans + more,
    }
    return transcript_of(
        AGENT,
        next((id for line in lines if (id := a_text(line, "sessionId"))), ""),
        entries,
        counts,
        cwd=next((cwd for line in lines if (cwd := a_text(line, "cwd"))), ""),
        model=next((m for m in reversed(models) if isinstance(m, str) and m[:1] != "<"), ""),
        provider="anthropic",
    )


def _is_spoken(line: Line) -> bool:
    """Subagents have their own lines, the sidechains."""
    if line.get("isSidechain"):
        return False
    return line.get("type") in ("user", "assistant") or bool(_queued_text(line))


def _queued_text(line: Line) -> str:
    """What the person typed while the model worked; "" for any other line."""
    attached = line.get("attachment")
    if not isinstance(attached, dict) or attached.get("type") != "queued_command":
        return ""
    text = texts(attached.get("prompt"))
    return "" if text.lstrip().startswith(_HARNESS) else text


def _on_path(lines: Sequence[Line], spoken: Sequence[Line]) -> Callable[[Line], bool]:
    """Whether a line is on the path from the last message back to the first. Results of parallel
    calls are siblings: only one is on the path, and all count."""
    path = _path(lines)
    calls = {
        a_text(block, "id")
        for line in spoken
        if a_text(line, "uuid") in path
        for block in _blocks(line)
        if block.get("type") == "tool_use"
    }

    def holds(line: Line) -> bool:
        uuid = a_text(line, "uuid")
        if not uuid or uuid in path:
            return True
        return any(a_text(block, "tool_use_id") in calls for block in _blocks(line))

    return holds


def _path(lines: Sequence[Line]) -> set[str]:
    """The ids from the last message back to the first; a missing parent is replaced by the previous
    line."""
    number = {line["uuid"]: i for i, line in enumerate(lines) if isinstance(line.get("uuid"), str)}
    position = next((i for i in reversed(range(len(lines))) if _is_spoken(lines[i])), -1)
    path: set[str] = set()
    while position >= 0:
        line = lines[position]
        path.add(a_text(line, "uuid"))
        parent = line.get("parentUuid") or line.get("logicalParentUuid")
        if parent is None and "parentUuid" in line and not _continues(line):
            break
        before = number.get(parent, position - 1) if isinstance(parent, str) else position - 1
        position = min(before, position - 1)
    return path


def _continues(line: Line) -> bool:
    """Whether a line without a parent still belongs to the conversation."""
    return bool(line.get("isCompactSummary")) or line.get("subtype") == "compact_boundary"


def _blocks(line: Line) -> list[Line]:
    content = _message(line).get("content")
    return [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []


def _message(line: Line) -> Mapping[str, object]:
    message = line.get("message")
    return message if isinstance(message, dict) else {}


def _pieces(line: Line, began: str) -> Iterator[Said | CompactionEntry]:
    message, at = _message(line), time_of(line, began)
    content = message.get("content")
    if text := _queued_text(line):
        said = Text(text=text, source="steering")
        yield Said(role="user", part=said, at=at, group=a_text(line, "uuid"))
    if line.get("isCompactSummary"):
        yield CompactionEntry(summary=texts(content), at=at)
        return
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else _blocks(line)
    is_answer = line.get("type") == "assistant"
    group = str(message.get("id") or line.get("uuid") or "")
    model = str(message.get("model") or "") if is_answer else ""
    for block in blocks:
        part = _part(block, line)
        if isinstance(part, ToolResult):
            yield Said(role="tool", part=part, at=at)
        elif part is not None:
            role: Role = "assistant" if is_answer else "user"
            yield Said(role=role, part=part, at=at, group=group, model=model)


def _part(block: Line, line: Line) -> Part | None:
    """None for an empty block."""
    text = a_text(block, "text")
    match block.get("type"):
        case "text" if text.strip():
            own = line.get("type") == "assistant" or not _is_harness(text, line)
            return Text(text=text, source="" if own else "note")
        case "thinking" if thinking := a_text(block, "thinking"):
            return thought(thinking, AGENT)
        case "tool_use":
            return call_of(a_text(block, "id"), a_text(block, "name"), block.get("input"))
        case "tool_result":
            return ToolResult(
                call_id=a_text(block, "tool_use_id"),
                name="",
                text=texts(block.get("content")),
                is_error=block.get("is_error") is True,
            )
        case "image":
            return Text(text="[An image was shown here.]", source="note")
    return None


def _is_harness(text: str, line: Line) -> bool:
    return bool(line.get("isMeta")) or text.lstrip().startswith(_HARNESS)
