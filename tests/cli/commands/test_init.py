"""The set-up, with a server that really answers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kode.cli.commands import init
from kode.errors import UserError
from kode.providers.server import ServerAnswer
from kode.registry import PROVIDERS, provider_row
from tests.scripted_server import ScriptedServer


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(init, "local_places", tuple)
    for row in PROVIDERS:
        monkeypatch.delenv(row.url_variable or "KODE_BASE_URL", raising=False)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What the person types, in order; what was asked is put in its place."""
    answers: list[str] = []

    def answer(question: str) -> str:
        return answers.pop(0)

    monkeypatch.setattr("builtins.input", answer)
    monkeypatch.setattr("getpass.getpass", answer)
    yield answers
    assert answers == []


def reached(monkeypatch: pytest.MonkeyPatch, *answers: ServerAnswer) -> None:
    left = list(answers)
    monkeypatch.setattr("kode.providers.server.reach_server", lambda choice, *limit: left.pop(0))


ADDRESS = "a server at another address"
OK = ServerAnswer(
    url="https://api.openai.com/v1",
    state="ok",
    detail="",
    models=(provider_row("openai").default_model, "o3"),
)
REFUSED = ServerAnswer(url=OK.url, state="refused", detail="it refuses the key (HTTP 401)")


def test_a_key_that_works_takes_two_questions(
    monkeypatch: pytest.MonkeyPatch, said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    reached(monkeypatch, OK)
    said += ["OpenAI", "sk-proj-0123456789"]
    assert init.choose() == {
        "provider": "openai",
        "providers": {"openai": {"api_key": "sk-proj-0123456789"}},
    }
    assert "It works" in capsys.readouterr().out


def test_names_of_models_cannot_control_the_terminal(
    monkeypatch: pytest.MonkeyPatch, said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever has an account on the machine can listen on the port of a server."""
    names = ("a\x1b]52;c;ZXZpbA==\x07", "b")
    url = "http://127.0.0.1:8000/v1"
    found = ServerAnswer(url=url, state="ok", detail="", models=names)
    monkeypatch.setattr(init, "find_local_servers", lambda: [(provider_row("vllm"), found)])
    said += ["1", "2"]

    assert init.choose() == {"provider": "vllm", "providers": {"vllm": {"model": "b"}}}
    assert "\x1b" not in capsys.readouterr().out


def test_a_key_that_is_refused_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    reached(monkeypatch, REFUSED, OK)
    said += ["OpenAI", "sk-proj-wrong", "sk-proj-right"]
    settings = init.choose()
    assert settings is not None
    assert settings["providers"]["openai"]["api_key"] == "sk-proj-right"
    assert REFUSED.detail in capsys.readouterr().out


def test_a_key_is_taken_untested_where_nothing_can_be_reached(
    monkeypatch: pytest.MonkeyPatch, said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    reached(monkeypatch, ServerAnswer(url=OK.url, state="unreachable", detail="no route"))
    said += ["1", "sk-ant-0123456789"]
    assert init.choose() == {
        "provider": "anthropic",
        "providers": {"anthropic": {"api_key": "sk-ant-0123456789"}},
    }
    assert "no route" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "variables"),
    [
        ("bedrock", ("AWS_BEARER_TOKEN_BEDROCK", "AWS_REGION", "AWS_SECRET_ACCESS_KEY")),
        ("vertex", ("ANTHROPIC_VERTEX_PROJECT_ID", "CLOUD_ML_REGION")),
    ],
)
def test_variables_that_a_cloud_needs_are_named(
    name: str,
    variables: tuple[str, ...],
    said: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    said += [provider_row(name).shown]

    assert init.choose() == {"provider": name}
    out = capsys.readouterr().out
    assert all(variable in out for variable in variables)


def test_a_server_at_another_address_needs_no_key(said: list[str]) -> None:
    with ScriptedServer() as server:
        said += [ADDRESS, "not an address", server.openai_url]
        settings = init.choose()

    assert settings == {
        "provider": "server",
        "providers": {"server": {"base_url": server.openai_url, "model": "scripted-model"}},
    }


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
def test_an_address_needs_no_scheme(
    monkeypatch: pytest.MonkeyPatch, said: list[str], answer: str, url: str
) -> None:
    reached(monkeypatch, OK)
    said += [ADDRESS, answer, "2"]
    settings = init.choose()

    assert settings is not None
    assert [part["base_url"] for part in settings["providers"].values()] == [url]


def test_a_key_is_asked_for_where_another_address_wants_one(
    monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    reached(monkeypatch, REFUSED, OK)
    said += [ADDRESS, "https://gateway.example/v1", "key-of-another-kind", "2"]

    assert init.choose() == {
        "provider": "server",
        "providers": {
            "server": {
                "base_url": "https://gateway.example/v1",
                "api_key": "key-of-another-kind",
                "model": "o3",
            }
        },
    }


def test_the_set_up_says_what_it_writes_and_where(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    said: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KODE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    reached(monkeypatch, OK)
    said += ["OpenAI", "sk-proj-0123456789"]
    assert init.main([]) == 0
    file = tmp_path / "home" / "config.json"
    out = capsys.readouterr().out
    assert str(file) in out
    assert "sk-proj" not in out
    assert json.loads(file.read_text())["provider"] == "openai"
    assert file.stat().st_mode & 0o777 == 0o600


def only_port(monkeypatch: pytest.MonkeyPatch, server: ScriptedServer) -> None:
    place = (provider_row("llamacpp"), server.openai_url)
    monkeypatch.setattr(init, "local_places", lambda: (place,))


@pytest.mark.parametrize("answers", [{"/v1/models": {"object": "list", "data": None}}, {}])
def test_a_local_server_without_a_model_says_so(
    monkeypatch: pytest.MonkeyPatch, said: list[str], answers: dict[str, Any]
) -> None:
    with ScriptedServer() as server:
        only_port(monkeypatch, server)
        server.answers = answers
        server.loading = not answers
        said += ["1"]
        with pytest.raises(UserError, match=r"llama\.cpp has loaded no model"):
            init.choose()
