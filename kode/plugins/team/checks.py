"""What `kode doctor` says of a team's server."""

import asyncio
import os
from pathlib import Path

from kode.plugin import ConfigError, Finding, kode_home, load_config
from kode.plugins.team.address import address_of
from kode.plugins.team.server import describe_reach


def checks() -> list[Finding]:
    """Whether the configured server answers; nothing where there is none, or where the config
    cannot be read, which another check says."""
    try:
        config = load_config(kode_home(), Path.cwd(), environ=os.environ, flags={}).config
        address = address_of(config.memory.notes)
    except ConfigError:
        return []
    if address is None:
        return []
    answers, detail = asyncio.run(describe_reach(address))
    if answers:
        return [Finding(what="team", state="ok", detail=detail)]
    step = "check memory.notes.url, and that the server runs; until then kode works with its copy"
    return [Finding(what="team", state="optional", detail=detail, next_step=step)]
