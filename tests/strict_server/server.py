"""The server: what was asked, what was refused, and what it costs."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.scripted_server import (
    Connection,
    Recorded,
    Reply,
    Script,
    ScriptedServer,
    whole_response,
)
from tests.strict_server import (
    chat,
    chat_stream,
    message_stream,
    messages,
    models,
    response_stream,
    responses,
)
from tests.strict_server.cache import Cache
from tests.strict_server.refusals import Refused, Scripted, refuse
from tests.strict_server.replies import Memory, parts_of


@dataclass
class Asked(Recorded):
    """One request as it came, with what became of it."""

    refusal: str | None = None
    """Why it was refused, in the vendor's words; None where it was answered."""
    reply: dict[str, Any] = field(default_factory=dict)
    """The whole message or response that was sent."""


class StrictServer(ScriptedServer):
    """See the package. `usage` of a request is what was reported, in the vendor's own names."""

    record = Asked

    def __init__(
        self, script: Script = (), *, vendor: str = "anthropic", repeat_last: bool = False
    ) -> None:
        super().__init__(script, repeat_last=repeat_last)
        self.vendor = vendor
        self.refusals: list[str] = []
        """In order, as `path: words`."""
        self.memory = Memory()
        self.prompts = Cache()

    @property
    def url(self) -> str:  # type: ignore[override]
        """What a client of this vendor takes as its base URL."""
        return self.root_url if self.vendor == "anthropic" else self.openai_url

    @property
    def soft_faults(self) -> list[str]:
        return self.memory.soft_faults

    def connection(self) -> asyncio.Protocol:
        return StrictConnection(self)

    def next_reply_to(self, request: Recorded) -> Reply:
        """The script's reply; an error that the script wants, or that it is through, is raised."""
        reply = self.choose(request)
        if error := reply.get("error"):
            refuse(reply.get("is_through"), error["text"])
            more = {name: error[name] for name in ("type", "code", "param") if name in error}
            raise Scripted(error.get("text", "scripted"), status=error.get("status", 500), **more)
        return reply


class StrictConnection(Connection):
    """Answers as the vendor would."""

    server: StrictServer

    def _answer(self, request: Recorded) -> None:
        assert isinstance(request, Asked)
        try:
            self._authorize(request)
            if request.method == "GET":  # none of its models has facts to tell
                self._send(200, {"object": "list", "data": []}, request)
                return
            body = json.loads(request.body.decode("utf-8"))
            reply, frames = answer_to(self.server, request, body)
        except Refused as refused:
            self._refuse(request, refused)
        except Exception as error:  # a bug here, or in a script function, must not hang the test
            self._refuse(request, Refused(f"the server failed: {error!r}", status=500))
        else:
            wire = {**reply.get("wire", {}), "frames": frames}
            play = self._misbehave(request, {**reply, "wire": wire})
            self.task = asyncio.get_running_loop().create_task(play)

    def _authorize(self, request: Asked) -> None:
        headers = request.headers
        given = headers.get("authorization", "").removeprefix("Bearer ")
        if self.server.vendor == "anthropic":
            given = headers.get("x-api-key", given)
            refuse("anthropic-version" not in headers, "anthropic-version: header is required")
        refuse(not given, "A key is required.", status=401)

    def _refuse(self, request: Asked, refused: Refused) -> None:
        if not isinstance(refused, Scripted):
            request.refusal = refused.message
            self.server.refusals.append(f"{request.path}: {refused.message}")
        self._send(refused.status, {"type": "error", "error": refused.body}, request)

    def _send(self, status: int, body: Any, request: Asked) -> None:
        self.transport.write(whole_response(status, json.dumps(body), "application/json"))


def answer_to(server: StrictServer, request: Asked, body: Any) -> tuple[Reply, Iterator[bytes]]:
    """The script's reply and the stream of what it became, which the request keeps whole."""
    refuse(not isinstance(body, dict), "Input should be an object")
    refuse(body.get("stream") is not True, "kode always streams")
    memory, prompts, vendor = server.memory, server.prompts, server.vendor
    model = find_model(server, str(body.get("model", "")))
    if request.path.endswith("/messages"):
        refuse(len(request.body) > 32_000_000, "Request exceeds the maximum size.", status=413)
        checked = messages.check(body, request.headers, model, memory)
        reply = server.next_reply_to(request)
        cost = prompts.by_marks(model.name, checked.pieces, model.cache_min)
        whole = message_stream.make(body, reply, checked, model, memory, cost)
        frames = message_stream.events(whole, parts_of(reply))
    elif request.path.endswith("/responses"):
        pieces, marks = responses.check(body, model, memory)
        reply = server.next_reply_to(request)
        cost = responses.cost_of(body, pieces, marks, model, prompts)
        whole = response_stream.make(body, reply, model, memory, cost)
        frames = response_stream.events(whole)
    elif request.path.endswith("/chat/completions"):
        pieces = chat.check(body, vendor, model, memory)
        reply = server.next_reply_to(request)
        cost = chat.cost_of(body, vendor, pieces, model, prompts)
        whole = chat_stream.make(body, reply, vendor, model, memory, cost)
        frames = chat_stream.events(body, whole, vendor)
    else:
        raise Refused(f"Unknown path {request.path}", status=404)
    request.reply, request.usage = whole, whole["usage"]
    return reply, frames


def find_model(server: StrictServer, name: str) -> models.Model:
    model = models.find(name, server.vendor)
    if model is not None:
        return model
    if server.vendor == "anthropic":
        raise Refused(f"model: {name}", status=404)
    words = f"The model `{name}` does not exist or you do not have access to it."
    raise Refused(words, status=404)
