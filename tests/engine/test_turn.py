import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kode.engine.agent import Spend
from kode.engine.context import open_context
from kode.engine.tokens import tokens_of, tokens_of_text
from kode.errors import (
    AuthenticationError,
    ContextOverflow,
    ProviderError,
    StorageError,
    ThinkingRefused,
    TransientError,
)
from kode.events import (
    ContextReduced,
    Emit,
    Event,
    Notice,
    Replied,
    RetryScheduled,
    TextDelta,
    ToolFinished,
    ToolOutput as OutputEvent,
    ToolStarted,
    TurnEnded,
)
from kode.memory.contract import NullMemory
from kode.messages import Message, Refusal, ToolCall, Usage, calls_of, results_of, text_of
from kode.permissions.shell.judge import ShellLine
from kode.provider import Request
from kode.session import log
from kode.session.entries import MessageEntry, RequestEntry, SectionUpdateEntry, TurnEntry
from kode.tool import ALLOWED, ToolContext, ToolOutput, WorkStep, tool
from kode.tools.shell import shell
from tests.engine.conftest import ECHO, Bench, MakeBench, OpenGate, calls, says


def on_disk(run: Bench) -> list[Any]:
    """The messages in the session's file."""
    _, entries, faults = log.read(run.session.path)
    assert faults == []
    return [entry for entry in entries if isinstance(entry, MessageEntry)]


async def test_an_answer_ends_the_turn_and_everything_is_on_disk(bench: MakeBench) -> None:
    answer = says("Hello.", usage=Usage(input_tokens=10, output_tokens=5))
    run = bench(calls(("touch", '{"path": "f.txt"}')), answer)

    ended = await run.turn("hi")

    assert (ended.status, ended.result, ended.steps) == ("success", "Hello.", 2)
    assert ended.cost_usd == pytest.approx(0.005)
    assert [text_of(m) for m in on_disk(run)] == ["hi", "", "", "Hello."]
    assert isinstance(run.session.entries[-1], TurnEntry)
    assert run.of(TurnEnded) == [run.events[-1]] == [ended]
    assert [file.endswith("f.txt") for file in ended.files_changed] == [True]
    assert len(run.of(Replied)) == 2


async def test_each_step_is_on_disk_before_the_next_begins(bench: MakeBench) -> None:
    def look(request: Request, emit: Emit) -> Message:
        assert [text_of(m) for m in on_disk(run)] == ["hi"]
        asked = (("echo", "a"), ("fail", "b"), ("echo", "c"))
        return calls(*((name, f'{{"text": "{text}"}}') for name, text in asked))

    begun: list[bool] = []
    shown: list[str] = []
    recorded: list[set[str]] = []

    def watch(event: Event) -> None:
        if isinstance(event, ToolStarted):
            begun.append(len(calls_of(on_disk(run)[1])) == 3)
        elif isinstance(event, ToolFinished):
            shown.append(event.call_id)
            recorded.append({r.call_id for message in on_disk(run) for r in results_of(message)})

    run = bench(look, says("done"))
    assert (await run.turn("hi", watch)).status == "success"
    assert begun == [True] * 3
    assert recorded == [set(shown[:1]), set(shown[:2]), set(shown)]
    results = results_of(run.provider.requests[1].messages[-1])
    assert [r.text for r in results] == ["echo a", "no luck with b", "echo c"]
    assert [r.is_error for r in results] == [False, True, False]


@pytest.mark.parametrize("tool", ["echo", "fail"])
async def test_an_unrecorded_result_is_not_shown_as_done(
    bench: MakeBench, monkeypatch, tool: str
) -> None:
    run = bench(calls((tool, '{"text": "a"}'), (tool, '{"text": "b"}')), says("then"))
    append = run.session.append

    def full(*entries):
        if any(isinstance(e, TurnEntry) or getattr(e, "role", "") == "tool" for e in entries):
            raise StorageError("The disk is full.")
        append(*entries)

    monkeypatch.setattr(run.session, "append", full)
    ended = await run.turn()
    monkeypatch.undo()

    assert (ended.status, "disk is full" in ended.error) == ("error", True)
    assert run.of(ToolFinished) == run.of(Notice) == []
    assert (await run.turn("go on")).status == "success"
    results = results_of(run.provider.requests[-1].messages[-2])
    assert ["unknown" in r.text for r in results] == [True, True]


