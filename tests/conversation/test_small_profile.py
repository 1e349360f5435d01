"""The small profile: four tools and a short prompt, for a model with a small window."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kode
from kode.config.load import load_config
from kode.conversation import Conversation, Settings, open_conversation
from kode.engine.context import NO_LONGER, fixed_tokens, open_context, record_pending
from kode.events import Event, Notice
from kode.memory.system import statements_of
from kode.messages import text_of
from kode.providers.request import CONTEXT_REPLY
from kode.tools.builtin import BUILTIN, SMALL
from tests.scripted_server import ScriptedServer


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer([{"text": "Yes."}], repeat_last=True) as server:
        server.answers = {"/v1/models": {"data": [{"id": "m", "meta": {"n_ctx": 8192}}]}}
        yield server


@pytest.fixture
def events() -> list[Event]:
    return []


async def begun(
    tmp_path: Path, server: ScriptedServer, events: list[Event], **flags: Any
) -> Conversation:
    given = {"provider": "openai", "base_url": server.openai_url, "model": "m", "api_key": "k"}
    loaded = load_config(tmp_path / "home", tmp_path, environ={}, flags={**given, **flags})
    talk = await open_conversation(Settings(loaded, emit=events.append), cwd=tmp_path)
    await talk.start()
    return talk


async def opened(
    tmp_path: Path, server: ScriptedServer, events: list[Event], **flags: Any
) -> Conversation:
    talk = await begun(tmp_path, server, events, **flags)
    await talk.close()
    return talk


def tools_of(talk: Conversation) -> set[str]:
    return {spec.name for spec in talk.context.specs}


async def test_a_small_window_gets_few_tools_and_one_line(
    tmp_path: Path, server: ScriptedServer, events: list[Event]
) -> None:
    talk = await opened(tmp_path, server, events, **{"memory.enabled": False})

    assert tools_of(talk) == set(SMALL)
    (said,) = [event.text for event in events if isinstance(event, Notice)]
    assert said.startswith("The window of m is 8,192 tokens, so it gets 4 tools and a short prompt")
    assert talk.status().context_window == 8192


async def test_the_small_profile_takes_about_800_tokens(
    tmp_path: Path, server: ScriptedServer, events: list[Event]
) -> None:
    talk = await opened(tmp_path, server, events, **{"memory.enabled": False})
    wire = [{"n": s.name, "d": s.description, "p": s.parameters} for s in talk.context.specs]

    assert (len(json.dumps(wire)) + len(talk.session.system)) / 4 < 800
    assert fixed_tokens(talk.context) < 800


async def test_memory_stays_with_what_it_offers(
    tmp_path: Path, server: ScriptedServer, events: list[Event]
) -> None:
    talk = await opened(tmp_path, server, events)

    assert tools_of(talk) == {*SMALL, "memory"}


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
    tmp_path: Path,
    server: ScriptedServer,
    events: list[Event],
    profile: str,
    window: int,
    small: bool,
) -> None:
    flags = {"profile": profile, "context.window": window}
    talk = await opened(tmp_path, server, events, **flags)

    assert ("todo" not in tools_of(talk)) is small
    assert ("at once what you know" in talk.session.system) is small
    assert talk.agent.provider.info.context_window == window
    assert not [one for one in server.questions if one.method == "POST"]


def test_small_tools_name_no_tool_that_is_not_among_them() -> None:
    """A weak model that is told to use one believes it."""
    others = {tool.name for tool in BUILTIN} - {*SMALL}
    shared = ("tools/files", "tools/output", "diffs", "tools/processes")
    for name in (*(f"tools/{name}" for name in SMALL), *shared):
        code = ast.parse((Path(kode.__file__).parent / f"{name}.py").read_text())
        code.body = code.body[1:]  # the module's own docstring is for people
        texts = [node.value for node in ast.walk(code) if isinstance(node, ast.Constant)]
        said = [text for text in texts if isinstance(text, str) and any(o in text for o in others)]
        assert said == [], name


SYSTEMS_TOOLS = ("tiered", "vault", "journal", "notes")


@pytest.mark.parametrize("system", SYSTEMS_TOOLS)
async def test_a_small_models_tool_schema_is_part_of_the_whole(
    tmp_path: Path, server: ScriptedServer, events: list[Event], system: str
) -> None:
    talk = await opened(tmp_path, server, events, **{"memory.system": system})

    for tool, spec in zip(talk.agent.tools, talk.context.specs, strict=True):
        full = tool.spec.parameters
        assert set(full.get("required", ())) <= set(spec.parameters.get("required", ()))
        for name, schema in spec.parameters["properties"].items():
            whole = full["properties"][name]
            assert schema.get("type") == whole.get("type")
            assert set(schema.get("enum", ())) <= set(whole.get("enum", schema.get("enum", ())))
    assert len(json.dumps([dict(s.parameters) for s in talk.context.specs])) < 2_000


async def test_a_small_model_reads_memory_apart_from_the_question(
    tmp_path: Path, server: ScriptedServer, events: list[Event]
) -> None:
    facts = tmp_path / "kode-home/memory/facts/env.md"
    facts.parent.mkdir(parents=True)
    facts.write_text("Releases are cut on Fridays.\n")
    talk = await begun(tmp_path, server, events)

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
    tmp_path: Path, server: ScriptedServer, events: list[Event]
) -> None:
    facts = tmp_path / "kode-home/memory/facts/env.md"
    facts.parent.mkdir(parents=True)
    facts.write_text("Releases are cut on Fridays.\n")
    talk = await begun(tmp_path, server, events, **{"memory.buffer_enabled": False})
    await talk.turn("One")

    sent = []
    for text in ("Releases are cut on Fridays.\n", "Releases are cut on Mondays.\n", ""):
        facts.write_text(text)
        await statements_of(talk.agent.memory, "reconcile").store.reconcile()
        talk.context.opened = None
        await open_context(talk.agent, talk.context, "resume")
        sent.append(talk.context.pending_first_user)
        record_pending(talk.context)

    await talk.close()
    assert sent[0] == ""
    assert "Mondays" in sent[1]
    assert sent[2] == f"# Memory\n{NO_LONGER}"


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_a_small_model_takes_the_likeliest_token(
    tmp_path: Path, server: ScriptedServer, events: list[Event], wire: str
) -> None:
    flags = {"provider": wire, "base_url": getattr(server, f"{wire}_url"), "profile": "small"}
    talk = await begun(tmp_path, server, events, **flags)

    for text in ("One", "Two", "Three", "Four"):
        await talk.turn(text)
    await talk.close()

    assert len(server.requests) == 5, "four turns and the episode"
    assert {request.json.get("temperature") for request in server.requests} == {0}


async def test_any_other_model_answers_at_the_temperature_of_its_server(
    tmp_path: Path, server: ScriptedServer, events: list[Event]
) -> None:
    talk = await begun(tmp_path, server, events, profile="full")

    await talk.turn("One")
    await talk.close()

    assert all("temperature" not in request.json for request in server.requests)


async def test_waiting_for_a_loading_server_counts_towards_the_limit(
    tmp_path: Path, server: ScriptedServer, events: list[Event]
) -> None:
    server.loading = True
    given = {"provider": "openai", "base_url": server.openai_url, "model": "m", "api_key": "k"}
    loaded = load_config(tmp_path / "home", tmp_path, environ={}, flags={**given, "timeout_s": 1.5})
    talk = await open_conversation(Settings(loaded, emit=events.append), cwd=tmp_path)

    ended = await talk.turn("hello")
    await talk.close()

    assert ended.status == "timeout"
    assert "hello" in text_of(talk.session.messages[-1])
