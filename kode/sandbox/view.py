"""What a sandboxed command may reach: one description, `Reach`, and how it becomes mounts for
bubblewrap and rules for Landlock alone; `seatbelt` makes a profile of it. `sandbox` finds out which
of them is available.

Only a private temporary folder and an empty home are writable; the working folders are writable
under a `layer` and read-only otherwise.
"""

import contextlib
import os
import pwd
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from glob import glob
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from kode import paths
from kode.paths import real_path
from kode.permissions import places
from kode.sandbox.layer import STAGE
from kode.workplace import GitFolder, Workplace

SHOWN_IN_HOME = (
    ".local/bin", ".local/lib", ".local/share/uv/python", ".local/share/uv/tools",
    ".local/share/pipx", ".local/share/mise/installs", ".local/share/fnm", ".local/share/pnpm",
    ".cargo/bin", ".cargo/registry", ".cargo/git", ".rustup", ".nvm/versions", ".pyenv", ".rbenv",
    ".asdf", ".volta", ".deno/bin", ".bun/bin", ".sdkman/candidates", ".m2/repository", ".opam",
    ".ghcup", ".juliaup", ".nix-profile", "miniconda3", "anaconda3", "miniforge3", "go/bin",
    "go/pkg", ".local/go", "sdk", "Library/Python", "Library/pnpm",
)  # fmt: skip
"""Tool chains in a home that commands need: programs and libraries. Never keys."""

GIT_SETTINGS = (".gitconfig", ".config/git/config", ".config/git/ignore")
"""Git's settings for commits; not shown if they contain a key."""


MAX_BESIDE = 1000
"""Landlock can only allow, one path at a time. Of a folder with more entries beside hidden ones,
nothing is shown: every path takes time for each command."""

RUN_BY_GIT = ("hooks", "config", "config.worktree", "commondir")
"""What makes git run programs, outside of any sandbox."""
_HOMES = ("/home", "/root", "/Users", "/private/var/root")
_HOME_SHOWN = ("/home/linuxbrew",)
_TEMPORARY = (*places.TEMPORARY, "/private/tmp", "/private/var/tmp", "/private/var/folders")
"""With their real paths on macOS, and where it keeps those of each user."""
_PRIVATE = ("/dev", *_TEMPORARY)
"""Of each command its own, wherever that can be made."""
DEVICES = [(f"/dev/{name}", False) for name in ("null", "zero", "full", "tty", "random", "urandom")]
"""Of Landlock alone, only these: root could read whole disks there, and anybody their own
terminals. The first four are writable."""
_KEY_IN_SETTINGS = re.compile(r"(?i)://[^\s/\"@]*:[^\s/\"@]+@|extraheader|token|passw")


@dataclass(frozen=True, kw_only=True)
class Ground:
    """The folders a sandbox is made for, all real paths."""

    cwd: Path
    folders: tuple[Path, ...]
    """The working folders, the repository around them and git's folders of it, none inside
    another."""
    git: tuple[GitFolder, ...] = ()
    """All of git's folders, also those inside."""
    homes: tuple[Path, ...]
    """Hidden, except for what tools need."""
    kode_home: Path
    """Hidden."""
    outputs: Path
    """Readable: saved outputs of this session."""
    elsewhere: tuple[Path, ...] = ()
    """Hidden: kode's own folders outside `kode_home`."""
    readable: tuple[Path, ...] = ()
    """Readable files and folders in kode's hidden folders; names may be patterns."""
    own: tuple[Path, ...]
    """Readable: the launcher's files."""
    network: bool = False
    writable: bool = False
    """Whether the working folders are writable for real, except for what git runs."""
    shown: tuple[Path, ...] = ()
    """Readable in hidden homes and temporary folders, besides what tools need."""
    cache: Path | None = None
    """Writable for real and kept, wherever it lies."""
    granted: tuple[Path, ...] = ()
    """Folders elsewhere that are writable for real."""
    home_counts: bool = False
    """Whether to report what it writes in the empty homes, which is lost."""

    @property
    def trees(self) -> tuple[Path, ...]:
        """The working folders without git's."""
        git = {Path(folder.path) for folder in self.git}
        return tuple(folder for folder in self.folders if folder not in git)


