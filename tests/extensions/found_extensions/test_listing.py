"""What a person is shown of skills, commands, agents and hooks, and hooks tried by hand."""

import json
from collections.abc import Callable

import pytest

from kode.cli.main import main
from tests.extensions.found_extensions.conftest import Open, World
from tests.extensions.found_extensions.test_hook_moments import hooks

Kode = Callable[..., tuple[str, str]]
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
def kode(world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Kode:
    """Runs a command in the repository; gives what it wrote."""
    monkeypatch.chdir(world.project)

    def run(*words: str) -> tuple[str, str]:
        assert main([*words]) == 0
        return capsys.readouterr()

    return run


@pytest.mark.parametrize("kind", FILES)
def test_each_kind_is_listed_with_its_origin_and_standing(
    world: World, kode: Kode, kind: str
) -> None:
    path = world.write(*FILES[kind])
    shown, _ = kode(kind)
    assert shown.startswith("new ")
    assert "kode extensions approve" in shown
    world.approve()
    shown, _ = kode(kind, *(["list"] if kind == "hooks" else []), "--json")
    (row,) = json.loads(shown)
    assert (row["state"], row["scope"]) == ("used", "project")
    assert row["origin"] in (str(path), str(path.parent))
    assert len(row["hash"]) == 64


def test_a_hook_is_tried_with_what_a_file_says(world: World, kode: Kode) -> None:
    refuse = "grep -q '\"command\": \"rm' && { echo 'no rm' >&2; exit 2; }; exit 0"
    hooks(world, ("PreToolUse", "Bash", refuse), ("PreToolUse", "Edit", "exit 1"))
    hooks(world, ("PreToolUse", "Bash", "touch ../effect"), file=".claude/settings.json")
    world.write("call.json", json.dumps({"tool_name": "Bash", "tool_input": {"command": "rm x"}}))
    shown, _ = kode("hooks", "test", "PreToolUse", "--input", "call.json")
    for part in ("PreToolUse:Bash: exit status 2", "decides: deny", "no rm", "not about Bash"):
        assert part in shown
    assert "it is new" in shown
    assert not (world.user_home / "effect").exists()


async def test_commands_and_skills_are_offered_from_the_start(world: World, opened: Open) -> None:
    world.write(
        "~/.claude/commands/git/fix.md", "---\nargument-hint: [N]\ndescription: Fixes it.\n---\nFix"
    )
    world.write("~/.claude/skills/pdf/SKILL.md", "---\ndescription: Reads PDF.\n---\nHow")
    conversation = await opened()
    offered = {"git:fix": "N Fixes it.", "pdf": "Reads PDF."}
    assert conversation.list_offered().items() >= offered.items()
    await conversation.start()
    assert conversation.list_offered().items() >= offered.items()
