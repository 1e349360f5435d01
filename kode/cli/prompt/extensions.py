"""What extensions bring to the prompt: `/mcp`, and slash commands that servers offer."""

from kode.cli.prompt.state import PromptState
from kode.cli.screen.lines import clip, one_line, plural
from kode.extensions.mcp_server import McpServer
from kode.permissions.gate import visible


async def show_servers(state: PromptState, argument: str) -> None:
    """The MCP servers of this session: whether they run, what they offer, what is off."""
    extensions, screen = state.conversation.extensions, state.screen
    servers = list(extensions.servers.values()) if extensions is not None else []
    for server in servers:
        screen.print(clip(one_line(visible(_line(server))), screen.width))
        if server.held:
            held = ", ".join(map(visible, server.held))
            screen.print(
                f"  off, since changed: {held} · kode mcp approve {server.name}", "warning"
            )
    if extensions is not None and extensions.untrusted:
        names = ", ".join(map(visible, extensions.untrusted))
        screen.print(f"Not approved: {names} · kode trust approve", "warning")
    if not servers:
        screen.print("No MCP servers run here. `kode mcp add` configures one.", "dim")


def commands_of(state: PromptState) -> dict[str, str]:
    """The slash commands that extensions bring, each with what it does."""
    extensions = state.opened.extensions if state.opened is not None else None
    return extensions.commands() if extensions is not None else {}


async def run_extension(state: PromptState, name: str, argument: str) -> bool:
    """Runs a slash command that an extension brings, as a turn; False when there is none of the
    name. Raises: KodeError."""
    extensions = state.conversation.extensions
    if extensions is None or not name.startswith(tuple(f"/mcp__{s}__" for s in extensions.servers)):
        return False
    await state.run_turn(f"{name} {argument}".strip())
    return True


def _line(server: McpServer) -> str:
    if not server.runs:
        return f"{server.name}  off: {server.fault or 'not started yet'}"
    offers = [plural(len(server.definitions), "tool")]
    offers += [plural(len(server.resources), "resource")] if server.resources else []
    offers += [plural(len(server.prompts), "prompt")] if server.prompts else []
    return f"{server.name}  {', '.join(offers)}  ({server.entry.origin})"
