"""What servers far away say of their models: read, kept for a day, and never in the way."""

import asyncio
import json
import os
import stat
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kode import paths
from kode.providers import asked, exchange, open_provider
from kode.providers.asked import facts_of
from kode.providers.boundary import Endpoint
from kode.providers.catalogue import entry_of, facts_in
from kode.providers.exchange import SdkProvider
from kode.providers.models import info_of
from kode.registry import ProviderRow, provider_row
from tests.scripted_server import ScriptedServer
from tests.tables import for_each

TODAY = date(2026, 11, 24)
YES, NO = {"supported": True}, {"supported": False}

CLAUDE: dict[str, Any] = {
    "type": "model",
    "id": "claude-opus-6",
    "display_name": "Claude Opus 6",
    "created_at": "2027-01-01T00:00:00Z",
    "lifecycle": "active",
    "retires_at": None,
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
    "expiration_date": None,
}
"""As OpenRouter documents it."""


def row(name: str) -> ProviderRow:
    found = provider_row(name)
    assert found is not None
    return found


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    """A server that counts as one on the internet."""
    for module in (asked, exchange):
        monkeypatch.setattr(module, "is_near", lambda url: False)
    with ScriptedServer() as server:
        server.answers = {
            "/v1/models/claude-opus-6": CLAUDE,
            "/v1/models": {"data": [ROUTED, {"id": "other", "context_length": 5}]},
        }
        yield server


def claude_at(server: ScriptedServer) -> Endpoint:
    return Endpoint(base_url=server.anthropic_url, model="claude-opus-6")


def kept_file(server: ScriptedServer) -> Path:
    return paths.server_facts_file(paths.home(), "127.0.0.1", server.port)


def questions(server: ScriptedServer) -> list[str]:
    return [one.path for one in server.questions]


# ── what is said ─────────────────────────────────────────────────────────────────────────────


def test_anthropic_says_everything_of_a_model() -> None:
    assert facts_in(CLAUDE, TODAY) == {
        "context_window": 2_000_000,
        "max_output_tokens": 256_000,
        "sees_images": True,
        "sees_pdf": False,
        "answers_by_schema": True,
        "searches": True,
        "efforts": ("medium", "high", "max"),
        "thinking": ("adaptive", "between_tools"),
        "retires_on": "",
    }


@for_each(
    ("lifecycle", "retires_at", "retires_on"),
    [
        ("active", None, ""),
        ("deprecated", "2027-01-22T00:00:00Z", "2027-01-22"),
        ("deprecated", "2026-11-01T00:00:00Z", ""),  # overdue: it still answers
        ("deprecated", None, ""),
        ("retired", "2026-06-15T00:00:00Z", "2026-06-15"),
        ("retired", None, "2026-11-24"),
        ("retired", "2027-06-15T00:00:00Z", "2026-11-24"),
    ],
)
def test_only_the_lifecycle_says_that_a_model_is_retired(
    lifecycle: str, retires_at: str | None, retires_on: str
) -> None:
    entry = {**CLAUDE, "lifecycle": lifecycle, "retires_at": retires_at}

    assert facts_in(entry, TODAY)["retires_on"] == retires_on


def test_a_capability_that_is_not_supported_has_no_levels() -> None:
    entry = {**CLAUDE, "capabilities": {"effort": {"supported": False, "high": YES}}}
    facts = facts_in(entry, TODAY)

    assert facts["efforts"] == ()
    assert "thinking" not in facts
    assert "sees_images" not in facts
    assert "efforts" not in facts_in({**CLAUDE, "capabilities": None}, TODAY)


def test_openrouter_says_limits_prices_and_levels() -> None:
    assert facts_in(ROUTED, TODAY) == {
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
        "retires_on": "",
    }


def test_openrouter_offers_all_levels_where_none_are_listed() -> None:
    free = {**ROUTED, "reasoning": {"mandatory": False, "supported_efforts": None}}
    none = {**ROUTED, "supported_parameters": ["tools"]}

    assert facts_in(free, TODAY)["efforts"] == (
        "none",
        "minimal",
        "low",
        "medium",
        "high",
        "xhigh",
    )
    assert facts_in(none, TODAY)["efforts"] == ()


def test_a_price_that_varies_is_unknown() -> None:
    entry = {**ROUTED, "pricing": {"prompt": "-1", "completion": "-1"}}

    assert "input_price" not in facts_in(entry, TODAY)


