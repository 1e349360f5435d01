"""What a person decides in the review: what changes, what is undone, what waits no more."""

import pytest

from kode.errors import MemoryRefused
from kode.memory import uses
from kode.memory.commands import memory_command
from kode.memory.decisions import chain_of, decide, items_of
from kode.memory.proposals import Proposals
from kode.memory.tiered.facts import parse
from tests.memory.life import NOON, Model, lived, opened, turn, use, user_file

OLD, NEW = "the port is 80", "the port is 81"


def facts(root):
    return parse(user_file(root).read_text())


async def waiting(system):
    return [
        (one.group, tuple(entry.text for entry in one.entries)) for one in await items_of(system)
    ]


async def chosen(system, choice):
    """Decides about the first thing that waits."""
    return await decide(system, (await items_of(system))[0].id, choice)


async def a_contradiction(root):
    system = await opened(root, model=Model(["update"]))
    await memory_command(system, ["add", "user", OLD])
    await system.recall(turn(1, "look it up"))
    await use(system, action="add", target="user", content=NEW)
    return system


@pytest.mark.parametrize(
    ("choice", "kept"), [("first", (OLD,)), ("second", (NEW,)), ("both", (OLD, NEW))]
)
async def test_of_two_that_contradict_each_other_stays_what_the_person_chose(
    tmp_path, choice, kept
):
    system = await a_contradiction(tmp_path)
    assert await waiting(system) == [("contradiction", (OLD, NEW))]

    done = await chosen(system, choice)

    assert facts(tmp_path) == kept
    assert await waiting(system) == []
    change = system.history.tail(1).changes[0]
    assert (change.id, change.who, change.before, change.after) == (
        done.change_id,
        "user",
        (OLD, NEW),
        kept,
    )
    await memory_command(system, ["undo", done.change_id])
    assert facts(tmp_path) == (OLD, NEW)
    assert await waiting(system) == [("contradiction", (OLD, NEW))]


async def test_why_says_of_the_one_that_was_dropped_what_superseded_it(tmp_path):
    system = await a_contradiction(tmp_path)

    await chosen(system, "second")

    assert f'superseded by "{NEW}": settle ' in await memory_command(system, ["why", OLD])


async def test_two_that_were_both_kept_are_not_asked_about_again(tmp_path):
    system = await opened(tmp_path)
    for text in (OLD, NEW):
        await memory_command(system, ["add", "user", text])
    assert await waiting(system) == [("near", (OLD, NEW))]

    await chosen(system, "both")

    model = Model(["1: update"])
    await (await opened(tmp_path, model=model)).before_drop(lived("look around"), "exit")
    assert model.asked == []
    assert facts(tmp_path) == (OLD, NEW)


async def a_stale_fact(root, lines="port = 81"):
    (root / "app.py").write_text("port = 80")
    system = await opened(root)
    await use(system, action="add", target="user", content=OLD, source="app.py:1")
    if lines:
        (root / "app.py").write_text(lines)
    else:
        (root / "app.py").unlink()
    return system


@pytest.mark.parametrize("lines", ["port = 81", None])
async def test_what_is_still_true_rests_on_the_lines_as_they_are_now(tmp_path, lines):
    system = await a_stale_fact(tmp_path, lines)
    assert await waiting(system) == [("stale", (OLD,))]

    done = await chosen(system, "confirm")

    assert await waiting(system) == []
    assert "stale" not in (await system.inject("start")).system
    (tmp_path / "app.py").write_text("port = 82")
    assert await waiting(system) == ([("stale", (OLD,))] if lines else [])
    await memory_command(system, ["undo", done.change_id])
    assert await waiting(system) == [("stale", (OLD,))]


async def test_a_stale_fact_can_be_removed(tmp_path):
    system = await a_stale_fact(tmp_path)

    done = await chosen(system, "remove")

    assert facts(tmp_path) == ()
    await memory_command(system, ["undo", done.change_id])
    assert facts(tmp_path) == (OLD,)


async def test_what_expired_and_is_still_true_is_shown_again(tmp_path):
    system = await opened(tmp_path)
    await memory_command(system, ["add", "user", "away", "--until", "2020-03-06"])
    assert (await waiting(system))[0] == ("expired", ("away",))

    await chosen(system, "confirm")

    assert "away" in (await system.inject("start")).system


async def sessions(root, count, answer="done"):
    for _ in range(count):
        system = await opened(root)
        await system.after_turn(turn(1, answer=answer))
        await system.close(1.0)


async def test_what_no_answer_named_in_thirty_sessions_is_asked_about_once(tmp_path):
    system = await opened(tmp_path)
    await memory_command(system, ["add", "user", "likes green tea best"])
    await memory_command(system, ["add", "user", "deploys with Ansible only"])
    await sessions(tmp_path, uses.SESSIONS - 1, "it deploys with Ansible, as always")
    assert await waiting(system) == []
    await sessions(tmp_path, 2, "Well, it deploys with Ansible.")
    assert await waiting(system) == [("unused", ("likes green tea best",))]

    done = await chosen(system, "keep")

    assert await waiting(system) == []
    await sessions(tmp_path, uses.SESSIONS - 1, "it deploys with Ansible")
    assert await waiting(system) == []
    await memory_command(system, ["undo", done.change_id])
    assert await waiting(system) == [("unused", ("likes green tea best",))]


async def test_the_counts_can_be_thrown_away(tmp_path):
    system = await opened(tmp_path)
    await memory_command(system, ["add", "user", "likes green tea best"])
    await sessions(tmp_path, uses.SESSIONS + 1)
    (tmp_path / "memory" / "uses" / "uses.json").write_text("{spoiled")

    assert await waiting(system) == []
    await sessions(tmp_path, 1)
    assert facts(tmp_path) == ("likes green tea best",)


async def test_a_session_without_an_answer_counts_for_nothing(tmp_path):
    await sessions(tmp_path, 1, answer="")

    assert not (tmp_path / "memory" / "uses").exists()


async def test_a_proposal_is_approved_or_dropped_and_both_can_be_undone(tmp_path):
    system = await opened(tmp_path)
    proposals = Proposals(tmp_path / "memory")
    await proposals.propose("likes tabs", "user", client="Codex", project=tmp_path, now=NOON)
    ((group, _),) = await waiting(system)
    assert group == "approval"

    dropped = await chosen(system, "drop")
    assert await waiting(system) == []
    await memory_command(system, ["undo", dropped.change_id])
    await chosen(system, "approve")

    assert facts(tmp_path) == ("likes tabs",)


async def test_what_was_decided_meanwhile_or_is_no_choice_is_refused(tmp_path):
    system = await a_contradiction(tmp_path)
    (item,) = await items_of(system)
    with pytest.raises(MemoryRefused, match="no choice here: first, second, both"):
        await decide(system, item.id, "approve")
    await decide(system, item.id, "first")

    with pytest.raises(MemoryRefused, match="does not wait any more"):
        await decide(system, item.id, "second")
    assert "the port is 80" in chain_of(system, item)
