"""What `kode cost` says of sessions that were had with a server, in both wire formats."""

from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kode import assembly
from kode.config import given_prices, load_config
from kode.contracts import Tool
from kode.conversation.opening import open_conversation
from kode.events import silent
from kode.function_tool import tool
from kode.plugins.cost.breaks import Break
from kode.plugins.cost.command import with_facts
from kode.plugins.cost.figures import SessionCost, session_cost
from kode.providers.models import pricing
from tests.scripted_server import ScriptedServer

MODELS = {"openai": "gpt-5", "anthropic": "claude-sonnet-5"}
OTHERS = {"openai": "gpt-5-mini", "anthropic": "claude-haiku-4-5"}


@tool(effect="none")
async def roll(context: Any) -> str:
    """Roll a die."""
    return "4"


@dataclass
class Talks:
    """Conversations with one server, in a home of their own."""

    wire: str
    home: Path
    folder: Path
    server: ScriptedServer

    @asynccontextmanager
    async def open(
        self,
        session_id: str | None = None,
        *,
        tools: tuple[Tool, ...] = (),
        folder: Path | None = None,
        **flags: Any,
    ):
        url = self.server.openai_url if self.wire == "openai" else self.server.anthropic_url
        given = {
            "provider": self.wire,
            "model": MODELS[self.wire],
            "base_url": url,
            "api_key": "sk-test-0123456789abcdef0123",
            "memory.buffer_enabled": False,
            "memory.extract_on_end": False,
            "sandbox.enabled": False,
        }
        cwd = folder or self.folder
        loaded = load_config(self.home, cwd, environ={}, flags=given | flags)
        conversation = await open_conversation(
            loaded, cwd=cwd, emit=silent, ask=None, session_id=session_id, tools=tools
        )
        try:
            yield conversation
        finally:
            await conversation.close()

    async def said(self, session_id: str | None = None, *texts: str, **how: Any) -> str:
        """Says one text or more in a session; returns its id."""
        async with self.open(session_id, **how) as conversation:
            for text in texts or ("Tell me more.",):
                ended = await conversation.turn(text)
                assert ended.status == "success", ended.error
            assert conversation.session.id is not None
            return conversation.session.id

    def cost(self, session_id: str) -> SessionCost:
        config = load_config(self.home, self.folder, environ={}, flags={}).config
        found = session_cost(self.home, session_id, pricing(given_prices(config)))
        return with_facts(found, self.home / "memory")

    def breaks(self, session_id: str) -> list[str]:
        return [one.kind for one in self.cost(session_id).breaks]

    def last_break(self, session_id: str) -> Break:
        found = self.cost(session_id)
        assert found.breaks, "no break was found"
        assert found.breaks[-1].step == found.steps[-1].entry
        return found.breaks[-1]


@pytest.fixture(params=MODELS)
def talks(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Talks]:
    folder = tmp_path / "project"
    folder.mkdir()
    with ScriptedServer(lambda body: {"text": "Well. " * 100}, prefix_cache=True) as server:
        yield Talks(request.param, tmp_path / "kode-home", folder, server)


