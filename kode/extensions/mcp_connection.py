"""Connects to an MCP server, which runs as a process (in the sandbox) or answers over HTTP. Only
this module and its part `mcp_login` use the SDK of the Model Context Protocol.

The SDK speaks both eras of the protocol. It is imported with this module, which takes a second or
two: import it in a thread, and only to start a server. What a server sends is limited: an endless
line, body or event, or a flood of lines, ends the connection; of its stderr only the end is kept.
"""

import asyncio
import base64
import binascii
import contextlib
import json
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import anyio
import httpx2
import mcp_types as types
from mcp.client.client import Client
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from kode import __version__
from kode.errors import ServerError
from kode.extensions.mcp_config import (
    LOGIN_TIMEOUT_S,
    SOCKET,
    Content,
    Elicit,
    ElicitField,
    ElicitForm,
    Offering,
    ServerFields,
    ToolDefinition,
)
from kode.extensions.mcp_login import make_authorization
from kode.process import nested_environment
from kode.tools.processes import READ_BYTES, ProcessTree, open_program
from kode.values import dataclass, field, replace
from kode.workplace import Workplace

if TYPE_CHECKING:
    from kode.sandbox.sandbox import Attempt

MAX_PAGES = 50  # stops at a server that always names a next page
MAX_LISTED = 1_000
"""The most items of a listing, which a server sends page by page; the rest is ignored."""
LIST_TIMEOUT_S = 30.0  # the same as for a server's start

MAX_LINE_BYTES = 16 * 1024 * 1024
"""Limit of one message from a process."""
MAX_BURST_BYTES = 32 * 1024 * 1024  # a result with pictures in base64
MAX_BURST_LINES = 10_000
"""Limits of what a process may send between two messages to it, asked for or not."""
MAX_BODY_BYTES = 32 * 1024 * 1024
"""Limit of one answer over HTTP, streamed or not."""
GRACE_S = 0.5
"""How long a process may take to exit once its standard input is closed."""
LAST_WORDS_S = 0.5
"""How long to wait for the rest of stderr, which may say why the process ended."""
CONNECT_TIMEOUT_S = 30.0  # the same as for a process's start

_MAX_ERRORS_BYTES = 2_000  # the last lines before it died

INHERITED = (
    "HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER",
    "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE",
)  # fmt: skip
"""The variables that every server inherits; all others come from its entry. Those in the second row
say which certificates a machine trusts."""

Streams = tuple[Any, Any]
"""The stream that the SDK reads messages from, and the one that it writes them to."""
Transport = AbstractAsyncContextManager[Streams]

# The SDK would print servers' mistakes to the terminal.
logging.getLogger("mcp").setLevel(logging.CRITICAL + 1)


@asynccontextmanager
async def connect(
    server: ServerFields,
    wrapped: "Attempt | None",
    place: Workplace,
    tell: Callable[[str], None] | None = None,
    elicit: Elicit | None = None,
) -> AsyncIterator["Connection"]:
    """Starts or reaches a server, and yields the connection. `wrapped` runs the server's command in
    the sandbox; None runs it outside. `tell` shows a person the login page; without `tell`,
    `elicit` shows it, but only once a tool was called. Raises: ServerError."""
    connection, failed = Connection(server, elicit), None

    async def show(page: str) -> bool:
        if tell is not None:
            tell(page)
            return True
        message = "To go on with this call, it wants you to log in, at this page on this machine:"
        form = ElicitForm(server=server.name, message=message, url=page)
        # Starting a server must not wait for a person.
        return elicit is not None and connection.is_used and await elicit(form) is not None

    if server.url:
        is_known = "authorization" in {name.lower() for name in server.headers}
        auth = None if is_known else make_authorization(server, place.home, show, connection.closed)
        transport = (open_sse if server.type == "sse" else open_http)(server, auth)
    else:
        transport = run_process(server, wrapped, place.project, connection.closed)
    try:
        # Closed in order, so that the SDK, which cancels this task when a connection breaks, also
        # undoes its cancellation.
        async with AsyncExitStack() as links:
            await connection.open(links, transport)
            try:
                yield connection
            except Exception as error:
                failed = error
    except Exception as error:
        if failed is None:
            innermost = _innermost_error(error)
            broken = ServerError(f"its connection broke ({_describe_error(innermost)})")
            raise innermost if isinstance(innermost, ServerError) else broken from error
    if failed is not None:
        raise failed


