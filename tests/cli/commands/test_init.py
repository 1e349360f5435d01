"""The set-up, with a server that really answers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest

from kode.cli.commands import init
from kode.cli.screen.screen import open_screen
from kode.errors import UserError
from kode.providers.server import ServerAnswer
from kode.registry import PROVIDERS, provider_row
from tests.scripted_server import ScriptedServer

DEFAULT = provider_row("openai").default_model
OK = ServerAnswer(url="https://api.openai.com/v1", state="ok", detail="", models=(DEFAULT, "o3"))
REFUSED = ServerAnswer(url=OK.url, state="refused", detail="it refuses the key (HTTP 401)")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(init, "list_local_addresses", tuple)
    for row in PROVIDERS:
        monkeypatch.delenv(row.url_variable or "KODE_BASE_URL", raising=False)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What the person types, in order."""
    answers: list[str] = []

    async def read_line(stream: TextIO) -> str:
        return answers.pop(0)

    monkeypatch.setattr("kode.cli.screen.screen.read_line", read_line)
    monkeypatch.setattr("getpass.getpass", lambda question: answers.pop(0))
    yield answers
    assert answers == []


def choose() -> init.Settings | None:
    return init.choose_provider(open_screen())


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> list[ServerAnswer]:
    """What servers answer, in order."""
    left: list[ServerAnswer] = []
    monkeypatch.setattr("kode.providers.server.reach_server", lambda choice, *limit: left.pop(0))
    return left


def test_a_key_that_is_refused_is_asked_for_again(
    reached: list[ServerAnswer], said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    reached += [REFUSED, OK]
    said += ["OpenAI", "sk-proj-wrong", "sk-proj-right"]
    part = {"api_key": "sk-proj-right"}
    assert choose() == {"provider": "openai", "providers": {"openai": part}}
    out = capsys.readouterr().out
    assert REFUSED.detail in out
    assert "It works" in out


def test_names_of_models_cannot_control_the_terminal(
    monkeypatch: pytest.MonkeyPatch, said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever has an account on the machine can listen on the port of a server."""
    names = ("a\x1b]52;c;ZXZpbA==\x07", "b")
    found = ServerAnswer(url="http://127.0.0.1:8000/v1", state="ok", detail="", models=names)
    monkeypatch.setattr(init, "find_local_servers", lambda: [(provider_row("vllm"), found)])
    said += ["1", "2"]

    assert choose() == {"provider": "vllm", "providers": {"vllm": {"model": "b"}}}
    assert "\x1b" not in capsys.readouterr().out


def test_a_key_is_taken_untested_where_nothing_can_be_reached(
    reached: list[ServerAnswer], said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    reached += [ServerAnswer(url=OK.url, state="unreachable", detail="no route")]
    said += ["1", "sk-ant-0123456789"]
    part = {"api_key": "sk-ant-0123456789"}
    assert choose() == {"provider": "anthropic", "providers": {"anthropic": part}}
    assert "no route" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("answer", "url"),
    [
        ("192.168.1.5:8080", "http://192.168.1.5:8080"),
        ("[::1]:9000/v1", "http://[::1]:9000/v1"),
        ("workstation:8080", "http://workstation:8080"),
        ("gateway.example/v1", "https://gateway.example/v1"),
        ("8.8.8.8:8080", "https://8.8.8.8:8080"),
        ("http://gateway.example", "http://gateway.example"),
    ],
)
def test_an_address_needs_no_scheme_and_may_want_a_key(
    reached: list[ServerAnswer], said: list[str], answer: str, url: str
) -> None:
    reached += [REFUSED, OK]
    said += ["a server at another address", "not an address", answer, "key-of-another-kind", "2"]
    part = {"base_url": url, "api_key": "key-of-another-kind", "model": "o3"}
    assert choose() == {"provider": "server", "providers": {"server": part}}


def test_the_set_up_writes_a_file_for_its_owner_alone(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    reached: list[ServerAnswer],
    said: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KODE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    reached += [OK]
    said += ["OpenAI", "sk-proj-0123456789"]
    assert init.main([]) == 0
    file = tmp_path / "home" / "config.json"
    assert "sk-proj" not in capsys.readouterr().out
    assert json.loads(file.read_text())["provider"] == "openai"
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("answers", [{"/v1/models": {"object": "list", "data": None}}, {}])
def test_a_local_server_without_a_model_says_so(
    monkeypatch: pytest.MonkeyPatch, said: list[str], answers: dict[str, Any]
) -> None:
    with ScriptedServer() as server:
        place = (provider_row("llamacpp"), server.openai_url)
        monkeypatch.setattr(init, "list_local_addresses", lambda: (place,))
        server.answers, server.loading = answers, not answers
        said += ["1"]
        with pytest.raises(UserError, match="loaded no model"):
            choose()
