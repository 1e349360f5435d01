"""`kode mcp`: the MCP servers of a directory, listed, removed, approved and tested; `mcp_add` adds
them."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from kode import credentials, installed, paths
from kode.cli.flags import directory
from kode.cli.parser import Parser
from kode.cli.screen.lines import public
from kode.cli.screen.printer import Answer, Answered, complain
from kode.errors import EXIT_FAILED, EXIT_OK, ConfigError, ServerError
from kode.extensions import mcp_cache, mcp_server, review, trust
from kode.extensions.mcp_config import START_TIMEOUT_S, find_servers, remove, target_of
from kode.extensions.mcp_config import Entry as McpServerEntry
from kode.permissions.question import visible
from kode.plain_text import clean

if TYPE_CHECKING:
    from kode.extensions.mcp_client import Connection

COMMANDS = {
    "list": "list all servers, with source and trust",
    "get": "show one server: its entry and approved tools",
    "remove": "remove one from the file it is in",
    "approve": "approve a project's server, or changed tools",
    "test": "connect to one and list what it offers; log in if needed",
    "add": "add one: NAME URL, NAME -- COMMAND ARG..., or JSON",
    "add-json": "add one: NAME JSON",
    "import": "list or take what other agents have configured here",
}
NONE = "No MCP servers here. Add one: `kode mcp add NAME URL`, `kode mcp add NAME -- COMMAND`."
LOGIN_TIMEOUT_S = 300.0  # of a start here, where a person may have to log in


def main(argv: Sequence[str]) -> Answered:
    """Runs `kode mcp ...`. Raises: KodeError."""
    argv = argv or ["list"]
    if (of_plugin := installed.command("mcp", *argv[:1])) is not None:
        return of_plugin(argv[1:])
    command, parser, rest = Parser.of_group("mcp", COMMANDS | installed.subcommands("mcp"), argv)
    if command in ("add", "add-json", "import"):
        from kode.cli.commands import mcp_add

        return (mcp_add.import_servers if command == "import" else mcp_add.add)(parser, rest)
    if command == "list":
        parser.add_argument("--json", action="store_true", help="one JSON list")
        return _list(as_json=parser.parse(rest).json)
    parser.add_argument("name", metavar="SERVER", help="the server")
    run = {"approve": _approve, "test": _test}.get(command)
    if run is not None:
        parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    arguments = parser.parse(rest)
    config = find_servers(paths.home(), directory(None, ""))
    entry = next((entry for entry in config.entries if entry.name == arguments.name), None)
    if entry is None:
        why = f"There is no MCP server {arguments.name!r} here. `kode mcp list` lists all."
        raise ConfigError(" ".join((why, *config.faults)))
    if run is not None:
        return asyncio.run(run(entry, unasked=arguments.yes))
    if command == "get":
        return _show(entry)
    remove(entry.origin, entry.name)
    mcp_server.forget(paths.home(), entry, _approvals_of(entry))
    return f"Removed {entry.name} from {entry.origin}."


def _list(*, as_json: bool) -> Answer:
    config = find_servers(paths.home(), directory(None, ""))
    values, rows = [], []
    for entry in config.entries:
        approvals = _approvals_of(entry)
        pins = mcp_server.saved_pins(entry, approvals)
        row = {
            "name": entry.name,
            "scope": entry.scope,
            "state": trust.state(entry.item, approvals),
            "origin": str(entry.origin),
            "hash": trust.digest(entry.item),
            "runs": target_of(entry.values),
            "tools": len(pins),
            "tokens": sum(len(pin.content) for pin in pins) // 4,
        }
        seen = f"tools: {row['tools']}, {row['tokens']} tokens" if pins else "not seen yet"
        cells = (row["state"], entry.name, str(row["hash"])[:12], seen, row["runs"])
        values.append(row)
        rows.append([*map(visible, map(str, cells)), f"({visible(str(entry.origin))})"])
    return Answer(
        value=values,
        as_json=as_json,
        rows=rows,
        empty=NONE,
        faults=config.faults,
        exit_code=EXIT_FAILED if config.faults and not rows else EXIT_OK,
    )


def _show(entry: McpServerEntry) -> Answer:
    """The entry without its variables, headers and logins: most is secret, whatever it looks like.
    The name of a variable that it takes from the environment is not."""
    approvals, values = _approvals_of(entry), entry.values
    held = [*values.get("env", {}).values(), *values.get("headers", {}).values()]
    held += [values.get("oauth", {}).get("clientSecret") or ""]
    secrets = [json.dumps(value, ensure_ascii=False) for value in held if "${" not in str(value)]
    lines = [credentials.mask(review.shown(entry.item, approvals), {*secrets} - {'""'})]
    for pin in mcp_server.saved_pins(entry, approvals):
        about = json.loads(pin.content).get("description", "")
        lines += [f"tool {pin.name}  {pin.digest[:12]}  {pin.approved_at}", about]
    return Answer(lines=map(public, lines))


def _approvals_of(entry: McpServerEntry) -> trust.Approvals:
    approvals = trust.load(paths.home(), entry.root)
    complain([approvals.problem])  # once: the damaged file is then out of the way
    return approvals


async def _approve(entry: McpServerEntry, *, unasked: bool) -> Answered:
    """Approves the entry first, because nothing of it may start before; then its current tools."""
    if not await _settle(entry, [entry.item], unasked=unasked):
        return EXIT_FAILED
    async with _open(entry, unasked=unasked) as connection:
        items = mcp_server.pins_of(entry, await connection.tools())
    return EXIT_OK if await _settle(entry, items, unasked=unasked) else EXIT_FAILED


async def _settle(entry: McpServerEntry, items: Sequence[trust.Item], *, unasked: bool) -> bool:
    """Whether a person approves what is pending of `items`."""
    from kode.cli.commands.trust import approve_shown

    approvals = _approvals_of(entry)
    pending = [item for item in items if trust.state(item, approvals) != "trusted"]
    # In full: no other command shows an unapproved tool.
    return await approve_shown(pending, approvals, paths.home(), unasked=unasked, lines=sys.maxsize)


async def _test(entry: McpServerEntry, *, unasked: bool) -> Answered:
    """Raises: ConfigError for an unapproved server; ServerError; StorageError, BusyError if its
    tools cannot be pinned."""
    approvals = _approvals_of(entry)
    if trust.state(entry.item, approvals) != "trusted":
        raise ConfigError(
            f"The MCP server {entry.name} is the project's and not approved in its current form: "
            f"`kode mcp approve {entry.name}` shows it."
        )
    async with _open(entry, unasked=unasked) as connection:
        tools = await connection.tools()
        held = mcp_server.held_back(entry, tools, approvals)
        # From now on a session offers them without waiting for the server.
        mcp_server.keep_pins(paths.home(), entry, tools, approvals)
        lines = [f"{entry.name} answers.", *filter(None, [connection.instructions])]
        for name, tool in tools.items():
            mark = " (changed since it was approved: off)" if name in held else ""
            about = tool.description.partition("\n")[0]
            lines.append(f"  tool      {name}{mark}: {about}")
        for resource in await connection.resources():
            lines.append(f"  resource  @{entry.name}:{resource.key}: {resource.description}")
        for prompt in await connection.prompts():
            words = " ".join((*prompt.arguments, prompt.description))
            lines.append(f"  prompt    /mcp__{entry.name}__{prompt.key} {words}")
        lines += [f"  left out  {what}" for what in connection.left_out]
    return Answer(lines=map(visible, lines))


@asynccontextmanager
async def _open(entry: McpServerEntry, *, unasked: bool) -> "AsyncIterator[Connection]":
    """Starts or reaches a server while a person waits. Raises: ServerError, ConfigError."""
    from kode.assembly import open_workplace
    from kode.cli.screen.form import make_elicit
    from kode.config.load import load_config
    from kode.extensions.mcp_open import opener

    home, cwd = paths.home(), directory(None, "")
    config = load_config(home, cwd, environ=os.environ, flags={}).config
    open_entry = opener(
        open_workplace(config, home, cwd),
        sandboxed=config.sandbox.enabled is not False,
        required=config.sandbox.enabled is True,
        elicit=make_elicit() if sys.stdin is not None and sys.stdin.isatty() else None,
        tell=lambda page: _report(f"Log in at this page, on this machine:\n\n{page}\n"),
    )
    limit_s = LOGIN_TIMEOUT_S if "url" in entry.values else START_TIMEOUT_S

    async def start(stack: AsyncExitStack) -> "Connection":
        try:
            async with asyncio.timeout(limit_s):
                return await stack.enter_async_context(open_entry(entry))
        except TimeoutError as error:
            raise ServerError(
                f"The MCP server {entry.name} did not start within {limit_s:g} s."
            ) from error

    async with AsyncExitStack() as stack:
        try:
            connection = await start(stack)
        except mcp_cache.DownloadNeededError:
            _report(review.DOWNLOADS)
            if not await _settle(entry, [mcp_cache.wish(entry)], unasked=unasked):
                raise
            await open_entry.download(entry)
            connection = await start(stack)
        yield connection


def _report(text: str) -> None:
    print(clean(visible(text)), file=sys.stderr, flush=True)
