"""Sessions for tests to work on: a small one with every kind of entry, and ways to damage it."""

import os
import time
from dataclasses import fields
from pathlib import Path

from kode.messages import Message, Text, Thinking, ToolCall, ToolResult, Usage, user_message
from kode.session import log
from kode.session.entries import (
    Entry,
    Header,
    MessageEntry,
    StateEntry,
    SystemEntry,
    TaintEntry,
    TurnEntry,
    UsageEntry,
)
from kode.session.log import Session


def answer(text: str) -> Message:
    return Message(
        role="assistant",
        parts=(Text(text=text),),
        stop="end",
        usage=Usage(input_tokens=10, output_tokens=5),
        model="m",
    )


def asks(*ids: str) -> Message:
    calls = tuple(ToolCall(id=i, name="shell", arguments='{"command":"ls"}') for i in ids)
    return Message(
        role="assistant",
        parts=(Thinking(text="hm", signature="s", origin="a/m"), *calls),
        stop="tool_calls",
        usage=Usage(input_tokens=10, output_tokens=5),
    )


def results(*ids: str, text: str = "done") -> Message:
    return Message(
        role="tool",
        parts=tuple(ToolResult(call_id=i, name="shell", text=text) for i in ids),
    )


def turn_entry(number: int, session: Session) -> TurnEntry:
    return TurnEntry(
        number=number,
        status="success",
        steps=1,
        usage=Usage(input_tokens=10, output_tokens=5),
        cost_usd=0.5,
        duration_ms=3,
        total_usage=session.spent.usage,
        total_cost_usd=session.spent.cost_usd,
        session_name=session.name,
    )


def new_session(home: Path, cwd: Path | None = None) -> Session:
    return log.create(home, Header(cwd=str(cwd or home), model="m", provider="openai"))


def message_of(step: str) -> Message:
    """`user TEXT`, `answer TEXT`, `asks IDS` or `results IDS`."""
    verb, _, rest = step.partition(" ")
    if verb in ("user", "answer"):
        return user_message(rest) if verb == "user" else answer(rest)
    return asks(*rest.split()) if verb == "asks" else results(*rest.split())


def entry_of(step: str | Message | Entry) -> Entry:
    """An entry of its own, or one with this message, see `message_of`."""
    if isinstance(step, Entry):
        return step
    message = message_of(step) if isinstance(step, str) else step
    return MessageEntry(**{each.name: getattr(message, each.name) for each in fields(Message)})


def story(home: Path, *steps: str | Message | Entry, is_open: bool = False) -> Session:
    """A session of these steps, see `message_of`; closed, unless `is_open`."""
    session = new_session(home)
    for step in steps:
        if isinstance(step, Entry):
            session.append(step)
        else:
            session.append_message(message_of(step) if isinstance(step, str) else step)
    if not is_open:
        session.close()
    return session


def reopened(home: Path, session_id: str | None) -> tuple[Session, list[str]]:
    """The session as another process has it, closed again, and what was repaired."""
    session, repairs = log.load(home, str(session_id))
    session.close()
    return session, repairs


def plain_turn(session: Session, text: str) -> None:
    session.begin_prompt(text, None, (), ())
    session.append_message(answer(f"re: {text}"), cost_usd=0.5)
    session.append(turn_entry(session.turns, session))


def session_of(home: Path, *tasks: str, cwd: Path | None = None, age_s: float = 0) -> str:
    """The id of a session with a turn for each task, last changed some time ago."""
    session = new_session(home, cwd)
    for task in tasks:
        plain_turn(session, task)
    session.close()
    then = time.time() - age_s
    os.utime(session.path, (then, then))
    return session.header.id


def whole_story(home: Path) -> Session:
    """Closed, with one of most kinds of entries, tool exchanges among them."""
    session = new_session(home)
    session.append(SystemEntry(sections={"kode": "You are kode."}))
    session.append_message(user_message("look — größer 💡"))
    session.append_message(asks("c1", "c2"))
    session.append(TaintEntry(source="https://example.org"))
    session.append_message(results("c2", text="a short output"))
    session.append_message(results("c1", text="a long output " * 12))
    session.append_message(answer("I looked"), cost_usd=0.5)
    session.append(StateEntry(system="tiered", state={"buffer": ["10:00 user look"]}))
    session.append(turn_entry(1, session))
    session.append(UsageEntry(purpose="memory", usage=Usage(input_tokens=1), model="m"))
    session.append_message(user_message("again"))
    session.append_message(asks("c3"))
    session.append_message(results("c3"))
    session.close()
    return session


def assert_sendable(messages: list[Message]) -> None:
    """Every call is answered right after it, once and in order; no result without a call."""
    waiting: list[str] = []
    for message in messages:
        if message.role == "tool":
            given = [p.call_id for p in message.parts if isinstance(p, ToolResult)]
            assert given == waiting
            waiting = []
            continue
        assert not waiting
        waiting = [p.id for p in message.parts if isinstance(p, ToolCall)]
    assert not waiting
