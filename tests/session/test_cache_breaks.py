"""Which part of a request's beginning changed, by what, and how much was read again."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kode.messages import Message, Text, Usage, user_message
from kode.provider import ToolSpec
from kode.session import log
from kode.session.cache_breaks import CacheBreak, find_breaks
from kode.session.entries import (
    CompactionEntry,
    Header,
    MessageEntry,
    RequestEntry,
    RestoreEntry,
    RewindEntry,
    SystemEntry,
    TrimEntry,
)
from kode.session.log import Session
from tests.tables import for_each

SECTIONS = {"kode": "Be good. " * 20, "memory": "§ Likes tea.\n§ Likes blue."}
READ = ToolSpec(name="read_file", description="Reads. " * 10, parameters={"type": "object"})
EDIT = ToolSpec(name="edit_file", description="Edits. " * 10, parameters={"type": "object"})
EDIT_2 = ToolSpec(name="edit_file", description="New.", parameters={})
FETCH = ToolSpec(name="mcp__web__fetch", description="Fetches.", parameters={"type": "object"})
CACHED = Usage(input_tokens=5_100, cached_tokens=5_000)
COLD = Usage(input_tokens=5_100)


def price(model: str, usage: Usage) -> float | None:
    """A dollar a token that is read, a tenth from a cache, two that are written to one."""
    spent = usage.uncached_tokens + usage.cached_tokens / 10 + usage.cache_write_tokens * 2
    return None if model == "unpriced" else spent


@dataclass
class Story:
    """A session that is made entry by entry."""

    home: Path
    provider: str = "openai"
    model: str = "m"
    sections: Mapping[str, str] = field(default_factory=lambda: dict(SECTIONS))
    tools: tuple[ToolSpec, ...] = (READ, EDIT)
    session: Session = field(init=False)

    def __post_init__(self) -> None:
        self.session = log.create(None, Header(cwd=str(self.home), model="m", provider="openai"))

    def say(self, text: str, usage: Usage = CACHED) -> None:
        """A message of the person, the request, and its answer."""
        self.session.append_message(user_message(text))
        system = SystemEntry(sections={**self.sections}, tools=self.tools)
        self.session.append(system, RequestEntry(provider=self.provider, model=self.model))
        parts = (Text(text="ok"),)
        answer = Message(role="assistant", parts=parts, usage=usage, model=self.model)
        self.session.append_message(answer)

    @property
    def breaks(self) -> list[CacheBreak]:
        log.write_session(self.home, self.session.header, self.session.entries)
        return find_breaks(self.session.header, self.session.entries, price)

    @property
    def last(self) -> CacheBreak:
        """The break at the last answer."""
        answers = [e for e in self.session.entries if isinstance(e, MessageEntry)]
        return {cache_break.step: cache_break for cache_break in self.breaks}[answers[-1].id]

    def message_id(self, at: int) -> str:
        return [one for one in self.session.entries if isinstance(one, MessageEntry)][at].id


@pytest.fixture
def story(tmp_path: Path) -> Story:
    story = Story(tmp_path)
    story.say("one")
    return story


def test_the_section_that_changed_is_named_with_both_texts(story: Story) -> None:
    story.sections = {**SECTIONS, "memory": "§ Likes tea.\n§ Likes red."}
    story.say("two", COLD)
    assert story.last.kind == "memory"
    assert story.last.cause.startswith("the memory changed: ")
    assert [text[-5:] for text in story.last.cause.split("'")[1::2]] == ["blue.", " red."]


ADDED, BOTH = "the tool mcp__web__fetch was added", {"tools": (READ,), "sections": {"kode": "No."}}


@for_each(
    ("provider", "changes", "kind", "cause"),
    [
        ("openai", {"tools": (READ, EDIT, FETCH)}, "tool", ADDED),
        ("openai", {"tools": (FETCH, READ, EDIT)}, "tool", ADDED),
        ("openai", {"tools": (READ,)}, "tool", "the tool edit_file was removed"),
        ("openai", {"tools": (EDIT,)}, "tool", "the tool read_file was removed"),
        ("openai", {"tools": (EDIT, READ)}, "tool", "the tool edit_file moved"),
        ("openai", {"tools": (READ, EDIT_2)}, "tool", "the tool edit_file changed: "),
        # The part that a server reads first is to blame.
        ("openai", BOTH, "kode", ""),
        ("anthropic", BOTH, "tool", ""),
    ],
)
def test_the_tool_that_is_to_blame_is_named(
    tmp_path: Path, provider: str, changes: dict[str, object], kind: str, cause: str
) -> None:
    story = Story(tmp_path, provider=provider)
    story.say("one")
    vars(story).update(changes)
    story.say("two", COLD)
    assert story.last.kind == kind
    assert story.last.cause.startswith(cause)


def test_the_sessions_own_edit_of_its_messages_is_the_cause(story: Story) -> None:
    warm = Usage(input_tokens=5_100, cached_tokens=4_000)
    for text in ("two", "three", "four"):
        story.say(text)
    compaction = CompactionEntry(summary="Said.", kept_from=story.message_id(-2))
    edits = [
        compaction,
        RestoreEntry(of=compaction.id),
        TrimEntry(kept_from=story.message_id(-4)),
        RewindEntry(to=story.message_id(-2)),
    ]
    for edit in edits:
        story.session.append(edit)
        story.say("and now?", warm)
        assert (story.last.kind, edit.type in story.last.cause) == (edit.type, True)


def test_only_a_compaction_renders_the_system_prompt_again(story: Story) -> None:
    story.say("two")
    kept = story.message_id(-1)
    for edit, kind in ((TrimEntry, "memory"), (CompactionEntry, "compaction")):
        summary = {"summary": "All was said."} if kind == "compaction" else {}
        story.session.append(edit(kept_from=kept, **summary))
        story.sections = {**SECTIONS, "memory": f"§ Likes {kind}."}
        story.say("three", COLD)
        assert story.last.kind == kind
        assert "the memory changed: " in story.last.cause


def test_an_expired_cache_costs_the_discount_it_lost(story: Story) -> None:
    story.say("two", COLD)
    assert (story.last.kind, story.last.tokens) == ("cache", 5_100)
    assert story.last.cost_usd == pytest.approx(5_100 * 0.9)
    story.say("three")
    story.session.append(RewindEntry(to=story.message_id(-2)))
    story.say("other words", COLD)
    assert story.last.kind == "cache"
    assert "rewind" in story.last.cause
    story.model = "unpriced"
    story.say("four", COLD)
    assert (story.last.kind, story.last.cost_usd) == ("model", None)


@for_each(
    ("first", "second", "kinds"),
    [
        (CACHED, COLD, ["cache"]),
        (CACHED, Usage(input_tokens=5_100, cached_tokens=4_900), []),
        (CACHED, Usage(input_tokens=500), []),
        (COLD, COLD, []),
    ],
)
def test_only_servers_reporting_cached_tokens_can_lose_them(
    tmp_path: Path, first: Usage, second: Usage, kinds: list[str]
) -> None:
    story = Story(tmp_path)
    for usage in (first, second):
        story.say("hello", usage)
    assert [lost.kind for lost in story.breaks] == kinds
