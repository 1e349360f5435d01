"""Where a session works: one value for the agent, its tools, the gate and the sandbox, which
`assembly.open_workplace` builds from the settings.
"""

import errno
import os
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from kode import beneath, paths
from kode.values import Value, field


class GitFolder(Value):
    """A folder in which git keeps its records of a working tree."""

    path: str
    """Absolute, without links."""
    worktree: str
    """The working tree, absolute and without links; "" where the records belong to several."""


class Workplace(Value):
    cwd: Path
    project: Path
    """The repository root, else the working directory. Rules are relative to it."""
    roots: tuple[Path, ...]
    """Folders that file tools may work in, the working directory first."""
    home: Path
    """`$KODE_HOME`."""
    protected: tuple[Path, ...]
    """kode's own folders, `home` first: no tool writes there, a sandbox hides them."""
    readable: tuple[Path, ...] = ()
    """Files in protected folders that may be read without asking; names may be patterns."""
    outputs: Path
    """Where a tool saves the full text of a truncated output. Created by the tool, 0700."""
    plan: Path | None = None
    """The session's plan file; None: it has none."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The environment for child processes, without secrets."""
    git: tuple[GitFolder, ...] = ()
    """The git folders of the working folders and the project, which may lie elsewhere."""
    user_home: Path
    """`paths.NO_HOME` for a person without one."""
    temp: tuple[Path, ...] = ()
    """Folders for temporary files besides `/tmp`."""
    private_tmp: Callable[[], Path | None] = lambda: None
    """The folder that commands see as `/tmp`; None: the machine's. The first call may try the
    sandbox."""
    named: Callable[[], frozenset[str]] = frozenset
    """Absolute paths in the project that settings of git, hooks and editors have programs run."""


NOWHERE = Workplace(
    cwd=Path("/"),
    project=Path("/"),
    roots=(),
    home=paths.NO_HOME,
    protected=(),
    outputs=paths.NO_HOME,
    user_home=paths.NO_HOME,
)
"""For tool calls that touch no file."""


TMP = "/tmp"


def to_host(place: Workplace, path: str) -> str:
    """The path on this machine that an absolute path means in the session's commands. One in `/tmp`
    means the session's own `/tmp`, if there is one; except what exists only in the machine's, and
    folders that commands see there too."""
    if (path != TMP and not path.startswith(f"{TMP}/")) or ".." in path.split("/"):
        return path
    seen = [*map(str, (place.cwd, place.project, *place.roots, *place.protected, place.outputs))]
    if is_below_any(path, seen) or (path != TMP and any(is_below(it, path) for it in seen)):
        return path
    folder = place.private_tmp()
    if folder is None or is_below(path, str(folder)):
        return path
    in_own_tmp = os.path.normpath(f"{folder}{path[len(TMP) :]}")
    return in_own_tmp if os.path.lexists(in_own_tmp) or not os.path.lexists(path) else path


def to_command(place: Workplace, path: str) -> str:
    """The path under which commands know a path of this machine; reverses `to_host`."""
    if is_below_any(path, map(str, (place.cwd, *place.roots))):
        return path  # the usual case needs no sandbox
    folder = place.private_tmp()
    return f"{TMP}{path[len(str(folder)) :]}" if folder and is_below(path, str(folder)) else path


def real_path(place: Workplace, path: str) -> str:
    """The real absolute path that a tool's argument means: `~` expanded, relative to the working
    directory, every link resolved as far as the path exists. Raises: OSError, ValueError."""
    if path.partition("/")[0] == "~" and place.user_home == paths.NO_HOME:
        raise FileNotFoundError(errno.ENOENT, "this user has no home folder", path)
    return beneath.real_path(to_host(place, str(place.cwd / paths.expand_path(path))))


def is_below(path: str, folder: str) -> bool:
    """Whether a path is a folder or inside it, comparing text only."""
    return f"{path}/".startswith(folder.rstrip("/") + "/")


def is_below_any(path: str, folders: Iterable[str]) -> bool:
    """Whether a path is one of these folders or inside one."""
    return f"{path}/".startswith(_beginnings(tuple(folders)))


@lru_cache(maxsize=256)
def _beginnings(folders: tuple[str, ...]) -> tuple[str, ...]:
    return tuple([folder.rstrip("/") + "/" for folder in folders])
