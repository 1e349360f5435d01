"""Runs a turn of a conversation: what goes with its message, what runs before and after it, and the
plan that is made in mode `plan`.

A message may begin with `/name`, of a plug-in, a command, a skill or a server's prompt. What a
command runs first, and the files that it names, pass the gate and are shown like model calls."""

import asyncio
import contextlib
import difflib
import json
import os
import re
import secrets
import stat
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kode import installed
from kode.config.choice import resolve_model
from kode.conversation.extensions import run_submit_hooks, run_turn_end_hooks
from kode.engine.agent import Agent
from kode.engine.call import run_person_call
from kode.engine.run import Evidence, Run
from kode.engine.turn import run_turn
from kode.errors import StorageError, Unavailable, UserError
from kode.events import Notice, PlanKept, RetryScheduled, TextDelta, TurnEnded
from kode.extensions.definitions import CommandDefinition, Skill, files_named, pieces
from kode.extensions.review import FoundExtensions, in_use, reread
from kode.messages import Image, Text, ToolCall, plural, text_of
from kode.paths import real_path
from kode.permissions.decide import limit_calls
from kode.permissions.names import PermissionMode
from kode.plain_text import fence_text
from kode.prompts import template
from kode.providers.provider import HttpProvider
from kode.session.entries import NoteEntry, PlanEntry
from kode.session.plan import plan_in, steps_of, without_ticks
from kode.session.provenance import Provenance
from kode.tool import Interceptor
from kode.values import replace

if TYPE_CHECKING:
    from kode.conversation.conversation import Conversation, RunTurn, Steering
    from kode.conversation.structured import Form

MAX_ATTACHED_BYTES = 256 * 1024  # about 64,000 tokens: a third of a 200,000 window


async def run_conversation_turn(
    conversation: "Conversation",
    text: str,
    *,
    attachments: Sequence[Text | Image] = (),
    steering: "Steering" = tuple,
    typed: str | None = None,
    form: "Form | None" = None,
) -> TurnEnded:
    """Runs one turn to its end; with a `form`, its answer is a value in `structured`. Cancelling
    the calling task interrupts the turn. `attachments` follow those of the conversation; if the
    turn cannot start, they are dropped. `typed` is the part of the text that the person typed,
    without pasted blocks; None: all. Raises: StorageError if the text could not be recorded;
    ToolError if the named command or skill has changed since it was approved; UserError if a hook
    refuses the message, or a server's prompt needs more arguments; ServerError."""
    if form is not None:
        from kode.conversation.structured import StructuredAnswer

        structured = StructuredAnswer(conversation.context, form, steering)
        parts = (*attachments, structured.request)
        again = partial(run_conversation_turn, conversation, text, attachments=parts, typed=typed)
        return structured.conclude(await again(steering=structured.take_steering))
    session, plugins = conversation.context.session, conversation.plugins
    text = text if session.pending is None else join_prompts(text_of(session.pending), text)
    typed = text if typed is None else typed
    run: RunTurn = partial(
        _run_message, conversation, list(attachments), steering, Evidence(), typed=typed
    )
    try:
        session.record_prompt(text, typed)
        await _get_ready(conversation, text)
        if text.startswith("/"):
            answer = await plugins.run_slash_command(text)
            if isinstance(answer, str):
                conversation.settings.emit(TextDelta(text=answer.replace("\n", "  \n")))
                conversation.settings.emit(ended := TurnEnded(status="success", result=answer))
                return ended
            if answer is not None:
                text = answer.text
                run = run if answer.typed is None else partial(run, typed=answer.typed)
        if plugins.is_used or conversation.begun_by == "resume":
            run = plugins.wrap_run(conversation, run)
        ended = await (_run_named(conversation, text, run) if text.startswith("/") else run(text))
        hooks = conversation.hooks
        return ended if hooks is None else await run_turn_end_hooks(hooks, ended, run)
    except StorageError as error:
        conversation.notices.add(str(error))  # the caller says it
        raise
    finally:
        conversation.context.answer_schema = None
        with contextlib.suppress(StorageError):  # the person has the text before them
            session.drop_prompt()


