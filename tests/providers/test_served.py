"""The window as near servers say it, and what else they say of a model: answers of llama.cpp as
recorded, of the others as documented."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from kode.errors import ContextOverflow, TransientError
from kode.events import silent
from kode.messages import user_message
from kode.provider import Request
from kode.providers import open_provider, served
from kode.providers.boundary import Endpoint, from_status
from kode.providers.catalogue import Facts
from kode.providers.exchange import SdkProvider
from kode.providers.served import served_facts
from kode.registry import provider_row
from tests.scripted_server import ScriptedServer
from tests.tables import for_each

DATA = Path(__file__).parent / "data"
WINDOWS, ABILITIES, OVERFLOWS = (
    [json.loads(line) for line in (DATA / name).read_text().splitlines()]
    for name in ("windows.jsonl", "abilities.jsonl", "overflows.jsonl")
)
ENDPOINT = Endpoint(base_url="http://127.0.0.1/v1", model="m")


async def facts_of(endpoint: Endpoint, *given: Any) -> Facts:
    row = provider_row("openai")
    assert row is not None
    return await served_facts(row, endpoint, *given)


async def served_window(endpoint: Endpoint, loading: Any = served.nothing) -> int | None:
    return (await facts_of(endpoint, frozenset(), loading)).get("context_window")


@pytest.mark.parametrize("row", WINDOWS, ids=lambda row: row["server"])
async def test_the_window_is_what_the_server_says(row: dict[str, Any]) -> None:
    with ScriptedServer() as server:
        server.answers = row["answers"]
        endpoint = Endpoint(base_url=server.openai_url, model=row["model"])

        assert await served_window(endpoint) == row["window"]


@pytest.mark.parametrize("row", ABILITIES, ids=lambda row: row["server"])
async def test_a_server_says_what_its_model_can_do(row: dict[str, Any]) -> None:
    with ScriptedServer() as server:
        server.answers = row["answers"]
        endpoint = Endpoint(base_url=server.openai_url, model=row["model"])
        facts = await facts_of(endpoint)

    assert json.loads(json.dumps(facts)) == row["facts"]


async def test_no_model_is_loaded_where_the_user_gave_a_window() -> None:
    with ScriptedServer() as server:
        server.answers = {
            "/api/ps": {"models": []},
            "/api/show": {"capabilities": ["completion", "vision"]},
        }
        endpoint = Endpoint(base_url=server.openai_url, model="m")
        facts = await facts_of(endpoint, {"context_window"})
        asked = [one.path for one in server.questions if one.method == "POST"]

    assert facts == {"sees_images": True, "efforts": ()}
    assert asked == ["/api/show"]


async def test_a_server_that_is_down_says_nothing() -> None:
    endpoint = Endpoint(base_url="http://127.0.0.1:9/v1", model="m")
    assert await served_window(endpoint) is None


async def test_ollama_loads_a_model_before_its_window_is_read() -> None:
    with ScriptedServer() as server:
        server.answers = {"/api/ps": {"models": []}}
        endpoint = Endpoint(base_url=server.openai_url, model="m")
        await served_window(endpoint)

        asked = [(one.path, one.json) for one in server.questions if one.method == "POST"]
    assert asked == [("/api/generate", {"model": "m"}), ("/api/show", {"model": "m"})]


async def test_ollama_that_loads_for_too_long_has_its_default_window(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(served, "ASK_TIMEOUT_S", 0.1)
    monkeypatch.setattr(served, "LOAD_TIMEOUT_S", 0.3)
    ask, said = served.ask, list[int]()

    async def slow_to_load(client: Any, url: str, body: Any = None, timeout_s: float = 3.0) -> Any:
        if url.endswith("/api/generate"):
            async with asyncio.timeout(timeout_s):
                await asyncio.sleep(60)
        return await ask(client, url, body)

    monkeypatch.setattr(served, "ask", slow_to_load)
    with ScriptedServer() as server:
        server.answers = {"/api/ps": {"models": []}}
        endpoint = Endpoint(base_url=server.openai_url, model="m")
        window = await served_window(endpoint, lambda: said.append(1))

    assert window == served.OLLAMA_DEFAULT
    assert said == [1]


@for_each("row", OVERFLOWS)
def test_an_overflow_names_the_window_and_the_options_of_servers(row: dict[str, Any]) -> None:
    error = from_status(400, row["body"], {}, ENDPOINT)

    assert isinstance(error, ContextOverflow)
    assert error.window == row["window"]
    for option in ("context.window", "`-c`", "`num_ctx`", "`--max-model-len`"):
        assert option in str(error)


async def test_an_overflow_sets_the_window_the_server_named() -> None:
    said = "maximum context length is 2048 tokens"
    with ScriptedServer([{"error": {"status": 400, "text": said}}]) as server:
        provider = open_provider("openai", "m", base_url=server.openai_url)
        with pytest.raises(ContextOverflow):
            await provider.reply(Request(system="", messages=[user_message("x")]), silent)
        await provider.aclose()

    assert provider.info.context_window == 2048
    assert provider.info.max_output_tokens <= 1024


async def test_a_server_that_says_nothing_is_asked_twice() -> None:
    with ScriptedServer() as server:
        provider = open_provider("openai", "m", base_url=server.openai_url)
        assert isinstance(provider, SdkProvider)
        asked = []
        for _ in range(3):
            await provider.learn()
            asked.append(sum(one.path == "/v1/models" for one in server.questions))
        server.answers = {"/v1/models": {"data": [{"id": "m", "max_model_len": 512}]}}
        other = open_provider("openai", "m", base_url=server.openai_url)
        assert isinstance(other, SdkProvider)
        for _ in range(2):
            await other.learn()
        asked.append(sum(one.path == "/v1/models" for one in server.questions))

    assert asked == [1, 2, 2, 3]
    assert other.info.context_window == 512


LOADING = {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}


async def test_a_loading_server_is_asked_until_it_has_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kode.providers.served.LOADING_PAUSE_S", 0.0)
    windows = iter([served.LoadingError, served.LoadingError, 8192])
    said: list[int] = []

    async def asked(client: Any, url: str, *_: Any, **__: Any) -> Any:
        window = next(windows)
        if window is served.LoadingError:
            raise served.LoadingError
        return {"data": [{"id": "m", "meta": {"n_ctx": window}}]}

    monkeypatch.setattr(served, "ask", asked)
    assert await served_window(ENDPOINT, lambda: said.append(1)) == 8192
    assert said == [1]


def test_only_a_server_that_says_so_is_loading() -> None:
    loads = from_status(503, LOADING, {}, ENDPOINT)
    busy = from_status(503, {"error": {"message": "overloaded"}}, {}, ENDPOINT)

    assert isinstance(loads, TransientError)
    assert isinstance(busy, TransientError)
    assert (loads.loading, busy.loading) == (True, False)
