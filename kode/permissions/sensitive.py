"""Finds paths that need care: files with keys, files that run later, folders that can be rebuilt.

Pure functions over absolute paths, by the lists in `places`. File tools, shell commands and the
sandbox all use them.
"""

import fnmatch
import functools
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from kode import paths
from kode.git import fold_path, git_record
from kode.permissions import places
from kode.workplace import GitFolder, Workplace, below, below_any

Place = Literal["protected", "root", "temp", "home", "system", "elsewhere"]
"""Where a path lies: in kode's own folders, the working folders or git's folders of them, the
temporary folder, the user's home, the system's programs and documents, or elsewhere."""

_COPY_ENDS = tuple("~ # - .bak .old .orig .save .backup .swp .swo .1 .2".split())
_COPY = re.compile(r"#(.+)#|\.(.+)\.sw[op]|(.+?)(?:[~-]|\.(?:bak|old|orig|save|backup|[12]))")

_KEY_IN_SETTINGS = re.compile(rb"_auth|_password|authtoken|password\s*[:=]", re.IGNORECASE)
_SAMPLE_BYTES = 1 << 20  # a bundle of authorities has a third, settings far less

_BEGIN, _END, _OR_BELOW = "(?:^|/)", r"\Z", r"(?:/|\Z)"


@dataclass(frozen=True)
class _Steps:
    """Finds any of the entries in a folded path. Compiled at the first search: together they take
    six milliseconds, and many sessions judge no path."""

    entries: Sequence[str]
    begin: str
    end: str

    @functools.cached_property
    def search(self) -> Callable[[str], re.Match[str] | None]:
        steps = (re.escape(entry.casefold()).replace(r"\*", "[^/]*") for entry in self.entries)
        return re.compile(f"{self.begin}(?:{'|'.join(steps)}){self.end}").search


@dataclass(frozen=True, slots=True, kw_only=True)
class _Names:
    """The last steps of some entries, a cheap first test: nearly no name is in it, and searching a
    full path for the entries takes ten times as long."""

    whole: frozenset[str]
    endings: tuple[str, ...]
    beginnings: tuple[str, ...]

    def __contains__(self, name: str) -> bool:
        return name in self.whole or name.endswith(self.endings) or name.startswith(self.beginnings)


def _last_steps(*lists: Sequence[str]) -> _Names:
    names = [entry.casefold().split("/")[-1] for entries in lists for entry in entries]
    return _Names(
        whole=frozenset(name for name in names if "*" not in name),
        endings=tuple(name.split("*")[-1] for name in names if name.startswith("*")),
        beginnings=tuple(name.split("*")[0] for name in names if "*" in name and name[0] != "*"),
    )


_KEY_NAMES = _last_steps(places.KEY_FILES)
_KEY_FOLDER_NAMES = _last_steps(places.KEY_FOLDERS)
_KEY_FILE = _Steps(places.KEY_FILES, _BEGIN, _END)
_NO_KEY = _Steps(places.NO_KEYS, _BEGIN, _END)
_KEY_FOLDER = _Steps(places.KEY_FOLDERS, _BEGIN, _END)
_IN_KEY_FOLDER = _Steps(places.KEY_FOLDERS, _BEGIN, _OR_BELOW)
_KEY_OF_MACHINE = _Steps((*places.KEYS_OF_THE_MACHINE, *places.OTHER_PROCESSES), "^", _OR_BELOW)
_RUNS_LATER = _Steps(places.RUNS_LATER, _BEGIN, _OR_BELOW)
_ABOVE_RUNS_LATER = _Steps(
    tuple(
        dict.fromkeys(
            str(above)
            for entry in (*places.RUNS_LATER, *places.STEERS_AGENTS)
            for above in PurePosixPath(entry).parents
            if above.name
        )
    ),
    _BEGIN,
    _END,
)
_STEERS_AGENTS = _Steps(places.STEERS_AGENTS, _BEGIN, _OR_BELOW)

_NOT_ENTERED = frozenset((*places.FILLED_BY_BUILDS, ".git"))
_OTHERS_HOME = "/root"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """The folders that decide what a path means. All absolute; both spellings of links count."""

    cwd: str
    roots: tuple[str, ...]
    home: str
    """The user's home folder."""
    protected: tuple[str, ...]
    temp: tuple[str, ...]
    readable: tuple[str, ...] = ()
    """Readable folders and files in protected folders; names may be patterns."""
    tmp: Callable[[], Path | None] = lambda: None
    """The folder of the session's own `/tmp`: work, wherever it lies."""
    named: Callable[[], frozenset[str]] = frozenset
    """What settings of the project have other programs run; see `Workplace`."""
    git: tuple[GitFolder, ...] = ()


