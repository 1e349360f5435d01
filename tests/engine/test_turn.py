import asyncio
from dataclasses import replace

import pytest

from kode.engine.context import open_context
from kode.engine.tokens import tokens_of, tokens_of_text
from kode.engine.turn import last_words, run_turn
from kode.errors import (
    AuthenticationError,
    ContextOverflow,
    ProviderError,
    StorageError,
    ThinkingRefused,
    TransientError,
)
from kode.events import (
    Emit,
    Notice,
    Replied,
    RetryScheduled,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnEnded,
)
from kode.events import ToolOutput as OutputEvent
from kode.function_tool import tool
from kode.memory.contract import NullMemory
from kode.messages import Message, Refusal, Text, ToolCall, Usage, calls_of, results_of, text_of
from kode.permissions.shell import Line
from kode.provider import Request
from kode.session import log
from kode.session.entries import MessageEntry, RequestEntry, SectionUpdateEntry, TurnEntry
from kode.tool import ALLOWED, Decision, ToolContext, ToolOutput, WorkStep
from kode.tools.background import BackgroundCommands
from kode.tools.shell import shell
from tests.engine.conftest import MakeBench, OpenGate, calls, says


def on_disk(session):
    _, entries, faults = log.read(session.path)
    assert faults == []
    return entries


async def test_an_answer_ends_the_turn_and_everything_is_on_disk(bench: MakeBench) -> None:
    run = bench(says("Hello.", usage=Usage(input_tokens=10, output_tokens=5)))

    ended = await run.turn("hi")

    assert (ended.status, ended.result, ended.steps) == ("success", "Hello.", 1)
    assert ended.cost_usd == pytest.approx(0.005)
    messages = [e for e in on_disk(run.session) if isinstance(e, MessageEntry)]
    assert [text_of(m) for m in messages] == ["hi", "Hello."]
    assert isinstance(on_disk(run.session)[-1], TurnEntry)


async def test_the_persons_text_is_saved_before_the_model_is_asked(bench: MakeBench) -> None:
    def look(request, emit):
        assert [text_of(e) for e in on_disk(run.session) if isinstance(e, MessageEntry)] == ["hi"]
        return says("ok")

    run = bench(look)
    assert (await run.turn("hi")).status == "success"


async def test_calls_are_on_disk_before_a_tool_runs(bench: MakeBench) -> None:
    def look(request, emit):
        return says("end")

    run = bench(calls(("echo", '{"text": "a"}')), look)
    seen = []

    def watch(event):
        if event.type == "tool_started":
            seen.extend(
                e for e in on_disk(run.session) if isinstance(e, MessageEntry) and calls_of(e)
            )

    run.events = type("Watch", (list,), {"append": lambda self, e: watch(e)})()
    await run.turn()
    assert len(seen) == 1


async def test_results_come_back_in_the_order_asked(bench: MakeBench) -> None:
    run = bench(
        calls(("echo", '{"text": "a"}'), ("fail", '{"text": "b"}'), ("echo", '{"text": "c"}')),
        says("done"),
    )

    ended = await run.turn()

    assert ended.status == "success"
    results = results_of(run.provider.requests[1].messages[-1])
    assert [r.text for r in results] == ["echo a", "no luck with b", "echo c"]
    assert [r.is_error for r in results] == [False, True, False]


async def test_a_result_is_saved_before_its_call_shows_as_done(bench: MakeBench) -> None:
    run = bench(
        calls(("echo", '{"text": "a"}'), ("echo", '{"text": "b"}'), ("fail", '{"text": "c"}')),
        says("done"),
    )
    shown, held = [], []

    def watch(event):
        if event.type == "tool_finished":
            shown.append(event.call_id)
            entries = [e for e in on_disk(run.session) if isinstance(e, MessageEntry)]
            held.append({r.call_id for entry in entries for r in results_of(entry)})

    run.events = type("Watch", (list,), {"append": lambda self, e: watch(e)})()
    await run.turn()
    assert len(shown) == 3
    assert held == [set(shown[:1]), set(shown[:2]), set(shown[:3])]


