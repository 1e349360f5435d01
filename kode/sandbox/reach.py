"""What a command in the sandbox may reach: one value, `Reach`, that each kind of sandbox enforces.

Nothing is shown but what is listed: the system, the folders of work, tool chains, siblings that a
manifest of the project names, and what the person adds. `to_bubblewrap`, `to_landlock` and, for
macOS, `to_seatbelt` compile it.
"""

import contextlib
import os
import pwd
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from glob import glob
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

from kode import paths
from kode.permissions.places import TEMPORARY, names
from kode.values import Value, replace
from kode.workplace import Workplace, is_below, is_below_any

SYSTEM = (
    "/usr /bin /sbin /lib /lib32 /lib64 /libx32 /etc /opt /nix /gnu /snap /sys /run/current-system "
    "/run/wrappers /run/systemd/resolve /run/resolvconf /run/NetworkManager /var/lib/dpkg "
    "/var/lib/apt /var/lib/rpm /var/lib/pacman /var/lib/texmf /var/lib/ghc /var/cache/fontconfig "
    "/System /Library /Applications /private/etc /private/var/db /private/var/select /var/select "
    "/home/linuxbrew"
).split()
"""What every machine has: programs, libraries, settings and the databases of packages."""

SHOWN_IN_HOME = (
    ".local/bin", ".local/lib", ".local/share/uv/python", ".local/share/uv/tools",
    ".local/share/pipx", ".local/share/mise/installs", ".local/share/fnm", ".local/share/pnpm",
    ".cargo/bin", ".cargo/registry", ".cargo/git", ".rustup", ".nvm/versions", ".pyenv", ".rbenv",
    ".asdf", ".volta", ".deno/bin", ".bun/bin", ".sdkman/candidates", ".m2/repository", ".opam",
    ".ghcup", ".juliaup", ".nix-profile", "miniconda3", "anaconda3", "miniforge3", "go/bin",
    "go/pkg", ".local/go", "sdk", "Library/Python", "Library/pnpm",
)  # fmt: skip
"""Tool chains in a home that commands need: programs and libraries. Never keys."""

_TOOL_CHAINS = "VIRTUAL_ENV CONDA_PREFIX JAVA_HOME GOROOT RUSTUP_HOME NVM_DIR PYENV_ROOT".split()
_MARKS_OF_PREFIX = ("pyvenv.cfg", "conda-meta", "VERSION", "release")
"""Names beside a folder of programs that mark the folder above it as one tool chain."""
_MANIFESTS = (
    "package.json pnpm-workspace.yaml Cargo.toml pyproject.toml requirements.txt go.mod go.work "
    "composer.json Gemfile pubspec.yaml Package.swift"
).split()
_ELSEWHERE = re.compile(r"(?<![\w./])(?:\.\./)+[\w@.+-][\w@.+/-]*")
"""A path of a manifest that leads out of its folder."""
_GIT_SETTINGS = (".gitconfig", ".config/git/config", ".config/git/ignore")
"""Git's settings for commits; not shown if they contain a key."""
_HOLDS_KEY = re.compile(r"(?i)://[^\s/\"@]*:[^\s/\"@]+@|extraheader|token|passw")
RUN_BY_GIT = ("hooks", "config", "config.worktree", "commondir")
"""Files in a git folder that make git run programs, outside of any sandbox."""
MAX_BESIDE = 1000
"""Landlock can only allow, one path at a time. If a folder has more entries beside hidden ones,
none is shown: each path costs time for every command."""
STAGE = "/dev/.kode"
"""Where the store of layers is, in the command's namespace, until the layers are mounted."""
_PRIVATE = ("/dev", *TEMPORARY, "/private/tmp", "/private/var/tmp", "/private/var/folders")
_DEVICE_NAMES = ("null", "zero", "full", "tty", "random", "urandom")
"""The devices under Landlock alone: in all of /dev, root could read whole disks, and anybody their
own terminals. The first four are writable."""
SEATBELT = "/usr/bin/sandbox-exec"
SYSTEM_PATH = (
    "/usr/bin:/bin:/usr/local/bin:/usr/sbin:/sbin:/run/current-system/sw/bin:/run/wrappers/bin"
)
"""Where programs are searched: a project's folder on PATH must not supply them."""

