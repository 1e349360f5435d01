"""Starts a session with its first turn: the model, memory, extensions, the system prompt; and opens
what the first turn imports while the person still types it."""

import asyncio
import contextlib
import importlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kode import installed
from kode.assembly import is_small, simplify
from kode.conversation.delegation import begin_as_parent, make_delegation, with_declared
from kode.conversation.extensions import (
    extend,
    find_extensions,
    hooks_of,
    load_skills,
    take_foreign,
)
from kode.conversation.memory import memory_context
from kode.conversation.rewind import finish_undos
from kode.conversation.sessions import remove_leftovers
from kode.engine.agent import Agent
from kode.engine.context import open_context
from kode.errors import SandboxUnknownError, UserError
from kode.events import Notice
from kode.extensions.found_extensions import in_use
from kode.memory.contract import InjectReason
from kode.memory.scan import scan
from kode.memory.words import stem
from kode.messages import first_of
from kode.permissions.rules import FAMILIES, parse
from kode.providers import warm_up
from kode.session.log import was_trimmed
from kode.tool import CALLS_ANY, Tool

if TYPE_CHECKING:
    from kode.conversation.conversation import Conversation

MAINTAIN_EVERY_S = 6 * 3600.0  # lifetimes of memory count in days

FIRST_TURN = (
    "httpcore2",
    "anyio._backends._asyncio",
    "kode.providers.written_calls",
    "apsw",
    "encodings.utf_8_sig",
    "kode.conversation.hooks",
    "kode.extensions.skill_tool",
    "kode.subagents.tool",
    "kode.sandbox.support",
    "kode.sandbox.probe",
    "kode.sandbox.seatbelt",
    "kode.sandbox.view",
    "kode.tools.checkers",
)
"""Imported only where a turn needs them, or by a library only when it connects. A test lists what
is imported between Enter and the request: nothing may be."""


def import_first_turn(conversation: "Conversation") -> None:
    """Imports what is needed up to the first request of a session; call it in a thread. A fault is
    left to whoever needs the module, and can say so."""
    with contextlib.suppress(Exception):
        warm_up(conversation.agent.provider)
    for name in FIRST_TURN:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    stem(["memory"])  # these two read tables when first used
    scan("memory")
    for plugin in installed.plugins():
        for where in (*plugin.session_parts, plugin.before_call):
            with contextlib.suppress(Exception):
                installed.load(plugin, where)


def no_sandbox(why: str) -> Notice:
    """The notice that commands cannot be tried, so kode asks more questions."""
    return Notice(
        text=f"No sandbox here ({why.rstrip('.')}): only plain reading commands run without "
        "asking. `kode doctor` says what to do."
    )


async def start(conversation: "Conversation") -> None:
    """Opens memory and extensions and renders the system prompt, once; the first turn calls it.
    Raises: KodeError."""
    async with conversation.start_lock:
        if conversation.found is not None:
            return
        await _start(conversation)
        conversation.run_in_background(remove_leftovers(conversation))
        conversation.run_in_background(_maintain(conversation))
        conversation.run_in_background(_try_sandbox(conversation))
        if conversation.hooks is not None:
            from kode.conversation.hooks import begin_session

            await begin_session(conversation, conversation.hooks)


