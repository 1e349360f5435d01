"""Settings of other agents make a session stricter, and never looser."""

import json
from typing import Any

import pytest

from kode.config.load import load_config
from kode.errors import ConfigError
from kode.events import Event, Notice
from tests.extensions.found_extensions.conftest import Open, World, play
from tests.extensions.found_extensions.conftest import opened as opened
from tests.extensions.found_extensions.conftest import world as world

DONE = {"text": "done"}
ASKED = {"name": "shell", "arguments": {"command": "touch made.txt"}}


@pytest.fixture(autouse=True)
def home(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(world.user_home))


def settings(world: World, where: str = ".claude/settings.json", **given: Any) -> None:
    world.write(where, json.dumps(given))


WHERE = [".claude/settings.json", ".claude/settings.local.json", "~/.claude/settings.json"]


@pytest.mark.parametrize("where", WHERE)
async def test_their_denials_count_at_once(world: World, opened: Open, where: str) -> None:
    settings(world, where, permissions={"deny": ["Bash(touch:*)"]})
    _, ended = await play(opened, ASKED, mode="full")

    assert len(ended.denials) == 1
    assert not (world.project / "made.txt").exists()


async def test_their_allowances_count_for_nothing(world: World, opened: Open) -> None:
    settings(world, permissions={"allow": ["Bash(touch:*)"]})
    await play(opened, ASKED, mode="ask", **{"sandbox.enabled": False})

    assert not (world.project / "made.txt").exists()


async def test_unused_settings_are_named_once(
    world: World, opened: Open, events: list[Event]
) -> None:
    settings(world, model="opus", permissions={"defaultMode": "bypassPermissions"})
    conversation = await opened(DONE, DONE)

    await conversation.turn("one")
    await conversation.turn("two")

    said = [one.text for one in events if isinstance(one, Notice) and "defaultMode" in one.text]
    assert len(said) == 1
    assert "model" in said[0]
    assert conversation.gate.mode == "ask"


async def test_a_file_that_links_out_is_a_fault(
    world: World, opened: Open, events: list[Event]
) -> None:
    outside = world.write("~/elsewhere.json", json.dumps({"permissions": {"allow": ["Bash"]}}))
    world.write(".claude/empty", "")
    (world.project / ".claude/settings.json").symlink_to(outside)
    conversation = await opened(DONE)

    await conversation.turn("one")

    assert any("links out" in one.text for one in events if isinstance(one, Notice))


async def test_named_settings_deny_but_never_allow(
    world: World, opened: Open, events: list[Event]
) -> None:
    named = {
        "permissions": {"deny": ["Bash(touch:*)"], "allow": ["Bash(rm:*)"]},
        "hooks": {"Stop": []},
    }
    conversation, ended = await play(opened, ASKED, mode="full", settings=json.dumps(named))

    assert [one.subject for one in ended.denials] == ["touch made.txt"]
    assert conversation.config.permissions.allow == ()
    said = next(one.text for one in events if isinstance(one, Notice) and "allow" in one.text)
    assert "hooks" in said


@pytest.mark.parametrize("named", ["{", "[]", "missing.json", ".", '{"permissions"'])
def test_unreadable_named_settings_are_a_fault(world: World, named: str) -> None:
    with pytest.raises(ConfigError, match="--settings"):
        load_config(world.home, world.project, environ={}, flags={"settings": named})


def test_named_settings_may_be_a_file(world: World) -> None:
    world.write("deny.json", json.dumps({"permissions": {"ask": ["Read(a.txt)"]}}))

    loaded = load_config(world.home, world.project, environ={}, flags={"settings": "deny.json"})

    assert loaded.config.permissions.ask == ("read(a.txt)",)
