"""A repository's servers and hooks on a machine that has no sandbox."""

import json
import shutil
from unittest.mock import Mock

import pytest

from kode.errors import SandboxUnknownError
from kode.sandbox.trial import Support
from tests.extensions.conftest import SERVERS
from tests.extensions.found_extensions.conftest import Open, World, play
from tests.extensions.found_extensions.test_hook_moments import EDIT, hooks, runs
from tests.needs import PLAIN_PYTHON

OFF = {"sandbox.enabled": False}
REQUIRED = {"sandbox.enabled": True}


@pytest.fixture(autouse=True)
def no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kode.sandbox.trial.find_fault", lambda *given: "broken")


def bring_hook(world: World, event: str = "PreToolUse") -> None:
    hooks(world, (event, "*", "touch ../judged"), file=".claude/settings.json")
    world.approve()


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


async def test_a_hook_that_judges_nothing_is_skipped(world: World, opened: Open) -> None:
    bring_hook(world, "PostToolUse")
    await play(opened, EDIT, mode="full")
    assert (world.project / "a.txt").exists()
    assert not (world.user_home / "judged").exists()


@pytest.mark.parametrize(
    ("file", "outside", "flags", "runs_it"),
    [
        (".claude/settings.json", True, {}, True),
        (".claude/settings.json", True, OFF, True),
        (".claude/settings.json", True, REQUIRED, False),
        (".claude/settings.json", False, {}, False),
        (".claude/settings.json", False, {**OFF, "trust_project": True}, False),
        ("~/.claude/settings.json", False, OFF, True),
    ],
)
async def test_hooks_and_servers_run_once_a_person_has_approved_that(
    world: World, opened: Open, file: str, outside: bool, flags: dict[str, bool], runs_it: bool
) -> None:
    hooks(world, ("PreToolUse", "*", "touch ../judged"), file=file)
    script = shutil.copy(SERVERS / "hostile.py", world.project)
    command = {"command": PLAIN_PYTHON, "args": [str(script)]}
    where = ".mcp.json" if file.startswith(".") else "~/kode-home/config.json"
    world.write(where, json.dumps({"mcpServers": {"one": command}}))
    world.approve(outside=outside)
    talk, _ = await play(opened, EDIT, mode="full", **flags)
    for effect in (world.user_home / "judged", world.project / "a.txt"):
        assert effect.exists() is runs_it
    assert talk.extensions is not None
    assert talk.extensions.servers["one"].runs is runs_it
    said = any("extensions approve one --outside" in notice for notice in world.notices)
    assert said is not runs_it
