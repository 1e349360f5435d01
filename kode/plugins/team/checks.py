"""What `kode doctor` says of a team's server."""

import asyncio
import os
from pathlib import Path

from kode.plugin import ConfigError, Finding, KodeError, load_config, paths
from kode.plugins.team.address import Address, address_of
from kode.plugins.team.member import OPEN_S
from kode.plugins.team.server import open_server


def checks() -> list[Finding]:
    """Whether the configured server answers; nothing where there is none, or where the config
    cannot be read, which another check says."""
    try:
        config = load_config(paths.home(), Path.cwd(), environ=os.environ, flags={}).config
        address = address_of(config.memory.notes)
    except ConfigError:
        return []
    return [] if address is None else [asyncio.run(_reached(address))]


async def _reached(address: Address) -> Finding:
    try:
        async with asyncio.timeout(OPEN_S), open_server(address) as server:
            member = await server.membership()
    except (KodeError, TimeoutError) as error:
        return Finding(
            what="team",
            state="optional",
            detail=f"{address.label} cannot be reached: {error or 'no answer in time'}",
            next_step="check memory.notes.url, and that the server runs; until then kode works "
            "with its copy",
        )
    scopes = ", ".join(member.scopes) or "no member"
    return Finding(
        what="team", state="ok", detail=f"{address.label}: reached as {member.person} ({scopes})"
    )
