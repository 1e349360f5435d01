"""What goes with the first message: where kode works and what the project says. The system prompt
and the tools before it are the same in every folder and on every day."""

import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kode import assembly
from kode.config.load import load_config
from kode.conversation import Conversation, Settings, open_conversation
from kode.engine.context import NO_LONGER
from kode.events import Event, Notice, silent
from kode.messages import Message, Text
from kode.permissions.question import Answer, Question
from tests.scripted_server import ScriptedServer


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer([{"text": "Yes."}], repeat_last=True) as server:
        yield server


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KODE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def move_to_tomorrow(monkeypatch: pytest.MonkeyPatch) -> None:
    class Tomorrow(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(tz) + timedelta(days=1)

    monkeypatch.setattr(assembly, "datetime", Tomorrow)


async def opened(
    home: Path, cwd: Path, url: str, provider: str = "openai", session_id: str | None = None
) -> Conversation:
    cwd.mkdir(exist_ok=True)
    flags = {"provider": provider, "base_url": url, "api_key": "k", "model": "m"}
    flags |= {"context.window": 60_000}
    loaded = load_config(home, cwd, environ={}, flags=flags)
    return await open_conversation(Settings(loaded, emit=silent), cwd=cwd, session_id=session_id)


async def turn_in(talk: Conversation, *texts: str) -> str:
    for text in texts:
        ended = await talk.turn(text)
        assert ended.status == "success", ended.error
    await talk.close(interrupted=True)  # memory need not take the session in
    assert talk.session.id is not None
    return talk.session.id


def openings(message: Message) -> list[str]:
    return [p.text for p in message.parts if isinstance(p, Text) and p.source == "opening"]


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_sessions_begin_alike_in_every_folder_and_on_every_day(
    home: Path,
    tmp_path: Path,
    server: ScriptedServer,
    provider: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = server.openai_url if provider == "openai" else server.anthropic_url
    one, other = tmp_path / "one", tmp_path / "a repository"
    await turn_in(await opened(home, one, url, provider), "hello")
    (other / ".git").mkdir(parents=True)
    (other / "AGENTS.md").write_text("Use tabs.")
    move_to_tomorrow(monkeypatch)
    await turn_in(await opened(home, other, url, provider), "hello")

    first, second = (request.body.decode() for request in server.requests)
    same = first[: next(at for at, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)]
    assert '"role":"user"' in same
    assert "You are kode" in same
    assert "edit_file" in same
    assert str(one) in first[len(same) :]
    assert "Use tabs." in second[len(same) :]


async def test_a_session_resumed_another_day_is_told_only_the_day(
    home: Path, tmp_path: Path, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "AGENTS.md").write_text("Use tabs.")
    session_id = await turn_in(await opened(home, project, server.openai_url), "one")
    move_to_tomorrow(monkeypatch)

    talk = await opened(home, project, server.openai_url, session_id=session_id)
    await turn_in(talk, "two", "three")

    before, after, last = (request.json["messages"] for request in server.requests)
    assert after[1 : len(before)] == before[1:]  # the system prompt ends with memory
    assert "Use tabs." in before[1]["content"]
    assert "# Where you are" in after[-1]["content"]
    assert "Use tabs." not in after[-1]["content"]
    assert last[-1]["content"] == "three"


async def test_instructions_gone_at_resume_no_longer_count(
    home: Path, tmp_path: Path, server: ScriptedServer
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "AGENTS.md").write_text("Use tabs.")
    session_id = await turn_in(await opened(home, project, server.openai_url), "one")
    (project / "AGENTS.md").unlink()

    talk = await opened(home, project, server.openai_url, session_id=session_id)
    await turn_in(talk, "two", "three")

    *_, two, three = (m for m in talk.session.messages if m.role == "user")
    assert openings(two) == [f"# Instructions of this project\n{NO_LONGER}"]
    assert openings(three) == []


async def test_the_opening_outlasts_a_compaction_and_a_rewind(
    home: Path, tmp_path: Path, server: ScriptedServer
) -> None:
    talk = await opened(home, tmp_path / "project", server.openai_url)
    await talk.turn("one " * 5_000)
    await talk.compact()
    compacted = [text for message in talk.session.messages for text in openings(message)]
    talk.undo_compaction()
    talk.take_back_last_message()
    await turn_in(talk, "another")

    assert compacted == list(talk.context.opening.values())
    assert openings(talk.session.messages[0]) == compacted


@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")
@pytest.mark.parametrize(
    ("landlock", "is_attended", "times"), [(0, True, 1), (6, True, 1), (0, False, 2), (6, False, 0)]
)
async def test_a_person_reads_once_what_commands_lack_without_bubblewrap(
    landlock: int,
    is_attended: bool,
    times: int,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run that nobody attends says each time that there is no sandbox."""
    monkeypatch.setattr("kode.sandbox.reach.SYSTEM_PATH", "/nowhere")
    monkeypatch.setattr("kode.sandbox.launcher.landlock_version", lambda: landlock)
    flags = {"provider": "openai", "base_url": "http://127.0.0.1:9", "api_key": "k", "model": "m"}
    loaded = load_config(home, tmp_path, environ={}, flags=flags)
    events: list[Event] = []

    async def allow(question: Question) -> Answer:
        return Answer(choice="once")

    for _ in range(2):
        talk = await open_conversation(
            Settings(loaded, emit=events.append, ask=allow if is_attended else None), cwd=tmp_path
        )
        await talk.close(interrupted=True)

    notices = [event.text for event in events if isinstance(event, Notice)]
    assert [text.count("bubblewrap is not installed") for text in notices] == [1] * times
