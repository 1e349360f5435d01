"""What a conversation asks of which model: its effort, the model for small work, web search."""

from collections.abc import Iterator
from typing import Any

import pytest

from kode import assembly
from kode.conversation.sessions import memory_context
from kode.events import Event
from kode.messages import text_of, user_message
from kode.provider import Request
from tests.conversation.conftest import Open, notices
from tests.scripted_server import ScriptedServer

QUESTION = Request(system="", messages=[user_message("Is this new?")])


@pytest.fixture
def small() -> Iterator[ScriptedServer]:
    with ScriptedServer([{"text": "yes"}], repeat_last=True) as small:
        yield small


@pytest.fixture
def flags(server: ScriptedServer, small: ScriptedServer) -> dict[str, Any]:
    """A session whose provider, `big`, is `server`; another is `cheap`."""
    big = {"base_url": server.openai_url, "api_key": "key-of-big", "model": "big-model"}
    cheap = {"base_url": small.openai_url, "api_key": "key-of-cheap"}
    return {"provider": "big", "providers": {"big": big, "cheap": cheap}}


def models_of(server: ScriptedServer) -> list[str]:
    """What the server was asked for."""
    return [request.json["model"] for request in server.requests]


async def test_the_effort_reaches_the_next_request(
    opened: Open, server: ScriptedServer, flags: dict[str, Any]
) -> None:
    talk = await opened(**flags)
    for effort in (None, "high", "max", None):
        talk.use_effort(effort)
        await talk.turn("go")
    sent = [one.json.get("reasoning_effort") for one in server.requests]
    assert sent == [None, "high", "max", None]


async def test_a_switch_of_provider_changes_its_key_and_back_again(
    opened: Open, server: ScriptedServer, small: ScriptedServer, flags: dict[str, Any]
) -> None:
    talk = await opened(**flags)
    await talk.turn("one")
    talk.use_model("small-model", "cheap")
    await talk.turn("two")
    talk.use_model("big-model", "big")
    await talk.turn("three")

    keys = [[one.headers["authorization"] for one in one.requests] for one in (server, small)]
    assert keys == [["Bearer key-of-big"] * 2, ["Bearer key-of-cheap"]]
    assert models_of(small) == ["small-model"]


async def test_memory_asks_the_model_that_is_named_for_small_work(
    opened: Open, server: ScriptedServer, small: ScriptedServer, flags: dict[str, Any]
) -> None:
    talk = await opened(small_model="cheap/tiny/model", **flags)

    assert text_of(await memory_context(talk).ask_reply(QUESTION)) == "yes"
    assert (models_of(small), models_of(server)) == (["tiny/model"], [])
    assert small.requests[0].headers["authorization"] == "Bearer key-of-cheap"


@pytest.mark.parametrize(("named", "model"), [({"small_model": "tiny"}, "tiny"), ({}, "big-model")])
async def test_small_work_stays_with_ones_own_server_and_its_model(
    opened: Open, server: ScriptedServer, flags: dict[str, Any], named: dict[str, str], model: str
) -> None:
    talk = await opened(**flags, **named)
    if named:
        talk.use_model("other", "cheap")

    await memory_context(talk).ask_reply(QUESTION)

    assert models_of(server) == [model]


async def test_a_refused_small_model_gives_way_to_the_sessions(
    opened: Open, server: ScriptedServer, events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    def reply(request: dict[str, Any]) -> dict[str, Any]:
        if request["model"] != "claude-sonnet-5-5":
            return {"error": {"status": 403, "text": "not enabled for this account"}}
        return {"text": "yes"}

    # The row's own server, as far as the choice of a small model goes.
    opens = assembly.open_provider

    def at_the_server(*given: Any, **named: Any) -> Any:
        return opens(*given, **{**named, "base_url": server.anthropic_url})

    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    monkeypatch.setattr(assembly, "open_provider", at_the_server)
    server.script = reply
    ask = memory_context(await opened(provider="anthropic")).ask_reply

    assert [text_of(await ask(QUESTION)) for _ in range(2)] == ["yes", "yes"]
    assert models_of(server) == ["claude-haiku-5-5", "claude-sonnet-5-5", "claude-sonnet-5-5"]
    (said,) = [text for text in notices(events) if "small_model" in text]
    assert "claude-sonnet-5-5" in said


async def test_the_sessions_model_writes_compaction_notes_despite_a_small_one(
    opened: Open, server: ScriptedServer, small: ScriptedServer, flags: dict[str, Any]
) -> None:
    server.script = [{"text": text} for text in ("x " * 3_000, "ok", "note")]
    talk = await opened(small_model="cheap/tiny", **flags)
    await talk.turn("tell me")
    await talk.turn("thanks")

    await talk.compact()

    assert "note" in str(talk.context.session.messages[0])
    assert models_of(small) == []


async def test_a_search_that_nobody_offers_is_explained_once(
    opened: Open, events: list[Event], flags: dict[str, Any]
) -> None:
    talk = await opened(web_search=True, **flags)
    await talk.turn("one")
    await talk.turn("two")

    assert not talk.agent.search
    assert len([text for text in notices(events) if "kode mcp add" in text]) == 1


async def test_a_vendor_may_search_only_if_the_person_wants_it(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")

    assert (await opened(provider="anthropic", web_search=True)).agent.search
    assert not (await opened(provider="anthropic")).agent.search
