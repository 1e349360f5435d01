"""Readers by themselves, with many more damaged files than there is time for commands: what comes
out is a value or one sentence that names the file.
"""

import asyncio
import json
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kode.cli.prompt.editor import open_history
from kode.cli.screen.output import event_object
from kode.cli.screen.printer import to_json
from kode.config.load import load_config
from kode.config.model import Subagent
from kode.credentials import redact
from kode.engine.agent import Spend
from kode.errors import ConfigError, SessionError, UserError
from kode.events import Event
from kode.prompts.agents_files import MAX_BYTES, read_agents_files
from kode.providers.scripted import load_script
from kode.session import index, log
from kode.session.messages import visible_messages
from kode.subagents.parent import ChildProcess, Delegation
from kode.subagents.task import Snapshot, Start, Task, memory_text, parse_file
from tests.effort import EVERYTHING
from tests.faults.damage import Bytes, damaged
from tests.session.stories import assert_sendable, whole_story

pytestmark = pytest.mark.timeout(1800 if EVERYTHING else 600)
EXAMPLES = settings(
    max_examples=1500 if EVERYTHING else 60,
    deadline=None,
    derandomize=not EVERYTHING,
    database=None,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)

TASK = b'{"goal": "look", "context": "all of it", "permission_mode": "plan", "model": "m"}\n'
SNAPSHOT = (
    b'{"version": 1, "system": "tiered", "created_at": "2026-03-01T12:00:00Z", '
    b'"sections": [{"title": "User Profile", "content": "Likes tabs"}]}\n'
)
SCRIPT = b'[{"text": "Hi", "calls": [{"name": "shell", "arguments": {"command": "ls"}}]}]'
CONFIG = json.dumps(
    {
        "provider": "openai",
        "max_steps": 20,
        "permissions": {"mode": "ask", "allow": ["shell(ls:*)"]},
        "prices": {"m": {"input": 1, "output": 4}},
        "providers": {"openai": {"api_key": "${HOME}"}},
        "memory": {"facts_limit_user": 10, "embedding": {"dims": 64}},
    },
    indent=1,
).encode()


@EXAMPLES
@given(damaged(TASK))
def test_a_task_file_is_read_or_refused_in_one_sentence(task: Bytes) -> None:
    try:
        parse_file(Task, task.data, "t.json")
    except UserError as error:
        assert "t.json" in str(error)


@EXAMPLES
@given(damaged(SNAPSHOT))
def test_a_snapshot_is_read_or_refused_in_one_sentence(snapshot: Bytes) -> None:
    try:
        memory_text(parse_file(Snapshot, snapshot.data, "s.json").sections).encode()
    except UserError as error:
        assert "s.json" in str(error)


@EXAMPLES
@given(script=damaged(SCRIPT))
def test_a_script_is_read_or_refused_in_one_sentence(tmp_path: Path, script: Bytes) -> None:
    path = tmp_path / "script.json"
    path.write_bytes(script.data)
    try:
        load_script(path)
    except ConfigError as error:
        assert "script.json" in str(error)


@EXAMPLES
@given(config=damaged(CONFIG))
def test_a_config_is_read_or_refused_by_name_and_place(tmp_path: Path, config: Bytes) -> None:
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    (home / "config.json").write_bytes(config.data)
    try:
        load_config(home, tmp_path, environ={"HOME": "x"}, flags={})
    except ConfigError as error:
        assert "config.json" in str(error)
        assert len(str(error)) < 2_000


@EXAMPLES
@given(text=damaged("Use tabs — größer.\n@docs/more.md\n".encode()))
def test_agents_files_are_bounded_and_whole_text(tmp_path: Path, text: Bytes) -> None:
    (tmp_path / "AGENTS.md").write_bytes(text.data)

    read = read_agents_files(tmp_path, None)

    assert len(read.section.encode()) <= MAX_BYTES * 3 + 1_000
    assert not text.data.strip() or read.sources or read.warning or not read.section


@EXAMPLES
@given(data=st.data())
def test_a_session_is_always_sendable_and_listed(tmp_path: Path, data: st.DataObject) -> None:
    home = tmp_path / "home"
    session = whole_story(home) if not home.exists() else None
    valid = tmp_path / "valid"
    if session is not None:
        assert session.path is not None
        valid.write_bytes(session.path.read_bytes())
        (tmp_path / "name").write_text(str(session.path))
    path = Path((tmp_path / "name").read_text())
    path.write_bytes(data.draw(damaged(valid.read_bytes())).data)

    listed = index.list_sessions(home)

    assert [summary.id for summary in listed] == [path.stem]
    try:
        _, entries, faults = log.read(path)
    except SessionError as error:
        assert "newer" in str(error)
        return
    visible_messages(entries)
    session, _ = log.load(home, path.stem)
    session.close()
    assert_sendable(session.messages)
    assert not session.messages or session.messages[0].role == "user"
    for fault in faults:
        assert path.stem in fault