@pytest.fixture
def tomorrow(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    class Tomorrow(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> "Tomorrow":
            return super().now(tz) + timedelta(days=1)

    return lambda: monkeypatch.setattr(assembly, "datetime", Tomorrow)


async def a_new_day(talks: Talks, first: str, tomorrow: Callable[[], None]) -> str:
    tomorrow()
    return await talks.said()


async def a_new_folder(talks: Talks, first: str, tomorrow: Callable[[], None]) -> str:
    other = talks.folder.parent / "other"
    other.mkdir()
    return await talks.said(folder=other)


async def instructions(talks: Talks, first: str, tomorrow: Callable[[], None]) -> str:
    (talks.folder / "AGENTS.md").write_text("Be kind.")
    return await talks.said()


async def a_fact(talks: Talks, first: str, tomorrow: Callable[[], None]) -> str:
    async with talks.open() as other:
        await other.memory_command(["add", "env", "The build runs with make all."])
    return await talks.said()


async def a_tool(talks: Talks, first: str, tomorrow: Callable[[], None]) -> str:
    return await talks.said(tools=(roll,))


async def words_of_the_person(talks: Talks, first: str, tomorrow: Callable[[], None]) -> str:
    return await talks.said(append_system="Answer in verse.")


async def a_model(talks: Talks, first: str, tomorrow: Callable[[], None]) -> str:
    return await talks.said(first, model=OTHERS[talks.wire])


async def a_rewind(talks: Talks, first: str, tomorrow: Callable[[], None]) -> str:
    async with talks.open(first) as conversation:
        await conversation.past.rewind(2, files=False, conversation=True)
        await conversation.turn("No, something else.")
    return first


async def a_compaction(talks: Talks, first: str, tomorrow: Callable[[], None]) -> str:
    async with talks.open(first) as conversation:
        for _ in range(12):
            await conversation.turn("Say much. " * 40)
        assert await conversation.compact() is not None
        await conversation.turn("And now?")
    return first


async def a_cache_that_ran_out(talks: Talks, first: str, tomorrow: Callable[[], None]) -> str:
    assert talks.server.cache is not None
    talks.server.cache.forget()
    return await talks.said(first)


CAUSES = [
    ("day", "a new day", a_new_day),
    ("folder", "a new folder", a_new_folder),
    ("instructions", "the project's instructions", instructions),
    ("memory", "a fact: user add", a_fact),
    ("tool", "the tool roll was added", a_tool),
    ("appended", "`--append-system`", words_of_the_person),
    ("model", "another model", a_model),
    ("rewind", "the conversation was rewound", a_rewind),
    ("compaction", "the conversation was compacted", a_compaction),
    ("cache", "the server's cache expired", a_cache_that_ran_out),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "cause", "change"), CAUSES, ids=[one[0] for one in CAUSES])
async def test_each_cause_of_a_lost_beginning_is_named(
    talks: Talks, tomorrow: Callable[[], None], kind: str, cause: str, change: Any
) -> None:
    first = await talks.said(None, "Hello. " * 20, "Go on.", "Go on again.")
    assert talks.breaks(first) == []

    session_id = await change(talks, first, tomorrow)

    found = talks.last_break(session_id)
    assert (found.kind, found.cause[: len(cause)]) == (kind, cause)
    if kind not in ("model", "cache"):
        assert found.spot is not None
        assert found.spot.byte is not None
        assert found.spot.before != found.spot.after


async def test_changes_made_while_a_session_is_closed_break_no_cache(talks: Talks) -> None:
    first = await talks.said(None, "Hello. " * 20, "Go on.")
    async with talks.open() as other:
        await other.memory_command(["add", "env", "The build runs with make all."])
    await talks.said(first)
    await talks.said(first, tools=(roll,))
    await talks.said(first, append_system="Answer in verse.")

    assert talks.breaks(first) == []


async def test_a_fact_of_another_project_is_not_the_cause(talks: Talks) -> None:
    await talks.said(None, "Hello.")
    elsewhere = talks.folder.parent / "elsewhere"
    elsewhere.mkdir()
    async with talks.open() as other:
        await other.memory_command(["add", "env", "The build runs with make all."])
    async with talks.open(folder=elsewhere) as other:
        await other.memory_command(["add", "env", "Use tabs.", "--scope", "project"])
    assert "The build runs" in talks.last_break(await talks.said()).cause


@pytest.mark.slow
async def test_the_sums_are_those_that_the_server_counted(talks: Talks) -> None:
    first = await talks.said(None, "Hello.", "Go on.")
    await a_compaction(talks, first, lambda: None)

    found = talks.cost(first)

    assert len(found.steps) == len(talks.server.requests)
    for name in ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens"):
        counted = sum(request.usage[name] for request in talks.server.requests)
        assert getattr(found.total.usage, name) == counted
    assert {step.purpose for step in found.steps} == {"turn", "compaction"}
    assert found.total.cost_usd == pytest.approx(sum(step.cost_usd or 0 for step in found.steps))


@pytest.mark.slow
async def test_a_cache_break_costs_the_discount_it_lost(
    talks: Talks,
) -> None:
    first = await talks.said(None, "Hello. " * 20, "Go on.")
    before = talks.cost(first).steps[-1].usage
    assert talks.server.cache is not None
    talks.server.cache.forget()
    await talks.said(first)

    found = talks.last_break(first)

    assert found.tokens == before.input_tokens
    prices = {"openai": 1.25 - 0.125, "anthropic": 2.50 - 0.20}
    assert found.cost_usd == pytest.approx(found.tokens * prices[talks.wire] / 1e6)


@pytest.mark.slow
async def test_another_message_of_the_person_is_no_break(talks: Talks) -> None:
    await talks.said(None, "Hello.")
    assert talks.breaks(await talks.said(None, "Something else.")) == []
