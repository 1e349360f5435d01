"""The record of a request: digests of its parts, as small as what changed.

It shows later what was sent, where a request stopped sharing its beginning with the one before, and
whether a repeated request is the same. The texts are in the session: system prompt and messages as
entries; the tools in a folder that all sessions share, once per set.

All digests are of masked texts, so that they can be checked against the disk.
"""

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from kode import paths
from kode.credentials import redact
from kode.messages import Image, Message, Part
from kode.provider import Provider, Request, ToolSpec
from kode.session.content_store import MEGABYTE, Contents
from kode.session.entries import BETWEEN_SECTIONS, PartDigest, RequestEntry, SystemEntry
from kode.session.masking import masked

MAX_KEPT_MB = 64
"""Limit for tools' texts of all sessions; the oldest are deleted first."""


def digest_of(data: bytes) -> str:
    """The first 16 hex digits of the SHA-256 of `data`."""
    return hashlib.sha256(data).hexdigest()[:16]


def text_bytes(text: str) -> bytes:
    """A text as on disk: masked, in UTF-8."""
    return redact(text).encode("utf-8", "replace")


def message_bytes(message: Message) -> bytes:
    """The sent parts of a message, as JSON, masked."""
    return _json({"role": message.role, "parts": [part_object(part) for part in message.parts]})


_NOT_SENT = ("section_name", "refusals", "cut")
"""Fields of parts that no request has: they are kept for kode itself."""


def part_object(part: Part) -> dict[str, object]:
    """A part of a message as a JSON object, masked. A picture is identified by the name of kode's
    copy, which moves with its session."""
    found: dict[str, object] = masked(asdict(part))
    for name in ("own", "call_id"):
        if not found.get(name):  # as in the records of versions without these fields
            found.pop(name, None)
    for name in _NOT_SENT:
        found.pop(name, None)
    if isinstance(part, Image):
        found["kept_in"] = Path(part.kept_in).name
    return found


@dataclass
class Chain:
    """The digests of a growing list of messages. Each is made of the one before it and its message,
    so that it stands for all up to there."""

    messages: Sequence[Message] = ()
    digests: list[str] = field(default_factory=list)
    masked: list[int] = field(default_factory=list)
    """The indexes of messages that were masked after they had been sent as they were."""
    tools: Sequence[ToolSpec] = ()
    tool_parts: tuple[PartDigest, ...] = ()

    def of(self, messages: Sequence[Message]) -> list[str]:
        """One digest per message. Only new messages are hashed while the list stays the same
        object, as a session's does until its past changes. Treat the result as read-only."""
        if messages is not self.messages or len(messages) < len(self.digests):
            self.messages, self.digests, self.masked = messages, [], []
        for message in messages[len(self.digests) :]:
            if getattr(message, "masked", False):
                self.masked.append(len(self.digests))
            before = self.digests[-1] if self.digests else ""
            self.digests.append(digest_of(before.encode() + message_bytes(message)))
        return self.digests

    def of_tools(self, tools: Sequence[ToolSpec]) -> tuple[PartDigest, ...]:
        """One digest per tool; computed once while the list stays the same object."""
        if tools is not self.tools:
            self.tool_parts = tuple(_tool_part(_json(tool_object(tool))) for tool in tools)
            self.tools = tools
        return self.tool_parts

    def bound(self, messages: Sequence[Message], count: int) -> str:
        """What the first `count` messages were when they were sent, in a few characters."""
        digest = self.of(messages)[count - 1] if count else ""
        return f"{digest}{[position for position in self.masked if position < count] or ''}"


def system_text(sections: Mapping[str, str]) -> str:
    """Joins sections into a system prompt."""
    return BETWEEN_SECTIONS.join(sections.values())


def sections_of(system: str, request: RequestEntry) -> dict[str, str]:
    """Splits a system prompt from disk into its sections, by the sizes in its request's record."""
    data, position, sections = system.encode("utf-8", "replace"), 0, {}
    for part in request.system or ():
        sections[part.name] = data[position : position + part.size].decode("utf-8", "replace")
        position += part.size + len(BETWEEN_SECTIONS)
    return sections


def request_entry(
    purpose: str,
    provider: Provider,
    request: Request,
    *,
    sections: Mapping[str, str] | None = None,
    chain: Chain | None = None,
    before: RequestEntry | None = None,
) -> RequestEntry:
    """The record of a request. `sections` are those of its system prompt, by name; `chain` has the
    digests so far. Parts equal to those in `before`, a complete record, are omitted; see
    `complete`."""
    named = {"system": request.system} if sections is None else sections
    system = tuple(_section_part(name, text) for name, text in named.items())
    chain = chain or Chain()
    tools, digests = chain.of_tools(request.tools), chain.of(request.messages)
    return RequestEntry(
        purpose=purpose,
        provider=provider.name,
        model=provider.model,
        max_output_tokens=request.max_output_tokens,
        system=None if before is not None and before.system == system else system,
        tools=None if before is not None and before.tools == tools else tools,
        messages=len(digests),
        digest=digests[-1] if digests else "",
    )


def complete(entry: RequestEntry, before: RequestEntry | None) -> RequestEntry:
    """Fills in what the record omits from the complete record of the turn's previous request."""
    if before is None:
        return entry
    if entry.system is None:
        entry = replace(entry, system=before.system)
    if entry.tools is None:
        entry = replace(entry, tools=before.tools, tools_kept=before.tools_kept)
    return entry


def beginning_digest(entry: SystemEntry) -> str:
    """The digest of a system prompt with its tools."""
    data = entry.text.encode("utf-8", "replace")
    return digest_of(b"%d %b%b" % (len(entry.text), data, _json(entry.tools)))


def keep_tools(home: Path, tools: Sequence[ToolSpec]) -> str:
    """Stores tools' texts for all sessions; returns their name. Raises: StorageError."""
    return _kept(home).put(_json([masked(tool_object(tool)) for tool in tools]))


def kept_tools(home: Path, name: str) -> dict[str, str]:
    """Tools stored by `keep_tools`: name → masked JSON; empty if missing or damaged."""
    data = _kept(home).data(name)
    try:
        tools = json.loads(data) if data is not None else []
        return {tool["name"]: _json(tool).decode() for tool in tools}
    except (ValueError, TypeError, KeyError, RecursionError):
        return {}


def _kept(home: Path) -> Contents:
    limit = MAX_KEPT_MB * MEGABYTE
    return Contents(folder=paths.tool_texts(home), max_file_bytes=limit, max_bytes=limit)


# Masking is slow, and the system prompt and the tools are usually those of the previous step.
@functools.lru_cache(maxsize=64)
def _section_part(name: str, text: str) -> PartDigest:
    return _part(name, text_bytes(text))


@functools.lru_cache(maxsize=256)
def _tool_part(tool: bytes) -> PartDigest:
    value = json.loads(tool)
    return _part(value["name"], _json(masked(value)))


def _part(name: str, data: bytes) -> PartDigest:
    return PartDigest(name=name, digest=digest_of(data), size=len(data))


def tool_object(tool: ToolSpec) -> dict[str, object]:
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
        **({"api_type": tool.api_type} if tool.api_type else {}),
        **({"grammar": tool.grammar} if tool.grammar else {}),
    }


def _json(value: object) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")