async def _get_ready(conversation: "Conversation", text: str) -> None:
    """Starts the session, or learns about its model again; notes what else is new, and runs the
    hooks of the message. Raises: UserError if one refuses it; StorageError."""
    await (conversation.start() if conversation.catalog is None else conversation.learn_model())
    for fault in installed.faults.values():
        conversation.say_once(fault)
    last = conversation.last
    if conversation.begun_by == "resume" if last is None else not last.is_finished:
        await _note_late_results(conversation)
    if conversation.hooks is not None:
        await run_submit_hooks(conversation.hooks, text)


def join_prompts(cut_short: str, text: str) -> str:
    """Joins the message that was cut short with the next one, unless the person has repeated its
    text or its command; a command stays at the beginning."""
    is_command, cut, new = text.startswith("/"), f"\n\n{cut_short}\n\n", f"\n\n{text}\n\n"
    if cut_short and new in cut:  # they were joined when the session was opened
        return cut_short
    if not cut_short or cut in new or (is_command and cut.split()[:1] == new.split()[:1]):
        return text
    return "\n\n".join((text, cut_short) if is_command else (cut_short, text))


async def _run_message(
    conversation: "Conversation",
    attachments: list[Text | Image],
    steering: "Steering",
    evidence: Evidence,
    text: str,
    limits: tuple[Interceptor, ...] = (),
    *,
    typed: str,
    **within: Any,
) -> TurnEnded:
    """Runs a turn of a message; the first one takes the attachments. Raises: StorageError."""
    agent, mode_note = conversation.agent, _describe_mode(conversation)
    if conversation.extensions is not None and "@" in text:
        for outside in await conversation.extensions.read_mentioned(text):
            conversation.note_outside(outside.text, outside.untrusted)
    parts = (*conversation.attachments, *attachments, *mode_note)
    conversation.attachments.clear()
    attachments.clear()
    is_planned = agent.gate.state.mode == "plan"
    agent = replace(
        agent,
        interceptors=(*agent.interceptors, *limits),
        config=replace(agent.config, **within) if within else agent.config,
        fall_back=partial(_fall_back, conversation),
    )
    context, emit = conversation.context, conversation.settings.emit
    run = Run(agent=agent, context=context, emit=emit, steering=steering, evidence=evidence)
    run.started -= conversation.waited_s
    run.cost_usd = 0.0 if agent.provider.info.is_priced else None
    conversation.waited_s = 0.0
    conversation.last = ended = await run_turn(run, text, parts, typed)
    try:
        conversation.fresh_plan = is_planned and _save_plan(conversation, ended)
    except StorageError as error:
        conversation.report(error)
    return ended


async def _fall_back(
    conversation: "Conversation", agent: Agent, fault: Unavailable
) -> Agent | None:
    """Switches the session to `fallback_model` and returns its agent; returns None if none is set,
    if it is the model that failed, and for a recording. Raises: UserError."""
    config, before, emit = conversation.config, agent.provider, conversation.settings.emit
    if config.fallback_model is None or not isinstance(before, HttpProvider):
        return None
    provider, model = resolve_model(config, os.environ, before.row, config.fallback_model)
    if (provider, model) == (before.name, before.model):
        return None
    conversation.use_model(model, provider)
    if fault.partial:
        most, why = agent.config.retry.max_attempts, fault.reason
        retry = partial(RetryScheduled, attempt=most, max_attempts=most + 1, delay_s=0)
        emit(retry(reason=why, discards_text=True))
    answers = f"{model} answers instead (`fallback_model`), until /model changes it."
    emit(Notice(text=f"{fault.reason} {answers}"))
    await conversation.learn_model()
    return replace(conversation.agent, interceptors=agent.interceptors)


async def _note_late_results(conversation: "Conversation") -> None:
    """Tells the model, once, about results that subagents had left when kode was stopped, and ends
    the records of subagents that nobody waits for. Raises: StorageError."""
    folder = conversation.agents_folder
    if any(job.work for job in conversation.commands.list_running()) or not folder.is_dir():
        return
    from kode.subagents import records

    await records.end_unfinished(folder)
    if late := records.find_unseen(folder, conversation.session.entries):
        if any(record.result and record.result.untrusted for record in late):
            conversation.mark_outside("a subagent")
        conversation.note(records.describe_unseen(late, conversation.place.outputs))
        unread = f"Sent with your message: {plural(len(late), 'unread subagent result')}."
        conversation.settings.emit(Notice(text=unread, level="info"))


