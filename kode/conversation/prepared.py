"""Handles `/name words` at the start of a message: attaches the text of a command or a skill.

What a command runs first, and the files it names after `@`, pass the gate and are shown like calls
of the model. `kode.extensions` says which commands there are.
"""

import json
import secrets
from collections.abc import Sequence
from dataclasses import replace

from kode import installed
from kode.conversation.models import use_model
from kode.conversation.open_session import OpenSession, RunTurn
from kode.engine.call import run_aside
from kode.engine.run import Run
from kode.events import Notice, TurnEnded
from kode.extensions.commands import Command, files_named, pieces
from kode.extensions.found_extensions import FoundExtensions, in_use, reread
from kode.extensions.skills import Skill
from kode.messages import Image, Text, ToolCall
from kode.permissions.limits import limited_to
from kode.session.entries import TaintEntry


def named_in(found_extensions: FoundExtensions, message: str) -> Command | Skill | None:
    """The command or skill that a message begins with, `/name`; None for any other message."""
    if not message.startswith("/") or not message[1:].strip():
        return None
    name = message.split(maxsplit=1)[0][1:]
    things: tuple[Command | Skill, ...] = (
        *in_use(found_extensions.commands),
        *in_use(found_extensions.skills),
    )
    exact = [thing for thing in things if thing.item.name == name]
    last = [thing for thing in things if thing.item.name.rpartition(":")[2] == name]
    last = [thing for thing in last if thing.item.scope != "bundle"] or last
    return exact[0] if exact else last[0] if len(last) == 1 else None


def names_offered(found_extensions: FoundExtensions) -> dict[str, str]:
    """The names that a message may begin with → what each does."""
    known = {name: added.summary for name, (_, added) in installed.added("slash").items()}
    known |= {one.item.name: one.description for one in in_use(found_extensions.skills)}
    for command in in_use(found_extensions.commands):
        hint = f"{command.argument_hint} " if command.argument_hint else ""
        known[command.item.name] = f"{hint}{command.description}"
    return known


async def turn_of(
    opened: OpenSession, thing: Command | Skill, message: str, run: RunTurn
) -> TurnEnded:
    """Runs a turn whose message names a command or a skill, with its limits and model.

    Raises: ToolError if it has changed since it was approved; StorageError.
    """
    place, arguments = opened.place, message.partition(" ")[2].strip()
    if isinstance(thing, Skill):
        text = reread(thing, place.home, place.project).instructions()
        text += f"\n\nARGUMENTS: {arguments}" if arguments else ""
        opened.outbox.append(Text(text=text, source="instructions"))
        return await run(message)
    command, before = reread(thing, place.home, place.project), opened.agent.provider
    limits = () if command.allowed is None else (limited_to(command.allowed, place),)
    # What it names itself is part of its text, which a person has approved: its limits are for what
    # runs, in it or in its turn.
    reading = Run(agent=opened.agent, context=opened.context, emit=opened.emit)
    limited = replace(opened.agent, interceptors=(*opened.agent.interceptors, *limits))
    opened.outbox += await _filled_in(command, arguments, replace(reading, agent=limited), reading)
    try:
        if command.model:
            _use_model_of(opened, command)
        return await run(message, limits)
    finally:
        if opened.agent.provider.model != before.model:
            use_model(opened, before.model, before.name)


def _use_model_of(opened: OpenSession, command: Command) -> None:
    """Switches to the model that a command wants, if kode knows it; otherwise warns and keeps the
    current one."""
    before = opened.agent.provider
    use_model(opened, command.model)
    if not opened.agent.provider.info.known:
        use_model(opened, before.model, before.name)
        wanted = f"/{command.item.name} asks for the model {command.model}"
        opened.emit(Notice(text=f"{wanted}, which kode does not know: {before.model} is used."))


async def _filled_in(
    command: Command, arguments: str, run: Run, reading: Run
) -> list[Text | Image]:
    """The text of a command, with the output of what it runs and the files it names, and the
    pictures among them. Raises: StorageError."""
    said, images = [], list[Text | Image]()
    for piece in pieces(command.body, arguments):
        output = piece.text
        if piece.runs:
            output, _ = await _result(run, "shell", {"command": piece.text})
        said.append(output)
    for path in files_named(command.body, arguments, run.agent.place.cwd):
        output, pictures = await _result(reading, "read_file", {"path": path})
        said.append(f"\n\n[{path}]\n{output}")
        images += (replace(picture, call_id="") for picture in pictures)
    text = f"[Command /{command.item.name}, from {command.item.origin}]\n{''.join(said)}"
    return [Text(text=text, source="instructions"), *images]


async def _result(run: Run, tool: str, arguments: dict[str, str]) -> tuple[str, Sequence[Image]]:
    call = ToolCall(
        id=f"prepared-{secrets.token_hex(4)}", name=tool, arguments=json.dumps(arguments)
    )
    result, pictures = await run_aside(run, call)
    if run.untrusted:
        run.context.session.append(*(TaintEntry(source=source) for source in run.untrusted))
        run.untrusted.clear()
    return result.text, pictures
