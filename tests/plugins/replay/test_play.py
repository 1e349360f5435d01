"""Replays of what only a person at the prompt does, over real parts with scripted replies."""

import asyncio
import json
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kode import paths
from kode.config import Config, load_config
from kode.conversation import Conversation, open_conversation
from kode.errors import SessionError
from kode.events import ToolStarted
from kode.messages import Refusal, results_of
from kode.permissions.gate import Answer, Question
from kode.plugins.replay.play import Replay, play
from kode.plugins.replay.recording import Recording, load
from kode.session.reading import session_path

READ: dict[str, Any] = {"calls": [{"name": "read_file", "arguments": {"path": "a.py"}}]}
DONE = {"text": "done"}
NOTE = {"match": "^This conversation is about to be shortened", "text": "A file was edited."}


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
def config(project: Path, tmp_path: Path) -> Config:
    flags = {"memory.enabled": False, "permissions.mode": "auto-edit"}
    return load_config(paths.home(), project, environ={}, flags=flags).config


@pytest.fixture
async def opened(project: Path, tmp_path: Path) -> Any:
    made: list[Conversation] = []

    async def open_with(*replies: dict[str, Any], **options: Any) -> Conversation:
        script = tmp_path / "script.json"
        script.write_text(json.dumps(replies))
        flags = {
            "provider": "scripted",
            "script": str(script),
            "permissions.mode": options.pop("mode", "auto-edit"),
            "memory.enabled": False,
        }
        loaded = load_config(paths.home(), project, environ={}, flags=flags)
        talk = await open_conversation(
            loaded,
            cwd=project,
            emit=options.pop("emit", lambda event: None),
            ask=options.pop("ask", None),
        )
        made.append(talk)
        return talk

    yield open_with
    for talk in made:
        await talk.close()


async def again(talk: Conversation, config: Config) -> Replay:
    """Ends a conversation and plays its session again."""
    session_id = talk.session.id
    assert session_id is not None
    await talk.close()
    return await replayed(load(paths.home(), session_id), config)


async def replayed(recording: Recording, config: Config) -> Replay:
    with tempfile.TemporaryDirectory() as home:
        return await play(recording, config, home=Path(home), cwd=Path(recording.header.cwd))


def differences(replay: Replay) -> list[str]:
    return [f"{one.part} {one.name}:\n{one.diff()}" for s in replay.steps for one in s.differences]


async def test_an_undo_between_two_turns(opened: Open, config: Config, project: Path) -> None:
    talk = await opened(edit("x = 1", "x = 2"), DONE, READ, DONE)
    await talk.turn("set x to 2")
    await talk.past.undo()
    await talk.turn("look again")

    replay = await again(talk, config)

    assert differences(replay) == []
    assert len(replay.steps) == 4
    assert (project / "a.py").read_text() == "x = 1\n"


async def test_an_undo_that_came_after_a_turn_without_changes(opened: Open, config: Config) -> None:
    talk = await opened(edit("x = 1", "x = 2"), DONE, READ, DONE, READ, DONE)
    await talk.turn("set x to 2")
    await talk.turn("look at it")
    await talk.past.undo()
    await talk.turn("look again")

    replay = await again(talk, config)

    assert differences(replay) == []


async def test_a_rewind_of_files_and_conversation(opened: Open, config: Config) -> None:
    talk = await opened(edit("x = 1", "x = 2"), DONE, edit("x = 1", "x = 3"), DONE, READ, DONE)
    await talk.turn("set x to 2")
    await talk.past.rewind(1, files=True, conversation=True)
    await talk.turn("set x to 3")
    await talk.turn("look again")

    replay = await again(talk, config)

    assert differences(replay) == []
    assert len(replay.steps) == 6


async def test_a_compaction_by_hand_and_its_undo(
    opened: Open, config: Config, project: Path
) -> None:
    (project / "a.py").write_text("x = 1\n" + "# a long line that fills the window\n" * 400)
    talk = await opened(READ, edit("x = 1", "x = 2"), DONE, READ, DONE, READ, DONE, NOTE)
    await talk.turn("read a.py")
    assert await talk.compact() is not None
    await talk.turn("look again")
    talk.past.undo_compaction()
    await talk.turn("and again")

    replay = await again(talk, config)

    assert differences(replay) == []
    assert len(replay.steps) == 7


