"""Exports a session as one document: JSON for programs, Markdown for people. Pure functions of what
`reading.read` returns."""

import json
from collections.abc import Sequence
from typing import Any

from kode.broken_json import object_of
from kode.messages import (
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    images_of,
    text_of,
)
from kode.session.entries import (
    AnyEntry,
    Header,
    MessageEntry,
    StateEntry,
    SystemEntry,
    TurnEntry,
    UsageEntry,
)
from kode.session.messages import effective, said, turns_of

MAX_DEPTH = 6
"""Nesting depth of call arguments; anything deeper stays JSON."""


def as_json(header: Header, entries: Sequence[AnyEntry]) -> dict[str, Any]:
    """The document of `kode session export --format json`. `messages` are all messages, the system
    prompt first, except trimmed and rewound ones."""
    kept = effective(entries)
    usage = Usage()
    cost_usd, is_known = 0.0, True
    for entry in entries:
        if isinstance(entry, MessageEntry | UsageEntry):
            usage += entry.usage or Usage()
        if isinstance(entry, TurnEntry | UsageEntry):
            cost_usd += entry.cost_usd or 0.0
            is_known &= entry.cost_usd is not None
    system = next((e.text for e in reversed(entries) if isinstance(e, SystemEntry)), "")
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    for message in said(kept):
        messages.extend(_messages(message))
    return {
        "id": header.id,
        "created_at": header.created_at,
        "updated_at": entries[-1].at if entries else header.created_at,
        "cwd": header.cwd,
        "model": header.model,
        "provider": header.provider,
        "parent": header.parent,
        "turns": turns_of(kept),
        "messages": messages,
        "buffer": _buffer(entries),
        "usage": {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cached_tokens": usage.cached_tokens,
        },
        "cost_usd": round(cost_usd, 6) if is_known else None,
    }


def as_markdown(header: Header, entries: Sequence[AnyEntry]) -> str:
    """A readable transcript of messages and calls, with long outputs cut."""
    lines = [f"# Session {header.id}", ""]
    lines += [f"{header.created_at} · {header.cwd} · {header.model}", ""]
    for message in said(entries):
        name = {"user": "You", "assistant": "kode", "tool": "Results"}[message.role]
        at = f" · {message.at} · {message.id}" if isinstance(message, MessageEntry) else ""
        lines += [f"## {name}{at}", ""]
        for part in message.parts:
            match part:
                case Text() if part.source:
                    lines += [f"*({part.source})*", "", part.text, ""]
                case Text():
                    lines += [part.text, ""]
                case ToolCall():
                    arguments = readable_arguments(part.arguments)
                    fence = _fence(arguments)
                    lines += [f"`{part.name}`", fence, arguments, fence, ""]
                case ToolResult():
                    fence = _fence(part.text)
                    lines += [f"{part.name}:", fence, part.text, fence, ""]
                case Image():
                    lines += [f"*(image: {part.description})*", ""]
                case Thinking():
                    pass
    return "\n".join(lines).rstrip() + "\n"


def readable_arguments(text: str) -> str:
    """The arguments of a call for a person: one per line, multi-line texts below their name.
    Anything that is not a JSON object stays as it is."""
    given = object_of(text)
    return "\n".join(_lines_of(given)) if given else text


def _lines_of(value: Any, depth: int = 0) -> list[str]:
    if isinstance(value, str):
        return value.rstrip("\n").split("\n")
    if not isinstance(value, dict | list) or depth > MAX_DEPTH:
        return [json.dumps(value, ensure_ascii=False)]
    lines: list[str] = []
    if isinstance(value, list):
        for one in value:
            first, *rest = _lines_of(one, depth + 1) or [""]
            lines += [f"- {first}", *(f"  {line}" for line in rest)]
        return lines
    for name, one in value.items():
        shown = _lines_of(one, depth + 1)
        alone = len(shown) == 1 and not isinstance(one, dict | list)
        lines += [f"{name}: {shown[0]}"] if alone else [f"{name}:", *(f"    {s}" for s in shown)]
    return lines


def _messages(message: Message) -> list[dict[str, Any]]:
    """One message as plain JSON; a tool message becomes one per result. Additions to a person's
    message by memory or attachments are in `added`; pictures are described without their bytes."""
    if message.role == "tool":
        return [
            {
                "role": "tool",
                "tool_call_id": part.call_id,
                "name": part.name,
                "content": part.text,
                "is_error": part.is_error,
            }
            for part in message.parts
            if isinstance(part, ToolResult)
        ]
    added = [(p.source, p.text) for p in message.parts if isinstance(p, Text) and p.source]
    plain: dict[str, Any] = {
        "role": message.role,
        "content": text_of(message) or "\n".join(text for _, text in added),
    }
    if added and text_of(message):
        plain["added"] = [{"source": source, "text": text} for source, text in added]
    pictures = [
        {"name": p.name, "media_type": p.media_type, "width": p.width, "height": p.height}
        for p in images_of(message)
    ]
    if pictures:
        plain["images"] = pictures
    calls = [
        {"id": part.id, "name": part.name, "arguments": part.arguments}
        for part in message.parts
        if isinstance(part, ToolCall)
    ]
    if calls:
        plain["tool_calls"] = calls
    return [plain]


def _buffer(entries: Sequence[AnyEntry]) -> list[str]:
    """The buffer of the memory system that has one; [] otherwise."""
    for entry in reversed(entries):
        if isinstance(entry, StateEntry) and isinstance(entry.state.get("buffer"), list):
            return [str(line) for line in entry.state["buffer"]]
    return []


def _fence(text: str) -> str:
    """A code fence that the text cannot close."""
    fence = "```"
    while fence in text:
        fence += "`"
    return fence
