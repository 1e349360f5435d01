"""Finds paths that need care: files with keys, files that run later, folders that can be rebuilt.

Judges absolute paths by the lists in `places.toml`, for the gate, file tools, shell commands and
the sandbox. Links are resolved on disk; of judged files, only `contains_keys` reads any.
"""

import fnmatch
import functools
import os
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from pathlib import Path, PurePosixPath
from typing import Literal

from kode import paths
from kode.git import fold_path, git_record
from kode.values import Value
from kode.workplace import GitFolder, Workplace, is_below, is_below_any

Place = Literal["protected", "root", "private", "temp", "system", "elsewhere"]
"""`protected`: a folder of kode's own; `root`: a working folder or its git folder; `private`: a
folder of `TEMPORARY`; `temp`: another temporary folder; `system`: the system's programs and
documents; `elsewhere`: any other place, such as the user's home."""

TEMPORARY = ("/tmp", "/var/tmp")
"""Temporary folders that sandboxed commands do not share with the machine."""

_COPY = re.compile(r"#(.+)#|\.(.+)\.sw[op]|(.+?)(?:[~-]|\.(?:bak|old|orig|save|backup|[12]))")

_KEY_IN_SETTINGS = re.compile(rb"_auth|_password|authtoken|password\s*[:=]", re.IGNORECASE)
_SAMPLE_BYTES = 1 << 20  # a bundle of CA certificates has a third, settings far less

_ANYWHERE, _WHOLE, _OR_BELOW = "(?:^|/)", r"\Z", r"(?:/|\Z)"


@functools.cache
def names(key: str) -> tuple[str, ...]:
    """The entries of a list in `places.toml`."""
    value = _read_lists()[key]
    return tuple(" ".join(value.values() if isinstance(value, dict) else (value,)).split())


@functools.cache
def _read_lists() -> dict[str, str | dict[str, str]]:
    import tomllib  # not at the top: many sessions never judge a path

    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


class PathRules(Value):
    """Absolute folders to judge paths by; most are listed both as given and with links resolved."""

    place: Workplace
    cwd: str
    home: str
    """The user's home folder."""
    roots: tuple[str, ...]
    protected: tuple[str, ...]
    temp: tuple[str, ...]
    readable: tuple[str, ...]
    """Files and folders in protected folders that may be read; names may be globs."""
    work: tuple[str, ...]
    """The roots, and the folders in which git keeps their records."""
    named: Callable[[], frozenset[str]]
    """See `Workplace`."""


def path_rules(at: Workplace) -> PathRules:
    """Returns the folders of a workplace. The working directory is always a root, `~/.kode`
    protected, `TEMPORARY` temporary, and saved outputs are readable."""
    roots = _path_spellings((at.cwd, *at.roots))
    return PathRules(
        place=at,
        cwd=os.path.abspath(at.cwd),
        home=os.path.abspath(at.user_home),
        roots=roots,
        work=(*roots, *(folder.path for folder in at.git)),
        protected=_path_spellings((*at.protected, at.home, at.user_home / ".kode")),
        temp=_path_spellings((*at.temp, *map(Path, TEMPORARY))),
        readable=tuple(real(path) for path in (at.outputs, *at.readable)),
        named=at.named,
    )


def find_place(path: str, where: PathRules) -> Place:
    """Where an absolute path leads; of several folders, the first in this order counts."""
    resolved = real(path)
    is_protected = any(map(is_below_any, {path, resolved}, repeat(where.protected)))
    if is_below_any(resolved, where.work) and not is_protected:
        return "root"
    if is_in_tmp(path, where, resolved):
        return "root"
    if is_protected:
        return "protected"
    if is_below_any(resolved, (where.home, real(where.home))):
        return "elsewhere"
    if is_below_any(resolved, where.temp):
        return "private" if is_below_any(resolved, TEMPORARY) else "temp"
    return "system" if is_below_any(resolved, names("system")) else "elsewhere"


