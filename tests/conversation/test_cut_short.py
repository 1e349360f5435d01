"""What a crash has cut short is found by the next conversation: a task, layers."""

import asyncio
import fcntl
from pathlib import Path
from typing import Any

import pytest

from kode import paths
from kode.beneath import TEMPORARY_PREFIX
from kode.conversation import Conversation
from kode.conversation.turns import join_prompts
from kode.sandbox.sandbox import open_store, store_places
from kode.session import index
from kode.session.log import Session
from tests.conversation.conftest import Killed, notices

Events = list[Any]


async def background(talk: Conversation) -> None:
    """What is done beside the first turn, but for what never ends."""
    await talk.start()
    await asyncio.gather(*(t for t in asyncio.all_tasks() if "_remove_leftovers" in repr(t)))


async def before_its_message(talk: Conversation, text: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The session in which a turn was killed before its message was recorded."""

    async def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Conversation, "start", die)
        patch.setattr(Session, "drop_prompt", lambda _: None)
        with pytest.raises(Killed):
            await talk.turn(text)
    # A conversation that ends in good order drops what it never used.
    talk.session.loaded = True
    await talk.close()
    return talk.session.id


async def test_a_task_killed_before_it_began_is_continued(
    opened: Any, events: Events, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = await opened({"text": "Fine."})
    id = await before_its_message(talk, "fix the tests", monkeypatch)

    assert index.find_newest(talk.place.home, talk.place.cwd)[0] == id
    again = await opened({"text": "Fine."}, session_id=id)
    await again.turn("and the docs")

    assert any("fix the tests" in text for text in notices(events))
    assert again.prompts() == ["fix the tests\n\nand the docs"]


async def test_a_command_cut_short_is_named_without_arguments(
    opened: Any, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = await before_its_message(await opened(), '/goal {"text": "x"}', monkeypatch)
    await opened(session_id=id)

    (notice,) = [text for text in notices(events) if "/goal" in text]
    assert "{" not in notice


@pytest.mark.parametrize(
    ("before", "now", "sent"),
    [
        ("fix the tests", "fix the tests", "fix the tests"),
        ("/goal it adds", "/goal resume", "/goal resume"),
        ("fix the tests", "/goal it adds", "/goal it adds\n\nfix the tests"),
        ("/goals", "/goal it adds", "/goal it adds\n\n/goals"),
        ("/goal it adds\n\nfix", "/goal it adds", "/goal it adds\n\nfix"),
        ("fix\n\nand document", "and document", "fix\n\nand document"),
        ("fix", "fix\n\nand document", "fix\n\nand document"),
        ("fix", "fix it", "fix\n\nfix it"),
    ],
)
def test_a_command_stays_first_and_a_task_is_sent_once(before: str, now: str, sent: str) -> None:
    assert join_prompts(before, now) == sent


@pytest.mark.parametrize("killed", [None, "the same", "another"])
async def test_leftovers_are_looked_for_after_a_kill(
    opened: Any, tmp_path: Path, killed: str | None
) -> None:
    home = tmp_path / "kode-home"
    other, first = await opened({"text": "one"}), await opened({"text": "one"})
    for conversation in (other, first):
        await conversation.turn("Hello.")
        await conversation.close()
    left = home / "sessions" / ".kode-tmp-0123"
    left.write_text("half")
    if killed:
        session = first.session if killed == "the same" else other.session
        paths.open_mark(home, session.header.id).touch()

    again = await opened({"text": "two"}, session_id=first.session.id)
    await again.turn("Go on.")
    await background(again)
    await again.close()

    assert left.exists() == (killed is None)
    assert not list((home / "open").iterdir())


async def test_layers_of_killed_processes_go_at_every_start(opened: Any, tmp_path: Path) -> None:
    place = store_places(tmp_path / "kode-home")[0]
    living = open_store(tmp_path / "kode-home")
    abandoned = place / "layers-abandoned"
    (abandoned / "upper").mkdir(parents=True)

    talk = await opened({"text": "Fine."})
    await background(talk)

    assert not abandoned.exists()
    assert living.folder.is_dir()
    living.close()


async def test_a_file_that_another_kode_writes_stays(opened: Any) -> None:
    talk = await opened({"text": "Fine."})
    folder = paths.unfinished_folder(talk.place.home)
    folder.mkdir(parents=True, exist_ok=True)
    half = folder / f"{TEMPORARY_PREFIX}0123"
    with half.open("w") as file:  # a living writer holds its lock
        fcntl.flock(file, fcntl.LOCK_EX)
        await talk.turn("one")
        assert half.exists()
