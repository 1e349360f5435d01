import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from kode import installed
from kode.cli.commands import session
from kode.cli.commands.session import draw_table
from kode.cli.screen.lines import format_when
from kode.errors import SessionError
from kode.installed import ExportFile, Plugin
from kode.session.entries import MessageEntry
from kode.session.index import Summary
from tests.cli.commands.answers import run
from tests.session.stories import new_session, plain_turn, whole_story


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("KODE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def made(home: Path, *tasks: str, cwd: Path | None = None) -> str:
    session = new_session(home, cwd)
    for task in tasks:
        plain_turn(session, task)
    session.close()
    return str(session.id)


def said(capsys: pytest.CaptureFixture[str], *argv: str, code: int = 0) -> str:
    assert run(session, argv) == code
    return capsys.readouterr().out


def test_a_task_in_the_list_controls_no_terminal(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = made(home, "a", cwd=Path.cwd())
    other = made(home, "b\x1b]0;owned\x07 \x1b[2J task")

    listed = said(capsys, "list")
    assert {mine, other} == {line.split()[0] for line in listed.splitlines()}
    assert "\x1b" not in listed


def test_list_shows_the_newest_sessions_and_names_the_flag(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(22):
        made(home, f"task {number}")

    assert len(said(capsys, "list").splitlines()) == 21
    assert "--all" in said(capsys, "list")
    assert len(said(capsys, "list", "--all").splitlines()) == 22
    assert len(json.loads(said(capsys, "list", "--json"))) == 22


def test_show_has_the_ids_that_fork_takes(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = whole_story(home)
    first = next(entry for entry in session.entries if isinstance(entry, MessageEntry))

    out = said(capsys, "show", str(session.id)[:-2])
    forked = said(capsys, "fork", str(session.id), "--at", first.id).strip()

    assert out.startswith(f"# Session {session.id}")
    assert first.id in out
    assert json.loads(said(capsys, "show", forked, "--json"))["turns"] == 1


def test_each_command_says_what_it_did(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session_id = made(home, "one", "two")

    assert "1 message kept, 3 dropped" in said(capsys, "trim", session_id, "1")
    document = json.loads(said(capsys, "export", session_id))
    assert [m["content"] for m in document["messages"]] == ["re: two"]
    with (home / "sessions" / f"{session_id}.jsonl").open("ab") as file:
        file.write(b'{"type":"mess')
    assert session_id in said(capsys, "check", code=1)
    assert "1 session fixed" in said(capsys, "check", "--repair")
    assert "no damage" in said(capsys, "check")
    assert "deleted 0 sessions" in said(capsys, "cleanup", "30")
    assert f"would delete {session_id}" in said(capsys, "cleanup", "0", "--dry-run")
    assert f"deleted {session_id}" in said(capsys, "delete", session_id)
    assert said(capsys, "list") == "No sessions yet. `kode` starts one.\n"


@pytest.mark.parametrize("command", ["show", "delete", "export", "trim 3", "fork", "check"])
def test_a_wrong_id_is_one_sentence_and_status_3(home: Path, command: str) -> None:
    name, *rest = command.split()
    with pytest.raises(SessionError, match="session 'zz'") as caught:
        run(session, [name, "zz", *rest])
    assert caught.value.exit_code == 3


def test_search_names_the_place_of_each_text_newest_first(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = made(home, "find the walrus"), made(home, "other", "no Walrus here")

    out = said(capsys, "search", "walrus")
    rows = json.loads(said(capsys, "search", "walrus", "--json"))

    found = [line.split()[0] for line in out.splitlines()[::2]]
    assert found == [second, second, first, first]
    assert "turn 2  kode" in out.splitlines()[0]
    assert [row["session"] for row in rows] == found
    assert "No message" in said(capsys, "search", "walrus", "zanzibar")


def test_a_plugins_format_is_printed_with_what_is_personal(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = ExportFile(data=b"packed", contains=["your words"])
    formats = {"text": lambda transcript: transcript.header.id, "file": lambda transcript: packed}
    tally = Plugin(name="tally", summary="counts", exports={name: name for name in formats})
    monkeypatch.setattr(installed, "enabled_plugins", lambda: (tally,))
    monkeypatch.setattr(installed, "load_part", lambda plugin, where: formats[where])
    session_id = made(home, "one")

    assert said(capsys, "export", session_id, "--format", "text") == f"{session_id}\n"
    assert run(session, ["export", session_id, "--format", "file"]) == 0
    assert capsys.readouterr() == ("packed\n", "kode: it holds your words\n")


TODAY = date(2026, 3, 5)


def summary(**more: object) -> Summary:
    values = {
        "id": "20260305-091500-3fa9c2",
        "updated_at": datetime(2026, 3, 5, 9, 15).astimezone().isoformat(),
        "cwd": "/srv/a-rather-long/path/to/some/project",
        "task": "fix the\ntest 修正する",
        "turns": 12,
        "cost_usd": 1.5,
    }
    return Summary(**{**values, **more})


@pytest.mark.parametrize(("cost_usd", "shown"), [(1.5, "$1.50"), (None, "unknown"), (0.0, "-")])
def test_a_cost_is_known_or_unknown(cost_usd: float | None, shown: str) -> None:
    line = draw_table([summary(cost_usd=cost_usd, tokens=9)], 200, today=TODAY)[1]
    assert line.split()[-2] == shown


def test_a_damaged_session_says_what_to_do() -> None:
    line = draw_table([summary(damaged=True)], 200, today=TODAY)[1]
    assert "damaged: `kode session check 20260305-091500-3fa9c2`" in line


def test_days_are_told_as_people_do() -> None:
    noon = datetime(2026, 3, 5, 12).astimezone()
    told = [format_when((noon - timedelta(days=n)).isoformat(), TODAY) for n in (0, 1, 20, 400)]
    assert told == ["today 12:00", "yesterday 12:00", "Feb 13 12:00", "2025-01-29"]
    assert format_when("nonsense", TODAY) == "?"
    assert format_when(datetime(2026, 3, 5, 12, tzinfo=UTC).isoformat(), TODAY) != "?"
