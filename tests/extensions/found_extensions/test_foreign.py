"""Settings of other agents make a session stricter, and never looser."""

import json
from typing import Any

import pytest

from kode.config.load import load_config
from tests.extensions.found_extensions.conftest import Open, World, play
from tests.tables import for_each

ASKED = {"name": "shell", "arguments": {"command": "touch made.txt"}}
NAMED = json.dumps(
    {"permissions": {"deny": ["Bash(touch:*)"], "allow": ["Bash(rm:*)"]}, "hooks": {"Stop": []}}
)


def settings(world: World, where: str = ".claude/settings.json", **given: Any) -> None:
    world.write(where, json.dumps(given))


WHERE = [".claude/settings.json", ".claude/settings.local.json", "~/.claude/settings.json"]


@pytest.mark.parametrize("where", [*WHERE, "--settings"])
async def test_their_denials_count_at_once(world: World, opened: Open, where: str) -> None:
    flags = {"settings": NAMED} if where == "--settings" else {}
    if not flags:
        settings(world, where, permissions={"deny": ["Bash(touch:*)"]})
    conversation, ended = await play(opened, ASKED, mode="full", **flags)
    assert [denial.subject for denial in ended.denials] == ["touch made.txt"]
    assert not (world.project / "made.txt").exists()
    if flags:
        assert conversation.config.permissions.allow == ()
        assert any("allow" in notice and "hooks" in notice for notice in world.notices)


async def test_their_allowances_count_for_nothing_and_are_named(world: World, opened: Open) -> None:
    allowed = {"allow": ["Bash(touch:*)"], "defaultMode": "bypassPermissions"}
    settings(world, model="opus", permissions=allowed)
    conversation, _ = await play(opened, ASKED, mode="ask", **{"sandbox.enabled": False})
    await conversation.turn("two")
    assert not (world.project / "made.txt").exists()
    (said,) = [notice for notice in world.notices if "defaultMode" in notice]
    assert "model" in said
    assert conversation.gate.state.mode == "ask"


async def test_a_file_that_links_out_is_a_fault(world: World, opened: Open) -> None:
    outside = world.write("~/elsewhere.json", json.dumps({"permissions": {"allow": ["Bash"]}}))
    world.write(".claude/empty", "")
    (world.project / ".claude/settings.json").symlink_to(outside)
    await play(opened)
    assert any("links out" in notice for notice in world.notices)


@for_each(
    ("rule", "own"),
    [
        ("Bash(npm run test *)", "shell(npm run test:*)"),
        ("Read(./.env)", "read(.env)"),
        ("Read(//etc/shadow)", "read(/etc/shadow)"),
        ("Read(/secrets/**)", "read(secrets/**)"),
        ("Read(~/.zshrc)", "read(~/.zshrc)"),
        ("Write(src/**)", "edit(src/**)"),
        ("WebFetch(domain:example.org)", "fetch(example.org)"),
        ("mcp__github__get_issue", "mcp(github:get_issue)"),
        # What kode cannot express is named.
        *((rule, "") for rule in ("Bash(git * main)", "Agent(Explore)", 7, "", "(x)")),
    ],
)
def test_rules_of_named_settings_become_kodes(world: World, rule: object, own: str) -> None:
    settings(world, "named.json", permissions={"ask": [rule]})
    loaded = load_config(world.home, world.project, environ={}, flags={"settings": "named.json"})
    assert loaded.config.permissions.ask == ((own,) if own else ())
    said = f"{world.project / 'named.json'}: permissions.ask: {rule}"
    assert loaded.unused == (() if own else (said,))


def test_settings_of_other_shapes_do_no_harm(world: World) -> None:
    for text in ('{"permissions": 1, "env": [1]}', "null", ""):
        world.write(".claude/settings.json", text)
        loaded = load_config(world.home, world.project, environ={}, flags={})
        assert loaded.config.permissions.deny == ()
