"""Memory for agents that have none: what they read, and that what they add waits for the person."""

import asyncio

import pytest

from kode.cli.commands import memory as memory_command
from kode.errors import ConfigError
from kode.plugins.serve.server import make_memory_server
from kode.plugins.serve.sessions import Bounds
from tests.plugins.serve.conftest import Caller, configure

TABS = "prefers tabs over spaces"


@pytest.fixture(params=["tiered", "vault", "journal", "notes"])
def system(request):
    configure(memory={"system": request.param})
    return request.param


@pytest.fixture
def call(project, system):
    """A client of the server over each system."""
    return Caller(make_memory_server(Bounds(roots=(project,))))


@pytest.fixture
def person(project, capsys):
    """The person at their terminal; what they are shown."""

    async def run(*words):
        await asyncio.to_thread(memory_command.main, ["--cwd", str(project), *words])
        return capsys.readouterr().out

    return run


async def test_memory_of_the_person_is_found_and_read(call, person, system):
    target = {"tiered": "env", "vault": "project", "journal": "memory", "notes": "rule"}[system]
    extra = ("--evidence", "said so") if system == "notes" else ()
    await person("add", target, "deploys with flyctl", *extra)

    found = await call("memory_search", query="flyctl")

    assert "deploys with flyctl" in found["memory"]
    assert found["memory"].startswith("<memory>")
    assert "deploys with flyctl" in (await call("memory_read"))["memory"]
    assert (await call("memory_search", query="zanzibar"))["hits"] == 0


async def test_an_addition_of_an_agent_waits_for_approval(call, person):
    assert "waits" in (await call("memory_add", text=TABS))["done"]
    assert (await call("memory_search", query="tabs"))["hits"] == 0
    assert "tabs" not in (await call("memory_read"))["memory"]
    listed = await person("review")
    assert TABS in listed
    assert "from other" in listed

    await person("approve", "--from", "other")

    assert "tabs" in (await call("memory_search", query="tabs"))["memory"]


async def test_the_person_drops_a_proposal(call, person):
    await person("undo", (await call("memory_add", text=TABS))["id"])
    assert "prefers tabs" not in await person("review")


async def test_a_credential_is_refused_and_the_same_text_waits_once(call):
    fault = await call.fault("memory_add", text="the key is sk-proj-abcdefghij0123456789ABCDEFGH")
    assert "abcdefghij" not in fault
    await call("memory_add", text=TABS)
    again = await call("memory_add", text=TABS)
    assert "already" in again["done"]
    assert "id" not in again


async def test_a_fact_about_a_project_waits_in_that_project(call, person, tmp_path):
    await call("memory_add", text="tests run with nox", about="project")
    (tmp_path / "other").mkdir()

    assert "nox" not in await person("--cwd", str(tmp_path / "other"), "review")
    assert "nox" in await person("review")


@pytest.mark.parametrize("system", ["tiered"], indirect=True)
async def test_folders_outside_of_the_roots_are_refused(call, tmp_path):
    assert "--root" in await call.fault("memory_read", cwd=str(tmp_path))


def test_memory_that_is_off_is_not_served(project):
    configure(memory={"enabled": False})
    with pytest.raises(ConfigError, match=r"memory\.enabled"):
        make_memory_server(Bounds(roots=(project,)))
