"""A cassette of somebody else: what its calls, its answers and its live model may reach."""

import hashlib
import json
import subprocess
import zipfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kode import paths
from kode.config import Config, load_config
from kode.contracts import ModelInfo, Provider, Request
from kode.conversation import Conversation, open_conversation
from kode.errors import ConfigError
from kode.events import Emit
from kode.messages import Message, Text, ToolCall, results_of
from kode.permissions.gate import Answer, Question
from kode.plugins.replay.agent import Changes
from kode.plugins.replay.cassette import open_cassette, pack
from kode.plugins.replay.play import Replay, play
from kode.plugins.replay.played import Live
from kode.plugins.replay.recording import load
from kode.plugins.replay.scratch import scratch
from kode.providers.models import info_of
from kode.session.entries import MessageEntry
from tests.needs import needs

THEIRS, MINE = "what the stranger has", "what only the victim has"
DONE = {"text": "done"}

Record = Callable[..., Awaitable[Path]]


def reads(path: Path | str) -> dict[str, Any]:
    return {"calls": [{"name": "read_file", "arguments": {"path": str(path)}}]}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.py").write_text("x = 1\n")
    return folder


@pytest.fixture
def config(project: Path) -> Config:
    flags = {"provider": "scripted", "script": "unused.json", "memory.enabled": False}
    return load_config(paths.home(), project, environ={}, flags=flags).config


@pytest.fixture
async def record(project: Path, tmp_path: Path) -> Record:
    async def yes(question: Question) -> Answer:
        return Answer(choice="once")

    async def run(*replies: dict[str, Any], mode: str = "ask") -> Path:
        """The cassette of one turn, in which the person said yes to everything."""
        script = tmp_path / "script.json"
        script.write_text(json.dumps(replies))
        flags = {
            "provider": "scripted",
            "script": str(script),
            "permissions.mode": mode,
            "memory.enabled": False,
        }
        loaded = load_config(paths.home(), project, environ={}, flags=flags)
        talk: Conversation = await open_conversation(
            loaded, cwd=project, emit=lambda event: None, ask=yes
        )
        await talk.turn("read it")
        session_id = talk.session.id
        assert session_id is not None
        await talk.close()
        file = tmp_path / "theirs.cassette"
        file.write_bytes(pack(load(paths.home(), session_id)).data)
        return file

    return run


async def played(
    cassette: Path, config: Config, project: Path, changes: Changes | None = None
) -> Replay:
    with open_cassette(cassette) as recording, scratch(recording, project) as copy:
        return await play(recording, config, copy, changes)


def seen(replay: Replay) -> str:
    """All that a report of a replay could show."""
    return "\n".join(one.diff() for step in replay.steps for one in step.differences)


class Model:
    """A live model that makes these calls, then ends; it keeps what it was sent."""

    name, model = "live", "live-1"

    def __init__(self, *calls: ToolCall) -> None:
        self._left: list[Sequence[ToolCall]] = [(call,) for call in calls]
        self.sent: list[str] = []

    @property
    def info(self) -> ModelInfo:
        return info_of(self.model)

    async def reply(self, request: Request, emit: Emit) -> Message:
        self.sent.append(repr(request.messages))
        calls = self._left.pop(0) if self._left else ()
        return Message(
            role="assistant",
            parts=calls or (Text(text="done"),),
            stop="tool_calls" if calls else "end",
        )

    async def aclose(self) -> None:
        pass


def live(model: Provider, step: int) -> Changes:
    return Changes(live=Live(provider=model, step=step))


@pytest.mark.parametrize("mode", [pytest.param("ask", marks=pytest.mark.slow), "full"])
@pytest.mark.parametrize("name", ["elsewhere/notes.txt", "elsewhere/.env", "project/.env"])
async def test_a_strangers_permission_to_read_does_not_hold_here(
    record: Record, config: Config, project: Path, tmp_path: Path, mode: str, name: str
) -> None:
    secret = tmp_path / name
    secret.parent.mkdir(exist_ok=True)
    secret.write_text(THEIRS)
    theirs = await record(reads(secret), DONE, mode=mode)
    secret.write_text(MINE)
    model = Model()

    replay = await played(theirs, config, project)
    await played(theirs, config, project, live(model, 2))

    assert MINE not in seen(replay)
    assert MINE not in "".join(model.sent)
    assert replay.steps[0].answered == ["read_file"]


