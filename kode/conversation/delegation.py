"""What all subagents of a session share, what each of them starts with, and how a fork begins: a
subagent whose transcript holds its parent's messages as the parent's next request would, so that a
server finds them in its cache. Siblings differ in nothing before their task, which comes last.
"""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kode.config.choice import resolve_provider, small_choice
from kode.config.model import Config, Embedding, ProviderPart
from kode.engine.agent import Agent
from kode.errors import StorageError, ToolError
from kode.events import Notice, silent
from kode.extensions.agents import lacking, may_use
from kode.extensions.familiar_calls import called
from kode.extensions.found_extensions import FoundExtensions, in_use
from kode.extensions.mcp_tools import tools_of
from kode.messages import Message, ToolResult, Usage, failure_of
from kode.permissions.question import Answer, Ask, Question
from kode.provider import ToolSpec
from kode.session.entries import (
    AnyEntry,
    MessageEntry,
    Origin,
    SectionUpdateEntry,
    TaintEntry,
    UsageEntry,
    line_of,
    new_session_id,
    timestamp,
)
from kode.session.log import Session
from kode.session.messages import add_message, unanswered
from kode.tool import Tool, ToolContext
from kode.undo.journal import TurnId

if TYPE_CHECKING:
    from kode.conversation.conversation import Conversation
    from kode.subagents.parent import Delegation, SharedTools
    from kode.subagents.task import Start, Task

RESERVED_STEPS = 3
"""Requests of a turn's last steps kept in reserve, for the parent to use what its subagents
found."""

FORKED = (
    "[From here on you are a subagent: a fork of this conversation in a process of its own. Your "
    "task is the next message. Do that alone; your answer goes to the agent that made this call.]"
)
ELSEWHERE = "[Not run in this fork: the agent that it was made from runs this call.]"


def make_delegation(conversation: "Conversation", found: FoundExtensions) -> "Delegation":
    """What all subagents of a session share. The current model and permission mode count when a
    child starts: they may change in between."""
    from kode.subagents.parent import Delegation, child_environment

    settings, session, agent = conversation.settings, conversation.session, conversation.agent
    config = conversation.config

    def record(usage: Usage, cost_usd: float | None) -> None:
        model = conversation.agent.provider.model
        entry = UsageEntry(purpose="subagent", usage=usage, cost_usd=cost_usd, model=model)
        try:
            session.append(entry)
        except StorageError as error:
            settings.emit(Notice(text=str(error), level="error"))

    # Variables that a subagent itself gets although they look secret: what the person passes on,
    # and the credentials of a cloud, which its SDK reads.
    reads = resolve_provider(config, os.environ).row.reads
    return Delegation(
        folder=conversation.agents_folder,
        session=session,
        agent=lambda: conversation.agent,
        limits=config.subagent,
        environment=child_environment(
            os.environ, agent.secrets, (*config.shell.environment, *reads)
        ),
        start=lambda: start_of_child(
            conversation.config,
            conversation.agent,
            session,
            may_ask=settings.ask is not None,
            trust_project=settings.trust_project,
        ),
        ask=None if settings.ask is None else _ask_in_turn(conversation, settings.ask),
        record=record,
        share_tools=_tool_sharer(conversation, found),
        free=asyncio.Semaphore(config.subagent.max_concurrency),
        fork=partial(fork_of, session),
    )


def _ask_in_turn(conversation: "Conversation", ask: Ask) -> Ask:
    one_at_a_time = asyncio.Lock()

    async def ask_person(question: Question) -> Answer:
        gate = conversation.gate
        async with one_at_a_time:
            # An answer given meanwhile for one subagent applies to the others too.
            if question.rules and set(question.rules) <= set(gate.approved_in_session):
                return Answer(choice="session")
            answer = await ask(question)
            if answer.choice == "session":
                gate.approve_in_session(question.rules)
        return answer

    return ask_person


def _tool_sharer(
    conversation: "Conversation", found: FoundExtensions
) -> "Callable[[Task, Path], SharedTools]":
    """Returns what a subagent gets of its parent's servers, and says what of its definition the
    parent does not have."""
    from kode.subagents.parent import SharedTools

    agents = {agent.item.name: agent for agent in in_use(found.agents)}
    skills = {skill.item.name for skill in in_use(found.skills)}

    def share_tools(task: "Task", folder: Path) -> "SharedTools":
        definition, agent = agents.get(task.agent or ""), conversation.agent
        if (extensions := conversation.extensions) is not None:
            window = agent.provider.info.context_window
            tools = extensions.shared_tools(definition, window)
            available = tools_of(list(extensions.servers.values()))
        else:  # of a subagent: what it was lent itself
            available = conversation.settings.tools
            tools = tuple(tool for tool in available if may_use(definition, tool))
        lacks = lacking(definition, available, skills) if definition is not None else ()
        if lacks:
            conversation.say_once(
                f"The agent {task.agent} works without what its definition names and this session "
                f"does not have: {', '.join(lacks)}."
            )
        context = ToolContext(
            place=replace(agent.place, outputs=folder / "outputs"),
            call_id="",
            session_id=None,
            emit=silent,
            seen_files={},
        )
        return SharedTools(tools=tools, context=context, lacks=tuple(lacks))

    return share_tools


