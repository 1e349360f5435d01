"""What servers say of their models: read, kept for a day, and never in the way. Answers of
llama.cpp as recorded, of the others as documented."""

import asyncio
import json
import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kode import paths
from kode.errors import ContextOverflow, TransientError
from kode.events import silent
from kode.messages import user_message
from kode.provider import Request
from kode.providers import open_provider, server
from kode.providers import provider as provider_module
from kode.providers.errors import Endpoint, from_status
from kode.providers.models import info_of
from kode.providers.provider import HttpProvider
from kode.providers.server import Facts, ModelServer, ask_facts, find_entry, read_entry
from kode.registry import ProviderRow, provider_row
from tests.scripted_server import ScriptedServer
from tests.tables import for_each

DATA = Path(__file__).parent / "data"
WINDOWS, ABILITIES, OVERFLOWS = (
    [json.loads(line) for line in (DATA / name).read_text().splitlines()]
    for name in ("windows.jsonl", "abilities.jsonl", "overflows.jsonl")
)
YES, NO = {"supported": True}, {"supported": False}
NEAR = Endpoint(base_url="http://127.0.0.1/v1", model="m")

CLAUDE: dict[str, Any] = {
    "type": "model",
    "id": "claude-opus-6",
    "display_name": "Claude Opus 6",
    "max_input_tokens": 2_000_000,
    "max_tokens": 256_000,
    "capabilities": {
        "effort": {"supported": True, "low": NO, "medium": YES, "high": YES, "max": YES},
        "thinking": {
            "supported": True,
            "types": {"adaptive": YES, "enabled": NO, "between_tools": YES, "disabled": NO},
        },
        "image_input": YES,
        "pdf_input": NO,
        "structured_outputs": YES,
        "server_tools": {"supported": True, "web_search": YES, "code_execution": NO},
    },
}
"""As `anthropic.types.ModelInfo` of the SDK has it."""
CLAUDE_FACTS: Facts = {
    "context_window": 2_000_000,
    "max_output_tokens": 256_000,
    "sees_images": True,
    "sees_pdf": False,
    "answers_by_schema": True,
    "searches": True,
    "efforts": ("medium", "high", "max"),
    "thinking": ("adaptive", "between_tools"),
}

ROUTED: dict[str, Any] = {
    "id": "maker/model-1",
    "context_length": 400_000,
    "architecture": {"input_modalities": ["text", "image", "file"], "tokenizer": "Other"},
    "pricing": {
        "prompt": "0.0000012",
        "completion": "0.000006",
        "input_cache_read": "0.00000012",
        "image": "0",
    },
    "top_provider": {"context_length": 300_000, "max_completion_tokens": 65_536},
    "supported_parameters": ["max_tokens", "reasoning", "structured_outputs", "tools"],
    "reasoning": {"mandatory": True, "supported_efforts": ["high", "medium", "none"]},
}
"""As OpenRouter documents it."""
ROUTED_FACTS: Facts = {
    "context_window": 300_000,
    "max_output_tokens": 65_536,
    "input_price": 1.2,
    "output_price": 6.0,
    "cached_price": 0.12,
    "sees_images": True,
    "sees_pdf": True,
    "answers_by_schema": True,
    "takes_temperature": False,
    "efforts": ("medium", "high"),
}
FREE = {"mandatory": False, "supported_efforts": None}


@for_each(
    ("entry", "change", "facts"),
    [
        (CLAUDE, {}, CLAUDE_FACTS),
        (CLAUDE, {"capabilities": {"effort": {"supported": False, "high": YES}}}, {"efforts": ()}),
        (CLAUDE, {"capabilities": None}, {"max_output_tokens": 256_000}),
        (ROUTED, {}, ROUTED_FACTS),
        (
            ROUTED,
            {"reasoning": FREE},
            {"efforts": ("none", "minimal", "low", "medium", "high", "xhigh")},
        ),
        (ROUTED, {"supported_parameters": ["tools"]}, {"efforts": ()}),
        # A price that varies is unknown.
        (ROUTED, {"pricing": {"prompt": "-1", "completion": "-1"}}, {"context_window": 300_000}),
    ],
)
def test_an_entry_has_the_facts_of_its_model(entry: Facts, change: Facts, facts: Facts) -> None:
    read = read_entry({**entry, **change})

    assert facts.items() <= read.items()
    if change.get("capabilities", ...) is None:
        assert not {"efforts", "thinking", "sees_images"} & read.keys()
    if "pricing" in change:
        assert "input_price" not in read


def test_a_suffix_of_openrouter_means_the_model_before_it() -> None:
    entries = {"data": [ROUTED, {**ROUTED, "id": "maker/model-1:free"}]}

    assert find_entry(entries, "maker/model-1:nitro") == ROUTED
    assert find_entry(entries, "maker/model-1:free") != ROUTED
    assert find_entry(entries, "another") is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
