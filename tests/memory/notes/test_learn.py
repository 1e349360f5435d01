"""The one question at the end of a session: what it shows, what its answer does to the notes."""

import json

import pytest

from kode.memory import judged, question, review
from kode.memory.change import Author
from kode.memory.ledger import PAIRS
from kode.messages import Message, ToolResult
from tests.memory.life import OTHER_SESSION, Model, lived, turn
from tests.memory.notes.life import Clock, active, contents, keep, opened, use

OLD, NEW = "The port of billing is 4100", "The port of billing is 4200"


def answer(*, facts=(), lines=(), narrative="Worked on billing."):
    return json.dumps({"narrative": narrative, "facts": list(facts), "lines": list(lines)})


def fact(text, words, **values):
    return {"fact": text, "words": words, "about": "project", "how": "new", **values}


def says(how, line=2, of=1):
    return answer(lines=[{"line": line, "how": how, "of": of}])


async def ended(system, *asked, turns=3):
    """A session in which this was said, to its end."""
    texts = [*asked, *("and on" for _ in range(turns - len(asked)))]
    for number, text in enumerate(texts, 1):
        await system.recall(turn(number, text))
        await system.after_turn(turn(number, text))
    await system.before_drop(lived(*texts), "exit")
    await system.close(1)


async def two_notes(root, reply, *, said=NEW, **fields):
    """A session in which a second note was kept beside the first, as the model answers for it."""
    clock, model = Clock(), Model([reply])
    first = await opened(root, clock=clock)
    await keep(first, OLD, who="user", **fields)
    await first.close(1)
    clock.pass_(hours=1)
    system = await opened(root, clock=clock, model=model, session_id=OTHER_SESSION)
    await system.recall(turn(1, said))
    await use(system, "remember", content=NEW)
    await ended(system, said)
    return system, model


async def test_a_line_that_changes_an_older_one_ends_it(tmp_path):
    system, model = await two_notes(tmp_path, says("changes"))

    assert contents(active(system, "log")) == [NEW]
    assert len(model.asked) == 1
    (old,) = (note for note in system.store.everything() if note.content == OLD)
    assert system.store.find(old.superseded_by).content == NEW


async def test_an_older_line_of_higher_rank_stays_and_is_disputed(tmp_path):
    system, _ = await two_notes(tmp_path, says("changes"), said="read the code of the service")

    assert set(contents(active(system, "log"))) == {OLD, NEW}
    (pair,) = review.pairs(system)
    assert (pair.first.text, pair.second.text, pair.contradict) == (OLD, NEW, True)
    marks = {note.content: system.marked([note])[0].content for note in active(system, "log")}
    assert [text in marks[NEW] for text in ("not settled", "said 2")] == [True, True]
    assert "not settled" not in marks[OLD]


async def test_lines_that_contradict_stay_both_until_a_person_decides(tmp_path):
    system, _ = await two_notes(tmp_path, says("contradicts"))

    assert set(contents(active(system, "log"))) == {OLD, NEW}
    (pair,) = review.pairs(system)
    await review.settle_pair(system, pair, "first")
    assert contents(active(system, "log")) == [pair.first.text]
    assert review.pairs(system) == []


async def test_a_line_that_repeats_another_is_merged_with_it(tmp_path):
    system, _ = await two_notes(tmp_path, says("repeats"))

    assert contents(active(system, "log")) == [NEW]
    assert review.pairs(system) == []


@pytest.mark.parametrize("fields", [{"in_project": True}, {"stability": "permanent"}])
async def test_notes_of_other_scopes_and_permanent_ones_stay(tmp_path, fields):
    system, _ = await two_notes(tmp_path, says("changes"), **fields)

    assert set(contents(active(system, "log"))) == {OLD, NEW}
    assert len(review.pairs(system)) == 1


async def test_an_undone_choice_leaves_both_in_dispute(tmp_path):
    system, _ = await two_notes(tmp_path, says("changes"))
    change = next(c for c in system.history.tail(9).changes if c.kind == "supersede")

    await system.undo_change(change)

    assert set(contents(active(system, "log"))) == {OLD, NEW}
    assert [pair.contradict for pair in review.pairs(system)] == [True]


