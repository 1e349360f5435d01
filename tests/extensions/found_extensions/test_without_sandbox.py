"""A repository's servers and hooks on a machine that has no sandbox."""

import json
import shutil
from unittest.mock import Mock

import pytest

from kode.conversation import Conversation
from kode.errors import SandboxUnknownError
from kode.sandbox.trial import Support
from tests.extensions.conftest import SERVERS
from tests.extensions.found_extensions.conftest import Open, World, play
from tests.extensions.found_extensions.test_hook_moments import DONE, EDIT, hooks, runs
from tests.needs import PLAIN_PYTHON

OFF = {"sandbox.enabled": False}


@pytest.fixture(autouse=True)
def no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kode.sandbox.trial.find_fault", lambda *given: "broken")
    monkeypatch.setattr("kode.sandbox.sandbox.Sandbox.unavailable_reason", lambda self: "broken")


def bring_hook(world: World, event: str = "PreToolUse", *, outside: bool = False) -> None:
    hooks(world, (event, "*", "touch ../judged"), file=".claude/settings.json")
    world.approve(outside=outside)


def bring_server(world: World, *, outside: bool) -> None:
    script = shutil.copy(SERVERS / "reaching.py", world.project)
    command = {"command": PLAIN_PYTHON, "args": [str(script)]}
    world.write(".mcp.json", json.dumps({"mcpServers": {"one": command}}))
    world.approve(outside=outside)


def server_runs(talk: Conversation) -> bool:
    assert talk.extensions is not None
    return talk.extensions.servers["one"].runs


@pytest.mark.parametrize("fault", ["none", "unknown", "cannot be made"])
async def test_a_guard_that_cannot_judge_blocks_the_call(
    world: World, opened: Open, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    sandbox = "kode.sandbox.sandbox.Sandbox"
    if fault == "unknown":
        unknown = Mock(side_effect=SandboxUnknownError("late"))
        monkeypatch.setattr("kode.sandbox.trial.find_fault", unknown)
    if fault == "cannot be made":
        monkeypatch.setattr(f"{sandbox}.support", lambda self: Support("plain"))
        monkeypatch.setattr(f"{sandbox}.begin", Mock(side_effect=OSError("no room")))
    bring_hook(world)
    talk, _ = await play(opened, EDIT, mode="full")
    assert not (world.project / "a.txt").exists()
    assert not (world.user_home / "judged").exists()
    assert [run.outcome for run in runs(talk)] == ["deny"]
    assert world.finished[0].is_error


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
    bring_hook(world, outside=True)
    await play(opened, EDIT, mode="full", **flags)
    assert (world.project / "a.txt").exists()
    assert (world.user_home / "judged").exists()


@pytest.mark.parametrize("flags", [{}, OFF])
@pytest.mark.parametrize("approved", [True, False])
async def test_a_server_starts_once_a_person_has_approved_that(
    world: World, opened: Open, flags: dict[str, bool], approved: bool
) -> None:
    bring_server(world, outside=approved)
    talk = await opened(DONE, **flags)
    await talk.turn("hello")
    assert server_runs(talk) is approved
    said = world.notices
    assert any("extensions approve one --outside" in text for text in said) is not approved


async def test_a_required_sandbox_leaves_nothing_outside(world: World, opened: Open) -> None:
    bring_server(world, outside=True)
    bring_hook(world, outside=True)
    talk, _ = await play(opened, EDIT, **{"sandbox.enabled": True})
    assert not server_runs(talk)
    assert not (world.user_home / "judged").exists()


@pytest.mark.parametrize("file", [".claude/settings.json", "~/.claude/settings.json"])
async def test_trusting_a_project_does_not_let_its_hook_outside(
    world: World, opened: Open, file: str
) -> None:
    hooks(world, ("PreToolUse", "*", "touch ../judged"), file=file)
    await play(opened, EDIT, mode="full", trust_project=True, **OFF)
    for effect in (world.user_home / "judged", world.project / "a.txt"):
        assert effect.exists() is file.startswith("~")
