"""The sessions of a conversation: how one is created or loaded, entered, started and left, and what
crashes left of others."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kode import durable, paths
from kode.assembly import is_small, make_agent, of_session, simplify
from kode.conversation.delegation import add_declared, begin_as_parent, make_delegation
from kode.conversation.extensions import add_extensions
from kode.conversation.memory import memory_context
from kode.conversation.rewind import finish_undos
from kode.engine.agent import Agent
from kode.engine.call import list_denials
from kode.engine.command import settle_ended
from kode.engine.context import Context, open_context
from kode.engine.run import describe_missing
from kode.engine.turn import save_memory_state
from kode.errors import SandboxUnknownError, StorageError, UserError
from kode.events import Denial, Notice, SessionStarted, TurnEnded
from kode.extensions.found_extensions import in_use
from kode.memory.contract import DropReason, InjectReason
from kode.messages import first_of, shorten, text_of
from kode.permissions.rules import FAMILIES, parse
from kode.provider import Provider
from kode.session import log
from kode.session.entries import Header, line_of, new_session_id
from kode.session.index import writable_path
from kode.session.log import Session, was_trimmed
from kode.session.messages import conversation_messages
from kode.session.upkeep import is_open
from kode.tool import CALLS_ANY, Tool
from kode.undo.store import MEGABYTE, drop_oldest_of_all
from kode.workplace import Workplace

if TYPE_CHECKING:
    from kode.conversation.conversation import BegunBy, ClosingStep, Conversation
    from kode.conversation.settings import Settings

MAINTAIN_EVERY_S = 6 * 3600.0  # lifetimes of memory count in days
UPKEEP_EVERY_S = 86_400.0
"""How often leftovers are looked for in all of the home."""
CLOSE_GRACE_S = 15.0  # an answer that was asked for is worth a wait; the rest waits on disk
INTERRUPTED_GRACE_S = 2.0  # who pressed Ctrl-C wants to leave
LEAST_GRACE_S = 0.1
"""What each gets in any case: memory needs it to write down what is left to do."""
HOOKS_GRACE_S = PLUGINS_GRACE_S = 5.0
"""For all hooks of a session's end together, and for each subscriber of a plug-in."""
_SET_BY_START = (
    *("small", "tools", "withheld", "servers", "render_system", "opening", "gate", "interceptors"),
    *("around", "before_compaction"),
)
"""The fields of an agent that a start sets."""


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
    """Loads a session from disk, and reports repairs once; without an id creates one, under
    `new_id` if given. A subagent's is in its parent's record of it, where one that continues finds
    its own; without a parent only in memory.

    Raises: SessionError if there is none, or `new_id` is taken; BusyError; StorageError.
    """
    child = settings.child
    if session_id is not None:
        session, repairs = log.load(home, session_id)
        for repair in repairs:
            settings.emit(Notice(text=repair))
        return session
    folder = child.folder if child is not None else None
    header = Header(
        id=new_id or new_session_id(),
        cwd=writable_path(cwd),
        model=provider.model,
        provider=provider.name,
        parent=child.parent_session if child is not None and folder is not None else None,
    )
    if folder is None:
        return log.create(home if settings.keep_session else None, header, task)
    path = folder / "transcript.jsonl"
    if path.exists():
        return log.load(home, folder.name, path)[0]
    with durable.storage_errors(path, "create"):
        file = durable.open_for_append(path)
        durable.append_to(file, line_of(header), path)
    return Session(header=header, path=path, file=file)


def enter_session(
    conversation: "Conversation",
    session: Session,
    provider: Provider,
    place: Workplace,
    begun_by: "BegunBy",
    cut_short: str = "",
) -> None:
    """Makes a session the open one, with an agent of its own, and says so. `cut_short` is what was
    asked and never begun. Raises: as `make_agent`."""
    settings, child = conversation.settings, conversation.settings.child
    place = of_session(place, None if child is not None else session.id)
    if child is not None and child.folder is not None:
        place = replace(place, outputs=child.folder / "outputs")
    agent = make_agent(settings, provider, session, place, background=conversation.commands)
    conversation.commands.enter(session)
    conversation.plugins.session = session
    conversation.agent, conversation.gate = agent, agent.gate
    conversation.context, conversation.begun_by = Context(session), begun_by
    conversation.cut_short, conversation.fresh_plan = cut_short, False
    conversation.found = conversation.hooks = conversation.delegation = None
    conversation.last = conversation.learned = None
    conversation.waits_for = conversation.end_by = None
    conversation.status_line, conversation.waited_s = "", 0.0
    if child is not None:
        return
    settings.emit(
        SessionStarted(
            session_id=session.id,
            cwd=str(place.cwd),
            provider=provider.name,
            model=provider.model,
            resumed=begun_by == "resume",
        )
    )
    if cut_short:
        what, words = "last message", f": {shorten(cut_short, 200)}"
        if cut_short.startswith("/"):  # what a plug-in makes of a flag is not for people
            what, words = f"command {cut_short.split()[0]}", ", unless you give it again."
        start = f"kode was stopped before it began on your {what}. It is sent"
        settings.emit(Notice(text=f"{start} with your next message{words}"))