def ground(at: Workplace) -> Ground:
    """The folders of a workplace: the working directory is always a root, `~/.kode` always
    protected, `/tmp` always temporary, and saved outputs are readable."""
    return Ground(
        cwd=os.path.abspath(at.cwd),
        roots=_both((at.cwd, *at.roots)),
        home=os.path.abspath(at.user_home),
        protected=_both((*at.protected, at.home, at.user_home / ".kode")),
        temp=_both((*at.temp, *map(Path, places.TEMPORARY))),
        readable=tuple(real(path) for path in (at.outputs, *at.readable)),
        tmp=at.private_tmp,
        named=at.named,
        git=at.git,
    )


def place(path: str, where: Ground) -> Place:
    """Where an absolute path lies, its symlinks resolved; the narrowest folder wins."""
    resolved = real(path)
    if is_in_tmp(path, where):
        return "root"
    if below_any(path, where.protected) or below_any(resolved, where.protected):
        return "protected"
    if below_any(resolved, (*where.roots, *(folder.path for folder in where.git))):
        return "root"
    if below_any(resolved, (where.home, real(where.home))):
        return "home"
    if below_any(resolved, where.temp):
        return "temp"
    if below_any(resolved, places.PROGRAMS_AND_DOCUMENTS):
        return "system"
    return "elsewhere"


def is_private(path: str, where: Ground) -> bool:
    """Whether the sandbox has a temporary folder of its own in the place of this path's."""
    return place(path, where) == "temp" and below_any(real(path), places.TEMPORARY)


def is_in_tmp(path: str, where: Ground) -> bool:
    """Whether a path is in the session's own `/tmp`, and leads nowhere else."""
    resolved = real(path)
    if below_any(resolved, where.roots):
        return False  # the usual case needs no sandbox
    tmp = where.tmp()
    return tmp is not None and all(below(known, str(tmp)) for known in (path, resolved))


def is_readable(path: str, where: Ground) -> bool:
    """Whether a path, or everything that its glob can match, is readable in the protected
    folders."""
    known = real(path)
    return is_log(path, where) or below_any(known, where.readable)


def is_log(path: str, where: Ground) -> bool:
    """Whether it is a readable file of kode, not one in a readable folder: it holds text of earlier
    sessions, possibly from outside."""
    folder, name = os.path.split(real(path))
    patterns = map(os.path.split, where.readable)
    return any(folder == known and fnmatch.fnmatchcase(name, names) for known, names in patterns)


def is_secret(path: str, where: Ground) -> bool:
    """Whether a file probably holds keys or passwords. Globs count if they can match one."""
    resolved = real(path)
    return _is_secret(path, where) or (resolved != path and _is_secret(resolved, where))


def is_named_like_keys(path: str, *, is_folder: bool) -> bool:
    """Whether an existing path holds keys, by its name and place. Cheap for the many that do
    not."""
    folder, name = os.path.split(path)
    if is_folder:
        return (
            name.casefold() in _KEY_FOLDER_NAMES and _KEY_FOLDER.search(fold_path(path)) is not None
        )
    original = _copied(fold_path(name))
    if original not in _KEY_NAMES or _NO_KEY.search(f"/{original}"):
        return False
    return _is_key_file(fold_path(folder), original)


def holds_keys(path: str) -> bool:
    """Whether a file with a name for keys really has any: not an empty one, nor certificates alone,
    and settings that only sometimes hold keys are searched. Never raises."""
    try:
        with open(path, "rb") as file:
            text = file.read(_SAMPLE_BYTES)
    except (OSError, ValueError):
        return os.path.exists(path)
    if os.path.basename(path).casefold() in places.KEYS_AMONG_SETTINGS:
        return _KEY_IN_SETTINGS.search(text) is not None
    certifies = b"BEGIN CERTIFICATE" in text and b"PRIVATE" not in text
    return bool(text) and not (certifies and len(text) < _SAMPLE_BYTES)


def is_cache(name: str) -> bool:
    """Whether a file or folder of this name is byte code or a cache, which nobody misses."""
    return any(fnmatch.fnmatchcase(name, one) for one in places.CACHES)


