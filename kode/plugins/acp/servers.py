"""MCP servers that a client names for a session: trusted like the person's own, stored nowhere."""

import re
from collections.abc import Sequence
from typing import Any

from acp import schema

from kode.plugin import UserError

Named = schema.HttpMcpServer | schema.SseMcpServer | schema.AcpMcpServer | schema.McpServerStdio


def servers_of(servers: Sequence[Named]) -> dict[str, dict[str, Any]]:
    """Converts the servers to kode's, by name. They may change the project and use the network,
    because clients start them without a sandbox and cannot say what they need.

    Raises: UserError for an unsupported kind of server.
    """
    named: dict[str, dict[str, Any]] = {}
    for server in servers:
        # A name that can be part of a tool's: `My Server` → `My-Server`.
        plain = re.sub(r"[^A-Za-z0-9.-]+", "-", server.name).strip("-.")[:36] or "server"
        numbered = (f"{plain}-{number}" for number in range(2, len(servers) + 2))
        named[next(one for one in (plain, *numbered) if one not in named)] = _values(server)
    return named


def _values(server: Named) -> dict[str, Any]:
    if isinstance(server, schema.McpServerStdio):
        return {
            "command": server.command,
            "args": list(server.args),
            "env": {variable.name: variable.value for variable in server.env},
            "write": True,
            "network": True,
        }
    if isinstance(server, schema.AcpMcpServer):
        raise UserError(
            f"kode cannot reach the MCP server {server.name[:40]!r}: it speaks stdio, "
            "Streamable HTTP and SSE. Configure it in one of these ways."
        )
    headers = {header.name: header.value for header in server.headers}
    return {"type": server.type, "url": server.url, "headers": headers}
