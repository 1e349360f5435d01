"""A real HTTP server that plays a script over all wire formats, and misbehaves when told to.

It speaks `POST /v1/responses`, `POST /v1/chat/completions`, `POST /v1/messages`, `GET /v1/models`,
`POST /v1/embeddings` on the loopback, records every request, and costs little per request, since
benchmarks use it: a body is parsed only when somebody looks into it. It imports nothing of kode.

In a test, in a thread of its own:

    with ScriptedServer([{"text": "Hello"}]) as server:
        ...                                    # server.openai_url, server.anthropic_url
        server.requests[0].json["messages"]

On its own: `python -m tests.scripted_server --port 0 --script FILE` prints the port on one line.

A script is a list of replies (the same JSON as `kode.providers.scripted`), or a function
`script(request: dict) -> reply`. Replies play in order; one with `"match"` plays whenever its
regular expression is found in the text of a last message that is the user's (`^`: a line of it).

    text, thinking     what is said
    calls              [{"name", "arguments": {...} or raw text, "id"?}]
    stop               "end", "tool_calls", "length" or "refusal"; by default from the calls
    usage              {"input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens"}
    delay_s            pause before the answer
    error              {"status": 429 | "overflow" | "auth" | "refused" | "transient",
                        "text"?, "retry_after_s"?, "code"?, "type"?}
    wire               only here, how the server misbehaves:
      hang_up            true: the connection is closed instead of an answer
      status, headers    of the response
      body               sent as it is instead of an answer; content_type (default text/html)
      whole              true: the answer in one piece, though a stream was asked for
      frames             the stream's data: a list of objects (or raw text), instead of the reply's
      stall_before_s     pause before the status line
      stall_after, stall_s   after that many chunks of the stream, a pause
      drop_after         after that many chunks the connection breaks
      end_after          after that many chunks the stream ends as if it were whole
      error_after        {"chunks": n, "error": {...}}: an error event in the stream, then the end
                         (each n may be a text instead: after the first chunk that holds it)
      linger_s           after the last chunk the connection stays open that long
      chunk_delay_s      pause before every chunk
      endless            true: its text over and over, never an end (chunk_delay_s default 0.01)
      text_bytes         that much text
      no_usage           true: no usage anywhere
      no_done            true: without `[DONE]` (Chat Completions only)
      ids                [..]: the ids of the calls, empty and duplicate ones too
"""

import argparse
import asyncio
import contextlib
import hashlib
import itertools
import json
import re
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

Reply = dict[str, Any]
Script = Sequence[Reply] | Callable[[dict[str, Any]], Reply]

STATUS_WORDS: dict[Any, int] = {"overflow": 400, "auth": 401, "refused": 400, "transient": 503}
SPEAKS = ("/chat/completions", "/responses", "/messages", ":streamRawPredict")
DROP = object()
"""In a stream of chunks: break the connection here."""


@dataclass
class Recorded:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes
    number: int = 0
    """From 1 over the server's life."""
    target: str = ""
    """The path with its query."""
    usage: dict[str, int] = field(default_factory=dict)
    """As it was reported, by kode's names."""
    at: float = field(default_factory=time.monotonic)

    @cached_property
    def json(self) -> dict[str, Any]:
        parsed = json.loads(self.body) if self.body else {}
        return parsed if isinstance(parsed, dict) else {}