def is_made_by_tools(name: str) -> bool:
    """Whether a folder of this name is filled by a build, an installation or git."""
    return name in _NOT_ENTERED


def runs_later(path: str, git: Sequence[GitFolder] = ()) -> bool:
    """Whether another program later runs what is written there, unseen: hooks, rc files, CI
    workflows, editor tasks. `git` are the known folders of git, see `kode.git.git_record`."""
    return any(_runs_later(known, git) for known in {path, real(path)})


def is_named(path: str, where: Ground, *, as_link: bool = False) -> bool:
    """Whether a setting of the project names the path, or a folder that it is in, for a program to
    run. `as_link`: or something in it, which a link in its place would replace."""
    named = where.named()
    paths = {fold_path(path), fold_path(real(path))} if named else set()
    return any(
        below(known, one) or (as_link and below(one, known))
        for one in map(fold_path, named)
        for known in paths
    )


def may_hold_what_runs(path: str) -> bool:
    """Whether a folder of this name may hold what runs later or steers agents: with a link in its
    place, that may lie anywhere."""
    return _ABOVE_RUNS_LATER.search(fold_path(path)) is not None


def steers_agents(path: str) -> bool:
    """Whether agents take what is written there for the project's instructions, in future
    sessions."""
    return any(_STEERS_AGENTS.search(fold_path(known)) is not None for known in {path, real(path)})


def is_rebuildable(path: str, where: Ground) -> bool:
    """Whether a path is (in) a folder that a build regenerates, or in the temporary folder; never a
    root itself."""
    resolved = real(path)
    if place(path, where) == "temp":
        return resolved not in where.temp
    for root in where.roots:
        if resolved != root and below(resolved, root):
            steps = resolved[len(root) :].strip("/").split("/")
            return any(
                step in places.FILLED_BY_BUILDS
                or any(fnmatch.fnmatchcase(step, name) for name in places.MADE_BY_BUILDS)
                for step in steps
            )
    return False


def real(path: str | Path) -> str:
    """The path with its symlinks resolved; an impossible path is unchanged."""
    try:
        return paths.real_path(path)
    except (OSError, ValueError):
        return str(path)


def _both(folders: Iterable[Path]) -> tuple[str, ...]:
    spellings: dict[str, None] = {}
    for folder in folders:
        spellings[os.path.abspath(folder)] = None
        spellings[real(folder)] = None
    return tuple(spellings)


def _is_secret(path: str, where: Ground) -> bool:
    """Checks names first: they count wherever the home and the project are."""
    folded = fold_path(path)
    folder, name = os.path.split(folded)
    name = _copied(name)
    if _KEY_OF_MACHINE.search(folded):
        return True
    if _NO_KEY.search(f"{folder}/{name}"):
        return False
    if _IN_KEY_FOLDER.search(folded):
        return True
    if _is_key_file(folder, name):
        return not os.path.isdir(path)  # a package of that name, an environment in `.env`
    if any(mark in name for mark in "*?[") and _reaches_secret(name):
        return True
    own = (*where.roots, where.home, *where.readable)
    if is_in_tmp(path, where):
        return False
    return below(path, _OTHERS_HOME) and not below_any(path, own)


def _is_key_file(folder: str, name: str) -> bool:
    return name in _KEY_NAMES and _KEY_FILE.search(f"{folder}/{name}") is not None


def _copied(name: str) -> str:
    """The name that a backup was made of: `.env` for `.env~`, `.env.bak` and `..env.swp`."""
    while name.endswith(_COPY_ENDS) and (match := _COPY.fullmatch(name)) is not None:
        name = next(filter(None, match.groups()))
    return name


def _reaches_secret(name: str) -> bool:
    """Whether a glob matches a secret. `*` alone excludes dot files, and does not count."""
    literal = re.sub(r"[*?\[\]]", "", name)
    if not name.startswith(".") and len(literal) < 2:
        return False
    samples = (entry.split("/")[-1].replace("*", "x").casefold() for entry in places.KEY_FILES)
    return any(fnmatch.fnmatchcase(sample, name) for sample in samples)


def _runs_later(path: str, git: Sequence[GitFolder]) -> bool:
    folded = fold_path(path)
    record = git_record(git, path)
    # With a file `HEAD`, git takes a folder for a repository and obeys its settings.
    if record == "runs" or (os.path.basename(folded) == "head" and not record):
        return True
    return _RUNS_LATER.search(folded) is not None
