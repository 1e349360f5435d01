from dataclasses import replace

from kode.contracts import Drop
from kode.engine.context import compact, context_tokens, prepare
from kode.events import ContextReduced
from kode.memory.base import NullMemory
from kode.memory.guarded import Guarded
from kode.messages import results_of, text_of
from kode.session import log
from kode.session.entries import CompactionEntry, PruneEntry
from kode.session.messages import DROPPED_OUTPUT
from tests.engine.conftest import MakeBench, calls, says


async def test_old_tool_output_goes_first_and_the_newest_stays(bench: MakeBench) -> None:
    replies = [calls(("echo", f'{{"text": "{n}{"x" * 4_000}"}}')) for n in range(9)]
    run = bench(*replies, says("done"), window=20_000, keep_tool_output_tokens=2_500)

    ended = await run.turn()

    assert ended.status == "success"
    assert any(isinstance(e, PruneEntry) for e in run.session.entries)
    texts = [r.text for m in run.session.messages for r in results_of(m)]
    assert texts[0] == DROPPED_OUTPUT
    assert texts[-1].startswith("echo 8xxx")


async def test_a_compaction_keeps_the_note_the_words_of_the_person_and_the_files(
    bench: MakeBench,
) -> None:
    run = bench(
        calls(("touch", '{"path": "made.txt"}')),
        says("I made it. " * 1_000),
        says("## Goal\nthe note"),
        says("second answer"),
        window=3_000,
    )
    await run.turn("please make made.txt")

    ended = await run.turn("and now the rest")

    assert ended.result == "second answer"
    (entry,) = [e for e in run.session.entries if isinstance(e, CompactionEntry)]
    assert entry.files_changed == ("made.txt",)
    told = str(run.provider.requests[-1].messages)
    assert "the note" in told
    assert "please make made.txt" in told
    assert "and now the rest" in told


async def test_what_is_told_after_a_reload_is_what_was_told_before(bench: MakeBench) -> None:
    run = bench(
        calls(("echo", '{"text": "a"}')), says("long " * 900), says("note"), says("b"), window=2_500
    )
    await run.turn("one")
    await run.turn("two")
    before = list(run.session.messages)
    run.session.close()
    loaded, repairs = log.load(run.session.path.parent.parent, run.session.id)
    assert repairs == []
    assert loaded.messages == before
    loaded.close()


async def test_compactions_that_free_nothing_end_with_a_sentence(bench: MakeBench) -> None:
    run = bench(*[says("n " * 3_000) for _ in range(9)], window=1_000)
    ended = await run.turn("word " * 2_000)
    assert ended.status == "error"
    assert "does not fit the window" in ended.error


async def test_a_prompt_that_fills_most_of_the_window_leaves_the_words_of_the_person_less_room(
    bench: MakeBench,
) -> None:
    """As instructions and memory do in a window of 4,096 tokens."""
    run = bench(*[says("n " * 300) for _ in range(99)], window=4_000)
    run.agent = replace(run.agent, render_system=lambda late: {"kode": "word " * 1_800})

    ended = [await run.turn(f"question {number}: " + "word " * 150) for number in range(12)]

    assert [one.status for one in ended] == ["success"] * 12, ended[-1].error
    assert "question 11: word" in str(run.provider.requests[-1].messages)


async def test_memory_may_ask_for_a_drop_and_give_its_own_recap(bench: MakeBench) -> None:
    class Windowed(NullMemory):
        dropped = 0

        @property
        def message_window(self):
            return 4

        async def before_drop(self, messages, reason):
            self.dropped = len(messages)
            return Drop(keep=2, recap="")

    memory = Windowed()
    run = bench(*[says(f"answer {n}") for n in range(4)], memory=memory)
    for number in range(3):
        await run.turn(f"question {number}")
    assert memory.dropped == 5
    said = [text_of(m) for m in run.session.messages]
    assert said[-2:] == ["question 2", "answer 2"]
    assert "question 0" not in str(said)
    assert [e.kind for e in run.of(ContextReduced)] == ["compaction"]


async def test_a_memory_that_fails_to_take_messages_in_costs_no_compaction(
    bench: MakeBench,
) -> None:
    class Windowed(NullMemory):
        asked = 0

        @property
        def message_window(self):
            return 4

        async def before_drop(self, messages, reason):
            self.asked += 1
            raise OSError("broken")

    inside = Windowed()
    run = bench(*[says(f"answer {n}") for n in range(7)], memory=Guarded(inside))
    for number in range(7):
        ended = await run.turn(f"question {number}")
        assert ended.status == "success", ended.error
    assert run.of(ContextReduced) == []
    assert [text_of(m) for m in run.session.messages][:2] == ["question 0", "answer 0"]
    assert inside.asked == 3  # at 5 messages, at 9, at 13


async def test_compact_by_hand_makes_room_now(bench: MakeBench) -> None:
    run = bench(says("words " * 2_000), says("note"))
    await run.turn("one")
    before = context_tokens(run.context)
    event = await compact(run.agent, run.context, run.events.append)
    assert event.tokens_before == before
    assert event.tokens_after < before / 2


async def test_a_compaction_by_hand_is_told_what_the_person_wants_to_keep(
    bench: MakeBench,
) -> None:
    run = bench(says("words " * 2_000), says("note"), says("another"), says("note"))
    await run.turn("one")
    await compact(run.agent, run.context, run.events.append, wish="the port numbers")
    assert run.provider.requests[-1].system.endswith(
        "The person asks of this note: the port numbers\n"
    )
    await run.turn("two " * 2_000)
    await compact(run.agent, run.context, run.events.append)
    assert "The person asks" not in run.provider.requests[-1].system


async def test_the_count_follows_what_the_provider_reports(bench: MakeBench) -> None:
    from kode.messages import Usage

    run = bench(says("a", usage=Usage(input_tokens=5_000, output_tokens=100)))
    await run.turn("one")
    assert context_tokens(run.context) == 5_100
    request = await prepare(run.agent, run.context, run.events.append)
    assert request.system == run.context.system


async def test_the_note_of_a_compaction_fits_a_small_window_and_is_asked_of_a_small_model(
    bench: MakeBench,
) -> None:
    run = bench(says("words " * 600), says("note"), window=4_096)
    await run.turn("one")
    await compact(replace(run.agent, small=True), run.context, run.events.append)

    request = run.provider.requests[-1]
    assert request.small
    assert request.max_output_tokens == 512
    assert "179 words" in request.system
