"""Readers by themselves, with many more damaged files than there is time for commands: what comes
out is a value or one sentence that names the file.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from kode.cli.prompt.editor import open_history
from kode.errors import SessionError, UserError
from kode.prompts.agents_files import MAX_BYTES, read_agents_files
from kode.session import index, log
from kode.session.messages import visible_messages
from kode.subagents.task import Snapshot, Task, memory_text, parse_file_content
from tests.effort import EVERYTHING
from tests.faults.damage import damaged, limit_examples
from tests.faults.place import Place
from tests.session.stories import assert_sendable, whole_story

pytestmark = pytest.mark.timeout(1800 if EVERYTHING else 600)
EXAMPLES = limit_examples(1500, 60)


def read_task(path: Path) -> None:
    parse_file_content(Task, path.read_bytes(), path.name)


def read_snapshot(path: Path) -> None:
    memory_text(parse_file_content(Snapshot, path.read_bytes(), path.name).sections).encode()


READERS: dict[str, tuple[bytes, Callable[[Path], object]]] = {
    "task.json": (
        b'{"goal": "look", "context": "all of it", "permission_mode": "plan", "model": "m"}\n',
        read_task,
    ),
    "snapshot.json": (
        b'{"version": 1, "system": "tiered", "created_at": "2026-03-01T12:00:00Z", '
        b'"sections": [{"title": "User Profile", "content": "Likes tabs"}]}\n',
        read_snapshot,
    ),
}


@pytest.mark.parametrize("name", READERS)
@EXAMPLES
@given(data=st.data())
def test_a_file_is_read_or_refused_by_name(tmp_path: Path, name: str, data: st.DataObject) -> None:
    valid, read = READERS[name]
    path = tmp_path / name
    path.write_bytes(data.draw(damaged(valid)))
    try:
        read(path)
    except UserError as error:
        assert name in str(error)
        assert len(str(error)) < 2_000


@EXAMPLES
@given(text=damaged("Use tabs — größer.\n@docs/more.md\n".encode()))
def test_agents_files_are_bounded_and_whole_text(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "AGENTS.md").write_bytes(text)

    read = read_agents_files(tmp_path, None)

    assert len(read.section.encode()) <= MAX_BYTES * 3 + 1_000
    assert not text.strip() or read.sources or read.warning or not read.section


# ── sessions ─────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def session_file(tmp_path: Path) -> Path:
    session = whole_story(tmp_path)
    assert session.path is not None
    return session.path


@EXAMPLES
@given(data=st.data())
def test_a_session_is_always_sendable_and_listed(session_file: Path, data: st.DataObject) -> None:
    home, copy = session_file.parents[1], session_file.with_suffix(".whole")
    if not copy.exists():
        copy.write_bytes(session_file.read_bytes())
    session_file.write_bytes(data.draw(damaged(copy.read_bytes())))

    assert [summary.id for summary in index.list_sessions(home)] == [session_file.stem]
    try:
        _, entries, faults = log.read(session_file)
    except SessionError as error:
        assert "newer" in str(error)
        return
    visible_messages(entries)
    session, _ = log.load(home, session_file.stem)
    session.close()
    assert_sendable(session.messages)
    assert not session.messages or session.messages[0].role == "user"
    for fault in faults:
        assert session_file.stem in fault


def test_a_ten_megabyte_line_costs_no_more_than_its_length(session_file: Path) -> None:
    with session_file.open("ab") as file:
        file.write(b'{"type":"message","role":"user","parts":"' + b"x" * 10_000_000 + b'"}\n')

    _, entries, faults = log.read(session_file)

    assert entries
    assert "damaged line" in faults[0]
    assert index.list_sessions(session_file.parents[1])[0].task.startswith("look")


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00+14:00", "2026-13-45", "x" * 1000])
def test_an_invalid_time_hides_nothing_from_a_list(session_file: Path, at: str) -> None:
    lines = session_file.read_text().splitlines()
    last = {**json.loads(lines[-1]), "at": at}
    session_file.write_text("\n".join([*lines[:-1], json.dumps(last)]) + "\n")

    (summary,) = index.list_sessions(session_file.parents[1])

    assert summary.updated_at


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "America/St_Johns", "UTC+14", "Mars/X", ""])
def test_no_zone_stands_in_the_way(tmp_path: Path, zone: str) -> None:
    place = Place(tmp_path / "place", extra={"TZ": zone})
    whole_story(place.home)

    listed = place.kode("session", "list", "--all")

    assert (listed.code, listed.err) == (0, "")
    assert "look" in listed.out
    assert "2  $0.50" in listed.out
    assert place.kode("memory", "log").code == 0


# ── the history of the prompt ────────────────────────────────────────────────────────────────

HISTORY = "\n# 2026-03-01 12:00:00\n+fix the tests\n\n# 2026-03-01 12:01:00\n+größer\n".encode()


@EXAMPLES
@given(content=damaged(HISTORY))
def test_a_damaged_prompt_history_is_read_and_continued(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "real").mkdir(exist_ok=True)
    if not (tmp_path / "home").exists():
        (tmp_path / "home").symlink_to(tmp_path / "real")  # a home may be a link
    path = tmp_path / "home" / "history"
    path.write_bytes(content)

    opened = open_history(path)
    list(opened.load_history_strings())
    opened.store_string("new one")

    assert next(iter(opened.load_history_strings())) == "new one"
    assert path.read_bytes().startswith(content)
