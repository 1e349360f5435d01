import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kode.errors import ToolError
from kode.events import ToolOutput as OutputEvent
from kode.events import ToolStarted, silent
from kode.function_tool import parse_arguments, tool
from kode.messages import ToolCall, results_of
from kode.session.provenance import Provenance
from kode.tool import ToolContext, ToolOutput
from tests.engine.conftest import MakeBench, calls, says


async def result_of(bench: MakeBench, name: str, arguments: str) -> str:
    run = bench(calls((name, arguments)), says("ok"))
    await run.turn()
    (result,) = results_of(run.session.messages[2])
    assert result.is_error
    return result.text


async def test_an_unknown_tool_names_the_nearest_and_all(bench: MakeBench) -> None:
    text = await result_of(bench, "ecko", "{}")
    assert "Did you mean `echo`?" in text
    assert "touch" in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ('{"text": ', "not valid JSON"),
        ("[1]", "one JSON object"),
        ('{"text": NaN}', "NaN"),
        ('{"tekst": "a"}', "no parameter `tekst`"),
        ("{}", "`text` is required"),
        ('{"text": 5}', "should be a valid string"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
async def test_malformed_arguments_tell_the_model_what_is_wrong(
    bench: MakeBench, arguments: str, said: str
) -> None:
    assert said in await result_of(bench, "echo", arguments)


async def test_a_fault_in_a_tool_becomes_a_result(bench: MakeBench) -> None:
    text = await result_of(bench, "crash", "{}")
    assert "ZeroDivisionError" in text
    assert "another way" in text


async def test_calls_that_allow_it_run_side_by_side_others_alone(
    bench: MakeBench,
) -> None:
    running, most = 0, []

    async def body() -> str:
        nonlocal running
        running += 1
        most.append(running)
        await asyncio.sleep(0.01)
        running -= 1
        return "ok"

    @tool(effect="read", parallel=True)
    async def beside(context: ToolContext) -> str:
        """Reads."""
        return await body()

    @tool(effect="run")
    async def alone(context: ToolContext) -> str:
        """Runs."""
        return await body()

    run = bench(calls(("beside", ""), ("beside", ""), ("alone", ""), ("beside", "")), says("ok"))
    object.__setattr__(run.agent, "tools", (beside, alone))
    await run.turn()
    assert most == [1, 2, 1, 1]


async def test_the_key_in_use_is_masked_in_results(bench: MakeBench) -> None:
    run = bench(calls(("echo", '{"text": "sk-secret-value"}')), says("ok"))
    object.__setattr__(run.agent, "secrets", ("sk-secret-value",))
    await run.turn()
    (result,) = results_of(run.session.messages[2])
    assert result.text == "echo [redacted]"


@given(st.text(max_size=200))
def test_any_argument_text_is_an_object_or_a_tool_error(text: str) -> None:
    try:
        assert isinstance(parse_arguments(ToolCall(id="1", name="t", arguments=text)), dict)
    except ToolError as error:
        assert "t was not run" in str(error)


async def test_running_tools_progress_masks_the_key_in_use(
    bench: MakeBench,
) -> None:
    @tool(effect="run")
    async def leak(context: ToolContext) -> str:
        """Tell the key."""
        told = OutputEvent(call_id=context.call_id, text="it is sk-1\n", partial="sk-1?")
        context.emit(told)
        return "sk-1"

    run = bench(calls(("leak", "{}")), says("ok"))
    run.agent = replace(run.agent, tools=(*run.agent.tools, leak), secrets=("sk-1",))

    await run.turn()

    [told] = run.of(OutputEvent)
    assert (told.text, told.partial) == ("it is [redacted]\n", "[redacted]?")


async def test_a_repeated_call_with_the_same_result_gets_advice(
    bench: MakeBench,
) -> None:
    same = calls(("echo", '{"text": "a"}'))
    run = bench(same, same, same, same, says("done"))

    ended = await run.turn()

    texts = [results_of(r.messages[-1])[0].text for r in run.provider.requests[1:]]
    assert ended.status == "success"
    assert texts[:2] == ["echo a", "echo a"]
    assert texts[2].startswith("echo a\n\n[Call 3 of echo")
    assert texts[3].startswith("echo a\n\n[Call 4 of echo")


async def test_the_fifth_same_call_ends_the_turn_after_its_result(
    bench: MakeBench,
) -> None:
    run = bench(*[calls(("echo", '{"text": "a"}'))] * 5, says("never"))

    ended = await run.turn()

    assert ended.status == "error"
    assert "echo 5 times" in (ended.error or "")
    assert run.session.messages[-1].role == "tool"
    run.provider.replies[:] = [calls(("echo", '{"text": "a"}')), says("ok")]
    assert (await run.turn("again")).status == "success"


async def test_two_calls_that_take_turns_are_a_circle(bench: MakeBench) -> None:
    one, other = calls(("echo", '{"text": "a"}')), calls(("echo", '{"text": "b"}'))
    run = bench(*[one, other] * 5)

    ended = await run.turn()

    assert (ended.status, ended.steps) == ("error", 9)


async def test_the_same_result_after_something_new_is_no_circle(bench: MakeBench) -> None:
    checks = [calls(("fail", '{"text": "test"}'))] * 8
    edits = [calls(("echo", f'{{"text": "edit {n}"}}')) for n in range(8)]
    run = bench(*[step for pair in zip(edits, checks, strict=True) for step in pair], says("ok"))

    ended = await run.turn()

    assert ended.status == "success"
    assert not any("[Call" in result.text for m in run.session.messages for result in results_of(m))


async def test_a_label_before_an_existing_path_is_dropped(bench: MakeBench, tmp_path: Path) -> None:
    @tool(effect="read", subject="path")
    async def look(context: ToolContext, path: str) -> str:
        """Look."""
        return f"{path} {context.path}"

    (tmp_path / "a.py").touch()
    (tmp_path / "path:b.py").touch()
    (tmp_path / "b.py").touch()
    given = ("path:a.py", "path: a.py", "path:b.py", "path:c.py", "path:")
    run = bench(*[calls(("look", json.dumps({"path": path}))) for path in given], says("ok"))
    run.agent = replace(run.agent, tools=(look,))

    await run.turn()

    texts = [results_of(r.messages[-1])[0].text for r in run.provider.requests[1:]]
    meant = ("a.py", "a.py", "path:b.py", "path:c.py", "path:")
    assert texts == [f"{path} {tmp_path / path}" for path in meant]
    assert [event.subject for event in run.of(ToolStarted)] == list(meant)


async def test_a_long_text_from_outside_is_marked_in_its_file(bench: MakeBench) -> None:
    @tool(effect="none")
    async def page(context: ToolContext) -> ToolOutput:
        return ToolOutput(text="x" * 300_000, untrusted="a page")

    run = bench(calls(("page", "{}")), says("ok"), tools=(page,))
    await run.turn()
    (kept,) = run.agent.place.outputs.iterdir()
    home, folders = run.agent.place.home, (run.agent.place.cwd,)
    later = Provenance(home=home, folders=folders, source=lambda: "", emit=silent)
    assert "a page" in later.find_source([str(kept)])