Kind = Literal["layered", "plain", "landlock", "seatbelt", "none"]
"""`layered` and `plain` are bubblewrap, with a copy of the working folders or without."""
KINDS: Mapping[str, tuple[Kind, ...]] = {
    "linux": ("layered", "plain", "landlock"),
    "darwin": ("seatbelt",),
}
"""Operating system → its kinds of sandbox, the best first."""
BUBBLEWRAP = ("layered", "plain")
Access = Literal["readable", "writable", "empty", "private", "hidden"]
"""`empty` and `private` are hidden and, if possible, replaced: `empty` by a folder whose content is
lost, `private` by the sandbox's own devices, processes or temporary files."""
Network = Literal["none", "loopback", "all"]
"""`loopback`: one on which no program outside the sandbox listens."""


class Opens(Value):
    """Absolute paths that a command opened or tried to open, in the order of their first use."""

    project: tuple[str, ...]
    """Files and folders of the project, programs among them."""
    scripts: tuple[str, ...]
    """Those of them that it executed, or gave to an interpreter as its program."""
    elsewhere: tuple[str, ...]


class Grants(Value):
    """What a person lets a program do that commands in the sandbox may not."""

    network: bool = False
    project: bool = False
    """Whether the program changes the real project, except what git runs."""
    read: tuple[Path, ...] = ()  # files and folders that it may read
    cache: Path | None = None  # a folder that it may change for real, wherever it lies


class Interest(NamedTuple):
    """What to record about a command while it runs."""

    marked: Mapping[str, str] = MappingProxyType({})
    """The real path of a file that holds outside text → its source."""
    records_opens: bool = False
    """Whether to record what the command opens. It then sees the project as it is on disk, without
    unapplied files of earlier commands. Costs about 0.05 ms for each file."""
    counts_home: bool = False
    """Whether a write in the empty home, which is lost, counts as blocked."""


class VisiblePlace(NamedTuple):
    path: Path
    access: Access


class Reach(Value):
    """What a command may reach: the one description that each kind of sandbox enforces."""

    places: tuple[VisiblePlace, ...]
    """Real paths, which need not exist. Of those that a path lies in, the last one decides."""
    temporary: str
    """The private folder for temporary files, which bubblewrap shows as `/tmp`."""
    network: Network
    listed: tuple[Path, ...] = ()  # folders whose names may be read, not all of their files

    def hide(self, hidden: Iterable[Path]) -> "Reach":
        """Returns this reach with some files and folders hidden."""
        return replace(
            self, places=(*self.places, *(VisiblePlace(path, "hidden") for path in hidden))
        )

    def of(self, *accesses: Access) -> list[Path]:
        return [place.path for place in self.places if place.access in accesses]


def access(reach: Reach, path: str) -> Access:
    """What access a command has to a real absolute path."""
    around = (place.access for place in reversed(reach.places) if is_below(path, str(place.path)))
    return next(around, "hidden")


def is_visible(reach: Reach, path: str) -> bool:
    """Whether a command can read a real absolute path."""
    return access(reach, path) in ("readable", "writable")


def find_program(name: str) -> str | None:
    """The path of a program of the system; None if there is none."""
    return shutil.which(name, path=SYSTEM_PATH)


def resolve_workplace(place: Workplace) -> Workplace:
    """Returns the workplace with real paths, except in `git`, `temp`, `user_home` and `plan`."""
    return replace(
        place,
        cwd=_real_path(place.cwd),
        project=_real_path(place.project),
        roots=tuple(map(_real_path, place.roots)),
        home=_real_path(place.home),
        protected=tuple(map(_real_path, (place.home, *place.protected))),
        readable=tuple(_real_path(path.parent) / path.name for path in place.readable),
        outputs=_real_path(place.outputs),
    )


def work_folders(place: Workplace, *, with_git: bool) -> tuple[Path, ...]:
    """The working folders, the repository around them and their git folders, none inside
    another."""
    git = (Path(folder.path) for folder in place.git) if with_git else ()
    folders = dict.fromkeys((place.project, place.cwd, *place.roots, *git))
    return tuple(f for f in folders if not any(other in f.parents for other in folders))


