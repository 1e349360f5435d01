"""The small profile: four tools and a short prompt, for a model with a small window."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

import kode
from kode.conversation import Conversation
from kode.engine.context import NO_LONGER, fixed_tokens, open_context, record_pending
from kode.events import Event
from kode.memory.system import statements_of
from kode.messages import Message, Text, text_of
from kode.providers.request import CONTEXT_REPLY
from kode.tools.builtin import BUILTIN, SMALL
from tests.conversation.conftest import Open, notices, served_by
from tests.scripted_server import ScriptedServer


@pytest.fixture
def small_server(server: ScriptedServer) -> ScriptedServer:
    """A server whose model has a small window."""
    server.answers = {"/v1/models": {"data": [{"id": "m", "meta": {"n_ctx": 8192}}]}}
    return server


@pytest.fixture
def begun(opened: Open, small_server: ScriptedServer) -> Open:
    async def begin(**flags: Any) -> Conversation:
        talk = await opened(**{"memory__enabled": True, **served_by(small_server), **flags})
        await talk.start()
        return talk

    return begin


def tools_of(talk: Conversation) -> set[str]:
    return {spec.name for spec in talk.context.specs}


async def test_a_small_window_gets_few_tools_and_short_texts(
    begun: Open, events: list[Event]
) -> None:
    talk = await begun(memory__enabled=False)

    assert tools_of(talk) == set(SMALL)
    (said,) = notices(events)
    assert "8,192 tokens" in said
    assert "4 tools" in said
    assert talk.agent.provider.info.context_window == 8192
    wire = [{"n": s.name, "d": s.description, "p": s.parameters} for s in talk.context.specs]
    assert (len(json.dumps(wire)) + len(talk.session.system)) / 4 < 800
    assert fixed_tokens(talk.context) < 800


@pytest.mark.parametrize(
    ("profile", "window", "small"),
    [
        ("full", 8_192, False),
        ("small", 200_000, True),
        ("auto", 16_383, True),
        ("auto", 16_384, False),
    ],
)
async def test_the_config_decides_before_the_window_does(
    begun: Open, server: ScriptedServer, profile: str, window: int, small: bool
) -> None:
    talk = await begun(profile=profile, context__window=window)

    assert ("todo" not in tools_of(talk)) is small
    assert ("what you know" in talk.session.system) is small
    assert talk.agent.provider.info.context_window == window
    assert not [one for one in server.questions if one.method == "POST"]


def test_small_tools_name_no_tool_that_is_not_among_them() -> None:
    """A weak model that is told to use one believes it."""
    others = {tool.name for tool in BUILTIN} - {*SMALL}
    theirs = ("tools/read_file", "tools/edit", "tools/shell")
    for name in (*theirs, "tools/files", "tools/output", "plain_text", "tools/processes"):
        code = ast.parse((Path(kode.__file__).parent / f"{name}.py").read_text())
        code.body = code.body[1:]  # the module's own docstring is for people
        texts = [node.value for node in ast.walk(code) if isinstance(node, ast.Constant)]
        said = [text for text in texts if isinstance(text, str) and any(o in text for o in others)]
        assert said == [], name


@pytest.fixture
def facts(tmp_path: Path) -> Path:
    facts = tmp_path / "kode-home/memory/facts/env.md"
    facts.parent.mkdir(parents=True)
    facts.write_text("Releases are cut on Fridays.\n")
    return facts


async def test_a_small_model_reads_memory_apart_from_the_question(
    begun: Open, server: ScriptedServer, facts: Path
) -> None:
    talk = await begun()

    await talk.turn("When are releases cut?")
    await talk.turn("And why?")
    await talk.close()

    system, context, noted, question, *rest = server.requests[-1].json["messages"]
    assert "Fridays" not in system["content"]
    assert context["role"] == "user"
    assert "Fridays" in context["content"]
    assert "# Where you are" in context["content"]
    assert noted == {"role": "assistant", "content": text_of(CONTEXT_REPLY)}
    assert question == {"role": "user", "content": "When are releases cut?"}
    assert [one["content"] for one in rest] == ["Yes.", "And why?"]


async def test_a_small_model_gets_memory_again_only_when_it_changed(
    begun: Open, facts: Path
) -> None:
    talk = await begun(memory__buffer_enabled=False)
    await talk.turn("One")
    recalled = Text(text="[Recalled.]", source="memory", section_name="recall")
    talk.session.append_message(Message(role="user", parts=(recalled,)))

    sent = []
    for text in ("Releases are cut on Fridays.\n", "Releases are cut on Mondays.\n", ""):
        facts.write_text(text)
        await statements_of(talk.agent.memory, "reconcile").store.reconcile()
        await open_context(talk.agent, talk.context, "resume")
        sent.append(getattr(talk.context.pending_memory, "text", ""))
        record_pending(talk.context)

    await talk.close()
    assert sent[0] == "", "neither memory again nor a notice about what was recalled"
    assert "Mondays" in sent[1]
    assert sent[2] == f"# Memory\n{NO_LONGER}"


@pytest.mark.parametrize(
    ("wire", "profile", "temperature"),
    [("openai", "small", 0), ("anthropic", "small", None), ("openai", "full", None)],
)
async def test_a_small_model_alone_takes_the_likeliest_token(
    begun: Open, server: ScriptedServer, wire: str, profile: str, temperature: int | None
) -> None:
    talk = await begun(**served_by(server, wire), profile=profile)

    for text in ("One", "Two", "Three", "Four"):
        await talk.turn(text)
    await talk.close()

    assert len(server.requests) == 5, "four turns and the episode"
    assert {request.json.get("temperature") for request in server.requests} == {temperature}


async def test_waiting_for_a_loading_server_counts_towards_the_limit(
    opened: Open, small_server: ScriptedServer
) -> None:
    small_server.loading = True
    talk = await opened(**served_by(small_server), timeout_s=1.5)

    ended = await talk.turn("hello")

    assert ended.status == "timeout"
    assert "hello" in text_of(talk.session.messages[-1])


@pytest.mark.parametrize("profiles", [("full", "small"), ("small", "full")])
async def test_another_profile_changes_no_earlier_message(
    begun: Open, server: ScriptedServer, facts: Path, profiles: tuple[str, str]
) -> None:
    first, second = profiles
    talk = await begun(**served_by(server), profile=first)
    await talk.turn("When are releases cut?")
    before = server.requests[0].json["messages"]
    await talk.close()

    talk = await begun(session_id=talk.session.id, **served_by(server), profile=second)
    await talk.turn("And why?")

    after = server.requests[-1].json["messages"]
    assert after[: len(before)] == before
    assert after[-1]["content"].endswith("And why?")
