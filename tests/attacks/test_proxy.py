"""What a hostile server tries with the proxy by which its first start reaches the internet."""

import asyncio
import socket
from contextlib import closing

import pytest

from kode.extensions import mcp_proxy

HOSTS = "127.0.0.1 localhost [::1] 2130706433 0x7f.1 0.0.0.0 169.254.169.254 [::ffff:10.0.0.1]"
REQUESTS = [f"CONNECT {host}:PORT HTTP/1.1\r\n\r\n" for host in HOSTS.split()]
REQUESTS += [
    "x" * 99_999,
    "CONNECT a:1 HTTP/1.1\r\n",
    "\0\r\n\r\n",
    "GET http://a/ HTTP/1.1\r\n\r\n",
]


async def answer_to(request: str) -> tuple[bytes, int]:
    """What comes back, and how many connections the proxy has made."""
    proxy = mcp_proxy.InternetProxy(socket.create_server(("127.0.0.1", 0)))
    async with proxy.serve(), asyncio.timeout(60):
        port = str(proxy.listener.getsockname()[1])  # which answers, as every service here
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with closing(writer):
            writer.write(request.replace("PORT", port).encode())
            return await reader.read(), proxy.connections


@pytest.mark.parametrize("wanted", REQUESTS)
async def test_a_public_address_alone_is_reached(
    wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_proxy, "SETUP_S", 0.5)
    answer, connections = await answer_to(wanted)
    assert not answer.startswith(b"HTTP/1.1 2")
    assert connections == 0
