import json
from dataclasses import replace

import pytest

from kode.engine.context import answer_question, compact, context_tokens
from kode.engine.tokens import tokens_of
from kode.events import ContextReduced, Emit, no_emit
from kode.memory.contract import Drop, NullMemory
from kode.memory.system import Guarded
from kode.messages import Message, Usage, results_of, text_of
from kode.provider import Request
from kode.session.entries import UsageEntry
from kode.tool import ToolContext, tool
from tests.engine.conftest import ECHO, Bench, MakeBench, calls, says


@tool(effect="read", subject="name", parallel=True)
async def page(context: ToolContext, name: str, size: int) -> str:
    """Show so many characters."""
    return name + "x" * (size - len(name))


def pages(*sizes: int, name: str = "") -> Message:
    """A reply with calls whose results have so many characters."""
    given = ({"name": f"{name}{number}", "size": size} for number, size in enumerate(sizes))
    return calls(*(("page", json.dumps(each)) for each in given))


async def test_results_no_request_carried_survive_a_compaction_whole(bench: MakeBench) -> None:
    """Four large ones in one reply, in a window that is nearly full."""
    seen: list[str] = []

    def note(request: Request, emit: Emit) -> Message:
        seen.extend(r.text for m in request.messages for r in results_of(m))
        return says("the note")

    replies = (says("long " * 8_000), pages(*[6_000] * 4, name="b"), note, says("done"))
    run = bench(*replies, tools=(page,), window=16_000)
    await run.turn("first")

    ended = await run.turn("second")

    assert ended.status == "success"
    carried = [r.text for m in run.provider.requests[-1].messages for r in results_of(m)]
    assert [text[:2] for text in carried] == [f"b{n}" for n in range(4)]
    assert carried == [result.text for result in run.results] == seen
    assert "the note" in str(run.provider.requests[-1].messages)


async def test_results_of_one_reply_share_a_fifth_of_the_window(bench: MakeBench) -> None:
    run = bench(pages(100, *[40_000] * 4), says("done"), tools=(page,), window=50_000)
    await run.turn()

    first, *others = (result.text for result in run.results)
    assert len(first) == 100
    assert sum(map(len, others)) <= 50_000 / 5 * 4 + 4 * 700
    assert min(map(len, others)) > 9_000
    kept = sorted(run.agent.place.outputs.iterdir())
    assert len(kept) == 4
    assert all(any(str(path) in text for path in kept) for text in others)
    assert {path.stat().st_size for path in kept} == {40_000}


async def test_a_call_passes_on_the_rest_of_its_share(bench: MakeBench) -> None:
    work = calls(("touch", '{"path": "a"}'), ("page", '{"name": "b", "size": 60000}'))
    run = bench(work, says("done"), tools=(page,), window=50_000)
    await run.turn()
    assert 39_000 < len(run.results[1].text) < 40_500


async def test_an_unanswered_message_is_sent_as_long_as_it_fits(bench: MakeBench) -> None:
    """A compaction would free nothing, and lose what was attached."""
    run = bench(says("read"), window=10_000)
    ended = await run.turn("word " * 6_800)
    assert ended.status == "success"
    assert run.of(ContextReduced) == []


async def test_compactions_that_free_nothing_end_with_a_sentence(bench: MakeBench) -> None:
    run = bench(*[says("n " * 3_000) for _ in range(9)], window=1_000)
    ended = await run.turn("word " * 2_000)
    assert ended.status == "error"
    assert "fit the window" in ended.error


async def test_a_prompt_filling_the_window_leaves_less_for_persons_words(bench: MakeBench) -> None:
    """As instructions and memory do in a window of 4,096 tokens."""
    run = bench(*[says("n " * 300) for _ in range(99)], window=4_000)
    run.agent = replace(run.agent, render_system=lambda late: {"kode": "word " * 1_800})

    ended = [await run.turn(f"question {number}: " + "word " * 150) for number in range(12)]

    assert [one.status for one in ended] == ["success"] * 12, ended[-1].error
    assert "question 11: word" in str(run.provider.requests[-1].messages)


class Windowed(NullMemory):
    """Wants a compaction beyond four messages; at fault where it has no drop to give."""

    message_window = 4

    def __init__(self, drop: Drop | None) -> None:
        self.drop = drop
        self.dropped: list[int] = []

    async def before_drop(self, messages, reason):
        self.dropped.append(len(messages))
        if self.drop is None:
            raise OSError("broken")
        return self.drop


async def test_memory_may_ask_for_a_drop_and_give_a_recap(bench: MakeBench) -> None:
    memory = Windowed(Drop(keep=2, recap=""))
    run = bench(*[says(f"answer {n}") for n in range(4)], memory=memory)
    for number in range(3):
        await run.turn(f"question {number}")
    assert memory.dropped == [5]
    said = [text_of(m) for m in run.session.messages]
    assert said[-2:] == ["question 2", "answer 2"]
    assert "question 0" not in str(said)
    assert len(run.of(ContextReduced)) == 1