# The start: with the first turn.


async def start(conversation: "Conversation") -> None:
    """Opens memory and extensions and renders the system prompt, once; the first turn calls it.
    Raises: KodeError."""
    async with conversation.start_lock:
        if conversation.found is not None:
            return
        await _start(conversation)
        conversation.run_in_background(_remove_leftovers(conversation))
        conversation.run_in_background(_maintain(conversation))
        conversation.run_in_background(_try_sandbox(conversation))
        if conversation.hooks is not None:
            from kode.conversation.hooks import begin_session

            await begin_session(conversation.hooks)


async def _start(conversation: "Conversation") -> None:
    settings, session, config = conversation.settings, conversation.session, conversation.config
    plugins, extensions, child = conversation.plugins, conversation.extensions, settings.child
    await conversation.learn_model()
    agent = conversation.agent
    if is_small(config, agent.provider):
        agent = simplify(agent, config)
    is_fork = child is not None and bool(session.header.forked_from)
    if is_fork:
        agent = begin_as_parent(agent, session)
        if child and child.start:
            agent.seen_files.update(child.start.seen)
    else:
        # The sections of plug-ins stand before memory's, which changes more.
        render = agent.render_system
        agent = replace(agent, render_system=lambda late: render({**plugins.sections(), **late}))
    await agent.memory.open(memory_context(conversation), session.states.get(agent.memory.name, {}))
    server_tools: tuple[Tool, ...] = ()
    if extensions is not None:
        server_tools = await extensions.open(agent.provider.info.context_window)
    agent, found, hooks = await add_extensions(conversation, agent)
    delegation, delegating = None, tuple[Tool, ...]()
    if not agent.small and config.subagent.max_depth > 0:
        from kode.subagents.tool import delegate_tool

        delegation = make_delegation(conversation, found)
        delegating = (delegate_tool(delegation, in_use(found.agents)),)
    new = {tool.name for tool in server_tools}
    beginning = session.beginning if session.messages else None
    declared = {tool["name"] for tool in beginning.tools} if beginning else new
    is_judged = hooks is not None and hooks.judge_calls
    tools, withheld = list[Tool](), list[Tool]()
    for tool in (*agent.tools, *delegating, *agent.memory.tools()):
        is_offered = tool.name in declared or is_judged or conversation.gate.could_run(tool)
        (tools if is_offered else withheld).append(tool)
    if extensions is not None:
        tools += (tool for tool in extensions.reachable if tool.name in declared | new)
        agent = replace(agent, servers=tuple(extensions.servers))
    allowed = _allowed_tools(conversation, tools)
    allowed = add_declared(session, allowed) if is_fork else allowed
    agent = replace(agent, tools=allowed, withheld=tuple(withheld))
    reason: InjectReason = "start"
    if conversation.begun_by == "resume":
        reason = "trimmed" if was_trimmed(session) else "resume"
    await open_context(agent, conversation.context, reason)
    _name_gaps(conversation, agent, new - declared)
    await finish_undos(conversation)
    # `/model` may have changed what depends on the model meanwhile.
    changes = {name: getattr(agent, name) for name in _SET_BY_START}
    conversation.agent = replace(conversation.agent, **changes)
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


def no_sandbox(why: str) -> Notice:
    """The notice that commands cannot be tried, so kode asks more questions."""
    return Notice(
        text=f"No sandbox here ({why.rstrip('.')}): only plain reading commands run without "
        "asking. `kode doctor` says what to do."
    )


