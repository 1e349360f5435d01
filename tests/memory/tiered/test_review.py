"""Pairs of facts that no model could be asked about: kept, and settled in one question."""

import asyncio
import json

import pytest

from kode.errors import ProviderError
from kode.memory import review
from kode.memory.commands import memory_command
from kode.memory.history import History
from kode.memory.tiered.facts import DISPUTED, UNJUDGED, parse
from tests.memory.life import (
    OTHER_SESSION,
    SESSION,
    Model,
    env_file,
    lived,
    notices,
    opened,
    settings,
    turn,
    use,
    user_file,
    write_facts,
)

OLD, NEW = "Lint with ruff check", "Lint with ruff check src"
OTHER_OLD, OTHER_NEW = "Deploys need approval from Ann", "Deploys need approval from Anne"
ONE_TURN = lived("look around")


def judged(*relations, **more):
    """An answer about known lines: (line, how, older line)."""
    lines = [{"line": line, "how": how, "of": of} for line, how, of in relations]
    return json.dumps({"narrative": "Looked around.", "facts": [], "lines": lines, **more})


SAME, UPDATE, DISTINCT = judged((2, "repeats", 1)), judged((2, "changes", 1)), judged()


def entries(tmp_path):
    return parse(user_file(tmp_path).read_text())


async def waiting(tmp_path, **where):
    found = (await opened(tmp_path, **where)).writer.pairs()
    return [(pair.first.text, pair.second.text) for pair in found]


async def without_a_model(tmp_path, *texts):
    system = await opened(tmp_path)
    for text in texts:
        told = await use(system, action="add", target="user", content=text)
    return told


async def session_that_ends(tmp_path, *answers, **changes):
    model = Model(answers)
    system = await opened(tmp_path, model=model, **changes)
    await system.before_drop(ONE_TURN, "exit")
    return model


async def test_both_facts_stay_and_wait_when_no_model_judges(tmp_path):
    told = await without_a_model(tmp_path, OLD, NEW)

    assert entries(tmp_path) == (OLD, NEW)
    assert await waiting(tmp_path) == [(OLD, NEW)]
    assert f'similar to "{OLD}"' in told
    assert "when a session ends: 1" in await memory_command(await opened(tmp_path), ["status"])


@pytest.mark.parametrize("answer", [ProviderError("down"), "perhaps"])
async def test_a_judge_that_fails_leaves_the_pair_waiting(tmp_path, answer):
    write_facts(user_file(tmp_path), OLD)
    system = await opened(tmp_path, model=Model([answer]))

    await use(system, action="add", target="user", content=NEW)

    assert await waiting(tmp_path) == [(OLD, NEW)]


async def test_one_question_settles_all_pairs_when_a_session_ends(tmp_path):
    await without_a_model(tmp_path, OLD, NEW, OTHER_OLD, OTHER_NEW)

    model = await session_that_ends(tmp_path, UPDATE)

    assert len(model.asked) == 1
    assert entries(tmp_path) == (NEW, OTHER_OLD, OTHER_NEW)
    assert await waiting(tmp_path) == []
    settled, change = History(tmp_path / "memory" / "history.jsonl").tail(2).changes
    assert (settled.kind, settled.who) == ("settle", "merge")
    assert (change.kind, change.who, change.before) == ("supersede", "merge", (OLD, NEW))


async def test_undoing_a_merge_of_a_pair_brings_back_both(tmp_path):
    await without_a_model(tmp_path, OLD, NEW)
    await session_that_ends(tmp_path, SAME)
    system = await opened(tmp_path)

    (change,) = History(tmp_path / "memory" / "history.jsonl").tail(1).changes
    await system.undo_change(change)

    assert entries(tmp_path) == (OLD, NEW)


@pytest.mark.parametrize("answer", ["no idea", ProviderError("down"), ""])
async def test_an_unanswered_pair_waits_for_the_next_session(tmp_path, answer):
    await without_a_model(tmp_path, OLD, NEW)

    await session_that_ends(tmp_path, answer)
    assert await waiting(tmp_path) == [(OLD, NEW)]
    await session_that_ends(tmp_path, UPDATE)

    assert await waiting(tmp_path) == []
    assert entries(tmp_path) == (NEW,)


async def test_a_reading_or_modelless_session_leaves_pairs_alone(tmp_path):
    await without_a_model(tmp_path, OLD, NEW)

    await (await opened(tmp_path)).before_drop(ONE_TURN, "exit")
    model = await session_that_ends(tmp_path, SAME, read_only=True)

    assert model.asked == []
    assert await waiting(tmp_path) == [(OLD, NEW)]