KEYS = sorted({*CLAUDE, *ROUTED, "meta", "state", "max_model_len", "supports_image_in"})


@given(st.dictionaries(st.sampled_from(KEYS), JSON), st.sampled_from([{}, CLAUDE, ROUTED]))
def test_nonsense_is_left_out(odd: dict[str, Any], base: dict[str, Any]) -> None:
    assert None not in read_entry({**base, **odd}).values()


# ── a server far away ────────────────────────────────────────────────────────────────────────


def row(name: str) -> ProviderRow:
    row = provider_row(name)
    assert row is not None
    return row


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    """A server that counts as one on the internet."""
    for module in (server, provider_module):
        monkeypatch.setattr(module, "is_near", lambda url: False)
    with ScriptedServer() as scripted:
        scripted.answers = {
            "/v1/models/claude-opus-6": CLAUDE,
            "/v1/models": {"data": [ROUTED, {"id": "other", "context_length": 5}]},
        }
        yield scripted


def claude_at(far: ScriptedServer, key: str = "") -> Endpoint:
    return Endpoint(base_url=far.anthropic_url, model="claude-opus-6", api_key=key)


async def ask_claude(far: ScriptedServer, key: str = "", patience_s: float = 30) -> Facts:
    return await ask_facts(row("anthropic"), claude_at(far, key), patience_s=patience_s)


def facts_file(far: ScriptedServer) -> Path:
    return paths.server_facts_file(paths.home(), "127.0.0.1", far.port)


def keep(far: ScriptedServer, facts: Any, age: timedelta, key: str = "") -> None:
    key = key or server._key(claude_at(far))
    server.keep_facts(facts_file(far), key, facts, datetime.now(UTC) - age)


async def test_a_far_server_is_asked_once_a_day(
    far: ScriptedServer,
) -> None:
    assert await ask_claude(far, "sk-secret-1") == CLAUDE_FACTS
    assert await ask_claude(far, patience_s=0) == CLAUDE_FACTS

    (question,) = far.questions
    assert question.path == "/v1/models/claude-opus-6"
    assert question.headers["x-api-key"] == "sk-secret-1"
    assert "anthropic-version" in question.headers
    text = facts_file(far).read_text()
    assert "sk-secret-1" not in text
    assert "Claude Opus 6" not in text
    assert stat.S_IMODE(os.stat(facts_file(far)).st_mode) == 0o600


async def test_each_model_has_an_answer_of_its_own(far: ScriptedServer) -> None:
    for _ in range(2):
        for model, fact in (
            ("maker/model-1", ("input_price", 1.2)),
            ("other", ("context_window", 5)),
        ):
            endpoint = Endpoint(base_url=far.openai_url, model=model)
            assert fact in (await ask_facts(row("openai"), endpoint, patience_s=30)).items()

    assert len(far.questions) == 2


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe",
        b"[]",
        b'{"models": 5}',
        b'{"models": {"KEY": 5}}',
        b'{"models": {"KEY": {"asked_at": "NOW"}}}',
        b'{"models": {"KEY": {"asked_at": "NOW", "facts": {"context_window": "big"}}}}',
        b'{"models": {"KEY": {"asked_at": "NOW", "facts": {"known": true}}}}',
        b'{"models": {"KEY": {"asked_at": "yesterday", "facts": {"context_window": 1}}}}',
        b"[" * 100_000,
    ],
)
async def test_a_file_that_cannot_be_used_is_replaced(far: ScriptedServer, content: bytes) -> None:
    file, key = facts_file(far), server._key(claude_at(far))
    file.parent.mkdir(parents=True)
    now = datetime.now(UTC).isoformat()
    file.write_bytes(content.replace(b"KEY", key.encode()).replace(b"NOW", now.encode()))

    assert await ask_claude(far) == CLAUDE_FACTS
    assert json.loads(file.read_bytes())["models"][key]["facts"]["context_window"] == 2_000_000


@pytest.mark.parametrize(
    ("facts", "age", "window"),
    [
        ({"context_window": 7}, timedelta(hours=23), 7),
        ({"context_window": 7}, timedelta(hours=25), 2_000_000),
        ({"context_window": 7}, timedelta(hours=-1), 2_000_000),  # the clock was set back
        (None, timedelta(minutes=9), None),  # it did not answer, and is left alone for a while
        (None, timedelta(minutes=11), 2_000_000),
    ],
)
async def test_an_answer_is_fresh_for_a_day(
    far: ScriptedServer, facts: Any, age: timedelta, window: int | None
) -> None:
    keep(far, {"context_window": 7}, timedelta(days=2), "an old one")
    keep(far, facts, age)

    assert (await ask_claude(far)).get("context_window") == window
    if window == 2_000_000:
        models = json.loads(facts_file(far).read_bytes())["models"]
        assert list(models) == [server._key(claude_at(far))]


