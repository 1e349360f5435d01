"""What the person states waits for their approval, though no model has kept it, and is quoted in
later sessions until then."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kode import paths
from kode.config import MemoryConfig
from kode.errors import MemoryRefused
from kode.memory import open_memory
from kode.memory.commands import approve, memory_command, waiting
from kode.memory.decisions import decide, items_of
from kode.memory.proposals import Proposals
from kode.memory.stated import FOUND_BY, MAX_A_TURN, MAX_SENTENCE_CHARS, is_known, stated
from kode.messages import Message, ToolCall, ToolResult, user_message
from tests.memory.life import NOON, memory_context, turn

SYSTEMS = ("tiered", "vault", "journal", "notes")
SAID = "Always run `make lint` before you commit."


async def opened(root, name="tiered", **changes):
    memory = open_memory(MemoryConfig(system=name))
    await memory.open(memory_context(root, **changes), {})
    return memory


def proposed(root):
    return [one.text for one in Proposals(root / "memory").all()]


@pytest.mark.parametrize("name", SYSTEMS)
async def test_in_every_system_it_waits_and_counts_once_approved(tmp_path, name):
    events = []
    memory = await opened(tmp_path, name, emit=events.append)

    await memory.after_turn(turn(1, f"Fix the parser. {SAID}"))

    (found,) = [one for one in await waiting(memory.system) if SAID in one.text]
    (line,) = [event.text for event in events if event.type == "memory_changed"]
    assert SAID in line
    assert not any("make lint" in entry.text for entry in memory.system.entries())
    assert found.id in await memory_command(memory.system, ["review"])
    await approve(memory.system, found.id)
    assert proposed(tmp_path) == []
    assert any("make lint" in entry.text for entry in memory.system.entries())


async def test_untyped_text_waits_but_is_never_quoted(tmp_path):
    memory = await opened(tmp_path, typed=lambda sentence: "make lint" not in sentence)
    await memory.after_turn(turn(1, f"{SAID} We use tabs of width 3 here."))

    own = {one.text: one.own for one in Proposals(tmp_path / "memory").all()}
    assert own == {SAID: False, "We use tabs of width 3 here.": True}
    later = await opened(tmp_path)
    assert "make lint" not in await later.recall(turn(1, "Run make lint and commit."))
    assert "tabs of width 3" in await later.recall(turn(2, "Which width of tabs do we use here?"))


async def test_an_agents_many_proposals_do_not_block_the_person(tmp_path, monkeypatch):
    monkeypatch.setattr("kode.memory.proposals.MAX_WAITING", 1)
    proposals = Proposals(tmp_path / "memory")
    await proposals.propose(
        "Deploys go out on Fridays", "project", client="bot", project=tmp_path, now=NOON
    )
    with pytest.raises(MemoryRefused):
        await proposals.propose(
            "Tests are slow here", "project", client="bot", project=tmp_path, now=NOON
        )

    memory = await opened(tmp_path)
    await memory.after_turn(turn(1, SAID))

    assert SAID in proposed(tmp_path)


async def test_the_project_is_looked_for_once_however_many_proposals_wait(tmp_path, monkeypatch):
    proposals = Proposals(tmp_path / "memory")
    for number in range(30):
        text = f"Deploy {number} was on a Friday"
        await proposals.propose(text, "project", client="bot", project=tmp_path, now=NOON)
    memory = await opened(tmp_path)
    looked, find = [], paths.project_root
    monkeypatch.setattr(paths, "project_root", lambda start: looked.append(start) or find(start))

    await memory.after_turn(turn(1, SAID))

    assert 0 < len(looked) < 30


@pytest.mark.parametrize("name", SYSTEMS)
async def test_it_waits_once_however_often_it_is_said(tmp_path, name):
    memory = await opened(tmp_path, name)

    await memory.after_turn(turn(1, SAID))
    await memory.after_turn(turn(2, SAID))
    await memory.after_turn(turn(3, "always run make lint before committing"))

    assert proposed(tmp_path) == [SAID]


async def test_a_wish_that_notes_kept_does_not_wait(tmp_path):
    memory = await opened(tmp_path, "notes")
    said = "Remember that the staging database is called heron."

    await memory.recall(turn(1, said))
    await memory.after_turn(turn(1, said))

    assert proposed(tmp_path) == []


async def test_nothing_waits_where_memory_is_off_or_only_read(tmp_path):
    off = open_memory(MemoryConfig(enabled=False))
    await off.open(memory_context(tmp_path), {})
    reading = await opened(tmp_path, read_only=True)

    for memory in (off, reading):
        await memory.after_turn(turn(1, SAID))

    assert proposed(tmp_path) == []


async def test_a_credential_does_not_wait(tmp_path):
    memory = await opened(tmp_path)

    await memory.after_turn(turn(1, "Always use the key sk-aB3dE5gH7jK9mN1pQ3rS5tU7vW9xY1zA."))

    assert proposed(tmp_path) == []


async def test_an_agent_that_is_a_client_cannot_undo_it(tmp_path):
    memory = await opened(tmp_path)

    await memory.after_turn(turn(1, SAID))

    assert [change.who for change in memory.system.history.tail(1).changes] == ["extraction"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("I always deploy with `make ship`, keep that in mind.", 1),
        ("We use tabs of width 3 here. Fix the linter.", 1),
        ("never push to main\nand fix the tests", 1),
        ("Please remember: the tests run with nox.", 1),
        ("Do you always use tabs in here?", 0),
        ("Never mind.", 0),
        ("Fix the parser, then run the tests.", 0),
        ("Why is this?\n```\nalways = never  # we use it in here\n```\n", 0),
        ("> we use tabs in all of it\nIs that so?", 0),
        ("always " + "x " * MAX_SENTENCE_CHARS, 0),
        ("Always do this one thing. " * 400, 0),
        ("Always do a b. Always do c d. Always do e f. Always do g h.", MAX_A_TURN),
    ],
)
def test_only_lasting_statements_are_found(text, found):
    assert len(stated(text)) == found


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("Remember for later: the tests run with nox in CI.", "the tests run with nox in CI."),
        ("It moved, remember the new one: the port is 8080 now.", "the port is 8080 now."),
        ("Merk dir bitte: Die Tests laufen mit nox.", "Die Tests laufen mit nox."),
        ("请记住：测试用 nox 运行。", "测试用 nox 运行。"),
        ("Remember the port: 8080.", "Remember the port: 8080."),
        (
            "Always do this first: remember to run nox.",
            "Always do this first: remember to run nox.",
        ),
        ("We always use UTC: the logs need it here.", "We always use UTC: the logs need it here."),
    ],
)
def test_the_fact_is_remembered_without_the_request(text, fact):
    assert stated(text) == [fact]


@given(st.text())
def test_a_found_sentence_stands_in_its_text_and_is_known(text):
    said = f"{text}\n{SAID}"
    for sentence in stated(said):
        assert " ".join(sentence.split()) in " ".join(said.split())
        assert is_known(sentence, [said])


async def test_another_agents_session_holds_none_of_the_persons_own_words(tmp_path):
    memory = await opened(tmp_path, tainted=lambda: True)

    await memory.after_turn(turn(1, SAID))

    (proposal,) = Proposals(tmp_path / "memory").all()
    assert not proposal.own
    (found,) = await waiting(memory.system)
    assert "by kode, from a message" in found.line


QUEUE = "Remember that the queue of the mail gateway is brafin."
ASKED = "What is the queue of the mail gateway?"


# Notes keep what they are asked to remember.
@pytest.mark.parametrize("name", ["tiered", "vault", "journal"])
async def test_a_later_session_quotes_a_waiting_statement_that_fits(tmp_path, name):
    first = await opened(tmp_path, name)
    await first.after_turn(turn(1, f"{QUEUE} {SAID}"))
    later = await opened(tmp_path, name)

    assert "brafin" not in await later.recall(turn(1, "Rename the parser."))
    quoted = await later.recall(turn(2, ASKED))

    assert f"- 2026-03-01: {QUEUE}" in quoted
    assert "make lint" not in quoted
    assert "brafin" not in await later.recall(turn(3, ASKED))


@pytest.mark.parametrize("reason", ["compacted", "trimmed"])
async def test_a_session_quotes_itself_only_after_messages_were_dropped(tmp_path, reason):
    memory = await opened(tmp_path)
    await memory.after_turn(turn(1, QUEUE))

    assert await memory.recall(turn(2, ASKED)) == ""
    await memory.inject(reason)
    assert QUEUE in await memory.recall(turn(3, ASKED))


@pytest.mark.parametrize("choice", ["approve", "drop"])
async def test_nothing_is_quoted_once_the_person_has_decided(tmp_path, choice):
    memory = await opened(tmp_path)
    await memory.after_turn(turn(1, QUEUE))
    (item,) = await items_of(memory.system)
    await decide(memory.system, item.id, choice)

    assert "earlier sessions" not in await (await opened(tmp_path)).recall(turn(1, ASKED))


async def test_the_newer_of_two_on_one_thing_is_quoted(tmp_path):
    memory = await opened(tmp_path)
    await memory.after_turn(turn(1, QUEUE))
    later = await opened(tmp_path, now=lambda: NOON + timedelta(days=1))
    root = tmp_path / "memory"
    changed = QUEUE.replace("brafin", "venlimpa")
    await Proposals(root).propose(
        changed,
        "project",
        client=FOUND_BY,
        project=tmp_path,
        now=NOON + timedelta(hours=1),
        own=True,
    )

    quoted = await later.recall(turn(1, ASKED))

    assert changed in quoted
    assert "brafin" not in quoted


@pytest.mark.parametrize(
    "other",
    [
        QUEUE.replace("mail", "chat"),
        QUEUE.replace("brafin", "zokes"),
        QUEUE.replace("is", "is not"),
    ],
)
async def test_another_fact_in_much_the_same_words_waits_too(tmp_path, other):
    memory = await opened(tmp_path)
    await memory.after_turn(turn(1, QUEUE))

    await memory.after_turn(turn(2, other))

    assert set(proposed(tmp_path)) == {QUEUE, other}


async def test_a_statement_the_model_kept_itself_does_not_wait(tmp_path):
    memory = await opened(tmp_path)
    arguments = json.dumps({"action": "add", "content": "mail gateway: queue brafin"})
    for call_error in (False, True):
        call = ToolCall(id="c", name="memory", arguments=arguments)
        result = ToolResult(call_id="c", name="memory", text="", is_error=call_error)
        messages = (
            user_message(QUEUE),
            Message(role="assistant", parts=(call,), stop="tool_calls"),
            Message(role="tool", parts=(result,)),
        )
        await memory.after_turn(replace(turn(1, QUEUE), messages=messages))
        assert proposed(tmp_path) == ([QUEUE] if call_error else [])


async def test_a_task_asking_to_remember_waits_no_longer_once_kept(tmp_path):
    said = "Find out why and fix it; remember how to run this project's tests."
    fact = "Run the project's tests with `python -m pytest -q`."
    call = ToolCall(id="c", name="memory", arguments=json.dumps({"content": fact}))
    messages = (
        user_message(said),
        Message(role="assistant", parts=(call,), stop="tool_calls"),
        Message(role="tool", parts=(ToolResult(call_id="c", name="memory", text=""),)),
    )
    memory = await opened(tmp_path)

    await memory.after_turn(replace(turn(1, said), messages=messages))

    assert proposed(tmp_path) == []


async def test_a_quotation_never_contradicts_memory_or_the_message(tmp_path):
    memory = await opened(tmp_path)
    await memory.after_turn(turn(1, QUEUE))
    said = await (await opened(tmp_path)).recall(turn(1, QUEUE.replace("brafin", "zokes")))
    await memory_command(memory.system, ["add", "env", "The queue of the mail gateway is zokes."])
    kept = await (await opened(tmp_path)).recall(turn(1, ASKED))

    assert "brafin" not in said + kept


async def test_nothing_of_other_agents_or_other_projects_is_quoted(tmp_path):
    memory = await opened(tmp_path, tainted=lambda: True)
    await memory.after_turn(turn(1, QUEUE))
    elsewhere = await opened(tmp_path, cwd=tmp_path / "b", project_root=tmp_path / "b")
    await elsewhere.after_turn(turn(1, QUEUE.replace("mail", "chat")))

    assert len(proposed(tmp_path)) == 2
    assert await (await opened(tmp_path)).recall(turn(1, ASKED)) == ""