def user_homes() -> tuple[Path, ...]:
    """The user's existing homes: the one of the environment, and the one of the system."""
    homes = {_real_path(paths.user_home() or paths.NO_HOME): None}
    with contextlib.suppress(KeyError):  # a user without an entry, as in containers
        homes[_real_path(Path(pwd.getpwuid(os.getuid()).pw_dir))] = None
    return tuple(home for home in homes if home != Path("/") and home.is_dir())


def find_tool_chains() -> tuple[Path, ...]:
    """Folders with programs and libraries that lie in a home or elsewhere: the well-known ones, and
    those that PATH and the variables of tool chains name."""
    homes = user_homes()
    shown = [_real_path(home / name) for home in homes for name in SHOWN_IN_HOME]
    shown += [_real_path(Path(os.environ.get(name) or "/")) for name in _TOOL_CHAINS]
    for folder in map(_real_path, map(Path, filter(os.path.isabs, os.get_exec_path()))):
        prefix = folder.parent
        is_prefix = any(os.path.exists(prefix / mark) for mark in _MARKS_OF_PREFIX)
        shown.append(prefix if is_prefix and not os.path.exists(prefix / ".git") else folder)
        if folder.name == "bin" and prefix not in homes:
            shown += map(_real_path, (prefix / "lib", prefix / "libexec"))
        python = _real_path(folder / "python3")  # of a virtual environment: a link to the real one
        if python.name.startswith("python") and os.path.isfile(python):
            shown += (python.parent, _real_path(python.parent.parent / "lib"))
    existing = {path for path in shown if os.path.exists(path) and _is_for_all(path, homes)}
    outermost = (path for path in existing if existing.isdisjoint(path.parents))
    return tuple(sorted(path for path in outermost if not is_below_any(str(path), SYSTEM)))


def find_siblings(place: Workplace, work: Sequence[Path]) -> tuple[Path, ...]:
    """The folders outside the working folders that the project's manifests name, or that theirs
    name in turn. A folder without a manifest does not count."""
    homes, folders = user_homes(), [place.project, place.cwd]
    for folder in folders:  # the loop adds to it
        texts = (read_regular(folder / name) for name in _MANIFESTS)
        words = (word for text in texts for word in _ELSEWHERE.findall(text))
        for target in (_real_path(folder / word) for word in words):
            is_package = any((target / manifest).is_file() for manifest in _MANIFESTS)
            if is_package and target not in folders and _is_for_all(target, homes):
                folders.append(target)
    return tuple(it for it in folders if not any(map(it.is_relative_to, work)))


def _is_for_all(path: Path, homes: Sequence[Path]) -> bool:
    """Whether a folder may be shown: it contains no home, and is in no folder of keys."""
    keys = [f"{home}/{name}" for home in homes for name in names("key_folders")]
    holds_all = any(home.is_relative_to(path) for home in (*homes, Path("/")))
    return not holds_all and not is_below_any(str(path), keys)


