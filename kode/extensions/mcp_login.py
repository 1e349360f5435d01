"""Logs in at an MCP server that requires it (OAuth). Part of `mcp_connection`.

The SDK implements the protocol: PKCE, issuer, resource, registration, wider scopes. Tokens are
stored under `$KODE_HOME`, one file per server, with mode 0600.
"""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from mcp.client.auth.oauth2 import OAuthClientProvider
from mcp.shared import auth
from pydantic import AnyUrl, TypeAdapter
from pydantic_core import to_jsonable_python

from kode import durable
from kode.broken_json import object_of
from kode.errors import ServerError
from kode.extensions.mcp_config import LOGIN_TIMEOUT_S, ServerFields, tokens_file
from kode.values import dataclass, field

CALLBACK = "/kode/callback"
_FIRST_PORT, _PORTS = 49_152, 16_000  # the range that IANA assigns to nobody
_PAGE = "You are logged in. You can close this page and return to kode."
_RENEWAL = {
    "token_expiry_time": float,
    "oauth_metadata": auth.OAuthMetadata,
    "protected_resource_metadata": auth.ProtectedResourceMetadata,
}
"""Attributes of the SDK's `OAuthContext` that renew tokens; the SDK does not store them."""


def make_authorization(
    server: ServerFields,
    home: Path,
    show: Callable[[str], Awaitable[bool]],
    closed: "asyncio.Future[str]",
) -> OAuthClientProvider:
    """Makes the authorization of requests to a server. `show` shows the login page if a person can
    log in now, and returns whether it did. If nobody can, a request fails with a ServerError that
    says how to log in; `closed` gets the same text."""
    path, pages = tokens_file(home, server.url), list[str]()
    # The same port at each login, because some servers accept no other.
    tokens, port = _Tokens(path, server.url), _FIRST_PORT + int(path.stem, 16) % _PORTS

    async def keep_page(page: str) -> None:
        pages.append(page)

    async def log_in() -> auth.AuthorizationCodeResult:
        result: asyncio.Future[auth.AuthorizationCodeResult] = asyncio.Future()
        try:
            listener = await asyncio.start_server(
                partial(_answer_browser, result), "127.0.0.1", port
            )
        except OSError as error:
            text = f"port {port} is in use, and the login needs it: {error.strerror}"
            raise ServerError(text) from error
        try:
            if await show(pages[-1]):
                return await asyncio.wait_for(result, LOGIN_TIMEOUT_S)
        except TimeoutError as error:
            raise ServerError(f"nobody logged in within {LOGIN_TIMEOUT_S:g} s") from error
        finally:
            listener.close()
        failure = ServerError(f"it wants you to log in: `kode mcp login {server.name}`")
        if not closed.done():
            closed.set_result(failure.fault)
        raise failure

    callback = AnyUrl(f"http://127.0.0.1:{port}{CALLBACK}")
    provider = OAuthClientProvider(
        server_url=server.url,
        client_metadata=auth.OAuthClientMetadata(client_name="kode", redirect_uris=[callback]),
        storage=tokens,
        redirect_handler=keep_page,
        callback_handler=log_in,
    )
    tokens.context = provider.context
    return provider


async def _answer_browser(
    result: "asyncio.Future[auth.AuthorizationCodeResult]",
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Answers the browser when it returns from the login page, and sets the result: a ServerError
    if the person or the server refused the login."""
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
        if is_return and not result.done() and "code" in query:
            result.set_result(auth.AuthorizationCodeResult.model_validate(query))
        elif is_return and not result.done():
            reason = (query.get("error_description") or query["error"])[:200]
            result.set_exception(ServerError(f"the login was refused: {reason}"))
    writer.close()


@dataclass
class _Tokens:
    """The SDK's `TokenStorage`, in one file, with what a later process needs to renew the tokens. A
    damaged file is set aside, which requires a new login."""

    path: Path
    url: str
    context: Any = field(default_factory=SimpleNamespace)

    async def get_tokens(self) -> Any:
        for name, kind in _RENEWAL.items():
            setattr(self.context, name, self._read(name, kind))
        return self._read("tokens", auth.OAuthToken)

    async def set_tokens(self, tokens: auth.OAuthToken) -> None:
        self._write(tokens=tokens, **{name: getattr(self.context, name, None) for name in _RENEWAL})

    async def get_client_info(self) -> Any:
        return self._read("client", auth.OAuthClientInformationFull)

    async def set_client_info(self, client_info: auth.OAuthClientInformationFull) -> None:
        self._write(client=client_info)

    def _read(self, part: str, kind: Any) -> Any:
        """A stored part; None if it is missing or damaged. A damaged file is set aside."""
        try:
            value = self._load().get(part)
            return None if value is None else TypeAdapter(kind).validate_python(value)
        except ValueError:  # also pydantic's
            durable.set_aside(self.path)
            return None

    def _write(self, **parts: Any) -> None:
        with durable.hold_lock(self.path.parent):
            plain = to_jsonable_python(parts, exclude_none=True)
            document = {**self._load(), "url": self.url, **plain}
            data = json.dumps(durable.seal_object(document), indent=2).encode()
            durable.replace_file(self.path, data + b"\n")

    def _load(self) -> dict[str, Any]:
        """The stored parts; {} without a file. Raises: ValueError for damage."""
        if not self.path.exists():
            return {}
        content = durable.unseal_object(object_of(self.path.read_bytes()) or {})
        # The name is a short hash: tokens of another server must never be sent to this one.
        if content.get("url") != self.url:
            raise ValueError("it is of another server")
        return content
