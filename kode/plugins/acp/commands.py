"""kode's own slash commands in a client: what a message that begins with `/undo` does.

The conversation handles commands and skills from files, and prompts of MCP servers.
"""

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Mapping

from acp.helpers import update_available_commands
from acp.schema import AvailableCommand, AvailableCommandInput, UnstructuredCommandInput

from kode.plugin import (
    Conversation,
    UserError,
    memory_command,
    read_plan,
    slash_commands,
    write_plan,
)
from kode.plugins.acp.options import DEFAULT, effort_named
from kode.plugins.acp.updates import Update

Run = Callable[[Conversation, str], Awaitable[str]]
"""(conversation, the words after the command) → what the person reads."""


async def _compact(conversation: Conversation, argument: str) -> str:
    if argument == "undo":
        return conversation.past.undo_compaction() or "No compaction to undo."
    reduced = await conversation.compact(argument)
    if reduced is None:
        return "Nothing to compact yet."
    return f"Compacted: {reduced.tokens_before:,} → {reduced.tokens_after:,} tokens."


async def _plan(conversation: Conversation, argument: str) -> str:
    """Without a word: switches to mode plan, and shows the plan if there is one."""
    path = conversation.agent.place.plan
    if argument not in ("", "show", "drop"):
        raise UserError("/plan takes show, go, drop or nothing.")
    if not argument:
        conversation.set_permission_mode("plan")
    plan = await asyncio.to_thread(read_plan, path)
    if argument == "drop" and path is not None:
        await asyncio.to_thread(write_plan, path, "")
        return "Plan dropped. The model learns of it with your next message."
    mode = "" if argument else "Mode: plan. Nothing changes until you approve a plan.\n\n"
    return f"{mode}{plan.strip() or 'There is no plan yet: say what you want done.'}"


async def _memory(conversation: Conversation, argument: str) -> str:
    try:
        words = shlex.split(argument)
    except ValueError as error:
        raise UserError(f"/memory: {error}. Close the quotes and try again.") from error
    text = await memory_command(await conversation.opened_memory(), words or ["show"])
    return f"```\n{text.rstrip()}\n```"


async def _context(conversation: Conversation, argument: str) -> str:
    window = await conversation.window()
    parts = "\n".join(f"- {kind}: {tokens:,}" for kind, tokens in window.parts)
    return f"{window.used:,} of {window.size:,} tokens are used.\n\n{parts}"


async def _model(conversation: Conversation, argument: str) -> str:
    if argument:
        await asyncio.to_thread(conversation.use_model, argument)
    return f"Model: {conversation.status().model}"


async def _effort(conversation: Conversation, argument: str) -> str:
    if argument:
        conversation.use_effort(effort_named(argument))
    return f"Effort: {conversation.agent.effort or DEFAULT}"


COMMANDS: Mapping[str, Run] = {
    "undo": lambda conversation, _: conversation.past.undo(),
    "redo": lambda conversation, _: conversation.past.redo(),
    "compact": _compact,
    "plan": _plan,
    "memory": _memory,
    "context": _context,
    "model": _model,
    "effort": _effort,
}
"""Those of the prompt that make sense in a client."""


def command_in(text: str) -> tuple[Run, str] | None:
    """The command in a message and the words after it; None for an ordinary message."""
    line = text.strip()
    if "\n" in line or not line.startswith("/"):
        return None
    name, _, argument = line[1:].partition(" ")
    run = COMMANDS.get(name)
    return (run, argument.strip()) if run is not None else None


def offer_commands(conversation: Conversation) -> Update:
    """The commands that a message may begin with."""
    rows = {name: slash_commands[f"/{name}"] for name in COMMANDS}
    offered = {name: (row.summary, row.takes) for name, row in rows.items()}
    found = conversation.offered()
    if conversation.extensions is not None:
        found |= conversation.extensions.commands()
    for name, what in found.items():
        offered.setdefault(name.removeprefix("/"), (what, ""))
    return update_available_commands(
        AvailableCommand(
            name=name,
            description=what,
            input=AvailableCommandInput(UnstructuredCommandInput(hint=hint)) if hint else None,
        )
        for name, (what, hint) in offered.items()
    )