def find_named(catalog: FoundExtensions, message: str) -> CommandDefinition | Skill | None:
    """The command or skill that a message begins with, `/name`; None for any other message. The
    last part of a name is enough if no other ends so; a bundle's gives way to others."""
    if not message.startswith("/") or not message[1:].strip():
        return None
    name = message.split(maxsplit=1)[0][1:]
    things: tuple[CommandDefinition | Skill, ...] = (
        *in_use(catalog.commands),
        *in_use(catalog.skills),
    )
    exact = [thing for thing in things if thing.item.name == name]
    last = [thing for thing in things if thing.item.name.rpartition(":")[2] == name]
    last = [thing for thing in last if thing.item.scope != "bundle"] or last
    return exact[0] if exact else last[0] if len(last) == 1 else None


_COMMAND = re.compile(r"/[A-Za-z][\w:.-]*")
"""A name that is meant as a command; a path has a further slash."""


async def _run_named(conversation: "Conversation", text: str, run: "RunTurn") -> TurnEnded:
    """Runs a turn with the command, skill or server's prompt that its message names. Raises:
    ToolError if it has changed since it was approved; StorageError; UserError; ServerError."""
    place, extensions, before = conversation.place, conversation.extensions, conversation.agent
    name, argument = text.partition(" ")[0], text.partition(" ")[2].strip()
    thing = find_named(conversation.catalog or FoundExtensions(), text)
    if thing is None:
        prompt = await extensions.expand(name, argument) if extensions is not None else None
        if prompt is None and _COMMAND.fullmatch(name):
            commands = [f"/{offered}" for offered in conversation.list_offered()]
            near = difflib.get_close_matches(name, commands, n=1)
            raise UserError(
                f"There is no command {name} here.{f' Did you mean {near[0]}?' if near else ''} "
                "Commands of the prompt, such as /compact, work in `kode` alone. A task that "
                "begins with a slash needs a space before it."
            )
        if prompt is None:
            return await run(text)
        conversation.note_outside(prompt.text, prompt.untrusted)
        return await run(f"Follow the prompt I chose with {name}.")
    if isinstance(thing, Skill):
        words = reread(thing, place.home, place.project).instructions()
        words += f"\n\nARGUMENTS: {argument}" if argument else ""
        conversation.attachments.append(Text(text=words, source="instructions"))
        return await run(text)
    command = reread(thing, place.home, place.project)
    limits = () if command.allowed is None else (limit_calls(command.allowed, place),)
    conversation.attachments += await _expand_command(conversation, command, argument, limits)
    model, provider = before.provider.model, before.provider.name
    try:
        if command.model:
            conversation.use_model(command.model)
            if not conversation.agent.provider.info.known:
                conversation.use_model(model, provider)
                unknown = f"{name} asks for {command.model}, which kode does not know"
                conversation.settings.emit(Notice(text=f"{unknown}: {model} is used."))
        return await run(text, limits)
    finally:
        if conversation.agent.provider.model != model:
            conversation.use_model(model, provider)


async def _expand_command(
    conversation: "Conversation",
    command: CommandDefinition,
    argument: str,
    limits: tuple[Interceptor, ...],
) -> list[Text | Image]:
    """The text of a command, with the output of what it runs and the files that it names; then the
    pictures among those files. Raises: StorageError."""
    agent, context = conversation.agent, conversation.context
    images = list[Image]()

    async def call(tool: str, limits: tuple[Interceptor, ...] = (), **arguments: str) -> str:
        limited = replace(agent, interceptors=(*agent.interceptors, *limits))
        run = Run(agent=limited, context=context, emit=conversation.settings.emit)
        id, text = f"prepared-{secrets.token_hex(4)}", json.dumps(arguments)
        result, pictures = await run_person_call(run, ToolCall(id=id, name=tool, arguments=text))
        images.extend(replace(picture, call_id="") for picture in pictures)
        return result.text

    text = f"[Command /{command.item.name}, from {command.item.origin}]\n"
    for piece in pieces(command.body, argument):
        text += await call("shell", limits, command=piece.text) if piece.runs else piece.text
    # The files that a command names belong to its text, which a person has approved: its limits are
    # for what it runs, and for its turn.
    for path in files_named(command.body, argument, agent.place.cwd):
        text += f"\n\n[{path}]\n{await call('read_file', path=path)}"
    return [Text(text=text, source="instructions"), *images]


