"""Replays of what only a person at the prompt does, over real parts with scripted replies."""

import asyncio
import json
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kode import paths
from kode.config import load_config
from kode.conversation import Conversation, open_conversation
from kode.events import ToolStarted
from kode.messages import Refusal, Text, results_of
from kode.permissions.gate import Answer, Question
from kode.plugins.replay.recording import Recording, recording_of
from kode.plugins.replay.replay import RecordedProvider, play
from kode.session.entries import RequestEntry
from kode.session.transcript import Transcript

READ: dict[str, Any] = {"calls": [{"name": "read_file", "arguments": {"path": "a.py"}}]}
DONE = {"text": "done"}
NOTE = {"match": "^This conversation is about to be shortened", "text": "A file was edited."}
LONG = "x = 1\n" + "# a long line that fills the window\n" * 400


def edit(old: str, new: str) -> dict[str, Any]:
    arguments = {"path": "a.py", "old_text": old, "new_text": new}
    return {"calls": [*READ["calls"], {"name": "edit_file", "arguments": arguments}]}


Open = Callable[..., Awaitable[Conversation]]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.py").write_text("x = 1\n")
    return folder


@pytest.fixture
def opened(project: Path, tmp_path: Path) -> Open:
    async def open_with(
        *replies: dict[str, Any],
        mode: str = "auto-edit",
        emit: Any = lambda event: None,
        ask: Any = None,
    ) -> Conversation:
        script = tmp_path / "script.json"
        script.write_text(json.dumps(replies))
        flags = {"provider": "scripted", "script": str(script), "permissions.mode": mode}
        flags |= {"memory.enabled": False}
        loaded = load_config(paths.home(), project, environ={}, flags=flags)
        return await open_conversation(loaded, cwd=project, emit=emit, ask=ask)

    return open_with


async def recorded(talk: Conversation) -> Recording:
    """The session of a conversation, which ends."""
    assert talk.session.path is not None
    await talk.close()
    return recording_of(Transcript.read(talk.session.path))


async def replayed(recording: Recording) -> RecordedProvider:
    cwd = Path(recording.header.cwd)
    config = load_config(paths.home(), cwd, environ={}, flags={"memory.enabled": False}).config
    with tempfile.TemporaryDirectory() as home:
        return await play(recording, config, home=Path(home), cwd=cwd)


async def check_same(talk: Conversation, *, steps: int) -> None:
    """Checks that the session of a conversation, which ends, is the same when it is replayed."""
    replay = await replayed(await recorded(talk))
    differences = [each for step in replay.steps for each in step.differences]
    assert [f"{each.part} {each.name}:\n{each.diff()}" for each in differences] == []
    assert (replay.notes, len(replay.steps)) == ([], steps)


async def test_an_undo_between_two_turns(opened: Open, project: Path) -> None:
    talk = await opened(edit("x = 1", "x = 2"), DONE, READ, DONE)
    await talk.turn("set x to 2")
    await talk.past.undo()
    await talk.turn("look again")

    await check_same(talk, steps=4)

    assert (project / "a.py").read_text() == "x = 1\n"


async def test_a_rewind_of_files_and_conversation(opened: Open) -> None:
    talk = await opened(edit("x = 1", "x = 2"), DONE, edit("x = 1", "x = 3"), DONE, READ, DONE)
    await talk.turn("set x to 2")
    await talk.past.rewind(1, files=True, conversation=True)
    await talk.turn("set x to 3")
    await talk.turn("look again")

    await check_same(talk, steps=6)


async def test_a_compaction_by_hand_and_its_undo(opened: Open, project: Path) -> None:
    (project / "a.py").write_text(LONG)
    talk = await opened(READ, edit("x = 1", "x = 2"), DONE, READ, DONE, READ, DONE, NOTE)
    await talk.turn("read a.py")
    assert await talk.compact() is not None
    await talk.turn("look again")
    talk.past.undo_compaction()
    await talk.turn("and again")

    await check_same(talk, steps=7)


async def test_a_request_that_did_not_fit_the_window(opened: Open, project: Path) -> None:
    (project / "a.py").write_text(LONG)
    talk = await opened(READ, READ, {"error": {"status": "overflow"}}, DONE, NOTE)
    await talk.turn("read a.py")

    await check_same(talk, steps=3)


async def test_the_persons_words_during_a_turn_are_repeated(opened: Open) -> None:
    talk = await opened(READ, READ, DONE)
    waiting = ["be quick", "and brief"]
    await talk.turn("look", steering=lambda: [Text(text=waiting.pop(0))] if waiting else [])

    await check_same(talk, steps=3)

    assert waiting == []


async def test_a_turn_that_was_interrupted_in_a_call(opened: Open) -> None:
    running = asyncio.Event()

    def emit(event: object) -> None:
        if isinstance(event, ToolStarted) and event.name == "shell":
            running.set()

    wait = {"calls": [{"name": "shell", "arguments": {"command": "sleep 30"}}, *READ["calls"]]}
    talk = await opened(wait, READ, DONE, emit=emit)
    turn = asyncio.ensure_future(talk.turn("wait"))
    await running.wait()
    turn.cancel()
    ended = await turn
    await talk.turn("go on")

    await check_same(talk, steps=3)

    assert ended.status == "interrupted"


async def test_a_plan_that_was_approved(opened: Open) -> None:
    plan = {"text": "## Plan\n\n- [ ] Set x to 2\n- [ ] Look\n"}
    talk = await opened(READ, plan, edit("x = 1", "x = 2"), DONE, mode="plan")
    await talk.turn("plan it")
    await talk.turn(await talk.approve_plan("auto-edit"))

    await check_same(talk, steps=4)


async def test_a_persons_no_is_played_with_their_words(opened: Open) -> None:
    words = 'Say "wait". Do not try again before Monday'

    async def ask(question: Question) -> Answer:
        return Answer(choice="no", message=words)

    talk = await opened(edit("x = 1", "x = 2"), DONE, mode="ask", ask=ask)
    await talk.turn("set x to 2")
    results = [result for message in talk.session.messages for result in results_of(message)]

    await check_same(talk, steps=2)

    assert results[-1].refusals == (Refusal(by="person", message=words),)


async def test_no_call_of_a_record_runs(opened: Open, project: Path) -> None:
    proof = {"calls": [{"name": "shell", "arguments": {"command": "echo ran >> proof; cat proof"}}]}
    talk = await opened(proof, edit("x = 1", "x = 2"), DONE, mode="full")
    await talk.turn("run it")
    (project / "a.py").unlink()

    await check_same(talk, steps=3)

    assert (project / "proof").read_text() == "ran\n"
    assert not (project / "a.py").exists()


async def test_a_replay_that_ends_before_the_record_is_not_identical(opened: Open) -> None:
    """In a smaller window than the recorded one a conversation is compacted."""
    talk = await opened(DONE, DONE, DONE)
    for task in ("one", "two", "three"):
        await talk.turn(task + " word" * 9_000)
    recording = await recorded(talk)
    entries = [
        replace(entry, context_window=24_000) if isinstance(entry, RequestEntry) else entry
        for entry in recording.transcript.entries
    ]
    smaller = replace(recording, transcript=replace(recording.transcript, entries=entries))

    replay = await replayed(smaller)

    assert not replay.is_same
    assert len(replay.steps) < 3
    assert "the record does not" in " ".join(replay.notes)
