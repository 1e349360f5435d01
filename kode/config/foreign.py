"""Settings files of other agents: found here, understood by plug-ins (`foreign_settings`).

Their denials and questions count as if the person's own config had them: they only make it
stricter. What they allow, and their variables, waits for a yes; see `kode.extensions.foreign`.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from kode import installed, paths
from kode.contracts import ForeignSettings
from kode.errors import ConfigError, KodeError
from kode.paths import real_path

MAX_BYTES = 256 * 1024  # as other files for agents


@dataclass(frozen=True, kw_only=True)
class Foreign:
    """One such file."""

    path: Path
    scope: Literal["project", "home"]
    settings: ForeignSettings = field(default_factory=ForeignSettings)
    fault: str = ""
    """Why nothing of it counts; "" if it can be read."""
    named: bool = False
    """Whether the person named it: `--settings`."""


def find_foreign(cwd: Path) -> tuple[Foreign, ...]:
    """The files for this working directory: the project's, the nearest first, then those of the
    person's home. Never raises."""
    files = installed.added("foreign_settings")
    found = []
    for folder, scope in _folders(cwd):
        for name, (plugin, where) in files.items():
            path = folder / name
            if not os.path.isfile(path):
                continue
            try:
                settings = installed.load(plugin, where)(_text(path, folder))
            except (KodeError, OSError, ValueError, RecursionError) as error:
                found.append(Foreign(path=path, scope=scope, fault=str(error)))
            else:
                found.append(Foreign(path=path, scope=scope, settings=settings))
    return tuple(found)


def given(text: str, cwd: Path) -> Foreign:
    """What `--settings` names, a file or JSON, as its plug-in reads a file of that ending. What it
    allows does not count. Raises: ConfigError."""
    is_json = text.lstrip().startswith("{")
    path = Path("--settings") if is_json else Path(real_path(cwd / paths.expand(text)))
    ending = ".toml" if path.suffix == ".toml" else ".json"
    readers = installed.added("foreign_settings")
    reader = next((one for name, one in readers.items() if name.endswith(ending)), None)
    if reader is None:
        raise ConfigError("--settings: no plug-in reads such a file. See `kode plugin list`.")
    try:
        said = installed.load(*reader)(text if is_json else _text(path, path.parent))
    except (ConfigError, OSError, ValueError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(
            f"--settings {'JSON' if is_json else path}: {why}. Give a file, or JSON in quotes."
        ) from error
    left = {f"permissions.allow: {rule}": "give it with --allow" for rule in said.allow}
    left |= dict.fromkeys(said.elsewhere, "put it into `.claude/settings.json`")
    said = replace(said, allow=(), unused={**said.unused, **left})
    return Foreign(path=path, scope="home", settings=said, named=True)


def _folders(cwd: Path) -> Iterator[tuple[Path, Literal["project", "home"]]]:
    home = Path(real_path(paths.user_home() or paths.NO_HOME))
    top = paths.project_root(cwd)
    here = Path(real_path(cwd))
    for folder in (here, *here.parents):
        if folder != home and (folder == top or top in folder.parents):
            yield folder, "project"
    yield home, "home"


def _text(path: Path, folder: Path) -> str:
    """Raises: ConfigError, OSError."""
    if not Path(real_path(path)).is_relative_to(real_path(folder)):
        raise ConfigError(f"it links out of {folder}: replace the link with a copy")
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ConfigError(f"it is larger than {MAX_BYTES // 1024} KB")
    return data.decode("utf-8-sig", "replace")