def make_ground(
    place: Workplace,
    *,
    network: bool,
    writable: bool = False,
    shown: Iterable[Path] = (),
    cache: Path | None = None,
) -> Ground:
    """What commands work on in this place, for a sandbox."""
    homes = [paths.user_home() or paths.NO_HOME]
    with contextlib.suppress(KeyError):  # a user without an entry, as in containers
        homes.append(Path(pwd.getpwuid(os.getuid()).pw_dir))
    # What a program writes for real is never git's, unless it lies in the project.
    git = () if writable else (Path(folder.path) for folder in place.git)
    folders = dict.fromkeys(map(_real, (place.project, place.cwd, *place.roots, *git)))
    return Ground(
        cwd=_real(place.cwd),
        folders=tuple(f for f in folders if not any(other in f.parents for other in folders)),
        git=place.git,
        homes=tuple(
            home for home in dict.fromkeys(map(_real, homes)) if home != Path("/") and home.is_dir()
        ),
        kode_home=_real(place.home),
        outputs=_real(place.outputs),
        elsewhere=tuple(_real(folder) for folder in place.protected if folder != place.home),
        readable=tuple(_real(path.parent) / path.name for path in place.readable),
        own=tuple(dict.fromkeys(map(_real, (Path(sys.base_prefix), Path(sys.executable))))),
        network=network,
        writable=writable,
        shown=tuple(map(_real, shown)),
        cache=cache and _real(cache),
    )


def _real(path: Path) -> Path:
    return Path(real_path(path))


Access = Literal["readable", "writable", "empty", "hidden"]
"""`empty`: hidden, and replaced by an empty folder of the command's own where that can be made."""
Network = Literal["none", "loopback", "all"]
"""`loopback`: one that nothing of the machine listens on."""


@dataclass(frozen=True, kw_only=True)
class Place:
    path: Path
    access: Access


@dataclass(frozen=True, kw_only=True)
class Reach:
    """What a command may reach: the one description that each kind of sandbox enforces."""

    places: tuple[Place, ...]
    """The last one that a path lies in decides about it. Real paths, which may not exist."""
    temporary: str
    """The private folder for temporary files: writable, whatever `places` say."""
    network: Network


def reach(
    ground: Ground, temporary: str, *, masked: Iterable[Path] = (), network: Network
) -> Reach:
    """`masked` are the files and folders with keys."""
    homes = _hidden_homes(ground)
    wide = [f for f in ground.folders if any(f in home.parents for home in homes)]
    narrow = [f for f in ground.folders if f not in wide]
    work: Access = "writable" if ground.writable else "readable"
    # A `.git` that is no repository yet becomes one with a few more files.
    records = {f / ".git" for f in ground.folders if not (f / ".git").is_file()}
    records |= {Path(git.path) for git in ground.git}
    fixed = [folder / name for folder in sorted(records) for name in RUN_BY_GIT]
    outputs = [ground.outputs] if ground.outputs.is_dir() else []
    listed: tuple[tuple[Access, Iterable[Path]], ...] = (
        ("readable", [Path("/")]),
        (work, wide),
        ("empty", map(Path, _PRIVATE)),
        ("hidden", map(Path, ("/run/user", *_secrets_of_system(ground)))),
        ("empty", homes),
        ("readable", _visible_paths(ground)),
        (work, narrow),
        ("readable", fixed if ground.writable else ()),
        ("writable", ground.granted),
        ("hidden", masked),
        ("hidden", _secrets_in_folders(ground)),
        ("hidden", (ground.kode_home, *ground.elsewhere)),
        ("readable", (*outputs, *_readable(ground), *_own_hidden(ground))),
        ("writable", _cache(ground)),
    )
    return Reach(
        places=tuple(Place(path=path, access=access) for access, all in listed for path in all),
        temporary=temporary,
        network=network,
    )


def writable(reach: Reach, layered: Iterable[Path] = (), *, alone: bool) -> list[str]:
    """The folders that a command may write to, for real or not; `alone`: with Landlock alone, which
    makes no empty folders."""
    accesses = ("writable",) if alone else ("writable", "empty")
    paths = (str(place.path) for place in reach.places if place.access in accesses)
    return [*([reach.temporary] if alone else map(str, layered)), *paths]


def fixed(reach: Reach, layered: Sequence[Path], *, homes: bool) -> list[str]:
    """Paths in or around these folders that it may still not change; `homes`: also the empty homes,
    where what it writes is lost."""

    def is_fixed(place: Place) -> bool:
        if place.access == "empty":
            return homes and str(place.path) not in _PRIVATE
        return place.access != "writable" and place.path not in layered

    return [str(place.path) for place in reach.places if is_fixed(place)]


# ── bubblewrap ───────────────────────────────────────────────────────────────────────────────


