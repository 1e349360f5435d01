"""What a conversation asks of which model: its effort, the model for small work, web search."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kode.config.load import load_config
from kode.conversation import Conversation, Settings, open_conversation
from kode.conversation.memory import memory_context
from kode.events import Event, Notice
from kode.messages import text_of, user_message
from kode.provider import AskReply, Request
from tests.scripted_server import ScriptedServer

Open = Callable[..., Awaitable[Conversation]]
QUESTION = Request(system="", messages=[user_message("Is this new?")])


@pytest.fixture
async def opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Open, list[Event]]]:
    monkeypatch.setenv("KODE_HOME", str(tmp_path / "home"))
    events: list[Event] = []
    made: list[Conversation] = []

    async def make(**flags: Any) -> Conversation:
        flags = {key.replace("__", "."): value for key, value in flags.items()}
        loaded = load_config(
            tmp_path / "home", tmp_path, environ={}, flags={"memory.enabled": False, **flags}
        )
        made.append(await open_conversation(Settings(loaded, emit=events.append), cwd=tmp_path))
        return made[-1]

    yield make, events
    for conversation in made:
        await conversation.close()


def parts(big: ScriptedServer, small: ScriptedServer) -> dict[str, Any]:
    return {
        "big": {"base_url": big.openai_url, "api_key": "key-of-big", "model": "big-model"},
        "cheap": {"base_url": small.openai_url, "api_key": "key-of-cheap"},
    }


def asks(talk: Conversation) -> AskReply:
    ask = memory_context(talk).ask_reply
    assert ask is not None
    return ask


def notices(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice)]


async def test_the_effort_reaches_the_next_request(
    opened: tuple[Open, list[Event]],
) -> None:
    make, _ = opened
    with ScriptedServer([{"text": "ok"}], repeat_last=True) as big:
        talk = await make(provider="big", providers=parts(big, big))
        for effort in (None, "high", "max", None):
            talk.use_effort(effort)  # type: ignore[arg-type]
            await talk.turn("go")
        sent = [one.json.get("reasoning_effort") for one in big.requests]
    assert sent == [None, "high", "max", None]


async def test_a_switch_of_provider_changes_its_key_and_back_again(
    opened: tuple[Open, list[Event]],
) -> None:
    make, _ = opened
    replies = [{"text": "ok"}]
    with (
        ScriptedServer(replies, repeat_last=True) as big,
        ScriptedServer(replies, repeat_last=True) as small,
    ):
        talk = await make(provider="big", providers=parts(big, small))
        await talk.turn("one")
        talk.use_model("small-model", "cheap")
        await talk.turn("two")
        talk.use_model("big-model", "big")
        await talk.turn("three")

        keys = [[one.headers["authorization"] for one in one.requests] for one in (big, small)]
        asked = [one.json["model"] for one in small.requests]
    assert keys == [["Bearer key-of-big"] * 2, ["Bearer key-of-cheap"]]
    assert asked == ["small-model"]


async def test_memory_asks_the_model_that_is_named_for_small_work(
    opened: tuple[Open, list[Event]],
) -> None:
    make, _ = opened
    with ScriptedServer() as big, ScriptedServer([{"text": "yes"}]) as small:
        talk = await make(
            provider="big", providers=parts(big, small), small_model="cheap/tiny/model"
        )

        answer = await asks(talk)(QUESTION)

        assert text_of(answer) == "yes"
        (request,) = small.requests
        assert request.json["model"] == "tiny/model"
        assert request.headers["authorization"] == "Bearer key-of-cheap"
        assert big.count == 0


async def test_the_named_small_model_survives_a_switch(
    opened: tuple[Open, list[Event]],
) -> None:
    make, _ = opened
    with ScriptedServer([{"text": "yes"}]) as big, ScriptedServer() as small:
        talk = await make(provider="big", providers=parts(big, small), small_model="tiny")
        talk.use_model("other", "cheap")

        await asks(talk)(QUESTION)

        assert [one.json["model"] for one in big.requests] == ["tiny"]


async def test_a_refused_small_model_gives_way_to_the_sessions(
    opened: tuple[Open, list[Event]], monkeypatch: pytest.MonkeyPatch
) -> None:
    make, events = opened
    asked: list[str] = []

    def reply(request: dict[str, Any]) -> dict[str, Any]:
        asked.append(request["model"])
        if request["model"] != "claude-sonnet-5-5":
            return {"error": {"status": 403, "text": "not enabled for this account"}}
        return {"text": "yes"}

    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    with ScriptedServer(reply) as server:
        # The row's own server, as far as the choice of a small model goes.
        import kode.assembly as assembly

        opens = assembly.open_provider

        def at_the_server(*given: Any, **named: Any) -> Any:
            return opens(*given, **{**named, "base_url": server.anthropic_url})

        monkeypatch.setattr(assembly, "open_provider", at_the_server)
        talk = await make(provider="anthropic")
        ask = asks(talk)

        answers = [text_of(await ask(QUESTION)) for _ in range(2)]

    assert answers == ["yes", "yes"]
    assert asked == ["claude-haiku-5-5", "claude-sonnet-5-5", "claude-sonnet-5-5"]
    (said,) = [text for text in notices(events) if "small_model" in text]
    assert "claude-sonnet-5-5" in said


async def test_ones_own_server_does_small_work_with_the_sessions_model(
    opened: tuple[Open, list[Event]],
) -> None:
    make, _ = opened
    with ScriptedServer([{"text": "yes"}]) as big:
        talk = await make(provider="big", providers=parts(big, big))

        await asks(talk)(QUESTION)

        assert big.requests[0].json["model"] == "big-model"


async def test_the_sessions_model_writes_compaction_notes_despite_a_small_one(
    opened: tuple[Open, list[Event]],
) -> None:
    make, _ = opened
    with (
        ScriptedServer([{"text": "x " * 3_000}, {"text": "ok"}, {"text": "note"}]) as big,
        ScriptedServer([]) as small,
    ):
        talk = await make(provider="big", providers=parts(big, small), small_model="cheap/tiny")
        await talk.turn("tell me")
        await talk.turn("thanks")

        await talk.compact()

        assert "note" in str(talk.context.session.messages[0])
        assert len(small.requests) == 0


async def test_a_search_that_nobody_offers_is_explained_once(
    opened: tuple[Open, list[Event]],
) -> None:
    make, events = opened
    with ScriptedServer([{"text": "ok"}], repeat_last=True) as big:
        talk = await make(provider="big", providers=parts(big, big), web_search=True)
        await talk.turn("one")
        await talk.turn("two")

    assert not talk.agent.search
    assert len([text for text in notices(events) if "kode mcp add" in text]) == 1


async def test_a_vendor_may_search_only_if_the_person_wants_it(
    opened: tuple[Open, list[Event]], monkeypatch: pytest.MonkeyPatch
) -> None:
    make, _ = opened
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")

    assert (await make(provider="anthropic", web_search=True)).agent.search
    assert not (await make(provider="anthropic")).agent.search
