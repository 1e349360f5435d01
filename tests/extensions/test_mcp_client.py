"""Each feature of the protocol, with a real server of the SDK, over both transports."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from subprocess import DEVNULL
from urllib.parse import urlsplit

import pytest

from kode.errors import ServerError
from kode.events import no_emit
from kode.extensions import mcp_connection, mcp_login
from kode.extensions.mcp_config import ServerFields
from kode.extensions.mcp_server import McpServer, Opener
from tests.extensions.conftest import SERVERS, an_entry
from tests.workplaces import workplace

pytestmark = pytest.mark.slow


@pytest.fixture
def connect(tmp_path):
    place = workplace(tmp_path, home=tmp_path)
    return partial(mcp_connection.connect, wrapped=None, place=place)


@contextmanager
def listening(script, *words, port=None):
    """A server of `servers/` that listens; gives its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = port or free.getsockname()[1]
    command = [sys.executable, str(SERVERS / script), *words]
    environment = {**os.environ, "PORT": str(port)}
    with subprocess.Popen(command, env=environment, stdout=DEVNULL, stderr=DEVNULL) as process:
        try:
            while True:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    break
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.kill()


@asynccontextmanager
async def sdk_server(transport="stdio"):
    """A server of the SDK that is reached in this way."""
    if transport == "stdio":
        yield ServerFields(name="plain", program=sys.executable, args=(str(SERVERS / "plain.py"),))
        return
    with listening("plain.py", transport) as url:
        if transport == "sse":
            url = url.replace("/mcp", "/sse")
        yield ServerFields(name="plain", url=url, type=transport)


@pytest.mark.parametrize("transport", ["stdio", "http", "sse"])
async def test_a_server_of_the_sdk_with_all_it_offers(transport, connect):
    asked, lines = [], []

    async def elicit(form):
        asked.append(form)
        return {"colour": "red"}

    async with sdk_server(transport) as server, connect(server, elicit=elicit) as connection:
        tools = await connection.tools()
        assert tools["add"].description == "Adds two numbers."
        assert tools["add"].parameters["required"] == ["a", "b"]
        assert (await connection.call("add", {"a": 1, "b": 2}, lines.append)).text == "3"
        assert (await connection.call("add", {"a": 1, "b": -1}, lines.append)).is_error
        assert (await connection.call("slow", {}, lines.append)).text == "done"
        assert lines == ["half of it (1 of 2)"]

        assert (await connection.call("paint", {}, lines.append)).text == "accept red"
        (form,) = asked
        assert (form.message, form.fields[0].name) == ("Which colour?", "colour")

        picture = await connection.call("picture", {}, lines.append)
        assert picture.pictures[0][1].startswith(b"\x89PNG")

        assert [one.key for one in await connection.offerings("resources")] == ["note://today"]
        assert (await connection.read("note://today")).text == "a note from outside"
        with pytest.raises(ServerError, match="plain"):
            await connection.read("note://never")

        assert [one.arguments for one in await connection.offerings("prompts")] == [("name!",)]
        assert (await connection.prompt("greet", {"name": "Ann"})).text == "Say hello to Ann."


async def test_a_declined_form_and_a_cancelled_call_end_alone(connect):
    async def nobody(form):
        return None

    async with sdk_server() as server, connect(server, elicit=nobody) as connection:
        assert (await connection.call("paint", {}, print)).text == "decline"
        begun = asyncio.Event()
        calling = asyncio.ensure_future(connection.call("slow", {"s": 99}, lambda _: begun.set()))
        await begun.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert (await connection.call("add", {"a": 2, "b": 2}, print)).text == "4"


async def test_a_returning_server_is_reached_again(home, project, place):
    async def add():
        while True:
            with contextlib.suppress(ServerError):
                connection = await one.connect()
                return (await connection.call("add", {"a": 1, "b": 2}, print)).text
            await asyncio.sleep(0.05)

    async with sdk_server("http") as server:
        entry = an_entry(project, "plain", url=server.url)
        one = McpServer(
            entry=entry, home=home, open=Opener(place=place, sandboxed=True), emit=no_emit
        )
        one.start()
        assert await add() == "3"
    with pytest.raises(ServerError, match="The MCP server plain"):
        await (await one.connect()).call("add", {"a": 1, "b": 2}, print)
    with listening("plain.py", "http", port=urlsplit(server.url).port):
        assert await add() == "3"
    await one.stop()


@pytest.mark.parametrize("kind", ["text/event-stream", "application/json"])
async def test_an_answer_by_http_that_has_no_end_is_cut(connect, monkeypatch, kind):
    monkeypatch.setattr(mcp_connection, "MAX_BODY_BYTES", 2**20)

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
    server = ServerFields(name="flood", url=f"http://127.0.0.1:{port}/")
    async with flooding:
        with pytest.raises(ServerError, match="flood"):
            async with asyncio.timeout(60), connect(server):
                pass


def go_to(page):
    """A browser of somebody who is known there."""
    threading.Thread(target=urllib.request.urlopen, args=(page,), daemon=True).start()


@pytest.fixture
def guarded():
    with listening("guarded.py") as url:
        yield ServerFields(name="guarded", url=url)


async def test_a_person_logs_in_once_and_the_tokens_are_private(
    guarded, connect, tmp_path, monkeypatch
):
    pages = []

    def tell(page):
        pages.append(page)
        go_to(page)

    for person, later_s in ((tell, 0), (None, 0), (None, 4_000)):  # the last renews them
        monkeypatch.setattr(time, "time", partial(float, time.time() + later_s))
        async with connect(guarded, tell=person) as connection:
            assert list(await connection.tools()) == ["open"]
    assert len(pages) == 1
    (tokens,) = (tmp_path / "mcp").glob("*.json")
    assert "tok-renewed" in tokens.read_text()
    assert tokens.stat().st_mode & 0o777 == 0o600
    assert tokens.parent.stat().st_mode & 0o777 == 0o700

    # Those of one server are never sent to another.
    tokens.write_text(tokens.read_text().replace(guarded.url, "http://elsewhere/mcp"))
    login = mcp_login.make_authorization(guarded, tmp_path, None, asyncio.Future())
    assert await login.context.storage.get_tokens() is None
    assert list((tmp_path / "mcp").glob("*.damaged-*"))


async def test_a_call_that_needs_wider_rights_asks_the_person(guarded, connect):
    asked = []

    async def elicit(form):
        asked.append(form)
        go_to(form.url)
        return {}

    for server, said in (
        (guarded, "log in: `kode mcp login guarded`"),
        (ServerFields(name="gone", url="http://127.0.0.1:9/mcp"), "The MCP server gone failed"),
    ):
        with pytest.raises(ServerError, match=said):
            async with connect(server, elicit=elicit):
                pass
    async with connect(guarded, tell=go_to) as connection:
        await connection.tools()
    assert asked == []
    async with connect(guarded, elicit=elicit) as connection:
        for _ in range(2):
            assert (await connection.call("open", {}, print)).text == "opened"
    (form,) = asked
    assert "scope=write" in form.url
