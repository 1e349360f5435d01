"""The end of an open session: memory takes it in, hooks run, files are closed."""

import asyncio
import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace

from kode.conversation.open_session import ClosingStep, OpenSession
from kode.conversation.plugged import CLOSE_S
from kode.conversation.sessions import unmark_open
from kode.engine.command import settle_ended
from kode.engine.run import describe_missing
from kode.engine.turn import save_memory_state
from kode.errors import StorageError
from kode.events import Notice, TurnEnded
from kode.memory.contract import DropReason
from kode.session.notes import conversation

CLOSE_GRACE_S = 15.0  # an answer that was asked for is worth a wait; the rest waits on disk
INTERRUPTED_GRACE_S = 2.0  # who pressed Ctrl-C wants to leave
LEAST_GRACE_S = 0.1
"""What each gets in any case: memory needs it to write down what is left to do."""


@contextlib.contextmanager
def _waiting_for(opened: OpenSession, step: ClosingStep) -> Iterator[None]:
    opened.waits_for = step
    try:
        yield
    finally:
        opened.waits_for = None


def _remaining_s(most_s: float, leave_by: float | None) -> float:
    """How long the next step may take."""
    if leave_by is None:
        return most_s
    return min(most_s, max(LEAST_GRACE_S, leave_by - time.monotonic()))


async def let_memory_process(opened: OpenSession, reason: DropReason) -> None:
    """Shows memory the session that is about to be left, if there is anything in it."""
    session = opened.session
    if session.messages:
        undone = conversation(session.untold)
        await opened.agent.memory.before_drop([*session.messages, *undone], reason)


async def end_jobs(opened: OpenSession, ended: TurnEnded) -> TurnEnded:
    """Ends what runs in the background, and returns the end of the last turn with what became of
    its changes."""
    from kode.engine.call import list_denials

    await opened.terms.commands.close()
    for output in opened.terms.commands.take_work(opened.session.id):
        files = dict.fromkeys((*ended.files_changed, *output.files_changed))
        ended = replace(ended, files_changed=tuple(files))
        if output.files_changed:  # and nobody waited for a check of them
            ended = replace(ended, checked="unknown")
    for command, settled in await settle_ended(opened.agent, opened.session.id):
        denials = tuple(list_denials(command, settled))
        ended = replace(
            ended,
            files_changed=tuple(dict.fromkeys((*ended.files_changed, *settled.files_changed))),
            denials=(*ended.denials, *denials),
            refused=(*ended.refused, *denials),
        )
        if denials and ended.status == "success":
            ended = replace(ended, status="incomplete", error=describe_missing(denials))
    return ended


async def leave(opened: OpenSession, reason: str, leave_by: float | None = None) -> None:
    """Closes the session; what the process shares stays open. `reason` is for hooks; after
    `leave_by`, by `time.monotonic`, nothing is waited for. An unused session leaves no file."""
    agent, session = opened.agent, opened.session
    await opened.terms.commands.leave(session.id)
    await settle_ended(agent, session.id)
    if agent.sandbox is not None:
        await asyncio.to_thread(agent.sandbox.close)
    await opened.end_background()
    if opened.started is not None:
        if opened.started.hooks is not None:
            from kode.conversation import hooking

            wait_s = _remaining_s(hooking.AT_END_S, leave_by)
            try:
                with _waiting_for(opened, "hooks"):
                    await hooking.end_session(opened, opened.started.hooks, reason, wait_s)
            except StorageError as error:
                opened.report(error)
        grace_s = INTERRUPTED_GRACE_S if opened.interrupted else CLOSE_GRACE_S
        with _waiting_for(opened, "memory"):
            await agent.memory.close(_remaining_s(grace_s, leave_by))
        try:
            save_memory_state(agent, session)
        except StorageError as error:
            opened.report(error)
    if session.id is not None:
        unmark_open(opened.place.home, session.id)
    session.close()
    opened.undo.close()


async def close(opened: OpenSession, wait_s: float | None = None) -> None:
    """Ends the conversation, within `wait_s` if given: memory processes the session within its
    deadline, and leaves the rest pending for the next start."""
    terms = opened.terms
    leave_by = None if wait_s is None else time.monotonic() + wait_s
    try:
        if opened.started is not None and not opened.interrupted:
            # Half where hooks follow: the next start does memory's rest, and nobody theirs.
            share_s = wait_s / 2 if wait_s and opened.started.hooks else wait_s
            with _waiting_for(opened, "memory"):
                async with asyncio.timeout(share_s):
                    await let_memory_process(opened, "exit")
    except TimeoutError:
        text = "Memory has not finished with this session: the next start does the rest."
        opened.emit(Notice(text=text, level="info"))
    finally:
        await terms.commands.close()
        await settle_ended(opened.agent, opened.session.id)
        if terms.extensions is not None:
            with _waiting_for(opened, "servers"):
                await terms.extensions.close()
        await leave(opened, "exit", leave_by)
        small = opened.agent.small_model
        asked = (opened.agent.provider, *([small] if small else ()), *terms.to_close)
        for provider in asked:
            await provider.aclose()
        with _waiting_for(opened, "plug-ins"):
            await terms.plugged.close(_remaining_s(CLOSE_S, leave_by))
