"""The server: HTTP, the script, what was asked and what was refused."""

import argparse
import asyncio
import contextlib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.scripted_server import (
    Connection,
    Recorded,
    Reply,
    Script,
    ScriptedServer,
    head,
    last_user_text,
    read_script,
    sse,
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
from tests.strict_server.cache import Cache, Cost
from tests.strict_server.faults import Refused, Scripted, envelope, request_id
from tests.strict_server.memory import Memory
from tests.strict_server.replies import parts_of

JSON = "application/json"


@dataclass
class Asked(Recorded):
    """One request as it came, with what became of it."""

    refusal: str | None = None
    """Why it was refused, in the vendor's words; None where it was answered."""
    reply: dict[str, Any] = field(default_factory=dict)
    """The whole message or response that was sent, before any cut."""


class StrictServer(ScriptedServer):
    """See the package. `usage` of a request is what was reported, in the vendor's own names."""

    record = Asked

    def __init__(
        self,
        script: Script = (),
        *,
        vendor: str = "anthropic",
        models: Mapping[str, Mapping[str, Any]] | None = None,
        strict_stateless: bool = True,
        port: int = 0,
        repeat_last: bool = False,
        key: str = "",
    ) -> None:
        super().__init__(script, port=port, repeat_last=repeat_last)
        self.vendor = vendor
        self.models = models or {}
        self.strict_stateless = strict_stateless
        self.key = key
        self.refusals: list[str] = []
        """In order, as `path: words`."""
        self.memory = Memory()
        self.prompts = Cache()
        self.played: Counter[str] = Counter()
        """How many of the script's replies for a model ("": for any) have been played."""
        self.billed = {"new": 0, "cached": 0, "written": 0, "output": 0}
        """Tokens over the server's life."""

    @property
    def url(self) -> str:  # type: ignore[override]
        """What a client of this vendor takes as its base URL."""
        return self.root_url if self.vendor == "anthropic" else self.openai_url

    @property
    def soft_faults(self) -> list[str]:
        return self.memory.soft_faults

    def connection(self) -> asyncio.Protocol:
        return StrictConnection(self)

    def choose(self, request: Recorded) -> Reply:
        """The reply to a request; raises where the script has none."""
        if callable(self.script):
            return self.script(request.json)
        text = said_last(request.json)
        for reply in self.script:
            if "match" in reply and re.search(reply["match"], text, re.MULTILINE):
                return reply
        plain = [reply for reply in self.script if "match" not in reply]
        name = str(request.json.get("model"))
        own = [reply for reply in plain if reply.get("model") == name]
        line = own or [reply for reply in plain if "model" not in reply]
        which = name if own else ""
        if self.played[which] >= len(line) and not (line and self.repeat_last):
            raise Refused(f"The script has {len(line)} replies and was asked for one more")
        self.played[which] += 1
        return line[min(self.played[which], len(line)) - 1]

    def play(self, script: Script) -> None:
        self.played.clear()
        super().play(script)

    def bill(self, cost: Cost, output: int) -> None:
        parts = {"new": cost.new, "cached": cost.cached, "written": cost.written, "output": output}
        for name, tokens in parts.items():
            self.billed[name] += tokens


def said_last(body: dict[str, Any]) -> str:
    """The text of the last message when it is the user's, in any format."""
    given = body.get("input")
    if given is None:
        return last_user_text(body)
    if isinstance(given, str):
        return given
    last = given[-1] if given else {}
    content = last.get("content") if last.get("role") == "user" else ""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or ())


