"""Finds paths that need care: files with keys, files that run later, folders that can be rebuilt.

Pure functions over absolute paths, by the lists in `places.toml`, for the gate, file tools, shell
commands and the sandbox.
"""

import fnmatch
import functools
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Literal

from kode import paths
from kode.git import fold_path, git_record
from kode.values import dataclass
from kode.workplace import GitFolder, Workplace, is_below, is_below_any

Place = Literal["protected", "root", "private", "temp", "system", "elsewhere"]
"""Where a path lies: in kode's own folders, the working folders or git's folders of them, a
temporary folder of which a command in the sandbox has its own, another temporary folder, the
system's programs and documents, or elsewhere, as in the user's home."""

TEMPORARY = ("/tmp", "/var/tmp")
"""Folders of which a command in the sandbox has its own."""

_COPY = re.compile(r"#(.+)#|\.(.+)\.sw[op]|(.+?)(?:[~-]|\.(?:bak|old|orig|save|backup|[12]))")

_KEY_IN_SETTINGS = re.compile(rb"_auth|_password|authtoken|password\s*[:=]", re.IGNORECASE)
_SAMPLE_BYTES = 1 << 20  # a bundle of authorities has a third, settings far less

_ANYWHERE, _WHOLE, _OR_BELOW = "(?:^|/)", r"\Z", r"(?:/|\Z)"


@functools.cache
def names(key: str) -> tuple[str, ...]:
    """The entries of a list in `places.toml`."""
    value = _read_lists()[key]
    return tuple(" ".join(value.values() if isinstance(value, dict) else (value,)).split())


@functools.cache
def _read_lists() -> dict[str, str | dict[str, str]]:
    import tomllib  # many sessions judge no path

    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


@dataclass(frozen=True, kw_only=True)
class PathRules:
    """The folders that decide what a path means. All absolute; both spellings of links count."""

    place: Workplace
    cwd: str
    home: str
    """The user's home folder."""
    roots: tuple[str, ...]
    protected: tuple[str, ...]
    temp: tuple[str, ...]
    readable: tuple[str, ...]
    """Readable folders and files in protected folders; names may be patterns."""
    work: tuple[str, ...]
    """The roots, and git's folders of them."""


def path_rules(at: Workplace) -> PathRules:
    """The folders of a workplace: the working directory is always a root, `~/.kode` always
    protected, `/tmp` always temporary, and saved outputs are readable."""
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
    )


def find_place(path: str, where: PathRules) -> Place:
    """Where an absolute path lies, its symlinks resolved; the narrowest folder wins."""
    resolved = real(path)
    if is_in_tmp(path, where, resolved):
        return "root"
    if is_below_any(path, where.protected) or is_below_any(resolved, where.protected):
        return "protected"
    if is_below_any(resolved, where.work):
        return "root"
    if is_below_any(resolved, (where.home, real(where.home))):
        return "elsewhere"
    if is_below_any(resolved, where.temp):
        return "private" if is_below_any(resolved, TEMPORARY) else "temp"
    return "system" if is_below_any(resolved, names("system")) else "elsewhere"


def is_in_tmp(path: str, where: PathRules, resolved: str = "") -> bool:
    """Whether a path is in the session's own `/tmp`, and leads nowhere else."""
    resolved = resolved or real(path)
    if is_below_any(resolved, where.roots):
        return False  # the usual case needs no sandbox
    tmp = where.place.private_tmp()
    return tmp is not None and all(is_below(spelling, str(tmp)) for spelling in (path, resolved))


def is_readable(path: str, where: PathRules) -> bool:
    """Whether a path, or everything that its glob can match, is readable in the protected
    folders."""
    return is_log(path, where) or is_below_any(real(path), where.readable)


def is_log(path: str, where: PathRules) -> bool:
    """Whether it is a readable file of kode, not one in a readable folder: it holds text of earlier
    sessions, possibly from outside."""
    folder, name = os.path.split(real(path))
    patterns = [os.path.split(pattern) for pattern in where.readable]
    return any(folder == it and fnmatch.fnmatchcase(name, pattern) for it, pattern in patterns)


def is_secret(path: str, where: PathRules) -> bool:
    """Whether a file probably holds keys or passwords. Globs count if they can match one. Checks
    names first: they count wherever the home and the project are."""
    resolved = real(path)
    return _is_secret(path, where) or (resolved != path and _is_secret(resolved, where))


def _is_secret(path: str, where: PathRules) -> bool:
    folded = fold_path(path)
    if _is_in_lists(folded, "keys_of_the_machine", "other_processes", begin="^", end=_OR_BELOW):
        return True
    original = _backup_source(folded)
    name, ours = os.path.basename(original), (*where.roots, where.home, *where.readable)
    return not _is_in_lists(original, "no_keys") and (
        _is_in_lists(folded, "key_folders", end=_OR_BELOW)
        or (_is_key_file(original) and not os.path.isdir(path))  # a package, an environment
        or (not {"*", "?", "["}.isdisjoint(name) and _reaches_secret(name))
        or (is_below(path, "/root") and not is_below_any(path, ours) and not is_in_tmp(path, where))
    )


