"""`kode mcp approve` and `test`: start or reach one MCP server while a person waits."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from kode import paths
from kode.assembly import open_workplace
from kode.cli.commands.mcp_servers import approvals_of, found, here, with_server
from kode.cli.commands.trust import approve_shown
from kode.cli.screen.form import make_elicit
from kode.cli.screen.printer import print_either
from kode.config import load_config
from kode.errors import EXIT_FAILED, EXIT_OK, ConfigError, ServerError
from kode.extensions import mcp_cache, review, trust
from kode.extensions.mcp_cache import DownloadNeededError
from kode.extensions.mcp_config import START_TIMEOUT_S
from kode.extensions.mcp_config import Entry as McpServerEntry
from kode.extensions.mcp_open import opener
from kode.extensions.mcp_server import held_back, keep_pins, pins_of
from kode.extensions.mcp_values import Connection
from kode.permissions.gate import visible
from kode.plain_text import clean

LOGIN_TIMEOUT_S = 300.0
"""Time limit of a start here, where a person may have to log in."""


def approve(argv: Sequence[str]) -> int:
    """Runs `kode mcp approve SERVER`. Raises: KodeError."""
    parser = with_server("approve", "Approve a project's server, or changed tools.")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    arguments = parser.parse(argv)
    return asyncio.run(_approve(found(arguments.name), unasked=arguments.yes))


def test(argv: Sequence[str]) -> int:
    """Runs `kode mcp test SERVER`. Raises: KodeError."""
    about = "Connect to one and list what it offers; log in if needed."
    parser = with_server("test", about)
    network = "let it start once with the network if it asks for it"
    parser.add_argument("--yes", action="store_true", help=network)
    arguments = parser.parse(argv)
    return asyncio.run(_test(found(arguments.name), unasked=arguments.yes))


async def _approve(entry: McpServerEntry, *, unasked: bool) -> int:
    """Approves the entry first, because nothing of it may start before; then its current tools."""
    if not await _approved(entry, [entry.item], unasked=unasked):
        return EXIT_FAILED
    async with _opened(entry, unasked=unasked) as connection:
        definitions = await connection.tools()
    items = pins_of(entry, definitions)
    return EXIT_OK if await _approved(entry, items, unasked=unasked) else EXIT_FAILED


async def _approved(entry: McpServerEntry, items: Sequence[trust.Item], *, unasked: bool) -> bool:
    approvals = approvals_of(entry)
    pending = [item for item in items if trust.state(item, approvals) != "trusted"]
    # In full: no other command shows an unapproved tool.
    return await approve_shown(pending, approvals, paths.home(), unasked=unasked, lines=sys.maxsize)


async def _test(entry: McpServerEntry, *, unasked: bool) -> int:
    """Raises: ConfigError for an unapproved server; ServerError; StorageError, BusyError if its
    tools cannot be pinned."""
    approvals = approvals_of(entry)
    if trust.state(entry.item, approvals) != "trusted":
        raise ConfigError(
            f"The MCP server {entry.name} is the project's and not approved in its current form: "
            f"`kode mcp approve {entry.name}` shows it."
        )
    async with _opened(entry, unasked=unasked) as connection:
        definitions = await connection.tools()
        held = held_back(entry, definitions, approvals)
        # From now on a session offers them without waiting for the server.
        keep_pins(paths.home(), entry, definitions, approvals)
        lines = [f"{entry.name} answers."]
        lines += [connection.instructions] if connection.instructions else []
        for definition in definitions.values():
            mark = " (changed since it was approved: off)" if definition.name in held else ""
            about = definition.description.partition("\n")[0]
            lines.append(f"  tool      {definition.name}{mark}: {about}")
        for resource in await connection.resources():
            lines.append(f"  resource  @{entry.name}:{resource.key}: {resource.description}")
        for prompt in await connection.prompts():
            words = " ".join((*prompt.arguments, prompt.description))
            lines.append(f"  prompt    /mcp__{entry.name}__{prompt.key} {words}")
        lines += [f"  left out  {what}" for what in connection.left_out]
    print_either(None, map(visible, lines), as_json=False)
    return EXIT_OK


@asynccontextmanager
async def _opened(entry: McpServerEntry, *, unasked: bool = False) -> AsyncIterator[Connection]:
    """Raises: ServerError, ConfigError."""
    cwd = here()
    config = load_config(paths.home(), cwd, environ=os.environ, flags={}).config
    enabled = config.sandbox.enabled
    open_entry = opener(
        open_workplace(config, paths.home(), cwd),
        sandboxed=enabled is not False,
        required=enabled is True,
        elicit=make_elicit() if sys.stdin is not None and sys.stdin.isatty() else None,
        tell=_show_login,
    )
    async with AsyncExitStack() as stack:
        limit_s = LOGIN_TIMEOUT_S if "url" in entry.values else START_TIMEOUT_S
        try:
            async with asyncio.timeout(limit_s) as limit:
                try:
                    connection = await stack.enter_async_context(open_entry(entry))
                except DownloadNeededError:
                    limit.reschedule(None)
                    _say(review.DOWNLOADS)
                    if not await _approved(entry, [mcp_cache.wish(entry)], unasked=unasked):
                        raise
                    await open_entry.download(entry, _say)
                    limit.reschedule(asyncio.get_running_loop().time() + limit_s)
                    connection = await stack.enter_async_context(open_entry(entry))
        except TimeoutError as error:
            raise ServerError(
                f"The MCP server {entry.name} did not start within {limit_s:g} s."
            ) from error
        yield connection


def _say(text: str) -> None:
    print(clean(visible(text)), file=sys.stderr, flush=True)


def _show_login(page: str) -> None:
    print(clean(f"Log in at this page, on this machine:\n\n{visible(page)}\n"), flush=True)
