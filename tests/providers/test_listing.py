"""What all configured providers offer, with servers that really answer."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kode.config.model import Config
from kode.errors import UserError
from kode.providers.models import info_of
from kode.providers.server import Listing, Offer, find_model
from kode.registry import provider_row
from tests.scripted_server import ScriptedServer
from tests.tables import for_each


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as server:
        yield server


def provider(name: str, model: str) -> Any:
    return SimpleNamespace(name=name, model=model, info=info_of(model))


def two(server: ScriptedServer) -> Config:
    own = {"base_url": server.openai_url, "api_key": "k-own", "model": "scripted-model"}
    further = {"base_url": server.openai_url, "headers": {"x-team": "blue"}}
    return Config.model_validate({"provider": "own", "providers": {"own": own, "more": further}})


def listed(server: ScriptedServer, *names: str) -> None:
    server.answers = {"/v1/models": {"data": [{"id": name} for name in names]}}


def test_every_configured_provider_is_asked_current_one_first(
    server: ScriptedServer,
) -> None:
    listed(server, "a", "b")

    own, more = Listing({}).offers(two(server), provider("own", "scripted-model"))

    assert (own.provider, own.models, own.is_listed) == ("own", ("scripted-model", "a", "b"), True)
    assert (more.provider, more.models, more.is_listed) == ("more", ("a", "b"), True)


def test_a_server_is_asked_once_in_a_while(server: ScriptedServer) -> None:
    listed(server, "a")
    listing, config = Listing({}), two(server)

    listing.offers(config, provider("own", "a"))
    asked = len(server.questions)
    listing.offers(config, provider("own", "a"))

    assert len(server.questions) == asked


def test_completion_asks_only_servers_of_ones_own() -> None:
    environ = {"GROQ_API_KEY": "gsk_x"}
    config = Config(provider="groq")

    (offer,) = Listing(environ).offers(config, provider("groq", "kimi"), ask=False)

    assert not offer.is_listed
    row = provider_row("groq")
    assert row is not None
    assert offer.models[:2] == ("kimi", row.default_model)


def test_a_provider_that_cannot_be_used_says_why() -> None:
    config = Config.model_validate({"provider": "ollama", "providers": {"mistral": {}}})

    offers = Listing({}).offers(config, provider("ollama", "qwen3"), ask=False)

    problems = {offer.provider: offer.problem for offer in offers}
    assert problems["ollama"] == ""
    assert "MISTRAL_API_KEY" in problems["mistral"]


def test_a_key_and_headers_go_to_their_own_provider_only(server: ScriptedServer) -> None:
    listed(server, "a")

    Listing({}).offers(two(server), provider("own", "a"))

    asked = [
        (one.headers.get("authorization"), one.headers.get("x-team")) for one in server.questions
    ]
    assert set(asked) == {("Bearer k-own", None), (None, "blue")}


OWN = Offer(provider="groq", models=("openai/gpt-oss-20b",), is_listed=True)
OPENAI = Offer(provider="openai", models=("gpt-5", "gpt-5-mini"), is_listed=True)
FURTHER = Offer(provider="together", models=("kimi", "gpt-5-mini"), is_listed=True)
ENVIRON = {"GROQ_API_KEY": "g", "OPENAI_API_KEY": "o", "TOGETHER_API_KEY": "t"}


@for_each(
    ("typed", "found"),
    [
        ("openai/gpt-oss-20b", ("groq", "openai/gpt-oss-20b")),
        ("openai/gpt-5", ("openai", "gpt-5")),
        ("groq/openai/gpt-oss-20b", ("groq", "openai/gpt-oss-20b")),
        ("gpt-5", ("openai", "gpt-5")),
        ("kimi", ("together", "kimi")),
        ("never-heard-of", ("groq", "never-heard-of")),
        ("together/never-heard-of", ("together", "never-heard-of")),
    ],
)
def test_the_lists_decide_whose_model_is_meant(typed: str, found: tuple[str, str]) -> None:
    row = provider_row("groq")
    assert row is not None
    config = Config(provider="groq")

    assert find_model((OWN, OPENAI, FURTHER), config, row, typed, ENVIRON) == found


def test_an_ambiguous_model_needs_the_name_of_its_provider() -> None:
    row = provider_row("groq")
    assert row is not None
    with pytest.raises(UserError, match="openai/gpt-5-mini, together/gpt-5-mini"):
        find_model((OWN, OPENAI, FURTHER), Config(provider="groq"), row, "gpt-5-mini", ENVIRON)


def test_only_a_server_with_a_list_lacks_a_model() -> None:
    assert OWN.lacks("a")
    assert not OWN.lacks("openai/gpt-oss-20b")
    assert not Offer(provider="groq", models=("a",)).lacks("b")
