"""A turn whose answer is to fit a schema, from inside: it stays one turn."""

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kode.conversation.structured import Insistence, form_of_schema
from kode.errors import RefusedError
from kode.events import Emit, Event, Notice, silent
from kode.messages import Message, Text, user_message
from kode.provider import ModelInfo, Request, ToolSpec
from tests.conversation.conftest import Open

NUMBER = form_of_schema({"type": "integer"}, "schema")
TOOL = ToolSpec(name="look", description="Look.", parameters={"type": "object"})


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
    limits = replace(conversation.agent.limits, max_steps=1)
    conversation.agent = replace(conversation.agent, limits=limits)

    ended = await conversation.turn("Two and two?", form=NUMBER)

    assert ended.status == "error"
    assert ended.error is not None
    assert "limit of 1 step was" in ended.error


class Server:
    """A provider that notes what it is asked, and refuses schemas when told to."""

    name, model = "server", "model"
    info = ModelInfo(context_window=1000, max_output_tokens=100)

    def __init__(self, *, refuses: bool = False) -> None:
        self.refuses = refuses
        self.asked: list[bool] = []

    async def reply(self, request: Request, emit: Emit) -> Message:
        self.asked.append(request.answer_schema is not None)
        if self.refuses and request.answer_schema is not None:
            raise RefusedError("No schemas here.")
        return user_message("4")

    async def aclose(self) -> None:
        return None


def insistence(server: Server, emit: Emit) -> Insistence:
    conversation: Any = SimpleNamespace(settings=SimpleNamespace(emit=emit))
    return Insistence(conversation, NUMBER, tuple, server, enforces=True)


async def test_only_requests_of_the_turn_are_held_to_the_schema() -> None:
    server = Server()
    held = insistence(server, silent)
    of_memory = Request(system="Summarize.", messages=(user_message("..."),))

    await held.reply(of_memory, silent)
    await held.reply(replace(of_memory, tools=(TOOL,)), silent)

    assert server.asked == [False, True]


async def test_a_refusal_is_said_once_and_not_tried_again() -> None:
    server, events = Server(refuses=True), list[Event]()
    held = insistence(server, events.append)
    request = Request(system="", messages=(user_message("..."),), tools=(TOOL,))

    await held.reply(request, silent)
    await held.reply(request, silent)

    assert server.asked == [True, False, False]
    [notice] = events
    assert isinstance(notice, Notice)
    assert "No schemas here" in notice.text


def test_an_endlessly_nested_answer_is_a_fault_of_the_answer() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        NUMBER.read("[" * 100_000)