def is_in_tmp(path: str, where: PathRules, resolved: str = "") -> bool:
    """Whether a path outside the roots, and where it leads, is in the session's own `/tmp`."""
    resolved = resolved or real(path)
    if is_below_any(resolved, where.roots):
        return False  # the usual case needs no sandbox
    tmp = where.place.private_tmp()
    return tmp is not None and all(is_below(spelling, str(tmp)) for spelling in (path, resolved))


def is_readable(path: str, where: PathRules) -> bool:
    """Whether a path in kode's own folders, or all that it matches as a glob, may be read."""
    return is_log(path, where) or is_below_any(real(path), where.readable)


def is_log(path: str, where: PathRules) -> bool:
    """Whether the path is one of kode's readable files itself, not merely inside a readable folder.
    Such a file holds text of earlier sessions, possibly from outside."""
    folder, name = os.path.split(real(path))
    patterns = map(os.path.split, where.readable)
    return any(folder == it and fnmatch.fnmatchcase(name, pattern) for it, pattern in patterns)


def is_secret(path: str, where: PathRules) -> bool:
    """Whether a path probably holds keys or passwords, by its name and place, in any folder. The
    file is not read. A glob counts if it can match the name of such a file."""
    resolved = real(path)
    return _is_secret(path, where) or (resolved != path and _is_secret(resolved, where))


def _is_secret(path: str, where: PathRules) -> bool:
    folded = fold_path(path)
    if _is_in_lists(folded, "keys_of_the_machine", "other_processes", begin="^", end=_OR_BELOW):
        return True
    original = _backup_source(folded)
    name, ours = os.path.basename(original), (*where.roots, where.home, *where.readable)
    return (
        _is_in_lists(folded, "key_folders", end=_OR_BELOW)
        or (_is_key_file(original) and not os.path.isdir(path))  # a package, a virtual environment
        or (not {"*", "?", "["}.isdisjoint(name) and _reaches_secret(name))
        or (is_below(path, "/root") and not is_below_any(path, ours) and not is_in_tmp(path, where))
    ) and not _is_in_lists(original, "no_keys")


def is_named_like_keys(path: str, *, is_folder: bool) -> bool:
    """Whether an existing path probably holds keys, by its name and place alone. Unlike
    `is_secret`, this follows no links and is cheap: a scan asks it about every entry."""
    if is_folder:
        return _is_in_lists(fold_path(path), "key_folders")
    original = _backup_source(fold_path(path))
    return _is_key_file(original) and not _is_in_lists(original, "no_keys")


def contains_keys(path: str) -> bool:
    """Whether a file with a name for keys has any. An empty file and mere certificates have none,
    an unreadable file does; `keys_among_settings` are searched for them. Never raises."""
    try:
        with open(path, "rb") as file:
            text = file.read(_SAMPLE_BYTES)
    except (OSError, ValueError):
        return os.path.exists(path)
    if os.path.basename(path).casefold() in names("keys_among_settings"):
        return _KEY_IN_SETTINGS.search(text) is not None
    certifies = b"BEGIN CERTIFICATE" in text and b"PRIVATE" not in text
    return bool(text) and not (certifies and len(text) < _SAMPLE_BYTES)


