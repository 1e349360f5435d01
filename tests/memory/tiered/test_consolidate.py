"""What `consolidate` makes of a model's answer: which entries repeat or outdate others."""

import json
from datetime import timedelta

import pytest

from kode.errors import ProviderError, ToolError
from kode.memory import review
from kode.memory.tiered.facts import parse
from tests.memory.life import NOON, Model, opened, settings, use, user_file, write_facts

KNOWN = ("Tests run with pytest", "Port 80", "Run the tests with pytest -q", "Never push to main")


def said(*relations):
    lines = [{"line": line, "how": how, "of": of} for line, how, of in relations]
    return json.dumps({"narrative": "", "facts": [], "lines": lines})


async def consolidated(tmp_path, answer, **changes):
    write_facts(user_file(tmp_path), *KNOWN)
    model = Model([answer])
    system = await opened(tmp_path, model=model, config=settings(**changes))
    return await use(system, action="consolidate", target="user"), model


def entries(tmp_path):
    return parse(user_file(tmp_path).read_text())


async def test_entries_that_repeat_others_are_joined_as_written(tmp_path):
    told, model = await consolidated(tmp_path, said((3, "repeats", 1)))

    assert set(entries(tmp_path)) == set(KNOWN[1:])
    assert "4 entries → 3" in told
    assert len(model.asked) == 1


async def test_the_joined_entries_come_back_by_an_undo(tmp_path):
    await consolidated(tmp_path, said((3, "repeats", 1)))
    system = await opened(tmp_path)

    (change,) = system.history.tail(1).changes
    assert (change.who, change.before) == ("consolidation", (KNOWN[0], KNOWN[2]))
    await system.undo_change(change)

    assert set(entries(tmp_path)) == set(KNOWN)


async def test_a_contradiction_waits_for_the_person(tmp_path):
    await consolidated(tmp_path, said((3, "contradicts", 1)))

    assert entries(tmp_path) == KNOWN
    assert [pair.contradict for pair in review.pairs(await opened(tmp_path))] == [True]


async def test_one_entry_is_nothing_to_consolidate(tmp_path):
    write_facts(user_file(tmp_path), "alone")
    model = Model()
    system = await opened(tmp_path, model=model)

    assert "othing to consolidate" in await use(system, action="consolidate", target="user")
    assert model.asked == []


@pytest.mark.parametrize("answer", ["I cannot do that", "[]", ProviderError("the server is down")])
async def test_anything_else_is_refused_and_the_file_stays(tmp_path, answer):
    with pytest.raises(ToolError):
        await consolidated(tmp_path, answer)

    assert entries(tmp_path) == KNOWN


async def test_an_answer_that_names_no_pair_changes_nothing(tmp_path):
    await consolidated(tmp_path, said())

    assert entries(tmp_path) == KNOWN


async def test_consolidating_can_be_turned_off(tmp_path):
    with pytest.raises(ToolError, match="llm_consolidate"):
        await consolidated(tmp_path, said(), llm_consolidate=False)


async def test_entries_changed_while_the_model_worked_are_left_alone(tmp_path):
    write_facts(user_file(tmp_path), *KNOWN)

    async def edits(system, prompt, max_output_tokens):
        write_facts(user_file(tmp_path), *KNOWN[1:])
        return said((3, "repeats", 1))

    system = await opened(tmp_path, model=edits)
    await use(system, action="consolidate", target="user")

    assert entries(tmp_path) == KNOWN[1:]


async def test_expired_entries_go_and_are_not_shown(tmp_path):
    model = Model([said()])
    system = await opened(tmp_path, model=model, config=settings(merge_on_write=False))
    for given in (
        {"content": "Tests run with pytest"},
        {"content": "Staging is down", "until": f"{NOON - timedelta(days=1):%Y-%m-%d}"},
        {"content": "The office is shut", "until": f"{NOON:%Y-%m-%d}"},
    ):
        await use(system, action="add", target="user", **given)

    await use(system, action="consolidate", target="user")

    assert entries(tmp_path) == ("Tests run with pytest", "The office is shut")
    assert "Staging" not in model.asked[0][1]
