"""The parts of a bundle as a person approves them: all at once, with the bundle."""

from functools import partial
from pathlib import Path

from kode.contracts import Bundle
from kode.extensions import mcp_cache, trust
from kode.extensions.agents import read_agent
from kode.extensions.commands import read_command
from kode.extensions.found_extensions import Extension
from kode.extensions.hooks import hooks_of_bundles
from kode.extensions.mcp_config import Entry, entries_in
from kode.extensions.places import Surroundings, parts, read_each
from kode.extensions.skills import read_skill
from kode.extensions.trust import Item


class BundleItems:
    """The parts of one bundle."""

    def __init__(self, bundle: Bundle, home: Path) -> None:
        """Reads them. Never raises."""
        self._home = home
        self.problems: list[str] = []
        """A sentence for each part that cannot be used."""
        bundles, folder = (bundle,), bundle.folder
        around = Surroundings(
            cwd=folder, repository=None, home=home, user_home=folder, bundles=bundles
        )
        agent = partial(read_agent, self.problems)
        self._servers = [*entries_in(bundle.servers, folder, "bundle", folder, self.problems)]
        extensions: tuple[Extension | Entry, ...] = (
            *read_each("skills", parts(bundles, "skills"), read_skill, self.problems),
            *read_each("commands", parts(bundles, "commands"), read_command, self.problems),
            *read_each("agents", parts(bundles, "agents"), agent, self.problems),
            *hooks_of_bundles(bundles, around, self.problems),
            *self._servers,
        )
        self.items: tuple[Item, ...] = tuple(extension.item for extension in extensions)

    def forget_servers(self) -> None:
        """Removes the pins and caches of its servers. Raises: StorageError, BusyError."""
        names = tuple(f"{entry.name}:" for entry in self._servers)
        pins = trust.load(self._home, self._home).items
        if gone := [pin for pin in pins if f"{pin.name}:".startswith(names)]:
            trust.revoke(self._home, self._home, gone)
        for entry in self._servers:
            mcp_cache.remove(entry, self._home)
