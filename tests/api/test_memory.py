"""A memory system that a program brings, from the outside."""

from typing import Any

import pytest

import kode
from kode.events import Event, Notice, SessionStarted
from tests.api.conftest import Open
from tests.scripted_server import ScriptedServer


class Notebook(kode.NullMemory):
    """Shows what was answered before."""

    name = "notebook"

    def __init__(self) -> None:
        self.answers: list[str] = []
        self.closed = 0

    async def inject(self, reason: Any) -> kode.Injection:
        return kode.Injection(system="\n".join(["# Before", *self.answers]))

    async def after_turn(self, turn: Any) -> None:
        self.answers.append(turn.answer)

    async def close(self, grace_s: float) -> None:
        self.closed += 1


class Broken(kode.NullMemory):
    name = "broken"

    async def recall(self, turn: Any) -> str:
        raise RuntimeError("the index is gone")


async def test_a_memory_of_ones_own_is_read_and_written(
    server: ScriptedServer, opened: Open
) -> None:
    notebook = Notebook()
    server.script = [{"text": "It parses."}, {"text": "As I said."}]
    for _ in range(2):
        async with opened(memory=notebook) as conversation:
            await conversation.ask("What does parse.py do?")

    first, second = (request.json["messages"][0]["content"] for request in server.requests)
    assert "It parses." not in first
    assert "# Before\nIt parses." in second
    assert notebook.answers == ["It parses.", "As I said."]
    assert notebook.closed == 2


async def test_a_failing_memory_hook_is_one_notice(opened: Open) -> None:
    events: list[Event] = []
    replies = {"text": "One."}, {"text": "Two."}
    async with opened(*replies, memory=Broken(), on_event=events.append) as conversation:
        for text in "12":
            await conversation.ask(text)

    said = [event.text for event in events if isinstance(event, Notice)]
    assert len([text for text in said if "RuntimeError: the index is gone" in text]) == 1


@pytest.mark.parametrize(("memory", "tools"), [("off", 0), (None, 0), ("notes", 5), ("tiered", 1)])
async def test_memory_is_chosen_by_its_name(
    server: ScriptedServer, opened: Open, memory: str | None, tools: int
) -> None:
    of_memory = {"memory", "remember", "recall", "update_memory", "update_soul", "forget"}
    async with opened({"text": "One."}, memory=memory) as conversation:
        await conversation.ask("1")

    sent = {tool["function"]["name"] for tool in server.requests[0].json["tools"]}
    assert len(sent & of_memory) == tools


async def test_a_session_that_is_not_kept_leaves_no_file(opened: Open, tmp_path: Any) -> None:
    seen: list[Event] = []
    given = {"keep_session": False, "on_event": seen.append}
    async with opened({"text": "One."}, **given) as conversation:
        await conversation.ask("1")

    assert conversation.session_id is None
    assert isinstance(seen[0], SessionStarted)
    assert list((tmp_path / "kode-home").rglob("*.jsonl")) == []
