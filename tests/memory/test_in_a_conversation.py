"""Memory inside a conversation: one system prompt, until the person asks for another."""

import json

import pytest

from kode.config import load_config
from kode.conversation import open_conversation
from kode.events import silent


@pytest.fixture
async def talk(tmp_path, monkeypatch):
    monkeypatch.setenv("KODE_HOME", str(tmp_path / "home"))
    add = {"action": "add", "target": "user"}
    facts = ["Lives in Lisbon", "Dislikes ORMs", "Has a cat", "Reviews on Mondays", "Runs Debian"]
    writes = [
        [{"calls": [{"name": "memory", "arguments": {**add, "content": c}}]}, {"text": "Noted."}]
        for c in facts
    ]
    script = tmp_path / "script.json"
    replies = [reply for pair in writes for reply in pair] + [{"text": "Hm."}] * 30
    script.write_text(json.dumps(replies))
    loaded = load_config(
        tmp_path / "home",
        tmp_path,
        environ={},
        flags={"provider": "scripted", "script": str(script)},
    )
    conversation = await open_conversation(loaded, cwd=tmp_path, emit=silent, ask=None)
    yield conversation
    await conversation.close()


async def test_thirty_turns_with_five_writes_have_one_system_prompt(talk):
    prompts = set()
    for number in range(30):
        await talk.turn(f"request {number}")
        prompts.add(talk.context.system)

    assert len(prompts) == 1
    facts = talk.home / "memory" / "facts" / "user.md"
    assert len(facts.read_text().split("\n§\n")) == 5


async def test_reload_tells_changes_at_the_end_and_keeps_the_beginning(talk):
    await talk.turn("remember where I live")
    before = talk.context.system

    await talk.memory_command(["reload"])
    await talk.turn("and now?")

    assert "Lives in Lisbon" not in before
    assert talk.context.system == before
    (news,) = newest(talk)
    assert "Lives in Lisbon" in news


def newest(talk):
    """What the last message of the person tells of a changed beginning."""
    parts = [m for m in talk.session.messages if m.role == "user"][-1].parts
    return [part.text for part in parts if getattr(part, "source", "") == "news"]
