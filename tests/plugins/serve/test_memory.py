"""Memory for agents that have none: what they read, and that what they add waits for the person."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kode import paths
from kode.cli.commands import memory as memory_command
from kode.errors import ConfigError
from kode.memory.log import Log
from kode.plugins.serve.bounds import Bounds
from kode.plugins.serve.memory import make_memory_server
from tests.plugins.serve.conftest import Caller

SYSTEMS = ("tiered", "vault", "journal", "notes")


@pytest.fixture
def choose() -> Callable[..., None]:
    def write(system: str = "tiered", *, enabled: bool = True) -> None:
        config = {"provider": "scripted", "memory": {"system": system, "enabled": enabled}}
        paths.home().mkdir(exist_ok=True)
        paths.config_file(paths.home()).write_text(json.dumps(config))

    return write


@pytest.fixture(params=SYSTEMS)
def call(request: pytest.FixtureRequest, project: Path, choose: Callable[..., None]) -> Caller:
    """A client of the server over each system."""
    choose(request.param)
    return Caller(make_memory_server(Bounds(roots=(project,))))


@pytest.fixture
def person(project: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """The person at their terminal."""

    async def run(*words: str) -> str:
        argv = ["--cwd", str(project), *words]
        await asyncio.to_thread(memory_command.main, argv)
        return capsys.readouterr().out

    return run


async def test_memory_of_the_person_is_found_and_read(call: Caller, person: Any) -> None:
    target = {"tiered": "env", "vault": "project", "journal": "memory", "notes": "rule"}
    config = json.loads(paths.config_file(paths.home()).read_text())
    extra = ("--evidence", "said so") if config["memory"]["system"] == "notes" else ()
    await person("add", target[config["memory"]["system"]], "deploys with flyctl", *extra)

    found = await call("memory_search", query="flyctl")
    read = await call("memory_read")
    none = await call("memory_search", query="zanzibar")

    assert "deploys with flyctl" in found["memory"]
    assert found["memory"].startswith("<memory>")
    assert "deploys with flyctl" in read["memory"]
    assert none["hits"] == 0


async def test_an_addition_of_an_agent_waits_for_approval(call: Caller, person: Any) -> None:
    added = await call("memory_add", text="prefers tabs over spaces")

    assert "waits" in added["done"]
    assert (await call("memory_search", query="tabs"))["hits"] == 0
    assert "tabs" not in (await call("memory_read"))["memory"]
    listed = await person("review", "--list")
    assert "prefers tabs over spaces" in listed
    assert "from other" in listed

    await person("approve", "--all", "--yes")

    assert "tabs" in (await call("memory_search", query="tabs"))["memory"]
    (change,) = (await call("memory_log"))["changes"]
    assert (change["text"].endswith("over spaces"), change["waits"]) == (True, False)
    assert "memory_log" in await call.fault("memory_undo", id=added["id"])
    assert "tabs" in (await call("memory_search", query="tabs"))["memory"]


async def test_an_agent_withdraws_its_own_and_only_that(call: Caller, person: Any) -> None:
    added = await call("memory_add", text="prefers tabs over spaces")
    await call("memory_undo", id=added["id"])
    assert "prefers tabs" not in await person("review", "--list")

    changes = Log(paths.home() / "memory" / "history.jsonl")
    assert {change.who for change in changes.changes()} == {"client"}
    target = {"tiered": "user", "vault": "user", "journal": "memory", "notes": "note"}
    config = json.loads(paths.config_file(paths.home()).read_text())
    await person("add", target[config["memory"]["system"]], "of the person")
    made = changes.changes()[-1]
    assert made.who == "user"
    await call.fault("memory_undo", id=made.id)
    assert changes.changes()[-1] == made


async def test_the_person_drops_a_proposal(call: Caller, person: Any) -> None:
    added = await call("memory_add", text="prefers tabs over spaces")
    await person("undo", added["id"])
    assert "prefers tabs" not in await person("review", "--list")


async def test_a_credential_is_refused_and_the_same_text_waits_once(call: Caller) -> None:
    fault = await call.fault("memory_add", text="the key is sk-proj-abcdefghij0123456789ABCDEFGH")
    assert "abcdefghij" not in fault
    await call("memory_add", text="prefers tabs")
    again = await call("memory_add", text="prefers tabs")
    assert "already" in again["done"]
    assert "id" not in again


async def test_a_fact_about_a_project_waits_in_that_project(
    call: Caller, person: Any, tmp_path: Path
) -> None:
    await call("memory_add", text="tests run with nox", about="project")
    (tmp_path / "other").mkdir()

    assert "nox" not in await person("--cwd", str(tmp_path / "other"), "review", "--list")
    assert "nox" in await person("review", "--list")


async def test_folders_outside_of_the_roots_are_refused(call: Caller, tmp_path: Path) -> None:
    fault = await call.fault("memory_read", cwd=str(tmp_path))
    assert "--root" in fault


def test_memory_that_is_off_is_not_served(project: Path, choose: Callable[..., None]) -> None:
    choose(enabled=False)
    with pytest.raises(ConfigError, match=r"memory\.enabled"):
        make_memory_server(Bounds(roots=(project,)))