class ScriptedServer:
    """Plays a script. As a context manager it serves from a thread of its own.

    `keep` limits how many of the latest requests are kept in `requests`; None keeps all.
    `repeat_last` plays the last reply again and again once the script is through.
    """

    record = Recorded

    def __init__(
        self,
        script: Script = (),
        *,
        port: int = 0,
        keep: int | None = None,
        repeat_last: bool = False,
    ) -> None:
        self.script = script
        self.port = port
        self.repeat_last = repeat_last
        self.requests: deque[Recorded] = deque(maxlen=keep)
        self.questions: deque[Recorded] = deque(maxlen=keep)
        """What was asked about the server itself: its models, its window."""
        self.answers: dict[str, Any] = {}
        """Path, or path with query → what is answered there, instead of what the script says."""
        self.key = ""
        """Needed for everything but the list of models, as by llama.cpp; "": nothing."""
        self.loading = False
        """Whether it is still loading its model."""
        self.count = 0
        """Of the requests, over the server's life."""
        self.open_connections = 0
        self.disconnects = 0
        """Connections that the client closed before its answer was whole."""
        self.played = 0
        """How many replies have been played, but those with `match`."""
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stop: asyncio.Event | None = None
        self.transports: set[Any] = set()

    @property
    def root_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def openai_url(self) -> str:
        return f"{self.root_url}/v1"

    url = openai_url

    @property
    def anthropic_url(self) -> str:
        return self.root_url

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run, name="scripted-server", daemon=True)
        self._thread.start()
        if not self._ready.wait(10):
            raise RuntimeError("the scripted server did not start")
        return self

    def __exit__(self, *_: object) -> None:
        if self._loop and self._stop and self._thread:
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(5)

    def play(self, script: Script) -> None:
        """Starts another script from its beginning, and forgets the requests so far."""
        self.script = script
        self.played = 0
        self.requests.clear()

    def wait_for(self, what: str, number: int = 1) -> None:
        """Waits until so many requests ("count") or "disconnects" were seen, counted over the
        server's life."""
        deadline = time.monotonic() + 30
        while getattr(self, what) < number:
            if time.monotonic() > deadline:
                raise AssertionError(f"the scripted server's {what} did not become {number}")
            time.sleep(0.002)

    def choose(self, request: Recorded) -> Reply:
        """The reply to a request."""
        if callable(self.script):
            return self.script(request.json)
        text = last_user_text(request.json) if any("match" in r for r in self.script) else ""
        for reply in self.script:
            if "match" in reply and re.search(reply["match"], text, re.MULTILINE):
                return reply
        ordered = [reply for reply in self.script if "match" not in reply]
        if self.played < len(ordered) or (ordered and self.repeat_last):
            self.played += 1
            return ordered[min(self.played, len(ordered)) - 1]
        text = f"The script has {len(ordered)} replies and was asked for one more"
        return {"error": {"status": 400, "text": text}, "is_through": True}

    def connection(self) -> asyncio.Protocol:
        return Connection(self)

    async def serve(self, announce: Callable[[int], None] = lambda port: None) -> None:
        """Serves until stopped."""
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await self._loop.create_server(self.connection, "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        announce(self.port)
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        for transport in tuple(self.transports):
            transport.abort()
        await asyncio.sleep(0)  # in which their sockets are closed

    def _run(self) -> None:
        asyncio.run(self.serve())


class Connection(asyncio.Protocol):
    """One keep-alive connection."""

    def __init__(self, server: ScriptedServer) -> None:
        self.server = server
        self.buffer = bytearray()
        self.transport: Any = None
        self.task: asyncio.Task[None] | None = None
        self.can_write = asyncio.Event()
        self.can_write.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.server.open_connections += 1
        self.server.transports.add(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.server.open_connections -= 1
        self.server.transports.discard(self.transport)
        if self.task and not self.task.done():
            self.server.disconnects += 1
            self.task.cancel()

    def pause_writing(self) -> None:
        self.can_write.clear()

    def resume_writing(self) -> None:
        self.can_write.set()

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if self.task is None or self.task.done():
            self._take_request()

    def _take_request(self) -> None:
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        lines = self.buffer[:end].decode("latin-1").split("\r\n")
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines[1:])
        }
        length = int(headers.get("content-length", "0"))
        if len(self.buffer) < end + 4 + length:
            return
        body = bytes(self.buffer[end + 4 : end + 4 + length])
        del self.buffer[: end + 4 + length]
        method, path, *_ = lines[0].split(" ")
        bare = path.partition("?")[0]
        asks_model = method == "POST" and not re.search(r"^/api/|/count_tokens$", bare)
        self.server.count += asks_model
        request = self.server.record(method, bare, headers, body, self.server.count, target=path)
        (self.server.requests if asks_model else self.server.questions).append(request)
        self._answer(request)

    def _unscripted(self, request: Recorded) -> tuple[int, Any]:
        """Status and body of what is answered without the script; None as body for nothing."""
        server, key = self.server, request.headers.get("authorization", "").removeprefix("Bearer ")
        fixed = server.answers.get(request.path) or fixed_answer(request)
        if server.loading:
            kind, text, status = "unavailable_error", "Loading model", 503
        elif server.key not in ("", key) and not request.path.endswith("/models"):
            kind, text, status = "authentication_error", "Invalid API Key", 401
        elif answer := server.answers.get(request.target, fixed):
            return 200, answer
        elif request.method != "POST" or not request.path.endswith(SPEAKS):
            status = 404 if request.method == "POST" else 405  # as vendors answer
            kind, text = "", "Not here"
        else:
            return 200, None
        return status, {"error": {"code": status, "message": text, "type": kind}}

    def _answer(self, request: Recorded) -> None:
        status, fixed = self._unscripted(request)
        if fixed is not None:
            body = json.dumps(fixed)
            self.transport.write(whole_response(status, body, "application/json"))
            return
        try:
            reply = self.server.choose(request)
        except Exception as error:  # a script function's bug must not hang the test
            reply = {"error": {"status": 500, "text": f"the script failed: {error!r}"}}
        if "wire" not in reply and not reply.get("delay_s"):
            self.transport.write(plain_response(request, reply))
            return
        self.task = asyncio.get_running_loop().create_task(self._misbehave(request, reply))

    async def _misbehave(self, request: Recorded, reply: Reply) -> None:
        wire = reply.get("wire", {})
        await asyncio.sleep(reply.get("delay_s", 0) + wire.get("stall_before_s", 0))
        if wire.get("hang_up"):
            self.transport.abort()
            return
        if "error" in reply or "body" in wire or not wants_stream(request, reply):
            self.transport.write(plain_response(request, reply))
            return
        headers = {"content-type": "text/event-stream", **wire.get("headers", {})}
        self.transport.write(head(wire.get("status", 200), headers, length=None))
        async for data in misbehaving(request, reply):
            await self.can_write.wait()
            if self.transport.is_closing():
                await asyncio.sleep(3600)  # until connection_lost, which counts it, cancels this
            if data is DROP:
                self.transport.abort()
                return
            self.transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        await asyncio.sleep(wire.get("linger_s", 0))
        self.transport.write(b"0\r\n\r\n")


