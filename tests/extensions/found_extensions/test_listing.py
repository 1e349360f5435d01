"""What a person is shown of skills, commands, agents and hooks, and hooks tried by hand."""

import json

import pytest

from kode.cli.main import main
from tests.extensions.found_extensions.conftest import Open, World
from tests.extensions.found_extensions.test_hook_moments import hooks

FILES = {
    "skills": (".claude/skills/one/SKILL.md", "---\nname: one\ndescription: Does it.\n---\nHow"),
    "commands": (".claude/commands/one.md", "---\nargument-hint: N\n---\nDoes it."),
    "agents": (".claude/agents/one.md", "---\nname: one\ndescription: Does it.\n---\nBe brief."),
    "hooks": (
        ".claude/settings.json",
        json.dumps({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}),
    ),
}


@pytest.fixture
def here(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.chdir(world.project)
    return world


@pytest.mark.parametrize("kind", FILES)
def test_each_kind_is_listed_with_its_origin_and_standing(
    here: World, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    path = here.write(*FILES[kind])
    assert main([kind]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("new ")
    assert "kode extensions approve" in shown

    here.approve()
    assert main([kind, *(["list"] if kind == "hooks" else []), "--json"]) == 0

    (row,) = json.loads(capsys.readouterr().out)
    assert (row["state"], row["scope"]) == ("used", "project")
    assert row["origin"] in (str(path), str(path.parent))
    assert len(row["hash"]) == 64


def test_unusable_parts_are_reported_on_stderr(
    here: World, capsys: pytest.CaptureFixture[str]
) -> None:
    here.write(".claude/skills/one/SKILL.md", "no head")

    assert main(["skills"]) == 0
    assert "has no description" in capsys.readouterr().err


def test_a_hook_is_tried_with_what_a_file_says(
    here: World, capsys: pytest.CaptureFixture[str]
) -> None:
    refuse = "grep -q '\"command\": \"rm' && { echo 'no rm' >&2; exit 2; }; exit 0"
    hooks(here, ("PreToolUse", "Bash", refuse), ("PreToolUse", "Edit", "exit 1"))
    effect = here.user_home / "effect"
    hooks(here, ("PreToolUse", "Bash", f"touch {effect}"), file=".claude/settings.json")
    here.write("call.json", json.dumps({"tool_name": "Bash", "tool_input": {"command": "rm x"}}))

    assert main(["hooks", "test", "PreToolUse", "--input", "call.json"]) == 0

    shown = capsys.readouterr().out
    assert "PreToolUse:Bash: exit status 2" in shown
    assert "decides: deny" in shown
    assert "no rm" in shown
    assert "PreToolUse:Edit: not about Bash" in shown
    assert "not run, it is new" in shown
    assert not effect.exists()


async def test_commands_and_skills_are_offered_from_the_start(world: World, opened: Open) -> None:
    world.write("~/.claude/commands/git/fix.md", "---\nargument-hint: N\n---\nFix it.")
    world.write("~/.claude/skills/pdf/SKILL.md", "---\ndescription: Reads PDF.\n---\nHow")
    conversation = await opened()

    offered = {"git:fix": "N Fix it.", "pdf": "Reads PDF."}
    assert conversation.offered().items() >= offered.items()
    await conversation.start()
    assert conversation.offered().items() >= offered.items()
