"""Logs in to an MCP server (OAuth): tokens are stored 0600 under `$KODE_HOME`, one file per server;
the browser returns to this machine. The protocol is the SDK's: PKCE, issuer, resource,
registration, wider scopes."""

import asyncio
import contextlib
import hashlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

import httpx2
from mcp.client.auth.oauth2 import OAuthClientProvider
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import AnyUrl, BaseModel, ValidationError

from kode import durable, paths
from kode.broken_json import object_of
from kode.durable import seal_object, unseal_object
from kode.errors import ServerError
from kode.extensions.mcp_config import Server

CALLBACK = "/kode/callback"
_FIRST_PORT, _PORTS = 49_152, 16_000  # the ports that IANA leaves to everybody
_PAGE = b"You are logged in. You can close this page and return to kode."

LOGIN_TIMEOUT_S = 300.0
"""Time limit of a login; meanwhile no other request reaches the server."""
_METADATA = "/.well-known/oauth-authorization-server"

Model = TypeVar("Model", bound=BaseModel)
Tell = Callable[[str], None]
"""Shows the person the login page."""

Show = Callable[[str], Awaitable[bool]]
"""Shows the login page to a person, if one can log in now, and returns whether. Raises: ServerError
if they refuse."""


def login(server: Server, home: Path, show: Show, used: asyncio.Event) -> "Login":
    """Authorizes requests to a server. If nobody can log in, the request fails with a ServerError
    that says how to; once the connection is `used`, it keeps that as its `fault` instead, so that
    only this request fails."""
    key = hashlib.sha256(server.url.encode()).hexdigest()[:16]
    returns = _Return(port=server.oauth.callback_port or _FIRST_PORT + int(key, 16) % _PORTS)
    callback = AnyUrl(f"http://127.0.0.1:{returns.port}{CALLBACK}")
    secret = server.oauth.client_secret or None
    client = server.oauth.client_id and OAuthClientInformationFull(
        client_id=server.oauth.client_id,
        client_secret=secret,
        token_endpoint_auth_method="client_secret_basic" if secret else "none",
        redirect_uris=[callback],
    )
    tokens = _Tokens(paths.mcp_tokens_file(home, key), server.url, client or None)

    async def redirect(page: str) -> None:
        await returns.listen()
        shown = False
        try:
            shown = await show(page)
        finally:
            if not shown:
                returns.stop()
        if not shown:
            lost = f" ({tokens.path} was damaged and set aside)" if tokens.was_damaged else ""
            raise ServerError(f"it wants you to log in{lost}: `kode mcp test {server.name}`")

    made = Login(
        server_url=server.url,
        client_metadata=OAuthClientMetadata(client_name="kode", redirect_uris=[callback]),
        storage=tokens,
        redirect_handler=redirect,
        callback_handler=returns.wait,
    )
    made.used = used
    return made


class Login(OAuthClientProvider):
    """Accepts the metadata of servers of 2025-03-26 too: it lies at the server's own origin, and
    its issuer may be any address there."""

    used: asyncio.Event
    fault = ""
    """Why a request of a used connection was not authorized."""

    async def _auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        flow = super()._auth_flow(request)
        try:
            outgoing = await anext(flow)
            while True:
                response = yield outgoing
                outgoing = await flow.asend(await self._newer(response))
        except StopAsyncIteration:
            return
        except ServerError as error:
            if not self.used.is_set():
                raise
            self.fault = error.fault
            yield request
        finally:
            await flow.aclose()

    async def _newer(self, response: httpx2.Response) -> httpx2.Response:
        """The metadata with the origin as its issuer, which the SDK compares it with."""
        older = self.context.auth_server_url is None and response.is_success
        if not older or response.request.url.path != _METADATA:
            return response
        document = object_of(await response.aread()) or {}
        origin = self._expected_issuer()
        if not str(document.get("issuer")).startswith(f"{origin.rstrip('/')}/"):
            return response
        renamed = {**document, "issuer": origin}
        return httpx2.Response(response.status_code, json=renamed, request=response.request)


@dataclass
class _Tokens:
    """The SDK's `TokenStorage`, in one file. A damaged one is set aside, which requires a new
    login."""

    path: Path
    url: str
    known: OAuthClientInformationFull | None
    """kode's registration with the server, if its entry has one."""
    was_damaged: bool = False

    async def get_tokens(self) -> OAuthToken | None:
        return self._read("tokens", OAuthToken)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._write("tokens", tokens.model_dump(mode="json", exclude_none=True))

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.known or self._read("client", OAuthClientInformationFull)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._write("client", client_info.model_dump(mode="json", exclude_none=True))

    def _read(self, part: str, kind: type[Model]) -> Model | None:
        held = self._document().get(part)
        try:
            return None if held is None else kind.model_validate(held)
        except ValidationError:
            self._set_aside()
            return None

    def _write(self, part: str, value: Any) -> None:
        with durable.locked(self.path.parent):
            document = {**self._document(), "url": self.url, part: value}
            data = json.dumps(seal_object(document), indent=2).encode()
            durable.replace(self.path, data + b"\n")

    def _document(self) -> dict[str, Any]:
        with contextlib.suppress(ValueError):
            try:
                content = unseal_object(object_of(self.path.read_bytes()) or {})
            except FileNotFoundError:
                return {}
            # The name is a short hash: tokens of another server must never be sent to this one.
            if content.get("url") == self.url:
                return content
        self._set_aside()
        return {}

    def _set_aside(self) -> None:
        durable.set_aside(self.path)
        self.was_damaged = True


@dataclass
class _Return:
    """Waits on the loopback for the browser to return. The port is the same at each login, because
    some servers accept no other."""

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
            async with asyncio.timeout(LOGIN_TIMEOUT_S):
                return await self._result
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
            ours = target.path == CALLBACK and ("code" in query or "error" in query)
            status = b"200 OK" if ours else b"404 Not Found"
            page = _PAGE if ours and "code" in query else b"The login failed; see kode."
            writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Type: text/plain\r\n")
            writer.write(b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(page) + page)
            await writer.drain()
            if not ours or self._result is None or self._result.done():
                pass
            elif "code" in query:
                answer = {key: query.get(key) for key in ("code", "state", "iss")}
                self._result.set_result(AuthorizationCodeResult.model_validate(answer))
            else:
                reason = query.get("error_description") or query["error"]
                self._result.set_exception(ServerError(f"the login was refused: {reason[:200]}"))
        writer.close()
