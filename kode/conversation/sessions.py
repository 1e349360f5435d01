"""The sessions of a conversation: how one is opened, entered, started with its first turn, and
left, and how the leftovers of crashed ones are removed."""

import asyncio
import contextlib
import importlib
import math
import os
import time
from collections import Counter
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kode import durable, installed, paths
from kode.assembly import make_agent, use_small_profile, uses_small_profile
from kode.conversation.delegation import make_delegation
from kode.conversation.extensions import add_extensions, run_end_hooks, run_start_hooks
from kode.conversation.rewind import finish_undos
from kode.conversation.turns import join_prompts
from kode.engine.agent import Agent
from kode.engine.call import note_late_changes
from kode.engine.command import settle_ended
from kode.engine.context import Context, open_context
from kode.engine.run import Run
from kode.engine.tokens import thinking_room
from kode.engine.turn import memory_state
from kode.errors import (
    AuthenticationError,
    RefusedError,
    SandboxUnknownError,
    StorageError,
    UserError,
)
from kode.events import Notice, SessionStarted, TurnEnded, no_emit
from kode.extensions.review import in_use
from kode.memory.contract import DropReason, InjectReason, MemoryContext
from kode.memory.scan import find_danger
from kode.memory.search import stem_words
from kode.messages import Message, Usage, cut_list, shorten, text_of
from kode.permissions.decide import judge_command
from kode.permissions.places import path_rules
from kode.permissions.rules import FAMILIES, parse
from kode.process import nesting_depth
from kode.provider import Provider, Request
from kode.providers import warm_up
from kode.providers.models import cost_usd
from kode.sandbox.sandbox import missing_protection, remove_abandoned
from kode.session import log
from kode.session.entries import Header, TaintEntry, UsageEntry, encode_line, new_session_id
from kode.session.index import writable_path
from kode.session.log import Session, was_trimmed
from kode.session.messages import conversation_messages, visible_messages
from kode.session.record import session_record, typed_texts
from kode.session.upkeep import is_open
from kode.tool import CALLS_ANY, Tool
from kode.undo.store import MEGABYTE, drop_oldest_of_all
from kode.values import fields, replace
from kode.workplace import Workplace

if TYPE_CHECKING:
    from kode.conversation.conversation import BegunBy, Conversation, Settings

FIRST_TURN = (
    "httpcore2 anyio._backends._asyncio kode.providers.written_calls encodings.utf_8_sig "
    "encodings.unicode_escape kode.subagents.tool kode.sandbox.trial kode.sandbox.kernel "
    "kode.tools.checkers"
).split()
"""Modules that a turn imports only when it needs them, or a library only when it connects."""
MAINTAIN_EVERY_S = 6 * 3600.0  # lifetimes of memory count in days
UPKEEP_EVERY_S = 86_400.0  # how often leftovers are looked for in all of the home
CLOSE_GRACE_S = 15.0  # an answer that was asked for is worth a wait; the rest waits on disk
INTERRUPTED_GRACE_S = 2.0  # who pressed Ctrl-C wants to leave
LEAST_GRACE_S = 0.1  # for each in any case: memory notes what is left to do
HOOKS_GRACE_S = PLUGINS_GRACE_S = 5.0  # for all end hooks together, and for each plug-in


def open_session(
    settings: "Settings",
    home: Path,
    cwd: Path,
    provider: Provider,
    session_id: str | None = None,
    *,
    new_id: str | None = None,
    task: str = "",
) -> Session:
    """Loads a session, with notices of what was repaired and of a message still to be sent; without
    an id creates one, under `new_id` if given. The task, if any, is on disk when this returns. A
    subagent's session is in its parent's record of it. Raises: SessionError if there is no session
    `session_id`, or `new_id` is taken; BusyError; StorageError."""
    child, notices, source = settings.child, list[str](), ""
    header = Header(
        id=new_id or new_session_id(),
        cwd=writable_path(cwd),
        model=provider.model,
        provider=provider.name,
        parent=child.parent_session if child is not None and child.folder is not None else None,
    )
    if session_id is not None:
        session, notices = log.load(home, session_id)
        if cut_short := text_of(session.pending) if session.pending else "":
            # The arguments may be a plug-in's rewriting of a flag, which is not meant for people.
            words = cut_short.split()[0] if cut_short.startswith("/") else shorten(cut_short, 200)
            begun = "kode was stopped before it began on your last message, which is sent with"
            notices.append(f"{begun} your next one: {words}")
        if task:
            session.record_prompt(join_prompts(cut_short, task))
    elif child is not None and child.folder is not None:
        path = child.folder / "transcript.jsonl"
        if not path.exists():
            durable.replace_file(path, encode_line(header) + b"\n")
        session, _ = log.load(home, child.folder.name, path)
    else:
        session = log.create(home if settings.keep_session else None, header, task)
    for text in notices:
        settings.emit(Notice(text=text))
    if child is not None:
        is_tainted = child.start is not None and child.start.tainted
        source = "the session that delegated this" if is_tainted else ""
    elif nesting_depth(os.environ):
        # Messages here come from the agent that started this kode, whatever it has read.
        source = "the kode that started this one"
    if source and not session.tainted_by:
        session.append(TaintEntry(source=source))
    return session


