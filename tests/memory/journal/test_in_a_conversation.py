"""The journal and the vault behind the loop: overflow, compaction, `/new`, another model."""

import asyncio
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from kode.config import load_config
from kode.contracts import ModelInfo
from kode.conversation import open_conversation
from kode.events import silent
from kode.memory.question import INSTRUCTIONS
from kode.messages import Message, Text, text_of
from tests.memory.journal.life import history_of


@dataclass
class Talker:
    """A provider that answers anything, keeps every request, and consolidates."""

    model: str = "talker"
    name: str = "scripted"
    info: ModelInfo = field(
        default_factory=lambda: ModelInfo(context_window=100_000, max_output_tokens=4_000)
    )
    turns: list[Any] = field(default_factory=list)
    consolidations: list[Any] = field(default_factory=list)
    hang: bool = False

    async def reply(self, request: Any, emit: Any) -> Message:
        request = replace(request, messages=tuple(request.messages))
        if request.system == INSTRUCTIONS:
            self.consolidations.append(request)
            if self.hang:
                await asyncio.Event().wait()
            note = f"Entry {len(self.consolidations)}."
            text = json.dumps({"narrative": note, "facts": ["a fact"]})
        else:
            self.turns.append(request)
            text = f"answer {len(self.turns)}"
        return Message(role="assistant", parts=(Text(text=text),), stop="end", model=self.model)

    async def aclose(self) -> None:
        pass


@pytest.fixture
async def talks(tmp_path, monkeypatch):
    """Opens conversations with a `Talker`, and closes them."""
    home = tmp_path / "home"
    monkeypatch.setenv("KODE_HOME", str(home))
    opened = []

    async def talk(system, talker, **memory):
        home.mkdir(exist_ok=True)
        (home / "config.json").write_text(json.dumps({"memory": {"system": system, **memory}}))
        flags = {"provider": "scripted", "script": "none"}
        loaded = load_config(home, tmp_path, environ={}, flags=flags)
        monkeypatch.setattr("kode.conversation.opening.make_provider", lambda *_: talker)
        conversation = await open_conversation(loaded, cwd=tmp_path, emit=silent, ask=None)
        opened.append(conversation)
        return conversation

    yield talk
    for conversation in opened:
        await conversation.close()


def memory_text(message: Message) -> str:
    """What of a message memory wrote."""
    return "".join(p.text for p in message.parts if isinstance(p, Text) and p.source == "memory")


def root(conversation: Any) -> Path:
    return conversation.home


async def test_after_an_overflow_a_recap_comes_once_in_a_message(talks):
    talker = Talker()
    talk = await talks("journal", talker, journal={"memory_window": 6})
    for number in range(1, 7):
        await talk.turn(f"question {number}")

    systems = [request.system for request in talker.turns]
    assert len(set(systems[:3])) == 1
    assert "- a fact" in systems[3]
    assert len(set(systems[3:])) == 1
    recaps = [[t for t in map(memory_text, r.messages) if t] for r in talker.turns]
    assert [len(texts) for texts in recaps] == [0, 0, 0, 1, 1, 1]
    assert "- assistant: answer 3\n- user: question 4" in recaps[3][0]
    assert recaps[3] == recaps[4]
    assert "- assistant: answer 5\n- user: question 6" in recaps[5][0]
    told = [text_of(m) for m in talker.turns[3].messages if not memory_text(m)]
    assert told[1:] == ["question 3", "answer 3", "question 4"]
    assert "Entry 1." in str(talker.turns[3].messages[0])
    assert "question 1" in text_of(talker.consolidations[0].messages[-1])
    assert "question 4" not in text_of(talker.consolidations[0].messages[-1])


async def test_a_bounded_end_leaves_the_work_to_the_next_start(talks):
    talker = Talker(hang=True)
    talk = await talks("journal", talker)
    await talk.turn("question")

    async with asyncio.timeout(20):
        closing = asyncio.ensure_future(talk.close(wait_s=0.05))
        await asyncio.sleep(0)
        assert talk.waits_for == "memory"
        await closing

    queue = next((root(talk) / "memory" / "journal").rglob("queue"))
    (item,) = [path for path in queue.iterdir() if path.suffix == ".json"]
    assert "question" in item.read_text()


async def test_new_waits_for_consolidation_unless_the_session_is_empty(talks):
    talker = Talker()
    talk = await talks("journal", talker)

    await talk.new_session()
    before = len(talker.consolidations)
    await talk.turn("question")
    await talk.new_session()

    assert (before, len(talker.consolidations)) == (0, 1)
    assert [entry.text for entry in history_of(root(talk))] == ["Entry 1."]
    await talk.turn("another")
    assert "- a fact" in talker.turns[-1].system


async def test_new_interrupted_keeps_the_session_and_what_was_said(talks):
    talker = Talker(hang=True)
    talk = await talks("journal", talker)
    await talk.turn("question")
    session = talk.session.id

    task = asyncio.create_task(talk.new_session())
    while not talker.consolidations:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert talk.session.id == session
    assert len(talk.session.messages) == 2
    queue = next((root(talk) / "memory" / "journal").rglob("queue"))
    (item,) = [path for path in queue.iterdir() if path.suffix == ".json"]
    assert "question" in item.read_text()
    talker.hang = False  # or the end of the session waits for a model that never answers


async def test_another_model_does_the_next_consolidation(talks, monkeypatch):
    first, second = Talker(), Talker(model="second")
    talk = await talks("journal", first)
    await talk.turn("question")

    talk.now.agent = replace(talk.agent, provider=second)
    await talk.new_session()

    assert (len(first.consolidations), len(second.consolidations)) == (0, 1)


async def test_a_vaults_index_comes_once_and_again_after_a_compaction(talks):
    talker = Talker()
    talk = await talks("vault", talker)
    facts = root(talk) / "memory" / "vault" / "facts"
    facts.mkdir(parents=True)
    (facts / "user.md").write_text("> Summary: name\n- Name: A\n")

    await talk.turn("one")
    await talk.turn("two")
    assert await talk.compact() is None  # so little that a note would take as much room
    await talk.turn("words " * 30_000)
    assert await talk.compact() is not None
    await talk.turn("three")

    def indexes(request):
        return str(request.messages).count("Available memory:")

    turns = [r for r in talker.turns if text_of(r.messages[-1]) in ("one", "two", "three")]
    assert [indexes(request) for request in turns] == [1, 1, 1]
    assert len({request.system for request in turns}) == 1
    first = [text_of(m) for m in turns[0].messages]
    assert first == ["", "one"]
