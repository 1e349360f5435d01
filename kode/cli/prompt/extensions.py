"""`/extensions` at the prompt, and the names that extensions add."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kode.cli.prompt.about import run_kode
from kode.cli.prompt.state import PromptState
from kode.cli.prompt.turn import run_turn
from kode.cli.screen.lines import clip, one_line
from kode.errors import UserError
from kode.extensions.listing import NONE, lines_of, rows_of
from kode.messages import plural
from kode.plain_text import clean

if TYPE_CHECKING:
    from kode.extensions.mcp_server import McpServer

ABOUT_COLUMNS = 60  # beside a name, in 80 columns


WORDS = (*NONE, "mcp", "trust")
"""What `/extensions` shows more of."""


async def show_extensions(state: PromptState, argument: str) -> None:
    """Lists one kind, as this session uses it; without a word, all. Raises:
    UserError for another word."""
    conversation = state.conversation
    await conversation.start()
    assert conversation.found is not None
    if argument == "mcp":
        _show_servers(state)
    elif argument == "trust":
        await run_kode(state, "extensions", "trust", "list")
    elif argument and argument not in NONE:
        known = ", ".join(WORDS)
        raise UserError(f"/extensions takes {known}, not {one_line(argument)!r}.")
    else:
        for kind in NONE:
            if argument in ("", kind):
                state.screen.print(kind, "bold")
                for line in lines_of(rows_of(conversation.found, kind), kind):
                    state.screen.print(f"  {clean(line)}")
        if not argument:
            state.screen.print("MCP servers", "bold")
            _show_servers(state)


def names(state: PromptState) -> Mapping[str, str]:
    """The commands, skills and server prompts that may be typed now, and plug-ins' commands → what
    each does. Reads files before the first turn, so call it in a thread."""
    if state.opened is None:
        return {}
    extensions = state.opened.extensions
    known = {f"/{name}": about for name, about in state.opened.offered().items()}
    known |= extensions.commands() if extensions is not None else {}
    return {name: clip(one_line(about), ABOUT_COLUMNS) for name, about in known.items()}


async def run(state: PromptState, name: str, argument: str) -> bool:
    """Runs a turn with a command, a skill a server's prompt or a plug-in's command of this name;
    False if there is none. Raises: KodeError."""
    conversation = state.conversation
    of_server = conversation.extensions is not None and conversation.extensions.brings(name)
    if not of_server and name[1:] not in await asyncio.to_thread(conversation.offered):
        return False
    await run_turn(state, f"{name} {argument}".strip())
    return True


def _show_servers(state: PromptState) -> None:
    """Shows this session's MCP servers: their state, tools, and what is off."""
    from kode.permissions.question import visible

    extensions, screen = state.conversation.extensions, state.screen
    servers = list(extensions.servers.values()) if extensions is not None else []
    for server in servers:
        screen.print(clip(f"  {one_line(visible(_line(server)))}", screen.width))
        if server.held:
            held = ", ".join(map(visible, server.held))
            screen.print(
                f"    off, since changed: {held} · kode mcp approve {server.name}", "warning"
            )
    if extensions is not None and extensions.untrusted:
        names = ", ".join(map(visible, extensions.untrusted))
        screen.print(f"  Not approved: {names} · kode extensions approve", "warning")
    if not servers:
        screen.print("  No MCP servers here. `kode mcp add NAME URL` configures one.")


def _line(server: "McpServer") -> str:
    if not server.runs:
        return f"{server.name}  off: {server.fault or 'not started yet'}"
    offers = [plural(len(server.definitions), "tool")]
    offers += [plural(len(server.resources), "resource")] if server.resources else []
    offers += [plural(len(server.prompts), "prompt")] if server.prompts else []
    return f"{server.name}  {', '.join(offers)}  ({server.entry.origin})"