def enter_session(
    conversation: "Conversation",
    session: Session,
    provider: Provider,
    place: Workplace,
    begun_by: "BegunBy",
) -> None:
    """Makes a session the open one, with an agent of its own. Raises: as `make_agent`."""
    settings, commands = conversation.settings, conversation.commands
    agent = make_agent(settings, provider, session, place, background=commands)
    commands.enter(session)
    conversation.plugins.session = session
    conversation.agent, conversation.context = agent, Context(session)
    conversation.begun_by, conversation.fresh_plan = begun_by, False
    conversation.catalog = conversation.hooks = conversation.delegation = None
    conversation.last = conversation.upkeep = conversation.end_by = None
    conversation.closing, conversation.waited_s = "Closing", 0.0
    # Until the first turn, the last request of the session tells how full the window is.
    for usage in [message.usage for message in session.messages if message.usage][-1:]:
        conversation.context.known_tokens = usage.input_tokens + usage.output_tokens
        conversation.context.known_messages = len(session.messages)
    if settings.child is None:
        settings.emit(
            SessionStarted(
                session_id=session.id,
                cwd=str(place.cwd),
                provider=provider.name,
                model=provider.model,
                resumed=begun_by == "resume",
            )
        )


async def switch_session(conversation: "Conversation", session_id: str | None = None) -> None:
    """Closes this session as at exit and opens another; without an id an empty one. If that fails,
    or is cancelled, this one stays open. Raises: SessionError, BusyError, StorageError."""
    place, provider = conversation.place, conversation.agent.provider
    session = open_session(conversation.settings, place.home, place.cwd, provider, session_id)
    begun_by: BegunBy = "clear" if session_id is None else "resume"
    try:
        await _let_memory_process(conversation, "reset" if session_id is None else "exit")
        await _close_session(conversation, begun_by)
        enter_session(conversation, session, provider, place, begun_by)
    except BaseException:
        session.close()
        raise


async def start_session(conversation: "Conversation") -> None:
    """Opens memory and extensions and renders the system prompt, once; the first turn calls it.
    Raises: KodeError; UserError for two tools with the same name."""
    async with conversation.start_lock:
        if conversation.catalog is None:
            await conversation.learn_model()
            await _start_once(conversation)
            works = (_maintain_memory, _try_sandbox, _remove_leftovers)
            begun = (work(conversation) for work in works)
            conversation.upkeep = asyncio.gather(*begun, return_exceptions=True)
            if conversation.hooks is not None:
                await run_start_hooks(conversation.hooks)


