"""Servers of their own for the tests of extensions: started for real, outside of any sandbox."""

import sys
from pathlib import Path

import pytest

from kode.events import no_emit
from kode.extensions import trust
from kode.extensions.mcp_config import ServerEntry
from kode.extensions.mcp_server import McpServer, Opener
from kode.tool import ToolContext
from tests.workplaces import workplace

SERVERS = Path(__file__).parent / "servers"


def an_entry(project, name="one", scope="project", **values):
    origin = project / ".mcp.json"
    return ServerEntry(name=name, origin=origin, scope=scope, project=project, values=values)


@pytest.fixture
def home(tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("KODE_HOME", str(home))
    return home


@pytest.fixture
def project(project):
    (project / ".git").mkdir()
    return project


@pytest.fixture
def place(home, project):
    return workplace(project, home=home)


@pytest.fixture
def context(place):
    return ToolContext(place=place, call_id="c1", session_id=None, emit=no_emit, seen_files={})


@pytest.fixture
async def server(home, project, place):
    """Starts `servers/NAME.py` with words for it, as an entry of the project."""
    started = []

    async def start(name, *words, **values):
        args = [str(SERVERS / f"{name}.py"), *words]
        entry = an_entry(project, name, command=sys.executable, args=args, **values)
        trust.approve_items(home, project, [trust.outside_item(entry.item)])
        open_entry = Opener(place=place, sandboxed=False)
        one = McpServer(entry=entry, home=home, open=open_entry, emit=start.notices.append)
        one.start()
        started.append(one)
        await one.settled.wait()
        return one

    start.notices = []
    yield start
    for one in started:
        await one.stop()
