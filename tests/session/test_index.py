import json
from pathlib import Path

import pytest

from kode import paths
from kode.errors import SessionError, UserError
from kode.messages import Message, Text, user_message
from kode.session import index, log, upkeep
from kode.session.entries import Header, RewindEntry, SystemEntry
from tests.session.stories import new_session, plain_turn, session_of, story


def test_a_list_shows_subjects_with_the_last_used_first(tmp_path: Path) -> None:
    older = session_of(tmp_path, "fix  the\ntests", age_s=100)
    newer = session_of(tmp_path, "add a flag")

    summaries = index.list_sessions(tmp_path)

    assert [(s.id, s.task, s.turns) for s in summaries] == [
        (newer, "add a flag", 1),
        (older, "fix the tests", 1),
    ]
    assert (summaries[0].cost_usd, summaries[0].tokens) == (0.5, 15)
    assert summaries[0].updated_at >= summaries[0].created_at


def test_a_later_copy_makes_no_session_newer(tmp_path: Path) -> None:
    restored = session_of(tmp_path, "old")
    path = paths.session_file(tmp_path, restored)
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    for line in lines[1:]:
        line["at"] = "2020-01-01T00:00:00.000Z"
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    newer = session_of(tmp_path, "new", age_s=3600)

    summaries = index.list_sessions(tmp_path, limit=2)

    assert [s.id for s in summaries] == [newer, restored]
    assert summaries[1].updated_at.startswith("2020-01-01")


def test_a_list_of_a_directory_has_only_its_sessions(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    (tmp_path / "link").symlink_to(here)
    mine = session_of(tmp_path, "a", cwd=here)
    session_of(tmp_path, "b", cwd=there)

    for folder in (here, tmp_path / "link"):
        assert [s.id for s in index.list_sessions(tmp_path, cwd=folder)] == [mine]


@pytest.mark.parametrize("of_an_older_kode", [False, True])
def test_a_list_reads_no_more_files_than_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_an_older_kode: bool
) -> None:
    for age_s in reversed(range(30)):
        session_of(tmp_path, f"task {age_s}", age_s=age_s)
    if of_an_older_kode:
        (paths.sessions_folder(tmp_path) / index.ORDER).unlink()
    read: list[Path] = []
    original = index.summarize_session

    def counting(path: Path, cwd: Path | None) -> index.Summary | None:
        read.append(path)
        return original(path, cwd)

    monkeypatch.setattr(index, "summarize_session", counting)

    summaries = index.list_sessions(tmp_path, limit=5)

    assert [s.task for s in summaries] == [f"task {age_s}" for age_s in range(5)]
    assert len(read) <= 7


def test_figures_of_a_long_session_come_from_its_two_ends(tmp_path: Path) -> None:
    session = story(tmp_path, SystemEntry(sections={"kode": "s" * 20_000}), is_open=True)
    plain_turn(session, "the task")
    for number in range(30):
        plain_turn(session, f"{number} " + "x" * 3000)
    session.append_message(user_message("unfinished"))
    session.close()

    (summary,) = index.list_sessions(tmp_path)

    assert (summary.task, summary.turns) == ("the task", 32)


def test_turns_without_an_end_count_unless_they_were_taken_back(tmp_path: Path) -> None:
    steps = ("user one", "answer 1", "user two " + "x" * 400_000)
    session = story(tmp_path, *steps, is_open=True)
    assert index.list_sessions(tmp_path)[0].turns == 2
    session.append(RewindEntry(to=session.entries[-1].id))
    session.close()

    assert index.list_sessions(tmp_path)[0].turns == 1


@pytest.mark.parametrize("data", [b"", b"\0" * 100, b"garbage", b'{"type":"session"', b"[]\n{}\n"])
def test_a_damaged_file_is_in_the_list_and_marked(tmp_path: Path, data: bytes) -> None:
    damaged = session_of(tmp_path, "x", age_s=5)
    paths.session_file(tmp_path, damaged).write_bytes(data)
    good = session_of(tmp_path, "y")

    summaries = {s.id: s.damaged for s in index.list_sessions(tmp_path)}

    assert summaries == {damaged: True, good: False}
    assert {s.id for s in index.list_sessions(tmp_path, cwd=tmp_path)} == {damaged, good}


def test_files_of_another_kind_are_no_sessions(tmp_path: Path) -> None:
    session_id = session_of(tmp_path, "x")
    folder = paths.sessions_folder(tmp_path)
    (folder / "index.json").write_text("{nonsense")
    (folder / f"{session_id}.jsonl.torn").write_text("x")
    (folder / "notes.jsonl").write_text("{}")
    (folder / session_id).mkdir()
    (folder / "20200101-000000-abcdef.jsonl").mkdir()

    assert [s.id for s in index.list_sessions(tmp_path)] == [session_id]
    assert index.list_sessions(tmp_path / "nowhere") == []