async def _start_once(conversation: "Conversation") -> None:
    settings, session, plugins = conversation.settings, conversation.session, conversation.plugins
    config, child, extensions = settings.config, settings.child, conversation.extensions
    before = agent = conversation.agent
    if uses_small_profile(config, agent.provider):
        agent = use_small_profile(agent, settings)
    await agent.memory.open(memory_context(conversation), session.states.get(agent.memory.name, {}))
    new = set[str]()
    if extensions is not None:
        new = {tool.name for tool in await extensions.open(agent.provider.info.context_window)}
    agent, catalog, hooks = await add_extensions(conversation, agent)
    offered = [*agent.tools]
    if not agent.small and config.subagent.max_depth > 0:
        from kode.subagents.tool import delegate_tool

        conversation.delegation = make_delegation(conversation, catalog)
        offered.append(delegate_tool(conversation.delegation, in_use(catalog.agents)))
    beginning = session.beginning if session.messages else None
    declared = {tool.name for tool in beginning.tools} if beginning else new
    is_judged = hooks is not None and hooks.has_hooks("PreToolUse")
    tools, withheld = list[Tool](), list[Tool]()
    for tool in (*offered, *agent.memory.tools()):
        may_run = tool.name in declared or is_judged or agent.gate.could_run(tool)
        (tools if may_run else withheld).append(tool)
    if extensions is not None:
        tools += (tool for tool in extensions.reachable if tool.name in declared | new)
    if child is not None and (definition := child.definition) is not None:
        lent = {tool.name for tool in settings.tools}  # all that the definition allows
        tools = [tool for tool in tools if tool.name in lent or definition.has(tool.name)]
    tools = [*plugins.drop_clashes(tools)]
    for name, count in Counter(tool.name for tool in tools).items():
        if count > 1:
            raise UserError(f"There are {count} tools called {name}. Give yours another name.")
    servers = agent.servers if extensions is None else tuple(extensions.servers)
    agent = replace(agent, tools=tuple(tools), withheld=tuple(withheld), servers=servers)
    resumed: InjectReason = "trimmed" if was_trimmed(session) else "resume"
    is_resumed = conversation.begun_by == "resume"
    await open_context(agent, conversation.context, resumed if is_resumed else "start")
    _warn_of_gaps(conversation, agent, new - declared)
    await finish_undos(conversation)
    # `/model` may have changed the open agent meanwhile.
    changed = {field.name: getattr(conversation.agent, field.name) for field in fields(Agent)}
    changed = {name: now for name, now in changed.items() if now is not getattr(before, name)}
    conversation.agent = replace(agent, **changed)
    conversation.hooks, conversation.catalog = hooks, catalog


def _warn_of_gaps(conversation: "Conversation", agent: Agent, new: set[str]) -> None:
    """Warns about rules that name no tool of the session; says if a continued session lacks the
    `new` tools of its servers, and if the model gets the small profile for its small window."""
    emit, permissions = conversation.settings.emit, conversation.config.permissions
    names = {*FAMILIES, *(tool.name for tool in agent.tools)}
    rules = dict.fromkeys((*permissions.deny, *permissions.ask, *permissions.allow))
    if idle := [text for text in rules if parse(text).name not in names]:
        emit(Notice(text=f"No tool of this session has the name of the rule {', '.join(idle)}."))
    if new and CALLS_ANY not in {spec.name for spec in conversation.context.specs}:
        text = f"This session began without the tools {', '.join(cut_list(sorted(new), 3))}."
        emit(Notice(text=f"{text} `/compact` or a new session offers them to the model."))
    if agent.small and conversation.config.profile == "auto":
        size, model = agent.provider.info.context_window, agent.provider.model
        text = f"The window of {model} is {size:,} tokens, so it gets {len(agent.tools)} tools and "
        text += 'a short prompt (`"profile": "full"` in the config for all).'
        emit(Notice(text=text, level="info"))


def import_first_turn(conversation: "Conversation") -> None:
    """Imports what a first request needs; call it in a thread. A fault recurs where it matters."""
    with contextlib.suppress(Exception):
        for name in FIRST_TURN:
            importlib.import_module(name)
        warm_up(conversation.agent.provider)
    find_danger("memory")  # this and `stem_words` read tables when first used
    memory = paths.memory_folder(conversation.place.home, conversation.config.memory.data_dir)
    if (memory / "history.jsonl").exists():  # else there is nothing to search
        stem_words(["memory"])
    for plugin in installed.enabled_plugins():
        for where in (*plugin.session_parts, plugin.before_call):
            with contextlib.suppress(Exception):
                installed.load_part(plugin, where)


async def _maintain_memory(conversation: "Conversation") -> None:
    while True:
        await conversation.agent.memory.maintain()
        await asyncio.sleep(MAINTAIN_EVERY_S)


async def _try_sandbox(conversation: "Conversation") -> None:
    """Says which protection of commands this machine lacks: to a person once in each home, and to
    whoever reads a log each time that there is no sandbox. Tries the sandbox, and reads the tables
    about commands, while the model writes its first call: a session without calls needs neither."""
    settings, sandbox = conversation.settings, conversation.agent.sandbox
    if sandbox is None:
        return
    advice = missing_protection() if settings.ask else ""
    record = paths.shown_notice(conversation.place.home, "sandbox")
    if advice and not record.exists():
        settings.emit(Notice(text=advice))
        with contextlib.suppress(StorageError):  # then it is said again
            durable.make_folder(record.parent)
            durable.replace_file(record, advice.encode())
    await conversation.agent.call_announced.wait()
    await asyncio.to_thread(judge_command, "true", path_rules(conversation.place))
    try:
        support = await asyncio.to_thread(sandbox.support)
    except SandboxUnknownError as error:
        settings.emit(Notice(text=str(error)))
        return
    if support.kind == "none" and not advice:
        text = f"No sandbox here ({support.why.rstrip('.')}): only plain reading commands run "
        settings.emit(Notice(text=f"{text}without asking. `kode doctor` says what to do."))


