"""The sessions of a conversation: how one is created, loaded, entered and left, and what crashes
left of others."""

import asyncio
import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kode import durable, paths
from kode.assembly import make_agent, of_session
from kode.beneath import TEMPORARY_PREFIX
from kode.engine.command import settle_ended
from kode.engine.context import Context
from kode.engine.run import describe_missing
from kode.engine.turn import save_memory_state
from kode.errors import StorageError
from kode.events import Notice, SessionStarted, TurnEnded
from kode.memory.contract import DropReason
from kode.messages import shorten, text_of
from kode.provider import Provider
from kode.session import log
from kode.session.entries import Header, line_of, new_session_id, timestamp
from kode.session.log import Session
from kode.session.messages import conversation_messages
from kode.session.upkeep import in_use
from kode.undo.store import MEGABYTE, drop_oldest_of_all
from kode.workplace import Workplace

if TYPE_CHECKING:
    from kode.conversation.conversation import BegunBy, ClosingStep, Conversation
    from kode.conversation.settings import Settings

UPKEEP_EVERY_S = 86_400.0
"""How often leftovers are looked for in all of the home."""
CLOSE_GRACE_S = 15.0  # an answer that was asked for is worth a wait; the rest waits on disk
INTERRUPTED_GRACE_S = 2.0  # who pressed Ctrl-C wants to leave
LEAST_GRACE_S = 0.1
"""What each gets in any case: memory needs it to write down what is left to do."""
HOOKS_GRACE_S = PLUGINS_GRACE_S = 5.0
"""For all hooks of a session's end together, and for each subscriber of a plug-in."""


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
    about: dict[str, Any] = {"cwd": cwd, "model": provider.model, "provider": provider.name}
    child = settings.child
    if session_id is not None:
        session, repairs = log.load(home, session_id)
        for repair in repairs:
            settings.emit(Notice(text=repair))
        return session
    if child is None or child.folder is None:
        if settings.keep_session:
            return log.create(home, id=new_id, task=task, **about)
        return log.in_memory(**about)
    path = child.folder / "transcript.jsonl"
    if path.exists():
        return log.load_file(path, child.folder.name)[0]
    about["cwd"], parent = str(cwd), child.parent_session
    header = Header(id=new_session_id(), created_at=timestamp(), parent=parent, **about)
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
    *,
    cut_short: str = "",
) -> None:
    """Makes a session the open one, with an agent of its own. `cut_short` is what was asked and
    never begun. Raises: as `make_agent`."""
    settings, child = conversation.settings, conversation.settings.child
    place = of_session(place, None if child is not None else session.id)
    if child is not None and child.folder is not None:
        place = replace(place, outputs=child.folder / "outputs")
    agent = make_agent(
        settings,
        provider,
        session,
        place,
        background=conversation.commands,
    )
    conversation.commands.enter(session)
    conversation.plugins.session = session
    conversation.agent, conversation.gate = agent, agent.gate
    conversation.context = Context(session)
    conversation.begun_by, conversation.cut_short = begun_by, cut_short
    conversation.found = conversation.hooks = conversation.delegation = None
    conversation.last = conversation.learned = None
    conversation.waits_for = conversation.end_by = None
    conversation.status_line, conversation.waited_s = "", 0.0
    conversation.fresh_plan = False
    if child is None:
        _announce(conversation)


def _announce(conversation: "Conversation") -> None:
    """Says that the session is open, and what a crash kept from being begun, if anything."""
    provider, emit = conversation.agent.provider, conversation.settings.emit
    emit(
        SessionStarted(
            session_id=conversation.session.id,
            cwd=str(conversation.place.cwd),
            provider=provider.name,
            model=provider.model,
            resumed=conversation.begun_by == "resume",
        )
    )
    if text := conversation.cut_short:
        what, words = "last message", f": {shorten(text, 200)}"
        if text.startswith("/"):  # what a plug-in makes of a flag is not for people
            what, words = f"command {text.split()[0]}", ", unless you give it again."
        start = f"kode was stopped before it began on your {what}. It is sent"
        emit(Notice(text=f"{start} with your next message{words}"))


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
    cut_short = text_of(session.pending) if session.pending else ""
    enter_session(conversation, session, provider, place, "resume", cut_short=cut_short)


