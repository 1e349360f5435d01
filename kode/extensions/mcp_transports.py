"""How messages reach an MCP server and come back: the process in the sandbox, HTTP with its older
form, and the login (OAuth). Part of `mcp_connection`.

What a server sends is limited: an endless line, body or event, or a flood of lines, ends it; of its
stderr only the end is kept. The login's protocol is the SDK's: PKCE, issuer, resource,
registration, wider scopes. Tokens are stored 0600 under `$KODE_HOME`, one file per server.
"""

import asyncio
import contextlib
import hashlib
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import parse_qsl, urlsplit

import anyio
import httpx2
import mcp_types as types
from mcp.client.auth.oauth2 import OAuthClientProvider
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from mcp.shared.message import SessionMessage
from pydantic import AnyUrl, BaseModel

from kode import durable, paths
from kode.broken_json import object_of
from kode.durable import seal_object, unseal_object
from kode.errors import ServerError
from kode.extensions.mcp_config import LOGIN_TIMEOUT_S, SOCKET, Server
from kode.process import increment_depth
from kode.tools.processes import ProcessTree, open_program

if TYPE_CHECKING:
    from kode.sandbox.attempt import Attempt

MAX_LINE_BYTES = 16 * 1024 * 1024
"""Limit of one message of a process."""
MAX_BURST_BYTES = 32 * 1024 * 1024  # a result with pictures in base64
MAX_BURST_LINES = 10_000
"""Limit of what a process sends between two messages to it, asked for or not."""
MAX_BODY_BYTES = 32 * 1024 * 1024
"""Limit of one answer over HTTP, streamed or not."""
GRACE_S = 0.5
"""Time to exit by itself once its standard input is closed."""
LAST_WORDS_S = 0.5
"""How long the reason of an end waits for them."""
CONNECT_TIMEOUT_S = 30.0  # as a process's start

_READ_BYTES = 65_536
"""The capacity of a pipe on Linux, see pipe(7)."""
_MAX_ERRORS_BYTES = 2_000  # the last lines before it died

INHERITED = (
    "HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER",
    "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE",
)  # fmt: skip
"""The variables every server gets; all others are named by its entry. The last say which
certificates a machine trusts."""

Streams = tuple[Any, Any]
"""What the SDK reads messages from, and writes them to."""
Transport = AbstractAsyncContextManager[Streams]
Model = TypeVar("Model", bound=BaseModel)
Show = Callable[[str], Awaitable[bool]]
"""Shows the login page to a person, if one can log in now, and returns whether."""


# ── a process ────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def run_process(
    server: Server, wrapped: "Attempt | None", cwd: Path, closed: "asyncio.Future[str]"
) -> AsyncIterator[Streams]:
    """Starts the program of a server, and ends it with everything it started. `wrapped` runs it in
    the sandbox; None: it runs outside. `closed` gets the reason when it ends by itself.

    Raises: ServerError if there is no such program.
    """
    inherited = {key: os.environ[key] for key in INHERITED if key in os.environ}
    variables = {**inherited, **server.environment, **increment_depth(os.environ)}
    program = open_program(
        server.command, variables, cwd, tree=ProcessTree(wrapped=wrapped), limit=MAX_LINE_BYTES
    )
    async with AsyncExitStack() as stack:
        try:
            process = await stack.enter_async_context(program)
        except (OSError, ValueError) as error:
            raise ServerError(f"{server.program} could not be started: {error}.") from error
        pump = _Pump(process, closed)
        try:
            yield pump.incoming, pump.outgoing
        finally:
            await pump.end()


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
        """Reads messages until the output ends or floods. Skips lines that are not messages:
        many servers print."""
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
            # A child of it may hold its stderr open.
            await asyncio.wait((self._warning,), timeout=LAST_WORDS_S)
        except ValueError:  # of a line that is longer than the limit of the stream
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
            with contextlib.suppress(OSError):  # reading detects that it is gone
                self._process.stdin.write(line.encode() + b"\n")
                await self._process.stdin.drain()

    async def _warn(self) -> None:
        assert self._process.stderr is not None
        while data := await self._process.stderr.read(_READ_BYTES):
            self._errors = (self._errors + data)[-_MAX_ERRORS_BYTES:]

    def _last_words(self) -> str:
        """The last line on stderr that names an error or a socket, else the last line."""
        lines = self._errors.decode(errors="replace").strip().splitlines()
        telling = [line for line in lines if "error" in line.lower() or SOCKET in line]
        return f": {[*lines, *telling][-1].strip()[:200]}" if lines else ""

    async def end(self) -> None:
        """Lets it exit by itself for a moment."""
        for stream in (self.incoming, self.outgoing, self._received, self._sent):
            stream.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._process.stdin is not None:
            self._process.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S):
                # Not `wait`, which also waits for the pipes, which a child of it may hold open.
                while self._process.returncode is None:
                    await asyncio.sleep(0.01)


# ── HTTP ─────────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def open_http(server: Server, auth: httpx2.Auth | None) -> AsyncIterator[Streams]:
    """The current transport: each message is a request, and its answer may be a stream."""
    timeout = httpx2.Timeout(CONNECT_TIMEOUT_S, read=server.timeout / 1000)
    async with _http_client(dict(server.headers), timeout, auth) as client:
        async with streamable_http_client(server.url, http_client=client) as streams:
            yield streams


