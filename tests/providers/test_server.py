"""What servers say of their models: read, and never in the way. Answers of
llama.cpp as recorded, of the others as documented."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st

from kode.providers import open_provider, provider as provider_module, server
from kode.providers.errors import Endpoint
from kode.providers.provider import HttpProvider
from kode.providers.server import Facts, ModelServer, ask_facts, find_entry, read_entry
from kode.registry import provider_row
from tests.providers.line import Object, recorded
from tests.scripted_server import ScriptedServer
from tests.tables import for_each

# As OpenRouter documents it.
ROUTED: Object = {
    "id": "maker/model-1", "context_length": 400_000,
    "architecture": {"input_modalities": ["text", "image", "file"], "tokenizer": "Other"},
    "pricing": {"prompt": "0.0000012", "completion": "0.000006",
                "input_cache_read": "0.00000012", "image": "0"},
    "top_provider": {"context_length": 300_000, "max_completion_tokens": 65_536},
}  # fmt: skip
ROUTED_FACTS: Facts = {
    "context_window": 300_000, "max_output_tokens": 65_536, "input_price": 1.2,
    "output_price": 6.0, "cached_price": 0.12, "sees_images": True,
}  # fmt: skip


def test_a_price_that_varies_is_unknown() -> None:
    assert "input_price" not in read_entry({**ROUTED, "pricing": {"prompt": "-1"}})


def test_a_suffix_of_openrouter_means_the_model_before_it() -> None:
    entries = {"data": [ROUTED, {**ROUTED, "id": "maker/model-1:free"}]}

    assert find_entry(entries, "maker/model-1:nitro") == ROUTED
    assert find_entry(entries, "maker/model-1:free") != ROUTED
    assert find_entry(entries, "another") is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
KEYS = sorted({*ROUTED, "meta", "state", "max_model_len", "supports_image_in"})


@given(st.dictionaries(st.sampled_from(KEYS), JSON), st.sampled_from([{}, ROUTED]))
def test_nonsense_is_left_out(odd: Object, base: Object) -> None:
    assert None not in read_entry({**base, **odd}).values()


async def ask(
    url: str, model: str = "m", *more: Any, name: str = "openai", **options: Any
) -> Facts:
    row = provider_row(name)
    assert row is not None
    key = options.pop("key", "")
    return await ask_facts(row, Endpoint(base_url=url, model=model, api_key=key), *more, **options)


# ── a server far away ────────────────────────────────────────────────────────────────────────


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    """A server that counts as one on the internet."""
    for module in (server, provider_module):
        monkeypatch.setattr(module, "is_near", lambda url: False)
    with ScriptedServer() as scripted:
        other = {"id": "other", "context_length": 5}
        scripted.answers = {"/v1/models": {"data": [ROUTED, other]}}
        yield scripted


async def ask_routed(far: ScriptedServer, key: str = "", patience_s: float = 30) -> Facts:
    return await ask(far.openai_url, "maker/model-1", key=key, patience_s=patience_s)


def questions(scripted: ScriptedServer, path: str = "/v1/models") -> int:
    return [question.path for question in scripted.questions].count(path)


async def test_a_far_server_is_asked_with_the_key(far: ScriptedServer) -> None:
    assert await ask_routed(far, "sk-secret-1") == ROUTED_FACTS

    (question,) = far.questions
    assert question.headers["authorization"] == "Bearer sk-secret-1"


async def test_nobody_waits_for_a_far_server_that_is_slow(
    far: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer_late(self: ModelServer) -> Facts:
        await asyncio.Event().wait()
        return {}

    monkeypatch.setattr(ModelServer, "read_list", answer_late)

    assert await ask_routed(far, patience_s=0.001) == {}


@for_each("url", ["https://api.openai.com/v1", "", "file:///x", "http://[::1", "https://h:x/v1"])
async def test_openai_and_what_is_no_address_are_not_asked(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setattr(ModelServer, "ask", None)

    assert await ask(url, "gpt-6.1-sol") == {}


# ── a server nearby ──────────────────────────────────────────────────────────────────────────


@for_each("case", recorded("windows") + recorded("abilities"))
async def test_a_server_says_what_its_model_can_do(case: Object) -> None:
    with ScriptedServer() as scripted:
        scripted.answers = case["answers"]
        facts = await ask(scripted.openai_url, case["model"])

    assert facts.get("context_window") == case.get("window", facts.get("context_window"))
    assert json.loads(json.dumps(facts)) == case.get("facts", json.loads(json.dumps(facts)))


@for_each(
    ("fixed", "asked"),
    [((), ["/api/generate", "/api/show"]), (("context_window",), ["/api/show"])],
)
async def test_ollama_loads_a_model_only_for_a_window_nobody_set(
    fixed: tuple[str, ...], asked: list[str]
) -> None:
    with ScriptedServer() as scripted:
        scripted.answers = {"/api/ps": {"models": []}, "/api/show": {"capabilities": ["vision"]}}
        facts = await ask(scripted.openai_url, "m", fixed)
        posted = [(one.path, one.json) for one in scripted.questions if one.method == "POST"]

    window = {} if fixed else {"context_window": server.OLLAMA_DEFAULT}
    assert facts == {**window, "sees_images": True, "efforts": ()}
    assert posted == [(path, {"model": "m"}) for path in asked]
    assert await ask("http://127.0.0.1:9/v1") == {}  # a server that is down says nothing


async def test_a_loading_server_is_asked_until_it_has_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "LOADING_PAUSE_S", 0.0)
    answers: Iterator[Any] = iter([server.LoadingError, server.LoadingError, 8192])
    reports: list[int] = []

    async def answer(*_: Any, **__: Any) -> Any:
        if (window := next(answers)) is server.LoadingError:
            raise server.LoadingError
        return {"data": [{"id": "m", "meta": {"n_ctx": window}}]}

    monkeypatch.setattr(ModelServer, "ask", answer)
    facts = await ask("http://127.0.0.1/v1", "m", (), lambda: reports.append(1))

    assert (facts["context_window"], reports) == (8192, [1])


# ── what a provider learns ───────────────────────────────────────────────────────────────────


async def test_a_near_server_is_asked_twice_for_its_window() -> None:
    counts = []
    with ScriptedServer() as scripted:
        for answers in ({}, {"/v1/models": {"data": [{"id": "m", "max_model_len": 512}]}}):
            scripted.answers = answers
            provider = open_provider("openai", "m", base_url=scripted.openai_url)
            assert isinstance(provider, HttpProvider)
            for _ in range(3):
                await provider.learn()
                counts.append(questions(scripted, "/v1/models"))

    assert counts == [1, 2, 2, 3, 3, 3]
    assert provider.info.context_window == 512