@pytest.mark.parametrize("tool", ["echo", "fail"])
async def test_an_unrecorded_result_is_not_shown_as_done(
    bench: MakeBench, monkeypatch, tool: str
) -> None:
    run = bench(calls((tool, '{"text": "a"}'), (tool, '{"text": "b"}')), says("then"))
    append = run.session.append

    def full(*entries):
        if any(isinstance(e, MessageEntry) and e.role == "tool" for e in entries):
            raise StorageError("The disk is full.")
        append(*entries)

    monkeypatch.setattr(run.session, "append", full)
    ended = await run.turn()
    monkeypatch.undo()

    assert (ended.status, ended.error) == ("error", "The disk is full.")
    assert "tool_finished" not in run.kinds()
    assert (await run.turn("go on")).status == "success"
    results = results_of(run.provider.requests[-1].messages[-2])
    assert ["unknown" in r.text for r in results] == [True, True]


async def test_memory_gets_the_results_of_a_reply_as_one_message(bench: MakeBench) -> None:
    turns = []

    class Watching(NullMemory):
        async def after_turn(self, turn):
            turns.append(turn)

    asked = calls(("fail", '{"text": "a"}'), ("echo", '{"text": "b"}'))
    await bench(asked, says("done"), memory=Watching()).turn()
    assert [m.role for m in turns[0].messages] == ["user", "assistant", "tool", "assistant"]


async def test_a_call_cut_by_the_token_limit_is_not_run(bench: MakeBench, tmp_path) -> None:
    run = bench(calls(("touch", '{"path": "x"}'), stop="length"), says("smaller then"))

    ended = await run.turn()

    assert ended.status == "success"
    assert not (tmp_path / "x").exists()
    (result,) = results_of(run.provider.requests[1].messages[-1])
    assert result.is_error
    assert "smaller pieces" in result.text


async def test_calls_cut_again_and_again_end_the_turn(bench: MakeBench) -> None:
    run = bench(*[calls(("echo", "{}"), stop="length")] * 3)
    ended = await run.turn()
    assert ended.status == "error"
    assert "3 replies in a row" in ended.error


async def test_an_answer_cut_by_the_token_limit_is_an_error(bench: MakeBench) -> None:
    ended = await bench(says("half an ans", stop="length")).turn()
    assert (ended.status, ended.result) == ("error", "half an ans")


async def test_an_empty_answer_and_a_refusal_are_errors(bench: MakeBench) -> None:
    assert "empty" in (await bench(says(""), says("")).turn()).error
    assert "refused" in (await bench(says("no", stop="refusal")).turn()).error


async def test_the_step_limit_ends_the_turn_with_everything_saved(bench: MakeBench) -> None:
    run = bench(*[calls(("echo", '{"text": "a"}'))] * 3, max_steps=2)

    ended = await run.turn()

    assert (ended.status, ended.steps) == ("error", 2)
    assert "--max-steps" in ended.error
    assert run.session.messages[-1].role == "tool"


async def test_the_budget_is_checked_before_every_request(bench: MakeBench) -> None:
    costly = calls(("echo", '{"text": "a"}'))
    costly = type(costly)(
        role=costly.role, parts=costly.parts, stop=costly.stop, usage=Usage(output_tokens=2_000)
    )
    run = bench(costly, says("never asked"), max_budget_usd=1.5)
    ended = await run.turn()
    assert ended.status == "error"
    assert "budget" in ended.error
    assert len(run.provider.requests) == 1


@pytest.mark.slow
async def test_the_time_limit_keeps_what_had_arrived(bench: MakeBench) -> None:
    async def slow(request, emit):
        emit(TextDelta(text="as far as I"))
        await asyncio.sleep(60)

    ended = await bench(slow, timeout_s=1).turn()
    assert (ended.status, ended.result) == ("timeout", "as far as I")


async def test_an_interrupted_reply_keeps_its_text(
    bench: MakeBench,
) -> None:
    async def slow(request, emit):
        emit(TextDelta(text="let me"))
        await asyncio.sleep(60)

    run = bench(slow, says("better"))
    task = asyncio.ensure_future(run.turn("first"))
    while not run.of(TextDelta):
        await asyncio.sleep(0.001)
    task.cancel()
    ended = await task

    assert (ended.status, ended.result) == ("interrupted", "let me")
    assert (await run.turn("second")).status == "success"
    said = [text_of(m) for m in run.provider.requests[-1].messages]
    assert said == ["first", "let me", "second"]


