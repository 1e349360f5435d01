"""What a server reaches, and the one start with the network of a launcher that downloads it. Needs
bubblewrap; the registry is a server of the test."""

import asyncio
import shutil
import socket
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import AsyncMock
from urllib.parse import urlsplit

import pytest

from kode.errors import ConfigError, ServerError
from kode.extensions import mcp_proxy, mcp_server, review, trust
from kode.extensions.mcp_server import DownloadNeededError, Opener
from kode.sandbox.sandbox import Loopback
from tests.extensions.conftest import SERVERS, an_entry
from tests.needs import PLAIN_PYTHON, needs
from tests.permissions.gates import ONCE, Person

pytestmark = [pytest.mark.slow, needs("bwrap")]


@pytest.fixture
def registry(tmp_path):
    """Serves a program, and counts how often."""
    folder = tmp_path / "served"
    folder.mkdir()
    one = SimpleNamespace(program=Path(shutil.copy(SERVERS / "hostile.py", folder)), asked=0)

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *words):
            one.asked += 1

    handler = partial(Handler, directory=folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        one.address = f"http://127.0.0.1:{server.server_address[1]}/hostile.py"
        yield one
        server.shutdown()


@pytest.fixture
def entry(project, registry):
    shutil.copy(SERVERS / "fetching.py", project)

    def make(*words, **values):
        command = {"command": PLAIN_PYTHON, "args": ["fetching.py", registry.address, *words]}
        return an_entry(project, scope="home", **{**command, **values})

    return make


@pytest.fixture
def servers(place):
    return Opener(place=place, sandboxed=True)


@pytest.fixture
def download(servers, monkeypatch):
    """The start with the network; the registry counts as public."""

    async def start(entry, item=None):
        with monkeypatch.context() as patch:
            patch.setattr(mcp_proxy, "explain_refusal", lambda address: "")
            await servers.download(entry, item or mcp_server.download_item(entry))

    return start


async def tools(servers, entry):
    async with servers(entry) as connection:
        return sorted(await connection.tools())


@pytest.mark.parametrize("is_alone", [True, False])
async def test_only_the_first_start_has_the_network_once_allowed(
    servers, entry, registry, download, monkeypatch, is_alone
):
    if not is_alone:  # where a command has no loopback, its question says so
        monkeypatch.setattr("kode.sandbox.sandbox.make_loopback", Loopback)
    with pytest.raises(DownloadNeededError) as needed:
        await tools(servers, entry())
    item = needed.value.item
    assert ("(localhost)" in item.content) is not is_alone
    assert registry.asked == 0
    await download(entry(), item)
    registry.program.write_text("raise SystemExit('something else')")
    assert await tools(servers, entry()) == ["variable", "write"]
    assert await tools(servers, entry()) == ["variable", "write"]
    assert registry.asked == 1


async def test_the_start_with_the_network_sees_no_other_project(
    home, servers, entry, project, download
):
    for folder in (project, project.parent / "beside"):
        folder.mkdir(exist_ok=True)
        (folder / "package.json").write_text('{"dependencies": {"b": "file:../beside"}}')
    seen = mcp_server.cache_folder(entry("look"), home) / "files" / "npm" / "package.json"
    await download(entry("look"))
    assert not seen.exists()
    await tools(servers, entry("look"))
    assert seen.exists()


@pytest.mark.parametrize("way", ["direct", "by the proxy", "private"])
async def test_the_start_with_the_network_reaches_public_addresses_alone(
    servers, entry, registry, way
):
    address = "http://10.1.2.3:443/x" if way == "private" else registry.address
    wanted = entry(args=["fetching.py", address, way])
    with pytest.raises(ServerError, match="`kode mcp add --network`") as failed:
        await servers.download(wanted, mcp_server.download_item(wanted))
    target = urlsplit(address).netloc
    assert (f"{target} (it is " in str(failed.value)) is (way != "direct")
    assert registry.asked == 0


async def test_ones_own_proxy_gets_the_address_that_was_judged(monkeypatch):
    async def relay(reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    found = [*map(ip_address, ("10.0.0.1", "93.184.215.14"))]
    monkeypatch.setattr(mcp_proxy, "resolve_host", AsyncMock(return_value=found))
    own = await asyncio.start_server(relay, "127.0.0.1", 0)
    upstream = f"http://me:s%40y@127.0.0.1:{own.sockets[0].getsockname()[1]}"
    proxy = mcp_proxy.InternetProxy(socket.create_server(("127.0.0.1", 0)), upstream)
    async with own, proxy.serve():
        reader, writer = await asyncio.open_connection(*proxy.listener.getsockname())
        writer.write(b"CONNECT a.test:443 HTTP/1.1\r\nX: y\r\n\r\n")
        _, _, connect, _, login, *rest = (await reader.read()).split(b"\r\n")
        writer.close()
    assert connect == b"CONNECT 93.184.215.14:443 HTTP/1.1"
    assert login == b"Proxy-Authorization: Basic bWU6c0B5"
    assert rest == [b"", b""]


async def test_a_changed_entry_downloads_nothing_unasked(home, servers, entry, registry, download):
    trust.approve_items(home, home, [mcp_server.download_item(entry())])
    await download(entry())
    changed = entry("more")
    item = mcp_server.download_item(changed)
    assert trust.state(item, trust.load(home, home)) == "changed"
    with pytest.raises(DownloadNeededError):
        await tools(servers, changed)
    assert registry.asked == 1
    await download(changed)  # which removes what the old one downloaded
    assert not mcp_server.cache_folder(entry(), home).exists()
    assert mcp_server.is_filled(mcp_server.cache_folder(changed, home))


async def test_a_server_writes_where_its_entry_says(home, servers, entry, project, download):
    wanted = entry("touch")
    await download(wanted)
    beside = mcp_server.cache_folder(wanted, home) / "started"
    async with servers(wanted) as connection:
        inside = {"path": str(beside.parent / "files" / "a")}
        assert not (await connection.call("write", inside, print)).is_error
        for path in (beside, home / "config.json", project / "new.txt"):
            await connection.call("write", {"path": str(path)}, print)
        assert "`kode mcp add --write`" in connection.find_refusals()
    assert beside.read_bytes() == b""
    assert not (home / "config.json").exists()
    assert not {"new.txt", "touched.txt"} & {path.name for path in project.iterdir()}

    await download(entry("must-touch"))
    with pytest.raises(ServerError, match="`kode mcp add --write`"):
        await tools(servers, entry("must-touch"))
    (project / ".git" / "hooks").mkdir()
    writing = entry("must-touch", "again", write=True)
    await download(writing)  # the start with the network changes nothing
    assert not (project / "touched.txt").exists()
    async with servers(writing) as connection:
        hook = {"path": str(project / ".git" / "hooks" / "pre-commit")}
        assert (await connection.call("write", hook, print)).is_error
    assert (project / "touched.txt").exists()


async def test_a_server_gets_the_variables_its_question_named(
    home, servers, entry, registry, monkeypatch, download
):
    monkeypatch.setenv("A_SECRET", "s3cret")
    person, wanted = Person(ONCE), entry(env={"TOKEN": "hidden-value"})
    for _ in range(2):
        item = mcp_server.download_item(wanted)
        assert await review.Reviewer(home, person).review(home, [item]) == ()
    (question,) = person.questions
    assert registry.address in question.preview
    assert "TOKEN" in question.preview
    assert "hidden-value" not in question.preview
    await download(wanted)
    async with servers(wanted) as connection:
        for name, value in {"TOKEN": "hidden-value", "A_SECRET": "(not set)"}.items():
            assert (await connection.call("variable", {"path": name}, print)).text == value


async def test_a_change_of_what_a_server_loads_keeps_it_off(servers, home, project):
    shutil.copy(SERVERS / "hostile.py", project)
    (project / "env.sh").write_text("true\n")
    (project / "start").write_text(f". ./env.sh\nexec {PLAIN_PYTHON} hostile.py\n")
    item = (wanted := an_entry(project, command="sh", args=["start"])).item
    trust.approve_items(home, project, [item])
    assert await tools(servers, wanted) == ["read"]

    (project / "env.sh").write_text("false\n")
    with pytest.raises(ConfigError):
        await tools(servers, wanted)
    approvals = trust.load(home, project)
    assert trust.state(item, approvals) == "changed"
    assert "env.sh" in trust.diff(item, approvals)
    trust.approve_items(home, project, [item])
    assert await tools(servers, wanted) == ["read"]


@pytest.fixture
def hidden(tmp_path, monkeypatch):
    """A program below a home."""
    own = tmp_path / "person"
    program = own / "tools" / "server"
    program.parent.mkdir(parents=True)
    code = (SERVERS / "hostile.py").read_text()
    program.write_text(f"#!{PLAIN_PYTHON}\n{code}")
    program.chmod(0o700)
    monkeypatch.setenv("HOME", str(own))
    return program


async def test_a_hidden_program_is_named_and_can_be_shown(servers, entry, hidden):
    with pytest.raises(ServerError) as failed:
        await tools(servers, entry(command=str(hidden), args=["reach"]))
    assert str(hidden) in str(failed.value)
    assert '"read"' in str(failed.value)
    shown = entry(command=str(hidden), args=["reach"], read=[str(hidden)])
    assert await tools(servers, shown) == ["variable", "write"]
    with pytest.raises(ConfigError):  # a whole home is never shown
        await tools(servers, entry(command=str(hidden), args=["reach"], read=["~"]))
    with pytest.raises(ServerError, match="no program bunx-of-nobody"):
        await tools(servers, entry(command="bunx-of-nobody"))


async def test_a_socket_out_of_reach_is_named_with_its_setting(servers, entry, monkeypatch):
    """As `docker run -i` does: its engine listens, and the sandbox has no unix sockets."""
    code = (
        "import socket, sys\n"
        "try: socket.socket(socket.AF_UNIX).connect('engine.sock')\n"
        "except OSError as error: sys.exit(f'cannot connect to unix://engine.sock: {error}')\n"
    )
    client = entry(args=["-c", code])
    with socket.socket(socket.AF_UNIX) as engine:
        monkeypatch.chdir(client.project)  # a short path
        engine.bind("engine.sock")
        engine.listen()
        with pytest.raises(ServerError) as failed:
            await tools(servers, client)
    assert "engine.sock" in str(failed.value)
    assert '"outside": true' in str(failed.value)


async def test_outside_holds_once_a_person_has_approved_it(servers, entry, hidden, home, project):
    wanted = entry(command=str(hidden), args=["reach"], outside=True)
    with pytest.raises(ConfigError, match="--outside"):
        await tools(servers, wanted)
    trust.approve_items(home, project, [trust.outside_item(wanted.item)])
    async with servers(wanted) as connection:
        proof = hidden.parent / "written"
        assert not (await connection.call("write", {"path": str(proof)}, print)).is_error
    assert proof.read_text() == "written"
    with pytest.raises(ConfigError):
        await tools(servers, entry(command=str(hidden), args=["reach", "more"], outside=True))
