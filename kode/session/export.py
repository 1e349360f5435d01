"""Exports a session as one document: JSON for programs, Markdown for people. Pure functions of a
`Transcript`."""

import json
from dataclasses import asdict
from typing import Any

from kode.broken_json import object_of
from kode.messages import Image, Text, images_of, text_of
from kode.plain_text import clean
from kode.session.entries import MessageEntry, StateEntry, SystemEntry, TurnEntry, is_turn
from kode.session.messages import effective
from kode.session.spending import Spending
from kode.session.transcript import Item, PastCall, Transcript


def as_json(transcript: Transcript) -> dict[str, Any]:
    """The document of `kode session export --format json`. `messages` are all messages, the system
    prompt first, except trimmed and rewound ones; `buffer` is that of the memory system that has
    one."""
    header, entries = transcript.header, transcript.entries
    spent = Spending.of(entries).total
    systems = [entry.text for entry in entries if isinstance(entry, SystemEntry) and entry.text]
    states = [entry.state.get("buffer") for entry in entries if isinstance(entry, StateEntry)]
    buffers = [buffer for buffer in states if isinstance(buffer, list)]
    messages = [{"role": "system", "content": text} for text in systems[-1:]]
    for message, item in transcript.messages:
        messages.append(_message(message, item))
        messages += [_result(call) for call in item.calls if call.result]
    return {
        **asdict(header),
        "updated_at": entries[-1].at if entries else header.created_at,
        "turns": sum(map(is_turn, effective(entries))),
        "messages": messages,
        "buffer": list(map(str, buffers[-1])) if buffers else [],
        "usage": asdict(spent.usage),
        "cost_usd": None if spent.unpriced else round(spent.cost_usd, 6),
        "warnings": list(transcript.faults),
    }


def _message(message: MessageEntry, item: Item) -> dict[str, Any]:
    """One message as plain JSON. Additions to a person's message by memory or attachments are in
    `added`; pictures are described without their bytes."""
    parts = [part for part in message.parts if isinstance(part, Text) and part.source]
    words, added = text_of(message), [_pick(part, "source", "text") for part in parts]
    plain = {"role": message.role, "content": words or "\n".join(part.text for part in parts)}
    pictures = [_pick(i, "name", "media_type", "width", "height") for i in images_of(message)]
    calls = [_pick(part.call, "id", "name", "arguments") for part in item.calls]
    lists = {"added": added if words else [], "images": pictures, "tool_calls": calls}
    return plain | {name: items for name, items in lists.items() if items}


def _pick(value: object, *names: str) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


def _result(call: PastCall) -> dict[str, Any]:
    answer = _pick(call.answer, "name", "is_error")
    return {"role": "tool", "tool_call_id": call.call.id, "content": call.answer.text, **answer}


def as_markdown(transcript: Transcript) -> str:
    """A readable transcript of messages and calls, each call with its result; nothing in it
    controls a terminal."""
    header = transcript.header
    lines = [f"# Session {header.id}", ""]
    lines += [f"{header.created_at} · {header.cwd} · {header.model}", ""]
    if (origin := header.forked_from) is not None:
        lines += [f"A fork of session {origin.session}, at {origin.entry or 'its end'}.", ""]
    for message, item in transcript.messages:
        author = "You" if message.role == "user" else "kode"
        lines += [f"## {author} · {message.at} · {message.id}", ""]
        for part in item.parts:
            match part:
                case Text():
                    lines += [f"*({part.source})*", ""] if part.source else []
                    lines += [part.text, ""]
                case PastCall(call=call):
                    lines += [f"`{call.name}`", *_fence(_readable_arguments(call.arguments))]
                    lines += ["Result:", *_fence(part.result.text)] if part.result else []
                    lines += map(_describe, part.pictures)
                case Image():
                    lines.append(_describe(part))
    end = next((e for e in reversed(transcript.entries) if isinstance(e, TurnEntry)), None)
    if end is not None and end.error:
        lines.append(f"*(the turn ended: {end.status}. {end.error})*")
    return clean("\n".join(lines).rstrip()) + "\n"


def _describe(picture: Image) -> str:
    return f"*(image: {picture.description})*\n"


def _fence(text: str) -> tuple[str, ...]:
    """In a code fence that the text cannot close."""
    fence = "```"
    while fence in text:
        fence += "`"
    return fence, text, fence, ""


def _readable_arguments(text: str) -> str:
    """The arguments of a call for a person: one a line, a text of several lines below its name.
    Anything that is not a JSON object stays as it is."""
    lines = []
    for name, value in (object_of(text) or {}).items():
        plain = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines.append(f"{name}:\n{plain}" if "\n" in plain else f"{name}: {plain}")
    return "\n".join(lines) or text
