"""A provider and the scripted server at the other end of its line, and messages to send there."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings

from kode.events import Event
from kode.images import save_picture
from kode.messages import Image, Message, ToolResult, calls_of, user_message
from kode.provider import Provider, Request, ToolSpec
from kode.providers import open_provider
from kode.providers.models import model_info_of
from kode.providers.request import Target
from kode.registry import ProviderRow, provider_row
from kode.session.entries import MessageEntry, encode_line, parse_line
from tests.effort import share
from tests.pictures import pdf, png
from tests.scripted_server import ScriptedServer

Object = dict[str, Any]

shared_line = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=share(60)
)
"""For a property of replies that come over one line."""

READ = ToolSpec(
    name="read_file",
    description="Read.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}},
)
FORMATS = ("azure", "openai", "anthropic")
"""Providers that speak Responses, Chat Completions and Messages at any address."""


def open_at(
    server: ScriptedServer,
    name: str,
    model: str = "some-model",
    *,
    official: bool = False,
    facts: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Provider:
    """A row's provider at a server, which is taken for the vendor's own where `official`; `facts`
    are known of its model beside what kode knows."""
    row = provider_row(name)
    assert row is not None
    if official:
        row = replace(row, own_url=server.openai_url)
    else:
        settings = {"base_url": server.openai_url, **settings}
    given = {"api_key": "test-key", "overrides": {model: facts or {}}, **settings}
    return open_provider(row, model, **given)


class Line:
    """Plays replies to requests; `events` are those of all of them."""

    def __init__(self, server: ScriptedServer, provider: Provider) -> None:
        self.server, self.provider = server, provider
        self.events: list[Event] = []

    async def reply(self, script: Any, *messages: Message, **request: Any) -> Message:
        """What a reply becomes, to a request with these messages."""
        self.server.play(script if isinstance(script, list) else [script])
        return await self.again(*messages, **request)

    async def again(self, *messages: Message, **request: Any) -> Message:
        """The same for the next reply of the script."""
        given = {"system": "", "messages": messages or (user_message("Hello"),), **request}
        return await self.provider.reply(Request(**given), self.events.append)

    async def play(self, *frames: Any, **request: Any) -> Message:
        """The message that a stream of these events becomes."""
        return await self.reply({"wire": {"frames": list(frames)}}, **request)

    async def sent(self, *messages: Message, **request: Any) -> Object:
        """The body of a request with these messages."""
        await self.reply({"text": "ok"}, *messages, **request)
        return self.bodies[-1]

    @property
    def bodies(self) -> list[Object]:
        return [request.json for request in self.server.requests]

    def shown(self, kind: type[Any]) -> list[str]:
        """The texts of the events of a kind."""
        return [event.text for event in self.events if isinstance(event, kind)]


def target_of(row: ProviderRow, model: str = "m", api: str = "chat") -> Target:
    """A row's model at its server, of which nothing is known but its name."""
    return Target(api=api, row=row, model=model, info=model_info_of(model), is_official=False)


def results_of(message: Message, text: str = "hi") -> Message:
    """A result for each call of a message."""
    made = (ToolResult(call_id=c.id, name=c.name, text=text) for c in calls_of(message))
    return Message(role="tool", parts=tuple(made))


def from_disk(message: Message) -> Message:
    """The message, written to a session's file and read again."""
    loaded = parse_line(encode_line(MessageEntry(**vars(message))))
    assert isinstance(loaded, MessageEntry)
    return Message(**{name: getattr(loaded, name) for name in vars(message)})


def attached(folder: Path, kind: str = "png", **fields: Any) -> Image:
    """A picture or a PDF that kode keeps in a folder."""
    image = save_picture(folder, "shot.png", png())
    if kind == "pdf":
        kept = folder / hashlib.sha256(pdf("Hi")).hexdigest()[:32]
        kept.write_bytes(pdf("Hi"))
        image = replace(image, name="shot.pdf", media_type="application/pdf", kept_in=str(kept))
    return replace(image, **fields)


def recorded(name: str) -> list[Any]:
    """The lines of a file of cases in `data`."""
    path = Path(__file__).parent / "data" / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def traced(name: str) -> Object:
    """A reply as it was recorded, to be played."""
    path = Path(__file__).parent / "traces" / f"{name}.json"
    trace = json.loads(path.read_text("utf-8"))
    kept = {"body": trace.get("body"), "content_type": trace.get("content_type")}
    answer = {"frames": trace["stream"]} if "stream" in trace else kept
    return {"wire": {"status": trace.get("status", 200), **answer}}


def kinds_in(parts: Sequence[Any]) -> list[str]:
    return [part["type"] for part in parts]