def plain_response(request: Recorded, reply: Reply) -> bytes:
    wire = reply.get("wire", {})
    if "error" in reply:
        return error_response(request, reply["error"], wire)
    if "body" in wire:
        kind = wire.get("content_type", "text/html")
        status, extra = wire.get("status", 200), wire.get("headers", {})
        return whole_response(status, wire["body"], kind, extra)
    if not wants_stream(request, reply):
        return whole_response(200, json.dumps(rendered(request, reply)[0]), "application/json")
    data = b"".join(chunks(request, reply))
    return whole_response(200, data, "text/event-stream")


def wants_stream(request: Recorded, reply: Reply) -> bool:
    """Found without parsing: inside a JSON string the quotes would be escaped."""
    if reply.get("wire", {}).get("whole"):
        return False
    return b'"stream":true' in request.body or b'"stream": true' in request.body


def is_anthropic(request: Recorded) -> bool:
    """The Messages API, at Anthropic's path or Vertex AI's."""
    return request.path.endswith(("/messages", ":streamRawPredict"))


def is_responses(request: Recorded) -> bool:
    return request.path.endswith("/responses")


LATER = "\u2063"
"""Stands for a text that is made while it is sent."""


def rendered(request: Recorded, reply: Reply) -> tuple[dict[str, Any], Iterator[bytes]]:
    """The whole reply and its stream, as a model of the strict server that takes everything has
    them."""
    from tests.strict_server import chat_stream, message_stream, response_stream
    from tests.strict_server.cache import Cost
    from tests.strict_server.messages import Checked
    from tests.strict_server.models import Model
    from tests.strict_server.replies import KEYS, Memory, parts_of

    usage, wire = usage_of(request, reply), reply.get("wire", {})
    cost = Cost(usage["input_tokens"], usage["cached_tokens"], usage["cache_write_tokens"])
    given = {name: value for name, value in reply.items() if name in KEYS}
    if wire.get("text_bytes") or wire.get("endless"):
        given["text"] = LATER
    if "ids" in wire:
        pairs = zip(reply["calls"], wire["ids"], strict=False)
        given["calls"] = [{**call, "id": name} for call, name in pairs]
    model, memory = Model("scripted-model", "scripted"), Memory()
    if is_responses(request):
        body: dict[str, Any] = {"reasoning": {"summary": "auto"}}
        body["include"] = ["reasoning.encrypted_content"]
        whole = response_stream.make(body, given, model, memory, cost)
        whole["usage"]["output_tokens"] = usage["output_tokens"]
        return whole, response_stream.events(whole)
    if is_anthropic(request):
        checked = Checked([], thinks=True, shows=True, pieces=[])
        whole = message_stream.make({"max_tokens": 1}, given, checked, model, memory, cost)
        whole["usage"]["output_tokens"] = usage["output_tokens"]
        return whole, message_stream.events(whole, parts_of(given))
    body = {"stream_options": {"include_usage": True}}
    whole = chat_stream.make(body, given, "scripted", model, memory, cost)
    made, prompt = usage["output_tokens"], whole["usage"]["prompt_tokens"]
    whole["usage"] |= {"completion_tokens": made, "total_tokens": prompt + made}
    return whole, chat_stream.events(body, whole, "scripted")


