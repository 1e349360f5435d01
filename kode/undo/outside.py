"""What a step may change, saved before it, and what it has changed, found after it.

The files of an edit or of a sandboxed command are known. Nobody sees what a command on the host
writes, so its working trees are surveyed: before it, all is saved that git would not give back.
Afterwards the names of all other changed files are known, and git has their old content. Outside a
repository a walk stands for git.
"""

import contextlib
import glob
import os
import stat
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kode import paths
from kode.errors import GitError, StorageError
from kode.git import NOTHING, run_git, split_names
from kode.messages import plural
from kode.undo.journal import Step
from kode.undo.store import FILTERED, FOLDER, OTHER, WHY_NOT_SAVED, Contents, Seen
from kode.workplace import below_any

MAX_FILES = 5_000  # bounds the wait before a command
MAX_NAMES = 500_000  # in a repository, where names alone are looked at
LOOKING_S = 10.0
"""Time limit for a walk."""

SKIPPED = frozenset(
    "node_modules .venv venv __pycache__ .tox .mypy_cache .ruff_cache .pytest_cache target".split()
)
"""Not walked outside git, where nothing says what is ignored: tools regenerate them."""

_STATUS = "status --porcelain=v2 -z --branch --no-ahead-behind --ignore-submodules=all --no-renames"
_DIFFERS = "diff-index -z --no-renames --ignore-submodules=all --diff-filter=a"


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
    single ones that git ignores."""
    unvisited: set[str] = field(default_factory=set)
    """Folders that nobody looks into: ignored ones, and nested repositories."""
    names: dict[str, int | None] = field(default_factory=dict)
    """All that is in it: of a folder its mode, of anything else None."""
    is_whole: bool = True
    """False if a limit ended the walk."""


@dataclass(kw_only=True)
class RunningStep(Step):
    """A step between its begin and its end."""

    surveys: list[Survey] = field(default_factory=list)
    not_saved: set[str] = field(default_factory=set)
    """Existing files that could not be saved, or are too large."""
    problem: str = ""
    """Why not everything could be looked at or saved, in a sentence."""
    written: dict[str, str] = field(default_factory=dict)
    """What a tool says it has written, as SHA-256: what comes after it is a person's doing."""

    def describe(self) -> str:
        """What was saved before a command on the host; "" if there is nothing to lose."""
        what = "The state of the project's files"
        if self.problem or self.not_saved:
            why = self.problem or f"{plural(len(self.not_saved), 'file')} too large"
            return f"{what} could not be saved first ({why}), so /undo may not restore it."
        has_content = any(seen.state is not None for seen in self.before.values())
        return f"{what} is saved first; /undo restores it." if has_content else ""


def save_files(contents: Contents, step: RunningStep, files: Iterable[str], limit: int) -> None:
    """Saves the current state of these paths, the smallest first, so that what is too much leaves
    out as few as possible; larger files than `limit` bytes are left out. Never raises."""
    sizes = dict.fromkeys(files, 0)
    for path in sizes:
        with contextlib.suppress(OSError):
            sizes[path] = os.lstat(path).st_size
    left_bytes, fitting = contents.max_bytes // 2, list[str]()
    for path in sorted(sizes, key=sizes.__getitem__):
        if sizes[path] > min(left_bytes, limit) or len(fitting) == MAX_FILES:
            step.not_saved.add(path)
        else:
            left_bytes -= sizes[path]
            fitting.append(path)
    for path, seen in contents.save(sorted(fitting), max_file_bytes=limit).items():
        if isinstance(seen, StorageError) or seen.state in WHY_NOT_SAVED:
            step.problem = step.problem or (str(seen) if isinstance(seen, StorageError) else "")
            step.not_saved |= {path} if os.path.isfile(path) else set()
            continue
        step.before[path] = seen
        folder = os.path.dirname(path)
        while seen.state is None and not os.path.lexists(folder):
            step.before[folder], folder = Seen(None), os.path.dirname(folder)


