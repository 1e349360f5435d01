"""kode's own slash commands in a client: handles a message that begins with `/undo`.

The conversation handles commands and skills from files, and prompts of MCP servers.
"""

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from kode.plugin import Conversation, UserError, read_plan, write_plan
from kode.plugins.acp.options import DEFAULT, effort_named

Run = Callable[[Conversation, str], Awaitable[str]]
"""(conversation, the words after the command) → what the person reads."""


@dataclass(frozen=True)
class Command:
    """A command of kode's own."""

    summary: str
    hint: str
    """What may follow it; "" for nothing."""
    run: Run


async def _undo(conversation: Conversation, argument: str) -> str:
    return await conversation.past.undo()


async def _redo(conversation: Conversation, argument: str) -> str:
    return await conversation.past.redo()


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
    return _verbatim((await conversation.memory_command(words or ["show"])).in_words())


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


COMMANDS: Mapping[str, Command] = {
    "undo": Command("undo the last turn's file changes; repeat for earlier turns", "", _undo),
    "redo": Command("redo the last /undo", "", _redo),
    "compact": Command("summarize the conversation", "what to keep, or undo", _compact),
    "plan": Command("plan first: nothing changes until you approve", "show, go, drop", _plan),
    "memory": Command("show or change memory", "show, search, log, undo ...", _memory),
    "context": Command("show what fills the context", "", _context),
    "model": Command("show or switch the model", "a model's name", _model),
    "effort": Command("show or set how much the model thinks", "a level, or default", _effort),
}


def command_in(text: str) -> tuple[Command, str] | None:
    """The command in a message and the words after it; None for an ordinary message."""
    line = text.strip()
    if "\n" in line or not line.startswith("/"):
        return None
    name, _, argument = line[1:].partition(" ")
    command = COMMANDS.get(name)
    return (command, argument.strip()) if command is not None else None


def _verbatim(text: str) -> str:
    return f"```\n{text.rstrip()}\n```"