def bubblewrap_arguments(
    ground: Ground,
    reach: Reach,
    *,
    masks: Mapping[Path, str] = MappingProxyType({}),
    store: str = "",
    lowers: Sequence[tuple[Path, str]] = (),
) -> list[str]:
    """The mounts and namespaces. Order matters: what comes later lies on top.

    `masks` has the empty file to show in the place of a hidden one. `store` holds layers for the
    working folders, "" for none; with it the launcher puts layers and masks over these mounts, and
    each of `lowers` says where it finds a folder.
    """
    words = [*_mounts(reach, masks)]
    for place in reach.places:  # read-only once everything inside them is mounted
        if place.access == "hidden" and _is_plain_folder(place.path):
            words += ("--remount-ro", str(place.path))
    if store:  # what the launcher makes layers of
        words += ("--bind", store, STAGE)
        words += (word for folder, lower in lowers for word in ("--ro-bind", str(folder), lower))
    # No cgroup namespace: Java fails if the names in /proc and in /sys differ.
    words += ("--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts")
    words += ["--unshare-net"] if reach.network == "none" else []
    # The launcher mounts the layers as the root of a namespace, then gives up all powers.
    powers = ("--uid", "0", "--gid", "0", "--cap-add", "ALL") if store else ("--cap-drop", "ALL")
    # The first process stays where it starts, which must not be below a layer and its masks.
    return [*words, "--die-with-parent", *powers, "--chdir", "/" if store else str(ground.cwd)]


def _mounts(reach: Reach, masks: Mapping[Path, str]) -> Iterator[str]:
    """What is seen at each place."""
    for place in reach.places:
        if str(place.path) == "/dev":
            yield from ("--dev", "/dev", "--proc", "/proc")
            if os.geteuid() == 0:  # system-wide settings that root could change
                yield from ("--ro-bind-try", "/proc/sys", "/proc/sys")
        elif str(place.path) == "/tmp":
            yield from ("--bind", reach.temporary, "/tmp")
        else:
            yield from _mount(place, masks)


def _mount(place: Place, masks: Mapping[Path, str]) -> list[str]:
    path = str(place.path)
    if place.access == "writable":
        return ["--bind", path, path]
    if place.access == "readable":
        return ["--ro-bind-try", path, path]  # may be gone by now
    if _is_plain_folder(place.path):
        return ["--tmpfs", path]
    if place.path in masks:
        return ["--ro-bind-try", masks[place.path], path]
    return ["--ro-bind", "/dev/null", path] if place.path.is_file() else []


def _cache(ground: Ground) -> tuple[Path, ...]:
    return () if ground.cache is None else (ground.cache,)


def _readable(ground: Ground) -> list[Path]:
    """What exists of `ground.readable`."""
    named = (path for name in ground.readable for path in sorted(name.parent.glob(name.name)))
    return [path for path in named if not path.is_symlink()]


@cache
def _own_hidden(ground: Ground) -> list[Path]:
    """Files of the launcher that the mounts would hide, or leave writable."""
    kode = (ground.kode_home, *ground.elsewhere)
    covering = {*_hidden_homes(ground), *ground.folders, *kode, *map(Path, _TEMPORARY)}
    shown = {*_visible_paths(ground), *ground.own}
    return [
        path
        for path in ground.own
        if not covering.isdisjoint(path.parents) and shown.isdisjoint(path.parents)
    ]


def find_private_inside(ground: Ground) -> str:
    """A home or kode's own folder inside a working folder; "" if there is none."""
    hidden = (ground.kode_home, *ground.elsewhere, *ground.homes)
    inside = [path for path in hidden if any(path.is_relative_to(f) for f in ground.folders)]
    return str(inside[0]) if inside else ""


def is_hidden(ground: Ground, path: Path, *, by_temporary: bool = False) -> bool:
    """Whether a real path is invisible to commands; with `by_temporary` also because they have a
    temporary folder of their own."""
    places = reach(ground, "", network="none").places
    place = next(place for place in reversed(places) if path.is_relative_to(place.path))
    if str(place.path) in _PRIVATE:
        return by_temporary and str(place.path) != "/dev"
    return place.access in ("empty", "hidden")


@cache
def _hidden_homes(ground: Ground) -> list[Path]:
    """The user's own homes, and the parent of others'; the outer first."""
    others = [Path(name) for name in _HOMES if is_plain(Path(name))]
    others = [home for home in others if home not in ground.folders and _entries(str(home))]
    return sorted(dict.fromkeys((*others, *ground.homes)), key=lambda home: len(home.parts))


def _visible_paths(ground: Ground) -> tuple[Path, ...]:
    """What stays readable of hidden homes. Git's settings are looked at for each command: a key may
    have come into them meanwhile."""
    there = _shown_for_good(ground) | _git_settings(ground, keyed=False)
    outermost = (path for path in there if not there.intersection(path.parents))
    return tuple(sorted(outermost))


@cache
def _shown_for_good(ground: Ground) -> frozenset[Path]:
    """The rest of it; computed once per process."""
    return frozenset(path for path in _each_shown(ground) if path.exists())