async def test_a_fault_is_kept_as_no_answer(far: ScriptedServer) -> None:
    far.answers = {}

    for _ in range(2):
        assert await ask_claude(far) == {}
    assert [one.path for one in far.questions].count("/v1/models/claude-opus-6") == 1


async def test_a_folder_that_cannot_be_written_costs_nothing(far: ScriptedServer) -> None:
    paths.home().mkdir(parents=True, exist_ok=True)
    facts_file(far).parent.write_text("a file where the folder should be")

    for _ in range(2):
        assert await ask_claude(far)
    assert len(far.questions) == 2


async def test_a_late_answer_serves_the_next_process(
    far: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_answer = asyncio.Event()

    async def answer_late(self: ModelServer) -> Facts:
        await may_answer.wait()
        return {"context_window": 9}

    monkeypatch.setattr(ModelServer, "read_list", answer_late)
    assert await ask_claude(far, patience_s=0.001) == {}
    may_answer.set()
    await asyncio.gather(*server._questions)

    assert await ask_claude(far, patience_s=0) == {"context_window": 9}


@pytest.mark.parametrize(
    "url", ["https://api.openai.com/v1", "", "file:///etc/passwd", "http://[::1", "https://h:x/v1"]
)
async def test_openai_and_what_is_no_address_are_not_asked(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setattr(server, "_ask_far", None)
    monkeypatch.setattr(server, "_ask_near", None)

    assert await ask_facts(row("openai"), Endpoint(base_url=url, model="gpt-6.1-sol")) == {}


def test_a_host_is_no_path() -> None:
    home = Path("/home")
    for host in ("../../etc", "..", "a/b", "x" * 1000, "::1"):
        file = paths.server_facts_file(home, host, None)
        assert file.parent == home / "models"
        assert len(file.name) < 256
    assert paths.server_facts_file(home, "openrouter.ai", None).name == "openrouter.ai.json"


# ── a server nearby ──────────────────────────────────────────────────────────────────────────


async def ask_near(scripted: ScriptedServer, model: str = "m", *more: Any) -> Facts:
    endpoint = Endpoint(base_url=scripted.openai_url, model=model)
    return await ask_facts(row("openai"), endpoint, *more)


@pytest.mark.parametrize("case", WINDOWS, ids=lambda case: case["server"])
async def test_the_window_is_what_the_server_says(case: dict[str, Any]) -> None:
    with ScriptedServer() as scripted:
        scripted.answers = case["answers"]

        assert (await ask_near(scripted, case["model"])).get("context_window") == case["window"]


@pytest.mark.parametrize("case", ABILITIES, ids=lambda case: case["server"])
async def test_a_server_says_what_its_model_can_do(case: dict[str, Any]) -> None:
    with ScriptedServer() as scripted:
        scripted.answers = case["answers"]
        facts = await ask_near(scripted, case["model"])

    assert json.loads(json.dumps(facts)) == case["facts"]


@pytest.mark.parametrize(
    ("fixed", "questions"),
    [
        ((), [("/api/generate", {"model": "m"}), ("/api/show", {"model": "m"})]),
        (("context_window",), [("/api/show", {"model": "m"})]),
    ],
)
async def test_ollama_loads_a_model_only_for_a_window_nobody_set(
    fixed: tuple[str, ...], questions: list[Any]
) -> None:
    with ScriptedServer() as scripted:
        scripted.answers = {"/api/ps": {"models": []}, "/api/show": {"capabilities": ["vision"]}}
        facts = await ask_near(scripted, "m", fixed)
        posted = [(one.path, one.json) for one in scripted.questions if one.method == "POST"]

    window = {} if fixed else {"context_window": server.OLLAMA_DEFAULT}
    assert facts == {**window, "sees_images": True, "efforts": ()}
    assert posted == questions


async def test_a_server_that_is_down_says_nothing() -> None:
    assert (
        await ask_facts(row("openai"), Endpoint(base_url="http://127.0.0.1:9/v1", model="m")) == {}
    )


async def test_ollama_that_loads_for_too_long_has_its_default_window(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "ASK_TIMEOUT_S", 0.1)
    monkeypatch.setattr(server, "LOAD_TIMEOUT_S", 0.3)
    ask, reports = ModelServer.ask, list[int]()

    async def load_slowly(self: ModelServer, path: str, body: Any = None, **options: Any) -> Any:
        if path == "/api/generate":
            async with asyncio.timeout(options["timeout_s"]):
                await asyncio.Event().wait()
        return await ask(self, path, body, **{**options, "timeout_s": 3.0})

    monkeypatch.setattr(ModelServer, "ask", load_slowly)
    with ScriptedServer() as scripted:
        scripted.answers = {"/api/ps": {"models": []}}
        facts = await ask_near(scripted, "m", (), lambda: reports.append(1))

    assert facts == {"context_window": server.OLLAMA_DEFAULT}
    assert reports == [1]


async def test_a_loading_server_is_asked_until_it_has_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "LOADING_PAUSE_S", 0.0)
    windows = iter([server.LoadingError, server.LoadingError, 8192])
    reports: list[int] = []

    async def answer(*_: Any, **__: Any) -> Any:
        window = next(windows)
        if window is server.LoadingError:
            raise server.LoadingError
        return {"data": [{"id": "m", "meta": {"n_ctx": window}}]}

    monkeypatch.setattr(ModelServer, "ask", answer)
    facts = await ask_facts(row("openai"), NEAR, (), lambda: reports.append(1))

    assert facts["context_window"] == 8192
    assert reports == [1]


# ── what a provider learns ───────────────────────────────────────────────────────────────────


async def learn(scripted: ScriptedServer, **overrides: Any) -> HttpProvider:
    provider = open_provider(
        "anthropic",
        "claude-opus-6",
        base_url=scripted.anthropic_url,
        overrides={"claude-opus-6": overrides} if overrides else None,
    )
    assert isinstance(provider, HttpProvider)
    await provider.learn(patience_s=30)
    return provider


async def test_a_provider_knows_what_its_server_says(far: ScriptedServer) -> None:
    before = info_of("claude-opus-6")
    info = (await learn(far)).info

    assert (info.context_window, info.max_output_tokens) == (2_000_000, 256_000)
    assert (info.efforts, info.default_effort) == (("medium", "high", "max"), "high")
    assert (info.known, before.known) == (True, False)
    assert info.later_system == before.later_system


async def test_a_server_nearby_is_believed_and_not_kept() -> None:
    with ScriptedServer() as scripted:
        scripted.answers = {"/v1/models/claude-opus-6": CLAUDE}
        provider = await learn(scripted)

        assert provider.info.thinking == ("adaptive", "between_tools")
        assert not facts_file(scripted).exists()


async def test_values_the_user_set_stay(far: ScriptedServer) -> None:
    info = (await learn(far, context_window=50_000, sees_pdf=True)).info

    assert (info.context_window, info.sees_pdf) == (50_000, True)
    assert info.max_output_tokens <= 50_000
    assert info.efforts == ("medium", "high", "max")


async def test_a_far_server_is_asked_by_a_provider_once(far: ScriptedServer) -> None:
    far.answers = {}
    provider = await learn(far)
    facts_file(far).unlink()
    await provider.learn(patience_s=30)

    assert [one.path for one in far.questions].count("/v1/models/claude-opus-6") == 1
    assert provider.learned == {}


async def test_a_near_server_without_a_window_is_asked_twice() -> None:
    counts = []
    with ScriptedServer() as scripted:
        for answers in ({}, {"/v1/models": {"data": [{"id": "m", "max_model_len": 512}]}}):
            scripted.answers = answers
            provider = open_provider("openai", "m", base_url=scripted.openai_url)
            assert isinstance(provider, HttpProvider)
            for _ in range(3):
                await provider.learn()
                counts.append(sum(one.path == "/v1/models" for one in scripted.questions))

    assert counts == [1, 2, 2, 3, 3, 3]
    assert provider.info.context_window == 512


@for_each("case", OVERFLOWS)
def test_an_overflow_names_the_window_and_the_options_of_servers(case: dict[str, Any]) -> None:
    error = from_status(400, case["body"], {}, NEAR)

    assert isinstance(error, ContextOverflow)
    assert error.window == case["window"]
    for option in ("context.window", "`-c`", "`num_ctx`", "`--max-model-len`"):
        assert option in str(error)


async def test_an_overflow_sets_the_window_the_server_named() -> None:
    words = "maximum context length is 2048 tokens"
    with ScriptedServer([{"error": {"status": 400, "text": words}}]) as scripted:
        provider = open_provider("openai", "m", base_url=scripted.openai_url)
        with pytest.raises(ContextOverflow):
            await provider.reply(Request(system="", messages=[user_message("x")]), silent)
        await provider.aclose()

    assert provider.info.context_window == 2048
    assert provider.info.max_output_tokens <= 1024


@for_each(
    ("message", "is_loading"),
    [("Loading model", True), ("overloaded", False)],
)
def test_only_a_server_that_says_so_is_loading(message: str, is_loading: bool) -> None:
    error = from_status(503, {"error": {"code": 503, "message": message}}, {}, NEAR)

    assert isinstance(error, TransientError)
    assert error.loading == is_loading
