"""Facts of the vault that may contradict each other."""

import json

import pytest

from kode.errors import ProviderError
from kode.memory import question, review
from kode.memory.base import Addition
from kode.memory.review import items_of
from kode.memory.undo import Following, undo
from kode.memory.withdrawn import unsettled
from kode.messages import text_of
from tests.memory.life import OTHER_SESSION, turn
from tests.memory.replies import Replies, says
from tests.memory.vault.life import opened, use

OLD, NEW = "The API server listens on port 8080", "The API server listens on port 9090"
FILE = "facts/project.md"


def verdict(*lines):
    said = [{"line": line, "how": how, "of": of} for line, how, of in lines]
    return says(json.dumps({"lines": said}))


async def ended(tmp_path, answer, *texts, **changes):
    """A vault with both facts, after the end of a session."""
    model = Replies([answer])
    system = await opened(tmp_path, ask_reply=model, **changes)
    for text in texts or (OLD, NEW):
        await system.add(Addition(target="project", text=text))
    await end(system)
    return system, model


async def end(system):
    await system.after_turn(turn(1, "thanks"))
    await system.before_drop([], "exit")
    await system.close(60)


def marked(system):
    open_ = unsettled(system.ledger, system.project)
    return {key.rpartition(" ")[2] for (_, key), why in open_.items() if "this" in why}


async def test_one_call_reflects_and_judges(tmp_path):
    system, model = await ended(tmp_path, verdict((2, "changes", 1)))

    (request,) = model.requests
    assert f"1. - {OLD}\n2. - {NEW}" in text_of(request.messages[0])
    assert question.RULES in request.system
    assert marked(system) == {"8080"}


async def test_a_contradiction_waits_for_the_person(tmp_path):
    system, _ = await ended(tmp_path, verdict((2, "contradicts", 1)))

    (item,) = [one for one in await items_of(system) if one.why == "conflict"]
    assert item.pair.contradict
    assert [one.text[-4:] for one in (item.pair.first, item.pair.second)] == ["9090", "8080"]


@pytest.mark.parametrize("lines", [(), ((2, "repeats", 1),)])
async def test_facts_that_may_stand_together_are_not_marked(tmp_path, lines):
    system, _ = await ended(tmp_path, verdict(*lines))

    assert not system.ledger.disputes()


@pytest.mark.parametrize("answer", [says("nothing"), says('{"lines": [{"line'), ProviderError("x")])
async def test_facts_that_nobody_judged_are_both_marked(tmp_path, answer):
    system, _ = await ended(tmp_path, answer)

    assert marked(system) == {"8080", "9090"}


@pytest.mark.parametrize("lines", [(), ((2, "changes", 1),)])
async def test_a_judged_pair_is_not_recorded_again(tmp_path, lines):
    system, _ = await ended(tmp_path, verdict(*lines))
    before = len(system.history.lines())

    again = await opened(tmp_path, ask_reply=Replies([verdict((2, "changes", 1))]))
    await end(again)

    assert len(again.history.lines()) == before
    assert marked(again) == ({"8080"} if lines else set())


async def test_a_pair_that_waited_is_judged_in_the_next_session(tmp_path):
    await ended(tmp_path, ProviderError("gone"))

    again = await opened(
        tmp_path, ask_reply=Replies([verdict((2, "changes", 1))]), session_id=OTHER_SESSION
    )
    await end(again)

    assert marked(again) == {"8080"}


async def test_keeping_both_settles_a_pair(tmp_path):
    system, _ = await ended(tmp_path, verdict((2, "contradicts", 1)))

    await review.settle_pair(system, review.pairs(system)[0], "both")

    assert not review.pairs(system)


async def test_a_verdict_can_be_undone(tmp_path):
    system, _ = await ended(tmp_path, verdict((2, "changes", 1)))
    line = system.history.lines()[-1]

    await undo(system, line.id, Following(describe=str))

    assert marked(system) == {"8080", "9090"}


async def test_a_mark_stands_on_a_line_of_its_own(tmp_path):
    system, _ = await ended(tmp_path, verdict((2, "changes", 1)))

    shown = await use(system, "memory_read", path=FILE)

    (line,) = [line for line in shown.split("\n") if "not settled" in line]
    assert "8080" in line
    assert "9090" not in line


async def test_a_search_marks_facts_that_are_not_settled(tmp_path):
    system, _ = await ended(tmp_path, verdict((2, "contradicts", 1)))

    shown = "\n".join(hit.text for hit in await system.search("API server port 8080", 5))
    assert "not settled" in shown


async def test_a_task_with_approved_outside_text_judges_no_facts(tmp_path):
    system, model = await ended(tmp_path, verdict((2, "changes", 1)), tainted=lambda: True)
    (proposal,) = review.proposals(system.history)

    assert not model.requests
    await system.accept(proposal)
    again = await opened(tmp_path, ask_reply=model, session_id=OTHER_SESSION)
    await again.maintain()
    await again.close(60)

    assert OLD not in text_of(model.requests[0].messages[0])
    assert marked(again) == {"8080", "9090"}


async def test_each_line_of_a_rewritten_file_names_its_successor(tmp_path):
    system = await opened(tmp_path)
    for ports in (range(8000, 8009), range(9000, 9009)):
        text = "\n".join(f"- Service {n}: listens on port {port}" for n, port in enumerate(ports))
        await use(system, "memory_read", path=FILE) if ports[0] == 9000 else None
        await use(system, "memory_write", path=FILE, content=text)

    shown = system.since_then("We saw that Service 3: listens on port 8003")

    assert shown.endswith('superseded by "Service 3: listens on port 9003"')