def make_reach(
    place: Workplace,
    grants: Grants,
    kind: Kind,
    shown: Iterable[Path],
    temporary: str,
    network: Network,
) -> Reach:
    """What commands may reach in a resolved workplace; `shown` are further readable folders."""
    homes, alone = user_homes(), kind == "landlock"  # Landlock makes no private folders
    folders = work_folders(place, with_git=not grants.project)
    wide = [f for f in folders if any(f in home.parents for home in homes)]
    work: Access = "writable" if grants.project or kind == "layered" else "readable"
    # A `.git` that is no repository yet becomes one with a few more files.
    records = {f / ".git" for f in folders if not (f / ".git").is_file()}
    records |= {Path(git.path) for git in place.git}
    fixed = [folder / name for folder in sorted(records) for name in RUN_BY_GIT]
    read = [path for path in grants.read if _is_for_all(path, homes)]
    # Read each time: a key may have come into them since the last command.
    settings = [home / name for home in homes for name in _GIT_SETTINGS]
    settings = [it for it in settings if it.exists() and not _HOLDS_KEY.search(read_regular(it))]
    keys = [home / name for home in homes for name in names("key_folders")]
    keys = [key for key in keys if any(map(key.is_relative_to, (*folders, *read)))]
    patterns = (path for name in place.readable for path in sorted(name.parent.glob(name.name)))
    listed: list[tuple[Access, Iterable[Path]]] = [
        ("hidden", [Path("/")]),
        ("readable", map(Path, SYSTEM)),
        (work, wide),
        ("hidden" if alone else "private", map(Path, _PRIVATE)),
        ("readable", [Path("/proc")]),
        ("hidden", _keys_of_system(folders)),
        ("hidden" if alone else "empty", homes),
        ("readable", (*shown, *read, *settings)),
        (work, (f for f in folders if f not in wide)),
        ("readable", fixed if grants.project else ()),
        ("hidden", filter(_is_plain_folder, keys)),
        ("hidden", place.protected),
        ("readable", filter(Path.is_dir, [place.outputs])),
        ("readable", (path for path in patterns if not path.is_symlink())),
        ("writable", [grants.cache] if grants.cache else ()),
        ("writable", () if kind in BUBBLEWRAP else [Path(temporary)]),
    ]
    places = tuple([VisiblePlace(path, each) for each, those in listed for path in those])
    listed_folders = tuple(path.parent for path in place.readable)
    reach = Reach(places=places, temporary=temporary, network=network, listed=listed_folders)
    launcher = map(_real_path, (Path(sys.base_prefix), Path(sys.executable)))
    hidden = (path for path in launcher if access(reach, str(path)) != "readable")
    return replace(reach, places=(*places, *(VisiblePlace(path, "readable") for path in hidden)))


@cache
def _keys_of_system(folders: Sequence[Path]) -> tuple[Path, ...]:
    keys = (_real_path(Path(it)) for name in names("keys_of_the_machine") for it in glob(name))
    hidden = (path for path in keys if os.access(path, os.R_OK))
    return tuple(path for path in hidden if not any(f.is_relative_to(path) for f in folders))


def to_bubblewrap(
    reach: Reach, cwd: Path, *, masks: Mapping[Path, str], store: Path, lowers: Mapping[Path, str]
) -> list[str]:
    """The options for mounts and namespaces. `masks`: hidden file → the empty file in its place.
    `lowers`: working folder with a layer in `store` → where the launcher, which mounts layers and
    masks over it, finds the real folder."""
    words = _list_mounts(reach, masks, lowers)
    # No cgroup namespace: Java fails if the names in /proc and in /sys differ.
    words += ("--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts")
    words += ["--unshare-net"] if reach.network == "none" else []
    if not lowers:
        return [*words, "--die-with-parent", "--cap-drop", "ALL", "--chdir", str(cwd)]
    words += ("--bind", str(store), STAGE)  # the launcher makes the layers of it
    words += [word for root, to in lowers.items() for word in ("--ro-bind", str(root), to)]
    # The launcher mounts them as root of a namespace, then gives up all powers. The first process
    # stays in its starting folder, which must not be below a layer and its masks.
    powers = ("--uid", "0", "--gid", "0", "--cap-add", "ALL")
    return [*words, "--die-with-parent", *powers, "--chdir", "/"]


def _list_mounts(reach: Reach, masks: Mapping[Path, str], lowers: Mapping[Path, str]) -> list[str]:
    """The mounts of all places, in order: a later one lies on top."""
    words, hidden = list[str](), list[str]()
    for place, kind in reach.places:
        path = str(place)
        match path, kind:
            case "/", "hidden":  # it begins as an empty folder
                hidden.append(path)
            case "/dev", "private":
                words += ("--dev", path)
            case "/tmp", "private":
                words += ("--bind", reach.temporary, path)
            case "/proc", _:
                # Root could change system-wide settings.
                settings = ("--ro-bind-try", "/proc/sys", "/proc/sys") if os.geteuid() == 0 else ()
                words += ("--proc", path, *settings)
            case _, "readable" if path in SYSTEM and os.path.islink(path):
                words += ("--symlink", os.readlink(path), path)
            case _, "writable" if place not in lowers:
                words += ("--bind", path, path)
            case _, "readable" | "writable":
                words += ("--ro-bind-try", path, path)  # may be gone by now
            case _ if _is_plain_folder(place):
                words += ("--tmpfs", path)
                hidden += [path] if kind == "hidden" else []
            case _ if place.is_file():
                words += ("--ro-bind-try", masks.get(place, "/dev/null"), path)
    # Hidden folders are sealed once everything inside them is mounted.
    return words + [word for path in hidden for word in ("--remount-ro", path)]


