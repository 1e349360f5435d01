"""A memory system that a program brings, from the outside."""

from typing import Any

import pytest

import kode
from kode.events import Event, Notice, SessionStarted
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


def system_of(server: ScriptedServer, number: int) -> str:
    return str(server.requests[number].json["messages"][0]["content"])


async def test_a_memory_of_ones_own_is_read_and_written(
    server: ScriptedServer, opened: Any
) -> None:
    notebook = Notebook()
    server.play([{"text": "It parses."}, {"text": "As I said."}])
    for _ in range(2):
        async with opened(memory=notebook) as conversation:
            await conversation.ask("What does parse.py do?")

    assert "It parses." not in system_of(server, 0)
    assert "# Before\nIt parses." in system_of(server, 1)
    assert notebook.answers == ["It parses.", "As I said."]
    assert notebook.closed == 2


async def test_a_failing_memory_hook_is_one_notice(server: ScriptedServer, opened: Any) -> None:
    server.play([{"text": "One."}, {"text": "Two."}])
    async with opened(memory=Broken()) as conversation:
        events: list[Event] = []
        for text in "12":
            events += [event async for event in conversation.turn(text)]

    said = [event.text for event in events if isinstance(event, Notice)]
    assert len([text for text in said if "RuntimeError: the index is gone" in text]) == 1


@pytest.mark.parametrize(("memory", "tools"), [("off", 0), (None, 0), ("notes", 5), ("tiered", 1)])
async def test_memory_is_chosen_by_its_name(
    server: ScriptedServer, opened: Any, memory: str | None, tools: int
) -> None:
    of_memory = {"memory", "remember", "recall", "update_memory", "update_soul", "forget"}
    server.play([{"text": "One."}])
    async with opened(memory=memory) as conversation:
        await conversation.ask("1")

    sent = {tool["function"]["name"] for tool in server.requests[0].json["tools"]}
    assert len(sent & of_memory) == tools


async def test_an_unknown_system_is_refused(opened: Any) -> None:
    with pytest.raises(kode.KodeError, match=r"memory\.system"):
        async with opened(memory="elephant"):
            pass


async def test_a_session_that_is_not_kept_leaves_no_file(
    server: ScriptedServer, opened: Any, tmp_path: Any
) -> None:
    server.play([{"text": "One."}])
    seen: list[Event] = []
    async with opened(keep_session=False, on_event=seen.append) as conversation:
        await conversation.ask("1")

    assert conversation.session_id is None
    assert isinstance(seen[0], SessionStarted)
    assert list((tmp_path / "kode-home").rglob("*.jsonl")) == []
