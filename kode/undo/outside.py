"""Saves what a step may change before it runs, and finds what it has changed afterwards.

The files of an edit or of a sandboxed command are known. What a command on the host writes is not
seen, so the working trees are surveyed: before it, everything is saved that git could not restore.
A comparison with git afterwards names all other changed files, and git has their old content.
Outside a repository, a walk through the folders takes git's place.
"""

import contextlib
import glob
import os
import stat
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from kode import paths
from kode.errors import GitError, StorageError
from kode.git import run_git, split_names
from kode.undo.journal import Step
from kode.undo.store import FILTERED, FOLDER, OTHER, WHY_NOT_SAVED, Contents, Seen
from kode.values import dataclass, field
from kode.workplace import is_below_any

MAX_FILES = 5_000  # bounds the wait before a command
WALK_S = 10.0  # bounds a walk
SKIPPED = frozenset(
    "node_modules .venv venv __pycache__ .tox .mypy_cache .ruff_cache .pytest_cache target".split()
)
"""Folders not walked outside git, where nothing says what is ignored: tools regenerate them."""

_STATUS = "status --porcelain=v2 -z --branch --no-ahead-behind --ignore-submodules=all --no-renames"
_DIFFERS = "diff-index -z --no-renames --ignore-submodules=all --diff-filter=a"

Names = dict[str, int | None]


@dataclass(kw_only=True)
class Survey:
    """A working tree at one moment. All paths are absolute."""

    root: Path
    is_git: bool = False
    head: str = ""
    """The commit; "" before the first."""
    branch: str = ""
    """"" for a detached HEAD."""
    files: set[str] = field(default_factory=set)
    """What git would not give back: tracked files that differ from the commit, untracked files, and
    single files that git ignores."""
    unvisited: set[str] = field(default_factory=set)
    """Folders that a survey does not enter: ignored ones, and nested repositories."""
    names: Names = field(default_factory=dict)
    """Every path in the tree → the mode of a folder, None for anything else."""
    is_whole: bool = True
    """False if a limit ended the walk."""


def save_files(contents: Contents, step: Step, files: Iterable[str], limit: int) -> None:
    """Saves the current state of these paths, the smallest first, so that as few as possible do not
    fit; notes in `step` what was saved. Omits files over `limit` bytes. Raises: StorageError."""
    sizes = dict.fromkeys(files, 0)
    for path in sizes:
        with contextlib.suppress(OSError):
            sizes[path] = os.lstat(path).st_size
    left_bytes, fitting = contents.max_bytes // 2, list[str]()
    step.not_saved |= sizes.keys()
    for path in sorted(sizes, key=sizes.__getitem__)[:MAX_FILES]:
        if sizes[path] <= min(left_bytes, limit):
            left_bytes -= sizes[path]
            fitting.append(path)
    for path, seen in contents.save(sorted(fitting), max_file_bytes=limit).items():
        is_saved = seen.state not in WHY_NOT_SAVED
        if is_saved or not os.path.isfile(path):
            step.not_saved.discard(path)
        elif seen.state == OTHER:
            step.problem = step.problem or f"{path} cannot be read"
        if is_saved:
            step.before[path] = seen
        folder = os.path.dirname(path)
        while seen.state is None and not os.path.lexists(folder):
            step.before[folder], folder = Seen(None), os.path.dirname(folder)


def find_files_at_risk(step: Step, writes: Iterable[str], roots: Iterable[Path]) -> list[str]:
    """Surveys the working trees at `roots`; returns the files in them that git could not restore,
    and those that the command is known to write (`writes`: paths, patterns). May take seconds."""
    files: list[str] = []
    try:
        trees = (paths.repository_root(root) or Path(paths.real_path(root)) for root in roots)
        for tree in dict.fromkeys(trees):
            step.surveys.append(now := survey_tree(tree))
            files += now.files
        for pattern in writes:  # a file may have the pattern itself as its name
            is_name = not glob.has_magic(pattern) or os.path.lexists(pattern)
            for path in [pattern] if is_name else glob.iglob(pattern, recursive=True):
                files += _find_written(step, path)
    except (OSError, ValueError) as error:
        step.problem = str(error)
    return files


def record_changes(contents: Contents, step: Step) -> None:
    """Notes in `step.after` what has changed; `step.problem` says why some may be missing."""
    before: dict[str, Seen] = {}
    for then in step.surveys:
        now = Survey(root=then.root, is_git=then.is_git, unvisited=then.unvisited)
        if then.is_whole and _survey_by_walking(now):
            before |= _compare_names(then.names, now.names)
        else:
            step.problem = step.problem or f"{now.root} holds too many files"
        try:
            before |= _compare_commit(contents, step, then) if then.is_git else {}
        except (GitError, StorageError, OSError) as error:
            step.problem = str(error)
    step.before, step.after = before | step.before, {}
    for path, was in step.before.items():
        seen = contents.read_state(path)
        seen = seen._replace(state=step.written.get(path, seen.state))
        if seen != was:
            step.after[path] = seen


def survey_tree(root: Path) -> Survey:
    """Surveys a working tree, with git if it is a repository."""
    tree = Survey(root=root)
    if os.path.lexists(root / ".git"):
        with contextlib.suppress(GitError):
            _survey_by_git(tree, "--untracked-files=all", "--ignored=matching")
    tree.is_whole = _survey_by_walking(tree)
    if not tree.is_git:
        tree.files = {path for path, mode in tree.names.items() if mode is None}
    return tree


