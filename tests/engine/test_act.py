import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kode.contracts import ToolContext
from kode.errors import ToolError
from kode.events import ToolOutput as OutputEvent
from kode.function_tool import parse_arguments, tool
from kode.messages import ToolCall, results_of
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


async def test_neighbours_that_allow_it_run_side_by_side_and_others_alone(
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


async def test_the_key_in_use_is_masked_in_what_a_tool_tells_while_it_runs(
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
