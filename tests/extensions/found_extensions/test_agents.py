"""Definitions of agents: found, offered to the model, and what a subagent is then made of."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kode.cli.commands.subagent import open_child
from kode.conversation import Conversation
from kode.errors import UserError
from kode.extensions.review import in_use
from kode.subagents.child import ChildPipes
from tests.extensions.found_extensions.conftest import Open, World, play
from tests.extensions.found_extensions.test_hook_moments import DONE, hooks, runs
from tests.tables import for_each

REVIEWER = """\
---
name: reviewer
description: Reviews a change.
tools: Read, Grep, Bash(git log:*)
model: opus
permissionMode: plan
---
You review. Be strict.
"""


@for_each(
    ("text", "efforts", "reason"),
    [
        ("---\ndescription: d\neffort: high\n---\nbody", ["high"], ""),
        ("---\ndescription: d\nreasoningEffort: xhigh\n---\nbody", ["xhigh"], ""),
        ("---\ndescription: d\neffort: huge\n---\nbody", [None], ""),
        ("---\ndescription: x\n---\n", [], "has no prompt"),
        ("---\n- tools: Read\ndescription: x\n---\nbody", [], "is not YAML"),
    ],
)
def test_a_definition_has_its_effort_or_a_reason(
    world: World, text: str, efforts: list[str | None], reason: str
) -> None:
    world.write("~/.claude/agents/x.md", text)
    found = world.find()
    assert [agent.effort for agent in in_use(found.agents)] == efforts
    assert reason in "".join(found.problems.get("agents", ()))
    assert bool(found.problems.get("agents")) is bool(reason)


@asynccontextmanager
async def child(
    world: World, *flags: str, replies: Sequence[Any] = (DONE,)
) -> AsyncIterator[Conversation]:
    script = world.write("~/child.json", json.dumps(replies))
    flags = ("--provider", "scripted", "--script", str(script), "--cwd", str(world.project), *flags)
    turn = await open_child(("--goal", "look", "--quiet", *flags), ChildPipes(lambda: None))
    try:
        yield turn.conversation
    finally:
        await turn.conversation.close()


async def test_a_subagent_works_by_its_definition(world: World) -> None:
    world.write(".claude/agents/team/reviewer.md", REVIEWER)
    world.approve()
    async with child(world, "--agent", "reviewer", "--permission-mode", "full") as conversation:
        await conversation.start()
        names = [spec.name for spec in conversation.context.specs]
        assert names == ["read_file", "search_files", "shell"]
        assert conversation.session.system.endswith("You review. Be strict.")
        assert conversation.gate.state.mode == "plan"
        assert conversation.agent.provider.model != "opus"


async def test_a_definition_that_nobody_approved_is_not_used(world: World) -> None:
    world.write(".claude/agents/reviewer.md", REVIEWER)
    with pytest.raises(UserError, match=r"only: none.*extensions approve reviewer"):
        async with child(world, "--agent", "reviewer"):
            pass


async def test_agents_are_offered_and_a_wrong_name_starts_nothing(
    world: World, opened: Open
) -> None:
    world.write("~/.claude/agents/reviewer.md", REVIEWER)
    call = {"name": "delegate_tasks", "arguments": {"tasks": [{"goal": "look", "agent": "x"}]}}
    conversation, _ = await play(opened, call, mode="full")
    (spec,) = [spec for spec in conversation.context.specs if spec.name == "delegate_tasks"]
    assert "- reviewer: Reviews a change." in spec.description
    assert "agent" in json.dumps(spec.parameters)
    (finished,) = world.finished
    assert "agent 'x'" in finished.text
    assert "reviewer" in finished.text


async def test_hooks_hold_in_a_subagent_and_see_its_end(world: World) -> None:
    call = {"name": "write_file", "arguments": {"path": "a.txt", "content": "a"}}
    hooks(world, ("PreToolUse", "Write", "exit 2"), ("SubagentStop", "general-purpose", "exit 2"))
    replies = [{"calls": [call]}, *[DONE] * 9]
    async with child(world, "--permission-mode", "full", replies=replies) as conversation:
        ended = await conversation.turn("write")
        assert not (world.project / "a.txt").exists()
        assert [denial.tool for denial in ended.denials] == ["write_file"]
        assert [run.event for run in runs(conversation)][:2] == ["PreToolUse", "SubagentStop"]