def test_a_suffix_of_openrouter_means_the_model_before_it() -> None:
    listed = {"data": [ROUTED, {**ROUTED, "id": "maker/model-1:free"}]}

    assert entry_of(listed, "maker/model-1:nitro") == ROUTED
    assert entry_of(listed, "maker/model-1:free") != ROUTED
    assert entry_of(listed, "another") is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
KEYS = sorted({*CLAUDE, *ROUTED, "meta", "state", "max_model_len", "supports_image_in"})


@given(st.dictionaries(st.sampled_from(KEYS), JSON), st.sampled_from([{}, CLAUDE, ROUTED]))
def test_nonsense_is_left_out(odd: dict[str, Any], base: dict[str, Any]) -> None:
    facts = facts_in({**base, **odd}, TODAY)

    assert all(value is not None for value in facts.values())


# ── asking ───────────────────────────────────────────────────────────────────────────────────


async def test_a_far_server_is_asked_once_a_day(far: ScriptedServer) -> None:
    first = await facts_of(row("anthropic"), claude_at(far), patience_s=30)
    second = await facts_of(row("anthropic"), claude_at(far), patience_s=0)

    assert first == second == facts_in(CLAUDE, TODAY)
    assert questions(far) == ["/v1/models/claude-opus-6"]


async def test_the_answer_is_kept_with_its_values_only(far: ScriptedServer) -> None:
    endpoint = Endpoint(base_url=far.anthropic_url, model="claude-opus-6", api_key="sk-secret-1")
    await facts_of(row("anthropic"), endpoint, patience_s=30)

    text = kept_file(far).read_text()
    assert "sk-secret-1" not in text
    assert "Claude Opus 6" not in text
    assert stat.S_IMODE(os.stat(kept_file(far)).st_mode) == 0o600
    assert far.questions[0].headers["x-api-key"] == "sk-secret-1"
    assert "anthropic-version" in far.questions[0].headers


async def test_each_model_has_an_answer_of_its_own(far: ScriptedServer) -> None:
    routed = Endpoint(base_url=far.openai_url, model="maker/model-1")
    other = Endpoint(base_url=far.openai_url, model="other")
    for _ in range(2):
        assert (await facts_of(row("openai"), routed, patience_s=30))["input_price"] == 1.2
        assert await facts_of(row("openai"), other, patience_s=30) == {"context_window": 5}

    assert len(questions(far)) == 2


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"{",
        b"[]",
        b'{"models": 5}',
        b'{"models": {"KEY": 5}}',
        b'{"models": {"KEY": {"asked_at": "NOW"}}}',
        b'{"models": {"KEY": {"asked_at": "NOW", "facts": {"context_window": "big"}}}}',
        b'{"models": {"KEY": {"asked_at": "NOW", "facts": {"known": true}}}}',
        b'{"models": {"KEY": {"asked_at": "yesterday", "facts": {"context_window": 1}}}}',
        b'{"models": {"KEY": {"asked_at": "2026-11-24", "facts": {"context_window": 1}}}}',
        b"[" * 100_000,
    ],
)
async def test_a_file_that_cannot_be_used_is_replaced(far: ScriptedServer, content: bytes) -> None:
    file, now = kept_file(far), datetime.now(UTC).isoformat()
    file.parent.mkdir(parents=True)
    key = asked._key(claude_at(far))
    file.write_bytes(content.replace(b"KEY", key.encode()).replace(b"NOW", now.encode()))

    assert await facts_of(row("anthropic"), claude_at(far), patience_s=30) == facts_in(
        CLAUDE, TODAY
    )
    assert json.loads(file.read_bytes())["models"][key]["facts"]["context_window"] == 2_000_000


@pytest.mark.parametrize(
    ("age", "asks"),
    [
        (timedelta(hours=23), False),
        (timedelta(hours=25), True),
        (timedelta(hours=-1), True),  # the clock was set back
    ],
)
async def test_an_answer_is_fresh_for_a_day(
    far: ScriptedServer, age: timedelta, asks: bool
) -> None:
    keep(far, {"context_window": 7}, age)

    facts = await facts_of(row("anthropic"), claude_at(far), patience_s=30)

    assert facts["context_window"] == (2_000_000 if asks else 7)


async def test_an_answer_too_old_leaves_the_file(far: ScriptedServer) -> None:
    keep(far, {"context_window": 7}, timedelta(days=2), "an old one")
    keep_file = kept_file(far)
    await facts_of(row("anthropic"), claude_at(far), patience_s=30)

    assert list(json.loads(keep_file.read_bytes())["models"]) == [asked._key(claude_at(far))]


