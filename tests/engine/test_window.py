"""What `/context` counts, by kind."""

from kode.engine.window import KINDS, window_of
from kode.messages import Usage
from tests.engine.conftest import MakeBench, calls, says


async def test_the_window_first_holds_the_system_prompt_and_tools(
    bench: MakeBench,
) -> None:
    from kode.engine.context import open_context

    run = bench(window=10_000)
    await open_context(run.agent, run.context, "start")
    window = window_of(run.agent, run.context)
    assert [kind for kind, _ in window.parts] == ["system prompt", "tools"]
    assert window.used == sum(tokens for _, tokens in window.parts) > 0


async def test_shares_of_all_kinds_add_up_to_the_providers_count(
    bench: MakeBench,
) -> None:
    big = '{"text": "' + "x" * 4_000 + '"}'
    run = bench(
        calls(("touch", '{"path": "a.txt"}'), ("echo", big)),
        says("done " * 100, usage=Usage(input_tokens=9_000, output_tokens=100)),
    )
    await run.turn("please")

    window = window_of(run.agent, run.context)

    parts = dict(window.parts)
    assert set(parts) <= set(KINDS)
    assert parts["files"] > 0
    assert parts["conversation"] > 500
    assert window.used == 9_100
    assert abs(sum(parts.values()) - 9_100) <= len(parts)


async def test_the_gain_of_a_compaction_is_counted(bench: MakeBench) -> None:
    big = '{"text": "' + "x" * 8_000 + '"}'
    run = bench(*[calls(("echo", big)) for _ in range(3)], says("done"), window=40_000)
    await run.turn()
    window = window_of(run.agent, run.context)
    assert window.makes_room_at == 32_000
    assert window.by_compaction > 0
