"""Names, bounds and the stable pair; with connections that are values."""

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from kode.errors import ToolError, UserError
from kode.events import ToolOutput as OutputEvent, no_emit
from kode.extensions import review, session as session_module, trust
from kode.extensions.mcp_config import Content, Offering, ServerEntry, ToolDefinition
from kode.extensions.mcp_server import DownloadNeededError, McpServer, download_item
from kode.extensions.session import Extensions, make_tools
from tests.permissions.gates import ONCE, Person
from tests.pictures import png

PNG = png()
SCHEMA = {"type": "object", "properties": {}}


class Fake:
    """A connection to a server that says what it is given."""

    def __init__(self, names=("read",), description="Does it."):
        self.names, self.description = names, description
        self.called = []
        self.left_out = ()
        self.news, self.closed = asyncio.Event(), asyncio.Future()

    async def tools(self):
        given = {"description": self.description, "inputSchema": SCHEMA}
        return {name: ToolDefinition({"name": name, **given}) for name in self.names}

    async def offerings(self, kind):
        return (Offering(key="greet", arguments=("name!", "tone")),) if kind == "prompts" else ()

    async def call(self, tool, arguments, report):
        self.called.append((tool, dict(arguments)))
        return Content(text="ok")

    async def read(self, uri):
        return Content(text=f"the text of {uri}")

    async def prompt(self, name, arguments):
        return Content(text=f"{name} {arguments}")


@given(st.lists(st.text(min_size=1, max_size=80), min_size=1, max_size=6, unique=True))
def test_names_are_what_every_provider_takes_and_each_its_own(names):
    definitions = {name: ToolDefinition({"name": name}) for name in names}
    entry = ServerEntry(name="s", origin=None, scope="home", project=None, values={})
    server = McpServer(entry=entry, home=None, open=None, emit=no_emit, definitions=definitions)
    made = [tool.name for tool in make_tools([server])]
    assert len(set(made)) == len(names)
    assert all(len(name) <= 64 and name.isascii() for name in made)
    assert all(name.replace("_", "").replace("-", "").isalnum() for name in made)


