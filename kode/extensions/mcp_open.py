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
from kode.extensions.trust import Approvals
from kode.workplace import Workplace


def opener(
    place: Workplace,
    *,
    sandboxed: bool,
    required: bool = False,
    denied: Callable[[str], bool] = lambda path: False,
    trust_project: bool = False,
    elicit: Elicit | None = None,
    tell: Callable[[str], None] | None = None,
) -> Open:
    """Returns the function that opens servers for a session in `place`. `sandboxed` is False if the
    person turned the sandbox off, which lets only their own run without. Where there is none, a
    server runs without if a person approved that, and with `required` none does. `trust_project`:
    none of the project's is pinned. `denied`: see `sandbox.confine`; `tell`, `elicit`: see
    `mcp_client.connect`."""

    # Entries are relative to the project's root, wherever in it the session works.
    place = replace(place, cwd=place.project)

    @asynccontextmanager
    async def open_entry(entry: Entry) -> AsyncIterator[Connection]:
        extras.require("mcp")
        server = resolve(entry, os.environ)
        pinned = entry.scope == "project" and not trust_project
        if pinned:
            _check(entry, trust.load(place.home, place.project))
        wrap: WrapCommand | None = None
        started: list[Wrapped | None] = []
        if server.command and sandboxed:
            try:
                wrap = await asyncio.to_thread(_confine, place, server, denied, pinned)
            except ConfigError:
                if required or not _may_leave(entry, place):
                    raise
        elif server.command and entry.scope == "project" and not _may_leave(entry, place):
            raise ConfigError(
                "the sandbox is off, and a repository's server is not started without one unless "
                f"you say so. `kode` asks once at a terminal, `kode trust approve {entry.name} "
                "--outside` says it before."
            )
        client = await asyncio.to_thread(importlib.import_module, "kode.extensions.mcp_client")

        def start(argv: tuple[str, ...]) -> Wrapped | None:
            started.append(wrap(argv) if wrap is not None else None)
            return started[-1]

        async with client.connect(
            server,
            wrap=start,
            cwd=place.project,
            home=place.home,
            tell=tell,
            elicit=elicit,
        ) as connection:
            opened = [one.opened() for one in started if one is not None]
            if pinned and opened and opened[-1] is not None:
                approvals = await asyncio.to_thread(
                    trust.pin_loads, place.home, place.project, entry.item, opened[-1]
                )
                _check(entry, approvals)
            yield connection

    return open_entry


def _may_leave(entry: Entry, place: Workplace) -> bool:
    """Whether a person approved that it runs without a sandbox."""
    approvals = trust.load(place.home, place.project)
    return trust.state(trust.outside(entry.item), approvals) == "trusted"


def _check(entry: Entry, approvals: Approvals) -> None:
    """Raises: ConfigError if an approved server, or what it loads, has changed."""
    if trust.state(entry.item, approvals) == "changed":
        raise ConfigError(
            "it, or what it loads, has changed since you approved it, so it stays off: "
            f"`kode mcp approve {entry.name}` shows the change."
        )


def _confine(
    place: Workplace, server: Server, denied: Callable[[str], bool], records_opens: bool
) -> WrapCommand:
    """Raises: ConfigError without a sandbox."""
    from kode.sandbox.confine import confine

    try:
        return confine(
            place,
            writable=server.write,
            network=server.network,
            records_opens=records_opens,
            denied=denied,
        )
    except SandboxError as error:
        raise ConfigError(
            f"{error}, and without one it is not started unless you say so. `kode` asks once at a "
            "terminal; `kode doctor` says what is missing."
        ) from error
