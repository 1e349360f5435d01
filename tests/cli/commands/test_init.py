"""The set-up, with a server that really answers."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kode.cli.commands import init
from kode.cli.commands.diagnosis import Reached
from kode.errors import UserError
from tests.scripted_server import ScriptedServer


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(init, "LOCAL_SERVERS", ())
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


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


def reached(monkeypatch: pytest.MonkeyPatch, *answers: Reached) -> None:
    left = list(answers)
    monkeypatch.setattr("kode.cli.commands.diagnosis.reach", lambda choice: left.pop(0))


OK = Reached(url="https://api.openai.com/v1", state="ok", detail="", models=("gpt-5", "o3"))
REFUSED = Reached(url=OK.url, state="refused", detail="it refuses the key (HTTP 401)")


def test_a_key_that_works_takes_two_questions(
    monkeypatch: pytest.MonkeyPatch, said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    reached(monkeypatch, OK)
    said += ["1", "sk-proj-0123456789"]
    assert init.choose() == {"provider": "openai", "api_key": "sk-proj-0123456789"}
    assert "It works" in capsys.readouterr().out


def test_the_names_of_a_server_s_models_do_not_control_the_terminal(
    monkeypatch: pytest.MonkeyPatch, said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever has an account on the machine can listen on the port of a server."""
    names = ("a\x1b]52;c;ZXZpbA==\x07", "b")
    url = "http://127.0.0.1:8000/v1"
    found = Reached(url=url, state="ok", detail="", models=names)
    server = init.LocalServer(name="vLLM", reached=found)
    monkeypatch.setattr(init, "find_local_servers", lambda: [server])
    said += ["2", "2"]

    assert init.choose() == {"provider": "openai", "base_url": url, "model": "b"}
    assert "\x1b" not in capsys.readouterr().out


def test_a_key_that_is_refused_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    reached(monkeypatch, REFUSED, OK)
    said += ["1", "sk-proj-wrong", "sk-proj-right"]
    settings = init.choose()
    assert settings is not None
    assert settings["api_key"] == "sk-proj-right"
    assert "it refuses the key (HTTP 401)" in capsys.readouterr().out


def test_three_keys_that_are_refused_are_enough(
    monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    reached(monkeypatch, REFUSED, REFUSED, REFUSED)
    said += ["1", "sk-a", "sk-b", "sk-c"]
    with pytest.raises(UserError, match="No working key"):
        init.choose()


def test_without_a_network_the_key_is_taken_as_it_is(
    monkeypatch: pytest.MonkeyPatch, said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    reached(monkeypatch, Reached(url=OK.url, state="unreachable", detail="no route"))
    said += ["1", "sk-ant-0123456789"]
    assert init.choose() == {"provider": "anthropic", "api_key": "sk-ant-0123456789"}
    assert "Could not test it (no route)" in capsys.readouterr().out


def test_a_compatible_service_is_asked_for_its_models(said: list[str]) -> None:
    with ScriptedServer() as server:
        said += ["1", "key-of-another-kind", "nonsense", server.openai_url]
        settings = init.choose()
    assert settings == {
        "provider": "openai",
        "api_key": "key-of-another-kind",
        "base_url": server.openai_url,
        "model": "scripted-model",
    }


def test_a_server_at_another_address_needs_no_key(said: list[str]) -> None:
    with ScriptedServer() as server:
        said += ["2", "192.168.1.5:8080", server.openai_url]
        settings = init.choose()

    assert settings == {
        "provider": "openai",
        "base_url": server.openai_url,
        "model": "scripted-model",
    }


def test_a_server_at_another_address_that_wants_a_key_is_given_one(
    monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    reached(monkeypatch, REFUSED, OK)
    said += ["2", "https://gateway.example/v1", "key-of-another-kind", "2"]

    assert init.choose() == {
        "provider": "openai",
        "base_url": "https://gateway.example/v1",
        "api_key": "key-of-another-kind",
        "model": "o3",
    }


def test_a_service_is_known_by_its_key(monkeypatch: pytest.MonkeyPatch, said: list[str]) -> None:
    names = tuple(f"vendor/model-{number}" for number in range(50))
    url = "https://openrouter.ai/api/v1"
    reached(monkeypatch, Reached(url=url, state="ok", detail="", models=names))
    said += ["1", "sk-or-v1-0123456789", "model-7", "vendor/model-7"]
    settings = init.choose()
    assert settings is not None
    assert (settings["base_url"], settings["model"]) == (url, "vendor/model-7")


def test_the_set_up_says_what_it_writes_and_where(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    said: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KODE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    reached(monkeypatch, OK)
    said += ["1", "sk-proj-0123456789"]
    assert init.main([]) == 0
    file = tmp_path / "home" / "config.json"
    out = capsys.readouterr().out
    assert f"saved in {file} (only you can read it)" in out
    assert "sk-proj" not in out
    assert json.loads(file.read_text())["provider"] == "openai"
    assert file.stat().st_mode & 0o777 == 0o600


def test_each_server_that_was_looked_for_is_named_once(
    monkeypatch: pytest.MonkeyPatch, said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    nobody = 9
    monkeypatch.setattr(init, "LOCAL_SERVERS", (("llama.cpp", nobody), ("llama.cpp", nobody)))
    said += ["3"]
    assert init.choose() is None
    assert "(no local server answered: looked for llama.cpp)" in capsys.readouterr().out


def only_port(monkeypatch: pytest.MonkeyPatch, server: ScriptedServer) -> None:
    monkeypatch.setattr(init, "LOCAL_SERVERS", (("Local", server.port),))


def test_a_local_server_that_lists_its_model_to_anybody_is_asked_whether_it_needs_a_key(
    monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    """llama.cpp with `--api-key`."""
    with ScriptedServer() as server:
        only_port(monkeypatch, server)
        server.key = "sk-local"
        said += ["2", "sk-local"]
        settings = init.choose()

    assert settings == {
        "provider": "openai",
        "base_url": server.openai_url,
        "api_key": "sk-local",
        "model": "scripted-model",
    }


def test_a_local_server_without_a_model_says_so(
    monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    with ScriptedServer() as server:
        only_port(monkeypatch, server)
        server.answers = {"/v1/models": {"object": "list", "data": None}}  # Ollama
        said += ["2"]
        with pytest.raises(UserError, match="Local has no model loaded"):
            init.choose()


def test_a_local_server_that_loads_its_model_is_offered(
    monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    with ScriptedServer() as server:
        only_port(monkeypatch, server)
        server.loading = True
        said += ["2"]
        with pytest.raises(UserError, match="Local is still loading its model"):
            init.choose()