async def test_an_interrupted_call_and_those_not_begun_have_results(
    bench: MakeBench,
) -> None:
    run = bench(calls(("wait", "{}"), ("echo", '{"text": "b"}')), says("ok"))
    task = asyncio.ensure_future(run.turn())
    while "tool_started" not in run.kinds():
        await asyncio.sleep(0.001)
    task.cancel()
    ended = await task

    assert ended.status == "interrupted"
    first, second = results_of(run.session.messages[-1])
    assert "effect is unknown" in first.text
    assert "Not run" in second.text
    shown = [(event.call_id, event.summary) for event in run.of(ToolFinished)]
    assert shown == [(first.call_id, "stopped")]
    assert (await run.turn("go on")).status == "success"


async def test_the_output_of_an_interrupted_command_reaches_the_model(bench: MakeBench) -> None:
    @tool(effect="none")
    async def change(context: ToolContext) -> ToolOutput:
        """Change a file."""
        return ToolOutput(text="", files_changed=("/p/x.py",))

    command = ("shell", '{"command": "echo half way; sleep 60"}')
    run = bench(calls(("change", "{}")), calls(command), tools=(change, shell))
    task = asyncio.ensure_future(run.turn())
    while not any("half way" in event.text for event in run.of(OutputEvent)):
        await asyncio.sleep(0.001)
    task.cancel()
    ended = await task

    [result] = results_of(run.session.messages[-1])
    assert "half way" in result.text
    assert "unknown" not in result.text
    assert run.of(ToolFinished)[-1].text == result.text
    assert ended.checked == "unknown"  # it may have checked the change


@pytest.mark.parametrize("after", range(12))
async def test_cancelled_at_any_await_the_session_stays_whole(bench: MakeBench, after: int) -> None:
    run = bench(
        calls(("echo", '{"text": "a"}'), ("echo", '{"text": "b"}')),
        calls(("wait", "{}")),
        says("ok"),
        says("ok"),
        says("ok"),
    )
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


async def test_passing_faults_are_retried_and_shown(bench: MakeBench, monkeypatch) -> None:
    monkeypatch.setattr("kode.engine.reply.FIRST_DELAY_S", 0.001)
    run = bench(TransientError("429"), TransientError("503", retry_after_s=0.01), says("there"))

    ended = await run.turn()

    assert ended.result == "there"
    retries = run.of(RetryScheduled)
    assert [r.attempt for r in retries] == [1, 2]
    assert retries[1].delay_s >= 0.01


async def test_a_loading_server_is_waited_for_with_one_line(bench: MakeBench, monkeypatch) -> None:
    monkeypatch.setattr("kode.engine.reply.LOADING_PAUSE_S", 0.0)
    run = bench(*[TransientError("503", loading=True)] * 9, says("there"))

    ended = await run.turn()

    assert ended.result == "there"
    assert run.of(RetryScheduled) == []
    assert ["loading" in notice.text for notice in run.of(Notice)] == [True]


async def test_a_server_loading_too_long_is_waited_for_once(bench: MakeBench, monkeypatch) -> None:
    monkeypatch.setattr("kode.engine.reply.LOADING_PAUSE_S", 0.0)
    monkeypatch.setattr("kode.engine.reply.MAX_LOADING_S", 0.0)
    run = bench(*[TransientError("503", loading=True)] * 9)

    ended = await run.turn()

    assert ended.status == "error"
    assert run.of(RetryScheduled) == []


