"""What goes with the first message: where kode works and what the project says. The system prompt
and the tools before it are the same in every folder and on every day."""

import asyncio
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kode import assembly
from kode.conversation import Conversation
from kode.engine.context import NO_LONGER
from kode.events import Event, ToolFinished
from kode.messages import Message, Text
from kode.permissions.question import Answer, Question
from kode.sandbox.sandbox import Sandbox
from kode.sandbox.trial import Support
from tests.conversation.conftest import Open, calling, notices, served_by
from tests.scripted_server import ScriptedServer


def move_to_tomorrow(monkeypatch: pytest.MonkeyPatch) -> None:
    class Tomorrow(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(tz) + timedelta(days=1)

    monkeypatch.setattr(assembly, "datetime", Tomorrow)


@pytest.fixture
def flags(server: ScriptedServer) -> dict[str, Any]:
    return {"memory__enabled": True, "context__window": 60_000, **served_by(server)}


async def turn_in(talk: Conversation, *texts: str) -> str:
    for text in texts:
        ended = await talk.turn(text)
        assert ended.status == "success", ended.error
    await talk.close(interrupted=True)  # memory need not take the session in
    return talk.session.id


def openings(message: Message) -> list[str]:
    return [p.text for p in message.parts if isinstance(p, Text) and p.source == "opening"]


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_sessions_begin_alike_in_every_folder_and_on_every_day(
    opened: Open,
    tmp_path: Path,
    project: Path,
    server: ScriptedServer,
    flags: dict[str, Any],
    provider: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flags |= served_by(server, provider)
    await turn_in(await opened(**flags), "hello")
    other = tmp_path / "a repository"
    (other / ".git").mkdir(parents=True)
    (other / "AGENTS.md").write_text("Use tabs.")
    move_to_tomorrow(monkeypatch)
    await turn_in(await opened(cwd=other, **flags), "hello")

    first, second = (request.body.decode() for request in server.requests)
    same = first[: next(at for at, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)]
    assert '"role":"user"' in same
    assert "You are kode" in same
    assert "edit_file" in same
    assert str(project) in first[len(same) :]
    assert "Use tabs." in second[len(same) :]


async def test_a_session_resumed_another_day_is_told_only_the_day(
    opened: Open,
    project: Path,
    server: ScriptedServer,
    flags: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (project / "AGENTS.md").write_text("Use tabs.")
    session_id = await turn_in(await opened(**flags), "one")
    move_to_tomorrow(monkeypatch)

    await turn_in(await opened(session_id=session_id, **flags), "two", "three")

    before, after, last = (request.json["messages"] for request in server.requests)
    assert after[1 : len(before)] == before[1:]  # the system prompt ends with memory
    assert "Use tabs." in before[1]["content"]
    assert "# Where you are" in after[-1]["content"]
    assert "Use tabs." not in after[-1]["content"]
    assert last[-1]["content"] == "three"


async def test_instructions_gone_at_resume_no_longer_count(
    opened: Open, project: Path, flags: dict[str, Any]
) -> None:
    (project / "AGENTS.md").write_text("Use tabs.")
    session_id = await turn_in(await opened(**flags), "one")
    (project / "AGENTS.md").unlink()

    talk = await opened(session_id=session_id, **flags)
    await turn_in(talk, "two", "three")

    *_, two, three = (m for m in talk.session.messages if m.role == "user")
    assert openings(two) == [f"# Instructions of this project\n{NO_LONGER}"]
    assert openings(three) == []


async def test_the_opening_outlasts_a_compaction_and_a_rewind(
    opened: Open, flags: dict[str, Any]
) -> None:
    talk = await opened(**flags)
    await talk.turn("one " * 5_000)
    await talk.compact()
    compacted = [text for message in talk.session.messages for text in openings(message)]
    talk.undo_compaction()
    await talk.rewind(1, files=False, messages=True)
    await turn_in(talk, "another")

    assert compacted == list(talk.context.opening.values())
    assert openings(talk.session.messages[0]) == compacted


async def test_the_sandbox_is_tried_with_the_first_call(
    opened: Open, events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run without a call starts none of the programs that the trial takes."""
    tries: list[int] = []

    def find(sandbox: Sandbox) -> Support:
        tries.append(len(events))
        return Support("none", "")

    monkeypatch.setattr("kode.sandbox.trial.find_support", find)
    talk = await opened({"text": "Hello."}, calling("shell", command="ls"), {"text": "Done."})

    await talk.turn("Hello")
    assert tries == []
    await talk.turn("List the files.")

    assert tries[0] < next(n for n, it in enumerate(events) if isinstance(it, ToolFinished))


@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")
@pytest.mark.parametrize(
    ("landlock", "is_attended", "times"), [(0, True, 1), (6, True, 1), (0, False, 2), (6, False, 0)]
)
async def test_a_person_reads_once_what_commands_lack_without_bubblewrap(
    opened: Open,
    events: list[Event],
    landlock: int,
    is_attended: bool,
    times: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run that nobody attends says each time that there is no sandbox."""
    monkeypatch.setattr("kode.sandbox.reach.SYSTEM_PATH", "/nowhere")
    monkeypatch.setattr("kode.sandbox.launcher.landlock_version", lambda: landlock)

    async def allow(question: Question) -> Answer:
        return Answer(choice="once")

    for _ in range(2):
        talk = await opened(mode="ask", ask=allow if is_attended else None)
        await talk.start()
        talk.agent.call_announced.set()
        await asyncio.gather(*(it for it in asyncio.all_tasks() if "_try_sandbox" in repr(it)))
        await talk.close(interrupted=True)

    lacking = [text.count("bubblewrap is not installed") for text in notices(events)]
    assert lacking == [1] * times
