"""Starts an open session with its first turn: the model, memory, extensions, the system prompt."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from kode.assembly import is_small, simplify
from kode.conversation.delegation import make_delegation, tool_sharer
from kode.conversation.extensions import (
    extended,
    find_extensions,
    hooks_of,
    load_skills,
    take_foreign,
)
from kode.conversation.forked import begun_as, with_declared
from kode.conversation.memory import memory_context
from kode.conversation.models import learn_model
from kode.conversation.open_session import OpenSession, Started
from kode.conversation.past import finish_undos
from kode.conversation.sessions import mark_open, remove_leftovers
from kode.engine.agent import Agent
from kode.engine.context import open_context
from kode.errors import SandboxUnknownError, UserError
from kode.events import Notice
from kode.extensions.found_extensions import in_use
from kode.memory.contract import InjectReason
from kode.messages import first_of
from kode.permissions.rules import FAMILIES, parse
from kode.session.log import was_trimmed
from kode.tool import CALLS_ANY, Tool

MAINTAIN_EVERY_S = 6 * 3600.0  # lifetimes of memory count in days


def no_sandbox(why: str) -> Notice:
    """The notice that commands cannot be tried, so kode asks more questions."""
    return Notice(
        text=f"No sandbox here ({why.rstrip('.')}): only plain reading commands run without "
        "asking. `kode doctor` says what to do."
    )


async def start(opened: OpenSession) -> Started:
    """Opens memory and extensions and renders the system prompt, once; the first turn calls it.
    Raises: KodeError."""
    async with opened.starting:
        if opened.started is None:
            opened.started = await _start(opened)
            _begin_in_background(opened)
            if opened.started.hooks is not None:
                from kode.conversation import hooking

                await hooking.begin_session(opened, opened.started.hooks)
        return opened.started


async def _start(opened: OpenSession) -> Started:
    terms, config, session = opened.terms, opened.config, opened.session
    await learn_model(opened)
    agent = opened.agent
    small = is_small(config, agent.provider)
    if small:
        agent = simplify(agent, config)
    is_fork = bool(terms.child and session.header.forked_from)
    agent = begun_as(agent, session) if is_fork else _with_sections(opened, agent)
    if is_fork and terms.child and terms.child.start:
        agent.seen_files.update(terms.child.start.seen)
    memory, context = agent.memory, memory_context(opened)
    await memory.open(context, session.state(memory.name))
    of_servers: tuple[Tool, ...] = ()
    if terms.extensions is not None:
        of_servers = await terms.extensions.open(agent.provider.info.context_window)
    await take_foreign(opened)
    found_extensions = await find_extensions(opened)
    hooks = await hooks_of(opened, found_extensions)
    # In a thread: what it imports may wait for the imports of an SDK, and the screen does not.
    agent = await asyncio.to_thread(extended, opened, agent, found_extensions, hooks)
    load_skills(opened, found_extensions)
    delegation, delegating = None, tuple[Tool, ...]()
    if not small and config.subagent.max_depth > 0:
        from kode.subagents.tool import delegate_tool

        delegation = make_delegation(
            lambda: opened.config,
            lambda: opened.agent,
            session,
            folder=opened.agents_folder,
            ask=terms.ask,
            emit=terms.emit,
            share_tools=tool_sharer(opened, found_extensions),
            trust_project=terms.trust_project,
        )
        delegating = (delegate_tool(delegation, in_use(found_extensions.agents)),)
    offered = {tool.name for tool in of_servers}
    begun = session.beginning if session.messages else None
    declared = {tool["name"] for tool in begun.tools} if begun else offered
    judged = hooks is not None and hooks.judge_calls
    tools = [
        tool
        for tool in (*agent.tools, *delegating, *memory.tools())
        if tool.name in declared or judged or opened.gate.could_run(tool)
    ]
    if terms.extensions is not None:
        reachable = terms.extensions.reachable
        tools += (tool for tool in reachable if tool.name in declared | offered)
        agent = replace(agent, servers=tuple(terms.extensions.servers))
    allowed = _those_allowed(opened, tools)
    if is_fork:
        allowed = with_declared(session, allowed)
    agent = replace(agent, tools=allowed)
    _name_idle_rules(opened, agent)
    await open_context(agent, opened.context, _inject_reason(opened))
    _name_unreachable(opened, offered - declared)
    await finish_undos(opened)
    if small and config.profile == "auto":
        _say_small(opened, agent)
    opened.agent = replace(
        opened.agent,  # `/model` may have changed it meanwhile
        small=agent.small,
        tools=agent.tools,
        servers=agent.servers,
        render_system=agent.render_system,
        opening=agent.opening,
        gate=agent.gate,
        interceptors=agent.interceptors,
        around=agent.around,
        before_compaction=agent.before_compaction,
    )
    return Started(found_extensions=found_extensions, hooks=hooks, delegation=delegation)


def _begin_in_background(opened: OpenSession) -> None:
    home = opened.place.home
    undo = opened.undo if opened.resumed else None
    id = opened.session.id if opened.terms.child is None else None
    of_home = id is not None and mark_open(home, id)
    opened.in_background(remove_leftovers(home, undo, opened.config, of_home=of_home))
    opened.in_background(_maintain(opened))
    opened.in_background(_try_sandbox(opened))


async def _maintain(opened: OpenSession) -> None:
    while True:
        await opened.agent.memory.maintain()
        await asyncio.sleep(MAINTAIN_EVERY_S)


async def _try_sandbox(opened: OpenSession) -> None:
    """Probes the sandbox while the model works on its first reply."""
    sandbox = opened.agent.sandbox
    if sandbox is not None and not sandbox.cannot_hold():
        try:
            await asyncio.to_thread(sandbox.holds)
        except SandboxUnknownError as error:
            opened.emit(Notice(text=str(error)))
        if why := sandbox.why_missing():
            opened.emit(no_sandbox(why))


def _with_sections(opened: OpenSession, agent: Agent) -> Agent:
    """Puts plug-ins' sections of the system prompt before memory's, which changes more."""
    plugged, render = opened.terms.plugged, agent.render_system
    return replace(agent, render_system=lambda late: render({**plugged.sections(), **late}))


def _those_allowed(opened: OpenSession, tools: Sequence[Tool]) -> tuple[Tool, ...]:
    """The tools of a subagent's definition, or all. Raises: UserError for two with the same name,
    which would make calls ambiguous."""
    child, plugged = opened.terms.child, opened.terms.plugged
    definition = child.definition if child is not None else None
    lent = {tool.name for tool in opened.terms.tools}  # as the definition allows
    allowed = tuple(
        tool
        for tool in tools
        if definition is None or tool.name in lent or definition.has(tool.name)
    )
    allowed = plugged.without_clashes(allowed)
    for name, count in Counter(tool.name for tool in allowed).items():
        if count > 1:
            raise UserError(f"There are {count} tools called {name}. Give yours another name.")
    return allowed


def _inject_reason(opened: OpenSession) -> InjectReason:
    if not opened.resumed:
        return "start"
    return "trimmed" if was_trimmed(opened.session) else "resume"


def _say_small(opened: OpenSession, agent: Agent) -> None:
    model, window = agent.provider.model, agent.provider.info.context_window
    text = f"The window of {model} is {window:,} tokens, so it gets {len(agent.tools)} tools and a "
    text += 'short prompt (`"profile": "full"` in the config for all).'
    opened.emit(Notice(text=text, level="info"))


def _name_idle_rules(opened: OpenSession, agent: Agent) -> None:
    """Warns about rules in the settings that match no tool: a mistyped one would do nothing."""
    names, given = {*FAMILIES, *(tool.name for tool in agent.tools)}, opened.config.permissions
    rules = dict.fromkeys((*given.deny, *given.ask, *given.allow))
    if idle := [text for text in rules if parse(text).name not in names]:
        text = f"No tool of this session has the name of the rule {', '.join(idle)}."
        opened.emit(Notice(text=text))


def _name_unreachable(opened: OpenSession, names: set[str]) -> None:
    """Says that a continued session does not have the tools of a server that is new to it."""
    declared = {spec.name for spec in opened.context.specs}
    if names and CALLS_ANY not in declared:
        lacking = ", ".join(first_of(sorted(names), 3))
        text = f"This session began without the tools {lacking}. `/compact` or a new session "
        opened.emit(Notice(text=f"{text}offers them to the model."))