def _describe_mode(conversation: "Conversation") -> tuple[Text, ...]:
    """What the model must know about the mode; records a changed plan. Raises: StorageError."""
    session, agent = conversation.context.session, conversation.agent
    plan, known = conversation.plan.text, session.plan
    if plan != known and without_ticks(plan) != without_ticks(known):
        edited = f"[The person edited the plan. It now reads:]\n\n{plan}"
        note = edited if plan.strip() else "[The person dropped the plan.]"
        session.append(PlanEntry(text=plan), NoteEntry(text=note))
    mode, planning = agent.gate.state.mode, Text(text=template("plan"), source="note")
    if mode == "plan":
        return (planning,)
    last = session.turn
    if last is None or planning not in last.parts:
        return ()
    return (Text(text=f"[The mode is now {mode}: changes are possible again.]", source="note"),)


def _save_plan(conversation: "Conversation", ended: TurnEnded) -> bool:
    """Saves the plan that an answer ends with; False without one. Raises: StorageError."""
    path, plan = conversation.place.plan, plan_in(ended.result)
    if not ended.is_finished or not plan or path is None:
        return False
    conversation.plan.write(plan)
    conversation.session.append(PlanEntry(text=plan))
    conversation.settings.emit(PlanKept(path=str(path), steps=len(steps_of(plan))))
    return True


async def approve_plan(conversation: "Conversation", mode: PermissionMode) -> str:
    """Switches to `mode`; returns the prompt that starts the work, with the plan from disk. Raises:
    UserError if there is no plan; StorageError."""
    plan = await asyncio.to_thread(lambda: conversation.plan.text)
    if not steps_of(plan):
        raise UserError("There is no plan yet: /plan plans, then say what you want.")
    if plan != conversation.session.plan:
        conversation.session.append(PlanEntry(text=plan))
    conversation.gate.state.mode = mode
    words = template("plan_approved").replace("{mode}", mode)
    conversation.note(words.replace("{plan}", plan.strip()))
    return "Go ahead with the plan."


def file_part(
    name: str, text: str, path: Path | None, roots: Sequence[Path], marks: Provenance
) -> Text:
    """A file's text as a message part; see `text_part`. `path`: None if it is not a file of this
    machine. Raises: UserError if it is too long."""
    if len(text) > MAX_ATTACHED_BYTES:
        raise UserError(
            f"{name} has more than {MAX_ATTACHED_BYTES // 1024} KB. Link to it, or name it in the "
            "task, so that kode reads the parts it needs."
        )
    return text_part(f'<file path="{name}">\n{text}\n</file>', path, roots, marks, source=name)


def text_part(
    text: str, path: Path | None, roots: Sequence[Path], marks: Provenance, *, source: str = ""
) -> Text:
    """A text about the file or folder `path`, or from `source`, as a message part: as outside text
    if the path is outside the working folders or was left by a session that read such text."""
    if path is not None:
        source = marks.find_source([str(path)]) if path.is_file() else ""
        real = Path(real_path(path))
        if not any(real.is_relative_to(Path(real_path(root))) for root in roots):
            source = str(path)
    return outside_part(text, source) if source else Text(text=text, source="attachment")


def outside_part(text: str, source: str) -> Text:
    """A text from outside as a message part, fenced as such."""
    return Text(text=fence_text(text, source), source="outside")


def read_text(path: Path) -> str:
    """The text of a file or pipe. Raises: UserError if it is missing, too large, or not text."""
    try:
        with path.open("rb") as file:
            # Reading a device might never end.
            kind = stat.S_IFMT(os.fstat(file.fileno()).st_mode)
            readable = kind in (stat.S_IFREG, stat.S_IFIFO)
            data = file.read(MAX_ATTACHED_BYTES + 1) if readable else b"\0"
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise UserError(f"{why}. Name a file that can be read.") from error
    if len(data) > MAX_ATTACHED_BYTES or b"\0" in data:
        raise UserError(
            "only text files of at most 256 KB, and images, can be attached. "
            "Name it in the task instead, so that kode reads the parts it needs."
        )
    return data.decode("utf-8", errors="replace")
