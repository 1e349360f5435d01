"""The parts of a bundle as sessions read them."""

from functools import partial
from pathlib import Path

from kode.plugin import (
    Bundle,
    Item,
    Surroundings,
    Thing,
    hooks_of_bundles,
    load,
    mcp_cache,
    parts,
    read_agent,
    read_command,
    read_each,
    read_skill,
    revoke,
    servers_of,
)


def items_of(bundle: Bundle, home: Path) -> tuple[tuple[Item, ...], list[str]]:
    """Every usable part of a bundle, and a sentence for each other one. Never raises."""
    problems: list[str] = []
    bundles, folder = (bundle,), bundle.folder
    around = Surroundings(cwd=folder, repository=None, home=home, user_home=folder, bundles=bundles)
    things: tuple[Thing, ...] = (
        *read_each("skills", parts(bundles, "skills"), read_skill, problems),
        *read_each("commands", parts(bundles, "commands"), read_command, problems),
        *read_each("agents", parts(bundles, "agents"), partial(read_agent, problems), problems),
        *hooks_of_bundles(bundles, around, problems),
    )
    servers = servers_of(bundle, folder, problems)
    return (*(one.item for one in things), *(one.item for one in servers)), problems


def forget_servers(bundle: Bundle, home: Path) -> None:
    """Removes the pins and caches of a bundle's servers. Raises: StorageError, BusyError."""
    entries = list(servers_of(bundle, bundle.folder, []))
    names = tuple(f"{entry.name}:" for entry in entries)
    if gone := [one for one in load(home, home).items if f"{one.name}:".startswith(names)]:
        revoke(home, home, gone)
    for entry in entries:
        mcp_cache.remove(entry, home)