async def test_a_fact_the_person_stated_is_kept_in_their_words(tmp_path):
    model = Model([answer(facts=[fact(NEW, "billing is on 4200 now"), fact("Uses tox", "tox")])])
    system = await opened(tmp_path, model=model)

    await ended(system, "Billing is on 4200 now, please.")

    (note,) = active(system, "log")
    (change,) = (c for c in system.history.tail(9).changes if c.target == f"notes/{note.id}")
    assert (note.content, note.who) == (NEW, "extraction")
    assert change.words == "billing is on 4200 now"


async def test_a_stated_fact_replaces_the_one_it_changes(tmp_path):
    model = Model([answer(facts=[fact(NEW, "the port of billing is 4200", how="changes", line=1)])])
    first = await opened(tmp_path)
    await keep(first, OLD, who="user", tags=("ops",))
    system = await opened(tmp_path, model=model, session_id=OTHER_SESSION)

    await ended(system, "the port of billing is 4200")

    (note,) = active(system, "log")
    assert (note.content, note.tags) == (NEW, ("ops",))


@pytest.mark.parametrize("is_forgotten", [False, True])
async def test_facts_of_a_sensitive_session_are_sensitive(tmp_path, is_forgotten):
    system = await opened(tmp_path, model=Model([answer(facts=[fact("Earns 91k", "I earn 91k")])]))
    await system.recall(turn(1, "I earn 91k"))
    await use(system, "remember", content="salary 91k", sensitivity="sensitive")
    if is_forgotten:
        await use(system, "forget", id=active(system)[0].id)

    await ended(system, "I earn 91k")

    assert {note.sensitivity for note in active(system)} == {"sensitive"}


async def test_outside_text_ends_no_note_and_its_facts_wait(tmp_path):
    reply = json.loads(says("changes")) | {"facts": [fact("Uses tox", "we use tox")]}
    first = await opened(tmp_path)
    await keep(first, OLD, NEW)
    model = Model([json.dumps(reply)])
    system = await opened(tmp_path, model=model, tainted=lambda: True, session_id=OTHER_SESSION)

    await ended(system, "we use tox")

    assert {OLD, NEW} < set(contents(active(system, "log")))
    assert {note.content for note in active(system) if note.untrusted == "waits"} == {
        "Uses tox",
        "Worked on billing.",
    }


@pytest.mark.parametrize(("known", "asked"), [(OLD, 1), ("Deploys happen on fridays", 0)])
async def test_a_short_session_asks_only_about_notes_near_others(tmp_path, known, asked):
    clock, model = Clock(), Model([says("changes")])
    first = await opened(tmp_path, clock=clock)
    await keep(first, known, who="user")
    clock.pass_(hours=1)
    system = await opened(tmp_path, clock=clock, model=model, session_id=OTHER_SESSION)
    await system.recall(turn(1, NEW))
    await use(system, "remember", content=NEW)

    await ended(system, NEW, turns=1)

    assert len(model.asked) == asked
    assert contents(active(system, "log")) == [NEW, *[known][asked:]]
    assert active(system, "summary") == []


async def test_many_notes_are_shown_by_nearness_within_the_limit(tmp_path):
    model = Model([answer()])
    first = await opened(tmp_path)
    await keep(first, OLD, *(f"Topic {n}: {'word ' * 30}" for n in range(60)))
    first.history.record(Author(who="merge"), "notes", judged.NEAR, PAIRS)
    system = await opened(tmp_path, model=model, session_id=OTHER_SESSION)

    await ended(system, "billing listens on another port now")

    ((_, prompt),) = model.asked
    known = prompt.partition("The transcript")[0]
    assert OLD in known
    assert len(known) < question.KNOWN_CHARS + 500


async def test_a_result_of_memorys_own_tools_is_no_news(tmp_path):
    model = Model([answer()])
    system = await opened(tmp_path, model=model)
    for number in (1, 2, 3):
        await system.after_turn(turn(number, "and on"))
    result = ToolResult(call_id="1", name="recall", text=f"[1a21] {OLD}")

    await system.before_drop(
        (*lived(*["and on"] * 3), Message(role="user", parts=(result,))), "exit"
    )

    ((_, prompt),) = model.asked
    assert OLD not in prompt


async def test_a_long_summary_is_cut_before_its_mark(tmp_path):
    system = await opened(tmp_path)
    (note,) = await keep(system, OLD)
    await keep(system, "worked on many things " * 50, kind="summary", job_id="x")
    await system.writer.forget(note.id)
    later = await opened(tmp_path, session_id=OTHER_SESSION)

    shown = (await later.inject("start")).system

    assert f'"{OLD}" was withdrawn' in shown
    assert len(shown) < 1_500