def chunks(request: Recorded, reply: Reply) -> Iterator[bytes]:
    """The stream of a reply, one event each, as its `wire` has it."""
    wire = reply.get("wire", {})
    if wire.get("frames") is not None:
        yield from (f if isinstance(f, bytes) else raw_frame(f) for f in wire["frames"])
        return
    for data in rendered(request, reply)[1]:
        if wire.get("no_usage"):
            data = without_usage(data)
        if LATER.encode() in data:
            for text in text_pieces(reply) if b"delta" in data else ("",):
                yield data.replace(LATER.encode(), json.dumps(text)[1:-1].encode())
            continue
        if not wire.get("no_done") or data != b"data: [DONE]\n\n":
            yield data


def without_usage(data: bytes) -> bytes:
    name, mark, text = data.decode().partition("data: ")
    if not text.startswith("{"):
        return data
    event = json.loads(text)
    for part in (event, event.get("message") or {}, event.get("response") or {}):
        part.pop("usage", None)
    return f"{name}{mark}{json.dumps(event)}\n\n".encode()


def _is_here(number: int, data: bytes, before: bytes, after: Any) -> bool:
    """Whether a fault that comes after a chunk of that number or with that text comes now; at the
    end of the stream the data is empty."""
    if isinstance(after, str):
        return after.encode() in before
    return after is not None and (number == after or (not data and after > number))


async def misbehaving(request: Recorded, reply: Reply) -> AsyncIterator[Any]:
    """The stream of a reply with the faults that its `wire` asks for."""
    wire = reply.get("wire", {})
    pause_s = wire.get("chunk_delay_s", 0.01 if wire.get("endless") else 0)
    fault = wire.get("error_after", {})
    before = b""
    for number, data in enumerate(itertools.chain(chunks(request, reply), (b"",))):
        is_here = partial(_is_here, number, data, before)
        if is_here(wire.get("end_after")):
            return
        if is_here(wire.get("drop_after")):
            await asyncio.sleep(0.05)  # what was written before is sent before the reset
            yield DROP
        if is_here(wire.get("stall_after")):
            await asyncio.sleep(wire.get("stall_s", 60))
        if is_here(fault.get("chunks")):
            yield stream_error(request, fault["error"])
            return
        if pause_s:
            await asyncio.sleep(pause_s)
        elif number % 64 == 63:
            await asyncio.sleep(0)
        if data:
            yield data
        before = data


# ── what all share ───────────────────────────────────────────────────────────────────────────


def last_user_text(body: dict[str, Any]) -> str:
    """The text of the last message when it is the user's and holds no tool results; else ""."""
    messages = body.get("messages") or body.get("input") or [{}]
    last = {"role": "user", "content": messages} if isinstance(messages, str) else messages[-1]
    content = last.get("content") or ""
    if last.get("role") != "user" or isinstance(content, str):
        return content if last.get("role") == "user" else ""
    if any(part.get("type") == "tool_result" for part in content):
        return ""
    return "\n".join(part.get("text", "") for part in content)