@EXAMPLES
@given(st.one_of(damaged(b"OPENAI_API_KEY=sk-proj-0123456789abcdef0123456789\n"), damaged(CONFIG)))
def test_masking_credentials_takes_any_text(text: Bytes) -> None:
    redact(text.data.decode("utf-8", "surrogateescape")[:20_000])


def test_a_session_of_a_clock_that_was_ahead_comes_last(tmp_path: Path) -> None:
    home = tmp_path / "home"
    ahead, now = whole_story(home), whole_story(home)
    assert ahead.path is not None
    assert now.path is not None
    next_year = time.time() + 365 * 86_400
    os.utime(ahead.path, (next_year, next_year))

    assert index.newest(home, home)[0] == now.id
    assert [summary.id for summary in index.list_sessions(home)] == [now.id, ahead.id]


def test_a_ten_megabyte_line_costs_no_more_than_its_length(tmp_path: Path) -> None:
    home = tmp_path / "home"
    session = whole_story(home)
    assert session.path is not None
    with session.path.open("ab") as file:
        file.write(b'{"type":"message","role":"user","parts":"' + b"x" * 10_000_000 + b'"}\n')

    _, entries, faults = log.read(session.path)

    assert entries
    assert "damaged line" in faults[0]
    assert index.list_sessions(home)[0].task.startswith("look")


@pytest.mark.parametrize(
    "at", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-13-45", "x" * 1000]
)
def test_an_invalid_time_hides_nothing_from_a_list(tmp_path: Path, at: str) -> None:
    home = tmp_path / "home"
    session = whole_story(home)
    assert session.path is not None
    lines = session.path.read_text().splitlines()
    last = {**json.loads(lines[-1]), "at": at}
    session.path.write_text("\n".join([*lines[:-1], json.dumps(last)]) + "\n")

    (summary,) = index.list_sessions(home)

    assert summary.updated_at


CHILD_LINES = b"\n".join(
    [
        b'{"type":"tool_started","name":"shell","subject":"ls"}',
        b'{"type":"replied","message":{"parts":[{"type":"text","text":"I look."}]}}',
        b'{"type":"used","usage":{"input_tokens":5,"output_tokens":1},"cost_usd":0.1,"steps":1}',
        b'{"type":"result","status":"success","summary":"Looked.","error":null,'
        b'"files_changed":["a.py"],"tokens_used":5,"steps":1,"parent_session":null}',
        b"",
    ]
)


def child_of_garbage(folder: Path, shown: list[Event]) -> ChildProcess:
    def no_start() -> Start:
        raise AssertionError("no child is started")

    agent: Any = SimpleNamespace(spend=Spend(), place=SimpleNamespace(outputs=folder))
    session: Any = SimpleNamespace(id=None)
    delegation = Delegation(
        folder=folder,
        session=session,
        agent=lambda: agent,
        limits=Subagent(),
        environment={},
        start=no_start,
        ask=None,
        record=lambda usage, cost_usd: None,
        free=asyncio.Semaphore(1),
    )
    return ChildProcess(delegation, 0, Task(goal="look"), folder, emit=shown.append)


@EXAMPLES
@given(said_by_child=damaged(CHILD_LINES))
def test_a_child_that_writes_garbage_is_counted_and_nothing_else(
    tmp_path: Path, said_by_child: Bytes
) -> None:
    shown: list[Event] = []
    child = child_of_garbage(tmp_path, shown)

    for line in said_by_child.data.split(b"\n"):
        child.take(line)

    for event in shown:
        to_json(event_object(event)).encode()
    if child.result is not None:
        child.report(100).encode()
    spend = child.delegation.agent().spend
    assert 0 <= spend.cost_usd < float("inf")
    assert spend.steps >= 0


HISTORY = (
    "\n# 2026-03-01 12:00:00\n+fix the tests\n\n# 2026-03-01 12:01:00\n+größer\n+💡\n".encode()
)


@EXAMPLES
@given(found=damaged(HISTORY))
def test_a_damaged_prompt_history_is_read_and_continued(tmp_path: Path, found: Bytes) -> None:
    path = tmp_path / "home" / "history"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(found.data)

    opened = open_history(path)
    list(opened.load_history_strings())
    opened.store_string("new one")

    assert next(iter(opened.load_history_strings())) == "new one"
    assert path.read_bytes().startswith(found.data)


def test_a_home_behind_a_link_has_a_history(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "home").symlink_to(tmp_path / "real")

    open_history(tmp_path / "home" / "history").store_string("kept")

    assert b"+kept" in (tmp_path / "real" / "history").read_bytes()