Allowed = tuple[str, Literal["read", "write", "list"]]
"""A real path, and what Landlock allows there. `read` includes executing; `list` is only about the
names in a folder, not its files."""


def to_landlock(reach: Reach, *, alone: bool) -> list[Allowed]:
    """What may be changed and, if `alone` (without bubblewrap around it), what may be read."""
    changed = reach.of("writable", "empty", "private")
    allowed: list[Allowed] = [(str(path), "write") for path in changed]
    if not alone:
        return allowed
    hidden = frozenset(map(str, reach.of("hidden")))
    shown = [p for p in map(str, reach.of("readable", "writable")) if access(reach, p) != "hidden"]
    allowed += [(each, "read") for path in shown for each in _list_beside(path, hidden)]
    above = {str(parent) for path in hidden for parent in Path(path).parents}
    listed = [path for path in above if is_visible(reach, path) and not is_below_any(path, SYSTEM)]
    allowed += [(path, "list") for path in (*listed, *map(str, reach.listed))]
    allowed += [(f"/dev/{name}", "read") for name in _DEVICE_NAMES]
    return [*allowed, *((f"/dev/{name}", "write") for name in _DEVICE_NAMES[:4])]


def _list_beside(folder: str, hidden: frozenset[str]) -> list[str]:
    """The folder if nothing in it is hidden, else the entries in it that are not. Links are left
    out: their targets would be allowed with them."""
    inside = frozenset(path for path in hidden if path != folder and is_below(path, folder))
    if not inside:
        return [folder]
    beside: list[str] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if not entry.is_symlink() and entry.path not in inside:
                beside += _list_beside(entry.path, inside)
    return beside if len(beside) <= MAX_BESIDE else []


def _is_plain_folder(path: Path) -> bool:
    """Whether a path is a folder with no link on the way: a mount follows links."""
    return path.is_dir() and paths.real_path(path) == str(path)


def read_regular(path: str | Path, most: int = -1) -> str:
    """The text of a regular file, at most `most` bytes of it; "" if it cannot be read."""
    with contextlib.suppress(OSError, ValueError):
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            return (file.read(most) or b"").decode(errors="replace")  # None: an empty pipe
    return ""


def _real_path(path: Path) -> Path:
    return Path(paths.real_path(path))


# ── Seatbelt, of macOS ──────────────────────────────────────────────────────────────────────────
#
# The last rule that matches decides, so the places keep their order. No path is part of the program
# text: each is a parameter. Seatbelt compares real paths, as the file system spells them. There is
# no loopback of its own, so only `all` gives a network: the machine's loopback has its services.

_LOOK = "file-read-metadata file-test-existence"
_READ = f"file-read* {_LOOK}"
_MAKE = "file-write-create file-write-data file-write-unlink"
_RULES: dict[Access, tuple[str, ...]] = {
    "writable": (f"allow {_READ} file-write*",),
    "readable": (f"allow {_READ}", "deny file-write*"),
}
"""Access to a place → its rules; with any other access, nothing is allowed."""


def _each(kind: str, values: str) -> str:
    return " ".join(f'({kind} "{value}")' for value in values.split())


