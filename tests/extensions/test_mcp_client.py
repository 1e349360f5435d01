"""Each feature of the protocol, with a real server of the SDK, over both transports."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
import threading
import urllib.request
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from kode.errors import ServerError
from kode.extensions import mcp_connection, mcp_transports
from kode.extensions.mcp_config import Entry, Server
from kode.extensions.mcp_server import McpServer, opener

pytestmark = pytest.mark.slow

SERVERS = Path(__file__).parent / "servers"
PLAIN = str(SERVERS / "plain.py")


def outside(argv):
    return None


@asynccontextmanager
async def listening(script, *words, port=None):
    """A server of `servers/` that listens; gives its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = port or free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(SERVERS / script), *words),
        env={**os.environ, "PORT": str(port)},
        stderr=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                await writer.wait_closed()
                break
            except OSError:
                await asyncio.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.send_signal(signal.SIGKILL)
        await process.wait()


@asynccontextmanager
async def over_http():
    async with listening("plain.py", "http") as url:
        yield Server(name="plain", url=url)


@asynccontextmanager
async def over_sse():
    async with listening("plain.py", "sse") as url:
        url = url.replace("/mcp", "/sse")
        yield Server(name="plain", url=url, type="sse")


@asynccontextmanager
async def over_stdio():
    yield Server(name="plain", program=sys.executable, args=(PLAIN,))


@pytest.mark.parametrize("transport", [over_stdio, over_http, over_sse])
async def test_a_server_of_the_sdk_with_all_it_offers(transport, tmp_path):
    asked, lines = [], []

    async def elicit(form):
        asked.append(form)
        return {"colour": "red"}

    async with (
        transport() as server,
        mcp_connection.connect(
            server, wrap=outside, cwd=tmp_path, home=tmp_path, elicit=elicit
        ) as connection,
    ):
        tools = await connection.tools()
        assert tools["add"].description == "Adds two numbers."
        assert tools["add"].parameters["required"] == ["a", "b"]
        assert (await connection.call("add", {"a": 1, "b": 2}, lines.append)).text == "3"

        failed = await connection.call("fail", {}, lines.append)
        assert failed.is_error

        assert (await connection.call("slow", {}, lines.append)).text == "done"
        assert lines == ["half of it (1 of 2)"]

        painted = await connection.call("paint", {}, lines.append)
        assert painted.text == "accept red"
        assert [(form.message, form.fields[0].name) for form in asked] == [
            ("Which colour?", "colour")
        ]

        picture = await connection.call("picture", {}, lines.append)
        assert picture.pictures[0][1].startswith(b"\x89PNG")

        assert [one.key for one in await connection.resources()] == ["note://today"]
        assert (await connection.read("note://today")).text == "a note from outside"
        with pytest.raises(ServerError, match="plain"):
            await connection.read("note://never")

        assert [one.arguments for one in await connection.prompts()] == [("name!",)]
        assert (await connection.prompt("greet", {"name": "Ann"})).text == "Say hello to Ann."


async def test_a_form_that_nobody_can_fill_in_is_declined(tmp_path):
    async def nobody(form):
        return None

    async with (
        over_stdio() as server,
        mcp_connection.connect(
            server, wrap=outside, cwd=tmp_path, home=tmp_path, elicit=nobody
        ) as connection,
    ):
        assert (await connection.call("paint", {}, print)).text == "decline"


async def test_a_cancelled_call_leaves_the_connection_usable(tmp_path):
    async with (
        over_stdio() as server,
        mcp_connection.connect(server, wrap=outside, cwd=tmp_path, home=tmp_path) as connection,
    ):
        begun = asyncio.Event()
        calling = asyncio.ensure_future(connection.call("forever", {}, lambda line: begun.set()))
        await begun.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert (await connection.call("add", {"a": 2, "b": 2}, print)).text == "4"


