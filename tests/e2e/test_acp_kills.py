"""kode is killed while an editor is connected: nothing recorded is lost, the editor gets an error
and no silence, and load shows the same afterwards.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.command import Place
from tests.e2e.editor import Editor, editor
from tests.scripted_server import ScriptedServer

WRITE = {"name": "write_file", "arguments": {"path": "a.txt", "content": "one\n"}}
LISTED = {"name": "list_files", "arguments": {}}
WAIT = {"name": "shell", "arguments": {"command": "echo begun; exec sleep 60"}}

STREAM = [{"text": "word " * 400, "wire": {"chunk_delay_s": 0.1}}]
LONG = [
    {"text": "I look.", "calls": [LISTED]},
    {"text": "I write.", "calls": [WRITE]},
    {"text": "I look again.", "calls": [LISTED]},
    {"text": "All is done."},
]


def in_a_stream(client: Editor) -> object:
    return "word" in client.said()


def in_a_call(client: Editor) -> object:
    return "begun" in str(client.of("tool_call_update"))


def in_a_question(client: Editor) -> object:
    return client.asked


def after_updates(number: int) -> Callable[[Editor], object]:
    return lambda client: len(client.updates) >= number


@pytest.mark.sampled(of=3)
@pytest.mark.parametrize(
    ("script", "holds"),
    [
        pytest.param(STREAM, in_a_stream, id="in a stream"),
        pytest.param([{"text": "Now.", "calls": [WAIT]}], in_a_call, id="in a call"),
        pytest.param([{"text": "Now.", "calls": [WRITE]}], in_a_question, id="in a question"),
        *(
            pytest.param(LONG, after_updates(number), id=f"after {number} updates")
            for number in (2, 3, 5, 8, 11, 14)
        ),
    ],
)
async def test_everything_recorded_before_a_kill_is_loaded_after_it(
    place: Place,
    server: ScriptedServer,
    script: list[dict[str, Any]],
    holds: Callable[[Editor], object],
) -> None:
    server.play(script)
    async with editor(place, "--no-memory") as client:
        client.holds_questions = holds is in_a_question
        session = await client.open()
        turn = asyncio.ensure_future(client.prompt(session, "do it"))
        await client.until(lambda: holds(client) or turn.done())
        client.process.kill()
        ended = (await asyncio.gather(turn, return_exceptions=True))[0]
        assert isinstance(ended, ConnectionError) or ended.stop_reason == "end_turn"

    server.play([{"text": "On we go."}])
    async with editor(place, "--no-memory") as again:
        await again.agent.load_session(cwd=str(place.project), session_id=session, mcp_servers=[])
        loaded = list(again.updates)
        await again.prompt(session, "go on")

    assert again.said("user_message_chunk") == "do it"
    sent = json.dumps([update for _, update in loaded])
    for number, begun in enumerate(client.of("tool_call")):
        assert begun["toolCallId"] in sent, "a call that was shown was recorded before"
        call = client.call(number)
        ids = [one["toolCallId"] for one in again.of("tool_call")]
        after = again.call(ids.index(call["toolCallId"]))
        assert after["rawInput"] == call["rawInput"]
        if call["status"] == "completed":
            assert after["status"] == "completed"
            assert after["content"] == call["content"]
        else:
            assert after["status"] in ("failed", "completed")
    assert again.said().endswith("On we go.")


def recorded(place: Place) -> str:
    return "".join(path.read_text() for path in place.session_files)