async def test_a_yes_and_then_a_no_are_repeated(opened: Open, config: Config) -> None:
    asked: list[Question] = []

    async def ask(question: Question) -> Answer:
        asked.append(question)
        if len(asked) == 1:
            return Answer(choice="once")
        return Answer(choice="no", message="only below docs/")

    talk = await opened(
        edit("x = 1", "x = 2"), edit("x = 2", "x = 3"), READ, DONE, ask=ask, mode="ask"
    )
    await talk.turn("set x")

    replay = await again(talk, config)

    assert len(asked) == 2
    assert differences(replay) == []


async def test_the_persons_words_during_a_turn_are_repeated(opened: Open, config: Config) -> None:
    talk = await opened(READ, READ, DONE)
    waiting = ["be quick", "and brief"]
    await talk.turn("look", steering=lambda: [waiting.pop(0)] if waiting else [])

    replay = await again(talk, config)

    assert waiting == []
    assert differences(replay) == []
    assert len(replay.steps) == 3


async def test_a_turn_that_was_interrupted_in_a_call(opened: Open, config: Config) -> None:
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

    replay = await again(talk, config)

    assert ended.status == "interrupted"
    assert differences(replay) == []
    assert len(replay.steps) == 3


async def test_a_plan_that_was_approved(opened: Open, config: Config) -> None:
    plan = {"text": "## Plan\n\n- [ ] Set x to 2\n- [ ] Look\n"}
    talk = await opened(READ, plan, edit("x = 1", "x = 2"), DONE, mode="plan")
    await talk.turn("plan it")
    assert talk.fresh_plan
    await talk.turn(await talk.approve_plan("auto-edit"))

    replay = await again(talk, config)

    assert differences(replay) == []
    assert len(replay.steps) == 4


async def test_a_damaged_beginning_before_the_first_turn_is_not_repeated(
    opened: Open, config: Config, project: Path
) -> None:
    (project / "a.py").write_text("x = 1\n" + "# a long line that fills the window\n" * 400)
    talk = await opened(READ, DONE, READ, DONE, NOTE)
    await talk.turn("look")
    assert await talk.compact() is not None
    await talk.turn("look again")
    session_id = talk.session.id
    assert session_id is not None
    await talk.close()
    file = session_path(paths.home(), session_id)
    header, *lines = file.read_text().splitlines(keepends=True)
    first = [line for line in lines if '"type":"compaction"' in line]
    file.write_text("".join([header, *first, *lines]))
    recording = load(paths.home(), session_id)

    replay = await replayed(recording, config)

    assert len(first) == 1
    assert len(replay.steps) == 4


async def test_the_session_of_another_agent_is_refused(opened: Open) -> None:
    talk = await opened(DONE)
    await talk.turn("hello")
    session_id, path = talk.session.id, talk.session.path
    assert session_id is not None
    assert path is not None
    await talk.close()
    header, rest = path.read_text().split("\n", 1)
    of = {"agent": "Claude Code", "session": "s", "file": "f", "digest": "d"}
    path.write_text(json.dumps({**json.loads(header), "imported_from": of}) + "\n" + rest)

    with pytest.raises(SessionError, match="made by Claude Code"):
        load(paths.home(), session_id)


async def test_a_persons_no_is_played_with_their_words(opened: Open, config: Config) -> None:
    words = 'Say "wait". Do not try again before Monday'

    async def ask(question: Question) -> Answer:
        return Answer(choice="no", message=words)

    talk = await opened(edit("x = 1", "x = 2"), DONE, mode="ask", ask=ask)
    await talk.turn("set x to 2")
    kept = [one for message in talk.session.messages for one in results_of(message)]

    replay = await again(talk, config)

    assert kept[-1].refusals == (Refusal(by="person", message=words),)
    assert differences(replay) == []


async def test_no_call_of_a_record_runs(opened: Open, config: Config, project: Path) -> None:
    proof = {"calls": [{"name": "shell", "arguments": {"command": "echo ran >> proof; cat proof"}}]}
    talk = await opened(proof, edit("x = 1", "x = 2"), DONE, mode="full")
    await talk.turn("run it")
    (project / "a.py").unlink()

    replay = await again(talk, config)

    assert differences(replay) == []
    assert (project / "proof").read_text() == "ran\n"
    assert not (project / "a.py").exists()
