"""The set-up, with a server that really answers."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kode.cli.commands import init
from kode.config import Config, resolve_provider
from kode.errors import UserError
from kode.providers.reach import Reached
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


def reached(monkeypatch: pytest.MonkeyPatch, *answers: Reached) -> None:
    left = list(answers)
    monkeypatch.setattr("kode.providers.reach.reach", lambda choice: left.pop(0))


OK = Reached(
    url="https://api.openai.com/v1",
    state="ok",
    detail="",
    models=(provider_row("openai").default_model, "o3"),
)
REFUSED = Reached(url=OK.url, state="refused", detail="it refuses the key (HTTP 401)")


def test_a_key_that_works_takes_two_questions(
    monkeypatch: pytest.MonkeyPatch, said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    reached(monkeypatch, OK)
    said += ["1", "sk-proj-0123456789"]
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
    found = Reached(url=url, state="ok", detail="", models=names)
    server = init.LocalServer(row=provider_row("vllm"), reached=found)
    monkeypatch.setattr(init, "find_local_servers", lambda: [server])
    said += ["2", "2"]

    assert init.choose() == {"provider": "vllm", "providers": {"vllm": {"model": "b"}}}
    assert "\x1b" not in capsys.readouterr().out


def test_a_key_that_is_refused_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    reached(monkeypatch, REFUSED, OK)
    said += ["1", "sk-proj-wrong", "sk-proj-right"]
    settings = init.choose()
    assert settings is not None
    assert settings["providers"]["openai"]["api_key"] == "sk-proj-right"
    assert REFUSED.detail in capsys.readouterr().out


def test_three_keys_that_are_refused_are_enough(
    monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    reached(monkeypatch, REFUSED, REFUSED, REFUSED)
    said += ["1", "sk-a", "sk-b", "sk-c"]
    with pytest.raises(UserError, match="No working key"):
        init.choose()


def test_a_key_is_taken_untested_where_nothing_can_be_reached(
    monkeypatch: pytest.MonkeyPatch, said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    reached(monkeypatch, Reached(url=OK.url, state="unreachable", detail="no route"))
    said += ["1", "sk-ant-0123456789"]
    assert init.choose() == {
        "provider": "anthropic",
        "providers": {"anthropic": {"api_key": "sk-ant-0123456789"}},
    }
    assert "no route" in capsys.readouterr().out


ANOTHER_SERVICE = str(1 + sum(row.needs_key for row in PROVIDERS))


def test_an_unknown_service_becomes_a_provider_of_ones_own(said: list[str]) -> None:
    with ScriptedServer() as server:
        said += ["1", "key-of-another-kind", "99", ANOTHER_SERVICE, "nonsense", server.openai_url]
        settings = init.choose()
    assert settings == {
        "provider": "server",
        "providers": {
            "server": {
                "base_url": server.openai_url,
                "api_key": "key-of-another-kind",
                "model": "scripted-model",
            }
        },
    }
    choice = resolve_provider(Config.model_validate(settings), {})
    assert (choice.api_key, choice.model) == ("key-of-another-kind", "scripted-model")


def test_a_key_that_shows_no_service_is_asked_for_it(
    monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    row = provider_row("mistral")
    services = [one.name for one in PROVIDERS if one.needs_key]
    reached(monkeypatch, Reached(url="", state="ok", detail="", models=(row.default_model,)))
    said += ["1", "0123456789abcdef", "x", str(services.index("mistral") + 1)]

    assert init.choose() == {
        "provider": "mistral",
        "providers": {"mistral": {"api_key": "0123456789abcdef"}},
    }


def test_a_refused_key_may_be_given_to_another_service(
    monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    row = provider_row("deepseek")
    services = [one.name for one in PROVIDERS if one.needs_key]
    works = Reached(url="", state="ok", detail="", models=(row.default_model,))
    reached(monkeypatch, REFUSED, works)
    said += ["1", "sk-0123456789", "s", str(services.index("deepseek") + 1)]

    assert init.choose() == {
        "provider": "deepseek",
        "providers": {"deepseek": {"api_key": "sk-0123456789"}},
    }


def test_a_default_model_that_the_account_lacks_is_replaced(
    monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    reached(monkeypatch, Reached(url="", state="ok", detail="", models=("one", "two")))
    said += ["1", "gsk_0123456789", "2"]

    settings = init.choose()

    assert settings is not None
    assert settings["providers"]["groq"]["model"] == "two"


def test_the_address_of_an_account_at_azure_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    url = "https://mine.openai.azure.com/openai/v1"
    reached(monkeypatch, Reached(url=url, state="odd", detail="no list"))
    said += ["2", "1", "0123456789abcdef", "mine", url]

    assert init.choose() == {
        "provider": "azure",
        "providers": {"azure": {"api_key": "0123456789abcdef", "base_url": url}},
    }


@pytest.mark.parametrize(
    ("number", "name", "variables"),
    [
        ("2", "bedrock", ("AWS_BEARER_TOKEN_BEDROCK", "AWS_REGION", "AWS_SECRET_ACCESS_KEY")),
        ("3", "vertex", ("ANTHROPIC_VERTEX_PROJECT_ID", "CLOUD_ML_REGION")),
    ],
)
def test_variables_that_a_cloud_needs_are_named(
    number: str,
    name: str,
    variables: tuple[str, ...],
    said: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    said += ["2", number]

    assert init.choose() == {"provider": name}
    out = capsys.readouterr().out
    assert all(variable in out for variable in variables)


def test_a_server_at_another_address_needs_no_key(said: list[str]) -> None:
    with ScriptedServer() as server:
        said += ["3", "not an address", server.openai_url]
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
    said += ["3", answer, "2"]
    settings = init.choose()

    assert settings is not None
    assert [part["base_url"] for part in settings["providers"].values()] == [url]


@pytest.mark.parametrize("way", [["1"], ["1", "key-of-another-kind"], ["3"], ["2"]])
def test_back_leads_to_the_first_question_from_any_other(said: list[str], way: list[str]) -> None:
    demo = "4"
    said += [*way, "back", demo]
    assert init.choose() is None


def test_a_key_is_asked_for_where_another_address_wants_one(
    monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    reached(monkeypatch, REFUSED, OK)
    said += ["3", "https://gateway.example/v1", "key-of-another-kind", "2"]

    assert init.choose() == {
        "provider": "gateway",
        "providers": {
            "gateway": {
                "base_url": "https://gateway.example/v1",
                "api_key": "key-of-another-kind",
                "model": "o3",
            }
        },
    }


def test_the_address_of_a_service_is_known_as_that_service(
    monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    row = provider_row("groq")
    works = Reached(url=row.own_url, state="ok", detail="", models=(row.default_model,))
    reached(monkeypatch, works)
    said += ["3", row.own_url, "gsk_1"]

    assert init.choose() == {"provider": "groq", "providers": {"groq": {"api_key": "gsk_1"}}}


def test_a_service_is_known_by_its_key(monkeypatch: pytest.MonkeyPatch, said: list[str]) -> None:
    row = provider_row("openrouter")
    names = (row.default_model, *(f"vendor/model-{number}" for number in range(50)))
    reached(monkeypatch, Reached(url=row.own_url, state="ok", detail="", models=names))
    said += ["1", "sk-or-v1-0123456789"]

    assert init.choose() == {
        "provider": "openrouter",
        "providers": {"openrouter": {"api_key": "sk-or-v1-0123456789"}},
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
    said += ["1", "sk-proj-0123456789"]
    assert init.main([]) == 0
    file = tmp_path / "home" / "config.json"
    out = capsys.readouterr().out
    assert str(file) in out
    assert "sk-proj" not in out
    assert json.loads(file.read_text())["provider"] == "openai"
    assert file.stat().st_mode & 0o777 == 0o600


def test_each_server_that_was_looked_for_is_named_once(
    monkeypatch: pytest.MonkeyPatch, said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    nobody = (provider_row("llamacpp"), "http://127.0.0.1:9/v1")
    monkeypatch.setattr(init, "local_places", lambda: (nobody, nobody))
    said += ["4"]
    assert init.choose() is None
    assert capsys.readouterr().out.count("llama.cpp") == 1


def only_port(monkeypatch: pytest.MonkeyPatch, server: ScriptedServer) -> None:
    place = (provider_row("llamacpp"), server.openai_url)
    monkeypatch.setattr(init, "local_places", lambda: (place,))


def test_a_local_server_is_asked_whether_it_needs_a_key(
    monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    """llama.cpp with `--api-key`."""
    with ScriptedServer() as server:
        only_port(monkeypatch, server)
        server.key = "sk-local"
        said += ["2", "sk-local"]
        settings = init.choose()

    assert settings == {
        "provider": "llamacpp",
        "providers": {
            "llamacpp": {
                "base_url": server.openai_url,
                "api_key": "sk-local",
                "model": "scripted-model",
            }
        },
    }


def test_a_local_server_without_a_model_says_so(
    monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    with ScriptedServer() as server:
        only_port(monkeypatch, server)
        server.answers = {"/v1/models": {"object": "list", "data": None}}  # Ollama
        said += ["2"]
        with pytest.raises(UserError, match=r"llama\.cpp has no model loaded"):
            init.choose()


def test_a_local_server_that_loads_its_model_is_offered(
    monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    with ScriptedServer() as server:
        only_port(monkeypatch, server)
        server.loading = True
        said += ["2"]
        with pytest.raises(UserError, match=r"llama\.cpp is still loading its model"):
            init.choose()


@pytest.mark.parametrize(
    ("settings", "model"),
    [
        ({"provider": "server", "providers": {"server": {"model": "m1"}}}, "m1"),
        ({"provider": "openai"}, provider_row("openai").default_model),
        ({"provider": "server"}, "not chosen yet"),
    ],
)
def test_set_up_names_the_model_that_it_saves(
    settings: dict[str, object], model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    init.write_config(tmp_path / "home" / "config.json", settings)

    assert f"The model is {model}; /model changes it." in capsys.readouterr().out
