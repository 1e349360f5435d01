"""The only user of the Model Context Protocol SDK: connects to a server and returns a `Connection`.
Its parts are `mcp_process`, `mcp_contents` and `mcp_login`.

The SDK speaks both eras of the protocol. It is imported with this module, which takes a second or
two: import it in a thread, and only to start a server.
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import httpx2
import mcp_types as types
from mcp.client.client import Client
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from kode import __version__
from kode.errors import ServerError
from kode.extensions.mcp_config import Server
from kode.extensions.mcp_contents import Listing, checked_listings, content_of, form_of
from kode.extensions.mcp_login import Login, Tell, login
from kode.extensions.mcp_process import Streams, run_process
from kode.extensions.mcp_values import Content, Definition, Elicit, Form, Named, Progress

if TYPE_CHECKING:
    from kode.sandbox.attempt import Attempt

MAX_BODY_BYTES = 32 * 1024 * 1024
"""Limit of one answer over HTTP, streamed or not."""
CONNECT_TIMEOUT_S = 30.0  # as a process's start
MAX_PAGES = 50  # ends a server that always names a next page
MAX_LISTED = 1_000
"""Limit of a list that a server sends page by page; an endless one is cut here."""
LIST_TIMEOUT_S = 30.0  # as its start
MAX_CALL_TIMEOUTS = 20
"""Progress extends a call's time limit up to this many times."""

# It would print servers' mistakes to the terminal.
logging.getLogger("mcp").setLevel(logging.CRITICAL + 1)


@asynccontextmanager
async def connect(
    server: Server,
    *,
    wrap: "Callable[[tuple[str, ...]], Attempt | None]",
    cwd: Path,
    home: Path,
    tell: Tell | None = None,
    elicit: Elicit | None = None,
) -> AsyncIterator["Connection"]:
    """Starts or reaches a server, negotiates a version, and yields the connection.

    `wrap` puts its command into the sandbox; if it returns None, it runs outside. `tell` shows a
    person the login page; without it, `elicit` does during a call. Tokens are stored in `home`.

    Raises: ServerError.
    """
    news, closed = asyncio.Event(), asyncio.get_running_loop().create_future()
    used = asyncio.Event()

    async def show(page: str) -> bool:
        if tell is not None:
            tell(page)
            return True
        # The start of a server waits for nobody; a call may.
        if elicit is None or not used.is_set():
            return False
        asked = "To go on with this call, it wants you to log in, at this page on this machine:"
        if await elicit(Form(server=server.name, message=asked, url=page)) is None:
            raise ServerError("it wants you to log in for this call, and you said no")
        return True

    async def open_client(links: contextlib.AsyncExitStack) -> Connection:
        auth = None
        with _as_server_errors(server.name, closed=closed):
            if server.url:
                names = {name.lower() for name in server.headers}
                auth = None if "authorization" in names else login(server, home, show, used)
                transport = (_open_sse if server.type == "sse" else _open_http)(server, auth)
            else:
                transport = run_process(server, wrap(server.command), cwd, closed)
            listing = Listing()
            client = Client(
                checked_listings(transport, listing),
                client_info=types.Implementation(name="kode", version=__version__),
                message_handler=_news_handler(news),
                elicitation_callback=None if elicit is None else _elicitor(server.name, elicit),
            )
            await links.enter_async_context(client)
        listening = asyncio.ensure_future(_listen(client, news))
        links.callback(listening.cancel)
        return Connection(server, client, listing, news, closed, used, auth)

    failed: Exception | None = None
    try:
        # Closed in order, so that the SDK, which cancels this task when a connection breaks, also
        # undoes its cancellation.
        async with contextlib.AsyncExitStack() as links:
            connection = await open_client(links)
            try:
                yield connection
            except Exception as error:
                failed = error
    except Exception as error:
        innermost = _innermost(error)
        if isinstance(innermost, ServerError):
            raise innermost from error
        if failed is None:
            raise ServerError(f"its connection broke ({_said(innermost)})") from error
    if failed is not None:
        raise failed


