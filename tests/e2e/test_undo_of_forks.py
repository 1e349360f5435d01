"""What forked children change belongs to the turn that started them: undone and redone with it."""

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from kode.config.load import load_config
from kode.conversation import Conversation, Settings, open_conversation
from kode.events import silent
from tests.e2e.background import LONGEST_S
from tests.e2e.command import Place
from tests.scripted_server import ScriptedServer

Reply = dict[str, Any]

EDITS, MAKES, REMOVES, LATE = "Edit it.", "Make one.", "Remove one.", "Edit it later."


def call(name: str, **arguments: Any) -> Reply:
    return {"name": name, "arguments": arguments}


def edit(old: str, new: str) -> Reply:
    return call("edit_file", path="a.txt", old_text=old, new_text=new)


STEPS: dict[str, list[Reply]] = {
    EDITS: [edit("two", "three")],
    MAKES: [call("write_file", path="made.txt", content="made\n")],
    REMOVES: [call("shell", command="rm gone.txt")],
    LATE: [call("shell", command="until [ -e go ]; do sleep 0.05; done"), edit("two", "late")],
}
"""Goal of a fork → its calls, one a step."""


def goal_of(texts: list[str]) -> tuple[str, int]:
    """The goal of the child that asks, and the calls that it has made; "" for the parent."""
    for at in reversed(range(len(texts))):
        if found := re.findall(r"# Goal\\n([^\\\"]+)", texts[at]):
            return str(found[-1]), sum('"role": "tool"' in text for text in texts[at:])
    return "", 0


def script(parent: list[Reply]) -> Callable[[Reply], Reply]:
    """The parent makes these calls, one a step; "end" ends a turn."""
    steps = iter(parent)

    def reply(request: Reply) -> Reply:
        goal, made = goal_of([json.dumps(message) for message in request["messages"]])
        if goal:
            left = STEPS[goal][made:]
            return {"calls": left[:1]} if left else {"text": "Did it."}
        step = next(steps, {"text": "done"})
        return step if "text" in step else {"calls": [step]}

    return reply


def forks(*goals: str, **more: Any) -> Reply:
    tasks = [{"goal": goal, "fork": True} for goal in goals]
    return call("delegate_tasks", tasks=tasks, **more)


READ, END = call("read_file", path="a.txt"), {"text": "The turn ends."}


@pytest.fixture
async def opened(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Callable[..., Any]]:
    """Opens a conversation whose model makes these calls."""
    for name in ("a", "gone"):
        (place.project / f"{name}.txt").write_text("one\n")
    with ScriptedServer(keep=100) as server:
        place.url = server.openai_url
        for name, value in place.environ.items():
            monkeypatch.setenv(name, value)
        conversations: list[Conversation] = []

        async def begin(*parent: Reply) -> Conversation:
            server.play(script(list(parent)))
            flags = {"permissions.mode": "full", "memory.enabled": False}
            loaded = load_config(place.home, place.project, environ=os.environ, flags=flags)
            conversation = await open_conversation(Settings(loaded, emit=silent), cwd=place.project)
            conversations.append(conversation)
            return conversation

        yield begin
        for conversation in conversations:
            await conversation.close()


def files(project: Path) -> dict[str, str]:
    return {path.stem: path.read_text() for path in project.glob("*.txt")}


BEFORE = {"a": "one\n", "gone": "one\n"}
AFTER = {"a": "three\n", "made": "made\n"}


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(LONGEST_S):
        while not holds():
            await asyncio.sleep(0.05)


async def test_forks_are_undone_with_their_parents_turn(
    place: Place, opened: Callable[..., Any]
) -> None:
    conversation = await opened(READ, edit("one", "two"), forks(EDITS, MAKES, REMOVES), END)
    await conversation.turn("work")
    assert files(place.project) == AFTER

    undone = await conversation.undo()
    assert files(place.project) == BEFORE, undone
    await conversation.redo()
    assert files(place.project) == AFTER
    assert {diff.path for diff in conversation.diffs()} == {"a.txt", "made.txt", "gone.txt"}


async def test_a_file_changed_after_a_fork_is_left_alone(
    place: Place, opened: Callable[..., Any]
) -> None:
    conversation = await opened(READ, edit("one", "two"), forks(EDITS, MAKES), END)
    await conversation.turn("work")
    (place.project / "a.txt").write_text("mine\n")

    undone = await conversation.undo()

    assert files(place.project) == {"a": "mine\n", "gone": "one\n"}
    assert "it has changed since" in undone


async def test_a_background_fork_is_undone_with_its_turn(
    place: Place, opened: Callable[..., Any]
) -> None:
    conversation = await opened(READ, edit("one", "two"), forks(LATE, background=True), END)
    await conversation.turn("work")
    (place.project / "go").touch()
    await until(lambda: files(place.project)["a"] == "late\n")
    await until(lambda: not conversation.commands.running())

    await conversation.undo()
    assert files(place.project) == BEFORE
    await conversation.redo()
    assert files(place.project)["a"] == "late\n"


async def test_a_fork_beside_a_later_turn_is_undone_apart(
    place: Place, opened: Callable[..., Any]
) -> None:
    made = [call("write_file", path=f"{name}.txt", content=name) for name in ("first", "second")]
    wait = call("shell", command="touch go; until grep -q late a.txt; do sleep 0.05; done")
    background = forks(LATE, background=True)
    conversation = await opened(
        *(READ, edit("one", "two"), background, END), *(made[0], wait, made[1], END)
    )
    await conversation.turn("work")
    await conversation.turn("and more")
    await until(lambda: not conversation.commands.running())
    after = files(place.project)
    assert after == {**BEFORE, "a": "late\n", "first": "first", "second": "second"}

    seen = [after]
    while (undone := await conversation.undo()).startswith("Undid"):
        seen.append(files(place.project))
    assert seen[-1] == BEFORE, undone
    while len(seen) > 1:
        await conversation.redo()
        seen.pop()
    assert files(place.project) == after