def save_trees(
    contents: Contents, step: RunningStep, writes: Iterable[str], roots: Sequence[Path]
) -> None:
    """Saves what a command may lose in the working trees at `roots`, and in what it is known to
    write: paths and patterns. Never raises; may take seconds."""
    files: list[str] = []
    try:
        trees = (paths.repository_root(root) or Path(paths.real_path(root)) for root in roots)
        for tree in dict.fromkeys(trees):
            step.surveys.append(now := survey(tree))
            files += now.files
            step.problem = step.problem if now.is_whole else f"{tree} holds too many files"
        for pattern in writes:  # a name that exists with its marks counts as well
            is_name = not glob.has_magic(pattern) or os.path.lexists(pattern)
            for path in [pattern] if is_name else glob.iglob(pattern, recursive=True):
                files += _find_written(step, path, roots)
    except (OSError, ValueError) as error:
        step.problem = str(error)
    save_files(contents, step, files, contents.max_file_bytes)


def find_changes(contents: Contents, step: RunningStep) -> dict[str, Seen]:
    """Notes in the step what has changed since; returns the earlier states of files that were not
    known to be at stake. `problem` says why some may not be known. Raises: StorageError."""
    before: dict[str, Seen] = {}
    for then in step.surveys:
        names, is_whole = _walk(then)
        if is_whole and then.is_whole:
            before |= _compare_names(then, names)
        try:
            before |= _compare_commit(contents, step, then) if then.is_git else {}
        except (GitError, OSError) as error:
            step.problem = str(error)
    step.after = {}
    for path, was in (before | step.before).items():
        now = contents.see(path)
        now = now._replace(state=step.written.get(path, now.state))
        if now != was:
            step.after[path] = now
    more = {path: was for path, was in before.items() if path in step.after.keys() - step.before}
    step.before |= more
    return more


def survey(root: Path) -> Survey:
    """The current state of a working tree, by git where there is one."""
    tree = Survey(root=root)
    if os.path.lexists(root / ".git"):
        with contextlib.suppress(GitError):
            _ask_git(tree, "--untracked-files=all", "--ignored=matching")
    tree.names, tree.is_whole = _walk(tree)
    if not tree.is_git:
        tree.files = {path for path, mode in tree.names.items() if mode is None}
    return tree


def _git(
    root: Path, *words: str, given: bytes = b"", environ: Mapping[str, str] = NOTHING
) -> bytes:
    """Runs git for the files that are here: its settings may place them elsewhere. Raises:
    GitError."""
    return run_git(root, words, given=given, environ={"GIT_WORK_TREE": str(root), **environ})


def _ask_git(tree: Survey, *words: str) -> None:
    """Notes what git says of a tree. Raises: GitError."""
    for record in split_names(_git(tree.root, *_STATUS.split(), *words)):
        kind, _, rest = record.partition(" ")
        path = f"{tree.root}/{rest.split(' ', {'1': 7, 'u': 9}.get(kind, 0))[-1]}"
        if kind == "#":
            key, _, value = rest.partition(" ")
            tree.head = value if key == "branch.oid" and value != "(initial)" else tree.head
            tree.branch = value if key == "branch.head" and value != "(detached)" else tree.branch
        elif ".." not in path.split("/"):  # somebody may have written the index, and git trusts it
            (tree.unvisited if path.endswith("/") else tree.files).add(path.rstrip("/"))
    tree.is_git = True


def _walk(tree: Survey) -> tuple[dict[str, int | None], bool]:
    """What is in it, but for closed folders; and whether no limit has ended the walk."""
    names: dict[str, int | None] = {}
    top = str(tree.root)
    skipped, limit = ((), MAX_NAMES) if tree.is_git else (SKIPPED, MAX_FILES)
    waiting, ends_at = [top], time.monotonic() + LOOKING_S
    while waiting:
        if len(names) > limit or time.monotonic() > ends_at:
            return names, False
        folder = waiting.pop()
        with contextlib.suppress(OSError):
            with os.scandir(folder) as scan:
                entries = {entry.name: entry for entry in scan}
            if entries.pop(".git", None) is not None and folder != top:
                tree.unvisited.add(folder)  # a tree of its own
                continue
            for name, entry in entries.items():
                if not entry.is_dir(follow_symlinks=False):
                    names[entry.path] = None
                elif entry.path not in tree.unvisited and name not in skipped:
                    names[entry.path] = stat.S_IMODE(entry.stat(follow_symlinks=False).st_mode)
                    waiting.append(entry.path)
    return names, True