async def test_the_turn_ends_after_five_attempts_with_the_next_step(
    bench: MakeBench, monkeypatch
) -> None:
    monkeypatch.setattr("kode.engine.reply.FIRST_DELAY_S", 0.001)
    run = bench(*[TransientError("down")] * 6)
    ended = await run.turn()
    assert ended.status == "error"
    assert ended.error.startswith("down ")
    assert len(run.provider.requests) == 5


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(150, "150 s"), (2400, "40 minutes"), (3 * 3600, "3 hours"), (9 * 86400, "9 days")],
)
async def test_a_long_pause_is_told_in_its_largest_unit(
    bench: MakeBench, seconds: float, told: str
) -> None:
    run = bench(TransientError("429", retry_after_s=seconds))
    ended = await run.turn()
    assert f"asks to wait {told} before" in ended.error
    assert len(run.provider.requests) == 1


@pytest.mark.parametrize("fault", [ProviderError("no"), AuthenticationError("bad key")])
async def test_faults_of_the_callers_making_are_not_retried(bench: MakeBench, fault) -> None:
    run = bench(fault)
    ended = await run.turn()
    assert ended.status == "error"
    assert len(run.provider.requests) == 1


async def test_an_overflow_leads_to_room_and_one_more_request(bench: MakeBench) -> None:
    run = bench(
        says("first answer " * 50),
        ContextOverflow("too long"),
        says("a note"),
        says("fits now"),
    )
    await run.turn("one")
    ended = await run.turn("two")
    assert (ended.status, ended.result) == ("success", "fits now")
    assert "context_reduced" in run.kinds()
    assert "two" in str(run.provider.requests[-1].messages)


async def test_a_second_overflow_in_a_row_ends_the_turn(bench: MakeBench) -> None:
    run = bench(
        says("words " * 50), ContextOverflow("big"), says("note"), ContextOverflow("still too big")
    )
    await run.turn("one")
    ended = await run.turn("two")
    assert (ended.status, ended.error) == ("error", "still too big")


async def test_kode_learns_from_a_servers_larger_token_counts(
    bench: MakeBench,
) -> None:
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


async def test_the_end_of_a_turn_is_the_last_event(bench: MakeBench) -> None:
    run = bench(calls(("touch", '{"path": "f.txt"}')), says("done"))
    await run.turn()
    assert isinstance(run.events[-1], TurnEnded)
    assert run.events[-1].files_changed[0].endswith("f.txt")
    assert len(run.of(Replied)) == 2


async def test_requests_continue_byte_for_byte_what_was_sent_before(bench: MakeBench) -> None:
    run = bench(calls(("echo", '{"text": "a"}')), says("1"), says("2"), says("3"))
    for text in ("one", "two", "three"):
        await run.turn(text)
    for before, after in zip(run.provider.requests, run.provider.requests[1:], strict=False):
        assert after.system == before.system
        assert after.tools == before.tools
        assert tuple(after.messages[: len(before.messages)]) == tuple(before.messages)


async def test_each_request_is_on_record_before_its_answer(bench: MakeBench) -> None:
    run = bench(calls(("echo", '{"text": "a"}')), says("1"), says("2"))
    await run.turn("one")
    await run.turn("two")
    entries = run.session.entries
    records = [entry for entry in entries if isinstance(entry, RequestEntry)]
    assert [record.messages for record in records] == [1, 3, 5]
    for record in records:
        following = entries[entries.index(record) + 1]
        assert isinstance(following, MessageEntry)
        assert following.role == "assistant"
    assert [record.begins_process for record in records] == [True, False, False]
    assert run.session.beginning is not None
    assert [tool["name"] for tool in run.session.beginning.tools] == [
        tool.name for tool in run.agent.tools
    ]


READ_ALOUD = '{"name": "echo", "arguments": {}}'


async def test_an_unreadable_call_is_explained_to_the_model_once(bench: MakeBench) -> None:
    run = bench(
        says(READ_ALOUD, stop="malformed_call"), calls(("echo", '{"text": "a"}')), says("a")
    )

    ended = await run.turn()

    assert (ended.status, ended.result, ended.steps) == ("success", "a", 3)
    note = run.provider.requests[1].messages[-1]
    assert note.role == "user"
    assert text_of(note) == ""
    assert "echo(text)" in note.parts[0].text
    assert run.session.turns == 1


async def test_a_model_that_falls_silent_is_asked_once_more(bench: MakeBench) -> None:
    run = bench(calls(("echo", '{"text": "a"}')), says(""), says("a"))

    ended = await run.turn()

    assert (ended.status, ended.result, ended.steps) == ("success", "a", 3)