async def _remove_leftovers(conversation: "Conversation") -> None:
    """Marks the session as open; not for a subagent. Removes what killed kodes left: sandboxes and,
    once a day or after a crash, half-written files and undo data beyond its limit in the home."""
    home, config, undo = conversation.place.home, conversation.config, conversation.agent.undo
    is_resumed, session_id = conversation.begun_by == "resume", conversation.session.id
    stamp, mark, is_due = paths.upkeep_stamp(home), paths.open_mark(home, session_id or ""), False
    if conversation.settings.child is not None:
        return
    with contextlib.suppress(OSError, StorageError):
        durable.make_folder(mark.parent)
        for other in mark.parent.iterdir():
            if other == mark or not is_open(paths.session_file(home, other.name)):
                is_due = True
                durable.remove(other)
        if session_id is not None:
            durable.open_for_append(mark).close()
        if not stamp.exists() or abs(time.time() - stamp.stat().st_mtime) > UPKEEP_EVERY_S:
            is_due = True
            durable.replace_file(stamp, b"")

    def remove() -> None:
        remove_abandoned(home)
        if is_resumed:
            undo.remove_stale_temporaries()
        if is_due:
            for folder in paths.own_folders(home, config.memory.data_dir):
                durable.remove_stale_temporaries(folder, also_below=True)
            drop_oldest_of_all(home, config.undo.max_total_mb * MEGABYTE)

    # One thread, shielded: the end of a short session waits for it.
    await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, remove))


def not_recorded_error(error: StorageError) -> UserError:
    """The error for a session that cannot be saved, before anything was done in it."""
    return UserError(f"{error} With --no-session kode works without saving the session.")


async def end_jobs(conversation: "Conversation", ended: TurnEnded) -> TurnEnded:
    """Ends background commands; returns `ended` with their changes and refusals added."""
    agent, context, emit = conversation.agent, conversation.context, conversation.settings.emit
    run = Run(agent=agent, context=context, emit=emit)
    await conversation.commands.close()
    await note_late_changes(run)
    if run.denials and ended.status == "success":
        ended = replace(ended, status="incomplete", error=run.evidence.explain_missing())
    return replace(
        ended,
        files_changed=tuple(dict.fromkeys((*ended.files_changed, *run.files_changed))),
        denials=(*ended.denials, *run.denials),
        refused=(*ended.refused, *run.denials),
        checked="unknown" if run.files_changed else ended.checked,  # nobody waited for a check
    )


async def close_session(
    conversation: "Conversation", *, interrupted: bool = False, wait_s: float | None = None
) -> None:
    """Ends the session and closes what the process shares. What memory cannot process in time, or
    all after an `interrupted` turn, is left to the next start. `wait_s` limits all the waits."""
    leave_by = math.inf if wait_s is None else time.monotonic() + wait_s
    interrupted |= conversation.last is not None and conversation.last.status == "interrupted"
    try:
        if not interrupted:
            # Half if hooks follow: the next start does the rest for memory, but not for hooks.
            async with asyncio.timeout(wait_s / 2 if wait_s and conversation.hooks else wait_s):
                await _let_memory_process(conversation, "exit")
    except TimeoutError:
        text = "Memory has not finished with this session: the next start does the rest."
        conversation.settings.emit(Notice(text=text, level="info"))
    finally:
        await conversation.commands.close()
        if conversation.extensions is not None and conversation.extensions.servers:
            conversation.closing = "Stopping MCP servers"
            await conversation.extensions.close()
        conversation.closing = "Closing"
        grace_s = INTERRUPTED_GRACE_S if interrupted else CLOSE_GRACE_S
        await _close_session(conversation, "exit", grace_s, leave_by)
        for provider in (conversation.agent.provider, *conversation.to_close):
            await provider.aclose()
        conversation.closing = "Stopping plug-ins"
        await conversation.plugins.close(_remaining_s(PLUGINS_GRACE_S, leave_by))


async def _let_memory_process(conversation: "Conversation", reason: DropReason) -> None:
    """Shows the session that is about to be left to memory, if that is open."""
    session, conversation.closing = conversation.session, "Saving memory"
    if session.messages and conversation.catalog is not None:
        undone = conversation_messages(session.unreported)
        await conversation.agent.memory.before_drop([*session.messages, *undone], reason)


