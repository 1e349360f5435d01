"""`kode mcp`: lists, removes, shows, approves and tests the MCP servers of this directory; plug-ins
add them, and run kode as one."""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from kode import installed, paths
from kode.cli.commands.trust import approve_shown
from kode.cli.flags import working_directory
from kode.cli.parser import Parser
from kode.cli.screen.lines import clean, public
from kode.cli.screen.printer import Answer, Answered, complain
from kode.credentials import mask, redact
from kode.errors import EXIT_FAILED, EXIT_OK, ConfigError, ServerError
from kode.extensions import mcp_cache, mcp_config, review, trust
from kode.extensions.mcp_cache import DownloadNeededError
from kode.extensions.mcp_config import START_TIMEOUT_S, Entry
from kode.extensions.mcp_server import held_back, keep_pins, pins_of
from kode.extensions.mcp_values import Connection
from kode.extensions.trust import Item
from kode.messages import plural
from kode.permissions.gate import visible

LOGIN_TIMEOUT_S = 300.0
"""Time limit of a start here, where a person may have to log in."""


def main(argv: Sequence[str]) -> Answered:
    """Runs `kode mcp ...`. Raises: KodeError."""
    arguments = _parse(argv)
    cwd = working_directory(argparse.Namespace(cwd=None))
    match arguments.command:
        case "remove":
            return _remove(arguments.name, cwd)
        case "list":
            return _list(cwd, as_json=arguments.json)
        case "get":
            return _get(_entry(arguments.name, cwd))
        case "approve":
            return asyncio.run(_approve(_entry(arguments.name, cwd), cwd, unasked=arguments.yes))
        case "test":
            return asyncio.run(_test(_entry(arguments.name, cwd), cwd, unasked=arguments.yes))
    raise AssertionError(arguments.command)


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = Parser("kode mcp", "MCP servers: `.mcp.json`, `kode.json`, your own config.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    def add(name: str, about: str) -> argparse.ArgumentParser:
        one = commands.add_parser(name, help=about, description=about)
        if name != "list":
            one.add_argument("name", metavar="SERVER", help="the server")
        return one

    add("list", "list all servers, with source and trust").add_argument(
        "--json", action="store_true", help="one JSON list"
    )
    add("remove", "remove one from the file it is in")
    add("get", "show one server: its entry and approved tools")
    add("approve", "approve a project's server, or changed tools").add_argument(
        "--yes", action="store_true", help="do not ask for confirmation"
    )
    add("test", "connect to one and list what it offers; log in if needed").add_argument(
        "--yes", action="store_true", help="let it start once with the network if it asks for it"
    )
    for name, (_, of_plugin) in installed.added("commands").items():
        if name.startswith("mcp "):
            about = of_plugin.summary
            commands.add_parser(name.removeprefix("mcp "), help=about, description=about)
    return parser.parse(argv or ["list"])


def _remove(name: str, cwd: Path) -> str:
    entry = _entry(name, cwd)
    mcp_config.remove(entry.origin, name)
    # A different server with the same name: nothing of it has been approved.
    approved = [item for item in _approvals(entry).items if item.origin == str(entry.origin)]
    gone = [
        approval
        for approval in approved
        if approval.name == name or approval.name.startswith(f"{name}:")
    ]
    trust.revoke(paths.home(), entry.root, gone)
    mcp_cache.remove(entry, paths.home())
    return f"Removed {name} from {entry.origin}."


def _list(cwd: Path, *, as_json: bool) -> Answer:
    config = mcp_config.find_servers(paths.home(), cwd)
    rows = [_row(entry) for entry in config.entries]
    none = "No MCP servers here. Add one: `kode mcp add NAME URL`, `kode mcp add NAME -- COMMAND`."
    return Answer(
        value=rows,
        as_json=as_json,
        rows=[_cells(row) for row in rows],
        empty=none,
        faults=config.faults,
        exit_code=EXIT_FAILED if config.faults and not rows else EXIT_OK,
    )


def _cells(row: Mapping[str, Any]) -> list[str]:
    tools = f"{plural(row['tools'], 'tool')}, {row['tokens']} tokens"
    seen = tools if row["tools"] else "not seen yet"
    cells = (row["state"], row["name"], row["hash"][:12], seen, row["runs"])
    return [*map(visible, cells), f"({visible(row['origin'])})"]


def _row(entry: Entry) -> dict[str, Any]:
    item = entry.item
    pins = [
        approval
        for approval in _approvals(entry).items
        if approval.name.startswith(f"{entry.name}:")
    ]
    values = entry.values
    return {
        "name": entry.name,
        "scope": entry.scope,
        "state": trust.state(item, _approvals(entry)),
        "origin": str(entry.origin),
        "hash": trust.digest(item),
        "runs": redact(values.get("url") or " ".join((values["command"], *values.get("args", ())))),
        "write": values.get("write") is True,
        "network": values.get("network") is True,
        "variables": list(mcp_config.variables_of(entry)),
        "tools": len(pins),
        "tokens": sum(len(pin.content) for pin in pins) // 4,
    }


def _get(entry: Entry) -> Answer:
    approvals = _approvals(entry)
    lines = [public(mask(review.shown(entry.item, approvals), _given_values(entry)))]
    for item in approvals.items:
        if item.kind == "mcp-tool" and item.name.startswith(f"{entry.name}:"):
            about = json.loads(item.content).get("description", "")
            lines.append(
                public(f"tool {item.name}  {item.digest[:12]}  {item.approved_at}\n{about}")
            )
    return Answer(lines=lines)


def _given_values(entry: Entry) -> list[str]:
    """What the entry itself says of variables, headers and logins, as JSON has it; most is secret,
    whatever it looks like. The name of a variable that it takes from the environment is not."""
    values = entry.values
    held = [*values.get("env", {}).values(), *values.get("headers", {}).values()]
    held += [values.get("oauth", {}).get("clientSecret", "")]
    written = (json.dumps(one, ensure_ascii=False) for one in held if isinstance(one, str))
    return [one for one in written if one != '""' and "${" not in one]


async def _approve(entry: Entry, cwd: Path, *, unasked: bool) -> int:
    """Approves the entry first, because nothing of it may start before; then its current tools."""
    if not _approved(entry, [entry.item], unasked=unasked):
        return EXIT_FAILED
    async with _opened(entry, cwd, unasked=unasked) as connection:
        definitions = await connection.tools()
    items = pins_of(entry, definitions)
    return EXIT_OK if _approved(entry, items, unasked=unasked) else EXIT_FAILED


def _approved(entry: Entry, items: Sequence[Item], *, unasked: bool) -> bool:
    approvals = _approvals(entry)
    pending = [item for item in items if trust.state(item, approvals) != "trusted"]
    # In full: no other command shows an unapproved tool.
    return approve_shown(
        pending, approvals, paths.home(), entry.root, unasked=unasked, lines=sys.maxsize
    )


async def _test(entry: Entry, cwd: Path, *, unasked: bool) -> Answer:
    """Raises: ConfigError for an unapproved server; ServerError; StorageError, BusyError if its
    tools cannot be pinned."""
    approvals = _approvals(entry)
    if trust.state(entry.item, approvals) != "trusted":
        raise ConfigError(
            f"The MCP server {entry.name} is the project's and not approved in its current form: "
            f"`kode mcp approve {entry.name}` shows it."
        )
    async with _opened(entry, cwd, unasked=unasked) as connection:
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
    return Answer(lines=map(visible, lines))


@asynccontextmanager
async def _opened(entry: Entry, cwd: Path, *, unasked: bool = False) -> AsyncIterator[Connection]:
    """Raises: ServerError, ConfigError."""
    from kode.assembly import open_workplace
    from kode.cli.screen.form import make_elicit
    from kode.config import load_config
    from kode.extensions.mcp_open import opener

    config = load_config(paths.home(), cwd, environ=os.environ, flags={}).config
    place = open_workplace(config, paths.home(), cwd)
    enabled = config.sandbox.enabled
    elicit = make_elicit() if sys.stdin is not None and sys.stdin.isatty() else None
    open_entry = opener(
        place,
        sandboxed=enabled is not False,
        required=enabled is True,
        elicit=elicit,
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
                    if not _approved(entry, [mcp_cache.wish(entry)], unasked=unasked):
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


def _approvals(entry: Entry) -> trust.Approvals:
    approvals = trust.load(paths.home(), entry.root)
    complain([approvals.problem])  # once: the damaged file is then out of the way
    return approvals


def _entry(name: str, cwd: Path) -> Entry:
    """Raises: ConfigError."""
    config = mcp_config.find_servers(paths.home(), cwd)
    for entry in config.entries:
        if entry.name == name:
            return entry
    raise ConfigError(
        " ".join(
            (f"There is no MCP server {name!r} here. `kode mcp list` lists all.", *config.faults)
        )
    )