async def test_a_used_up_budget_pays_no_compaction_for_memory(bench: MakeBench) -> None:
    run = bench(says("one"), says("two"), memory=Windowed(Drop(keep=2)), max_budget_usd=1.0)
    for spent_usd in (0.0, 0.0, 1.0):
        run.agent.spend.cost_usd = spent_usd
        ended = await run.turn()
    assert "budget" in (ended.error or "")
    assert len(run.provider.requests) == 2


async def test_a_failing_memory_costs_no_compaction(bench: MakeBench) -> None:
    memory = Windowed(None)
    run = bench(*[says(f"answer {n}") for n in range(7)], memory=Guarded(memory))
    for number in range(7):
        assert (await run.turn(f"question {number}")).status == "success"
    assert run.of(ContextReduced) == []
    assert [text_of(m) for m in run.session.messages][:2] == ["question 0", "answer 0"]
    assert memory.dropped == [5, 9, 13]


async def test_a_compaction_by_hand_makes_room_as_wished(bench: MakeBench) -> None:
    replies = ("words " * 2_000, "ok", "note", "another", "note")
    run = bench(*map(says, replies))
    await run.turn("one")
    await run.turn("two")
    before = context_tokens(run.context)
    event = await compact(run.agent, run.context, no_emit, wish="the port numbers")
    assert event.tokens_before == before
    assert event.tokens_after < before / 2
    assert asked(run).endswith(": the port numbers\n")
    await run.turn("three " * 2_000)
    await compact(run.agent, run.context, no_emit)
    assert "The person asks" not in asked(run)


async def test_the_count_follows_what_the_provider_reports(bench: MakeBench) -> None:
    run = bench(says("a", usage=Usage(input_tokens=5_000, output_tokens=100)))
    await run.turn("one")
    assert context_tokens(run.context) == 5_100


async def test_a_note_fits_a_small_window_and_its_small_model(bench: MakeBench) -> None:
    run = bench(says("words " * 600), says("note"), window=4_100)
    await run.turn("one")
    await compact(replace(run.agent, small=True), run.context, run.events.append)

    request = run.provider.requests[-1]
    assert request.small
    assert request.max_output_tokens == 512
    assert "179 words" in asked(run)


def asked(run: Bench) -> str:
    (part,) = run.provider.requests[-1].messages[-1].parts
    return part.text


async def test_the_note_request_ends_the_conversation_with_an_unchanged_beginning(
    bench: MakeBench,
) -> None:
    run = bench(ECHO, says("one"), says("note"))
    await run.turn()
    await compact(run.agent, run.context, no_emit)

    turn, note = run.provider.requests[-2:]
    assert (note.aside, turn.aside) == (True, False)
    assert note.messages[: len(turn.messages)] == turn.messages
    assert len(note.messages) == len(turn.messages) + 2
    assert replace(note, messages=(), aside=False, max_output_tokens=None) == replace(
        turn, messages=(), max_output_tokens=None
    )


async def test_a_side_question_leaves_nothing_but_its_cost(bench: MakeBench) -> None:
    """It comes while a call runs, which has no result yet."""
    beside: list[str] = []

    @tool(effect="read", subject="text")
    async def look(context: ToolContext, text: str) -> str:
        """Ask beside it."""
        beside.append(await answer_question(run.agent, run.context, "how far?"))
        return text

    said = (says("half", usage=Usage(input_tokens=9)), says("one"), says("two"))
    run = bench(calls(("look", '{"text": "a"}')), *said, tools=(look,))
    await run.turn()
    await run.turn("again")

    first, question, *others = run.provider.requests
    assert beside == ["half"]
    assert question.messages[: len(first.messages)] == first.messages
    assert replace(question, messages=(), aside=False) == replace(first, messages=())
    assert not any("how far?" in str(request.messages) for request in others)
    assert "how far?" not in str(run.session.entries)
    (cost,) = [entry for entry in run.session.entries if isinstance(entry, UsageEntry)]
    assert (cost.purpose, cost.usage.input_tokens) == ("question", 9)


@pytest.mark.parametrize("text", ["", "I go on reading."])
async def test_a_model_calling_a_tool_instead_is_asked_again(bench: MakeBench, text: str) -> None:
    call = calls(("touch", '{"path": "a"}'))
    reply = replace(call, parts=(*says(text).parts, *call.parts) if text else call.parts)
    run = bench(says("one"), reply, says("the note"), window=4_000)
    await run.turn("please " * 900)
    await compact(run.agent, run.context, no_emit)

    assert "the note" in str(run.session.messages[0])
    assert [r.is_error for r in results_of(run.provider.requests[-1].messages[-1])] == [True]
    assert not (run.agent.place.cwd / "a").exists()


async def test_a_conversation_that_never_fits_is_told_as_a_transcript(bench: MakeBench) -> None:
    run = bench(says("words " * 4_000), says("note"), window=4_000)
    await run.turn("one")
    await compact(run.agent, run.context, no_emit)
    (question,) = run.provider.requests[-1].messages
    assert "<transcript>" in asked(run)
    assert tokens_of(question) < 4_000