async def test_a_full_window_is_no_end(tmp_path):
    await without_a_model(tmp_path, OLD, NEW)
    model = Model([SAME])

    await (await opened(tmp_path, model=model)).before_drop(ONE_TURN, "window")

    assert model.asked == []


async def test_pairs_of_another_project_wait_for_a_session_there(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    system = await opened(tmp_path, project_root=there, cwd=there)
    for text in (OLD, NEW):
        await use(system, action="add", target="env", content=text)

    assert (await session_that_ends(tmp_path, SAME, project_root=here, cwd=here)).asked == []
    assert await waiting(tmp_path, project_root=there, cwd=there) == [(OLD, NEW)]
    await session_that_ends(tmp_path, SAME, project_root=there, cwd=there)
    assert await waiting(tmp_path, project_root=there, cwd=there) == []


async def test_a_pair_missing_a_text_is_forgotten_unasked(tmp_path):
    await without_a_model(tmp_path, OLD, NEW)
    write_facts(user_file(tmp_path), NEW)

    model = await session_that_ends(tmp_path, SAME)

    assert model.asked == []
    assert await waiting(tmp_path) == []
    assert entries(tmp_path) == (NEW,)


async def test_texts_that_change_while_the_model_thinks_are_left_alone(tmp_path):
    await without_a_model(tmp_path, OLD, NEW)

    async def edits(system, prompt, max_output_tokens):
        write_facts(user_file(tmp_path), OLD, "edited by hand")
        return SAME

    await (await opened(tmp_path, model=edits)).before_drop(ONE_TURN, "exit")

    assert entries(tmp_path) == (OLD, "edited by hand")


async def test_the_question_about_the_session_settles_pairs_too(tmp_path):
    await without_a_model(tmp_path, OLD, NEW)
    model = Model([UPDATE])
    config = settings(min_turns_for_extraction=1)
    system = await opened(tmp_path, model=model, config=config)

    drop = await system.before_drop(ONE_TURN, "exit")

    assert drop.done
    assert len(model.asked) == 1
    assert entries(tmp_path) == (NEW,)


async def test_a_contradiction_that_the_model_names_waits_for_the_person(tmp_path):
    await without_a_model(tmp_path, OLD, NEW)

    await session_that_ends(tmp_path, judged((2, "contradicts", 1)))

    assert entries(tmp_path) == (OLD, NEW)
    assert [pair.contradict for pair in (await opened(tmp_path)).writer.pairs()] == [True]


async def test_lines_that_no_words_connect_are_judged_as_well(tmp_path):
    write_facts(user_file(tmp_path), "Answers in Swedish", "Deploys on Mondays", "Reply in Finnish")
    config = settings(min_turns_for_extraction=1)
    model = Model([judged((3, "changes", 1))])

    await (await opened(tmp_path, model=model, config=config)).before_drop(ONE_TURN, "exit")

    assert entries(tmp_path) == ("Reply in Finnish", "Deploys on Mondays")


async def test_the_history_says_which_of_two_lines_is_newer(tmp_path):
    system = await opened(tmp_path)
    for text in ("Replies in Danish", "Deploys on Mondays", "Answers in Swedish"):
        await use(system, action="add", target="user", content=text)
    await system.recall(turn(1, "Reply in Finnish"))
    new = {"old_text": "Replies in Danish", "content": "Reply in Finnish"}
    await use(system, action="replace", target="user", **new)
    config = settings(min_turns_for_extraction=1)
    model = Model([judged((3, "changes", 1))])

    await (await opened(tmp_path, model=model, config=config)).before_drop(ONE_TURN, "exit")

    assert set(entries(tmp_path)) == {"Reply in Finnish", "Deploys on Mondays"}


async def test_outside_text_in_a_session_judges_no_line(tmp_path):
    await without_a_model(tmp_path, OLD, NEW)
    config = settings(min_turns_for_extraction=1)
    system = await opened(tmp_path, model=Model([UPDATE]), config=config, tainted=lambda: True)

    await system.before_drop(ONE_TURN, "exit")

    assert entries(tmp_path) == (OLD, NEW)
    assert await waiting(tmp_path) == [(OLD, NEW)]


async def test_two_sessions_that_end_together_settle_a_pair_once(tmp_path):
    await without_a_model(tmp_path, OLD, NEW)

    ends = (session_that_ends(tmp_path, UPDATE, session_id=id) for id in (SESSION, OTHER_SESSION))
    await asyncio.gather(*ends)

    assert entries(tmp_path) == (NEW,)
    merges = [
        c
        for c in History(tmp_path / "memory" / "history.jsonl").tail(9).changes
        if c.kind == "supersede"
    ]
    assert len(merges) == 1


async def across_files(tmp_path):
    """One fact about the person, a similar one about the environment."""
    system = await opened(tmp_path)
    await use(system, action="add", target="user", content=OLD)
    told = await use(system, action="add", target="env", content=NEW)
    assert await waiting(tmp_path) == [(OLD, NEW)]
    return told


async def test_a_similar_fact_in_another_file_makes_a_pair_too(tmp_path):
    told = await across_files(tmp_path)

    assert f'similar to "{OLD}"' in told


@pytest.mark.parametrize("answer", [SAME, DISTINCT])
async def test_a_model_merges_nothing_across_files(tmp_path, answer):
    await across_files(tmp_path)

    await session_that_ends(tmp_path, answer)

    assert entries(tmp_path) == (OLD,)
    assert parse(env_file(tmp_path).read_text()) == (NEW,)
    assert await waiting(tmp_path) == []


async def test_a_contradiction_across_files_waits_for_the_person(tmp_path):
    await across_files(tmp_path)
    events = []

    await session_that_ends(tmp_path, UPDATE, emit=events.append)

    assert entries(tmp_path) == (OLD,)
    assert parse(env_file(tmp_path).read_text()) == (NEW,)
    (pair,) = (await opened(tmp_path)).writer.pairs()
    assert pair.contradict
    assert (pair.first.entry.target, pair.second.entry.target) == ("facts/env.md", "facts/user.md")
    assert "`kode memory review`" in notices(events)[0]
    assert (await session_that_ends(tmp_path, SAME)).asked == []


async def test_a_replaced_text_hands_over_its_pair_across_files(tmp_path):
    await across_files(tmp_path)
    system = await opened(tmp_path)
    newer = "Lint with ruff check src tests"

    await use(system, action="replace", target="env", old_text=NEW, content=newer)

    assert (OLD, newer) in await waiting(tmp_path)


async def test_a_dispute_survives_restating_a_side_and_its_undo(tmp_path):
    nine, seven, six = (f"The API listens on port {n}" for n in (9090, 7000, 6543))
    system = await opened(tmp_path)
    await memory_command(system, ["add", "user", nine])
    await system.recall(turn(1, "look around"))
    await use(system, action="replace", target="user", old_text=nine, content=seven)
    await memory_command(system, ["replace", "user", nine, six])

    (pair,) = review.pairs(system)
    assert (pair.first.text, pair.second.text, pair.contradict) == (seven, six, False)
    shown = (await system.inject("start")).system
    assert [UNJUDGED + text in shown for text in (seven, six)] == [True, True]
    await memory_command(system, ["undo"])

    (pair,) = review.pairs(system)
    assert (pair.first.text, pair.second.text, pair.contradict) == (nine, seven, True)
    assert DISPUTED + seven in (await system.inject("start")).system


async def test_deciding_is_undone_like_any_change(tmp_path):
    await without_a_model(tmp_path, OLD, NEW)
    system = await opened(tmp_path)
    for choice in ("both", "second"):
        (pair,) = review.pairs(system)
        await review.settle_pair(system, pair, choice)
        assert review.pairs(system) == []
        await memory_command(system, ["undo"])

    assert len(review.pairs(system)) == 1
    assert entries(tmp_path) == (OLD, NEW)


async def test_facts_that_nobody_compared_are_both_marked_and_dated(tmp_path):
    await without_a_model(tmp_path, OLD, NEW)
    system = await opened(tmp_path)

    shown = (await system.inject("start")).system

    day = system.history.tail(1).changes[0].at[:10]
    assert [f"{UNJUDGED}{text} (said {day})" in shown for text in (OLD, NEW)] == [True, True]


async def test_a_restated_fact_carries_its_day(tmp_path):
    system = await opened(tmp_path)
    await memory_command(system, ["add", "user", OLD])
    assert f"{OLD} (said" not in (await system.inject("start")).system
    await memory_command(system, ["replace", "user", OLD, NEW])

    day = system.history.tail(1).changes[0].at[:10]
    assert f"{NEW} (said {day})" in (await system.inject("start")).system