@dataclass
class Connection:
    """An open connection to one server. Every method raises ServerError."""

    server: Server
    client: Client
    listing: Listing
    news: asyncio.Event
    """Set when the server says that its lists have changed."""
    closed: "asyncio.Future[str]"
    """Gets the reason when the connection ends."""
    used: asyncio.Event
    """Set with the first call: from then on a person can be asked to log in."""
    auth: Login | None

    @property
    def instructions(self) -> str:
        return self.client.instructions or ""

    @property
    def left_out(self) -> tuple[str, ...]:
        """What of its listings cannot be used, as `tool 'NAME': WHY`."""
        return tuple(self.listing.left_out)

    async def tools(self) -> Mapping[str, Definition]:
        """Its tools by name. Of two with one name the first counts: the second would hide it."""
        definitions: dict[str, Definition] = {}
        self.listing.output_schemas.clear()
        self.listing.left_out.clear()
        if not self._offers("tools"):
            return definitions
        for tool in await self._list(self.client.list_tools, lambda page: page.tools):
            whole = tool.model_dump(mode="json", by_alias=True, exclude_none=True)
            if tool.name in self.listing.output_schemas:
                whole["outputSchema"] = self.listing.output_schemas[tool.name]
            definitions.setdefault(tool.name, Definition(whole))
        return definitions

    async def call(self, tool: str, arguments: Mapping[str, Any], report: Progress) -> Content:
        """Calls a tool. Cancelling it notifies the server."""
        self.used.set()
        limit_s = self.server.timeout / 1000
        loop = asyncio.get_running_loop()
        latest = loop.time() + limit_s * MAX_CALL_TIMEOUTS
        with self._guarded(limit_s):
            async with asyncio.timeout(limit_s) as deadline:

                async def on_progress(
                    progress: float, total: float | None, message: str | None
                ) -> None:
                    deadline.reschedule(min(latest, loop.time() + limit_s))
                    share = f"{progress:g} of {total:g}" if total else f"{progress:g}"
                    report(f"{message[:200]} ({share})" if message else share)

                result = await self.client.call_tool(
                    tool, dict(arguments), progress_callback=on_progress
                )
        content = content_of(result.content)
        if not content.text and not content.pictures and result.structured_content is not None:
            text = json.dumps(result.structured_content, ensure_ascii=False, indent=1)
            content = Content(text=text)
        return Content(text=content.text, pictures=content.pictures, is_error=bool(result.is_error))

    async def resources(self) -> tuple[Named, ...]:
        if not self._offers("resources"):
            return ()
        resources = await self._list(self.client.list_resources, lambda page: page.resources)
        return tuple(Named(key=str(r.uri), description=r.description or r.name) for r in resources)

    async def read(self, uri: str) -> Content:
        with self._guarded(LIST_TIMEOUT_S):
            async with asyncio.timeout(LIST_TIMEOUT_S):
                result = await self.client.read_resource(uri)
        parts = [
            types.EmbeddedResource(type="resource", resource=content) for content in result.contents
        ]
        return content_of(parts)

    async def prompts(self) -> tuple[Named, ...]:
        if not self._offers("prompts"):
            return ()
        prompts = await self._list(self.client.list_prompts, lambda page: page.prompts)
        return tuple(
            Named(
                key=prompt.name,
                description=prompt.description or "",
                arguments=tuple(
                    f"{argument.name}!" if argument.required else argument.name
                    for argument in prompt.arguments or ()
                ),
            )
            for prompt in prompts
        )

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> Content:
        with self._guarded(LIST_TIMEOUT_S):
            async with asyncio.timeout(LIST_TIMEOUT_S):
                result = await self.client.get_prompt(name, dict(arguments))
        return content_of(message.content for message in result.messages)

    @contextlib.contextmanager
    def _guarded(self, limit_s: float) -> Iterator[None]:
        """Wraps a request. An HTTP request is the only way to notice that a server is gone and must
        be reached again."""
        try:
            with _as_server_errors(self.server.name, limit_s, self.closed):
                yield
        except ServerError as error:
            if self.auth is not None and self.auth.fault:
                fault, self.auth.fault = self.auth.fault, ""
                raise _failed(self.server.name, fault) from error
            if self.server.url and not self.closed.done() and _is_of_connection(error.__cause__):
                self.closed.set_result(str(error.__cause__) or "its connection broke")
            raise

    def _offers(self, what: str) -> bool:
        return getattr(self.client.server_capabilities, what) is not None

    async def _list(self, page_of: Any, items_of: Callable[[Any], Iterable[Any]]) -> list[Any]:
        items: list[Any] = []
        cursor: str | None = None
        with self._guarded(LIST_TIMEOUT_S):
            async with asyncio.timeout(LIST_TIMEOUT_S):
                for _ in range(MAX_PAGES):
                    page = await page_of(cursor=cursor, cache_mode="bypass")
                    items += items_of(page)
                    cursor = page.next_cursor
                    if cursor is None or len(items) >= MAX_LISTED:
                        break
        return items[:MAX_LISTED]


# ── servers that are reached by HTTP ─────────────────────────────────────────────────────────


