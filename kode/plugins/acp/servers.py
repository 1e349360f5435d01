"""MCP servers that a client names for a session: trusted like the person's own, stored nowhere."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from acp.schema import AcpMcpServer, HttpMcpServer, McpServerStdio, SseMcpServer

from kode.plugin import McpServerEntry as Entry
from kode.plugin import UserError, paths

Named = HttpMcpServer | SseMcpServer | AcpMcpServer | McpServerStdio

ORIGIN = Path("the editor")
"""The origin of such a server in error messages."""


def entries_of(servers: Sequence[Named], cwd: Path) -> tuple[Entry, ...]:
    """Converts the servers to kode's entries. They may change the project and use the network,
    because clients start them without a sandbox and cannot say what they need.

    Raises: UserError for an unsupported kind of server.
    """
    entries: dict[str, Entry] = {}
    for server in servers:
        name = _free_name(server.name, entries)
        entries[name] = Entry(
            name=name,
            origin=ORIGIN,
            scope="client",
            project=paths.project_root(cwd),
            values=_values(server),
        )
    return tuple(entries.values())


def _values(server: Named) -> dict[str, Any]:
    match server:
        case McpServerStdio():
            return {
                "command": server.command,
                "args": list(server.args),
                "env": {variable.name: variable.value for variable in server.env},
                "write": True,
                "network": True,
            }
        case HttpMcpServer() | SseMcpServer():
            headers = {header.name: header.value for header in server.headers}
            return {"type": server.type, "url": server.url, "headers": headers}
        case _:
            raise UserError(
                f"kode cannot reach the MCP server {server.name[:40]!r}: it speaks stdio, "
                "Streamable HTTP and SSE. Configure it in one of these ways."
            )


def _free_name(name: str, taken: dict[str, Entry]) -> str:
    """A name that can be part of a tool's: `My Server` → `My-Server`."""
    plain = re.sub(r"[^A-Za-z0-9.-]+", "-", name).strip("-.")[:36] or "server"
    number, free = 1, plain
    while free in taken:
        number += 1
        free = f"{plain}-{number}"
    return free
