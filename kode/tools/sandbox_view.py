"""What a command in the sandbox sees of this machine, and what of it it may change: as mounts for
bubblewrap, as rules for Landlock alone. Which of the two there is, `sandbox` finds out."""

import errno
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from glob import glob
from pathlib import Path

from kode.tools import sandbox_git

SHOWN_IN_HOME = (
    ".local/bin", ".local/lib", ".local/share/uv/python", ".local/share/uv/tools",
    ".local/share/pipx", ".local/share/mise/installs", ".local/share/fnm", ".local/share/pnpm",
    ".cargo/bin", ".cargo/registry", ".rustup", ".nvm/versions", ".pyenv", ".rbenv", ".asdf",
    ".volta", ".deno/bin", ".bun/bin", ".sdkman/candidates", ".m2/repository", ".opam", ".ghcup",
    ".juliaup", ".nix-profile", "miniconda3", "anaconda3", "miniforge3", "go/bin", "go/pkg",
)  # fmt: skip
"""What tools need of a home: programs and libraries. Never keys."""

GIT_SETTINGS = (".gitconfig", ".config/git/config", ".config/git/ignore")
"""Who commits, and how; not shown where there is a key in them."""

SECRET_IN_HOME = (
    ".ssh", ".aws", ".azure", ".gnupg", ".kube", ".docker", ".password-store", ".config/gcloud",
    ".config/gh", ".mozilla", ".config/google-chrome",
)  # fmt: skip
"""Hidden even where the home itself is the folder of work."""

SECRET_IN_SYSTEM = (
    "/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/ssh/ssh_host_*_key",
    "/etc/NetworkManager/system-connections", "/run/secrets",
)  # fmt: skip
"""Keys of the machine and of its containers, which root could read."""

TEMPORARY = ("/tmp", "/var/tmp")

RUN_LATER = (
    ".envrc", ".vscode", ".idea", ".zed", ".husky", ".devcontainer", ".claude", ".cursor",
    ".mcp.json", ".pre-commit-config.yaml", ".npmrc", ".yarnrc", ".yarnrc.yml", ".exrc", ".vimrc",
    ".gdbinit", ".lldbinit", ".github/workflows", ".github/actions", ".forgejo/workflows",
    ".gitea/workflows", ".circleci", ".buildkite", ".gitlab-ci.yml", ".travis.yml", ".drone.yml",
    "azure-pipelines.yml", "bitbucket-pipelines.yml", "appveyor.yml", "Jenkinsfile",
)  # fmt: skip
"""Files of a project that other programs run unseen: read-only where they are there."""

SETTINGS = "kode.json"
"""What a project says of kode, its deny rules for one."""

MAX_BESIDE = 1000
"""Landlock can only allow, one path at a time. Of a folder with more beside what is hidden,
nothing is shown: nobody's programs lie there, and every path costs a command time."""

_HOMES = ("/home", "/root")
_HOME_SHOWN = ("/home/linuxbrew",)
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_KEY_IN_SETTINGS = re.compile(r"(?i)://[^\s/\"@]*:[^\s/\"@]+@|extraheader|token|passw")


@dataclass(frozen=True, kw_only=True)
class Ground:
    """The folders a sandbox is made for, all real paths."""

    cwd: Path
    roots: tuple[Path, ...]
    """May be changed."""
    repository: Path | None
    """May be read, and its `.git` changed but for hooks and settings."""
    homes: tuple[Path, ...]
    """Hidden, but for what tools need."""
    kode_home: Path
    """Hidden."""
    outputs: Path
    """May be read: the kept outputs of this session."""
    elsewhere: tuple[Path, ...] = ()
    """Hidden: folders of kode's own that lie outside `kode_home`."""
    readable: tuple[Path, ...] = ()
    """Files in the hidden folders of kode that may be read; the name may be a pattern."""
    own: tuple[Path, ...]
    """May be read: what the launcher is made of."""
    kept: tuple[Path, ...] = ()
    """Files that stay as they are, also where they lie in a folder of work."""
    network: bool = False

    @property
    def folders_of_work(self) -> tuple[Path, ...]:
        more = (self.repository,) if self.repository else ()
        return tuple(dict.fromkeys((*self.roots, *more)))


# ── bubblewrap ───────────────────────────────────────────────────────────────────────────────


Pin = Callable[[Path], str]
"""A real path → a name of exactly what lies there now, to mount from; "" when there is nothing, or
a link on the way."""