async def test_a_silent_model_ends_the_turn_as_an_error(bench: MakeBench) -> None:
    run = bench(says(""), calls(("echo", '{"text": "a"}')), says(" "))

    ended = await run.turn()

    assert (ended.status, ended.steps) == ("error", 3)
    assert "empty answer" in (ended.error or "")


async def test_a_turn_with_only_unreadable_calls_is_no_success(bench: MakeBench) -> None:
    run = bench(*[says(READ_ALOUD, stop="malformed_call")] * 2)

    ended = await run.turn()

    assert (ended.status, ended.result, ended.steps) == ("error", "", 2)
    assert "--jinja" in (ended.error or "")
    assert "fake-1" in (ended.error or "")
    assert run.of(ToolStarted) == []


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
    task = asyncio.ensure_future(run.turn("hi"))
    await recalling.wait()
    task.cancel()

    assert (await task).status == "interrupted"
    assert [text_of(e) for e in on_disk(run.session) if isinstance(e, MessageEntry)] == ["hi"]


async def test_only_calls_cut_in_a_row_end_the_turn(bench: MakeBench) -> None:
    echo = ("echo", '{"text": "a"}')
    cut, whole = calls(echo, stop="length"), calls(echo)
    run = bench(cut, cut, whole, cut, cut, says("done"))

    assert (await run.turn()).status == "success"


async def test_spending_of_subagents_counts_for_the_budget(bench: MakeBench) -> None:
    run = bench(says("never asked"), max_budget_usd=1.5)
    run.agent.spend.rest_of_tree_usd = 1.5

    assert (await run.turn()).status == "error"
    assert run.provider.requests == []


async def test_a_text_typed_behind_the_answer_is_answered(bench: MakeBench) -> None:
    typed = ["and this?"]
    run = bench(says("first"), says("second"))
    await open_context(run.agent, run.context, "start")

    ended = await run_turn(
        run.agent,
        run.context,
        "do it",
        run.events.append,
        steering=lambda: [Text(text=typed.pop())] if typed else [],
    )

    assert ended.result == "second"
    assert [text_of(m) for m in run.provider.requests[-1].messages] == [
        "do it",
        "first",
        "and this?",
    ]


async def test_news_is_told_once_and_recorded_as_told(bench: MakeBench) -> None:
    run = bench(says("ok"), says("ok"))
    await open_context(run.agent, run.context, "start")
    run.context.news = (
        (SectionUpdateEntry(section="memory", text="Use spaces."), "It is spaces now."),
    )

    await run.turn("one")
    await run.turn("two")

    assert run.session.section_texts == {"memory": "Use spaces."}
    texts = [part.text for message in run.session.messages for part in message.parts]
    assert texts.count("It is spaces now.") == 1


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_turn_with_refused_work_is_incomplete(bench: MakeBench, allowed: bool) -> None:
    class Gate(OpenGate):
        async def judge(self, action, context):
            return Decision(outcome="allow" if allowed else "deny", reason="no")

    run = bench(calls(("touch", '{"path": "f"}')), says("done"))
    run.agent = replace(run.agent, gate=Gate())

    ended = await run.turn()

    assert ended.status == ("success" if allowed else "incomplete")
    assert [denial.tool for denial in ended.refused] == ([] if allowed else ["touch"])


async def test_a_call_of_which_one_part_only_reads_is_work(bench: MakeBench) -> None:
    class Gate(OpenGate):
        async def judge(self, action, context):
            only_reads = action.arguments["line"] == "ls"
            return replace(ALLOWED, line=Line(parts=(), only_reads=only_reads, known=True))

    @tool(effect="run", subject="line")
    async def command(context: ToolContext, line: str) -> ToolOutput:
        """Runs a line; another than `ls` is refused its changes."""
        refusals = () if line == "ls" else (Refusal(by="person", of="changes"),)
        return ToolOutput(text=line, refusals=refusals)

    @tool(effect="run", parts=lambda given: [(command, {"line": line}) for line in given["lines"]])
    async def commands(context: ToolContext, lines: list[str]) -> str:
        """Runs lines."""
        raise AssertionError("its parts run")

    run = bench(calls(("commands", '{"lines": ["ls", "make"]}')), says("done"), tools=(commands,))
    run.agent = replace(run.agent, gate=Gate())

    assert (await run.turn()).status == "incomplete"