def keep(far: ScriptedServer, facts: Any, age: timedelta, key: str = "") -> None:
    asked._keep(kept_file(far), key or asked._key(claude_at(far)), facts, datetime.now(UTC) - age)


async def test_a_folder_that_cannot_be_written_costs_nothing(far: ScriptedServer) -> None:
    paths.home().mkdir(parents=True, exist_ok=True)
    kept_file(far).parent.write_text("a file where the folder should be")

    for _ in range(2):
        assert await facts_of(row("anthropic"), claude_at(far), patience_s=30)

    assert len(questions(far)) == 2


async def test_a_late_answer_serves_the_next_process(
    far: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_answer = asyncio.Event()

    async def late(*_: Any) -> dict[str, Any]:
        await may_answer.wait()
        return {"context_window": 9}

    monkeypatch.setattr(asked, "listed_facts", late)
    assert await facts_of(row("anthropic"), claude_at(far), patience_s=0.001) == {}
    may_answer.set()
    await asyncio.gather(*asked._under_way)

    assert await facts_of(row("anthropic"), claude_at(far), patience_s=0) == {"context_window": 9}


async def test_a_silent_server_is_left_alone_for_a_while(
    far: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    async def fails(*_: Any) -> dict[str, Any]:
        calls.append(1)
        raise OSError("unreachable")

    monkeypatch.setattr(asked, "listed_facts", fails)
    for _ in range(2):
        assert await facts_of(row("anthropic"), claude_at(far), patience_s=30) == {}
    assert calls == [1]

    keep(far, None, timedelta(minutes=11))
    await facts_of(row("anthropic"), claude_at(far), patience_s=30)
    assert calls == [1, 1]


@pytest.mark.parametrize(
    "url", ["https://api.openai.com/v1", "", "file:///etc/passwd", "http://[::1", "https://h:x/v1"]
)
async def test_openai_and_what_is_no_address_are_not_asked(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    def not_called(*_: Any) -> None:
        raise AssertionError("asked")

    monkeypatch.setattr(asked, "_ask", not_called)
    monkeypatch.setattr(asked, "served_facts", not_called)
    endpoint = Endpoint(base_url=url, model="gpt-6.1-sol")

    assert await facts_of(row("openai"), endpoint) == {}


def test_a_host_is_no_path() -> None:
    home = Path("/home")
    for host in ("../../etc", "..", "a/b", "x" * 1000, "::1"):
        file = paths.server_facts_file(home, host, None)
        assert file.parent == home / "models"
        assert len(file.name) < 256
    assert paths.server_facts_file(home, "openrouter.ai", None).name == "openrouter.ai.json"


# ── a provider that has asked ────────────────────────────────────────────────────────────────


async def learned(server: ScriptedServer, **overrides: Any) -> SdkProvider:
    provider = open_provider(
        "anthropic",
        "claude-opus-6",
        base_url=server.anthropic_url,
        overrides={"claude-opus-6": overrides} if overrides else None,
    )
    assert isinstance(provider, SdkProvider)
    await provider.learn(patience_s=30)
    return provider


async def test_a_provider_knows_what_its_server_says(far: ScriptedServer) -> None:
    before = info_of("claude-opus-6")
    info = (await learned(far)).info

    assert (info.context_window, info.max_output_tokens) == (2_000_000, 256_000)
    assert (info.efforts, info.default_effort) == (("medium", "high", "max"), "high")
    assert (info.known, before.known) == (True, False)
    assert info.later_system == before.later_system


async def test_a_server_nearby_is_believed_too() -> None:
    with ScriptedServer() as server:
        server.answers = {"/v1/models/claude-opus-6": CLAUDE}
        provider = await learned(server)
        file = kept_file(server)

    assert provider.info.thinking == ("adaptive", "between_tools")
    assert not file.exists()


async def test_values_the_user_set_stay(far: ScriptedServer) -> None:
    info = (await learned(far, context_window=50_000, sees_pdf=True)).info

    assert (info.context_window, info.sees_pdf) == (50_000, True)
    assert info.max_output_tokens <= 50_000
    assert info.efforts == ("medium", "high", "max")


async def test_a_far_server_is_asked_by_a_provider_once(far: ScriptedServer) -> None:
    far.answers = {}
    provider = await learned(far)
    kept_file(far).unlink()
    await provider.learn(patience_s=30)

    assert questions(far).count("/v1/models/claude-opus-6") == 1
    assert provider.learned == {}