class StrictConnection(Connection):
    """Answers as the vendor would."""

    server: StrictServer

    def _answer(self, request: Recorded) -> None:
        assert isinstance(request, Asked)
        server = self.server
        try:
            self._authorize(request)
            if request.method == "GET":
                self._send(200, listed(server, request), request)
                return
            body = json.loads(request.body.decode("utf-8"))
            answer = answer_to(server, request, body)
        except Refused as refused:
            self._refuse(request, refused)
            return
        except Exception as error:  # a bug here, or in a script function, must not hang the test
            self._refuse(request, Refused(f"the server failed: {error!r}", status=500))
            return
        if isinstance(answer, dict):
            self._send(200, answer, request)
            return
        reply, whole, frames = answer
        request.reply = whole
        if request.json.get("stream"):
            run = self._play(reply, frames, request)
        else:
            run = self._whole(reply, whole, request)
        self.task = asyncio.get_running_loop().create_task(run)

    def _authorize(self, request: Asked) -> None:
        headers, vendor = request.headers, self.server.vendor
        given = headers.get("authorization", "").removeprefix("Bearer ")
        if vendor == "anthropic":
            given = headers.get("x-api-key", given)
            if not given:
                words, kind = "x-api-key header is required", "authentication_error"
                raise Refused(words, status=401, kind=kind)
            if "anthropic-version" not in headers:
                raise Refused("anthropic-version: header is required")
        if not given or (self.server.key and given != self.server.key):
            kind = "authentication_error" if vendor == "anthropic" else "invalid_request_error"
            words = "invalid x-api-key" if vendor == "anthropic" else "Incorrect API key provided."
            raise Refused(words, status=401, kind=kind, code="invalid_api_key")

    def _refuse(self, request: Asked, refused: Refused) -> None:
        if not isinstance(refused, Scripted):
            request.refusal = refused.message
            self.server.refusals.append(f"{request.path}: {refused.message}")
        body = envelope(self.server.vendor, refused, request.number)
        self._send(refused.status, body, request, refused.headers)

    def _send(
        self, status: int, body: Any, request: Asked, more: Mapping[str, str] | None = None
    ) -> None:
        headers = {"request-id": request_id(request.number), **(more or {})}
        self.transport.write(whole_response(status, json.dumps(body), JSON, headers))

    async def _whole(self, reply: Reply, whole: dict[str, Any], request: Asked) -> None:
        await asyncio.sleep(reply.get("delay_s", 0))
        self._send(200, whole, request)

    async def _play(self, reply: Reply, frames: Iterator[bytes], request: Asked) -> None:
        await asyncio.sleep(reply.get("delay_s", 0))
        kind = {"content-type": "text/event-stream", "request-id": request_id(request.number)}
        self.transport.write(head(200, kind, length=None))
        fault = reply.get("error_after", {})
        for number, frame in enumerate(frames):
            if self.transport.is_closing() or number == reply.get("hold_after"):
                await asyncio.sleep(3600)  # until connection_lost, which counts it, cancels this
            if number == reply.get("cut_after"):
                await asyncio.sleep(0.05)  # what was written before is sent before the reset
                self.transport.abort()
                return
            if number == reply.get("end_after"):
                break
            if number == fault.get("events", -1):
                self._chunk(stream_error(self.server.vendor, fault, request))
                break
            await self.can_write.wait()
            self._chunk(frame)
        self.transport.write(b"0\r\n\r\n")

    def _chunk(self, data: bytes) -> None:
        self.transport.write(b"%x\r\n%b\r\n" % (len(data), data))