async def test_a_returning_server_is_reached_again(home, project, place):
    async def answer(one):
        while True:
            with contextlib.suppress(ServerError):
                connection = await one.connected()
                return (await connection.call("add", {"a": 1, "b": 2}, print)).text
            await asyncio.sleep(0.05)

    async with listening("plain.py", "http") as url:
        entry = Entry(
            name="plain",
            origin=project / ".mcp.json",
            scope="project",
            project=project,
            values={"url": url},
        )
        one = McpServer(
            entry=entry, home=home, open=opener(place, sandboxed=True), emit=lambda event: None
        )
        one.start()
        assert await answer(one) == "3"
    with pytest.raises(ServerError, match="The MCP server plain"):
        await one.connection().call("add", {"a": 1, "b": 2}, print)
    async with listening("plain.py", "http", port=urlsplit(url).port):
        assert await answer(one) == "3"
    await one.stop()


@pytest.mark.parametrize("kind", ["text/event-stream", "application/json"])
async def test_an_answer_by_http_that_has_no_end_is_cut(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(mcp_transports, "MAX_BODY_BYTES", 2**20)

    async def flood(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\n".encode())
        with contextlib.suppress(OSError):
            while True:
                writer.write(b": nothing at all\n" * 1000)
                await writer.drain()
        writer.close()

    flooding = await asyncio.start_server(flood, "127.0.0.1", 0)
    port = flooding.sockets[0].getsockname()[1]
    server = Server(name="flood", url=f"http://127.0.0.1:{port}/")
    async with flooding:
        with pytest.raises(ServerError, match="flood"):
            async with (
                asyncio.timeout(60),
                mcp_connection.connect(server, wrap=outside, cwd=tmp_path, home=tmp_path),
            ):
                pass


async def test_an_address_nobody_answers_is_a_fault(tmp_path):
    server = Server(name="gone", url="http://127.0.0.1:9/mcp")
    with pytest.raises(ServerError, match="The MCP server gone failed"):
        async with mcp_connection.connect(server, wrap=outside, cwd=tmp_path, home=tmp_path):
            pass


# ── logging in ───────────────────────────────────────────────────────────────────────────────


def go_to(page):
    """A browser of somebody who is known there."""
    threading.Thread(target=urllib.request.urlopen, args=(page,), daemon=True).start()


@asynccontextmanager
async def guarded(*words):
    async with listening("guarded.py", *words) as url:
        yield Server(name="guarded", url=url)


async def test_a_person_logs_in_once_and_the_tokens_are_private(tmp_path):
    pages = []

    def tell(page):
        pages.append(page)
        go_to(page)

    async with guarded() as server:
        for person in (tell, None):  # the second time nobody is there
            async with mcp_connection.connect(
                server, wrap=outside, cwd=tmp_path, home=tmp_path, tell=person
            ) as connection:
                assert list(await connection.tools()) == ["open"]
    assert len(pages) == 1
    (kept,) = (tmp_path / "mcp").glob("*.json")
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("answer", [{}, None])
async def test_a_call_that_needs_wider_rights_asks_the_person(tmp_path, answer):
    asked = []

    async def elicit(form):
        asked.append(form)
        if answer is not None:
            go_to(form.url)
        return answer

    async with guarded() as server:
        here = {"wrap": outside, "cwd": tmp_path, "home": tmp_path}
        with pytest.raises(ServerError, match="log in: `kode mcp test guarded`"):
            async with mcp_connection.connect(server, **here, elicit=elicit):
                pass
        async with mcp_connection.connect(server, **here, tell=go_to) as connection:
            await connection.tools()
        assert asked == []
        refused = pytest.raises(ServerError, match="log in: `kode mcp test guarded`")
        with contextlib.nullcontext() if answer is not None else refused:
            async with mcp_connection.connect(server, **here, elicit=elicit) as connection:
                for _ in range(2):
                    assert (await connection.call("open", {}, print)).text == "opened"
    (form,) = asked
    assert "scope=write" in form.url


async def test_tokens_of_one_server_are_never_sent_to_another(tmp_path):
    async with guarded() as server:
        login = mcp_transports.authorization(server, tmp_path, None, asyncio.Future())
        await login.context.storage.set_tokens(
            mcp_transports.OAuthToken(access_token="tok-0123456789", token_type="Bearer")
        )
        (kept,) = (tmp_path / "mcp").glob("*.json")
        kept.write_text(kept.read_text().replace(server.url, "http://elsewhere/mcp"))
        assert await login.context.storage.get_tokens() is None
    assert list((tmp_path / "mcp").glob("*.damaged-*"))
