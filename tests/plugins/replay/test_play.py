"""Replays of what only a person at the prompt does, over real parts with scripted replies."""

import asyncio
import json
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from kode import paths
from kode.config.load import load_config
from kode.conversation import Settings, open_conversation
from kode.events import ToolStarted
from kode.messages import Refusal, Text, results_of
from kode.permissions.question import Answer
from kode.plugins.replay.recording import make_recording
from kode.plugins.replay.replay import replay_recording
from kode.session.entries import RequestEntry
from kode.session.transcript import Transcript

READ = {"calls": [{"name": "read_file", "arguments": {"path": "a.py"}}]}
DONE = {"text": "done"}
NOTE = {"match": "^This conversation is about to be shortened", "text": "A file was edited."}
LONG = "x = 1\n" + "# a long line that fills the window\n" * 400


def edit(old, new):
    arguments = {"path": "a.py", "old_text": old, "new_text": new}
    return {"calls": [*READ["calls"], {"name": "edit_file", "arguments": arguments}]}


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.py").write_text("x = 1\n")
    return folder


@pytest.fixture
def opened(project, tmp_path):
    async def open_with(*replies, mode="auto-edit", emit=lambda event: None, ask=None, face="kode"):
        script = tmp_path / "script.json"
        script.write_text(json.dumps(replies))
        flags = {"provider": "scripted", "script": str(script), "permissions.mode": mode}
        flags |= {"memory.enabled": False, "tool_format": face}
        loaded = load_config(paths.kode_home(), project, environ={}, flags=flags)
        return await open_conversation(Settings(loaded, emit=emit, ask=ask), cwd=project)

    return open_with


async def recorded(talk):
    """The session of a conversation, which ends."""
    await talk.close()
    return make_recording(Transcript.read(talk.session.path))


async def replayed(recording):
    cwd = Path(recording.header.cwd)
    config = load_config(paths.kode_home(), cwd, environ={}, flags={"memory.enabled": False}).config
    with tempfile.TemporaryDirectory() as home:
        return await replay_recording(recording, config, home=Path(home), cwd=cwd)


async def check_same(talk, *, steps):
    """Checks that the session of a conversation, which ends, is the same when it is replayed."""
    replay = await replayed(await recorded(talk))
    differences = [each for step in replay.steps for each in step.differences]
    assert [f"{each.part} {each.name}:\n{each.diff()}" for each in differences] == []
    assert (replay.notes, len(replay.steps)) == ([], steps)


async def test_an_undo_between_two_turns(opened, project):
    talk = await opened(edit("x = 1", "x = 2"), DONE, READ, DONE)
    await talk.turn("set x to 2")
    await talk.undo()
    await talk.turn("look again")

    await check_same(talk, steps=4)

    assert (project / "a.py").read_text() == "x = 1\n"


@pytest.mark.parametrize("face", ["patch", "editor"])
async def test_tools_as_a_model_is_trained_on_them(opened, face):
    talk = await opened(edit("x = 1", "x = 2"), DONE, face=face)
    await talk.turn("set x to 2")

    await check_same(talk, steps=2)


async def test_a_rewind_of_files_and_conversation(opened):
    talk = await opened(edit("x = 1", "x = 2"), DONE, edit("x = 1", "x = 3"), DONE, READ, DONE)
    await talk.turn("set x to 2")
    await talk.rewind(1, files=True, messages=True)
    await talk.turn("set x to 3")
    await talk.turn("look again")

    await check_same(talk, steps=6)


async def test_a_compaction_by_hand_and_its_undo(opened, project):
    (project / "a.py").write_text(LONG)
    talk = await opened(READ, edit("x = 1", "x = 2"), DONE, READ, DONE, READ, DONE, NOTE)
    await talk.turn("read a.py")
    assert await talk.compact() is not None
    await talk.turn("look again")
    talk.undo_compaction()
    await talk.turn("and again")

    await check_same(talk, steps=7)


async def test_a_request_that_did_not_fit_the_window(opened, project):
    (project / "a.py").write_text(LONG)
    talk = await opened(READ, READ, {"error": {"status": 413}}, DONE, NOTE)
    await talk.turn("read a.py")

    await check_same(talk, steps=3)


async def test_the_persons_words_during_a_turn_are_repeated(opened):
    talk = await opened(READ, READ, DONE)
    waiting = ["be quick", "and brief"]
    await talk.turn("look", steering=lambda: [Text(text=waiting.pop(0))] if waiting else [])

    await check_same(talk, steps=3)

    assert waiting == []


async def test_a_turn_that_was_interrupted_in_a_call(opened):
    running = asyncio.Event()

    def emit(event):
        if isinstance(event, ToolStarted) and event.name == "shell":
            running.set()

    wait = {"calls": [{"name": "shell", "arguments": {"command": "sleep 30"}}, *READ["calls"]]}
    talk = await opened(wait, READ, DONE, emit=emit)
    turn = asyncio.ensure_future(talk.turn("wait"))
    await running.wait()
    turn.cancel()
    assert (await turn).status == "interrupted"
    await talk.turn("go on")

    await check_same(talk, steps=3)


async def test_a_plan_that_was_approved(opened):
    plan = {"text": "## Plan\n\n- [ ] Set x to 2\n- [ ] Look\n"}
    talk = await opened(READ, plan, edit("x = 1", "x = 2"), DONE, mode="plan")
    await talk.turn("plan it")
    await talk.turn(await talk.approve_plan("auto-edit"))

    await check_same(talk, steps=4)


async def test_a_persons_no_is_played_with_their_words(opened):
    words = 'Say "wait". Do not try again before Monday'

    async def ask(question):
        return Answer(choice="no", message=words)

    talk = await opened(edit("x = 1", "x = 2"), DONE, mode="ask", ask=ask)
    await talk.turn("set x to 2")
    results = [result for message in talk.session.messages for result in results_of(message)]

    await check_same(talk, steps=2)

    assert results[-1].refusals == (Refusal(by="person", message=words),)


async def test_a_replay_that_ends_before_the_record_is_not_identical(opened):
    """In a smaller window than the recorded one a conversation is compacted."""
    talk = await opened(DONE, DONE, DONE)
    for task in ("one", "two", "three"):
        await talk.turn(task + " word" * 9_000)
    recording = await recorded(talk)
    entries = [
        replace(entry, context_window=24_000) if isinstance(entry, RequestEntry) else entry
        for entry in recording.transcript.entries
    ]
    header = replace(recording.header, model="gpt-4.1")
    changed = replace(recording.transcript, header=header, entries=entries)

    replay = await replayed(replace(recording, transcript=changed))

    assert not replay.is_same
    assert len(replay.steps) < 3
    assert "record does not" in " ".join(replay.notes)
    assert (replay.info.input_price, replay.info.output_price) == (0, 0)
