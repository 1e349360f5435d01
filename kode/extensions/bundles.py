"""What kode makes of a bundle: its parts as items that a person approves together, by the readers
that sessions use. Plug-ins find bundles and keep them: see `kode.installed.Plugin.bundles`.
"""

from pathlib import Path

from kode.contracts import Bundle
from kode.extensions import mcp_cache
from kode.extensions.agents import read_agents
from kode.extensions.brought import Thing
from kode.extensions.commands import read_commands
from kode.extensions.hooks import hooks_of_bundles
from kode.extensions.mcp_config import servers_of
from kode.extensions.places import PLUGIN_ROOT, Surroundings, parts
from kode.extensions.skills import read_skills
from kode.extensions.trust import Item, load, revoke

__all__ = ["PLUGIN_ROOT", "Item", "forget_servers", "items_of"]


def items_of(bundle: Bundle, home: Path) -> tuple[tuple[Item, ...], list[str]]:
    """Every usable part of a bundle, as it would be used, and a sentence for each other part.
    `home` is `$KODE_HOME`. Never raises."""
    problems: list[str] = []
    around = Surroundings(
        cwd=bundle.folder, repository=None, home=home, user_home=bundle.folder, bundles=(bundle,)
    )
    things: tuple[Thing, ...] = (
        *read_skills(parts(around.bundles, "skills"), problems),
        *read_commands(parts(around.bundles, "commands"), problems),
        *read_agents(parts(around.bundles, "agents"), problems),
        *hooks_of_bundles(around.bundles, around, problems),
    )
    servers = servers_of(bundle, bundle.folder, problems)
    return (*(one.item for one in things), *(one.item for one in servers)), problems


def forget_servers(bundle: Bundle, home: Path) -> None:
    """Removes the pins and caches of a bundle's servers. Raises: StorageError, BusyError."""
    entries = list(servers_of(bundle, bundle.folder, []))
    names = tuple(f"{entry.name}:" for entry in entries)
    if gone := [one for one in load(home, home).items if f"{one.name}:".startswith(names)]:
        revoke(home, home, gone)
    for entry in entries:
        mcp_cache.remove(entry, home)
