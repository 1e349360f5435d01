"""Facts that contradict each other, in the systems whose writing does not compare them."""

import json

import pytest

from kode.memory import open_memory, question
from kode.memory.base import Addition
from kode.memory.guarded import kept_in
from kode.memory.review import items_of
from kode.memory.undo import Following, undo
from kode.messages import Message, Text
from tests.memory.life import memory_context, settings

OLD, NEW = "The API server listens on port 8080", "The API server listens on port 9090"
TARGETS = {"vault": "project"}


def judge(how):
    """A model that says what the second of two known lines does to the first."""

    async def reply(request):
        said = request.system == question.INSTRUCTIONS
        answer = {"narrative": "", "facts": [], "lines": [{"line": 2, "how": how, "of": 1}]}
        text = json.dumps(answer) if said and how else "nothing"
        return Message(role="assistant", parts=(Text(text=text),), stop="end")

    return reply


@pytest.fixture(params=list(TARGETS))
async def name(request):
    return request.param


async def ended(tmp_path, name, how):
    """An open memory with both facts, after the end of a session."""
    guarded = open_memory(settings(system=name))
    await guarded.open(memory_context(tmp_path, ask_reply=judge(how)), {})
    system = kept_in(guarded, "review")
    for text in (OLD, NEW):
        await system.add(Addition(target=TARGETS[name], text=text))
    await system.before_drop([], "exit")
    return system


async def test_a_contradiction_waits_for_the_person(tmp_path, name):
    system = await ended(tmp_path, name, "changes")

    (item,) = [one for one in await items_of(system) if one.why == "conflict"]
    assert item.pair.contradict
    assert (item.pair.first.text.endswith("9090"), item.pair.second.text.endswith("8080")) == (
        True,
        True,
    )


async def test_a_search_marks_facts_that_are_not_settled(tmp_path, name):
    system = await ended(tmp_path, name, "contradicts")

    shown = "\n".join(hit.text for hit in await system.search("API server port 8080", 5))
    assert "not settled" in shown


async def test_facts_that_may_stand_together_are_not_marked(tmp_path, name):
    system = await ended(tmp_path, name, "repeats")

    assert not system.ledger.disputes()


async def test_facts_without_a_judge_are_both_marked(tmp_path, name):
    system = await ended(tmp_path, name, "")

    assert len(system.unsettled()) == 2


async def test_keeping_both_settles_a_pair(tmp_path, name):
    system = await ended(tmp_path, name, "contradicts")

    await system.settle(system.pairs()[0], "both")

    assert not system.pairs()


async def test_the_line_of_a_comparison_can_be_undone(tmp_path, name):
    system = await ended(tmp_path, name, "contradicts")
    line = system.history.lines()[-1]

    await undo(system, line.id, Following(describe=str))

    assert not system.ledger.disputes()