async def test_a_cassette_holds_nothing_of_files_with_keys(record: Record, project: Path) -> None:
    (project / ".env").write_text("A=1\nWORDS=correct horse battery staple\n")
    edit = {"path": ".env", "old_text": "A=1", "new_text": "A=2"}
    cassette = await record(
        reads(".env"), {"calls": [{"name": "edit_file", "arguments": edit}]}, DONE
    )

    with zipfile.ZipFile(cassette) as file:
        contents = [file.read(name) for name in file.namelist() if name.startswith("contents/")]
    assert contents == []


@pytest.mark.parametrize("mode", [pytest.param("ask", marks=pytest.mark.slow), "full"])
@pytest.mark.parametrize("name", ["elsewhere/notes.txt", "project/.env"])
async def test_a_live_model_reads_no_more_than_the_copy(
    record: Record, config: Config, project: Path, tmp_path: Path, mode: str, name: str
) -> None:
    theirs = await record(reads("a.py"), DONE, mode=mode)
    secret = tmp_path / name
    secret.parent.mkdir(exist_ok=True)
    secret.write_text(MINE)
    model = Model(
        ToolCall(id="live1", name="read_file", arguments=json.dumps({"path": str(secret)}))
    )

    await played(theirs, config, project, live(model, 2))

    assert len(model.sent) == 2
    assert MINE not in "".join(model.sent)


async def test_a_live_call_is_its_own_despite_a_recorded_id(
    record: Record, config: Config, project: Path, tmp_path: Path
) -> None:
    """Many servers count: `call_1`. The answer that a person gave then is not about this call."""
    theirs = await record(reads("a.py"), DONE)
    with open_cassette(theirs) as recording:
        results = [
            r for e in recording.entries if isinstance(e, MessageEntry) for r in results_of(e)
        ]
    (project / "b.py").write_text("of the copy\n")
    model = Model(
        ToolCall(id=results[0].call_id, name="read_file", arguments='{"path": "b.py"}'),
    )

    await played(theirs, config, project, live(model, 2))

    assert "of the copy" in model.sent[-1]


async def test_a_live_models_files_are_not_judged_outside_a_sandbox(
    record: Record, config: Config, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = await record(reads("a.py"), DONE)
    monkeypatch.setattr("kode.sandbox.deferred.DeferredSandbox.layered", lambda self: False)
    changes = Changes(live=Live(provider=Model(), step=2), needs_sandbox=True)

    with pytest.raises(ConfigError, match="--verify"):
        await played(theirs, config, project, changes)


@needs("git")
async def test_a_strangers_repository_in_the_copy_moves_no_branch(
    record: Record, config: Config, project: Path
) -> None:
    def git(*arguments: str) -> str:
        person = ("-c", "user.name=n", "-c", "user.email=e@x")
        done = subprocess.run(
            ["git", *person, *arguments], cwd=project, check=True, capture_output=True, text=True
        )
        return done.stdout

    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "one")
    edit = {"path": "a.py", "old_text": "x = 1", "new_text": "x = 2"}
    theirs = await record(
        reads("a.py"), {"calls": [{"name": "edit_file", "arguments": edit}]}, DONE
    )
    git("commit", "-qam", "two")
    mine = f"{project}/.git\n".encode()
    state = hashlib.sha256(mine).hexdigest()
    with zipfile.ZipFile(theirs) as file:
        held = {name: file.read(name) for name in file.namelist()}
    change = {"kind": "change", "turn": 1, "path": f"{project}/.git/commondir", "before": state}
    held["changes.jsonl"] = json.dumps({**change, "done": True}).encode()
    held[f"contents/{state}"] = mine
    with zipfile.ZipFile(theirs, "w") as file:
        for name, data in held.items():
            file.writestr(name, data)
    before = git("rev-parse", "HEAD")

    await played(theirs, config, project)

    assert git("rev-parse", "HEAD") == before


async def test_a_link_that_a_cassette_plants_is_not_written_through(
    record: Record, project: Path, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    state = hashlib.sha256((project / "a.py").read_bytes()).hexdigest()
    with open_cassette(await record(DONE)) as recording, scratch(recording, project) as copy:
        theirs = str(Path(recording.project) / "a.py")

        assert copy.set(theirs, f"link:{victim}", 0o644)
        assert copy.set(theirs, state, 0o644)

        planted = copy.in_copy(theirs)
        assert planted is not None
        assert not planted.is_symlink()
        assert planted.read_bytes() == (project / "a.py").read_bytes()
    assert victim.read_text() == "mine"
