"""The parts of a bundle as a person approves them: all at once, with the bundle."""

from functools import partial
from pathlib import Path

from kode.contracts import Bundle
from kode.extensions import mcp_cache, trust
from kode.extensions.agents import read_agent
from kode.extensions.commands import read_command
from kode.extensions.found_extensions import Extension
from kode.extensions.hooks import hooks_of_bundles
from kode.extensions.mcp_config import Entry, servers_of
from kode.extensions.places import Surroundings, parts, read_each
from kode.extensions.skills import read_skill
from kode.extensions.trust import Item


def items_in_bundle(bundle: Bundle, home: Path) -> tuple[tuple[Item, ...], list[str]]:
    """Every usable part of a bundle, and a sentence for each other one. Never raises."""
    problems: list[str] = []
    bundles, folder = (bundle,), bundle.folder
    around = Surroundings(cwd=folder, repository=None, home=home, user_home=folder, bundles=bundles)
    extensions: tuple[Extension | Entry, ...] = (
        *read_each("skills", parts(bundles, "skills"), read_skill, problems),
        *read_each("commands", parts(bundles, "commands"), read_command, problems),
        *read_each("agents", parts(bundles, "agents"), partial(read_agent, problems), problems),
        *hooks_of_bundles(bundles, around, problems),
        *servers_of(bundle, folder, problems),
    )
    return tuple(extension.item for extension in extensions), problems


def forget_servers(bundle: Bundle, home: Path) -> None:
    """Removes the pins and caches of a bundle's servers. Raises: StorageError, BusyError."""
    entries = [*servers_of(bundle, bundle.folder, [])]
    names = tuple(f"{entry.name}:" for entry in entries)
    gone = [pin for pin in trust.load(home, home).items if f"{pin.name}:".startswith(names)]
    if gone:
        trust.revoke(home, home, gone)
    for entry in entries:
        mcp_cache.remove(entry, home)