def _remaining_s(most_s: float, leave_by: float) -> float:
    return min(most_s, max(LEAST_GRACE_S, leave_by - time.monotonic()))


async def _close_session(
    conversation: "Conversation",
    reason: str,
    grace_s: float = CLOSE_GRACE_S,
    leave_by: float = math.inf,
) -> None:
    """Closes the session; what the process shares stays open. `reason` is for hooks. Memory gets
    `grace_s`; after `leave_by`, by `time.monotonic`, each gets only `LEAST_GRACE_S`."""
    agent, session = conversation.agent, conversation.session
    await conversation.commands.leave(session.id)
    await settle_ended(agent, session.id)
    if agent.sandbox is not None:
        await asyncio.to_thread(agent.sandbox.close)
    if conversation.upkeep is not None:
        conversation.upkeep.cancel()
        await asyncio.gather(conversation.upkeep, return_exceptions=True)
    try:
        if conversation.hooks is not None:
            conversation.closing = "Running hooks"
            await run_end_hooks(conversation.hooks, reason, _remaining_s(HOOKS_GRACE_S, leave_by))
    except StorageError as error:
        conversation.report(error)
    try:
        if conversation.catalog is not None:
            conversation.closing = "Saving memory"
            await agent.memory.close(_remaining_s(grace_s, leave_by))
            session.append(*memory_state(agent, session))
    except StorageError as error:
        conversation.report(error)
    with contextlib.suppress(StorageError):
        durable.remove(paths.open_mark(agent.place.home, session.header.id))
    session.close()
    agent.undo.close()
    conversation.to_close += filter(None, (agent.small_model,))


def memory_context(conversation: "Conversation") -> MemoryContext:
    """What memory may know about a session."""
    session, place = conversation.session, conversation.place

    def expected_s(input_tokens: int, output_tokens: int) -> float:
        agent = conversation.agent
        model = (agent.small_model or agent.provider).model
        return agent.spend.expected_s(model, input_tokens, output_tokens)

    def typed_messages() -> tuple[str, ...]:
        pending = filter(None, (session.pending,))
        return typed_texts([*visible_messages(session.entries), *pending])

    return MemoryContext(
        root=paths.memory_folder(place.home, conversation.config.memory.data_dir),
        cwd=place.cwd,
        project_root=paths.repository_root(place.cwd),
        session_id=session.id,
        emit=conversation.settings.emit,
        ask_reply=partial(ask_for_memory, conversation),
        now=lambda: datetime.now().astimezone(),
        expected_s=expected_s,
        tainted=lambda: bool(session.tainted_by),
        outside=lambda: session.tainted_by,
        typed_messages=typed_messages,
        session=lambda id: session_record(place.home, id),
        confirm=partial(conversation.gate.confirm, "memory"),
    )


async def ask_for_memory(conversation: "Conversation", request: Request) -> Message:
    """Asks the model for small work once; the cost counts in the session. If the server refuses and
    no setting names that model, the session's is asked from then on, and a notice says so."""
    agent, config = conversation.agent, conversation.config
    try:
        return await _ask(conversation, agent.small_model or agent.provider, request)
    except (RefusedError, AuthenticationError) as error:
        if agent.small_model is None or config.memory.model or config.small_model:
            raise
        conversation.to_close.append(agent.small_model)
        conversation.agent = replace(conversation.agent, small_model=None)
        advice = f"Memory asks {agent.provider.model} instead; `small_model` in the config names "
        conversation.settings.emit(Notice(text=f"{error} {advice}another."))
        return await _ask(conversation, agent.provider, request)


async def _ask(conversation: "Conversation", provider: Provider, request: Request) -> Message:
    info, spend, most = provider.info, conversation.agent.spend, request.max_output_tokens
    request = replace(
        request,
        small=uses_small_profile(conversation.config, provider),
        effort=request.effort or ("low" if info.efforts else None),  # memory needs little thought
        max_output_tokens=most and min(info.max_output_tokens, most + thinking_room(info)),
    )
    asked_at = time.monotonic()
    message = await provider.reply(request, no_emit)
    usage, seconds = message.usage or Usage(), time.monotonic() - asked_at
    spend.count_request(usage, cost := cost_usd(info, usage), provider.model, seconds)
    entry = UsageEntry(purpose="memory", usage=usage, cost_usd=cost, model=provider.model)
    conversation.session.append(entry)
    return message