def answer_to(server: StrictServer, request: Asked, body: Any) -> Any:
    """What is answered at once, or the reply with its whole form and its stream."""
    if not isinstance(body, dict):
        raise Refused("Input should be an object")
    path = request.path
    model = find_model(server, str(body.get("model", "")))
    if path.endswith("/messages/count_tokens"):
        return {"input_tokens": messages.check_count(body, model, server.memory)}
    if path.endswith("/messages"):
        checked = messages.check(body, request.headers, model, server.memory)
        reply = scripted(server, request)
        cost = server.prompts.by_marks(model.name, checked.pieces, model.cache_min)
        whole = message_stream.make(body, reply, checked, model, server.memory, cost)
        frames = message_stream.events(whole, parts_of(reply))
        output = whole["usage"]["output_tokens"]
    elif path.endswith("/responses"):
        pieces, marks = responses.check(body, model, server.memory, server.strict_stateless)
        reply = scripted(server, request)
        cost = responses.cost_of(body, pieces, marks, model, server.prompts)
        whole = response_stream.make(body, reply, model, server.memory, cost)
        frames = response_stream.events(whole, reply)
        output = (whole["usage"] or {}).get("output_tokens", 0)
    elif path.endswith("/chat/completions"):
        pieces = chat.check(body, server.vendor, model, server.memory)
        reply = scripted(server, request)
        cost = chat.cost_of(body, server.vendor, pieces, model, server.prompts)
        whole = chat_stream.make(body, reply, server.vendor, model, server.memory, cost)
        frames = chat_stream.events(body, whole, server.vendor)
        output = whole["usage"]["completion_tokens"]
    else:
        raise Refused(f"Unknown path {path}", status=404, kind="not_found_error")
    server.bill(cost, output)
    request.usage = whole["usage"] or {}
    return reply, whole, frames


def scripted(server: StrictServer, request: Asked) -> Reply:
    """The script's reply; an error that the script wants is raised."""
    reply = server.choose(request)
    if error := reply.get("error"):
        default = "api_error" if server.vendor == "anthropic" else "server_error"
        refused = Scripted(
            error.get("text", "scripted error"),
            status=error.get("status", 500),
            kind=error.get("type", default),
            code=error.get("code"),
            param=error.get("param"),
        )
        if "retry_after_s" in error:
            refused.headers = {"retry-after": str(error["retry_after_s"])}
        raise refused
    return reply


def find_model(server: StrictServer, name: str) -> models.Model:
    model = models.find(name, server.vendor, server.models)
    if model is not None:
        return model
    if server.vendor == "anthropic":
        raise Refused(f"model: {name}", status=404, kind="not_found_error")
    words = f"The model `{name}` does not exist or you do not have access to it."
    raise Refused(words, status=404, code="model_not_found")


def listed(server: StrictServer, request: Asked) -> dict[str, Any]:
    """GET of the models, or of one."""
    found = models.listed(server.vendor, server.models)
    before, _, name = request.path.partition("/models/")
    if not name and not before.endswith("/models"):
        raise Refused(f"Unknown path {request.path}", status=404, kind="not_found_error")
    if server.vendor == "anthropic":
        if name:
            return models.anthropic_info(find_model(server, name))
        data = [models.anthropic_info(model) for model in found]
        ends = {"first_id": data[0]["id"], "last_id": data[-1]["id"], "has_more": False}
        return {"data": data, **ends}
    if server.vendor == "openrouter":
        return {"data": [models.openrouter_info(m.name, m.window) for m in found]}
    data = [
        {"id": m.name, "object": "model", "created": 1767225600, "owned_by": server.vendor}
        for m in found
    ]
    if name:
        return data[0] | {"id": find_model(server, name).name}
    return {"object": "list", "data": data}


def stream_error(vendor: str, fault: Reply, request: Asked) -> bytes:
    error = fault.get("error", {})
    refused = Refused(
        error.get("text", "Overloaded"),
        status=error.get("status", 529),
        kind=error.get("type", "overloaded_error"),
        code=error.get("code"),
    )
    if request.path.endswith("/responses"):
        data = {"type": "error", "code": refused.code, "message": refused.message, "param": None}
        return sse({**data, "sequence_number": fault["events"]}, "error")
    body = envelope(vendor, refused, request.number)
    return sse(
        body[0] if isinstance(body, list) else body, "error" if vendor == "anthropic" else ""
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.strict_server")
    parser.add_argument("--vendor", default="anthropic")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", type=Path, required=True, help="JSON list, or JSON lines")
    parser.add_argument("--repeat-last", action="store_true")
    options = parser.parse_args(arguments)
    script = read_script(options.script)
    server = StrictServer(
        script, vendor=options.vendor, port=options.port, repeat_last=options.repeat_last
    )
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(server.serve(lambda port: print(port, flush=True)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
