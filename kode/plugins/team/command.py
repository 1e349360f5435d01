"""`kode memory team`: the tables of a team's notes on a server, and who may see and write them."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from kode.plugin import (
    ConfigError,
    Finding,
    Parser,
    kode_home,
    load_config,
    print_either,
    project_root,
    repository_name,
    working_directory,
)
from kode.plugins.team.address import Address, address_of, team_of
from kode.plugins.team.server import describe_reach, open_server

ALL = "*"


def main(argv: Sequence[str]) -> int:
    """Runs `kode memory team ...`. Raises: ConfigError, MemoryRefused, Unreachable."""
    parser = Parser("kode memory team", "The members of a team's notes.")
    parser.add_argument("action", nargs="?", choices=("init", "admit", "dismiss"))
    parser.add_argument("person", nargs="?", metavar="PERSON", help="a role of the server")
    parser.add_argument("--project", metavar="NAME", help="only this project; `.` for the one here")
    parser.add_argument("--cwd", metavar="DIR", help="in this project")
    given = parser.parse(argv, mixed=True)
    cwd = working_directory(given)
    loaded = load_config(kode_home(), cwd, environ=os.environ, flags={})
    address, here = team_of(loaded.config.memory.notes), project_root(cwd)
    said = asyncio.run(manage(address, given.action, given.person, given.project, here))
    print_either(None, said.split("\n"), as_json=False)
    return 0


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


async def manage(
    address: Address, action: str | None, person: str | None, project: str | None, here: Path
) -> str:
    """One action, and what to say of it; without one the members. `here` is the project that `.`
    means. Raises: ConfigError, MemoryRefused, Unreachable."""
    if (person is None) != (action not in ("admit", "dismiss")):
        raise ConfigError(
            "Name the person: `kode memory team admit PERSON`, who is a role of the server."
            if person is None
            else f"kode memory team {action} takes no person. Leave {person!r} out."
        )
    scope = ALL if project is None else _name(project, here)
    async with open_server(address) as server:
        if action == "init":
            owner = await server.prepare()
            return (
                f"{address.label} is ready, and {owner} is of the team.\n"
                "Others join with `kode memory team admit PERSON`."
            )
        if action == "admit" and person:
            await server.admit(person, scope)
            return f"{person} sees and writes {_words(scope)} of {address.label}"
        if action == "dismiss" and person:
            count = await server.dismiss(person, scope)
            if not count:
                return f"{person} was no member of {_words(scope)} of {address.label}"
            return (
                f"{person} sees {_words(scope)} of {address.label} no more. What their kode has "
                "from colleagues goes when it is next connected."
            )
        lines = [f"  {one}: {_words(seen)}" for one, seen in await server.members()]
        head = f"members of {address.label}, as far as you may see:"
        return "\n".join([head, *lines])


def _name(project: str, here: Path) -> str:
    if project != ".":
        return project
    name = repository_name(here)
    if not name:
        raise ConfigError(
            f"{here} is no repository with an `origin`, which gives a project its name for all. "
            "Run this in one, or name the project as github.com/org/repo."
        )
    return name


def _words(scope: str) -> str:
    return "all" if scope == ALL else scope
