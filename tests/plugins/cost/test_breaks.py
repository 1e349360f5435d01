"""Which part of a request's beginning changed, by what, and how much was read again."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kode.contracts import Request, ToolSpec
from kode.messages import Message, Text, ToolCall, ToolResult, Usage, user_message
from kode.plugins.cost.breaks import Break, break_of, first_break
from kode.plugins.cost.sent import requests_of
from kode.session import log
from kode.session.entries import (
    AnyEntry,
    CompactionEntry,
    MessageEntry,
    PruneEntry,
    RestoreEntry,
    RewindEntry,
    SystemEntry,
    TrimEntry,
    UsageEntry,
)
from kode.session.log import Session
from kode.session.requests import keep_tools, request_entry, system_text

SECTIONS = {"kode": "Be good. " * 20, "memory": "§ Likes tea.\n§ Likes blue."}
READ = ToolSpec(name="read_file", description="Reads. " * 10, parameters={"type": "object"})
EDIT = ToolSpec(name="edit_file", description="Edits. " * 10, parameters={"type": "object"})
FETCH = ToolSpec(name="mcp__web__fetch", description="Fetches.", parameters={"type": "object"})


def price(model: str, usage: Usage) -> float | None:
    """A dollar a token that is read, a tenth from a cache, two that are written to one."""
    if model == "unpriced":
        return None
    return usage.uncached_tokens + usage.cached_tokens / 10 + usage.cache_write_tokens * 2


@dataclass
class Story:
    """A session that is made entry by entry."""

    home: Path
    provider: str = "openai"
    model: str = "m"
    sections: Mapping[str, str] = field(default_factory=lambda: dict(SECTIONS))
    tools: tuple[ToolSpec, ...] = (READ, EDIT)
    keep: bool = True

    def __post_init__(self) -> None:
        self.session: Session = log.in_memory(cwd=self.home, model="m", provider="openai")

    def ask(self, usage: Usage | None = None) -> None:
        """A request and its answer."""
        system = system_text(self.sections)
        if system != self.session.system:
            self.session.append(SystemEntry(text=system))
        request = Request(system=system, messages=self.session.messages, tools=self.tools)
        source: Any = SimpleNamespace(name=self.provider, model=self.model)
        entry = request_entry("turn", source, request, sections=self.sections)
        if self.keep:
            kept = keep_tools(self.home, self.tools)
            entry = type(entry)(**{**entry.__dict__, "tools_kept": kept})
        self.session.append(entry)
        counted = usage or Usage(input_tokens=5_000)
        answer = Message(
            role="assistant", parts=(Text(text="ok"),), usage=counted, model=self.model
        )
        self.session.append_message(answer)

    def say(self, text: str, usage: Usage | None = None) -> None:
        self.session.append_message(user_message(text))
        self.ask(usage)

    @property
    def last(self) -> Break | None:
        """The break between the last two requests."""
        before, now = requests_of(self.session.header, self.session.entries)[-2:]
        between = self.session.entries[before.number + 1 : now.number]
        return break_of(self.home, before, now, between, price)

    def add(self, entry: AnyEntry) -> None:
        self.session.append(entry)

    def message_id(self, at: int) -> str:
        found = [one for one in self.session.entries if isinstance(one, MessageEntry)]
        return found[at].id


@pytest.fixture
def story(tmp_path: Path) -> Story:
    made = Story(tmp_path)
    made.say("one")
    return made


def found(story: Story) -> Break:
    assert story.last is not None
    return story.last


CACHED = Usage(input_tokens=5_100, cached_tokens=5_000)


def test_a_request_that_continues_the_one_before_is_no_break(story: Story) -> None:
    story.say("two", CACHED)
    assert story.last is None


def test_the_byte_counts_from_the_beginning_of_the_section(story: Story) -> None:
    story.sections = {**SECTIONS, "memory": "§ Likes tea.\n§ Likes red."}
    story.say("two")
    spot = found(story).spot
    assert spot is not None
    assert spot.name == "system prompt, memory"
    assert spot.byte == len("§ Likes tea.\n§ Likes ".encode())
    assert (spot.before[-5:], spot.after[-4:]) == ("blue.", "red.")


@pytest.mark.parametrize(
    ("tools", "cause"),
    [
        ((READ, EDIT, FETCH), "the tool mcp__web__fetch of the MCP server web was added"),
        ((FETCH, READ, EDIT), "the tool mcp__web__fetch of the MCP server web was added"),
        ((READ,), "the tool edit_file was removed"),
        ((EDIT,), "the tool read_file was removed"),
        ((EDIT, READ), "the tool edit_file moved"),
        (
            (READ, ToolSpec(name="edit_file", description="New.", parameters={})),
            "the tool edit_file changed",
        ),
    ],
)
def test_the_tool_that_is_to_blame_is_named(
    story: Story, tools: tuple[ToolSpec, ...], cause: str
) -> None:
    story.tools = tools
    story.say("two")
    assert (found(story).kind, found(story).cause) == ("tool", cause)


def test_the_part_a_server_reads_first_is_to_blame(tmp_path: Path) -> None:
    kinds = {}
    for provider in ("openai", "anthropic"):
        story = Story(tmp_path, provider=provider)
        story.say("one")
        story.tools, story.sections = (READ,), {"kode": "Be bad."}
        story.say("two")
        kinds[provider] = found(story).kind
    assert kinds == {"openai": "kode", "anthropic": "tool"}


def test_a_section_that_went_is_shown_as_it_was(story: Story) -> None:
    story.sections = {"kode": SECTIONS["kode"]}
    story.say("two")
    spot = found(story).spot
    assert spot is not None
    assert (spot.byte, spot.before[:12], spot.after) == (0, "§ Likes tea.", "")


def test_the_sessions_own_edit_of_its_messages_is_the_cause(story: Story) -> None:
    call = ToolCall(id="c", name="read_file", arguments="{}")
    story.add(MessageEntry(role="assistant", parts=(call,)))
    result = ToolResult(call_id="c", name="read_file", text="much " * 100)
    story.add(MessageEntry(role="tool", parts=(result,)))
    for text in ("two", "three", "four"):
        story.say(text, CACHED)
    story.add(PruneEntry(before=story.message_id(-3)))
    story.say("five", CACHED)
    assert found(story).kind == "prune"
    assert found(story).cause == "old tool output was dropped to save space"

    story.add(RestoreEntry(of=next(e.id for e in story.session.entries if e.type == "prune")))
    story.say("six", CACHED)
    assert found(story).kind == "restore"

    story.add(TrimEntry(kept_from=story.message_id(-4)))
    story.say("seven", CACHED)
    assert found(story).kind == "trim"

    story.add(CompactionEntry(summary="All was said.", kept_from=story.message_id(-2)))
    story.sections = {**SECTIONS, "memory": "Nothing."}
    story.say("eight", CACHED)
    assert found(story).kind == "compaction"
    assert found(story).cause.startswith(
        "the conversation was compacted; memory's part of the prompt"
    )


def test_only_a_compaction_renders_the_system_prompt_again(story: Story) -> None:
    story.say("two", CACHED)
    story.add(TrimEntry(kept_from=story.message_id(-1)))
    story.sections = {**SECTIONS, "memory": "§ Likes red."}
    story.say("three")
    assert (found(story).kind, found(story).cause) == ("memory", "memory's part of the prompt")


def test_a_cold_cache_is_the_cause_after_an_equal_beginning(
    story: Story,
) -> None:
    for number in range(10):
        story.say(f"{number} words " * 100, CACHED)
    story.add(RewindEntry(to=story.message_id(-2)))
    story.say("other words", Usage(input_tokens=5_000))
    assert found(story).kind == "cache"
    assert found(story).cause.endswith("is the same; after it, the conversation was rewound")


def test_a_change_is_the_cause_when_the_cache_is_warm(story: Story) -> None:
    for number in range(10):
        story.say(f"{number} words " * 100, CACHED)
    story.add(RewindEntry(to=story.message_id(-2)))
    story.say("other words", Usage(input_tokens=5_000, cached_tokens=4_000))
    assert found(story).kind == "rewind"


def test_only_text_sent_before_and_repeated_counts_as_reread(story: Story) -> None:
    for number in range(10):
        story.say(f"{number} words " * 100, CACHED)
    story.add(TrimEntry(kept_from=story.message_id(-1)))
    story.say("more words " * 100, Usage(input_tokens=1_000, cached_tokens=100))
    trimmed = found(story).tokens
    story.sections = {**SECTIONS, "kode": "x"}
    story.say("two", Usage(input_tokens=1_000))
    assert 0 < trimmed < 400 < found(story).tokens < 1_000


@given(
    input_tokens=st.integers(min_value=0, max_value=100_000),
    cached=st.floats(min_value=0, max_value=1),
    written=st.floats(min_value=0, max_value=1),
)
def test_rereading_never_exceeds_the_servers_uncached_count(
    tmp_path_factory: pytest.TempPathFactory, input_tokens: int, cached: float, written: float
) -> None:
    cached_tokens = int(input_tokens * cached)
    usage = Usage(
        input_tokens=input_tokens,
        cached_tokens=cached_tokens,
        cache_write_tokens=int((input_tokens - cached_tokens) * written),
    )
    story = Story(tmp_path_factory.getbasetemp())
    story.say("one")
    story.sections = {"kode": "Be bad."}
    story.say("two", usage)
    again = found(story)
    assert 0 <= again.tokens <= input_tokens - cached_tokens
    assert again.cost_usd is not None
    assert again.cost_usd >= 0


def test_an_expired_cache_names_who_else_asked(story: Story) -> None:
    story.add(UsageEntry(purpose="memory", usage=Usage(input_tokens=9), model="m"))
    story.add(UsageEntry(purpose="memory", usage=Usage(input_tokens=9), model="another"))
    story.say("two", Usage(input_tokens=5_100))
    assert found(story).kind == "cache"
    assert found(story).cause.endswith("1 other request to it came in between (memory)")
    assert found(story).tokens == 5_000
    assert found(story).cost_usd == pytest.approx(5_000 * 0.9)


def test_blocks_of_a_cache_are_no_loss(story: Story) -> None:
    story.say("two", Usage(input_tokens=5_100, cached_tokens=4_992))
    assert story.last is None


def test_an_unknown_price_is_no_price(tmp_path: Path) -> None:
    story = Story(tmp_path, model="unpriced")
    story.say("one")
    story.say("two")
    assert found(story).cost_usd is None


def test_a_part_that_lost_its_text_is_still_named(tmp_path: Path) -> None:
    story = Story(tmp_path, keep=False)
    story.say("one")
    story.tools = (READ, ToolSpec(name="edit_file", description="New.", parameters={}))
    story.say("two")
    spot = found(story).spot
    assert spot is not None
    assert (spot.name, spot.byte) == ("tool edit_file", None)


def opening(*sections: str) -> Message:
    texts = tuple(Text(text=text, source="opening") for text in sections)
    return Message(role="user", parts=(*texts, Text(text="hi")))


HERE = "# Where you are\nWorking directory: /a (not in a git repository). Today is 2026-11-22."
RULES = "# Instructions of this project\nBe kind."


@pytest.mark.parametrize(
    ("was", "is_", "kind"),
    [
        ((HERE,), (HERE.replace("22", "23"),), "day"),
        ((HERE,), (HERE.replace("/a", "/b"),), "folder"),
        ((HERE,), (RULES, HERE), "instructions"),
        ((RULES, HERE), (HERE,), "instructions"),
        ((RULES, HERE), (RULES + " Always.", HERE), "instructions"),
        (("# Skills\nfly", HERE), ("# Skills\nswim", HERE), "skills"),
    ],
)
def test_openings_of_a_conversation_are_told_apart(
    tmp_path: Path, was: tuple[str, ...], is_: tuple[str, ...], kind: str
) -> None:
    sent = []
    for sections in (was, is_):
        story = Story(tmp_path)
        story.session.append_message(opening(*sections))
        story.ask(CACHED)
        sent += requests_of(story.session.header, story.session.entries)
    again = first_break(tmp_path, sent[0], sent[1], ("/a", "/a"), price)
    assert again is not None
    assert again.kind == kind
    elsewhere = first_break(tmp_path, sent[0], sent[1], ("/a", "/b"), price)
    assert elsewhere is not None
    assert elsewhere.kind == ("day" if kind == "day" else "folder")


@pytest.mark.parametrize(
    ("usage", "kind"),
    [
        (Usage(input_tokens=5_000), "cache"),
        (Usage(input_tokens=5_000, cached_tokens=4_000), None),
        (Usage(input_tokens=500), None),
    ],
)
def test_a_new_session_with_an_equal_beginning_finds_the_cache(
    tmp_path: Path, usage: Usage, kind: str | None
) -> None:
    sent = []
    for text in ("one", "another"):
        story = Story(tmp_path)
        story.say(text, usage)
        sent += requests_of(story.session.header, story.session.entries)
    again = first_break(tmp_path, sent[0], sent[1], ("/a", "/a"), price)
    assert (again.kind if again else None) == kind


def test_returning_to_a_model_costs_what_its_server_forgot(story: Story) -> None:
    story.model = "n"
    story.say("two", Usage(input_tokens=5_000))
    away = found(story)
    story.model = "m"
    story.say("three", Usage(input_tokens=5_000, cached_tokens=4_600))
    back = found(story)
    assert (away.kind, back.kind) == ("model", "model")
    assert back.tokens < 400 < 4_000 < away.tokens < 5_000