def _git(root: Path, *words: str, stdin: bytes = b"", environ: Mapping[str, str] = {}) -> bytes:
    """Runs git on the files in `root`, even if its settings name others. Raises: GitError."""
    return run_git(root, words, stdin=stdin, environ={"GIT_WORK_TREE": str(root), **environ})


def _survey_by_git(tree: Survey, *words: str) -> None:
    """Notes what git says about a tree. Raises: GitError."""
    for record in split_names(_git(tree.root, *_STATUS.split(), *words)):
        kind, _, rest = record.partition(" ")
        path = f"{tree.root}/{rest.split(' ', {'1': 7, 'u': 9}.get(kind, 0))[-1]}"
        if kind == "#":
            key, _, value = rest.partition(" ")
            tree.head = value if key == "branch.oid" and value != "(initial)" else tree.head
            tree.branch = value if key == "branch.head" and value != "(detached)" else tree.branch
        elif ".." not in path.split("/"):  # git trusts the index, which others may write
            (tree.unvisited if path.endswith("/") else tree.files).add(path.rstrip("/"))
    tree.is_git = True


def _survey_by_walking(tree: Survey) -> bool:
    """Notes every path in the tree outside `unvisited`; returns False if a limit ended the walk."""
    waiting, ends_at = [str(tree.root)], time.monotonic() + WALK_S
    while waiting:
        is_full = not tree.is_git and len(tree.names) > MAX_FILES
        if is_full or time.monotonic() > ends_at:
            return False
        folder = waiting.pop()
        with contextlib.suppress(OSError):
            with os.scandir(folder) as scan:
                entries = {entry.name: entry for entry in scan}
            if entries.pop(".git", None) is not None and folder != str(tree.root):
                tree.unvisited.add(folder)  # a nested repository
                continue
            for name, entry in entries.items():
                if not entry.is_dir(follow_symlinks=False):
                    tree.names[entry.path] = None
                elif entry.path not in tree.unvisited and (tree.is_git or name not in SKIPPED):
                    mode = entry.stat(follow_symlinks=False).st_mode
                    tree.names[entry.path] = stat.S_IMODE(mode)
                    waiting.append(entry.path)
    return True


def _find_written(step: Step, path: str) -> list[str]:
    """Returns what exists at a path that a command writes: for a folder, all that is in it."""
    folder, name = os.path.split(path.rstrip("/") or "/")
    path, real = os.path.join(paths.real_path(folder), name), paths.real_path(path)
    is_inside = is_below_any(real, [str(tree.root) for tree in step.surveys])
    if os.path.isdir(path) and not os.path.islink(path):
        if is_inside:
            return [path, *map(str, Path(path).rglob("*"))]
        step.problem = f"{path} is outside the working folders"  # such as a home
        return []
    # Of a link out of the project, say to a log in /tmp, only the link itself is saved.
    return [path, *([real] if is_inside else [])] if is_inside or os.path.lexists(path) else []


def _compare_names(then: Names, now: Names) -> dict[str, Seen]:
    """Returns the earlier states of new paths, and of folders that were removed or have a new mode.
    If too many paths are new, only the outermost count, which undo then names."""
    new = now.keys() - then.keys()
    if len(new) > MAX_FILES:
        new = {path for path in new if os.path.dirname(path) not in new}
    folders = ((path, mode) for path, mode in then.items() if mode is not None)
    before = {path: Seen(FOLDER, mode) for path, mode in folders if now.get(path) != mode}
    return before | dict.fromkeys(new, Seen(None))


def _compare_commit(contents: Contents, step: Step, then: Survey) -> dict[str, Seen]:
    """Notes if the branch has moved; returns the earlier states of files that were as committed
    and may have changed. Saves their contents as git would check them out. Raises: GitError,
    StorageError."""
    root, now = then.root, Survey(root=then.root)
    _survey_by_git(now, "--untracked-files=no", "--", ".git")
    if not then.head:
        return {}
    if (then.head, then.branch) != (now.head, now.branch):
        step.heads.append(f"{then.branch or 'HEAD'} was at {then.head[:12]}")
    output, entries = iter(split_names(_git(root, *_DIFFERS.split(), then.head, "--"))), {}
    for about, name in zip(output, output, strict=True):
        if ".." not in name.split("/") and f"{root}/{name}" not in then.files:
            mode, _, object_id, *_ = about[1:].split(" ")
            entries[name] = f"{mode} {object_id}\t{name}\0"
    if not entries:
        return {}
    asked = os.fsencode("".join(f"{name}\0" for name in entries))
    programs = split_names(_git(root, "check-attr", "-z", "--stdin", "filter", stdin=asked))[2::3]
    with tempfile.TemporaryDirectory(prefix="kode-undo-") as folder:
        top, index = paths.real_path(folder), {"GIT_INDEX_FILE": f"{folder}/index"}
        lines = os.fsencode("".join([*entries.values()][:MAX_FILES]))
        _git(root, "update-index", "-z", "--index-info", stdin=lines, environ=index)
        with contextlib.suppress(GitError):  # an object is missing: the others are checked out
            _git(root, "checkout-index", "--all", f"--prefix={top}/files/", environ=index)
        saved = contents.save(f"{top}/files/{name}" for name in entries)
    before = {}
    for name, program, seen in zip(entries, programs, saved.values(), strict=True):
        if program not in ("unspecified", "unset"):
            seen = Seen(FILTERED)
        before[f"{root}/{name}"] = Seen(OTHER) if seen.state is None else seen
    return before
