"""An open session learns what others changed, with its next message."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kode.memory.contract import Turn
from kode.memory.policy import Addition
from kode.memory.question import FACTS
from kode.memory.statement import Amendment
from tests.memory.sessions import Sessions, call
from tests.memory.systems import TARGETS


async def _type(home: Sessions, text: str) -> None:
    """Another process in which the person adds a fact."""
    memory = await home.open(None)
    addition = Addition(target=TARGETS[home.system], text=text)
    await memory.save(memory.new_statement(addition, memory.author("user")))


async def test_a_change_of_another_process_comes_once(home: Sessions) -> None:
    memory = await home.open()
    await memory.inject("start")
    await _type(home, "Answer in German")
    said = await memory.recall(Turn(number=1, text="hi"))
    assert 'New: "Answer in German" (the user, now)' in said
    assert "German" not in await memory.recall(Turn(number=2, text="hi"))


async def test_a_resumed_session_is_told_what_changed_meanwhile(home: Sessions) -> None:
    memory = await home.open()
    await memory.inject("start")
    state = json.loads(json.dumps(dict(memory.state())))
    await _type(home, "Answer in German")
    other = await home.open("s1", state)
    await other.inject("resume")
    assert "Answer in German" in await other.recall(Turn(number=1, text="hi"))


async def test_own_changes_of_the_model_are_no_news(tmp_path: Path) -> None:
    home = Sessions(tmp_path)
    memory = await home.open()
    await call(memory, "memory", action="add", target="user", content="Use tabs")
    assert "tabs" not in await memory.recall(Turn(number=1, text="hi"))
    await memory.store.undo()
    assert 'No longer: "Use tabs"' in await memory.recall(Turn(number=2, text="hi"))


async def test_an_edited_file_and_an_expired_fact_are_news(tmp_path: Path) -> None:
    home = Sessions(tmp_path)
    path = tmp_path / "memory/facts/env.md"
    path.parent.mkdir(parents=True)
    path.write_text("Port 80")
    memory = await home.open()
    await call(memory, "memory", action="add", target="env", content="Freeze", until="2026-03-01")
    path.write_text(path.read_text().replace("80", "8080"))
    said = await memory.recall(Turn(number=1, text="hi"))
    assert said == '[Memory has changed. New: "Port 8080" (the user, now). No longer: "Port 80".]'
    home.now = home.now.replace(day=2)
    assert 'No longer: "Freeze"' in await memory.recall(Turn(number=2, text="hi"))


@pytest.mark.parametrize("kind", ["forget", FACTS])
async def test_a_note_leaves_withdrawn_facts_out_and_marks_superseded_ones(
    tmp_path: Path, kind: str
) -> None:
    memory = await Sessions(tmp_path).open(None)
    facts = ["Logs go to the bucket red", "Builds go to the bucket blue"]
    ids = []
    for text in facts:
        addition = Addition(target="env", text=text)
        author = memory.author("user")._replace(session="s")
        outcome = await memory.save(memory.new_statement(addition, author))
        assert outcome.statement
        ids.append(outcome.statement.id)
    text = f"The user said: {facts[0]}. {facts[0]}ish. {facts[1]}."
    note = memory.store.new_statement(memory.author("session"), "episodes/s1", text, kind="episode")
    forget = replace(memory.store.draft(kind, memory.author("session")), end=(ids[0],))
    await memory.store.commit(lambda view: forget)
    heir = await memory.store.edit(ids[1], "Builds go to the bucket green", memory.author("user"))
    assert heir.statement
    expiry = Amendment(until="2020-01-01")
    await memory.store.amend(heir.statement.id, expiry, memory.author(), "expire")

    shown = memory.note_text(note)

    assert ("bucket red." in shown, "bucket redish" in shown) == (False, True)
    fate = 'superseded by "Builds go to the bucket green" (expired on 2020-01-01)'
    assert f'"{facts[1]}" was {fate}' in shown
    assert facts[0] not in memory.note_text(replace(note, text="Buckets", session="s"))
