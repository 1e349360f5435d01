"""What all subagents of a session share, and what each of them starts with."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kode.config import Config, Embedding, ProviderPart, resolve_provider, small_choice
from kode.conversation.forked import fork_of
from kode.conversation.open_session import OpenSession
from kode.engine.agent import Agent
from kode.errors import StorageError
from kode.events import Emit, Notice, silent
from kode.extensions.agents import lacking, may_use
from kode.extensions.found_extensions import FoundExtensions, in_use
from kode.extensions.mcp_tools import tools_of
from kode.messages import Usage
from kode.permissions.gate import Answer, Ask, Question
from kode.session.entries import UsageEntry
from kode.session.log import Session
from kode.tool import ToolContext
from kode.undo.journal import TurnId

if TYPE_CHECKING:
    from kode.subagents.parent import Delegation, SharedTools
    from kode.subagents.task import Start, Task

STEPS_KEPT = 3
"""Requests of a turn's last steps kept in reserve, for the parent to use what its subagents
found."""


def make_delegation(
    config: Callable[[], Config],
    agent: Callable[[], Agent],
    session: Session,
    *,
    folder: Path,
    ask: Ask | None,
    emit: Emit,
    share_tools: "Callable[[Task, Path], SharedTools]",
    trust_project: bool = False,
) -> "Delegation":
    """What all subagents of a session share. `config` and `agent` return the current values when a
    child starts: model and permission mode may change in between."""
    from kode.subagents.parent import Delegation, child_environment

    one_at_a_time = asyncio.Lock()

    def start() -> "Start":
        begun = _start_of_child(config(), agent(), session, may_ask=ask is not None)
        return begun.model_copy(update={"trust_project": trust_project})

    async def ask_person(question: Question) -> Answer:
        assert ask is not None
        gate = agent().gate
        async with one_at_a_time:
            # An answer given meanwhile for one subagent applies to the others too.
            if question.rules and set(question.rules) <= set(gate.approved_in_session):
                return Answer(choice="session")
            answer = await ask(question)
            if answer.choice == "session":
                gate.approve_in_session(question.rules)
        return answer

    def record(usage: Usage, cost_usd: float | None) -> None:
        model = agent().provider.model
        entry = UsageEntry(purpose="subagent", usage=usage, cost_usd=cost_usd, model=model)
        try:
            session.append(entry)
        except StorageError as error:
            emit(Notice(text=str(error), level="error"))

    limits = config().subagent
    return Delegation(
        folder=folder,
        session=session,
        agent=agent,
        limits=limits,
        environment=child_environment(os.environ, agent().secrets, _kept(config())),
        start=start,
        ask=None if ask is None else ask_person,
        record=record,
        share_tools=share_tools,
        free=asyncio.Semaphore(limits.max_concurrency),
        fork=partial(fork_of, session),
    )


def tool_sharer(
    opened: OpenSession, found_extensions: FoundExtensions
) -> "Callable[[Task, Path], SharedTools]":
    """Returns what a subagent gets of its parent's servers, and says what of its definition the
    parent does not have."""
    from kode.subagents.parent import SharedTools

    agents = {agent.item.name: agent for agent in in_use(found_extensions.agents)}
    skills = {skill.item.name for skill in in_use(found_extensions.skills)}

    def share_tools(task: "Task", folder: Path) -> "SharedTools":
        definition, now = agents.get(task.agent or ""), opened.agent
        if (extensions := opened.terms.extensions) is not None:
            tools = extensions.shared_tools(definition, now.provider.info.context_window)
            known = tools_of(list(extensions.servers.values()))
        else:  # of a subagent: what it was lent itself
            known = opened.terms.tools
            tools = tuple(tool for tool in known if may_use(definition, tool))
        lacks = lacking(definition, known, skills) if definition is not None else ()
        if lacks:
            opened.terms.say_once(
                f"The agent {task.agent} works without what its definition names and this session "
                f"does not have: {', '.join(lacks)}."
            )
        context = ToolContext(
            place=replace(now.place, outputs=folder / "outputs"),
            call_id="",
            session_id=None,
            emit=silent,
            seen_files={},
        )
        return SharedTools(tools=tools, context=context, lacks=tuple(lacks))

    return share_tools


def _kept(config: Config) -> tuple[str, ...]:
    """The variables that a subagent itself gets although they look secret: what the person passes
    on, and the credentials of a cloud, which its SDK reads."""
    return (*config.shell.environment, *resolve_provider(config, os.environ).row.reads)


def _start_of_child(config: Config, agent: Agent, session: Session, *, may_ask: bool) -> "Start":
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
            # Only the keys in use.
            "providers": parts,
            "memory": config.memory.model_copy(update={"enabled": False, "embedding": Embedding()}),
            "permissions": config.permissions.model_copy(update={"mode": gate.mode}),
        }
    )
    return Start(
        parent_pid=os.getpid(),
        config=handed.model_dump(mode="json"),
        may_ask=may_ask,
        approved=gate.approved_in_session,
        tainted=session.tainted,
        rest_of_tree_usd=spend.cost_usd + spend.rest_of_tree_usd,
        rest_of_tree_steps=spend.steps + spend.rest_of_tree_steps,
        max_tree_steps=max(1, whole - min(STEPS_KEPT, whole // 4)),
        undo=str(agent.undo.folder),
        turn=TurnId(session.turn_id, session.turns),
        seen=agent.seen_files,
    )
