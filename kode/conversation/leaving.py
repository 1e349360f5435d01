"""The end of an open session: memory takes it in, hooks run, files are closed."""

import asyncio
import contextlib

from kode.contracts import DropReason
from kode.conversation import hooking
from kode.conversation.open_session import OpenSession
from kode.engine.trial import settle_ended
from kode.engine.turn import save_memory_state
from kode.errors import StorageError
from kode.session import unsent

CLOSE_GRACE_S = 15.0
INTERRUPTED_GRACE_S = 2.0


async def let_memory_process(opened: OpenSession, reason: DropReason) -> None:
    """Shows memory the session that is about to be left, if there is anything in it."""
    if opened.session.messages:
        await opened.agent.memory.before_drop(list(opened.session.messages), reason)


async def leave(opened: OpenSession, reason: str) -> None:
    """Closes the session; what the process shares stays open. `reason` is for hooks. An unused
    session leaves no file."""
    agent, session = opened.agent, opened.session
    await opened.terms.commands.leave(session.id)
    await settle_ended()
    if agent.sandbox is not None:
        await asyncio.to_thread(agent.sandbox.close)
    await opened.end_background()
    if opened.started is not None:
        if opened.started.hooks is not None:
            try:
                await hooking.end_session(opened.started.hooks, reason)
            except StorageError as error:
                opened.report(error)
        await agent.memory.close(INTERRUPTED_GRACE_S if opened.interrupted else CLOSE_GRACE_S)
        try:
            save_memory_state(agent, session)
        except StorageError as error:
            opened.report(error)
    if not opened.unsent:  # a first turn that was never run, after an error
        with contextlib.suppress(StorageError):
            unsent.drop(opened.place.home, session)
    session.close()
    opened.checkpoints.close()


async def close(opened: OpenSession) -> None:
    """Ends the conversation: memory processes the session within its deadline and leaves the rest
    pending for the next start."""
    terms = opened.terms
    try:
        if opened.started is not None and not opened.interrupted:
            await let_memory_process(opened, "exit")
    finally:
        await terms.commands.close()
        await settle_ended()
        if terms.extensions is not None:
            await terms.extensions.close()
        await leave(opened, "exit")
        small = opened.agent.small_model
        asked = (opened.agent.provider, *([small] if small else ()), *terms.to_close)
        for provider in asked:
            await provider.aclose()
        if terms.plugged is not None:
            await terms.plugged.close()
        if terms.sharing is not None:
            await terms.sharing.finish(opened.session.id)
