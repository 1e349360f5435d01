"""Runs a turn in an open session: what goes with its message, what runs before and after it."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from kode.conversation.models import fall_back, learn_model
from kode.conversation.open_session import OpenSession, Steering, join_prompts
from kode.conversation.planning import keep_plan, notes_before_turn
from kode.conversation.starting import start
from kode.engine.run import Evidence
from kode.engine.turn import run_turn
from kode.errors import StorageError
from kode.events import FINISHED, Notice, TextDelta, TurnEnded
from kode.extensions.session import Outside
from kode.messages import Image, Text, plural
from kode.plain_text import fence_text
from kode.provider import Provider
from kode.session.entries import TaintEntry
from kode.tool import Interceptor


async def turn(
    opened: OpenSession,
    text: str,
    *,
    attachments: Sequence[Text | Image] = (),
    steering: Steering = tuple,
    typed: str | None = None,
    through: Callable[[Provider], Provider] | None = None,
) -> TurnEnded:
    """Runs one turn to its end. Cancelling the calling task interrupts the turn.

    `attachments` go with the message after those that wait; those of a turn that could not start
    are dropped. `typed` is what the person typed of the text, without pasted blocks; None: all.
    `through` returns what is asked instead of the session's provider.

    Raises: StorageError if the text could not be recorded; ToolError if the named command or skill
    has changed since it was approved; UserError if a hook refuses the message, or a server's prompt
    needs more arguments; ServerError.
    """
    text, opened.cut_short = join_prompts(opened.cut_short, text), ""
    opened.session.record_prompt(text, typed)
    waiting = tuple(opened.outbox)
    opened.outbox += attachments
    opened.typed = text if typed is None else typed
    try:
        return await _turn(opened, text, steering, through)
    except BaseException:
        if attachments:
            known = set(map(id, (*waiting, *attachments)))
            added = (one for one in opened.outbox if id(one) not in known)
            opened.outbox[:] = [*waiting, *added]
        raise
    finally:
        with contextlib.suppress(StorageError):  # the person has the text before them
            opened.session.drop_prompt()


async def _turn(
    opened: OpenSession,
    text: str,
    steering: Steering,
    through: Callable[[Provider], Provider] | None,
) -> TurnEnded:
    terms = opened.terms
    started = opened.started
    if started is None:
        started = await start(opened)
    elif opened.learned is not opened.agent.provider.info:  # `start` does this itself
        await learn_model(opened)
    terms.say_faults()
    if opened.unread_results and not any(job.tell for job in terms.commands.running()):
        await _attach_late_results(opened, opened.agents_folder)
    run = partial(_plain_turn, opened, steering=steering, through=through, evidence=Evidence())
    if started.hooks is not None:
        from kode.conversation import hooking

        if said := await hooking.submit(started.hooks, text):
            opened.note(said)
    plugged = terms.plugged
    if text.startswith("/"):
        answer = await plugged.answer(text)
        if isinstance(answer, str):
            opened.emit(TextDelta(text=answer.replace("\n", "  \n")))
            opened.emit(ended := TurnEnded(status="success", result=answer))
            return ended
        text = text if answer is None else answer.text
    if plugged.now.used or opened.begun_by == "resume":
        run = plugged.around(opened, run)
    if not text.startswith("/"):
        ended = await run(text)
    else:
        from kode.conversation.prepared import named_in, turn_of

        thing = named_in(started.found_extensions, text)
        if thing is not None:
            ended = await turn_of(opened, thing, text, run)
        else:
            ended = await run(await _expand(opened, text))
    if started.hooks is not None:
        ended = await hooking.end_turn(opened, started.hooks, ended, run)
        hooking.show_status(opened, started.hooks)
    return ended


async def _expand(opened: OpenSession, text: str) -> str:
    """Expands the prompt of a server, `/mcp__server__prompt words`: attaches its text and returns a
    message that points to it. Returns other messages unchanged. Raises: UserError, ServerError."""
    name, _, argument = text.partition(" ")
    if opened.terms.extensions is None:
        return text
    found = await opened.terms.extensions.expand(name, argument.strip())
    if found is None:
        return text
    opened.outbox.append(_part(found))
    return f"Follow the prompt I chose with {name}."


def _part(outside: Outside) -> Text:
    return Text(text=fence_text(outside.text, outside.source), source="outside")


async def _plain_turn(
    opened: OpenSession,
    text: str,
    limits: tuple[Interceptor, ...] = (),
    *,
    steering: Steering,
    through: Callable[[Provider], Provider] | None,
    evidence: Evidence,
    **within: Any,
) -> TurnEnded:
    """Runs a turn whose message is not a command. Raises: StorageError."""
    notes = notes_before_turn(opened)
    if opened.terms.extensions is not None and "@" in text:
        opened.outbox += map(_part, await opened.terms.extensions.mentioned(text))
    attachments = (*opened.outbox, *notes)
    opened.outbox.clear()
    planned, agent = opened.mode == "plan", opened.agent
    provider = agent.provider if through is None else through(agent.provider)
    agent = replace(
        agent,
        provider=provider,
        interceptors=(*agent.interceptors, *limits),
        limits=replace(agent.limits, **within) if within else agent.limits,
        fall_back=partial(fall_back, opened, through),
    )
    ended = await run_turn(
        agent,
        opened.context,
        text,
        opened.emit,
        attachments,
        steering,
        opened.waited_s,
        evidence,
        opened.typed,
    )
    opened.waited_s = 0.0
    opened.interrupted = ended.status == "interrupted"
    opened.reported = ended.error or ""
    opened.unread_results = ended.status not in FINISHED
    try:
        opened.fresh_plan = planned and keep_plan(opened, ended)
    except StorageError as error:
        opened.report(error)
    return ended


async def _attach_late_results(opened: OpenSession, folder: Path) -> None:
    """Attaches results that subagents left when kode was stopped to the next message, once. Ends
    subagents that nobody waits for. Untrusted text in a result marks the session as tainted.

    Raises: StorageError.
    """
    opened.unread_results = False
    if not folder.is_dir():
        return
    from kode.subagents import records

    await records.settle(folder)
    late = records.find_unseen(folder, opened.session.entries)
    if not late:
        return
    if any(record.result and record.result.untrusted for record in late):
        opened.session.append(TaintEntry(source="a subagent"))
    opened.note(records.describe_unseen(late, opened.place.outputs))
    unread = f"Sent with your message: {plural(len(late), 'unread subagent result')}."
    opened.emit(Notice(text=unread, level="info"))