def open_sse(server: Server, auth: httpx2.Auth | None) -> Transport:
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
    """Limits a body to `MAX_BODY_BYTES`, or each event of a body without an end."""

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


# ── the login ────────────────────────────────────────────────────────────────────────────────

CALLBACK = "/kode/callback"
_FIRST_PORT, _PORTS = 49_152, 16_000  # the ports that IANA leaves to everybody
_PAGE = "You are logged in. You can close this page and return to kode."


def make_authorization(
    server: Server, home: Path, show: Show, closed: "asyncio.Future[str]"
) -> OAuthClientProvider:
    """The authorization of requests to a server. If nobody can log in, a request fails with a
    ServerError that says how to log in; `closed` gets the same text."""
    key = hashlib.sha256(server.url.encode()).hexdigest()[:16]
    # The same port at each login, because some servers accept no other.
    browser = _Return(port=_FIRST_PORT + int(key, 16) % _PORTS)
    callback = AnyUrl(f"http://127.0.0.1:{browser.port}{CALLBACK}")
    tokens = _Tokens(paths.mcp_tokens_file(home, key), server.url)

    async def redirect(page: str) -> None:
        await browser.listen()
        if await show(page):
            return
        browser.stop()
        lost = f" ({tokens.path} was damaged and set aside)" if tokens.was_damaged else ""
        error = ServerError(f"it wants you to log in{lost}: `kode mcp test {server.name}`")
        if not closed.done():
            closed.set_result(error.fault)
        raise error

    return OAuthClientProvider(
        server_url=server.url,
        client_metadata=OAuthClientMetadata(client_name="kode", redirect_uris=[callback]),
        storage=tokens,
        redirect_handler=redirect,
        callback_handler=browser.wait,
    )


@dataclass
class _Tokens:
    """The SDK's `TokenStorage`, in one file. A damaged one is set aside, which requires a new
    login."""

    path: Path
    url: str
    was_damaged: bool = False

    async def get_tokens(self) -> OAuthToken | None:
        return self._read("tokens", OAuthToken)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._write("tokens", tokens)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._read("client", OAuthClientInformationFull)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._write("client", client_info)

    def _read(self, part: str, kind: type[Model]) -> Model | None:
        """Raises no error for damage."""
        try:
            value = self._load().get(part)
            return None if value is None else kind.model_validate(value)
        except ValueError:  # also pydantic's
            durable.set_aside(self.path)
            self.was_damaged = True
            return None

    def _write(self, part: str, value: BaseModel) -> None:
        with durable.locked(self.path.parent):
            plain = value.model_dump(mode="json", exclude_none=True)
            document = {**self._load(), "url": self.url, part: plain}
            data = json.dumps(seal_object(document), indent=2).encode()
            durable.replace(self.path, data + b"\n")

    def _load(self) -> dict[str, Any]:
        """Raises: ValueError for damage."""
        if not self.path.exists():
            return {}
        content = unseal_object(object_of(self.path.read_bytes()) or {})
        # The name is a short hash: tokens of another server must never be sent to this one.
        if content.get("url") != self.url:
            raise ValueError("it is of another server")
        return content


@dataclass
class _Return:
    """Waits on the loopback for the browser to return."""

    port: int
    _server: asyncio.Server | None = None
    _result: "asyncio.Future[AuthorizationCodeResult] | None" = None

    async def listen(self) -> None:
        """Raises: ServerError if the port is taken."""
        self._result = asyncio.get_running_loop().create_future()
        try:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        except OSError as error:
            raise ServerError(
                f"port {self.port} is in use, and the login needs it: {error.strerror}"
            ) from error

    async def wait(self) -> AuthorizationCodeResult:
        """Raises: ServerError if the person or the server refused, or nobody logged in."""
        assert self._result is not None
        try:
            return await asyncio.wait_for(self._result, LOGIN_TIMEOUT_S)
        except TimeoutError as error:
            raise ServerError(f"nobody logged in within {LOGIN_TIMEOUT_S:g} s") from error
        finally:
            self.stop()

    def stop(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ValueError, asyncio.LimitOverrunError):
            words = (await reader.readline()).decode("ascii", "replace").split()
            target = urlsplit(words[1] if len(words) > 1 else "")
            query = dict(parse_qsl(target.query))
            is_return = target.path == CALLBACK and ("code" in query or "error" in query)
            page = _PAGE if is_return and "code" in query else "The login failed; see kode."
            status = "200 OK" if is_return else "404 Not Found"
            head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nConnection: close"
            writer.write(f"{head}\r\n\r\n{page}".encode())
            await writer.drain()
            if is_return and self._result is not None and not self._result.done():
                if "code" in query:
                    answer = {key: query.get(key) for key in ("code", "state", "iss")}
                    self._result.set_result(AuthorizationCodeResult.model_validate(answer))
                else:
                    reason = (query.get("error_description") or query["error"])[:200]
                    self._result.set_exception(ServerError(f"the login was refused: {reason}"))
        writer.close()
