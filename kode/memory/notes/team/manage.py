"""`kode memory team`: the tables of a team's notes on a server, and who may see and write them."""

from pathlib import Path
from typing import TYPE_CHECKING

from kode.errors import ConfigError
from kode.memory.notes.note import PROJECT_SCOPE
from kode.memory.notes.team.address import Address, address_of, project_name
from kode.memory.notes.team.server import open_server

if TYPE_CHECKING:
    from kode.config import MemoryConfig

ALL = "*"


def team_of(settings: "MemoryConfig") -> Address:
    """Raises: ConfigError where none is configured."""
    address = address_of(settings.notes)
    if address is None:
        raise ConfigError(
            "No team is configured: set memory.notes.url, or KODE_NOTES_URL, to an address like "
            "postgresql://ada@db.example/kode."
        )
    return address


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
    scope = ALL if project is None else PROJECT_SCOPE + _named(project, here)
    async with open_server(address) as server:
        if action == "init":
            owner = await server.prepare()
            why_none = await server.prepare_vectors()
            return (
                f"{address.label} is ready, and {owner} is of the team.\n"
                "Others join with `kode memory team admit PERSON`.\n"
                + (
                    f"Without pgvector each member makes the vectors of notes: {why_none}."
                    if why_none
                    else "Members share the vectors of notes, by pgvector."
                )
            )
        if action == "admit" and person:
            await server.admit(person, scope)
            return f"{person} sees and writes {_words(scope)} of {address.label}"
        if action == "dismiss" and person:
            count = await server.dismiss(person, scope)
            if not count:
                return f"{person} was no member of {_words(scope)} of {address.label}"
            return (
                f"{person} sees {_words(scope)} of {address.label} no more. What their machine has "
                "copied goes there when kode is next connected."
            )
        members, own = await server.members(), await server.membership()
        lines = [f"  {one}: {_words(seen)}" for one, seen in members]
        head = f"members of {address.label}, as far as you may see:"
        return "\n".join([head, *lines, own.pgvector])


def _named(project: str, here: Path) -> str:
    return project_name(here) if project == "." else project


def _words(scope: str) -> str:
    return "all" if scope == ALL else scope.removeprefix(PROJECT_SCOPE)
