"""An episode is shown with what of it no longer holds."""

import json
from datetime import timedelta

import pytest

from kode.errors import ToolError
from kode.memory.rank import Ranked
from kode.memory.tiered.search import newest_first
from tests.memory.life import NOON, Model, lived, opened, settings, turn, use

OLD = "The port of the gateway is 8080"
NEW = "The port of the gateway is 8081"
FIRST = "20260210-090000-aaaaaa"
NOTE = json.dumps({"narrative": "The gateway was set up on port 8080.", "facts": []})


async def kept(tmp_path, content=OLD, **given):
    """A session that keeps a fact and ends with a note."""
    system = await opened(tmp_path, session_id=FIRST, model=Model([NOTE]), config=plain())
    await use(system, action="add", target="env", content=content, **given)
    await system.after_turn(turn(1, "set up the gateway", answer="Done."))
    await system.before_drop(lived("set up the gateway"), "exit")
    await system.close(1.0)


def plain():
    return settings(merge_on_write=False, llm_search=False, min_turns_for_extraction=1)


async def later(tmp_path, *uses, days=20):
    """What a session is shown that asks about it, after `uses` of the tool in another."""
    writing = await opened(tmp_path, session_id="20260220-090000-bbbbbb", config=plain())
    for given in uses:
        await use(writing, **given)
    await writing.close(1.0)
    reading = await opened(
        tmp_path,
        session_id="20260301-090000-cccccc",
        config=plain(),
        now=lambda: NOON + timedelta(days=days),
    )
    recalled = await reading.recall(turn(1, "which port has the gateway?"))
    found = await use(reading, action="search", query="gateway port")
    whole = await use(reading, action="episodes", query=FIRST)
    return recalled, found, whole


def replaced(old, new):
    return {"action": "replace", "target": "env", "old_text": old, "content": new}


async def test_a_superseded_fact_stands_with_its_successor(tmp_path):
    await kept(tmp_path)

    for text in await later(tmp_path, replaced(OLD, NEW)):
        assert "set up on port 8080" in text
        assert f'- "{OLD}" superseded by "{NEW}"' in text


async def test_only_what_stands_in_the_end_is_named(tmp_path):
    await kept(tmp_path)
    last = NEW.replace("8081", "9000")

    for text in await later(tmp_path, replaced(OLD, NEW), replaced(NEW, last)):
        assert f'- "{OLD}" superseded by "{last}"' in text
        assert "8081" not in text


@pytest.mark.parametrize(
    "uses",
    [
        [],
        [{"action": "archive", "target": "env", "old_text": OLD}],
        [replaced(OLD, f"{OLD}, behind nginx")],
    ],
    ids=["it stands", "it was archived to make room", "more is said of it"],
)
async def test_nothing_is_said_of_what_may_still_hold(tmp_path, uses):
    await kept(tmp_path)

    for text in await later(tmp_path, *uses):
        assert "set up on port 8080" in text
        assert "Since then" not in text


async def test_a_withdrawn_fact_is_marked_where_it_is_told_again(tmp_path):
    await kept(tmp_path)

    for text in await later(tmp_path, {"action": "remove", "target": "env", "old_text": OLD}):
        assert f'- "{OLD}" was withdrawn' in text


async def test_a_superseding_fact_is_superseded_itself(tmp_path):
    before = await opened(tmp_path, session_id="20260201-090000-aaaaaa", config=plain())
    await use(before, action="add", target="env", content="The port of the gateway is 80")
    await before.close(1.0)
    first = await opened(
        tmp_path,
        session_id=FIRST,
        model=Model(["update", NOTE]),
        config=settings(llm_search=False, min_turns_for_extraction=1),
    )
    await use(first, action="add", target="env", content=OLD)
    await first.before_drop(lived("look at the gateway"), "exit")
    await first.close(1.0)

    for text in await later(tmp_path, replaced(OLD, NEW)):
        assert f'- "{OLD}" superseded by "{NEW}"' in text


async def test_a_fact_whose_successor_was_removed_no_longer_holds(tmp_path):
    await kept(tmp_path)
    gone = {"action": "remove", "target": "env", "old_text": NEW}

    for text in await later(tmp_path, replaced(OLD, NEW), gone):
        assert f'- "{OLD}" no longer holds' in text
        assert NEW not in text


async def test_a_removed_fact_is_still_superseded_by_newer_ones(tmp_path):
    await kept(tmp_path)
    judge = Model(["update"])
    system = await opened(
        tmp_path,
        session_id="20260220-090000-bbbbbb",
        model=judge,
        config=settings(llm_search=False),
    )
    await use(system, action="remove", target="env", old_text=OLD)
    await system.recall(turn(1, f"{NEW} now"))
    await use(system, action="add", target="env", content=NEW)
    await system.close(1.0)

    assert len(judge.asked) == 1
    for text in await later(tmp_path):
        assert f'- "{OLD}" superseded by "{NEW}"' in text


async def test_the_model_cannot_push_out_the_persons_removed_word(tmp_path):
    said = settings(llm_search=False)
    first = await opened(tmp_path, session_id=FIRST, config=said)
    await first.recall(turn(1, f"remember: {OLD}"))
    await use(first, action="add", target="env", content=OLD)
    await use(first, action="remove", target="env", old_text=OLD)
    await first.close(1.0)
    second = await opened(
        tmp_path, session_id="20260220-090000-bbbbbb", model=Model(["update"]), config=said
    )
    await second.recall(turn(1, "look around"))

    with pytest.raises(ToolError) as refused:
        await use(second, action="add", target="env", content=NEW)

    assert second.entries() == []
    assert OLD not in str(refused.value)


async def test_an_undone_change_supersedes_nothing(tmp_path):
    await kept(tmp_path)
    await later(tmp_path, replaced(OLD, NEW))
    system = await opened(tmp_path, session_id=None)
    change = next(one for one in system.history.standing("tiered") if one.kind != "episode")
    await system.undo_change(change)
    await system.close(1.0)

    for text in await later(tmp_path):
        assert "Since then" not in text


async def test_changed_code_is_named_even_after_the_fact_was_removed(tmp_path):
    (tmp_path / "app.py").write_text("PORT = 8080\n")
    await kept(tmp_path, source="app.py:1")
    (tmp_path / "app.py").write_text("PORT = 8081\n")

    for text in await later(tmp_path, {"action": "remove", "target": "env", "old_text": OLD}):
        assert f'[may be stale: app.py:1 changed] "{OLD}"' in text


async def test_a_day_that_has_passed_is_named(tmp_path):
    until = f"{NOON + timedelta(days=3):%Y-%m-%d}"
    await kept(tmp_path, until=until)

    for text in await later(tmp_path, days=20):
        assert f'[may be stale: it held until {until}] "{OLD}"' in text
    for text in await later(tmp_path, days=1):
        assert "Since then" not in text


def found(id, *matched):
    return id, Ranked(index=0, score=1.0, matched=matched, is_whole=False)


def test_a_newer_episode_precedes_one_that_says_no_more():
    best, newer, other = found("1", "port"), found("3", "port", "gateway"), found("2", "owner")

    assert newest_first([best, other, newer]) == [newer, best, other]
    assert newest_first([newer, found("4", "port")])[0] == newer
