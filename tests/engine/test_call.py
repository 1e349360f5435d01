import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from kode.errors import ToolError
from kode.events import ToolOutput as OutputEvent, ToolStarted, no_emit
from kode.messages import ToolCall
from kode.session.provenance import Provenance
from kode.tool import ToolContext, ToolOutput, parse_arguments, tool
from tests.engine.conftest import ECHO, MakeBench, calls, says


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("ecko", "{}", "Did you mean `echo`?"),
        ("ecko", "{}", "touch"),
        ("echo", '{"text": ', "not valid JSON"),
        ("echo", "[1]", "one JSON object"),
        ("echo", '{"text": NaN}', "NaN"),
        ("echo", '{"tekst": "a"}', "no parameter `tekst`"),
        ("echo", "{}", "`text` is required"),
        ("echo", '{"text": 5}', "should be a valid string"),
        ("echo", "[" * 100_000, "recursion limit"),
        ("crash", "{}", "ZeroDivisionError"),
    ],
)
async def test_a_call_that_cannot_run_tells_the_model_why(
    bench: MakeBench, name: str, arguments: str, text: str
) -> None:
    run = bench(calls((name, arguments)), says("ok"))
    await run.turn()
    (result,) = run.results
    assert result.is_error
    assert text in result.text


async def test_calls_that_allow_it_run_side_by_side_others_alone(bench: MakeBench) -> None:
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

    asked = calls(("beside", ""), ("beside", ""), ("alone", ""), ("beside", ""))
    await bench(asked, says("ok"), tools=(beside, alone)).turn()
    assert most == [1, 2, 1, 1]


@given(st.text(max_size=200))
def test_any_argument_text_is_an_object_or_a_tool_error(text: str) -> None:
    try:
        assert isinstance(parse_arguments(ToolCall(id="1", name="t", arguments=text)), dict)
    except ToolError as error:
        assert "t was not run" in str(error)


async def test_the_key_in_use_is_masked_in_progress_and_results(bench: MakeBench) -> None:
    @tool(effect="run")
    async def leak(context: ToolContext) -> str:
        """Tell the key."""
        told = OutputEvent(call_id=context.call_id, text="it is sk-1\n", partial="sk-1?")
        context.emit(told)
        return "sk-1"

    run = bench(calls(("leak", "{}")), says("ok"), tools=(leak,), secrets=("sk-1",))

    await run.turn()

    [told] = run.of(OutputEvent)
    assert (told.text, told.partial) == ("it is [redacted]\n", "[redacted]?")
    assert [result.text for result in run.results] == ["[redacted]"]


async def test_a_repeated_call_gets_advice_then_ends_the_turn(bench: MakeBench) -> None:
    run = bench(*[ECHO] * 6, says("ok"))

    ended = await run.turn()

    assert (ended.status, ended.steps) == ("error", 5)
    starts = ["echo a", "echo a", "echo a\n\n[Call 3 of echo", "echo a\n\n[Call 4 of echo"]
    for result, start in zip(run.results, starts, strict=False):
        assert result.text.startswith(start)
        assert ("[Call" in result.text) == ("[Call" in start)
    assert run.session.messages[-1].role == "tool"
    assert (await run.turn("again")).status == "success"


async def test_the_same_result_after_something_new_is_no_circle(bench: MakeBench) -> None:
    checks = [calls(("fail", '{"text": "test"}'))] * 8
    edits = [calls(("echo", f'{{"text": "edit {n}"}}')) for n in range(8)]
    run = bench(*[step for pair in zip(edits, checks, strict=True) for step in pair], says("ok"))

    ended = await run.turn()

    assert ended.status == "success"
    assert not any("[Call" in result.text for result in run.results)


async def test_a_label_before_an_existing_path_is_dropped(bench: MakeBench, tmp_path: Path) -> None:
    @tool(effect="read", subject="path")
    async def look(context: ToolContext, path: str) -> str:
        """Look."""
        return f"{path} {context.path}"

    (tmp_path / "a.py").touch()
    (tmp_path / "path:b.py").touch()
    (tmp_path / "b.py").touch()
    given = ("path:a.py", "path: a.py", "path:b.py", "path:c.py", "path:")
    asked = [calls(("look", json.dumps({"path": path}))) for path in given]
    run = bench(*asked, says("ok"), tools=(look,))

    await run.turn()

    meant = ("a.py", "a.py", "path:b.py", "path:c.py", "path:")
    assert [r.text for r in run.results] == [f"{path} {tmp_path / path}" for path in meant]
    assert [event.subject for event in run.of(ToolStarted)] == list(meant)


async def test_a_long_text_from_outside_is_marked_in_its_file(bench: MakeBench) -> None:
    @tool(effect="none")
    async def page(context: ToolContext) -> ToolOutput:
        return ToolOutput(text="x" * 300_000, untrusted="a page")

    run = bench(calls(("page", "{}")), says("ok"), tools=(page,))
    await run.turn()
    (kept,) = run.agent.place.outputs.iterdir()
    home, folders = run.agent.place.home, (run.agent.place.cwd,)
    later = Provenance(home=home, folders=folders, source=lambda: "", emit=no_emit)
    assert "a page" in later.find_source([str(kept)])
