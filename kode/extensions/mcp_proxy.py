"""A proxy that gives a server's first start access to the internet. It runs outside of the sandbox,
listens in the sandbox's own network, and ends with that start. It resolves names itself and
connects to the address that it has checked, so never to this machine or a private network. It
accepts only CONNECT requests, and passes on only what follows them."""

import asyncio
import contextlib
import re
import socket
from base64 import b64encode
from collections.abc import AsyncIterator
from urllib.parse import unquote, urlsplit

from kode.tools.fetch_url import Address, explain_refusal, resolve_host
from kode.values import dataclass, field

MAX_CONNECTIONS = 100  # twice what `uv` opens
MAX_HEAD_BYTES = 16 * 1024
SETUP_S = 60.0  # longer than the system takes to resolve a name
MAX_REFUSED = 5  # a longer list would not help a person

_REQUEST = re.compile(rb"CONNECT \[?([\w.:-]{1,255}?)\]?:(\d{1,5}) HTTP/1\.[01]\r\n", re.ASCII)
_PROXY = "http_proxy https_proxy HTTP_PROXY HTTPS_PROXY npm_config_proxy npm_config_https_proxy"
_NO_PROXY = "no_proxy NO_PROXY npm_config_noproxy"
_ENDS = (OSError, EOFError, ValueError, OverflowError, asyncio.LimitOverrunError)
"""The errors of a connection that breaks or does not speak HTTP."""
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class InternetProxy:
    listener: socket.socket
    upstream: str = ""
    """The address of the person's own proxy for https; "" for none."""
    connections: int = 0
    """How many connections to targets it has made."""
    refused: list[str] = field(default_factory=list)
    """Targets that it did not connect to, with the reason; at most `MAX_REFUSED`."""
    _lookups: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(4))
    """Limits simultaneous lookups: kode needs the other threads."""

    def variables(self) -> dict[str, str]:
        """Environment variables that make programs use the proxy, except for their own loopback."""
        address = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        direct = dict.fromkeys(_NO_PROXY.split(), "localhost,127.0.0.1,::1")
        return {**dict.fromkeys(_PROXY.split(), address), **direct, "NODE_USE_ENV_PROXY": "1"}

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[None]:
        tasks = set[asyncio.Task[None]]()

        def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if len(tasks) < MAX_CONNECTIONS:
                task = asyncio.ensure_future(self._answer(reader, writer))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            else:
                writer.close()

        server = await asyncio.start_server(begin, sock=self.listener, limit=MAX_HEAD_BYTES)
        try:
            yield
        finally:
            server.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(*_ENDS):
            async with asyncio.timeout(SETUP_S):
                request = _REQUEST.match(await reader.readuntil(b"\r\n\r\n"))
                host, port = (request[1].decode(), int(request[2])) if request else ("", 0)
                target = await self._connect(host, port)
            writer.write(f"HTTP/1.1 {'200 OK' if target else '403 Forbidden'}\r\n\r\n".encode())
            if target is not None:
                with contextlib.closing(target[1]):
                    await asyncio.gather(_copy(reader, target[1]), _copy(target[0], writer))

    async def _connect(self, host: str, port: int) -> Streams | None:
        """Connects to a host; None if that is refused or fails, or for no host (not a CONNECT)."""
        addresses, fault = list[Address](), "it has no address" if host else "what is not https"
        with contextlib.suppress(OSError, ValueError):
            async with self._lookups:
                addresses = await resolve_host(host) if host else []
        for address in addresses[:4]:
            if not (fault := explain_refusal(address)):
                with contextlib.suppress(*_ENDS):
                    streams = await self._dial(address, port)
                    self.connections += 1
                    return streams
                fault = "it does not answer"
        refused = f"{host}:{port} ({fault})" if host else fault
        self.refused = [*dict.fromkeys((*self.refused, refused))][:MAX_REFUSED]
        return None

    async def _dial(self, address: Address, port: int) -> Streams:
        """Raises: one of `_ENDS`."""
        if not self.upstream:
            return await asyncio.open_connection(str(address), port)
        proxy, name = urlsplit(self.upstream), f"[{address}]" if address.version == 6 else address
        reader, writer = await asyncio.open_connection(proxy.hostname, proxy.port or 80)
        login = b64encode(unquote(f"{proxy.username}:{proxy.password or ''}").encode()).decode()
        secret = f"Proxy-Authorization: Basic {login}\r\n"
        head = f"CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}:{port}\r\n"
        writer.write(f"{head}{secret if proxy.username else ''}\r\n".encode())
        if b" 2" not in (await reader.readuntil(b"\r\n\r\n"))[:10]:
            writer.close()
            raise ConnectionRefusedError
        return reader, writer


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Copies data from one stream to the other until the first one ends."""
    with contextlib.suppress(OSError):
        while data := await source.read(64 * 1024):
            target.write(data)
            await target.drain()
    target.write_eof()