def _each_shown(ground: Ground) -> Iterator[Path]:
    yield from (*map(Path, _HOME_SHOWN), *ground.shown)
    for home in ground.homes:
        yield from (home / name for name in SHOWN_IN_HOME)
    for name in (os.environ.get("VIRTUAL_ENV", ""), *os.environ.get("PATH", "").split(":")):
        folder = Path(real_path(name or "/"))
        if any(home.is_relative_to(folder) for home in ground.homes):
            continue  # one home may lie in another, and be on the PATH
        if any(home in folder.parents and _is_of_programs(folder, home) for home in ground.homes):
            yield folder


def _git_settings(ground: Ground, *, keyed: bool) -> set[Path]:
    """Those that hold a key, or those that hold none."""
    settings = (home / name for home in ground.homes for name in GIT_SETTINGS)
    return {path for path in settings if path.exists() and _holds_key(path) is keyed}


def _is_of_programs(folder: Path, home: Path) -> bool:
    return folder.is_dir() and folder.relative_to(home).parts[0] not in (
        name for name in places.names("key_folders") if "/" not in name
    )


def _holds_key(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return _KEY_IN_SETTINGS.search(path.read_text("utf-8", "replace")) is not None
    return False


def _secrets_in_folders(ground: Ground) -> Iterator[Path]:
    open_to = (*ground.folders, *ground.shown)
    for path in (home / name for home in ground.homes for name in places.names("key_folders")):
        if any(path.is_relative_to(folder) for folder in open_to):
            yield from (path,) if is_plain(path) and path.is_dir() else ()


@cache
def _secrets_of_system(ground: Ground) -> list[str]:
    found = []
    for name in (name for pattern in places.names("keys_of_the_machine") for name in glob(pattern)):
        path = Path(real_path(name))
        if os.access(path, os.R_OK) and not any(f.is_relative_to(path) for f in ground.folders):
            found.append(str(path))
    return list(dict.fromkeys(found))


# ── Landlock alone ───────────────────────────────────────────────────────────────────────────


def landlock_read(ground: Ground, masked: Iterable[Path]) -> list[tuple[str, bool]]:
    """Readable and executable paths, each with whether it is a folder: of the working folders, all
    except what is masked."""
    hidden = {str(path) for path in masked}
    work: list[tuple[str, bool]] = []
    for folder in map(str, ground.folders):
        inside = {path for path in hidden if path.startswith(f"{folder}/")}
        work += _beside(folder, inside) if inside else [(folder, True)]
    keyed = {str(path) for path in _git_settings(ground, keyed=True)}
    return [*(one for one in _readable_outside(ground) if one[0] not in keyed), *work]


def landlock_listed(ground: Ground, masked: Iterable[Path]) -> list[str]:
    """Folders whose names are readable though not all of their files: those above masked and
    readable files."""
    above = {parent for path in masked for parent in path.parents}
    within = {p for p in above if any(p.is_relative_to(f) for f in ground.folders)}
    return [str(p) for p in (*within, *(path.parent for path in ground.readable)) if p.is_dir()]


@cache
def _readable_outside(ground: Ground) -> list[tuple[str, bool]]:
    """Computed once per process: newer entries are not shown."""
    around = [
        place
        for place in reach(ground, "", network="none").places
        if place.path != Path("/") and place.path not in ground.folders
    ]
    hidden = {str(place.path) for place in around if place.access in ("empty", "hidden")}
    open_to = ("readable", "writable")
    shown = (*(place.path for place in around if place.access in open_to), *ground.own)
    named = [(str(path), path.is_dir()) for path in shown]
    return [*_beside("/", hidden | set(map(str, ground.folders))), *named, *DEVICES]


def _beside(folder: str, hidden: set[str]) -> list[tuple[str, bool]]:
    """Everything except the hidden entries. Links are left out, because their targets would be
    allowed with them."""
    above = {str(parent) for path in hidden for parent in Path(path).parents}
    found: list[tuple[str, bool]] = []
    for entry in _entries(folder):
        if entry.is_symlink() or entry.path in hidden:
            continue
        if entry.path in above:
            found += _beside(entry.path, hidden)
        else:
            found.append((entry.path, entry.is_dir(follow_symlinks=False)))
    if len(found) > MAX_BESIDE:
        return []
    return found


def _is_plain_folder(path: Path) -> bool:
    return path.is_dir() and is_plain(path)


def is_plain(path: Path) -> bool:
    """Whether it exists without a link on the way: a mount follows links."""
    return os.path.lexists(path) and real_path(path) == str(path)


def _entries(folder: str) -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []
