"""What a compaction keeps word for word, what it lists, and that it can be undone."""

import json
from dataclasses import replace
from pathlib import Path

from kode.engine.context import compact
from kode.events import no_emit
from kode.memory.contract import Drop
from kode.messages import Message, ServerItem, Text, text_of
from kode.session.entries import CompactionEntry
from kode.session.messages import EARLIER, LISTED_DROPPED, compaction_message
from kode.session.plan import Plan
from kode.tools.read_file import read_file
from kode.tools.todo import todo
from tests.engine.conftest import Bench, MakeBench, calls, says


def compactions(run: Bench) -> list[CompactionEntry]:
    return [entry for entry in run.session.entries if isinstance(entry, CompactionEntry)]


async def compacted(run: Bench) -> str:
    """What the model gets instead, after a compaction that keeps no message as it is."""
    await compact(run.agent, run.context, no_emit, Drop(keep=0))
    return str(run.session.messages[0])


async def test_words_files_and_open_items_go_through_two_compactions(bench: MakeBench) -> None:
    items = [{"text": "write it", "status": "done"}, {"text": "test it", "status": "doing"}]
    work = calls(("touch", '{"path": "made.txt"}'), ("todo", json.dumps({"items": items})))
    words = ("made", "first note", "nothing more", "second note")
    run = bench(work, *map(says, words), tools=(todo,))
    await run.turn("please make made.txt, never touch b.txt")
    await compacted(run)
    await run.turn("and then?")

    text = await compacted(run)

    entry = compactions(run)[-1]
    assert entry.user_messages == ("please make made.txt, never touch b.txt", "and then?")
    assert entry.files_changed == ("made.txt",)
    assert entry.open_items == ("test it (doing)",)
    assert "second note" in text
    assert "first note" not in text


async def test_a_plan_with_open_steps_survives_word_for_word(
    bench: MakeBench, tmp_path: Path
) -> None:
    path = tmp_path / "plan.md"
    run = bench(says("one"), says("note"), says("two"), says("note"))
    run.agent = replace(run.agent, place=replace(run.agent.place, plan=path))
    await run.turn("first " * 500)
    Plan(path).write("# Plan\n- [x] look  twice\n- [ ] cut\n")
    assert "# Plan\\n- [x] look  twice\\n- [ ] cut" in await compacted(run)

    Plan(path).write("# Plan\n- [x] look  twice\n- [x] cut\n")
    await run.turn("second " * 500)
    assert "look  twice" not in await compacted(run)


async def test_dropped_output_is_listed_and_read_by_id(bench: MakeBench) -> None:
    asked = calls(("echo", '{"text": "alpha beta"}'))
    run = bench(asked, says("I said it"), says("note"), tools=(read_file,))
    await run.turn("say alpha beta")
    await compacted(run)

    lines = compactions(run)[0].dropped
    assert [line.split(": ", 1)[1].rsplit(" (", 1)[0] for line in lines] == [
        "the person: say alpha beta",
        "echo alpha beta",
        "you: I said it",
    ]
    entry_id = lines[1].split(":")[0]
    run.provider.replies = [
        calls(("read_file", json.dumps({"path": f"{EARLIER}{entry_id}"}))),
        calls(("read_file", json.dumps({"path": f"{EARLIER}00000000"}))),
        says("read"),
    ]
    await run.turn("what was it?")

    *_, listed, unlisted = run.results
    assert listed.text == "1\techo alpha beta"
    assert unlisted.is_error
    assert "of the list" in unlisted.text


async def test_a_long_list_is_cut_in_the_prompt_but_readable(bench: MakeBench) -> None:
    run = bench(*[says(f"answer {n}") for n in range(LISTED_DROPPED)], says("note"))
    for number in range(LISTED_DROPPED):
        await run.turn(f"question {number} " + "x" * 1_000)
    await compacted(run)

    (entry,) = compactions(run)
    text = text_of(compaction_message(entry)) or str(compaction_message(entry))
    older = len(entry.dropped) - LISTED_DROPPED
    assert older > 0
    assert f"- {entry.id}: the list of {older} older ones" in text
    assert "question 0 x" in entry.dropped[0]


async def test_a_vendor_search_for_a_note_marks_the_session(bench: MakeBench) -> None:
    found = Message(role="assistant", parts=(ServerItem(text="a page"), Text(text="note")))
    run = bench(says("one"), found)
    await run.turn("first")
    assert not run.session.tainted_by
    await compacted(run)
    assert run.session.tainted_by
