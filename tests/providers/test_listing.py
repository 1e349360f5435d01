"""What all configured providers offer, with servers that really answer."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kode.config.model import Config
from kode.providers.models import info_of
from kode.providers.server import Offer, find_offers
from kode.registry import provider_row
from tests.scripted_server import ScriptedServer


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


def test_every_configured_provider_is_asked_with_its_own_key(server: ScriptedServer) -> None:
    server.answers = {"/v1/models": {"data": [{"id": "a"}, {"id": "b"}]}}

    own, more = find_offers(two(server), provider("own", "scripted-model"), environ={})

    assert (own.provider, own.models, own.is_listed) == ("own", ("scripted-model", "a", "b"), True)
    assert (more.provider, more.models, more.is_listed) == ("more", ("a", "b"), True)
    headers = [question.headers for question in server.questions]
    sent = {(each.get("authorization"), each.get("x-team")) for each in headers}
    assert sent == {("Bearer k-own", None), (None, "blue")}


def test_a_server_not_asked_says_what_is_known() -> None:
    config = Config.model_validate({"provider": "groq", "providers": {"mistral": {}}})

    environ = {"GROQ_API_KEY": "gsk_x"}
    groq, mistral = find_offers(config, provider("groq", "kimi"), ask=False, environ=environ)

    row = provider_row("groq")
    assert row is not None
    assert (groq.is_listed, groq.models[:2], groq.problem) == (
        False,
        ("kimi", row.default_model),
        "",
    )
    assert "MISTRAL_API_KEY" in mistral.problem


LISTED = Offer(provider="groq", models=("openai/gpt-oss-20b",), is_listed=True)


def test_only_a_server_with_a_list_lacks_a_model() -> None:
    assert LISTED.lacks("a")
    assert not LISTED.lacks("openai/gpt-oss-20b")
    assert not Offer(provider="groq", models=("a",)).lacks("b")
