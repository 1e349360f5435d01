"""What plug-ins show in `kode view`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kode import installed, paths
from kode.errors import KodeError
from kode.installed import Plugin, guard_plugin

if TYPE_CHECKING:
    from kode.config.model import Config


@dataclass(frozen=True, kw_only=True)
class Place:
    """What the pages are about."""

    home: Path
    """`$KODE_HOME`."""
    cwd: Path
    """The folder whose project is "this project"."""
    config: "Config"

    @property
    def project(self) -> str:
        """By what memory knows this project."""
        return paths.path_hash(paths.project_root(self.cwd))


Shown = tuple[str, Mapping[str, object]]
"""The name of a template in the folder `templates` beside the module that lists the pages, and its
values. A value `more` that is true says that a further `page` of the list follows."""


@dataclass(frozen=True, kw_only=True)
class Page:
    """One page of `kode view`."""

    path: str
    """Its address: `/costs`, or `/fleets/{id}` with a part that is in the query too."""
    title: str = ""
    """Its name in the navigation; "" leaves it out of that."""
    show: Callable[[Place, Mapping[str, str]], Shown | None]
    """Called in a thread at each request, with the query of the address: `page` is always in it, a
    number from 1. None says that there is no such page. Raises: KodeError, which is shown."""

    @classmethod
    def of_plugins(cls, warn: Callable[[str], object]) -> "tuple[tuple[str, Page], ...]":
        """The pages of all plug-ins, each with the package that holds its templates. Never raises:
        a plug-in at fault is left out, and `warn` gets a sentence about it."""
        found: list[tuple[str, Page]] = []
        for plugin in installed.plugins():
            try:
                listed = installed.load(plugin, plugin.pages) if plugin.pages else ()
            except KodeError as error:
                warn(str(error))
                continue
            for page in listed:
                guarded = replace(page, show=guard_plugin(plugin, page.show))
                found.append((_package(plugin), guarded))
        return tuple(found)


def _package(plugin: Plugin) -> str:
    where = plugin.pages if isinstance(plugin.pages, str) else ""
    return where.partition(":")[0].rpartition(".")[0]
