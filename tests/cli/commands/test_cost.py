"""`kode cost`: what is printed, and which sessions are meant."""

import json
from pathlib import Path

import pytest

from kode.cli.main import main
from kode.messages import Message, Text, Usage, user_message
from kode.session import log
from kode.session.entries import Header, MessageEntry, UsageEntry

FIRST = Usage(input_tokens=2_000, output_tokens=10)
SECOND = Usage(input_tokens=2_500, output_tokens=20, cached_tokens=2_000, cache_write_tokens=400)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return tmp_path / "kode-home"


def add_session(home: Path, *usages: Usage) -> str:
    session = log.create(home, Header(cwd=str(Path.cwd()), model="m", provider="openai"))
    session.append_message(user_message("hi"))
    for usage in usages:
        parts = (Text(text="ok"),)
        session.append(
            MessageEntry(role="assistant", parts=parts, usage=usage, model="m", cost_usd=0.5)
        )
    session.append_message(Message(role="assistant", parts=(Text(text="half"),), model="m"))
    session.append(UsageEntry(purpose="memory", usage=Usage(input_tokens=7), model="local"))
    session.close()
    return session.header.id


def rows(printed: str) -> list[list[str]]:
    return [line.split() for line in printed.splitlines()]


def test_a_session_is_shown_request_by_request_with_its_sum(home: Path, capsys) -> None:
    add_session(home, FIRST, SECOND)
    assert main(["cost"]) == 0
    shown = rows(capsys.readouterr().out)
    assert shown[2] == ["time", "request", "uncached", "cached", "written", "output", "cost"]
    assert shown[3][2:] == ["step", "1", "2,000", "0", "0", "10", "$0.50"]
    assert shown[4][2:] == ["step", "2", "100", "2,000", "400", "20", "$0.50"]
    assert shown[5][2:] == ["memory", "7", "0", "0", "0", "unknown"]
    assert shown[-1] == ["total", "3", "2,107", "2,000", "400", "30", "$1.00+"]


def test_json_has_the_figures_as_the_server_counted_them(home: Path, capsys) -> None:
    session_id = add_session(home, FIRST, SECOND)
    assert main(["cost", session_id[:12], "--json", "--why"]) == 0
    cost = json.loads(capsys.readouterr().out)
    assert cost["session"] == session_id
    assert [step["purpose"] for step in cost["steps"]] == ["turn", "turn", "memory"]
    assert cost["steps"][1]["cache_write_tokens"] == 400
    assert cost["total"]["input_tokens"] == 4_507
    assert cost["models"]["local"]["cost_usd"] is None
    assert cost["breaks"] == []


def test_cost_without_a_session_names_the_list(home: Path, capsys) -> None:
    assert main(["cost"]) in (1, 3)
    assert "session list --all" in capsys.readouterr().err
