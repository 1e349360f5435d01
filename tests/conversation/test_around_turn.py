"""What a plug-in does around turns, and a slash command of it in a plain conversation."""

from typing import Any

import pytest

from kode.errors import UserError
from kode.messages import text_of

VERIFY = "test -f done.txt"
GOAL = f'/goal make "it" right --verify {VERIFY}'


async def test_a_goal_stands_word_for_word_after_a_compaction(opened: Any) -> None:
    long = "more " * 5_000
    replies = ("One.", long, "Three.", "Note.", long, "Six.", "Note.")
    talk = await opened(*({"text": reply} for reply in replies))
    talk.gate.state.mode = "plan"
    await talk.turn(GOAL)
    beginning = talk.session.system
    assert 'make "it" right' not in beginning
    assert 'Goal: make "it" right' in text_of(talk.session.messages[0])
    await talk.turn("more")
    await talk.turn("then")
    assert await talk.compact() is not None
    assert 'Goal: make "it" right' in talk.session.system
    assert f"\n    {VERIFY}\n" in talk.session.system
    await talk.turn("/goal stop")
    await talk.turn("more")
    await talk.turn("then")
    assert await talk.compact() is not None
    assert talk.session.system == beginning


async def test_a_slash_command_without_a_prompt_asks_no_model(opened: Any) -> None:
    talk = await opened()
    assert "goal" in talk.list_offered()
    ended = await talk.turn("/goal")
    assert (ended.status, ended.steps) == ("success", 0)
    assert "/goal" in ended.result


async def test_an_unknown_slash_command_is_no_task(opened: Any) -> None:
    talk = await opened({"text": "Full."})
    with pytest.raises(UserError, match=r"Did you mean /goal\?"):
        await talk.turn("/gaol stop")
    assert not talk.session.messages
    assert (await talk.turn("/tmp/log is full")).result == "Full."