@asynccontextmanager
async def _open_http(server: Server, auth: httpx2.Auth | None) -> AsyncIterator[Streams]:
    timeout = httpx2.Timeout(CONNECT_TIMEOUT_S, read=server.timeout / 1000)
    async with _http_client(dict(server.headers), timeout, auth) as client:
        async with streamable_http_client(server.url, http_client=client) as streams:
            yield streams


def _open_sse(server: Server, auth: httpx2.Auth | None) -> AbstractAsyncContextManager[Streams]:
    """The older transport: one stream of events, and a request for each message."""
    return sse_client(
        server.url,
        headers=dict(server.headers),
        timeout=CONNECT_TIMEOUT_S,
        sse_read_timeout=server.timeout / 1000,
        httpx_client_factory=partial(_http_client, by_event=True),
        auth=auth,
    )


def _http_client(
    headers: dict[str, Any] | None = None,
    timeout: httpx2.Timeout | None = None,
    auth: httpx2.Auth | None = None,
    by_event: bool = False,
) -> httpx2.AsyncClient:
    async def limit(response: httpx2.Response) -> None:
        response.stream = _Limited(cast(httpx2.AsyncByteStream, response.stream), by_event)

    hooks = {"response": [limit]}
    return httpx2.AsyncClient(headers=headers, timeout=timeout, auth=auth, event_hooks=hooks)


class _Limited(httpx2.AsyncByteStream):
    """A body limited to `MAX_BODY_BYTES`, or each event of one that lasts."""

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


# ── what servers say unasked ─────────────────────────────────────────────────────────────────


def _news_handler(news: asyncio.Event) -> Any:
    changes = (
        types.ToolListChangedNotification,
        types.PromptListChangedNotification,
        types.ResourceListChangedNotification,
    )

    async def handle(message: IncomingMessage) -> None:
        if isinstance(message, changes):
            news.set()
        await asyncio.sleep(0)

    return handle


async def _listen(client: Client, news: asyncio.Event) -> None:
    """Servers of the newer era announce changes only to listeners; others cannot be listened to,
    which is fine."""
    with contextlib.suppress(Exception):
        async with client.listen(
            tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True
        ) as changes:
            async for _ in changes:
                news.set()


def _elicitor(name: str, elicit: Elicit) -> Any:
    async def ask(
        context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        form = form_of(name, params)
        filled = await elicit(form)
        if filled is None:
            return types.ElicitResult(action="decline")
        content = None if form.url else dict(filled)
        return types.ElicitResult(action="accept", content=content)

    return ask


# ── faults ───────────────────────────────────────────────────────────────────────────────────


@contextlib.contextmanager
def _as_server_errors(
    name: str, limit_s: float = 0.0, closed: "asyncio.Future[str] | None" = None
) -> Iterator[None]:
    """Turns whatever goes wrong with a server into a ServerError with a sentence about it."""
    try:
        yield
    except ServerError as error:
        raise _failed(name, str(error), untrusted=name) from error
    except TimeoutError as error:
        raise ServerError(f"The MCP server {name} did not answer in {limit_s:g} s.") from error
    except MCPError as error:
        if closed is not None and closed.done():
            raise _failed(name, f"{closed.result()}.") from error
        reason = " ".join(str(error).split())[:500]
        raise ServerError(f"The MCP server {name} says: {reason}", untrusted=name) from error
    except Exception as error:
        reason = closed.result() if closed is not None and closed.done() else _said(error)
        raise _failed(name, reason, untrusted=name) from error


def _failed(name: str, fault: str, *, untrusted: str = "") -> ServerError:
    text = f"The MCP server {name} failed: {fault}"
    return ServerError(text, untrusted=untrusted, fault=fault)


def _is_of_connection(cause: BaseException | None) -> bool:
    """Whether an error says that the connection, or its session, has ended."""
    if isinstance(cause, MCPError):
        return cause.code == types.CONNECTION_CLOSED or str(cause) == "Session terminated"
    return not isinstance(cause, TimeoutError)


def _innermost(error: BaseException) -> BaseException:
    """The innermost exception of nested groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _said(error: BaseException) -> str:
    innermost = _innermost(error)
    if isinstance(innermost, ValidationError):
        where = ".".join(map(str, innermost.errors()[0]["loc"]))
        return f"what it sent is not as the protocol has it, at `{where}`"
    if isinstance(innermost, httpx2.ConnectError):
        return "nothing answers at its `url`: check the address, and that the server runs"
    return " ".join(f"{type(innermost).__name__}: {innermost}".split()).rstrip(": ")[:300]
