"""Digests of what requests hold, masked as on disk: they tell later what was sent, and whether a
reply still follows what it answered."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from kode.messages import Image, Message, Part
from kode.provider import ToolSpec
from kode.session.entries import SystemEntry
from kode.session.masking import mask

_NOT_SENT = ("section_name", "refusals", "cut")  # fields of parts that are kode's own


def message_bytes(message: Message) -> bytes:
    """The sent parts of a message, as JSON, masked."""
    return _json({"role": message.role, "parts": [part_object(part) for part in message.parts]})


def part_object(part: Part) -> dict[str, object]:
    """A part as a JSON object, masked; a picture by the name of kode's copy, which may move."""
    value: dict[str, object] = mask(asdict(part))
    for name in [name for name in ("own", "call_id") if not value.get(name)] + [*_NOT_SENT]:
        value.pop(name, None)
    if isinstance(part, Image):
        value["kept_in"] = Path(part.kept_in).name
    return value


@dataclass
class Chain:
    """The digests of a growing list of messages; each stands for all messages up to its own."""

    messages: Sequence[Message] = ()
    digests: list[str] = field(default_factory=list)
    masked: list[int] = field(default_factory=list)
    """The indexes of messages that were masked after they had been sent as they were."""
    beginning: tuple[SystemEntry | None, str] = None, ""
    """The last system prompt with tools that was digested, and its digest."""

    def of(self, messages: Sequence[Message]) -> list[str]:
        """One digest per message, read only. While the list stays the same object, as a session's
        does until its past changes, only new messages are hashed."""
        if messages is not self.messages or len(messages) < len(self.digests):
            self.messages, self.digests, self.masked = messages, [], []
        for message in messages[len(self.digests) :]:
            if getattr(message, "masked", False):
                self.masked.append(len(self.digests))
            before = self.digests[-1] if self.digests else ""
            self.digests.append(_digest(before.encode() + message_bytes(message)))
        return self.digests

    def digest_at(self, begun: SystemEntry | None, messages: Sequence[Message], count: int) -> str:
        """The digest of a beginning and of the first `count` messages as they were sent."""
        if begun is not None and begun is not self.beginning[0]:
            text = begun.text.encode("utf-8", "replace")
            data = b"%d %b%b" % (len(begun.text), text, _json(begun.tools))
            self.beginning = begun, _digest(data)
        prefix = self.beginning[1] if begun is not None else ""
        digest = self.of(messages)[count - 1] if count else ""
        masked = [position for position in self.masked if position < count]
        return _digest(f"{prefix}{digest}{masked or ''}".encode())


def tool_object(tool: ToolSpec) -> dict[str, object]:
    """A tool as it is recorded in a `SystemEntry`."""
    required = {"name": tool.name, "description": tool.description}
    optional = {"api_type": tool.api_type, "grammar": tool.grammar}
    optional = {name: value for name, value in optional.items() if value}
    return {**required, "parameters": dict(tool.parameters), **optional}


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _json(value: object) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")