_KINDS = {"tools": "name", "prompts": "name", "resources": "uri"}
"""Kind of listing → the key that each of its items must have."""


@dataclass
class Connection:
    """A connection to one server. Every method raises ServerError.

    It keeps the items of listings as they came, and gives the SDK stand-ins: the SDK would refuse a
    whole list for one odd item, and drop a result that does not fit its tool's schema.
    """

    server: ServerFields
    elicit: Elicit | None
    news: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the server says that its lists have changed."""
    closed: "asyncio.Future[str]" = field(default_factory=asyncio.Future)
    """Gets the reason when the connection ends."""
    is_used: bool = False
    """Whether a tool has been called: only then can `elicit` ask a person to log in."""
    left_out: dict[str, None] = field(default_factory=dict)
    """The unusable items of its listings, as `tool 'NAME': WHY`; reset by `tools`."""
    find_refusals: Callable[[], str] = str
    """Returns sentences about what the sandbox has refused the server so far."""
    client: Client = field(init=False)
    _items: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    async def open(self, links: AsyncExitStack, transport: Transport) -> None:
        """Opens the connection, which lasts until `links` is closed."""
        async with self._request(LOGIN_TIMEOUT_S):
            self.client = Client(
                self._read(transport),
                client_info=types.Implementation(name="kode", version=__version__),
                message_handler=self._handle_news,
                elicitation_callback=self._elicit if self.elicit else None,
            )
            await links.enter_async_context(self.client)

    async def tools(self) -> Mapping[str, ToolDefinition]:
        """Lists the tools by name. If two share a name, the first counts and cannot be shadowed."""
        self.left_out.clear()
        definitions: dict[str, ToolDefinition] = {}
        for tool in await self._list_items("tools"):
            definitions.setdefault(tool["name"], ToolDefinition(tool))
        return definitions

    async def offerings(self, kind: Literal["prompts", "resources"]) -> tuple[Offering, ...]:
        return tuple(
            Offering(
                key=item[_KINDS[kind]],
                description=_string_value(item, "description"),
                arguments=tuple(_prompt_arguments(item)),
            )
            for item in await self._list_items(kind)
        )

    async def call(
        self, tool: str, arguments: Mapping[str, Any], report: Callable[[str], None]
    ) -> Content:
        """Calls a tool. `report` gets each progress update as a line. Cancelling the call notifies
        the server."""
        self.is_used = True

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            share = f"{progress:g} of {total:g}" if total else f"{progress:g}"
            report(f"{message[:200]} ({share})" if message else share)

        async with self._request(self.server.timeout / 1000):
            fields = dict(arguments)
            result = await self.client.call_tool(tool, fields, progress_callback=on_progress)
        content = replace(_read_content(result.content), is_error=bool(result.is_error))
        if not content.text and not content.pictures and result.structured_content is not None:
            text = json.dumps(result.structured_content, ensure_ascii=False, indent=1)
            return replace(content, text=text)
        return content

    async def read(self, uri: str) -> Content:
        async with self._request(LIST_TIMEOUT_S):
            result = await self.client.read_resource(uri)
        return _read_content(
            types.EmbeddedResource(type="resource", resource=part) for part in result.contents
        )

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> Content:
        async with self._request(LIST_TIMEOUT_S):
            result = await self.client.get_prompt(name, dict(arguments))
        return _read_content(message.content for message in result.messages)

    async def _list_items(self, kind: str) -> list[dict[str, Any]]:
        items = self._items[kind] = []
        page_of = getattr(self.client, f"list_{kind}")
        if getattr(self.client.server_capabilities, kind) is None:
            return items
        cursor: str | None = None
        async with self._request(LIST_TIMEOUT_S):
            for _ in range(MAX_PAGES):
                cursor = (await page_of(cursor=cursor, cache_mode="bypass")).next_cursor
                if cursor is None or len(items) >= MAX_LISTED:
                    break
        return items

    @asynccontextmanager
    async def _request(self, limit_s: float) -> AsyncIterator[None]:
        """Limits a request's time, and turns any failure into a ServerError with a sentence about
        it. Over HTTP, only a failed request shows that the server is gone: then `closed` is set."""
        name, closed = self.server.name, self.closed
        try:
            async with asyncio.timeout(limit_s):
                yield
        except TimeoutError as error:
            raise ServerError(f"The MCP server {name} did not answer in {limit_s:g} s.") from error
        except Exception as error:
            was_closed = closed.done()
            fault = closed.result() if was_closed else _describe_error(error)
            text = f"The MCP server {name} failed: {fault}"
            if isinstance(error, MCPError) and not was_closed:
                reason = " ".join(str(error).split())[:500]
                text, fault = f"The MCP server {name} says: {reason}", ""
            if self.server.url and not was_closed and _is_of_connection(error):
                closed.set_result(str(error) or "its connection broke")
            raise ServerError(text, untrusted=name, fault=fault) from error

    @asynccontextmanager
    async def _read(self, transport: Transport) -> AsyncIterator[Streams]:
        """Yields a transport's streams, with the items taken out of the listings received."""
        received, checked = anyio.create_memory_object_stream[Any](0)

        async def pass_on() -> None:
            with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                async with received, incoming:
                    async for message in incoming:
                        self._take_items(message)
                        await received.send(message)

        async with transport as (incoming, outgoing), anyio.create_task_group() as group:
            group.start_soon(pass_on)
            yield checked, outgoing
            group.cancel_scope.cancel()

    def _take_items(self, received: object) -> None:
        message = received.message if isinstance(received, SessionMessage) else None
        if not isinstance(message, types.JSONRPCResponse):
            return
        for kind in self._items.keys() & message.result.keys():
            if isinstance(listed := message.result[kind], list):
                message.result[kind] = [item for raw in listed for item in self._take(kind, raw)]

    def _take(self, kind: str, raw: Any) -> Iterator[dict[str, Any]]:
        """Keeps an item if it is usable, and yields the stand-in for it that the SDK gets."""
        item = {k: v for k, v in raw.items() if v is not None} if isinstance(raw, dict) else {}
        schema = item.get("inputSchema", {})
        types_of_arguments = schema.get("type", "object") if isinstance(schema, dict) else None
        fault = ""
        if not _string_value(item, _KINDS[kind]):
            fault = f"it has no {_KINDS[kind]}"
        elif kind == "tools" and "object" not in str(types_of_arguments):
            fault = "its arguments are no object"
        if fault:
            self.left_out[f"{kind[:-1]} {str(item.get('name', raw))[:80]!r}: {fault}"] = None
        elif len(self._items[kind]) < MAX_LISTED:
            self._items[kind].append(item)
            name = item["name"] if kind == "tools" else kind
            yield {"name": name, "uri": "kode:listed", "inputSchema": {"type": "object"}}

    async def _handle_news(self, message: IncomingMessage) -> None:
        changes = types.ToolListChangedNotification | types.PromptListChangedNotification
        if isinstance(message, changes):
            self.news.set()
        await asyncio.sleep(0)

    async def _elicit(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        form = _make_form(self.server.name, params)
        if self.elicit is None or (filled := await self.elicit(form)) is None:
            return types.ElicitResult(action="decline")
        return types.ElicitResult(action="accept", content=None if form.url else dict(filled))


def _string_value(item: Mapping[str, Any], key: str) -> str:
    """The string that an item has for a key; "" if it has none."""
    return value if isinstance(value := item.get(key), str) else ""


def _prompt_arguments(prompt: Mapping[str, Any]) -> Iterator[str]:
    """The names of a prompt's arguments, as in `Offering.arguments`."""
    listed = prompt.get("arguments")
    for argument in listed if isinstance(listed, list) else ():
        if isinstance(argument, dict) and (name := _string_value(argument, "name")):
            yield f"{name}!" if argument.get("required") is True else name


def _read_content(blocks: Iterable[Any]) -> Content:
    """Joins the texts of content blocks and collects their pictures; a line of text stands for any
    other block."""
    texts: list[str] = []
    pictures: list[tuple[str, bytes]] = []

    def add_picture(name: str, encoded: str) -> None:
        try:
            pictures.append((name, base64.b64decode(encoded, validate=True)))
        except (ValueError, binascii.Error):
            texts.append(f"[{name} is damaged.]")

    for block in blocks:
        match block:
            case types.TextContent():
                texts.append(block.text)
            case types.ImageContent():
                add_picture("image", block.data)
            case types.AudioContent():
                texts.append(f"[Audio ({block.mime_type}) that kode does not pass on.]")
            case types.ResourceLink():
                about = f": {block.description}" if block.description else ""
                texts.append(f"[Resource {block.uri}{about}]")
            case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
                texts.append(resource.text)
            case types.EmbeddedResource(resource=types.BlobResourceContents() as resource):
                if str(resource.mime_type).startswith("image/"):
                    add_picture(str(resource.uri), resource.blob)
                else:
                    texts.append(f"[{resource.uri} ({resource.mime_type}) is not text.]")
    return Content(text="\n".join(texts), pictures=tuple(pictures))


def _make_form(server: str, params: types.ElicitRequestParams) -> ElicitForm:
    """Makes the form that an elicitation asks for."""
    if isinstance(params, types.ElicitRequestURLParams):
        return ElicitForm(server=server, message=params.message, url=params.url)
    schema: Mapping[str, Any] = params.requested_schema
    parts, required = schema.get("properties", {}), schema.get("required", ())
    fields = (_make_field(k, it, k in required) for k, it in parts.items() if isinstance(it, dict))
    return ElicitForm(server=server, message=params.message, fields=tuple(fields))


def _make_field(name: str, schema: Mapping[str, Any], required: bool) -> ElicitField:
    kind: Any = schema.get("type")
    listed = schema.get("items", {}) if kind == "array" else schema
    choices = listed.get("oneOf") or listed.get("anyOf") or ()
    options = listed.get("enum") or [choice.get("const") for choice in choices]
    if options:
        kind = "choices" if kind == "array" else "choice"
    return ElicitField(
        name=name,
        title=str(schema.get("description") or schema.get("title") or name),
        kind=kind if options or kind in ("number", "integer", "boolean") else "text",
        options=tuple(map(str, options)),
        required=required,
        default=schema.get("default"),
    )


def _is_of_connection(cause: Exception) -> bool:
    """Whether an error means that the connection, or its session, has ended."""
    is_answer = isinstance(cause, MCPError) and cause.code != types.CONNECTION_CLOSED
    return not is_answer or str(cause) == "Session terminated"


def _innermost_error(error: BaseException) -> BaseException:
    """The innermost exception of nested groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _describe_error(error: BaseException) -> str:
    match innermost := _innermost_error(error):
        case ServerError():
            return str(innermost)
        case ValidationError():
            where = ".".join(map(str, innermost.errors()[0]["loc"]))
            return f"what it sent is not as the protocol has it, at `{where}`"
        case httpx2.ConnectError():
            return "nothing answers at its `url`: check the address, and that the server runs"
    return " ".join(f"{type(innermost).__name__}: {innermost}".split()).rstrip(": ")[:300]


# ── a process ────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def run_process(
    server: ServerFields, wrapped: "Attempt | None", cwd: Path, closed: "asyncio.Future[str]"
) -> AsyncIterator[Streams]:
    """Runs a server's program, and on exit ends it with everything it started. `wrapped` runs it in
    the sandbox; None runs it outside. `closed` gets the reason when the program ends by itself.
    Raises: ServerError if it cannot be started."""
    inherited = {key: os.environ[key] for key in INHERITED if key in os.environ}
    variables = {**inherited, **server.environment, **nested_environment(os.environ)}
    program = open_program(
        server.command, variables, cwd, tree=ProcessTree(wrapped=wrapped), limit=MAX_LINE_BYTES
    )
    async with AsyncExitStack() as stack:
        try:
            process = await stack.enter_async_context(program)
        except (OSError, ValueError) as error:
            raise ServerError(f"{server.program} could not be started: {error}.") from error
        pump = _Pump(process, closed)
        stack.push_async_callback(pump.end)
        yield pump.incoming, pump.outgoing


class _Pump:
    """Carries messages between a process and the SDK."""

    def __init__(self, process: asyncio.subprocess.Process, closed: "asyncio.Future[str]") -> None:
        self._process, self._closed, self._errors = process, closed, b""
        self._received, self.incoming = anyio.create_memory_object_stream[Any](0)
        self.outgoing, self._sent = anyio.create_memory_object_stream[SessionMessage](0)
        self._burst_bytes = self._burst_lines = 0
        self._warning = asyncio.ensure_future(self._warn())
        self._tasks = [self._warning, *map(asyncio.ensure_future, (self._read(), self._write()))]

    async def _read(self) -> None:
        """Reads messages until the output ends or floods. Skips lines that are not messages,
        because many servers print."""
        fault, stdout = "", self._process.stdout
        assert stdout is not None
        try:
            while line := await stdout.readline():
                self._burst_bytes += len(line)
                self._burst_lines += 1
                if self._burst_bytes > MAX_BURST_BYTES or self._burst_lines > MAX_BURST_LINES:
                    size = f"{self._burst_lines:,} lines, {self._burst_bytes >> 20} MB"
                    fault = f"it sent {size}, since kode last wrote to it"
                    return
                with contextlib.suppress(ValueError):
                    message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                    await self._received.send(SessionMessage(message))
            # A child of the process may hold its stderr open.
            await asyncio.wait((self._warning,), timeout=LAST_WORDS_S)
        except ValueError:  # raised by `readline` for a line above the stream's limit
            fault = f"it sent a message of more than {MAX_LINE_BYTES >> 20} MB"
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            pass
        finally:
            if not self._closed.done():
                self._closed.set_result(fault or f"it ended{self._last_words()}")
            self._received.close()

    async def _write(self) -> None:
        assert self._process.stdin is not None
        async for session_message in self._sent:
            line = session_message.message.model_dump_json(by_alias=True, exclude_unset=True)
            self._burst_bytes = self._burst_lines = 0
            with contextlib.suppress(OSError):  # `_read` notices that the process is gone
                self._process.stdin.write(line.encode() + b"\n")
                await self._process.stdin.drain()

    async def _warn(self) -> None:
        assert self._process.stderr is not None
        while data := await self._process.stderr.read(READ_BYTES):
            self._errors = (self._errors + data)[-_MAX_ERRORS_BYTES:]

    def _last_words(self) -> str:
        """The last line on stderr that names an error or a socket, else the last line."""
        lines = self._errors.decode(errors="replace").strip().splitlines()
        telling = [line for line in lines if "error" in line.lower() or SOCKET in line]
        return f": {[*lines, *telling][-1].strip()[:200]}" if lines else ""

    async def end(self) -> None:
        """Stops the pump, closes the process's stdin, and gives it `GRACE_S` to exit by itself."""
        for stream in (self.incoming, self.outgoing, self._received, self._sent):
            stream.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._process.stdin is not None:
            self._process.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S):
                # Not `wait`, which also waits for the pipes: a child process may hold those open.
                while self._process.returncode is None:
                    await asyncio.sleep(0.01)


