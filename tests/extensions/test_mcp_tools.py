"""Names, bounds and the stable pair; with connections that are values."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kode.errors import ToolError, UserError
from kode.events import ToolOutput as OutputEvent
from kode.events import silent
from kode.extensions import review, trust
from kode.extensions import session as session_module
from kode.extensions.mcp_config import Content, Definition, Entry, Offering
from kode.extensions.mcp_server import McpServer
from kode.extensions.session import Extensions, pair_of, tools_of
from tests.pictures import png

PNG = png()


class Fake:
    """A connection to a server that says what it is given."""

    def __init__(self, names=("read",), text="ok", description="Does it."):
        self.names, self.text, self.description = names, text, description
        self.called = []
        self.left_out = ()
        self.news, self.closed = asyncio.Event(), asyncio.Future()

    async def tools(self):
        schema = {"type": "object", "properties": {}}
        return {
            name: Definition({"name": name, "description": self.description, "inputSchema": schema})
            for name in self.names
        }

    async def prompts(self):
        return (Offering(key="greet", arguments=("name!", "tone")),)

    async def resources(self):
        return ()

    async def call(self, tool, arguments, report):
        self.called.append((tool, dict(arguments)))
        report("half\x1b[2J")
        return Content(text=self.text)

    async def read(self, uri):
        return Content(text=f"the text of {uri}")

    async def prompt(self, name, arguments):
        return Content(text=f"{name} {arguments}")


@pytest.fixture
async def serve(home, project):
    """A running server of a name with a connection."""
    started = []

    async def start(name, connection):
        @asynccontextmanager
        async def open_entry(entry):
            yield connection

        entry = Entry(
            name=name,
            origin=project / ".mcp.json",
            scope="project",
            project=project,
            values={"command": "x"},
        )
        server = McpServer(entry=entry, home=home, open=open_entry, emit=silent)
        server.start()
        started.append(server)
        await server.settled.wait()
        return server

    yield start
    for server in started:
        await server.stop()


async def test_progress_is_shown_as_a_line_that_controls_no_terminal(serve, context):
    events = []
    (tool,) = tools_of([await serve("s", Fake())])
    await tool.run(type(context)(**{**vars(context), "emit": events.append}), {})
    assert [one.partial for one in events if isinstance(one, OutputEvent)] == ["half\\x1b[2J"]


@given(st.lists(st.text(min_size=1, max_size=80), min_size=1, max_size=6, unique=True))
def test_names_are_what_every_provider_takes_and_each_its_own(names):
    servers = [
        McpServer(
            entry=Entry(name="s", origin=None, scope="home", project=None, values={}),
            home=None,
            open=None,
            emit=silent,
            definitions={name: Definition({"name": name}) for name in names},
        )
    ]
    made = [tool.name for tool in tools_of(servers)]
    assert len(set(made)) == len(names)
    assert all(len(name) <= 64 and name.isascii() for name in made)
    assert all(name.replace("_", "").replace("-", "").isalnum() for name in made)


async def test_the_pair_finds_and_calls_what_any_server_has(serve, context):
    issues = Fake(names=("get_issue",), description="Fetches an issue of the tracker.")
    files = Fake(names=("list_folder",), description="Lists a folder.")
    servers = [await serve("tracker", issues), await serve("disk", files)]
    search, use = pair_of(servers)

    found = await search.run(context, {"query": "an issue"})
    assert found.text.startswith("tracker:get_issue")
    assert "tracker" in found.untrusted

    given = {"server": "tracker", "tool": "get_issue", "arguments": {"id": 1}}
    assert use.target(given) == "tracker:get_issue"
    assert (await use.run(context, given)).text == "ok"
    assert issues.called == [("get_issue", {"id": 1})]

    with pytest.raises(ToolError, match="It has: get_issue"):
        await use.run(context, {"server": "tracker", "tool": "other", "arguments": {}})
    with pytest.raises(ToolError, match="The servers are: tracker, disk"):
        await use.run(context, {"server": "web", "tool": "other", "arguments": {}})


# ── a session ────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def extensions(home, project):
    opened = []

    def open_with(connect, **given):
        @asynccontextmanager
        async def open_entry(entry):
            yield await connect(entry)

        open_entry.trust_project = True
        open_entry.needs_start = lambda entry: False
        one = Extensions(
            home=home,
            cwd=project,
            emit=given.pop("emit", silent),
            ask=None,
            opener=open_entry,
            **given,
        )
        opened.append(one)
        return one

    yield open_with
    for one in opened:
        await one.close()


def bring(project, *names):
    servers = ", ".join(f'"{name}": {{"command": "x"}}' for name in names)
    (project / ".mcp.json").write_text(f'{{"mcpServers": {{{servers}}}}}')


async def test_few_tools_are_offered_singly_and_many_by_the_pair(extensions, project):
    bring(project, "s")

    async def connect(entry):
        return Fake(names=[f"tool{n}" for n in range(40)])

    one = extensions(connect)
    assert len(await one.open(1_000_000)) == 40
    assert [tool.name for tool in await one.open(1_000)] == ["mcp_search", "mcp_call"]
    one.deferred = False
    assert len(await one.open(1_000)) == 40


async def test_a_server_that_comes_late_is_reached_through_the_pair(
    extensions, project, context, monkeypatch
):
    monkeypatch.setattr(session_module, "FIRST_TURN_WAITS_S", 0.05)
    bring(project, "fast", "late")
    gate = asyncio.Event()

    async def connect(entry):
        if entry.name == "late":
            await gate.wait()
        return Fake()

    one = extensions(connect)
    tools = await one.open(100_000)
    assert [tool.name for tool in tools] == ["mcp__fast__read", "mcp_search", "mcp_call"]
    late = {"server": "late", "tool": "read", "arguments": {}}
    call = asyncio.ensure_future(tools[2].run(context, late))
    await asyncio.sleep(0)
    assert not call.done()

    gate.set()
    assert (await call).text == "ok"


async def test_resources_and_prompts_are_texts_from_outside(extensions, project):
    bring(project, "s")

    async def connect(entry):
        return Fake()

    notices = []
    one = extensions(connect, emit=notices.append)
    await one.open(100_000)

    (found,) = await one.mentioned("see @s:note://a, and @other:b and a@s:c")
    assert (found.text, found.source) == ("the text of note://a", "the MCP server s, note://a")

    assert list(one.commands()) == ["/mcp__s__greet"]
    said = await one.expand("/mcp__s__greet", "Ann very warm")
    assert said.text == "greet {'name': 'Ann', 'tone': 'very warm'}"
    with pytest.raises(UserError, match=r"s has no prompt none\. It has: greet"):
        await one.expand("/mcp__s__none", "")
    assert await one.expand("/mcp__other__greet", "") is None
    with pytest.raises(session_module.UserError, match="needs name"):
        await one.expand("/mcp__s__greet", "")


async def test_a_server_nobody_approved_is_not_started_and_named(extensions, project):
    bring(project, "s")

    async def connect(entry):
        raise AssertionError("started")

    notices = []
    one = extensions(connect, emit=notices.append)
    one.opener.trust_project = False
    one.begin()
    assert await one.open(100_000) == ()
    assert one.untrusted == ("MCP server s",)
    assert "kode extensions approve" in notices[0].text


async def test_pictures_are_kept_beside_the_session_and_follow_the_text(serve, context, place):
    class Painter(Fake):
        async def call(self, tool, arguments, report):
            pictures = (("shot", PNG), ("odd", b"no picture"))
            return Content(text="look", pictures=pictures)

    (tool,) = tools_of([await serve("s", Painter())])
    output = await tool.run(context, {})
    assert [image.name for image in output.pictures] == ["shot"]
    assert "odd is not an image" in output.text
    assert [path.read_bytes() for path in (place.outputs.parent / "images").iterdir()] == [PNG]


async def test_a_server_that_ran_before_is_offered_unstarted(extensions, home, project, context):
    bring(project, "s")
    offered, started = ["one", "two"], []

    async def connect(entry):
        started.append(entry.name)
        return Fake(names=offered)

    first = extensions(connect)
    first.opener.trust_project = False
    trust.approve(home, project, review.find_items(home, project))
    await first.open(100_000)
    await first.close()

    offered.remove("two")
    second = extensions(connect)
    second.opener.trust_project = False
    second.begin()
    one, two = await second.open(100_000)
    assert [one.name, two.name] == ["mcp__s__one", "mcp__s__two"]
    assert started == ["s"]

    assert (await one.run(context, {})).text == "ok"
    assert started == ["s", "s"]
    with pytest.raises(ToolError, match="has no tool 'two'"):
        await two.run(context, {})
    third = extensions(connect)
    third.opener.trust_project = False
    assert [tool.name for tool in await third.open(100_000)] == ["mcp__s__one"]


async def test_tools_shown_only_once_cannot_be_pinned_unseen(extensions, home, project):
    bring(project, "s")
    offered = ["one"]

    async def connect(entry):
        return Fake(names=offered)

    trust.approve(home, project, review.find_items(home, project))
    for names in (["one"], ["other"], [], ["evil"]):
        offered[:] = names
        session = extensions(connect)
        session.opener.trust_project = False
        await session.open(100_000)
        session.start_all()
        await session.servers["s"].settled.wait()
        used = list(session.servers["s"].definitions)
        await session.close()
        assert used == (["one"] if names == ["one"] else [])