def bubblewrap_arguments(ground: Ground, temporary: str, *, network: bool, pin: Pin) -> list[str]:
    """The mounts and namespaces. Order matters: what comes later lies on top.

    What a command could have replaced by a link, at any moment, is mounted from where `pin` says: a
    mount would follow the link, to anywhere outside. Raises: OSError for a root that is gone.
    """
    homes = _hidden_homes(ground)
    wide = [root for root in ground.roots if any(root in home.parents for home in homes)]
    arguments = ["--ro-bind", "/", "/"]
    for root in wide:
        arguments += ["--bind", _pinned_root(root, pin), str(root)]
    arguments += ["--dev", "/dev", "--proc", "/proc", "--bind", temporary, "/tmp"]
    if os.geteuid() == 0:  # settings of the whole machine, which root could change
        arguments += ["--ro-bind-try", "/proc/sys", "/proc/sys"]
    for name in ("/var/tmp", "/run/user"):
        if sandbox_git.is_plain(Path(name)):
            arguments += ["--tmpfs", name]
    for name in _secrets_of_system(ground):
        arguments += ["--tmpfs", name] if os.path.isdir(name) else ["--ro-bind", "/dev/null", name]
    for home in homes:
        arguments += ["--tmpfs", str(home)]
    for path in _shown(ground):
        arguments += ["--ro-bind-try", str(path), str(path)]  # may be gone by now
    for root in ground.roots:
        if root not in wide:
            arguments += ["--bind", _pinned_root(root, pin), str(root)]
    fixed = list(_fixed(ground))
    for folder in _between(fixed):
        arguments += _mount("change", folder, pin)
    for hold, path in sandbox_git.held(ground.folders_of_work):
        arguments += _mount(hold, path, pin)
    for _, path in fixed:
        arguments += _mount("keep", path, pin)
    for path in _secrets_in_roots(ground):
        arguments += ["--tmpfs", str(path)]
    for folder in (ground.kode_home, *ground.elsewhere):
        arguments += ["--tmpfs", str(folder)] if folder.is_dir() else []
    outputs = [ground.outputs] if ground.outputs.is_dir() else []
    for path in (*outputs, *_readable(ground)):
        arguments += ["--ro-bind", str(path), str(path)]
    for path in _own_hidden(ground):
        arguments += ["--ro-bind", str(path), str(path)]
    arguments += ["--unshare-all", "--die-with-parent", "--cap-drop", "ALL"]
    if network:
        arguments.append("--share-net")
    return [*arguments, "--chdir", str(ground.cwd)]


def _readable(ground: Ground) -> list[Path]:
    """The files that `ground.readable` names, as far as they are there."""
    found = (path for one in ground.readable for path in sorted(one.parent.glob(one.name)))
    return [path for path in found if path.is_file() and not path.is_symlink()]


def not_readable(ground: Ground, folder: Path) -> list[Path]:
    """A folder that belongs to kode, or what lies in it where a part of it may be read."""
    if not any(path.is_relative_to(folder) for path in ground.readable):
        return [folder]
    inside = map(Path, (entry.path for entry in _entries(str(folder))))
    return [one for one in inside if not any(path.is_relative_to(one) for path in ground.readable)]


@cache
def _own_hidden(ground: Ground) -> list[Path]:
    """What of the launcher would be hidden by the mounts, or could be changed."""
    covering = {*_hidden_homes(ground), *ground.roots, ground.kode_home, *map(Path, TEMPORARY)}
    shown = {*_shown(ground), *ground.own}
    return [
        path
        for path in ground.own
        if not covering.isdisjoint(path.parents) and shown.isdisjoint(path.parents)
    ]


def _pinned_root(root: Path, pin: Pin) -> str:
    source = pin(root)
    if not source:
        raise OSError(errno.ENOENT, "is not the folder any more that it was", str(root))
    return source


def _mount(hold: sandbox_git.Hold, path: Path, pin: Pin) -> tuple[str, ...]:
    to = str(path)
    match hold:
        case "no file":
            return ("--ro-bind", "/dev/null", to)
        case "no folder":
            return ("--tmpfs", to, "--remount-ro", to)
    source = pin(path)
    if not source:
        return ()
    return ("--bind" if hold == "change" else "--ro-bind", source, to)


def changeable(ground: Ground) -> list[str]:
    """The folders that may be changed: those of work, and git's."""
    return list(map(str, dict.fromkeys((*ground.roots, *_git_folders(ground)))))


def homes_inside(ground: Ground) -> list[str]:
    """Within bubblewrap the homes are empty, and a command's own."""
    return list(map(str, _hidden_homes(ground)))


def _git_folders(ground: Ground) -> list[Path]:
    return sandbox_git.changeable(ground.folders_of_work)


@cache
def _hidden_homes(ground: Ground) -> list[Path]:
    """One's own homes, and where the others' are; the outer first."""
    others = [Path(name) for name in _HOMES if sandbox_git.is_plain(Path(name))]
    others = [home for home in others if home not in ground.roots and _entries(str(home))]
    return sorted(dict.fromkeys((*others, *ground.homes)), key=lambda home: len(home.parts))


@cache
def _shown(ground: Ground) -> tuple[Path, ...]:
    """What stays readable of hidden homes; found out once a process."""
    there = {path for path in _each_shown(ground) if path.exists()}
    outermost = (path for path in there if not there.intersection(path.parents))
    return tuple(sorted(outermost))