async def test_memory_gets_the_answer_and_results_as_one_message(bench: MakeBench) -> None:
    turns = []

    class Watching(NullMemory):
        async def after_turn(self, turn):
            turns.append(turn)

    asked = calls(("fail", '{"text": "a"}'), ("echo", '{"text": "b"}'))
    await bench(asked, says("done"), memory=Watching()).turn("hi")

    [turn] = turns
    assert [m.role for m in turn.messages] == ["user", "assistant", "tool", "assistant"]
    assert (turn.text, turn.answer, turn.status) == ("hi", "done", "success")


async def test_a_call_cut_by_the_token_limit_is_not_run(bench: MakeBench, tmp_path) -> None:
    run = bench(calls(("touch", '{"path": "x"}'), stop="length"), says("smaller then"))

    assert (await run.turn()).status == "success"
    assert not (tmp_path / "x").exists()
    (result,) = run.results
    assert result.is_error
    assert "smaller pieces" in result.text


CUT = replace(ECHO, stop="length")
OTHER = calls(("echo", '{"text": "b"}'))
READ_ALOUD = says('{"name": "echo", "arguments": {}}', stop="malformed_call")
REFUSED = ThinkingRefused("The server refuses what the model thought.")
COSTLY = replace(ECHO, usage=Usage(output_tokens=2_000))
ENDS: list[tuple[list[Any], str, int, str]] = [
    # Replies, how the turn ends, requests, and what the answer or the error says.
    ([says("half an ans", stop="length")], "error", 1, "half an ans"),
    ([CUT] * 3, "error", 3, "3 replies in a row"),
    ([CUT, CUT, ECHO, CUT, CUT, says("done")], "success", 6, "done"),
    ([ECHO, says(""), says("a")], "success", 3, "a"),
    ([says(""), ECHO, says(" ")], "error", 3, "empty answer"),
    ([says("no", stop="refusal")], "error", 1, "refused"),
    ([READ_ALOUD] * 2, "error", 2, "fake-1"),
    ([ECHO, OTHER] * 5, "error", 9, "echo 5 times"),
    ([ECHO] * 13, "error", 5, "echo 5 times"),
    ([REFUSED, REFUSED, says("a summary"), REFUSED], "error", 4, "refuses what the model thought"),
    ([ProviderError("no")], "error", 1, "no"),
    ([AuthenticationError("bad key")], "error", 1, "bad key"),
    ([TransientError("down")] * 6, "error", 5, "down "),
    ([TransientError("429", retry_after_s=150)], "error", 1, "asks to wait 150 s before"),
    ([TransientError("429", retry_after_s=2_400)], "error", 1, "wait 40 minutes before"),
    ([TransientError("429", retry_after_s=10_800)], "error", 1, "wait 3 hours before"),
    ([TransientError("429", retry_after_s=777_600)], "error", 1, "wait 9 days before"),
]
LIMITED: list[tuple[list[Any], dict[str, Any], int, str]] = [
    ([ECHO] * 3, {"max_steps": 2}, 2, "--max-steps"),
    ([COSTLY], {"max_budget_usd": 1.5}, 1, "budget"),
    ([], {"max_budget_usd": 1.5, "spend": Spend(rest_of_tree_usd=1.5)}, 0, "budget"),
]
ALL_ENDS = [
    *((replies, {}, status, *more) for replies, status, *more in ENDS),
    *((replies, limits, "error", *more) for replies, limits, *more in LIMITED),
]


@pytest.mark.parametrize(("replies", "limits", "status", "requests", "text"), ALL_ENDS)
async def test_a_turn_ends_as_its_last_reply_says(
    bench: MakeBench, monkeypatch, replies, limits, status: str, requests: int, text: str
) -> None:
    monkeypatch.setattr("kode.engine.reply.FIRST_DELAY_S", 0.0)
    run = bench(*replies, **limits)

    ended = await run.turn()

    assert (ended.status, len(run.provider.requests)) == (status, requests)
    assert text in f"{ended.result}\n{ended.error}"
    assert (ended.error is None) == (status == "success")


@pytest.mark.slow
async def test_the_time_limit_keeps_what_had_arrived(bench: MakeBench) -> None:
    async def slow(request, emit):
        emit(TextDelta(text="as far as I"))
        await asyncio.sleep(60)

    ended = await bench(slow, timeout_s=1).turn()
    assert (ended.status, ended.result) == ("timeout", "as far as I")


async def test_an_interrupted_reply_keeps_its_text(bench: MakeBench) -> None:
    async def slow(request, emit):
        emit(TextDelta(text="let me"))
        await asyncio.sleep(60)

    run = bench(slow, says("better"))
    ended = await run.interrupted_turn(lambda: run.of(TextDelta))

    assert (ended.status, ended.result) == ("interrupted", "let me")
    assert (await run.turn("second")).status == "success"
    said = [text_of(m) for m in run.provider.requests[-1].messages]
    assert said == ["do it", "let me", "second"]


async def test_an_interrupted_call_and_those_not_begun_have_results(bench: MakeBench) -> None:
    run = bench(calls(("wait", "{}"), ("echo", '{"text": "b"}')), says("ok"))
    ended = await run.interrupted_turn(lambda: run.of(ToolStarted))

    assert ended.status == "interrupted"
    first, second = run.results
    assert "effect is unknown" in first.text
    assert "Not run" in second.text
    shown = [(event.call_id, event.summary) for event in run.of(ToolFinished)]
    assert shown == [(first.call_id, "stopped")]
    assert (await run.turn("go on")).status == "success"


async def test_the_output_of_an_interrupted_command_reaches_the_model(bench: MakeBench) -> None:
    command = ("shell", '{"command": "echo half way; sleep 60"}')
    run = bench(calls(("touch", '{"path": "x.py"}')), calls(command), tools=(shell,))
    ended = await run.interrupted_turn(
        lambda: any("half way" in event.text for event in run.of(OutputEvent))
    )

    *_, result = run.results
    assert "half way" in result.text
    assert "unknown" not in result.text
    assert run.of(ToolFinished)[-1].text == result.text
    assert ended.checked == "unknown"  # it may have checked the change


@pytest.mark.parametrize("after", range(12))
async def test_cancelled_at_any_await_the_session_stays_whole(bench: MakeBench, after: int) -> None:
    asked = calls(("echo", '{"text": "a"}'), ("echo", '{"text": "b"}'))
    run = bench(asked, calls(("wait", "{}")), *[says("ok")] * 3)
    task = asyncio.ensure_future(run.turn("one"))
    for _ in range(after):
        await asyncio.sleep(0)
    task.cancel()
    try:
        ended = await task
    except asyncio.CancelledError:  # before the first await nothing had begun
        assert after == 0
        return
    assert ended.status == "interrupted"
    path, session_id = run.session.path, run.session.id
    run.session.close()
    loaded, repairs = log.load(path.parent.parent, session_id)
    assert repairs == []
    assert [text_of(m) for m in loaded.messages if m.role == "user"] == ["one"]
    for asked, answer in zip(loaded.messages, loaded.messages[1:], strict=False):
        if calls_of(asked):
            assert [r.call_id for r in results_of(answer)] == [c.id for c in calls_of(asked)]
    loaded.close()


async def test_passing_faults_are_retried_with_growing_pauses(
    bench: MakeBench, monkeypatch
) -> None:
    monkeypatch.setattr("kode.engine.reply.FIRST_DELAY_S", 0.001)
    monkeypatch.setattr("kode.engine.reply.random.uniform", lambda least, most: 20.0)
    busy, slow = TransientError("429"), TransientError("503", retry_after_s=0.1)
    run = bench(busy, busy, slow, says("there"))

    assert (await run.turn()).result == "there"
    retries = [(event.attempt, event.delay_s) for event in run.of(RetryScheduled)]
    assert retries == [(1, 0.02), (2, 0.04), (3, 0.1)]


@pytest.mark.parametrize("limit_s", [60.0, 0.0])
async def test_a_loading_server_is_waited_for_with_one_line(
    bench: MakeBench, monkeypatch, limit_s: float
) -> None:
    monkeypatch.setattr("kode.engine.reply.LOADING_PAUSE_S", 0.0)
    monkeypatch.setattr("kode.engine.reply.MAX_LOADING_S", limit_s)
    run = bench(*[TransientError("503", loading=True)] * 9, says("there"))

    ended = await run.turn()

    assert ended.status == ("success" if limit_s else "error")
    assert run.of(RetryScheduled) == []
    assert ["loading" in notice.text for notice in run.of(Notice)] == [True] * bool(limit_s)


async def test_an_overflow_leads_to_room_and_one_more_request(bench: MakeBench) -> None:
    overflow, answer = ContextOverflow("too long"), says("words " * 50)
    run = bench(answer, overflow, says("a note"), says("fits now"), overflow, says("note"))
    await run.turn("one")
    ended = await run.turn("two")
    assert (ended.status, ended.result) == ("success", "fits now")
    assert len(run.of(ContextReduced)) == 1
    assert "two" in str(run.provider.requests[-1].messages)

    run.provider.replies.append(ContextOverflow("still too big"))
    ended = await run.turn("three")
    assert (ended.status, ended.error) == ("error", "still too big")


