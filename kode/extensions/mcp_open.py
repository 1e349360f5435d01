"""Opens the connection of a configured entry: variables, sandbox, login. Imports the SDK in a
thread, only when a server is about to start."""

import asyncio
import importlib
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from kode import extras
from kode.contracts import WrapCommand, Wrapped
from kode.errors import ConfigError, SandboxError
from kode.extensions import trust
from kode.extensions.mcp_config import Entry, Server, resolve
from kode.extensions.mcp_server import Open
from kode.extensions.mcp_values import Connection, Elicit
from kode.workplace import Workplace


def opener(
    place: Workplace,
    *,
    sandboxed: bool,
    required: bool = False,
    denied: Callable[[str], bool] = lambda path: False,
    elicit: Elicit | None = None,
    tell: Callable[[str], None] | None = None,
) -> Open:
    """Returns the function that opens servers for a session in `place`. `sandboxed` is False if the
    person turned the sandbox off. Where there is none, a server runs without if a person approved
    that, and with `required` none does. `denied`: see `sandbox.confine`; `tell`, `elicit`: see
    `mcp_client.connect`."""

    # Entries are relative to the project's root, wherever in it the session works.
    place = replace(place, cwd=place.project)

    @asynccontextmanager
    async def open_entry(entry: Entry) -> AsyncIterator[Connection]:
        extras.require("mcp")
        server = resolve(entry, os.environ)
        wrap: WrapCommand | None = None
        if server.command and sandboxed:
            try:
                wrap = await asyncio.to_thread(_confine, place, server, denied)
            except ConfigError:
                approvals = trust.load(place.home, place.project)
                if required or trust.state(trust.outside(entry.item), approvals) != "trusted":
                    raise
        client = await asyncio.to_thread(importlib.import_module, "kode.extensions.mcp_client")
        async with client.connect(
            server,
            wrap=wrap or _outside,
            cwd=place.project,
            home=place.home,
            tell=tell,
            elicit=elicit,
        ) as connection:
            yield connection

    return open_entry


def _confine(place: Workplace, server: Server, denied: Callable[[str], bool]) -> WrapCommand:
    """Raises: ConfigError without a sandbox."""
    from kode.sandbox.confine import confine

    try:
        return confine(place, writable=server.write, network=server.network, denied=denied)
    except SandboxError as error:
        raise ConfigError(
            f"{error}, and without one it is not started unless you say so. `kode` asks once at a "
            "terminal; `kode doctor` says what is missing. With `sandbox.enabled` false in your "
            "config, servers start without."
        ) from error


def _outside(argv: tuple[str, ...]) -> Wrapped | None:
    return None
