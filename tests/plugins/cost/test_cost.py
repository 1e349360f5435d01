"""`kode cost`: what is printed, and which sessions are meant."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kode.errors import ConfigError, SessionError
from kode.messages import Message, Text, Usage, user_message
from kode.plugins.cost.command import main
from kode.session import log
from kode.session.entries import MessageEntry, UsageEntry, timestamp

FIRST = Usage(input_tokens=2_000, output_tokens=10)
SECOND = Usage(input_tokens=2_500, output_tokens=20, cached_tokens=2_000, cache_write_tokens=400)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return tmp_path / "kode-home"


def made(home: Path, *usages: Usage, cwd: Path | None = None, at: str = "", price: float = 0.5):
    session = log.create(home, cwd=cwd or Path.cwd(), model="m", provider="openai")
    session.append_message(user_message("hi"))
    for usage in usages:
        parts = (Text(text="ok"),)
        session.append(
            MessageEntry(
                role="assistant",
                parts=parts,
                usage=usage,
                model="m",
                cost_usd=price,
                at=at or timestamp(),
            )
        )
    session.append(UsageEntry(purpose="memory", usage=Usage(input_tokens=7), model="local"))
    session.close()
    return session.header.id


def rows(printed: str) -> list[list[str]]:
    return [line.split() for line in printed.splitlines()]


def test_a_session_is_shown_request_by_request_with_its_sum(home: Path, capsys) -> None:
    made(home, FIRST, SECOND)
    assert main([]) == 0
    shown = rows(capsys.readouterr().out)
    assert shown[2][2:] == ["uncached", "cached", "written", "output", "cost"]
    assert shown[3][2:] == ["step", "1", "2,000", "0", "0", "10", "$0.50"]
    assert shown[4][2:] == ["step", "2", "100", "2,000", "400", "20", "$0.50"]
    assert shown[5][2:] == ["memory", "7", "0", "0", "0", "?"]
    assert shown[-1] == ["total", "3", "2,107", "2,000", "400", "30", "$1.00+"]


def test_tokens_of_thinking_have_a_column_where_there_are_any(home: Path, capsys) -> None:
    made(home, FIRST, Usage(input_tokens=2_500, output_tokens=1_900, thinking_tokens=1_800))
    assert main([]) == 0
    shown = rows(capsys.readouterr().out)
    assert shown[2][-3:] == ["output", "thinking", "cost"]
    assert shown[3][-3:] == ["10", "0", "$0.50"]
    assert shown[4][-3:] == ["1,900", "1,800", "$0.50"]


def test_json_has_the_figures_as_the_server_counted_them(home: Path, capsys) -> None:
    session_id = made(home, FIRST, SECOND)
    assert main([session_id[:12], "--json", "--why"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["session"] == session_id
    assert [one["purpose"] for one in found["steps"]] == ["turn", "turn", "memory"]
    assert found["steps"][1]["cache_write_tokens"] == 400
    assert found["total"]["input_tokens"] == 4_507
    assert found["models"]["local"]["cost_usd"] is None
    assert (found["recorded"], found["breaks"]) == (False, [])


def test_a_day_a_time_and_a_project_choose_sessions(home: Path, capsys, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    last_week = timestamp((now - timedelta(days=7)).timestamp())
    old = made(home, FIRST, at=last_week)
    here = made(home, FIRST)
    other = tmp_path / "other"
    other.mkdir()
    there = made(home, SECOND, cwd=other)
    below = Path.cwd() / "below"
    below.mkdir()
    inside = made(home, SECOND, cwd=below)

    def chosen(*arguments: str) -> dict[str, int]:
        assert main([*arguments, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        return {one["session"]: one["requests"] for one in found["sessions"]}

    assert chosen("--project") == {old: 2, here: 2, inside: 2}
    assert chosen("--project", str(other)) == {there: 2}
    assert chosen("--since", "2d") == {old: 1, here: 2, there: 2, inside: 2}
    assert chosen("--since", "2d", "--project", "below") == {inside: 2}
    assert chosen("--day", "2001-01-01") == {}
    day = f"{(now - timedelta(days=7)).astimezone():%Y-%m-%d}"
    assert chosen("--day", day) == {old: 1}


def test_a_table_of_sessions_has_folders_and_a_sum(home: Path, capsys) -> None:
    made(home, FIRST)
    made(home, SECOND)
    assert main(["--since", "1h"]) == 0
    shown = rows(capsys.readouterr().out)
    assert len(shown) == 1 + 2 + 2 + 1
    assert shown[1][-1].endswith("project")
    assert shown[-1] == ["total", "4", "2,114", "2,000", "400", "30", "$1.00+"]
    assert main(["--day", "2001-01-01"]) == 0
    assert "total" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--day", "yesterday"], "takes a date like 2026-11-22, not 'yesterday'"),
        (["--since", "soon"], "or a time like 12h, 7d, 2w, not 'soon'"),
        (["--day", "0001-01-01"], "takes a date like 2026-11-22, not '0001-01-01'"),
        (["--day", "9999-12-31"], "takes a date like 2026-11-22, not '9999-12-31'"),
        (["--day", "--since", "7d"], "two ways to name a time"),
        (["--day", "--why"], "are about one session"),
        (["2026", "--project"], "are about one session"),
    ],
)
def test_a_wrong_choice_says_what_is_right(home: Path, arguments: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        main(arguments)


def test_no_session_here_says_how_to_see_others(home: Path) -> None:
    with pytest.raises(SessionError, match="session list --all"):
        main([])


def test_a_reply_without_usage_is_no_request_that_was_counted(home: Path, capsys) -> None:
    session = log.create(home, cwd=Path.cwd(), model="m", provider="openai")
    session.append_message(user_message("hi"))
    session.append_message(Message(role="assistant", parts=(Text(text="half"),), model="m"))
    session.close()
    main([session.header.id, "--json"])
    assert json.loads(capsys.readouterr().out)["steps"] == []


@pytest.mark.parametrize("why", [(), ("--why",)])
def test_a_time_that_cannot_be_read_is_shown_as_unknown(home: Path, capsys, why) -> None:
    made(home, FIRST, at="yesterday")
    assert main([*why]) == 0
    assert rows(capsys.readouterr().out)[3][:3] == ["?", "step", "1"]


def test_sessions_of_a_folder_named_in_invalid_unicode_are_found(
    home: Path, capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / os.fsdecode(b"\xff")
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system takes names in UTF-8 only")
    monkeypatch.chdir(folder)
    session_id = made(home, FIRST)
    main(["--project", "--json"])
    (found,) = json.loads(capsys.readouterr().out)["sessions"]
    assert found["session"] == session_id
