"""What the model must know is told by the next message, also of another process."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kode.memory.contract import NullMemory
from kode.messages import Text
from kode.prompts import template
from kode.session.transcript import Transcript
from tests.conversation.conftest import Killed, Open, calling, in_background, writing


def told(talk: Any) -> list[str]:
    """The notes of the person's newest message."""
    message = [one for one in talk.session.messages if one.role == "user"][-1]
    return [part.text for part in message.parts if isinstance(part, Text) and part.source == "note"]


async def edited(opened: Open) -> Any:
    """A conversation in which the model has made a file."""
    talk = await opened(writing("a.txt", "new"), {"text": "done"})
    await talk.turn("make it")
    return talk


@pytest.mark.parametrize("steps", [["undo"], ["undo", "redo"]], ids=len)
async def test_undo_and_redo_are_told_after_leaving(opened: Open, steps: list[str]) -> None:
    talk = await edited(opened)
    assert "+new" in "".join(one.text for one in talk.diffs())
    for step in steps:
        await getattr(talk, step)()
    before = list(talk.session.messages)
    await talk.close()

    again = await opened({"text": "I see"}, {"text": "yes"}, session_id=talk.session.id)
    await again.turn("go on")
    assert ["undid" in note for note in told(again)] == [step == "undo" for step in steps]
    assert again.session.messages[: len(before)] == before
    await again.turn("sure?")
    assert told(again) == []


@pytest.mark.parametrize("mode", ["ask", "plan"])
async def test_a_mode_changed_while_closed_is_told(opened: Open, mode: str) -> None:
    talk = await opened({"text": "I looked."}, mode="plan")
    await talk.turn("look")
    await talk.close()

    again = await opened({"text": "Fine."}, session_id=talk.session.id, mode=mode)
    await again.turn("go on")
    assert (template("plan") in told(again)) == (mode == "plan")
    assert len(told(again)) == 1


async def test_a_plan_edited_before_a_kill_is_told(opened: Open) -> None:
    talk = await opened({"text": "Fine."}, {"text": "Fine."})
    await talk.turn("one")
    path = talk.agent.place.plan
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("- [ ] mine")

    def die(*_: object) -> None:
        raise Killed

    talk.agent.memory.recall = die  # between the record of the plan and the message
    with pytest.raises(Killed):
        await talk.turn("two")
    await talk.close()

    again = await opened({"text": "Fine."}, session_id=talk.session.id)
    await again.turn("go on")
    assert ["mine" in note for note in told(again)] == [True]


async def test_a_job_that_ended_with_kode_is_told(opened: Open, project: Path) -> None:
    serve = calling("shell", command="touch begun; sleep 60")
    talk = await opened(serve, {"text": "it runs"}, mode="full")
    await in_background(talk, project / "begun", "serve")
    [command] = talk.commands.list_running()
    await talk.close()
    assert command.outcome == "ended with kode"

    again = await opened({"text": "I see"}, session_id=talk.session.id)
    await again.turn("go on")
    [note] = told(again)
    assert "bg1" in note
    assert "ended with kode" in note


class Reads(NullMemory):
    """Keeps what it is shown of a session that ends."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    async def before_drop(self, messages: Any, reason: Any) -> Any:
        parts = (part for message in messages for part in message.parts)
        self.shown = [part.text for part in parts if isinstance(part, Text)]
        return await super().before_drop(messages, reason)


async def test_memory_and_exports_read_what_was_undone(opened: Open) -> None:
    talk = await edited(opened)
    await talk.undo()
    memory = Reads()
    talk.agent = replace(talk.agent, memory=memory)
    path = talk.session.path
    await talk.close()

    assert "undid" in memory.shown[-1]
    *_, (message, item) = Transcript.read(path).messages
    assert (message.role, item.parts) == ("user", message.parts)
    assert "undid" in message.parts[0].text  # type: ignore[union-attr]