@pytest.fixture
async def extensions(home, project, place):
    """Opens a session with the server s, or with those named. The first value is a connection or
    makes one of an entry."""
    opened = []

    def open_with(connect, *names, trusted=True, emit=no_emit, ask=None):
        @asynccontextmanager
        async def open_entry(entry):
            yield await connect(entry) if callable(connect) else connect

        servers = {name: {"command": "x"} for name in names or ["s"]}
        (project / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
        if not trusted:
            trust.approve_items(home, project, review.find_items(home, project))
        open_entry.trust_project, open_entry.place = trusted, place
        open_entry.needs_start = lambda entry: False
        one = Extensions(emit=emit, ask=ask, opener=open_entry)
        opened.append(one)
        return one

    yield open_with
    for one in opened:
        await one.close()


@pytest.mark.parametrize("asked", [True, False])
async def test_first_starts_are_asked_about_at_once(extensions, asked):
    downloaded, notices, person = [], [], Person(ONCE)

    async def connect(entry):
        if entry.name not in downloaded:
            raise DownloadNeededError("it never ran here", item=download_item(entry, True))
        return Fake()

    async def download(entry, approved):
        downloaded.append(approved.name)

    one = extensions(connect, "a", "b", emit=notices.append, ask=person if asked else None)
    one.opener.download = download
    one.opener.needs_start = lambda entry: entry.name not in downloaded
    tools = await one.open(100_000)
    (notice,) = notices
    if asked:
        assert len(person.questions) == 1
        assert notice.level == "info"
        assert [tool.name for tool in tools] == ["mcp__a__read", "mcp__b__read"]
    else:
        assert downloaded == []
        assert "a, b. `kode mcp test NAME`" in notice.text


async def test_few_tools_are_offered_singly_and_many_by_the_pair(extensions):
    one = extensions(Fake(names=[f"tool{n}" for n in range(40)]))
    assert len(await one.open(1_000_000)) == 40
    assert [tool.name for tool in await one.open(1_000)] == ["mcp_search", "mcp_call"]
    one.deferred = False
    assert len(await one.open(1_000)) == 40


async def test_the_pair_finds_and_calls_what_any_server_has(extensions, context, monkeypatch):
    monkeypatch.setattr(session_module, "FIRST_TURN_WAITS_S", 0.05)
    issues = Fake(names=("get_issue",), description="Fetches an issue of the tracker.")
    gate = asyncio.Event()

    async def connect(entry):
        if entry.name == "fast":
            return Fake()
        await gate.wait()
        return issues

    single, search, use = await extensions(connect, "fast", "tracker").open(100_000)
    assert single.name == "mcp__fast__read"
    given = {"server": "tracker", "tool": "get_issue", "arguments": {"id": 1}}
    assert use.target(given) == "tracker:get_issue"
    call = asyncio.ensure_future(use.run(context, given))
    await asyncio.sleep(0)
    assert not call.done()
    gate.set()
    assert (await call).text == "ok"
    assert issues.called == [("get_issue", {"id": 1})]

    found = await search.run(context, {"query": "an issue"})
    assert found.text.startswith("tracker:get_issue")
    assert "tracker" in found.untrusted
    with pytest.raises(ToolError, match="It has: get_issue"):
        await use.run(context, {**given, "tool": "other"})
    with pytest.raises(ToolError, match="The servers are: tracker"):
        await use.run(context, {**given, "server": "web"})


async def test_resources_and_prompts_are_texts_from_outside(extensions):
    one = extensions(Fake())
    await one.open(100_000)
    (found,) = await one.read_mentioned("see @s:note://a, and @other:b and a@s:c")
    assert (found.text, found.untrusted) == ("the text of note://a", "the MCP server s, note://a")
    assert list(one.commands()) == ["/mcp__s__greet"]
    said = await one.expand("/mcp__s__greet", "Ann very warm")
    assert said.text == "greet {'name': 'Ann', 'tone': 'very warm'}"
    assert await one.expand("/mcp__other__greet", "") is None
    with pytest.raises(UserError, match=r"s has no prompt none\. It has: greet"):
        await one.expand("/mcp__s__none", "")
    with pytest.raises(UserError, match="needs name"):
        await one.expand("/mcp__s__greet", "")


async def test_a_picture_is_kept_and_progress_controls_no_terminal(extensions, context, place):
    class Painter(Fake):
        async def call(self, tool, arguments, report):
            report("half\x1b[2J")
            return Content(text="look", pictures=(("shot", PNG), ("odd", b"no picture")))

    events = []
    (tool,) = await extensions(Painter()).open(100_000)
    output = await tool.run(replace(context, emit=events.append), {})
    assert [image.name for image in output.pictures] == ["shot"]
    assert "not an image" in output.text
    assert [path.read_bytes() for path in (place.outputs.parent / "images").iterdir()] == [PNG]
    assert [one.partial for one in events if isinstance(one, OutputEvent)] == ["half\\x1b[2J"]


async def test_a_server_that_ran_before_is_offered_unstarted(extensions, context):
    offered, started = ["one", "two"], []

    async def connect(entry):
        started.append(entry.name)
        return Fake(names=offered)

    first = extensions(connect, trusted=False)
    await first.open(100_000)
    await first.close()

    offered.remove("two")
    second = extensions(connect, trusted=False)
    second.begin()
    one, two = await second.open(100_000)
    assert [one.name, two.name] == ["mcp__s__one", "mcp__s__two"]
    assert started == ["s"]

    assert (await one.run(context, {})).text == "ok"
    assert started == ["s", "s"]
    with pytest.raises(ToolError, match="has no tool 'two'"):
        await two.run(context, {})
    third = extensions(connect, trusted=False)
    assert [tool.name for tool in await third.open(100_000)] == ["mcp__s__one"]
    assert "not run" not in (await (await third.open(1))[0].run(context, {"query": "one"})).text


async def test_tools_shown_only_once_cannot_be_pinned_unseen(extensions):
    for names in (["one"], ["other"], [], ["evil"]):
        session = extensions(Fake(names=names), trusted=False)
        await session.open(100_000)
        session.start_all()
        await session.servers["s"].settled.wait()
        await session.close()
        assert [*session.servers["s"].definitions] == (["one"] if names == ["one"] else [])
