"""A turn whose answer is to fit a schema, from inside: it stays one turn."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from kode.conversation.structured import form_of_schema
from kode.errors import RefusedError
from kode.events import Emit, Event, Notice
from kode.messages import Message, Text
from kode.provider import Request
from tests.conversation.conftest import Open

NUMBER = form_of_schema({"type": "integer"}, "schema")


async def test_a_request_for_a_fitting_answer_belongs_to_the_turn(opened: Open) -> None:
    conversation = await opened({"text": "Four."}, {"text": "four"}, {"text": "4"}, {"text": "ok"})

    ended = await conversation.turn("Two and two?", form=NUMBER)

    assert (ended.status, ended.structured, ended.steps) == ("success", 4, 3)
    assert conversation.session.turns == 1
    assert conversation.prompts() == ["Two and two?"]
    assert (await conversation.turn("Thanks")).result == "ok"


async def test_words_of_the_person_come_before_the_next_try(opened: Open) -> None:
    conversation = await opened({"text": "Four."}, {"text": "5"})
    said = ["I meant two and three"]

    def steering() -> Sequence[Text]:
        taken = [Text(text=text) for text in said]
        said.clear()
        return taken

    ended = await conversation.turn("Two and two?", steering=steering, form=NUMBER)

    assert (ended.structured, ended.steps) == (5, 2)


async def test_the_limits_of_a_turn_hold_for_its_further_tries(opened: Open) -> None:
    conversation = await opened({"text": "Four."}, {"text": "4"})
    config = replace(conversation.config, max_steps=1)
    conversation.agent = replace(conversation.agent, config=config)

    ended = await conversation.turn("Two and two?", form=NUMBER)

    assert ended.status == "error"
    assert "limit of 1 step was" in ended.error


async def test_a_refused_schema_is_said_once_and_not_tried_again(
    opened: Open, events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation = await opened({"text": "Four."}, {"text": "four"}, {"text": "4"}, {"text": "ok"})
    provider, asked = conversation.agent.provider, list[bool]()
    answer = type(provider).reply

    async def reply(self: Any, request: Request, emit: Emit) -> Message:
        asked.append(request.answer_schema is not None)
        if request.answer_schema is not None:
            raise RefusedError("No schemas here.")
        return await answer(self, request, emit)

    monkeypatch.setattr(type(provider), "reply", reply)
    ended = await conversation.turn("Two and two?", form=NUMBER)
    await conversation.turn("Thanks")

    assert (ended.structured, asked) == (4, [False, True, False, False, False])
    said = [event.text for event in events if isinstance(event, Notice)]
    assert sum("No schemas here" in text for text in said) == 1


def test_an_endlessly_nested_answer_is_a_fault_of_the_answer() -> None:
    with pytest.raises(ValueError, match="not JSON"):
        NUMBER.read("[" * 100_000)
