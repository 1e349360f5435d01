"""Exports a session as one document: JSON for programs, Markdown for people. Pure functions of a
`Transcript`."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from kode.broken_json import object_of
from kode.messages import Image, Message, Text, images_of, text_of
from kode.plain_text import clean
from kode.session.entries import AnyEntry, MessageEntry, StateEntry, SystemEntry, TurnEntry
from kode.session.messages import effective, turns_of
from kode.session.spending import Spending
from kode.session.transcript import Call, Item, Transcript

MAX_DEPTH = 6
"""Nesting depth of call arguments; anything deeper stays JSON."""


def as_json(transcript: Transcript) -> dict[str, Any]:
    """The document of `kode session export --format json`. `messages` are all messages, the system
    prompt first, except trimmed and rewound ones."""
    header, entries = transcript.header, transcript.entries
    spent = Spending.of(entries).total
    system = next((e.text for e in reversed(entries) if isinstance(e, SystemEntry)), "")
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    for message, item, answered in _messages(transcript):
        messages.append(_message(message, item.calls))
        messages += map(_result, answered)
    return {
        "id": header.id,
        "created_at": header.created_at,
        "updated_at": entries[-1].at if entries else header.created_at,
        "cwd": header.cwd,
        "model": header.model,
        "provider": header.provider,
        "parent": header.parent,
        "forked_from": None if header.forked_from is None else asdict(header.forked_from),
        "turns": turns_of(effective(entries)),
        "messages": messages,
        "buffer": _buffer(entries),
        "usage": {
            "input_tokens": spent.usage.input_tokens,
            "output_tokens": spent.usage.output_tokens,
            "cached_tokens": spent.usage.cached_tokens,
        },
        "cost_usd": None if spent.unpriced else round(spent.cost_usd, 6),
        "warnings": list(transcript.faults),
    }


def as_markdown(transcript: Transcript) -> str:
    """A readable transcript of messages and calls, each call with its result; nothing in it
    controls a terminal."""
    header = transcript.header
    lines = [f"# Session {header.id}", ""]
    lines += [f"{header.created_at} · {header.cwd} · {header.model}", ""]
    if (origin := header.forked_from) is not None:
        lines += [f"A fork of session {origin.session}, at {origin.entry or 'its end'}.", ""]
    for message, item, answered in _messages(transcript):
        author = "You" if message.role == "user" else "kode"
        lines += [f"## {author} · {message.at} · {message.id}", ""]
        for part in item.parts:
            match part:
                case Text():
                    lines += [f"*({part.source})*", ""] if part.source else []
                    lines += [part.text, ""]
                case Call(call=call):
                    lines += [f"`{call.name}`", *_fence(_readable_arguments(call.arguments))]
                    if part in answered:
                        lines += ["Result:", *_fence(part.answer.text)]
                        lines += map(_describe, part.pictures)
                case Image():
                    lines.append(_describe(part))
    end = next((e for e in reversed(transcript.entries) if isinstance(e, TurnEntry)), None)
    if end is not None and end.error:
        lines.append(f"*(the turn ended: {end.status}. {end.error})*")
    return clean("\n".join(lines).rstrip()) + "\n"


def _messages(transcript: Transcript) -> Iterator[tuple[MessageEntry, Item, list[Call]]]:
    """Each message, and those of its calls that have a result: the last one's may still run."""
    messages = list(transcript.messages)
    for number, (message, item) in enumerate(messages, 1):
        is_last = number == len(messages)
        yield message, item, [call for call in item.calls if call.message or not is_last]


def _describe(picture: Image) -> str:
    return f"*(image: {picture.description})*\n"


def _fence(text: str) -> tuple[str, ...]:
    """In a code fence that the text cannot close."""
    fence = "```"
    while fence in text:
        fence += "`"
    return fence, text, fence, ""


def _readable_arguments(text: str) -> str:
    """The arguments of a call for a person: one per line, multi-line texts below their name.
    Anything that is not a JSON object stays as it is."""
    arguments = object_of(text)
    return "\n".join(_lines_of("", arguments)) if arguments else text


def _lines_of(name: str, value: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(value, dict | list) and value and depth <= MAX_DEPTH:
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _lines_of(f"{name}.{key}" if name else str(key), item, depth + 1)
    else:
        plain = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield f"{name}:\n{plain}" if "\n" in plain else f"{name}: {plain}"


def _result(call: Call) -> dict[str, Any]:
    return {
        "role": "tool",
        "tool_call_id": call.call.id,
        "name": call.answer.name,
        "content": call.answer.text,
        "is_error": call.answer.is_error,
    }


def _message(message: Message, calls: Sequence[Call]) -> dict[str, Any]:
    """One message as plain JSON. Additions to a person's message by memory or attachments are in
    `added`; pictures are described without their bytes."""
    added = [(p.source, p.text) for p in message.parts if isinstance(p, Text) and p.source]
    plain: dict[str, Any] = {
        "role": message.role,
        "content": text_of(message) or "\n".join(text for _, text in added),
    }
    if added and text_of(message):
        plain["added"] = [{"source": source, "text": text} for source, text in added]
    if pictures := images_of(message):
        names = ("name", "media_type", "width", "height")
        plain["images"] = [{name: getattr(image, name) for name in names} for image in pictures]
    if calls:
        plain["tool_calls"] = [
            {"id": call.call.id, "name": call.call.name, "arguments": call.call.arguments}
            for call in calls
        ]
    return plain


def _buffer(entries: Sequence[AnyEntry]) -> list[str]:
    """The buffer of the memory system that has one; [] otherwise."""
    for entry in reversed(entries):
        if isinstance(entry, StateEntry) and isinstance(entry.state.get("buffer"), list):
            return [str(line) for line in entry.state["buffer"]]
    return []