async def test_kode_learns_from_a_servers_larger_token_counts(bench: MakeBench) -> None:
    window = 4_000
    refused = 0

    def counts_more(request: Request, emit: Emit) -> Message:
        nonlocal refused
        tools = "".join(f"{t.name}{t.description}{t.parameters}" for t in request.tools)
        texts = tokens_of_text(request.system) + tokens_of_text(tools)
        held = 1.4 * (texts + sum(map(tokens_of, request.messages)))
        if held + request.max_output_tokens > window:
            refused += 1
            raise ContextOverflow("too long", window=window)
        return says("note" if request.aside else "word " * 700)

    run = bench(*[counts_more] * 40, window=window)
    run.provider.info = replace(run.provider.info, max_output_tokens=window // 2)

    ended = [await run.turn("word " * 300) for _ in range(8)]

    assert [one.status for one in ended] == ["success"] * 8
    assert refused <= 3


async def test_a_full_disk_ends_the_turn_and_confirms_nothing(
    bench: MakeBench, monkeypatch
) -> None:
    run = bench(says("one"), says("two"))
    await run.turn("first")

    def full(*_):
        raise StorageError("The disk is full.")

    monkeypatch.setattr(run.session, "append", full)
    with pytest.raises(StorageError):
        await run.turn("second")
    assert [text_of(m) for m in run.session.messages] == ["first", "one"]


async def test_requests_continue_what_was_sent_and_are_on_record(bench: MakeBench) -> None:
    run = bench(ECHO, says("1"), says("2"), says("3"))
    for text in ("one", "two", "three"):
        await run.turn(text)

    for before, after in zip(run.provider.requests, run.provider.requests[1:], strict=False):
        assert (after.system, after.tools) == (before.system, before.tools)
        assert after.messages[: len(before.messages)] == before.messages
    entries = run.session.entries
    records = [entry for entry in entries if isinstance(entry, RequestEntry)]
    answers = [entries[entries.index(record) + 1] for record in records]
    assert [getattr(answer, "role", "") for answer in answers] == ["assistant"] * 4
    assert [record.begins_process for record in records] == [True, False, False, False]
    names = [tool.name for tool in run.session.beginning.tools]
    assert names == [tool.name for tool in run.agent.tools]


async def test_an_unreadable_call_is_explained_to_the_model_once(bench: MakeBench) -> None:
    run = bench(READ_ALOUD, ECHO, says("a"))

    ended = await run.turn()

    assert (ended.status, ended.result, ended.steps) == ("success", "a", 3)
    note = run.provider.requests[1].messages[-1]
    assert (note.role, text_of(note)) == ("user", "")
    assert "echo(text)" in note.parts[0].text
    assert run.session.turns == 1


async def test_a_call_written_as_text_is_resent_as_a_call(bench: MakeBench) -> None:
    """The right form, as an example: words about it were repeated as an answer."""
    call = ToolCall(id="w", name="echo", arguments='{"text": "a"}', written="...")
    run = bench(Message(role="assistant", parts=(call,), stop="tool_calls"), says("done"))

    await run.turn()

    *_, asked, answered = run.provider.requests[1].messages
    assert [one.name for one in calls_of(asked)] == ["echo"]
    assert text_of(asked) == ""
    assert [one.text for one in results_of(answered)] == ["echo a"]
    assert '"written":"..."' in run.session.path.read_text()


async def test_a_failed_attempts_text_is_not_part_of_the_reply(
    bench: MakeBench, monkeypatch
) -> None:
    monkeypatch.setattr("kode.engine.reply.FIRST_DELAY_S", 0.0)

    def breaks(text: str, error: Exception):
        def reply(request, emit):
            emit(TextDelta(text=text))
            raise error

        return reply

    run = bench(breaks("one", TransientError("lost")), breaks("two", ProviderError("gone")))

    assert (await run.turn()).result == "two"
    assert text_of(run.session.messages[-1]) == "two"


async def test_a_prompt_interrupted_while_memory_recalls_is_kept(bench: MakeBench) -> None:
    recalling = asyncio.Event()

    class Slow(NullMemory):
        async def recall(self, turn):
            recalling.set()
            await asyncio.sleep(60)

    run = bench(memory=Slow())

    assert (await run.interrupted_turn(recalling.is_set)).status == "interrupted"
    assert [text_of(m) for m in on_disk(run)] == ["do it"]


async def test_news_is_told_once_and_recorded_as_told(bench: MakeBench) -> None:
    run = bench(says("ok"), says("ok"))
    await open_context(run.agent, run.context, "start")
    run.context.news = (SectionUpdateEntry(section="given", text="Use spaces."),)

    await run.turn("one")
    await run.turn("two")

    assert run.session.section_texts == {"given": "Use spaces."}
    texts = [part.text for message in run.session.messages for part in message.parts]
    assert sum("Use spaces." in text for text in texts) == 1


async def test_a_call_of_which_one_part_only_reads_is_work(bench: MakeBench) -> None:
    class Gate(OpenGate):
        async def judge(self, action, context):
            only_reads = action.arguments["line"] == "ls"
            return replace(ALLOWED, line=ShellLine(parts=(), only_reads=only_reads, known=True))

    @tool(effect="run", subject="line")
    async def command(context: ToolContext, line: str) -> ToolOutput:
        """Runs a line; another than `ls` is refused its changes."""
        refusals = () if line == "ls" else (Refusal(by="person", of="changes"),)
        return ToolOutput(text=line, refusals=refusals)

    @tool(effect="run", parts=lambda given: [(command, {"line": line}) for line in given["lines"]])
    async def commands(context: ToolContext, lines: list[str]) -> str:
        """Runs lines."""
        raise AssertionError("its parts run")

    asked = calls(("commands", '{"lines": ["ls", "make"]}'))
    run = bench(asked, says("done"), tools=(commands,), gate=Gate())

    assert (await run.turn()).status == "incomplete"


async def test_a_past_that_is_refused_twice_becomes_a_summary(bench: MakeBench) -> None:
    # The note is asked for behind the conversation, which is refused there as well.
    run = bench(ECHO, *[REFUSED] * 3, says("We said hi."), says("Done."), says("Yes."))

    ended = await run.turn()

    assert (ended.status, ended.result) == ("success", "Done.")
    *_, last = run.provider.requests
    assert not any(calls_of(message) for message in last.messages)
    assert "We said hi." in "".join(part.text for part in last.messages[-1].parts)
    assert (await run.turn("go on")).status == "success"


async def test_a_turn_counts_the_edits_of_an_ended_child(bench: MakeBench) -> None:
    edit = ToolOutput(text="", files_changed=("/p/x.py",), agent_steps=(WorkStep(is_edit=True),))
    ended_work = [[edit], []]
    work = {"commands": ["bg1"], "list_running": list, "take_work": lambda of: ended_work.pop(0)}
    run = bench(ECHO, says("done"), background=SimpleNamespace(**work))

    ended = await run.turn()

    assert ended.files_changed == ("/p/x.py",)
    assert ended.checked == "not_since_last_edit"