# ── HTTP ─────────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def open_http(server: ServerFields, auth: httpx2.Auth | None) -> AsyncIterator[Streams]:
    """Opens the current transport: each message is a request whose answer may be a stream."""
    timeout = httpx2.Timeout(CONNECT_TIMEOUT_S, read=server.timeout / 1000)
    async with _http_client(dict(server.headers), timeout, auth) as client:
        async with streamable_http_client(server.url, http_client=client) as streams:
            yield streams


def open_sse(server: ServerFields, auth: httpx2.Auth | None) -> Transport:
    """Opens the older transport: one stream of events, and a request for each message."""
    return sse_client(
        server.url,
        headers=dict(server.headers),
        timeout=CONNECT_TIMEOUT_S,
        sse_read_timeout=server.timeout / 1000,
        httpx_client_factory=_http_client,
        auth=auth,
    )


def _http_client(
    headers: dict[str, Any] | None = None,
    timeout: httpx2.Timeout | None = None,
    auth: httpx2.Auth | None = None,
) -> httpx2.AsyncClient:
    async def limit(response: httpx2.Response) -> None:
        by_event = "event-stream" in response.headers.get("content-type", "")
        response.stream = _Limited(cast(httpx2.AsyncByteStream, response.stream), by_event)

    hooks = {"response": [limit]}
    return httpx2.AsyncClient(headers=headers, timeout=timeout, auth=auth, event_hooks=hooks)


class _Limited(httpx2.AsyncByteStream):
    """Limits a body, or each event of an event stream, to `MAX_BODY_BYTES`."""

    def __init__(self, stream: httpx2.AsyncByteStream, by_event: bool) -> None:
        self._stream, self._by_event = stream, by_event

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            ends_event = self._by_event and (b"\n\n" in chunk or b"\r\n\r\n" in chunk)
            size = len(chunk) + (0 if ends_event else size)
            if size > MAX_BODY_BYTES:
                raise httpx2.ReadError(f"an answer of more than {MAX_BODY_BYTES // 2**20} MB")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
