"""A repository's servers and hooks on a machine that has no sandbox."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kode.conversation import Conversation
from kode.errors import SandboxUnknownError
from kode.events import Event, Notice
from kode.extensions import mcp_config, trust
from kode.sandbox.trial import Support
from tests.extensions.found_extensions.conftest import Open, World, play
from tests.extensions.found_extensions.test_hook_moments import DONE, EDIT, finished, hooks, runs
from tests.needs import PLAIN_PYTHON

SERVERS = Path(__file__).parent.parent / "servers"
OFF = {"sandbox.enabled": False}


@pytest.fixture(autouse=True)
def no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kode.sandbox.trial.find_fault", lambda *given: "broken")
    monkeypatch.setattr("kode.sandbox.sandbox.Sandbox.unavailable_reason", lambda self: "broken")


def bring_hook(world: World, event: str = "PreToolUse") -> None:
    hooks(world, (event, "*", "touch ../judged"), file=".claude/settings.json")
    world.approve()


def servers_items(world: World) -> list[trust.Item]:
    found = mcp_config.find_servers(world.home, world.project)
    return [entry.item for entry in found.entries]


def let_outside(world: World) -> None:
    """Has what is there run without a sandbox."""
    items = (*world.find().items(), *servers_items(world))
    trust.approve(world.home, world.project, [trust.outside(item) for item in items])


def bring_servers(world: World, *names: str) -> None:
    script = shutil.copy(SERVERS / "reaching.py", world.project)
    entry = {"command": PLAIN_PYTHON, "args": [str(script)]}
    world.write(".mcp.json", json.dumps({"mcpServers": dict.fromkeys(names, entry)}))
    trust.approve(world.home, world.project, servers_items(world))


def servers_of(talk: Conversation) -> dict[str, bool]:
    assert talk.extensions is not None
    return {name: server.runs for name, server in talk.extensions.servers.items()}


def late(self: Any, kind: str) -> str:
    raise SandboxUnknownError("late")


def full(self: Any, **given: Any) -> None:
    raise OSError("no room")


@pytest.mark.parametrize(
    "faults",
    [
        {},
        {"trial.find_fault": late},
        {"sandbox.Sandbox.support": lambda self: Support("plain"), "sandbox.Sandbox.begin": full},
    ],
    ids=["none", "unknown", "cannot be made"],
)
async def test_a_guard_that_cannot_judge_blocks_the_call(
    world: World,
    opened: Open,
    events: list[Event],
    monkeypatch: pytest.MonkeyPatch,
    faults: dict[str, Any],
) -> None:
    for name, fault in faults.items():
        monkeypatch.setattr(f"kode.sandbox.{name}", fault)
    bring_hook(world)
    talk, _ = await play(opened, EDIT, mode="full")
    assert not (world.project / "a.txt").exists()
    assert not (world.user_home / "judged").exists()
    assert [run.outcome for run in runs(talk)] == ["deny"]
    assert finished(events)[0].is_error


async def test_a_hook_that_judges_nothing_is_skipped_without_blocking(
    world: World, opened: Open
) -> None:
    bring_hook(world, "PostToolUse")
    await play(opened, EDIT, mode="full")
    assert (world.project / "a.txt").exists()
    assert not (world.user_home / "judged").exists()


@pytest.mark.parametrize("flags", [{}, OFF])
async def test_a_hook_runs_once_a_person_has_approved_that(
    world: World, opened: Open, flags: dict[str, bool]
) -> None:
    bring_hook(world)
    let_outside(world)
    await play(opened, EDIT, mode="full", **flags)
    assert (world.project / "a.txt").exists()
    assert (world.user_home / "judged").exists()


async def test_a_changed_hook_needs_another_approval(world: World, opened: Open) -> None:
    bring_hook(world)
    let_outside(world)
    hooks(world, ("PreToolUse", "*", "touch ../judged; true"), file=".claude/settings.json")
    world.approve()
    await play(opened, EDIT, mode="full")
    assert not (world.user_home / "judged").exists()


@pytest.mark.parametrize("flags", [{}, OFF])
@pytest.mark.parametrize("approved", [True, False])
async def test_a_server_starts_once_a_person_has_approved_that(
    world: World, opened: Open, events: list[Event], flags: dict[str, bool], approved: bool
) -> None:
    bring_servers(world, "one")
    if approved:
        let_outside(world)
    talk = await opened(DONE, **flags)
    await talk.turn("hello")
    assert servers_of(talk) == {"one": approved}
    said = [event.text for event in events if isinstance(event, Notice)]
    assert any("extensions approve one --outside" in text for text in said) is not approved


async def test_a_required_sandbox_leaves_nothing_outside(world: World, opened: Open) -> None:
    bring_servers(world, "one")
    bring_hook(world)
    let_outside(world)
    talk, _ = await play(opened, EDIT, **{"sandbox.enabled": True})
    assert servers_of(talk) == {"one": False}
    assert not (world.user_home / "judged").exists()


async def test_trusting_the_project_keeps_it_in_the_sandbox(world: World) -> None:
    bring_servers(world, "one")
    approvals = trust.load(world.home, world.project, trust_project=True)
    (item,) = servers_items(world)
    assert trust.state(item, approvals) == "trusted"
    assert trust.state(trust.outside(item), approvals) == "new"


async def test_trusting_a_project_does_not_let_its_hook_outside(world: World, opened: Open) -> None:
    bring_hook(world)
    await play(opened, EDIT, mode="full", trust_project=True, **OFF)
    assert not (world.user_home / "judged").exists()
    assert not (world.project / "a.txt").exists()


async def test_ones_own_hook_runs_with_the_sandbox_off(world: World, opened: Open) -> None:
    hooks(world, ("PreToolUse", "*", "touch ../judged"))
    await (await opened({"calls": [EDIT]}, DONE, mode="full", **OFF)).turn("write")
    assert (world.user_home / "judged").exists()