def is_named_like_keys(path: str, *, is_folder: bool) -> bool:
    """Whether an existing path holds keys, by its name and place. Cheap for the many that do
    not."""
    if is_folder:
        return _is_in_lists(fold_path(path), "key_folders")
    original = _backup_source(fold_path(path))
    return _is_key_file(original) and not _is_in_lists(original, "no_keys")


def holds_keys(path: str) -> bool:
    """Whether a file with a name for keys really has any: not an empty one, nor certificates alone,
    and settings that only sometimes hold keys are searched. Never raises."""
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
    """Whether a file or folder of this name is byte code or a cache, which nobody misses."""
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
    """Whether another program later runs what is written there, unseen: hooks, rc files, CI
    workflows, editor tasks. `git` are the known folders of git, see `kode.git.git_record`; `named`
    the paths that settings of the project name. `as_link`: or something in it, which a link in its
    place would replace; that may lead to any folder, which is judged by its name."""
    programs = [*map(fold_path, named)]
    for spelling in {path, real(path)}:
        folded, record = fold_path(spelling), git_record(git, spelling)
        if (
            record == "runs"
            # With a file `HEAD`, git takes a folder for a repository and obeys its settings.
            or (os.path.basename(folded) == "head" and not record)
            or _is_in_lists(folded, "runs_later", end=_OR_BELOW)
            or is_below_any(folded, programs)
            or (as_link and any(is_below(program, folded) for program in programs))
        ):
            return True
    folders = _compile_patterns(("runs_later", "steers_agents"), part="folders")
    return as_link and folders.search(fold_path(path)) is not None


def steers_agents(path: str) -> bool:
    """Whether agents take what is written there for the project's instructions, in future
    sessions."""
    spellings = map(fold_path, {path, real(path)})
    return any(_is_in_lists(it, "steers_agents", end=_OR_BELOW) for it in spellings)


def is_rebuildable(path: str, where: PathRules) -> bool:
    """Whether a path is (in) a folder that a build regenerates, or in the temporary folder; never a
    root itself."""
    resolved = real(path)
    if find_place(path, where) in ("private", "temp"):
        return resolved not in where.temp
    root = next((it for it in where.roots if resolved != it and is_below(resolved, it)), resolved)
    steps = resolved[len(root) :].strip("/").split("/")
    patterns = (*names("filled_by_builds"), *names("made_by_builds"))
    return any(fnmatch.fnmatchcase(step, pattern) for step in steps for pattern in patterns)


def real(path: str | Path) -> str:
    """The path with its symlinks resolved; an impossible path is unchanged."""
    try:
        return paths.real_path(path)
    except (OSError, ValueError):
        return str(path)


def _path_spellings(folders: Iterable[Path]) -> tuple[str, ...]:
    spellings = (it for folder in folders for it in (os.path.abspath(folder), real(folder)))
    return tuple(dict.fromkeys(spellings))


def _is_in_lists(folded: str, *keys: str, begin: str = _ANYWHERE, end: str = _WHOLE) -> bool:
    """Whether a path, as `fold_path` has it, is an entry of a list."""
    return _compile_patterns(keys, begin, end).search(folded) is not None


@functools.cache
def _compile_patterns(
    keys: Sequence[str],
    begin: str = _ANYWHERE,
    end: str = _WHOLE,
    part: Literal["path", "name", "folders"] = "path",
) -> re.Pattern[str]:
    """`part`: of each entry. Compiled at the first search: together they take six milliseconds, and
    many sessions judge no path."""
    entries = [entry for key in keys for entry in names(key)]
    if part == "name":
        entries = sorted({os.path.basename(entry) for entry in entries})
    if part == "folders":
        folders = [folder for entry in entries for folder in PurePosixPath(entry).parents]
        entries = sorted({str(folder) for folder in folders if folder.name})
    steps = "|".join(map(re.escape, map(str.casefold, entries))).replace(r"\*", "[^/]*")
    return re.compile(f"{begin}(?:{steps}){end}")


def _is_key_file(folded: str) -> bool:
    # By its name first: a search of the full path takes three times as long.
    name = _compile_patterns(("key_files",), "^", part="name").match(os.path.basename(folded))
    return name is not None and _is_in_lists(folded, "key_files")


def _backup_source(folded: str) -> str:
    """The path that a backup was made of: `.env` for `.env~`, `.env.bak` and `..env.swp`."""
    folder, name = os.path.split(folded)
    while (match := _COPY.fullmatch(name)) is not None:
        name = next(filter(None, match.groups()))
    return f"{folder}/{name}"


def _reaches_secret(name: str) -> bool:
    """Whether a glob matches a secret. `*` alone excludes dot files, and does not count."""
    is_telling = name.startswith(".") or len(re.sub(r"[*?\[\]]", "", name)) > 1
    samples = [os.path.basename(it).replace("*", "x").casefold() for it in names("key_files")]
    return is_telling and any(fnmatch.fnmatchcase(sample, name) for sample in samples)
