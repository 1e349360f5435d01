"""Reads a session file of Codex (`~/.codex/sessions/**/rollout-*.jsonl`): one item of the
conversation per line, in a wrapper with the kind of line."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from kode.plugin import CompactionEntry, Text, Thinking, ToolResult, Transcript
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
_CALLS = {"function_call": "arguments", "custom_tool_call": "input", "local_shell_call": "action"}
"""Type of a call → the key of its arguments; results are of type `TYPE_output`."""


def read(path: Path) -> Transcript | None:
    """The session in a file; None for one of somebody else. Raises: OSError."""
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
        _pieces(items, model),
        {"damaged lines, skipped": damaged},
        cwd=first_text([*meta, *contexts], "cwd"),
        model=model,
        provider="openai",
    )


def _pieces(
    items: Iterable[tuple[str, Line, str]], model: str
) -> Iterator[Piece | CompactionEntry]:
    """`items` are the kind of each line, its content, and its time."""
    step = 0
    # The model's items between two results are one message.
    for kind, item, at in items:
        if kind == "compacted":
            yield CompactionEntry(summary=item.text("message"), at=at)
        is_message = item.get("type") == "message"
        if kind != "response_item" or (
            is_message and item.get("role") not in ("user", "assistant")
        ):
            continue  # such a message has instructions of Codex itself
        for part in _parts(item):
            if isinstance(part, ToolResult):
                step += 1
                yield Piece(role="tool", part=part, at=at)
            elif is_message and item.get("role") == "user":
                yield Piece(role="user", part=part, at=at, group=at)
            else:
                yield Piece(role="assistant", part=part, at=at, group=str(step), model=model)


def _parts(item: Line) -> Iterator[Part]:
    kind, call_id = item.text("type"), item.text("call_id")
    if kind == "message":
        for block in item.objects("content"):
            text = block.text("text")
            is_harness = item.get("role") == "user" and text.lstrip().startswith(_HARNESS)
            if text.strip():
                yield Text(text=text, source="note" if is_harness else "")
            elif block.get("type") == "input_image":
                yield Text(text="[An image was shown here.]", source="note")
    elif kind == "reasoning":
        if text := item.texts("summary") or item.texts("content"):
            yield Thinking(text=text, origin=AGENT)  # never sent to a provider
    elif kind in _CALLS:
        name = "local_shell" if kind == "local_shell_call" else item.text("name")
        yield make_call(call_id or item.text("id"), name, item.get(_CALLS[kind]))
    elif kind.removesuffix("_output") in _CALLS:
        output = item.object("output")
        text = output.texts("content") if output else item.texts("output")
        is_error = output.get("success") is False
        yield ToolResult(call_id=call_id, name="", text=text, is_error=is_error)