def arguments_text(call: Reply) -> str:
    arguments = call.get("arguments", {})
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def text_pieces(reply: Reply) -> Iterator[str]:
    """A text without end, or that long."""
    wire, text = reply["wire"], reply.get("text", "")
    if wire.get("endless"):
        for number in itertools.count(1):
            yield text or "and so on "
            if number % 100 == 0:  # else kode would end it as a reply that repeats itself
                yield f"({number}) "
    text = text or "lorem ipsum "
    block = "".join(f"{text}{number} " for number in range(65536 // len(text) + 1))[:65536]
    for left in range(wire["text_bytes"], 0, -len(block)):
        yield block[:left]


def pieces(text: str) -> Iterator[str]:
    """At most eight pieces, of at least twelve characters."""
    size = max(12, -(-len(text) // 8))
    return (text[at : at + size] for at in range(0, len(text), size))


def usage_of(request: Recorded, reply: Reply) -> dict[str, int]:
    said = len(reply.get("text", "")) + len(reply.get("thinking", ""))
    said += sum(len(arguments_text(call)) + 20 for call in reply.get("calls", ()))
    counted = {"input_tokens": len(request.body) // 4, "output_tokens": said // 4 + 1}
    counted |= {"cached_tokens": 0, "cache_write_tokens": 0}
    request.usage = counted | reply.get("usage", {})
    return request.usage


def sse(data: dict[str, Any], event: str = "") -> bytes:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return (f"event: {event}\n" if event else "").encode() + f"data: {text}\n\n".encode()


def raw_frame(frame: Any) -> bytes:
    """Text goes out as it is; an object becomes an event, named by its `type` if it has one."""
    if isinstance(frame, str):
        return frame.encode()
    return sse(frame, frame.get("type", "") if isinstance(frame.get("type"), str) else "")


def error_object(request: Recorded, error: Reply) -> dict[str, Any]:
    word = error.get("status", 500)
    status = STATUS_WORDS.get(word, word)
    too_long = "prompt is too long: 210000 tokens > 200000 maximum"
    text = error.get("text", too_long if word == "overflow" else f"scripted error {word}")
    if is_anthropic(request):
        kinds = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error"}
        kinds |= {403: "permission_error", 429: "rate_limit_error", 529: "overloaded_error"}
        kind = error.get("type", kinds.get(status, "api_error"))
        return {"type": "error", "error": {"type": kind, "message": text}}
    code = error.get("code", "context_length_exceeded" if word == "overflow" else None)
    kind = error.get("type", "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": text, "type": kind, "param": None, "code": code}}


def stream_error(request: Recorded, error: Reply) -> bytes:
    if is_responses(request):
        return sse({"type": "error", **error_object(request, error)}, "error")
    return sse(error_object(request, error), "error" if is_anthropic(request) else "")


def error_response(request: Recorded, error: Reply, wire: Reply) -> bytes:
    word = error.get("status", 500)
    headers = dict(wire.get("headers", {}))
    if "retry_after_s" in error:
        headers["retry-after"] = str(error["retry_after_s"])
    body = json.dumps(error_object(request, error))
    return whole_response(STATUS_WORDS.get(word, word), body, "application/json", headers)


def head(status: int, headers: dict[str, str], *, length: int | None) -> bytes:
    size = "transfer-encoding: chunked" if length is None else f"content-length: {length}"
    lines = [f"HTTP/1.1 {status} Scripted", size, *(f"{k}: {v}" for k, v in headers.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def whole_response(
    status: int, body: str | bytes, content_type: str, headers: dict[str, str] | None = None
) -> bytes:
    data = body.encode() if isinstance(body, str) else body
    return head(status, {"content-type": content_type, **(headers or {})}, length=len(data)) + data


def fixed_answer(request: Recorded) -> dict[str, Any] | None:
    """What needs no script: the list of models, and embeddings that depend on the text alone."""
    if request.path.endswith("/models"):
        model = {"id": "scripted-model", "object": "model", "created": 0, "owned_by": "kode"}
        return {"object": "list", "data": [model]}
    if not request.path.endswith("/embeddings"):
        return None
    given = request.json.get("input", [])
    texts = [given] if isinstance(given, str) else given
    data = [
        {"object": "embedding", "index": index, "embedding": embedding(str(text))}
        for index, text in enumerate(texts)
    ]
    usage = {"prompt_tokens": len(request.body) // 4, "total_tokens": len(request.body) // 4}
    return {"object": "list", "model": "scripted-embedding", "data": data, "usage": usage}


def embedding(text: str, dimensions: int = 64) -> list[float]:
    """Hashed words, so that texts with common words are near each other."""
    vector = [0.0] * dimensions
    for word in re.findall(r"\w+", text.lower()):
        digest = hashlib.sha256(word.encode()).digest()
        vector[digest[0] % dimensions] += 1.0 if digest[1] % 2 else -1.0
    norm = sum(value * value for value in vector) ** 0.5 or 1.0
    return [value / norm for value in vector]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.scripted_server", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", type=Path, required=True, help="a JSON list of replies")
    parser.add_argument("--repeat-last", action="store_true")
    options = parser.parse_args(arguments)
    script = json.loads(options.script.read_text(encoding="utf-8"))
    server = ScriptedServer(script, port=options.port, keep=16, repeat_last=options.repeat_last)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(server.serve(lambda port: print(port, flush=True)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