def is_cache(name: str) -> bool:
    """Whether a file or folder of this name is byte code or a cache, which can be lost."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in names("caches"))


def is_made_by_tools(name: str) -> bool:
    """Whether a folder of this name is filled by a build, an installation or git."""
    return name == ".git" or name in names("filled_by_builds")


def runs_later(
    path: str,
    git: Sequence[GitFolder] = (),
    named: Iterable[str] = (),
    *,
    as_link: bool = False,
) -> bool:
    """Whether another program later runs what is written to a path, unseen: hooks, rc files, CI
    workflows, editor tasks. `git` are the known folders of git, see `kode.git.git_record`; `named`
    the paths that settings of the project name. `as_link`: the path becomes a link, perhaps to a
    folder, so that a folder which could hold such a file counts too."""
    programs = [*map(fold_path, named)]
    for spelling in {path, real(path)}:
        folded, record = fold_path(spelling), git_record(git, spelling)
        if (
            record == "runs"
            # Git takes a folder with a file `HEAD` for a repository and obeys its settings.
            or (os.path.basename(folded) == "head" and not record)
            or _is_in_lists(folded, "runs_later", end=_OR_BELOW)
            or is_below_any(folded, programs)
            or (as_link and any(is_below(program, folded) for program in programs))
        ):
            return True
    folders = _compile_patterns(("runs_later", "steers_agents"), part="folders")
    return as_link and folders.search(fold_path(path)) is not None


def steers_agents(path: str) -> bool:
    """Whether agents will take what is written to a path for the project's instructions, in future
    sessions."""
    spellings = map(fold_path, {path, real(path)})
    return any(_is_in_lists(it, "steers_agents", end=_OR_BELOW) for it in spellings)


def is_rebuildable(path: str, where: PathRules) -> bool:
    """Whether a path can be lost without harm: a build regenerates it or a folder around it, or it
    is in a temporary folder. False for a root or a temporary folder itself."""
    resolved = real(path)
    if find_place(path, where) in ("private", "temp"):
        return resolved not in where.temp
    root = next((it for it in where.roots if resolved != it and is_below(resolved, it)), resolved)
    parts = resolved[len(root) :].strip("/").split("/")
    patterns = (*names("filled_by_builds"), *names("made_by_builds"))
    return any(fnmatch.fnmatchcase(part, pattern) for part in parts for pattern in patterns)


def real(path: str | Path) -> str:
    """The path with its symlinks resolved; unchanged if it cannot be resolved."""
    try:
        return paths.real_path(path)
    except (OSError, ValueError):
        return str(path)


def _path_spellings(folders: Iterable[Path]) -> tuple[str, ...]:
    spellings = (it for folder in folders for it in (os.path.abspath(folder), real(folder)))
    return tuple(dict.fromkeys(spellings))


def _is_in_lists(folded: str, *keys: str, begin: str = _ANYWHERE, end: str = _WHOLE) -> bool:
    """Whether a path, as `fold_path` returns it, matches an entry of one of these lists."""
    return _compile_patterns(keys, begin, end).search(folded) is not None


@functools.cache
def _compile_patterns(
    keys: Sequence[str],
    begin: str = _ANYWHERE,
    end: str = _WHOLE,
    part: Literal["path", "name", "folders"] = "path",
) -> re.Pattern[str]:
    """Compiles the `part` of each entry into one pattern. Not done at import: all of them take six
    milliseconds, and many sessions never judge a path."""
    entries = [entry for key in keys for entry in names(key)]
    if part == "name":
        entries = sorted({os.path.basename(entry) for entry in entries})
    if part == "folders":
        folders = [folder for entry in entries for folder in PurePosixPath(entry).parents]
        entries = sorted({str(folder) for folder in folders if folder.name})
    alternatives = "|".join(map(re.escape, map(str.casefold, entries))).replace(r"\*", "[^/]*")
    return re.compile(f"{begin}(?:{alternatives}){end}")


def _is_key_file(folded: str) -> bool:
    # The name is tried first: searching the full path takes three times as long.
    name = _compile_patterns(("key_files",), "^", part="name").match(os.path.basename(folded))
    return name is not None and _is_in_lists(folded, "key_files")


def _backup_source(folded: str) -> str:
    """The path of a backup's original: `.env` for `.env~`, `.env.bak` and `..env.swp`."""
    folder, name = os.path.split(folded)
    while (match := _COPY.fullmatch(name)) is not None:
        name = next(filter(None, match.groups()))
    return f"{folder}/{name}"


def _reaches_secret(name: str) -> bool:
    """Whether a glob can match a name of `key_files`. A bare `*` is too wide to count."""
    is_telling = name.startswith(".") or len(re.sub(r"[*?\[\]]", "", name)) > 1
    samples = [os.path.basename(it).replace("*", "x").casefold() for it in names("key_files")]
    return is_telling and any(fnmatch.fnmatchcase(sample, name) for sample in samples)
