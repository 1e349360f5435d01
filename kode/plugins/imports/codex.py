"""Reads a session file of Codex (`~/.codex/sessions/**/rollout-*.jsonl`): one item of the
conversation per line, in a wrapper with the kind of line; the oldest have no wrapper."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kode.plugin import CompactionEntry, Part, Text, ToolResult, Transcript
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

AGENT = "Codex"
_HARNESS = (
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


def _is_one(lines: Sequence[Line]) -> bool:
    wrapped = any(line.get("type") in _WRAPPERS and "payload" in line for line in lines)
    return wrapped or any("id" in line and "instructions" in line for line in lines[:1])


def read(path: Path) -> Transcript | None:
    """The session in a file; None for one of somebody else. Raises: OSError."""
    data = path.read_bytes()
    if not _is_one(beginning(data)):
        return None
    lines, damaged = read_lines(data)
    items = list(_unwrap(lines, first_time(lines)))
    meta = next((item for kind, item, _ in items if kind == "session_meta"), {})
    contexts = [item for kind, item, _ in items if kind == "turn_context"]
    model = next((m for context in reversed(contexts) if (m := a_text(context, "model"))), "")
    folders = (a_text(one, "cwd") for one in (meta, *contexts))
    entries, orphans = entries_of(_pieces(items, model))
    counts = {
        "damaged lines, skipped": damaged,
        "results without a call, left out": orphans,
    }
    return transcript_of(
        AGENT,
        a_text(meta, "id"),
        entries,
        counts,
        cwd=next(filter(None, folders), ""),
        model=model,
        provider="openai",
    )


_Item = tuple[str, Line, str]
"""The kind of a line, its content, and its time."""


def _unwrap(lines: Iterable[Line], at: str) -> Iterator[_Item]:
    for line in lines:
        at = time_of(line, at)
        payload = line.get("payload")
        if isinstance(payload, dict):
            yield a_text(line, "type"), payload, at
        elif "type" in line:
            yield "response_item", line, at
        elif "id" in line:
            yield "session_meta", line, at


def _pieces(items: Iterable[_Item], model: str) -> Iterator[Said | CompactionEntry]:
    step = 0
    # The model's items between two results are one message.
    for kind, item, at in items:
        if kind == "compacted":
            yield CompactionEntry(summary=a_text(item, "message"), at=at)
        if kind != "response_item":
            continue
        is_users = item.get("type") == "message" and item.get("role") == "user"
        if item.get("type") == "message" and item.get("role") not in ("user", "assistant"):
            continue  # instructions of Codex itself
        for part in _parts(item):
            if isinstance(part, ToolResult):
                step += 1
                yield Said(role="tool", part=part, at=at)
            elif is_users:
                yield Said(role="user", part=part, at=at, group=at)
            else:
                yield Said(role="assistant", part=part, at=at, group=str(step), model=model)


def _parts(item: Line) -> Iterator[Part]:
    call_id = a_text(item, "call_id") or a_text(item, "id")
    match item.get("type"):
        case "message":
            is_users = item.get("role") == "user"
            content = item.get("content")
            for block in content if isinstance(content, list) else ():
                text = a_text(block, "text") if isinstance(block, dict) else ""
                harness = is_users and text.lstrip().startswith(_HARNESS)
                if text.strip():
                    yield Text(text=text, source="note" if harness else "")
                elif isinstance(block, dict) and block.get("type") == "input_image":
                    yield Text(text="[An image was shown here.]", source="note")
        case "reasoning":
            if said := texts(item.get("summary")) or texts(item.get("content")):
                yield thought(said, AGENT)
        case "function_call":
            yield call_of(call_id, a_text(item, "name"), item.get("arguments"))
        case "custom_tool_call":
            yield call_of(call_id, a_text(item, "name"), item.get("input"))
        case "local_shell_call":
            yield call_of(call_id, "local_shell", item.get("action"))
        case "function_call_output" | "custom_tool_call_output" | "local_shell_call_output":
            text, failed = _output(item.get("output"))
            yield ToolResult(call_id=a_text(item, "call_id"), name="", text=text, is_error=failed)


def _output(output: Any) -> tuple[str, bool]:
    if isinstance(output, dict):
        return texts(output.get("content")), output.get("success") is False
    return texts(output), False