def _find_written(step: RunningStep, path: str, roots: Sequence[Path]) -> list[str]:
    """What is at a path that a command writes, a folder with all that is in it."""
    folder, name = os.path.split(path.rstrip("/") or "/")
    path, real = os.path.join(paths.real_path(folder), name), paths.real_path(path)
    is_inside = below_any(real, map(paths.real_path, roots))
    if os.path.isdir(path) and not os.path.islink(path):
        if not is_inside:  # a home, a whole disk
            step.problem = f"{path} is outside the working folders"
            return []
        return [path, *map(str, Path(path).rglob("*"))]
    # What is written behind a link that leads outside is not the project's: a log in /tmp, say.
    return [path, *([real] if is_inside else [])] if is_inside or os.path.lexists(path) else []


# ── after the command ────────────────────────────────────────────────────────────────────────


def _compare_names(then: Survey, names: Mapping[str, int | None]) -> dict[str, Seen]:
    """The earlier states of what was made, and of folders that were removed or have another mode.
    Of too much, only the outermost: undo then names it."""
    new = names.keys() - then.names.keys()
    if len(new) > MAX_FILES:
        new = {path for path in new if os.path.dirname(path) not in new}
    folders = ((path, mode) for path, mode in then.names.items() if mode is not None)
    before = {path: Seen(FOLDER, mode) for path, mode in folders if names.get(path) != mode}
    return before | dict.fromkeys(new, Seen(None))


def _compare_commit(contents: Contents, step: RunningStep, then: Survey) -> dict[str, Seen]:
    """Notes what became of the branch; returns what the files held that were as committed and may
    have changed: as git puts them into a working tree, all of it saved. Raises: GitError,
    StorageError."""
    root, now = then.root, Survey(root=then.root)
    _ask_git(now, "--untracked-files=no", "--", ".git")
    if then.head and (then.head, then.branch) != (now.head, now.branch):
        step.heads.append(f"{then.branch or 'HEAD'} was at {then.head[:12]}")
    output = split_names(_git(root, *_DIFFERS.split(), then.head, "--")) if then.head else []
    committed = {
        name: about[1:].split(" ") for about, name in zip(*[iter(output)] * 2, strict=True)
    }
    inside = (name for name in sorted(committed) if ".." not in name.split("/"))
    names = [name for name in inside if f"{root}/{name}" not in then.files]
    if not names:
        return {}
    lines = b"".join(os.fsencode(name) + b"\0" for name in names)
    programs = split_names(_git(root, "check-attr", "-z", "--stdin", "filter", given=lines))[2::3]
    with tempfile.TemporaryDirectory(prefix="kode-undo-") as folder:
        top, index = paths.real_path(folder), {"GIT_INDEX_FILE": f"{folder}/index"}
        lines = b"".join(
            b"%s %s\t%s\0" % (mode.encode(), object_id.encode(), os.fsencode(name))
            for name in names[:MAX_FILES]
            for mode, _, object_id, *_ in [committed[name]]
        )
        _git(root, "update-index", "-z", "--index-info", given=lines, environ=index)
        with contextlib.suppress(GitError):  # an object is missing: the others are there
            _git(root, "checkout-index", "--all", f"--prefix={top}/files/", environ=index)
        saved = contents.save(f"{top}/files/{name}" for name in names)
    before = {}
    for name, program, seen in zip(names, programs, saved.values(), strict=True):
        if program not in ("unspecified", "unset"):
            seen = Seen(FILTERED)
        is_there = isinstance(seen, Seen) and seen.state is not None
        before[f"{root}/{name}"] = seen if isinstance(seen, Seen) and is_there else Seen(OTHER)
    return before