async def test_calls_in_the_last_words_have_a_result(bench: MakeBench) -> None:
    run = bench(says("half"), calls(("touch", '{"path": "f"}')), says("ok"))
    await run.turn()

    await last_words(run.agent, run.context, "How far are you?", run.events.append)

    assert len(results_of(run.session.messages[-1])) == 1
    assert not (run.agent.place.cwd / "f").exists()


async def test_a_past_that_is_refused_twice_becomes_a_summary(
    bench: MakeBench,
) -> None:
    refused = ThinkingRefused("The server refuses what the model thought.")
    call = calls(("echo", '{"text": "hi"}'))
    # The note is asked for behind the conversation, which is refused there as well.
    run = bench(call, refused, refused, refused, says("We said hi."), says("Done."), says("Yes."))

    ended = await run.turn()

    assert (ended.status, ended.result) == ("success", "Done.")
    *_, last = run.provider.requests
    assert not any(calls_of(message) for message in last.messages)
    assert "We said hi." in "".join(part.text for part in last.messages[-1].parts)
    assert (await run.turn("go on")).status == "success"


async def test_a_summary_that_is_refused_ends_the_turn(bench: MakeBench) -> None:
    refused = ThinkingRefused("The server refuses what the model thought.")
    run = bench(refused, refused, says("a summary"), refused, says("never asked"))

    assert (await run.turn()).status == "error"
    assert len(run.provider.requests) == 4


async def test_each_pause_between_attempts_is_twice_the_last(bench: MakeBench, monkeypatch) -> None:
    monkeypatch.setattr("kode.engine.reply.FIRST_DELAY_S", 0.001)
    monkeypatch.setattr("kode.engine.reply.random.uniform", lambda least, most: 20.0)
    run = bench(*[TransientError("busy")] * 3, says("ok"))

    await run.turn()

    assert [event.delay_s for event in run.of(RetryScheduled)] == [0.02, 0.04, 0.08]


async def test_memory_sees_the_answer(bench: MakeBench) -> None:
    class Sees(NullMemory):
        async def after_turn(self, turn):
            seen.append((turn.text, turn.answer, turn.status))

    seen: list[tuple[str, str, str]] = []
    await bench(says("Hello."), memory=Sees()).turn("hi")

    assert seen == [("hi", "Hello.", "success")]


async def test_a_tool_gets_the_background_commands_of_the_agent(bench: MakeBench) -> None:
    seen: list[object] = []

    @tool(effect="read")
    async def look(context: ToolContext) -> str:
        """Look."""
        seen.append(context.background)
        return "ok"

    run = bench(calls(("look", "{}")), says("done"), tools=(look,))
    run.agent = replace(run.agent, background=BackgroundCommands())
    await run.turn()

    assert seen == [run.agent.background]


async def test_a_turn_counts_the_edits_of_an_ended_child(
    bench: MakeBench,
) -> None:
    jobs = BackgroundCommands()
    edit = ToolOutput(text="", files_changed=("/p/x.py",), agent_steps=(WorkStep(is_edit=True),))

    @tool(effect="read")
    async def work(context: ToolContext) -> str:
        """Work."""
        name = jobs.take(Ended(), context.session_id, work=lambda: edit)
        await jobs.find(name).watch
        return "ok"

    run = bench(calls(("work", "{}")), says("done"), tools=(work,))
    run.agent = replace(run.agent, background=jobs)

    ended = await run.turn()

    assert ended.files_changed == ("/p/x.py",)
    assert ended.checked == "not_since_last_edit"


class Ended:
    """A subagent in the background that ends at once: a `RunningCommand`."""

    command = "edit x.py"
    since = 0.0
    output_path = None
    untrusted = partial = ""

    def output(self) -> str:
        return ""

    async def ended(self) -> str:
        return "success"

    async def end(self) -> None:
        """Has ended."""