def _allowed_tools(conversation: "Conversation", tools: Sequence[Tool]) -> tuple[Tool, ...]:
    """The tools of a subagent's definition, or all. Raises: UserError for two with the same name,
    which would make calls ambiguous."""
    settings = conversation.settings
    definition = settings.child.definition if settings.child is not None else None
    lent = {tool.name for tool in settings.tools}  # as the definition allows
    if definition is not None:
        tools = [tool for tool in tools if tool.name in lent or definition.has(tool.name)]
    allowed = conversation.plugins.drop_clashes(tools)
    for name, count in Counter(tool.name for tool in allowed).items():
        if count > 1:
            raise UserError(f"There are {count} tools called {name}. Give yours another name.")
    return allowed


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


# The end, and the way to another session.


async def new_session(conversation: "Conversation") -> None:
    """`/new`: lets memory process the session, then starts an empty one.

    If cancelled while memory works, the old session stays open and nothing is lost.
    """
    if conversation.session.messages:
        await conversation.start()
        await _let_memory_process(conversation, "reset")
    await _leave(conversation, "clear")
    place, provider = conversation.place, conversation.agent.provider
    session = open_session(conversation.settings, place.home, place.cwd, provider)
    enter_session(conversation, session, provider, place, "clear")


async def resume(conversation: "Conversation", session_id: str) -> None:
    """`/resume`: closes this session as at exit and opens another.

    Raises: SessionError, BusyError; then this session stays open.
    """
    place, provider = conversation.place, conversation.agent.provider
    session = open_session(conversation.settings, place.home, place.cwd, provider, session_id)
    if conversation.found is not None:
        await _let_memory_process(conversation, "exit")
    await _leave(conversation, "resume")
    enter_session(conversation, session, provider, place, "resume", pending_text(session))


async def end_jobs(conversation: "Conversation", ended: TurnEnded) -> TurnEnded:
    """Ends what runs in the background, before a program reads how the last turn ended; returns
    that with what became of its changes."""
    commands, session_id = conversation.commands, conversation.session.id
    await commands.close()
    files, denials = dict.fromkeys(ended.files_changed), list[Denial]()
    for output in commands.take_work(session_id):
        files |= dict.fromkeys(output.files_changed)
        if output.files_changed:  # and nobody waited for a check of them
            ended = replace(ended, checked="unknown")
    for command, output in await settle_ended(conversation.agent, session_id):
        files |= dict.fromkeys(output.files_changed)
        denials += list_denials(command, output)
    if denials and ended.status == "success":
        ended = replace(ended, status="incomplete", error=describe_missing(denials))
    return replace(
        ended,
        files_changed=tuple(files),
        denials=(*ended.denials, *denials),
        refused=(*ended.refused, *denials),
    )


async def _let_memory_process(conversation: "Conversation", reason: DropReason) -> None:
    """Shows memory the session that is about to be left, if there is anything in it."""
    session = conversation.session
    if session.messages:
        undone = conversation_messages(session.unreported)
        await conversation.agent.memory.before_drop([*session.messages, *undone], reason)


@contextlib.contextmanager
def _waiting_for(
    conversation: "Conversation", step: "ClosingStep", most_s: float, leave_by: float | None
) -> Iterator[float]:
    """Gives how long the next step may take."""
    conversation.waits_for = step
    try:
        left_s = most_s if leave_by is None else leave_by - time.monotonic()
        yield min(most_s, max(LEAST_GRACE_S, left_s))
    finally:
        conversation.waits_for = None


async def _leave(
    conversation: "Conversation",
    reason: str,
    leave_by: float | None = None,
    *,
    interrupted: bool = False,
) -> None:
    """Closes the session; what the process shares stays open. `reason` is for hooks; after
    `leave_by`, by `time.monotonic`, nothing is waited for. An unused session leaves no file."""
    agent, session, hooks = conversation.agent, conversation.session, conversation.hooks
    await conversation.commands.leave(session.id)
    await settle_ended(agent, session.id)
    if agent.sandbox is not None:
        await asyncio.to_thread(agent.sandbox.close)
    for task in list(conversation.background):
        task.cancel()
    await asyncio.gather(*conversation.background, return_exceptions=True)
    try:
        if hooks is not None:
            from kode.conversation.hooks import end_session

            with _waiting_for(conversation, "hooks", HOOKS_GRACE_S, leave_by) as wait_s:
                await end_session(hooks, reason, wait_s)
    except StorageError as error:
        conversation.report(error)
    try:
        if conversation.found is not None:
            is_short = interrupted or _was_interrupted(conversation)
            grace_s = INTERRUPTED_GRACE_S if is_short else CLOSE_GRACE_S
            with _waiting_for(conversation, "memory", grace_s, leave_by) as wait_s:
                await agent.memory.close(wait_s)
            save_memory_state(agent, session)
    except StorageError as error:
        conversation.report(error)
    if session.id is not None:
        with contextlib.suppress(StorageError):
            durable.remove(paths.open_mark(agent.place.home, session.id))
    session.close()
    agent.undo.close()
    if agent.small_model is not None:
        conversation.to_close.append(agent.small_model)