_SETTINGS = (
    "kern.argmax kern.boottime kern.hostname kern.maxfiles kern.maxfilesperproc kern.maxproc "
    "kern.ngroups kern.osproductversion kern.osrelease kern.ostype kern.osvariant_status "
    "kern.osversion kern.secure_kernel kern.sysv.semmni kern.usrstack64 kern.version "
    "sysctl.name2oid sysctl.oidfmt sysctl.proc_cputype sysctl.proc_native vm.loadavg"
)
"""Kernel settings to read. Not among them: arguments and variables of other processes."""
_SERVICES = (
    "com.apple.bsd.dirhelper com.apple.logd com.apple.system.logger "
    "com.apple.system.notification_center com.apple.system.opendirectoryd.libinfo "
    "com.apple.system.opendirectoryd.membership"
)
"""Services that programs need to start. Not among them: those for keys, the clipboard, preferences
and other programs (Keychain, pasteboard, LaunchServices)."""
_SERVICES_OF_NETWORK = (
    "com.apple.SystemConfiguration.DNSConfiguration com.apple.SystemConfiguration.configd "
    "com.apple.dnssd.service com.apple.networkd com.apple.trustd com.apple.trustd.agent"
)
_READ_DEVICES = "/dev/null /dev/zero /dev/random /dev/urandom /dev/tty /dev/stdin"
_WRITTEN_DEVICES = "/dev/null /dev/zero /dev/tty /dev/stdout /dev/stderr"
_BASE = f"""(version 1)
(deny default)
(allow process-exec process-fork file-map-executable)
(allow process-info* signal (target same-sandbox))
(allow sysctl-read {_each("sysctl-name-prefix", "hw. machdep.cpu.")})
(allow sysctl-read {_each("sysctl-name", _SETTINGS)})
(allow mach-lookup {_each("global-name", _SERVICES)})
(allow ipc-posix-sem)
(allow ipc-posix-shm-read-data (ipc-posix-name "apple.shm.notification_center"))"""
_DEVICES = f"""(allow {_READ} (literal "/") {_each("literal", _READ_DEVICES)} (subpath "/dev/fd"))
(allow file-write-data {_each("literal", _WRITTEN_DEVICES)} (subpath "/dev/fd"))"""
_NETWORK = f"""(allow network-outbound (remote ip "*:*"))
(allow network-bind network-inbound (local ip "*:*"))
(allow network-outbound (literal "/private/var/run/mDNSResponder"))
(allow system-socket (require-all (socket-domain AF_SYSTEM) (socket-protocol 2)))
(allow mach-lookup {_each("global-name", _SERVICES_OF_NETWORK)})"""
"""No unix socket is allowed but that for names: those of Docker and ssh-agent lead out."""


def _match_any_case(name: str) -> str:
    """A regular expression for a name in any case: most macOS volumes ignore case."""
    return "".join(f"[{c.lower()}{c.upper()}]" if c.isalpha() else f"[{c}]" for c in name)


_GIT = f"/{_match_any_case('.git')}"
# To the file system, some letters beyond ASCII equal a plain one: git needs none there.
_OF_GIT = f"{_GIT}/(.*/)?({'|'.join(map(_match_any_case, RUN_BY_GIT))}|[^/]*[^ -~][^/]*)(/|$)"


def to_seatbelt(reach: Reach) -> tuple[str, ...]:
    """The beginning of the argument list of a command that may reach this and nothing else: the
    profile and its parameters. Touches no file."""
    names: dict[Path, str] = {}

    def filters(paths: Iterable[Path], *kinds: str) -> str:
        pairs = ((kind, names.setdefault(p, f"P{len(names)}")) for p in paths for kind in kinds)
        return " ".join(f'({kind} (param "{name}"))' for kind, name in pairs)

    rules, writable = [_BASE], reach.of("writable")
    for place in reach.places:
        each = _RULES.get(place.access, (f"deny {_READ} file-write*",))
        rules += [f"({rule} {filters([place.path], 'literal', 'subpath')})" for rule in each]
    # Programs look up the folders above what is shown; the names in them stay hidden.
    above = dict.fromkeys(p for path in reach.of("readable", "writable") for p in path.parents)
    rules.append(_DEVICES)
    rules.append(f"(allow {_LOOK} {filters(above, 'literal')})")
    # If its folder could be moved, what must not be written in it would get another path.
    fixed = reach.of("readable", "empty", "private", "hidden")
    held = {p for path in fixed for p in path.parents if any(p.is_relative_to(w) for w in writable)}
    rules.append(f"(deny file-write-unlink {filters((*writable, *held), 'literal')})")
    for path in writable:
        inside = filters([path], "subpath")
        rules += [
            f'(deny file-write* (require-all {inside} (regex #"{_OF_GIT}")))',
            f'(deny {_MAKE} (require-all {inside} (regex #"{_GIT}$")))',
        ]
    rules.append(_NETWORK if reach.network == "all" else "(deny network*)")
    options = (word for path, name in names.items() for word in ("-D", f"{name}={path}"))
    return (SEATBELT, "-p", "\n".join(rules), *options)
