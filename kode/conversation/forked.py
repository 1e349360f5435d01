"""Subagents that begin with their parent's conversation: what the parent hands over, and what the
child makes of a beginning that is not its own.

The child's transcript holds the messages as the parent's next request would, so that a server finds
them in its cache. Siblings differ in nothing before their task, which comes last.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

from kode.engine.agent import Agent
from kode.errors import ToolError
from kode.extensions.familiar_calls import called
from kode.messages import Message, ToolResult, failure_of
from kode.provider import ToolSpec
from kode.session.entries import (
    AnyEntry,
    MessageEntry,
    Origin,
    SectionUpdateEntry,
    TaintEntry,
    line_of,
    new_session_id,
    timestamp,
)
from kode.session.log import Session
from kode.session.messages import add_message, unanswered
from kode.tool import Tool, ToolContext

FORKED = (
    "[From here on you are a subagent: a fork of this conversation in a process of its own. Your "
    "task is the next message. Do that alone; your answer goes to the agent that made this call.]"
)
ELSEWHERE = "[Not run in this fork: the agent that it was made from runs this call.]"


def fork_of(session: Session, call_id: str) -> Callable[[], bytes]:
    """The transcripts of children that begin with the session's messages, masked as on disk, and a
    result for each call that is still open; `call_id` is the one that starts them. Each call of
    what it returns makes one."""
    messages = list(session.messages)
    pending = unanswered(messages[-1], session.answers) if messages else ()
    parts = (
        ToolResult(call_id=call.id, name=call.name, text=FORKED)
        if call.id == call_id
        else failure_of(call, ELSEWHERE, cut="not_run")
        for call in pending
    )
    add_message(messages, list(session.answers), Message(role="tool", parts=tuple(parts)))
    entries: list[AnyEntry] = [session.beginning] if session.beginning else []
    entries += (SectionUpdateEntry(section=name, text=text) for name, text in session.told.items())
    entries += [TaintEntry(source=session.tainted_by)] if session.tainted else []
    entries += map(_entry, messages)
    rest, header = b"\n".join(map(line_of, entries)), session.header
    last = session.messages[-1] if session.messages else None
    at = last.id if isinstance(last, MessageEntry) else None

    def transcript() -> bytes:
        own = replace(
            header,
            id=new_session_id(),
            created_at=timestamp(),
            parent=header.parent or header.id,  # the name by which a server knows the beginning
            forked_from=Origin(session=header.id, entry=at),
        )
        return b"%b\n%b\n" % (line_of(own), rest)

    return transcript


def _entry(message: Message) -> MessageEntry:
    """Without what it cost, which its own session has counted."""
    kept = {one.name: getattr(message, one.name) for one in fields(Message)}
    ids = {"id": message.id, "at": message.at} if isinstance(message, MessageEntry) else {}
    return MessageEntry(**{**kept, **ids, "usage": None})


def begun_as(agent: Agent, session: Session) -> Agent:
    """The agent with the system prompt that the session begins with, and not one of its own: also
    after a compaction."""
    begun = session.beginning
    known = {**(begun.texts if begun else {}), **session.told}
    servers = tuple(known.pop("servers", "").splitlines())
    return replace(agent, render_system=lambda late: known, servers=servers)


def with_declared(session: Session, tools: Sequence[Tool]) -> tuple[Tool, ...]:
    """The tools, with one that refuses its calls for each that the session declares and they are
    not."""
    specs = [ToolSpec(**tool) for tool in session.beginning.tools] if session.beginning else []
    lacking = (spec for spec in specs if called(tools, spec.name) is None)
    return (*tools, *map(_refused, lacking))


def _refused(spec: ToolSpec) -> Tool:
    return Tool(
        name=spec.name,
        description=spec.description,
        effect="none",
        subject="",
        parallel=False,
        parameters=lambda: spec.parameters,
        check=lambda arguments: arguments,
        run=partial(_refuse, spec.name),
        api_type=spec.api_type,
        grammar=spec.grammar,
    )


async def _refuse(name: str, context: ToolContext, arguments: Mapping[str, Any]) -> str:
    raise ToolError(
        f"A subagent has no `{name}`: it is declared only because this conversation began with it. "
        "Report what you would have used it for."
    )