def _was_interrupted(conversation: "Conversation") -> bool:
    """Whether the last turn was, so that nobody waits for the end of the session."""
    return conversation.last is not None and conversation.last.status == "interrupted"


async def close(
    conversation: "Conversation", *, interrupted: bool = False, wait_s: float | None = None
) -> None:
    """Ends the session: memory processes it within its deadline, and leaves the rest pending for
    the next start; all of it if the last turn was `interrupted`, as nobody waits then. Hooks,
    servers and memory together get `wait_s`, if given. An unused session leaves no file."""
    leave_by = None if wait_s is None else time.monotonic() + wait_s
    interrupted |= _was_interrupted(conversation)
    try:
        if conversation.found is not None and not interrupted:
            # Half where hooks follow: the next start does memory's rest, and nobody theirs.
            share_s = wait_s / 2 if wait_s and conversation.hooks else wait_s
            with _waiting_for(conversation, "memory", 0, None):
                async with asyncio.timeout(share_s):
                    await _let_memory_process(conversation, "exit")
    except TimeoutError:
        text = "Memory has not finished with this session: the next start does the rest."
        conversation.settings.emit(Notice(text=text, level="info"))
    finally:
        await conversation.commands.close()
        await settle_ended(conversation.agent, conversation.session.id)
        if conversation.extensions is not None:
            with _waiting_for(conversation, "servers", 0, None):
                await conversation.extensions.close()
        await _leave(conversation, "exit", leave_by, interrupted=interrupted)
        for provider in (conversation.agent.provider, *conversation.to_close):
            await provider.aclose()
        with _waiting_for(conversation, "plug-ins", PLUGINS_GRACE_S, leave_by) as wait_s:
            await conversation.plugins.close(wait_s)


def pending_text(session: Session) -> str:
    """The person's message that a crash kept from being begun; "" if there is none."""
    return text_of(session.pending) if session.pending else ""


def _mark_open(home: Path, session_id: str) -> bool:
    """Marks a session as open until it is left; returns whether a kode has been killed: it has left
    a mark. Never raises."""
    mark = paths.open_mark(home, session_id)
    was_killed = mark.exists()
    with contextlib.suppress(OSError, StorageError):
        durable.make_folder(mark.parent)
        for other in mark.parent.iterdir():
            if other != mark and not is_open(paths.session_file(home, other.name)):
                was_killed = True
                durable.remove(other)
        durable.open_for_append(mark).close()
    return was_killed


async def _remove_leftovers(conversation: "Conversation") -> None:
    """Removes half-written files of crashes in the project and, after a kill or a day, in all of
    the home, which holds the files of all sessions, and undo data beyond its limit. In one thread,
    because the end of a short session waits for a thread that has started."""
    home, config, undo = conversation.place.home, conversation.config, conversation.agent.undo
    is_resumed, session_id = conversation.begun_by == "resume", conversation.session.id
    is_main = conversation.settings.child is None
    was_killed = is_main and session_id is not None and _mark_open(home, session_id)

    def remove() -> None:
        if is_resumed:
            undo.remove_stale_temporaries()
        if _is_upkeep_due(home) or was_killed:
            for folder in paths.own_folders(home, config.memory.data_dir):
                durable.remove_stale_temporaries(folder, also_below=True)
            drop_oldest_of_all(home, config.undo.max_total_mb * MEGABYTE)

    # Shielded: a busy machine may not have started the thread when a short session ends.
    await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, remove))


def _is_upkeep_due(home: Path) -> bool:
    """Whether the last upkeep of the home began a day ago; if so, notes that one begins now."""
    stamp = paths.upkeep_stamp(home)
    with contextlib.suppress(OSError):
        if abs(time.time() - stamp.stat().st_mtime) < UPKEEP_EVERY_S:
            return False
    with contextlib.suppress(StorageError):
        durable.replace(stamp, b"")
    return True