def test_the_newest_session_is_the_last_with_a_turn(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    mine = session_of(tmp_path, "x", cwd=here, age_s=50)
    session_of(tmp_path, "elsewhere")
    child = log.create(tmp_path, Header(cwd=str(here), model="m", provider="openai", parent=mine))
    plain_turn(child, "a subtask")
    child.close()
    unused = new_session(tmp_path, here)

    assert index.find_newest(tmp_path, here)[0] == mine
    unused.close()
    with pytest.raises(SessionError, match="no session of"):
        index.find_newest(tmp_path, tmp_path / "other")


@pytest.mark.parametrize("begin", ["why does this fail?\n", 'a "quote" \\ and \u00e9\u4fee\u6b63 '])
def test_a_long_first_task_is_shown_by_its_beginning(tmp_path: Path, begin: str) -> None:
    hint, log = Text(text='a "hint"', source="memory"), "log \u00e9\n" * 40_000
    story(tmp_path, Message(role="user", parts=(hint, Text(text=begin + log))))

    (summary,) = index.list_sessions(tmp_path)

    assert summary.task.startswith(" ".join(begin.split()) + " log \u00e9 log")
    assert len(summary.task) == index.TASK_CHARS


@pytest.mark.parametrize("is_rewound", [False, True])
@pytest.mark.parametrize("turns_after", [0, 1])
def test_the_last_name_is_in_the_list(tmp_path: Path, turns_after: int, is_rewound: bool) -> None:
    session = story(tmp_path, "user fix it", is_open=True)
    for name in ("first", "login  page"):
        session.give_name(name)
        for number in range(turns_after):
            plain_turn(session, f"{number} " + "x" * 80_000)
    if is_rewound:
        session.append(RewindEntry(to=session.entries[1].id))
    session.close()

    (summary,) = index.list_sessions(tmp_path)

    assert (summary.name, summary.title) == ("login-page", "login-page · fix it")
    assert index.find_session(tmp_path, "login page") == summary.id


def test_a_name_of_two_sessions_is_refused_with_both(tmp_path: Path) -> None:
    sessions = [story(tmp_path, f"user {task}", is_open=True) for task in "ab"]
    for session in sessions:
        session.give_name("login-page")
        session.close()
    ids = sorted(str(session.id) for session in sessions)

    with pytest.raises(SessionError, match=rf"2 sessions are called .*{ids[1]}, {ids[0]}.*Give"):
        index.find_session(tmp_path, "login-page")
    with pytest.raises(SessionError, match=r"Did you mean login-page\?"):
        index.find_session(tmp_path, "login-pgae")


def test_a_fork_leaves_the_name_to_the_other(tmp_path: Path) -> None:
    session = story(tmp_path, "user a", is_open=True)
    session.give_name("login-page")
    session.close()

    fork = upkeep.fork_session(tmp_path, str(session.id))

    assert index.find_session(tmp_path, "login-page") == session.id
    assert {s.id: s.name for s in index.list_sessions(tmp_path)}[fork] == ""


@pytest.mark.parametrize("name", ["20260305", "3fa9c2", "", "-x", "x" * 61])
def test_a_name_is_no_part_of_an_id(name: str) -> None:
    with pytest.raises(UserError, match="such as login-page"):
        index.name_from(name)


def test_additions_by_memory_are_not_taken_for_the_task(tmp_path: Path) -> None:
    hint = Text(text="facts", source="memory")
    texts = [(hint,), (hint, Text(text="the task"))]
    story(tmp_path, *(Message(role="user", parts=parts) for parts in texts))

    summary = index.list_sessions(tmp_path)[0]

    assert (summary.task, summary.turns) == ("the task", 1)


def test_a_session_is_found_by_any_unique_beginning(tmp_path: Path) -> None:
    mine = session_of(tmp_path, "x")

    assert {index.find_session(tmp_path, mine[:length]) for length in (4, len(mine))} == {mine}
    other = session_of(tmp_path, "y")
    for prefix, reason in (
        ("20", f"2 sessions start with '20'(?s:.*){min(mine, other)}"),
        ("20", max(mine, other)),
        (mine[:-1] + "z", f"Did you mean {mine}"),
        ("", "no session ''"),
        ("../../etc/passwd", "no session"),
    ):
        with pytest.raises(SessionError, match=reason):
            index.find_session(tmp_path, prefix)
