"""`kode mcp list`, `get` and `remove`: the MCP servers of this directory as they are configured."""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kode import credentials, paths
from kode.cli.flags import working_directory
from kode.cli.parser import Parser
from kode.cli.screen.lines import public
from kode.cli.screen.printer import Answer, complain
from kode.errors import EXIT_FAILED, EXIT_OK, ConfigError
from kode.extensions import mcp_cache, review, trust
from kode.extensions.mcp_config import Entry as McpServerEntry
from kode.extensions.mcp_config import find_servers, remove, variables_of
from kode.messages import plural
from kode.permissions.gate import visible

NONE = "No MCP servers here. Add one: `kode mcp add NAME URL`, `kode mcp add NAME -- COMMAND`."


def list_servers(argv: Sequence[str]) -> Answer:
    """Answers `kode mcp list`. Raises: ConfigError."""
    parser = Parser("kode mcp list", "List all servers, with source and trust.")
    parser.add_argument("--json", action="store_true", help="one JSON list")
    as_json = parser.parse(argv).json
    config = find_servers(paths.home(), here())
    rows = [_row(entry) for entry in config.entries]
    return Answer(
        value=rows,
        as_json=as_json,
        rows=[_cells(row) for row in rows],
        empty=NONE,
        faults=config.faults,
        exit_code=EXIT_FAILED if config.faults and not rows else EXIT_OK,
    )


def get(argv: Sequence[str]) -> Answer:
    """Answers `kode mcp get SERVER`. Raises: ConfigError."""
    entry = found(
        with_server("get", "Show one server: its entry and approved tools.").parse(argv).name
    )
    approvals = approvals_of(entry)
    tools = [
        f"tool {item.name}  {item.digest[:12]}  {item.approved_at}\n"
        f"{json.loads(item.content).get('description', '')}"
        for item in approvals.items
        if item.kind == "mcp-tool" and item.name.startswith(f"{entry.name}:")
    ]
    shown = credentials.mask(review.shown(entry.item, approvals), _given_values(entry))
    return Answer(lines=map(public, [shown, *tools]))


def remove_server(argv: Sequence[str]) -> str:
    """Answers `kode mcp remove SERVER`. Raises: ConfigError, StorageError, BusyError."""
    name = with_server("remove", "Remove one from the file it is in.").parse(argv).name
    entry = found(name)
    remove(entry.origin, name)
    # A different server with the same name: nothing of it has been approved.
    revoked = [
        approval
        for approval in approvals_of(entry).items
        if approval.origin == str(entry.origin)
        and (approval.name == name or approval.name.startswith(f"{name}:"))
    ]
    trust.revoke(paths.home(), entry.root, revoked)
    mcp_cache.remove(entry, paths.home())
    return f"Removed {name} from {entry.origin}."


def with_server(command: str, about: str) -> Parser:
    """The parser of a command for one server."""
    parser = Parser(f"kode mcp {command}", about)
    parser.add_argument("name", metavar="SERVER", help="the server")
    return parser


def here() -> Path:
    return working_directory(argparse.Namespace(cwd=None))


def found(name: str) -> McpServerEntry:
    """Raises: ConfigError if there is no such server."""
    config = find_servers(paths.home(), here())
    for entry in config.entries:
        if entry.name == name:
            return entry
    why = f"There is no MCP server {name!r} here. `kode mcp list` lists all."
    raise ConfigError(" ".join((why, *config.faults)))


def approvals_of(entry: McpServerEntry) -> trust.Approvals:
    approvals = trust.load(paths.home(), entry.root)
    complain([approvals.problem])  # once: the damaged file is then out of the way
    return approvals


def _cells(row: Mapping[str, Any]) -> list[str]:
    tools = f"{plural(row['tools'], 'tool')}, {row['tokens']} tokens"
    seen = tools if row["tools"] else "not seen yet"
    cells = (row["state"], row["name"], row["hash"][:12], seen, row["runs"])
    return [*map(visible, cells), f"({visible(row['origin'])})"]


def _row(entry: McpServerEntry) -> dict[str, Any]:
    item, values = entry.item, entry.values
    approvals = approvals_of(entry)
    pins = [one for one in approvals.items if one.name.startswith(f"{entry.name}:")]
    runs = values.get("url") or " ".join((values["command"], *values.get("args", ())))
    return {
        "name": entry.name,
        "scope": entry.scope,
        "state": trust.state(item, approvals),
        "origin": str(entry.origin),
        "hash": trust.digest(item),
        "runs": credentials.redact(runs),
        "write": values.get("write") is True,
        "network": values.get("network") is True,
        "variables": list(variables_of(entry)),
        "tools": len(pins),
        "tokens": sum(len(pin.content) for pin in pins) // 4,
    }


def _given_values(entry: McpServerEntry) -> list[str]:
    """What the entry itself says of variables, headers and logins, as JSON has it; most is secret,
    whatever it looks like. The name of a variable that it takes from the environment is not."""
    values = entry.values
    held = [*values.get("env", {}).values(), *values.get("headers", {}).values()]
    held += [values.get("oauth", {}).get("clientSecret", "")]
    written = (json.dumps(one, ensure_ascii=False) for one in held if isinstance(one, str))
    return [one for one in written if one != '""' and "${" not in one]