def _each_shown(ground: Ground) -> Iterator[Path]:
    yield from map(Path, _HOME_SHOWN)
    for home in ground.homes:
        yield from (home / name for name in SHOWN_IN_HOME)
        yield from (home / name for name in GIT_SETTINGS if not _holds_key(home / name))
    if ground.repository and ground.repository not in ground.roots:
        yield ground.repository
    for name in (os.environ.get("VIRTUAL_ENV", ""), *os.environ.get("PATH", "").split(":")):
        folder = Path(os.path.realpath(name or "/"))
        if any(home in folder.parents and _is_of_programs(folder, home) for home in ground.homes):
            yield folder


def _is_of_programs(folder: Path, home: Path) -> bool:
    return folder.is_dir() and folder.relative_to(home).parts[0] not in (
        name.split("/")[0] for name in SECRET_IN_HOME if "/" not in name
    )


def _holds_key(path: Path) -> bool:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return _KEY_IN_SETTINGS.search(file.read(1 << 20)) is not None
    except OSError:
        return False


def _fixed(ground: Ground) -> Iterator[tuple[Path, Path]]:
    """Files of the project that stay as they are, each with the folder of work it is in. Commands
    can make links, and a mount follows them: what is behind one is left alone."""
    for root in ground.roots:
        later = (root / name for name in RUN_LATER)
        yield from ((root, path) for path in later if sandbox_git.is_plain(path))
        yield from ((root, path) for path in sandbox_git.named_by_settings(root))
        yield from ((root, path) for path in kept_inside(ground) if root in path.parents)
        if (root / ".git").is_file() and sandbox_git.repository(root) is not None:
            yield root, root / ".git"


def kept_inside(ground: Ground) -> list[Path]:
    """Of the files to keep, those that lie where commands may write; and kode's settings there."""
    inside = [path for path in ground.kept if any(root in path.parents for root in ground.roots)]
    inside += [root / SETTINGS for root in ground.roots]
    return [path for path in inside if sandbox_git.is_plain(path)]


def _between(fixed: Iterable[tuple[Path, Path]]) -> list[Path]:
    """The folders that lead to paths, the outer first: one that is no mount could be renamed away
    with what is in it."""
    folders = {folder for root, path in fixed for folder in path.parents if root in folder.parents}
    return sorted(folders, key=lambda folder: len(folder.parts))


def _secrets_in_roots(ground: Ground) -> Iterator[Path]:
    for home in ground.homes:
        if any(home.is_relative_to(root) for root in ground.roots):
            paths = (home / name for name in SECRET_IN_HOME)
            yield from (path for path in paths if sandbox_git.is_plain(path) and path.is_dir())


@cache
def _secrets_of_system(ground: Ground) -> list[str]:
    found = []
    for name in (name for pattern in SECRET_IN_SYSTEM for name in glob(pattern)):
        path = Path(os.path.realpath(name))
        if os.access(path, os.R_OK) and not any(root.is_relative_to(path) for root in ground.roots):
            found.append(str(path))
    return found


# ── Landlock alone ───────────────────────────────────────────────────────────────────────────


def cannot_hide(ground: Ground) -> str:
    """What lies in the folders of work and would have to be hidden; "" when there is nothing.
    Landlock can only allow, and new files of a folder need that it is allowed as a whole."""
    hidden = (ground.kode_home, *ground.elsewhere, *ground.homes)
    inside = [path for path in hidden if any(path.is_relative_to(root) for root in ground.roots)]
    return str(inside[0]) if inside else ""


def landlock_write(ground: Ground, temporary: str) -> list[tuple[str, bool]]:
    """May be changed, each with whether it is a folder."""
    folders = (*changeable(ground), temporary, "/dev/shm")
    return [*((path, True) for path in folders), *_of_devices(("null", "zero", "full", "tty"))]


@cache
def landlock_read(ground: Ground) -> list[tuple[str, bool]]:
    """May be read and executed, each with whether it is a folder. Found out once a process: what
    is new since then is not shown."""
    hidden = {
        *map(str, (ground.kode_home, *ground.elsewhere)),
        *map(str, _hidden_homes(ground)),
        *(*TEMPORARY, "/dev", "/run/user"),
        *_secrets_of_system(ground),
    }
    shown = [*_shown(ground), ground.outputs, *_readable(ground), *ground.own]
    named = [(str(path), path.is_dir()) for path in shown]
    return [*_beside("/", hidden), *named, *_of_devices(_DEVICES)]


def _of_devices(names: Iterable[str]) -> list[tuple[str, bool]]:
    """Only these: root could read whole disks there, and anybody the terminals of their own."""
    return [(f"/dev/{name}", False) for name in names]


def _beside(folder: str, hidden: set[str]) -> list[tuple[str, bool]]:
    """Everything there is but the hidden. Links are left out, since what they lead to would be
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


def _entries(folder: str) -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []
