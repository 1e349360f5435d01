"""What a fork begins with, and what it may not do."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kode.conversation.delegation import ELSEWHERE, FORKED, fork_of
from kode.messages import Message, Text, Thinking, ToolCall, ToolResult, Usage, user_message
from kode.session import log
from kode.session.entries import (
    CompactionEntry,
    Header,
    SectionUpdateEntry,
    SystemEntry,
    TaintEntry,
    UsageEntry,
)
from kode.session.export import as_json, as_markdown
from kode.session.log import Session
from kode.session.transcript import Transcript
from kode.subagents import records
from kode.subagents.task import Task

SECRET = "sk-proj-" + "A1b2C3d4" * 6
NONE: Any = SimpleNamespace()


def calls(*names: str) -> Message:
    parts = [ToolCall(id=f"call_{at}", name=name, arguments="{}") for at, name in enumerate(names)]
    thought = Thinking(text="Well.", signature="s")
    usage = Usage(input_tokens=10, output_tokens=5)
    return Message(role="assistant", parts=(thought, *parts), stop="tool_calls", usage=usage)


def answered(at: int, text: str) -> Message:
    result = ToolResult(call_id=f"call_{at}", name="x", text=text)
    return Message(role="tool", parts=(result,))


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[Session]:
    session = log.create(tmp_path, Header(cwd=str(tmp_path), model="m", provider="p"))
    specs = [{"name": n, "description": "d", "parameters": {}} for n in ("read_file", "memory")]
    session.append(SystemEntry(sections={"kode": "You are kode."}, tools=tuple(specs)))
    yield session
    session.close()


def forked(parent: Session, folder: Path, call_id: str) -> Session:
    """A child's session, as the child opens it, and closed."""
    about = {"mark": "0" * 16, "call_id": call_id}
    transcript = fork_of(parent, call_id)
    records.create(folder, Task(goal="g"), about, transcript)
    session, _ = log.load(folder, folder.name, folder / "transcript.jsonl")
    session.close()
    return session


def texts(messages: list[Message]) -> list[str]:
    return [p.text for m in messages for p in m.parts if isinstance(p, (Text, ToolResult))]


def test_a_fork_has_a_result_for_every_call(parent: Session, tmp_path: Path) -> None:
    parent.append_message(user_message("look"))
    parent.append_message(calls("read_file", "delegate_tasks", "read_file"))
    parent.append_message(answered(0, "seen"))

    child = forked(parent, tmp_path / "a", "call_1")

    assert child.messages[:-1] == [
        *parent.messages[:1],
        # What it cost is its parent's.
        *[m for m in child.messages[1:2] if m.parts == parent.messages[1].parts and not m.usage],
    ]
    assert texts(child.messages[-1:]) == ["seen", FORKED, ELSEWHERE]
    assert child.bound(2) == parent.bound(2)
    assert not any(message.moved for message in child.messages)
    assert child.spent.usage == Usage()


def test_a_fork_of_a_compacted_session_has_its_note(parent: Session, tmp_path: Path) -> None:
    parent.append_message(user_message("long ago"))
    parent.append_message(Message(role="assistant", parts=(Text(text="done"),)))
    kept = parent.append_message(user_message("now"))
    parent.append(CompactionEntry(summary="What was done.", kept_from=kept.id))
    parent.append_message(calls("delegate_tasks"))

    child = forked(parent, tmp_path / "a", "call_0")

    said = "\n".join(texts(child.messages))
    assert "What was done." in said
    assert "long ago" not in said
    assert [m.parts for m in child.messages[:-1]] == [m.parts for m in parent.messages]
    assert child.chain.of(child.messages)[-2] == parent.chain.of(parent.messages)[-1]


def test_origin_taint_and_news_go_along_and_secrets_do_not(parent: Session, tmp_path: Path) -> None:
    parent.append(TaintEntry(source="https://x"), SectionUpdateEntry(section="memory", text="New."))
    parent.append(UsageEntry(purpose="memory", usage=Usage(input_tokens=9, output_tokens=9)))
    parent.append_message(user_message(f"My key is {SECRET}"))
    parent.append_message(calls("delegate_tasks"))

    child = forked(parent, tmp_path / "agents" / "a", "call_0")
    again = forked(parent, tmp_path / "agents" / "b", "call_0")

    origin = child.header.forked_from
    assert (origin.session, origin.entry) == (parent.header.id, parent.entries[-1].id)
    assert child.header.parent == parent.header.id
    assert child.header.id != again.header.id
    transcript = Transcript.read(child.path)
    assert as_json(transcript)["forked_from"]["entry"] == origin.entry
    assert parent.header.id in as_markdown(transcript)
    assert (child.path.stat().st_mode & 0o777) == 0o600
    assert child.tainted
    assert child.section_texts == {"memory": "New."}
    assert SECRET not in child.path.read_text()
    # Its thinking was bound to other words than the fork has.
    assert child.messages[1].moved