async def _start(conversation: "Conversation") -> None:
    settings, session, config = conversation.settings, conversation.session, conversation.config
    plugins, child = conversation.plugins, settings.child
    await conversation.learn_model()
    agent = conversation.agent
    small = is_small(config, agent.provider)
    if small:
        agent = simplify(agent, config)
    is_fork = child is not None and bool(session.header.forked_from)
    if is_fork:
        agent = begin_as_parent(agent, session)
    else:
        # The sections of plug-ins stand before memory's, which changes more.
        render = agent.render_system
        agent = replace(agent, render_system=lambda late: render({**plugins.sections(), **late}))
    if is_fork and child and child.start:
        agent.seen_files.update(child.start.seen)
    await agent.memory.open(memory_context(conversation), session.state(agent.memory.name))
    server_tools: tuple[Tool, ...] = ()
    if conversation.extensions is not None:
        window = agent.provider.info.context_window
        server_tools = await conversation.extensions.open(window)
    await take_foreign(conversation)
    found = await find_extensions(conversation)
    hooks = await hooks_of(conversation, found)
    # In a thread: what it imports may wait for the imports of an SDK, and the screen does not.
    agent = await asyncio.to_thread(extend, conversation, agent, found, hooks)
    load_skills(conversation, found)
    delegation, delegating = None, tuple[Tool, ...]()
    if not small and config.subagent.max_depth > 0:
        from kode.subagents.tool import delegate_tool

        delegation = make_delegation(conversation, found)
        delegating = (delegate_tool(delegation, in_use(found.agents)),)
    offered = {tool.name for tool in server_tools}
    beginning = session.beginning if session.messages else None
    declared = {tool["name"] for tool in beginning.tools} if beginning else offered
    judged = hooks is not None and hooks.judge_calls
    tools, withheld = list[Tool](), list[Tool]()
    for tool in (*agent.tools, *delegating, *agent.memory.tools()):
        is_offered = tool.name in declared or judged or conversation.gate.could_run(tool)
        (tools if is_offered else withheld).append(tool)
    if conversation.extensions is not None:
        reachable = conversation.extensions.reachable
        tools += (tool for tool in reachable if tool.name in declared | offered)
        agent = replace(agent, servers=tuple(conversation.extensions.servers))
    allowed = _allowed_tools(conversation, tools)
    if is_fork:
        allowed = with_declared(session, allowed)
    agent = replace(agent, tools=allowed, withheld=tuple(withheld))
    await open_context(agent, conversation.context, _inject_reason(conversation))
    _name_gaps(conversation, agent, offered - declared)
    await finish_undos(conversation)
    conversation.agent = replace(
        conversation.agent,  # `/model` may have changed it meanwhile
        small=agent.small,
        tools=agent.tools,
        withheld=agent.withheld,
        servers=agent.servers,
        render_system=agent.render_system,
        opening=agent.opening,
        gate=agent.gate,
        interceptors=agent.interceptors,
        around=agent.around,
        before_compaction=agent.before_compaction,
    )
    conversation.hooks, conversation.delegation = hooks, delegation
    conversation.found = found


async def _maintain(conversation: "Conversation") -> None:
    while True:
        await conversation.agent.memory.maintain()
        await asyncio.sleep(MAINTAIN_EVERY_S)


async def _try_sandbox(conversation: "Conversation") -> None:
    """Probes the sandbox while the model works on its first reply."""
    sandbox, emit = conversation.agent.sandbox, conversation.settings.emit
    if sandbox is not None and not sandbox.unavailable_reason():
        try:
            await asyncio.to_thread(sandbox.is_available)
        except SandboxUnknownError as error:
            emit(Notice(text=str(error)))
        if why := sandbox.why_missing():
            emit(no_sandbox(why))


def _allowed_tools(conversation: "Conversation", tools: Sequence[Tool]) -> tuple[Tool, ...]:
    """The tools of a subagent's definition, or all. Raises: UserError for two with the same name,
    which would make calls ambiguous."""
    settings = conversation.settings
    definition = settings.child.definition if settings.child is not None else None
    lent = {tool.name for tool in settings.tools}  # as the definition allows
    if definition is not None:
        tools = [tool for tool in tools if tool.name in lent or definition.has(tool.name)]
    allowed = conversation.plugins.without_clashes(tools)
    for name, count in Counter(tool.name for tool in allowed).items():
        if count > 1:
            raise UserError(f"There are {count} tools called {name}. Give yours another name.")
    return allowed


def _inject_reason(conversation: "Conversation") -> InjectReason:
    if conversation.begun_by != "resume":
        return "start"
    return "trimmed" if was_trimmed(conversation.session) else "resume"


def _name_gaps(conversation: "Conversation", agent: Agent, new: set[str]) -> None:
    """Warns about rules in the settings that match no tool: a mistyped one would do nothing. Says
    that a continued session does not have the tools of a server that is `new` to it, and that a
    small window gets less."""
    emit, permissions = conversation.settings.emit, conversation.config.permissions
    names = {*FAMILIES, *(tool.name for tool in agent.tools)}
    rules = dict.fromkeys((*permissions.deny, *permissions.ask, *permissions.allow))
    if idle := [text for text in rules if parse(text).name not in names]:
        emit(Notice(text=f"No tool of this session has the name of the rule {', '.join(idle)}."))
    if new and CALLS_ANY not in {spec.name for spec in conversation.context.specs}:
        lacking = ", ".join(first_of(sorted(new), 3))
        text = f"This session began without the tools {lacking}. `/compact` or a new session "
        emit(Notice(text=f"{text}offers them to the model."))
    if agent.small and conversation.config.profile == "auto":
        provider = agent.provider
        text = f"The window of {provider.model} is {provider.info.context_window:,} tokens, so it "
        text += f"gets {len(agent.tools)} tools and a short prompt "
        emit(Notice(text=f'{text}(`"profile": "full"` in the config for all).', level="info"))