def start_of_child(
    config: Config, agent: Agent, session: Session, *, may_ask: bool, trust_project: bool = False
) -> "Start":
    """The first line for a child that starts now, with the keys in use and no others. Raises:
    ConfigError."""
    from kode.subagents.task import Start

    choice = resolve_provider(config, os.environ)
    gate, spend = agent.gate, agent.spend
    whole = agent.limits.max_tree_steps or agent.limits.max_steps
    part = config.providers.get(choice.name, ProviderPart())
    parts = {choice.name: ProviderPart(api=part.api, headers=part.headers)}
    if (fallback := config.fallback_model) is not None:
        other = small_choice(config, os.environ, fallback)
        fallback = f"{other.name}/{other.model}"
        reached = {"base_url": other.base_url, "api_key": other.api_key}
        part = config.providers.get(other.name, ProviderPart()).model_copy(update=reached)
        parts = {other.name: part, **parts}
    handed = config.model_copy(
        update={
            "provider": choice.name,
            "model": agent.provider.model,
            "effort": agent.effort,
            "small_model": None,
            "fallback_model": fallback,
            "base_url": choice.base_url,
            "api_key": choice.api_key,
            "providers": parts,
            "memory": config.memory.model_copy(update={"enabled": False, "embedding": Embedding()}),
            "permissions": config.permissions.model_copy(update={"mode": gate.mode}),
        }
    )
    return Start(
        config=handed.model_dump(mode="json"),
        may_ask=may_ask,
        trust_project=trust_project,
        approved=gate.approved_in_session,
        tainted=session.tainted,
        rest_of_tree_usd=spend.cost_usd + spend.rest_of_tree_usd,
        rest_of_tree_steps=spend.steps + spend.rest_of_tree_steps,
        max_tree_steps=max(1, whole - min(RESERVED_STEPS, whole // 4)),
        undo=str(agent.undo.folder),
        turn=TurnId(session.turn_id, session.turns),
        seen=agent.seen_files,
    )


def fork_of(session: Session, call_id: str) -> Callable[[], bytes]:
    """The transcripts of children that begin with the session's messages, masked as on disk, and a
    result for each call that is still open; `call_id` is the one that starts them. Each call of
    what it returns makes one."""
    messages = list(session.messages)
    pending = unanswered(messages, session.answers)
    parts = (
        ToolResult(call_id=call.id, name=call.name, text=FORKED)
        if call.id == call_id
        else failure_of(call, ELSEWHERE, cut="not_run")
        for call in pending
    )
    add_message(messages, list(session.answers), Message(role="tool", parts=tuple(parts)))
    entries: list[AnyEntry] = [session.beginning] if session.beginning else []
    entries += (
        SectionUpdateEntry(section=name, text=text) for name, text in session.section_texts.items()
    )
    entries += [TaintEntry(source=session.tainted_by)] if session.tainted else []
    entries += map(_entry_without_cost, messages)
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


def _entry_without_cost(message: Message) -> MessageEntry:
    """Its own session has counted what it cost."""
    values = {field.name: getattr(message, field.name) for field in fields(Message)}
    ids = {"id": message.id, "at": message.at} if isinstance(message, MessageEntry) else {}
    return MessageEntry(**{**values, **ids, "usage": None})


def begin_as_parent(agent: Agent, session: Session) -> Agent:
    """The agent of a fork, with the system prompt that its session begins with, also after a
    compaction, and not one of its own."""
    beginning = session.beginning
    texts = {**(beginning.texts if beginning else {}), **session.section_texts}
    servers = tuple(texts.pop("servers", "").splitlines())
    return replace(agent, render_system=lambda late: texts, servers=servers)


def with_declared(session: Session, tools: Sequence[Tool]) -> tuple[Tool, ...]:
    """The tools of a fork, with one that refuses its calls for each that the session declares and
    they are not."""
    specs = [ToolSpec(**tool) for tool in session.beginning.tools] if session.beginning else []
    lacking = (spec for spec in specs if called(tools, spec.name) is None)
    return (*tools, *map(_refusing_tool, lacking))


def _refusing_tool(spec: ToolSpec) -> Tool:
    async def refuse(context: ToolContext, arguments: Mapping[str, Any]) -> str:
        raise ToolError(
            f"A subagent has no `{spec.name}`: it is declared only because this conversation began "
            "with it. Report what you would have used it for."
        )

    return Tool(
        name=spec.name,
        description=spec.description,
        effect="none",
        subject="",
        parallel=False,
        parameters=lambda: spec.parameters,
        check=lambda arguments: arguments,
        run=refuse,
        api_type=spec.api_type,
        grammar=spec.grammar,
    )