async def end_jobs(conversation: "Conversation", ended: TurnEnded) -> TurnEnded:
    """Ends what runs in the background, before a program reads how the last turn ended; returns
    that with what became of its changes."""
    from kode.engine.call import list_denials

    commands, session_id = conversation.commands, conversation.session.id
    await commands.close()
    files, denials = dict.fromkeys(ended.files_changed), list[Any]()
    for output in commands.take_work(session_id):
        files |= dict.fromkeys(output.files_changed)
        if output.files_changed:  # and nobody waited for a check of them
            ended = replace(ended, checked="unknown")
    for command, settled in await settle_ended(conversation.agent, session_id):
        files |= dict.fromkeys(settled.files_changed)
        denials += list_denials(command, settled)
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


def _is_interrupted(conversation: "Conversation") -> bool:
    """Whether the last turn was, so that nobody waits for the end of the session."""
    return conversation.last is not None and conversation.last.status == "interrupted"


async def _leave(
    conversation: "Conversation",
    reason: str,
    leave_by: float | None = None,
    *,
    grace_s: float = CLOSE_GRACE_S,
) -> None:
    """Closes the session; what the process shares stays open. `reason` is for hooks; after
    `leave_by`, by `time.monotonic`, nothing is waited for. An unused session leaves no file."""
    agent, session = conversation.agent, conversation.session
    await conversation.commands.leave(session.id)
    await settle_ended(agent, session.id)
    if agent.sandbox is not None:
        await asyncio.to_thread(agent.sandbox.close)
    for task in list(conversation.background):
        task.cancel()
    await asyncio.gather(*conversation.background, return_exceptions=True)
    if conversation.hooks is not None:
        from kode.conversation.hooks import end_session

        try:
            with _waiting_for(conversation, "hooks", HOOKS_GRACE_S, leave_by) as wait_s:
                await end_session(conversation, conversation.hooks, reason, wait_s)
        except StorageError as error:
            conversation.report(error)
    if conversation.found is not None:
        if _is_interrupted(conversation):
            grace_s = INTERRUPTED_GRACE_S
        with _waiting_for(conversation, "memory", grace_s, leave_by) as wait_s:
            await agent.memory.close(wait_s)
        try:
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


async def close(
    conversation: "Conversation", *, interrupted: bool = False, wait_s: float | None = None
) -> None:
    """Ends the session: memory processes it within its deadline, and leaves the rest pending for
    the next start; all of it if the last turn was `interrupted`, as nobody waits then. Hooks,
    servers and memory together get `wait_s`, if given. An unused session leaves no file."""
    leave_by = None if wait_s is None else time.monotonic() + wait_s
    interrupted |= _is_interrupted(conversation)
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
        grace_s = INTERRUPTED_GRACE_S if interrupted else CLOSE_GRACE_S
        await _leave(conversation, "exit", leave_by, grace_s=grace_s)
        providers = (conversation.agent.provider, *conversation.to_close)
        for provider in providers:
            await provider.aclose()
        with _waiting_for(conversation, "plug-ins", PLUGINS_GRACE_S, leave_by) as wait_s:
            await conversation.plugins.close(wait_s)


def mark_open(home: Path, session_id: str) -> bool:
    """Marks a session as open until it is left; returns whether a kode has been killed: it has left
    a mark. Never raises."""
    own, was_killed = paths.open_mark(home, session_id), False
    with contextlib.suppress(OSError, StorageError):
        was_killed = own.exists()
        durable.make_folder(own.parent)
        durable.open_for_append(own).close()
        for mark in unfinished_marks(home):
            session = paths.session_file(home, mark.stem)
            if mark.suffix == own.suffix and mark != own and not in_use(session):
                was_killed = True
                durable.remove(mark)  # a kode that is killed from here on leaves its own
    return was_killed


def unfinished_marks(home: Path) -> list[Path]:
    """What has begun and is not done; not what another kode is writing just now."""
    with contextlib.suppress(OSError):  # nearly always there is none
        marks = paths.unfinished_folder(home).iterdir()
        return sorted(mark for mark in marks if not mark.name.startswith(TEMPORARY_PREFIX))
    return []


async def remove_leftovers(conversation: "Conversation") -> None:
    """Removes half-written files of crashes, in the project and, after a kill, in all of the home,
    and undo data beyond its limit. Those of the home at least once a day, but not at each start:
    it holds the files of all sessions, and a task must not cost more with each of them.

    In one thread, because the end of a short session waits for a thread that has started.
    """
    home, config, session = conversation.place.home, conversation.config, conversation.session
    is_main = conversation.settings.child is None
    was_killed = is_main and session.id is not None and mark_open(home, session.id)
    is_resumed = conversation.begun_by == "resume"
    undo = conversation.agent.undo

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


async def remove_abandoned_layers(home: Path) -> None:
    """Removes the layers of killed kodes, in a thread."""
    from kode.sandbox import store

    remove = partial(store.remove_abandoned, store.places(home))
    await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, remove))
