"""What `/context` counts, by kind."""

import pytest

from kode.engine.context import (
    context_tokens,
    fixed_tokens,
    is_compactable,
    open_context,
    window_parts,
)
from kode.engine.tokens import clip_middle, tokens_of
from kode.messages import Image, Message, Usage
from tests.engine.conftest import MakeBench, calls, says


async def test_shares_of_all_kinds_add_up_to_the_providers_count(bench: MakeBench) -> None:
    big = '{"text": "' + "x" * 4_000 + '"}'
    asked = calls(("touch", '{"path": "a.txt"}'), ("echo", big))
    usage = Usage(input_tokens=9_000, output_tokens=100)
    run = bench(asked, says("done " * 100, usage=usage))
    await open_context(run.agent, run.context, "start")
    parts = window_parts(run.context)
    assert [*parts] == ["system prompt", "tools"]
    assert context_tokens(run.context) == sum(parts.values()) > 0

    await run.turn("please")

    parts = window_parts(run.context)
    assert parts["calls and results"] > 1_000
    assert parts["conversation"] > 500
    assert context_tokens(run.context) == 9_100
    assert abs(sum(parts.values()) - 9_100) <= len(parts)


async def test_the_gain_of_a_compaction_is_counted(bench: MakeBench) -> None:
    big = '{"text": "' + "x" * 8_000 + '"}'
    run = bench(*[calls(("echo", big)) for _ in range(3)], says("done"), window=40_000)
    await run.turn()
    assert is_compactable(run.agent, run.context)


def test_the_arguments_of_a_call_count() -> None:
    few, many = calls(("echo", "{}")), calls(("echo", "x" * 4_000))
    assert tokens_of(many) - tokens_of(few) > 900


@pytest.mark.parametrize("room", [100, 1_000, 9_999])
def test_a_clipped_text_has_no_more_than_its_room(room: int) -> None:
    clipped = clip_middle("a" * 5_000 + "z" * 5_000, room)

    assert len(clipped) <= room
    assert (clipped[0], clipped[-1]) == ("a", "z")


async def test_a_picture_in_a_message_counts(bench: MakeBench) -> None:
    run = bench(says("ok"))
    await run.turn()
    before = window_parts(run.context)
    image = Image(
        name="a.png", media_type="image/png", width=2_000, height=1_000, size_bytes=9, kept_in="/a"
    )
    run.session.append_message(Message(role="user", parts=(image,)))

    assert window_parts(run.context)["conversation"] > before["conversation"]


async def test_a_window_filled_by_the_prompt_leaves_reply_room(bench: MakeBench) -> None:
    window = 16_000
    run = bench(says("the note"), says("done"), window=window)

    await run.turn("word " * (window * 19 // 20 * 4 // 5))

    last = run.provider.requests[-1]
    sent = fixed_tokens(run.context) + sum(map(tokens_of, last.messages))
    assert sent + (last.max_output_tokens or 0) <= window
