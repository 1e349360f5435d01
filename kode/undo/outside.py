"""What a command on the host changes: nobody sees its writes, so the working trees are surveyed
before it and after it.

Before it, everything is saved that git would not give back. Afterwards the names of all other
changed files are known, and git has their old content. Outside a repository a walk stands for git.
"""

import glob
import itertools
import os
import secrets
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from kode import paths
from kode.errors import GitError, StorageError
from kode.git import run_git, split_names
from kode.messages import plural
from kode.undo.journal import Done, RepositoryChange, Step
from kode.undo.store import FILTERED, FOLDER, LINK, WHY_NOT_SAVED, Contents, Seen
from kode.workplace import below_any

MAX_FILES = 5_000  # bounds the wait before a command
LOOKING_S = 10.0
"""Time limit for a walk."""

SKIPPED = frozenset(
    ".git node_modules .venv venv __pycache__ .tox .mypy_cache .ruff_cache .pytest_cache "
    "target".split()
)
"""Not walked outside git, where nothing says what is ignored: tools regenerate them."""

_STATUS = (
    "status --porcelain=v2 -z --branch --no-ahead-behind --ignore-submodules=all --no-renames "
    "--untracked-files=all --ignored=matching"
).split()


@dataclass(kw_only=True)
class Survey:
    """A working tree at one moment. All paths are absolute."""

    root: Path
    is_git: bool = False
    head: str = ""
    """The commit; "" before the first."""
    branch: str = ""
    """"" for a detached HEAD."""
    stashes: tuple[tuple[str, str], ...] = ()
    """(commit, message), newest first."""
    committed: dict[str, tuple[str, str]] = field(default_factory=dict)
    """(mode, object) in the commit of each tracked file that differs from it, if it is there."""
    files: set[str] = field(default_factory=set)
    """What git would not give back: changed and untracked files, and single ignored ones."""
    folders: dict[str, int] = field(default_factory=dict)
    """Each folder with its mode."""
    closed: set[str] = field(default_factory=set)
    """Folders that nobody looked into: ignored ones, and nested repositories."""
    ignored: set[str] = field(default_factory=set)
    """The ignored ones among them."""
    is_whole: bool = True
    """False if a limit ended the walk."""


@dataclass(frozen=True, kw_only=True)
class Backup:
    """What was saved before a step."""

    step: Step
    surveys: tuple[Survey, ...] = ()
    not_saved: frozenset[str] = frozenset()
    """Existing files that could not be saved, or are too large."""
    left_out_bytes: int = 0
    problem: str = ""
    """Why not everything could be looked at or saved, in a sentence."""
    written: dict[str, str] = field(default_factory=dict)
    """What a tool says it has written, as SHA-256: what comes after it is a person's doing."""

    def describe(self) -> str:
        """What was saved, for the permission question; "" if there is nothing to lose."""
        what = "The state of the project's files"
        if self.problem:
            return f"{what} could not be saved first ({self.problem}), so /undo may not restore it."
        is_saved = any(seen.state is not None for seen in self.step.before.values())
        if self.not_saved:
            count = plural(len(self.not_saved), "file")
            size = f"{max(self.left_out_bytes // 1_000_000, 1)} MB"
            if not is_saved:
                return f"{what} is too much to save ({count}, {size}): /undo cannot restore it."
            return (
                f"{what} is saved first, except for {count} ({size}), which is too much: "
                "/undo restores the rest."
            )
        is_saved = is_saved or any(survey.stashes for survey in self.surveys)
        return f"{what} is saved first; /undo restores it." if is_saved else ""


def save_files(contents: Contents, step: Step, files: Iterable[str], limit: int) -> Backup:
    """Saves the current state of these paths, the smallest first, so that what is too much leaves
    out as few as possible; larger files than `limit` bytes are left out. Never raises."""
    sizes = sorted((_size(path), path) for path in dict.fromkeys(files))
    room, left_out, fitting = contents.max_bytes // 2, dict[str, int](), list[str]()
    for size, path in sizes:
        if size > min(room, limit) or len(fitting) == MAX_FILES:
            left_out[path] = size
        else:
            room -= size
            fitting.append(path)
    problem = ""
    try:
        saved = contents.save(sorted(fitting), max_file_bytes=limit)
    except StorageError as error:
        saved = dict.fromkeys(fitting, error)
    for path, seen in saved.items():
        if isinstance(seen, StorageError):
            problem = problem or str(seen)
            left_out[path] = 0
        elif seen.state not in WHY_NOT_SAVED:
            step.before[path] = seen
        elif os.path.isfile(path):
            left_out[path] = _size(path)
    for path, seen in step.before.items():
        parents = Path(path).parents if seen.state is None else ()
        missing = [*itertools.takewhile(lambda folder: not folder.exists(), parents)]
        step.folders |= {path: len(missing)} if missing else {}
    return Backup(
        step=step,
        not_saved=frozenset(left_out),
        left_out_bytes=sum(left_out.values()),
        problem=problem,
    )


def save_trees(
    contents: Contents, step: Step, writes: Sequence[str], roots: Sequence[Path]
) -> Backup:
    """Saves what a command may lose in the working trees at `roots`, and in what it is known to
    write: paths and patterns. Never raises; may take seconds."""
    surveys: dict[Path, Survey] = {}
    files: dict[str, None] = {}
    problem = ""
    try:
        for folder in roots:
            root = paths.repository_root(folder) or Path(paths.real_path(folder))
            if root not in surveys:
                surveys[root] = survey(root)
                files |= dict.fromkeys(sorted(surveys[root].files))
        for path in _expand(writes):
            problem = _find_written(path, roots, files) or problem
    except (OSError, ValueError) as error:
        problem = str(error)
    backup = save_files(contents, step, files, contents.max_file_bytes)
    whole = tuple(surveys.values())
    return replace(backup, surveys=whole, problem=backup.problem or problem)


def find_changes(contents: Contents, backup: Backup) -> Done:
    """What has changed since, compared with the current state. Raises: StorageError."""
    step = backup.step
    before: dict[str, Seen] = {}
    repositories = []
    for then in backup.surveys:
        try:
            now = survey(then.root) if then.is_git else _walk_tree(then.root)
            if now.is_git != then.is_git:
                continue
            changed = _committed_before(then, now) if then.is_git else {}
            before |= _contents_in_git(contents, then, changed)
        except GitError:
            continue
        if then.is_whole and now.is_whole:
            before |= _made_and_removed(then, now, {*step.before, *changed})
        repositories += _repository_change(then, now)
    after = {}
    for path, was in {**before, **step.before}.items():
        seen = contents.see(path)
        seen = seen._replace(state=backup.written.get(path, seen.state))
        if seen != was:
            after[path] = seen
    before = {
        path: was for path, was in before.items() if path in after and path not in step.before
    }
    return Done(step.id, before, after, tuple(repositories))


def survey(root: Path) -> Survey:
    """The current state of a working tree, by git where there is one."""
    if (root / ".git").exists():
        try:
            return _survey_by_git(root)
        except GitError:
            pass
    return _walk_tree(root)


def _survey_by_git(root: Path) -> Survey:
    """Raises: GitError."""
    top = os.fsdecode(run_git(root, ["rev-parse", "--show-toplevel"])).rstrip("\n")
    if paths.real_path(top) != paths.real_path(root):
        raise GitError("its settings place its files elsewhere")
    tree = Survey(root=root, is_git=True)
    for record in split_names(run_git(root, _STATUS)):
        kind, _, rest = record.partition(" ")
        words = rest.split(" ", {"1": 7, "u": 9}.get(kind, 0))
        path = f"{root}/{words[-1]}"
        if kind == "#":
            key, _, value = rest.partition(" ")
            tree.head = value if key == "branch.oid" and value != "(initial)" else tree.head
            tree.branch = value if key == "branch.head" and value != "(detached)" else tree.branch
        elif ".." in path.split("/"):  # somebody may have written the index, and git trusts it
            continue
        elif path.endswith("/"):
            tree.closed.add(path.rstrip("/"))
            tree.ignored.update([path.rstrip("/")] if kind == "!" else [])
        else:
            tree.files.add(path)
            if kind in "1u":  # of an unmerged file, "ours" is the commit's
                mode, object_id = (2, 5) if kind == "1" else (3, 7)
                tree.committed[path] = words[mode], words[object_id]
    tree.stashes = stashes(root)
    _, tree.folders, tree.is_whole = _walk(str(root), closed=tree.closed)
    return tree


def stashes(root: Path) -> tuple[tuple[str, str], ...]:
    """(commit, message) of each stash, newest first."""
    try:
        out = run_git(root, ["log", "-g", "-z", "--format=%H %gs", "refs/stash", "--"])
    except GitError:
        return ()
    lines = out.decode("utf-8", "replace").split("\0")
    return tuple((line.partition(" ")[0], line.partition(" ")[2]) for line in lines if line)


def _walk_tree(root: Path) -> Survey:
    files, folders, is_whole = _walk(str(root), SKIPPED, files=True)
    return Survey(root=root, files=files, folders=folders, is_whole=is_whole)


def _walk(
    top: str,
    skipped: frozenset[str] = frozenset({".git"}),
    *,
    closed: Iterable[str] = (),
    files: bool = False,
) -> tuple[set[str], dict[str, int], bool]:
    """The files in a folder, if they are wanted, its folders with their modes, and whether no limit
    has ended the walk."""
    names: set[str] = set()
    folders: dict[str, int] = {}
    waiting, closed, ends_at = [top], set(closed), time.monotonic() + LOOKING_S
    while waiting:
        if len(names) > MAX_FILES or time.monotonic() > ends_at:
            return names, folders, False
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if not entry.is_dir(follow_symlinks=False):
                        names.update((entry.path,) if files else ())
                    elif entry.name not in skipped and entry.path not in closed:
                        mode = entry.stat(follow_symlinks=False).st_mode
                        folders[entry.path] = stat.S_IMODE(mode)
                        waiting.append(entry.path)
        except OSError:
            continue
    return names, folders, True


def _find_written(path: str, roots: Sequence[Path], files: dict[str, None]) -> str:
    """Adds what is at a path that a command writes, a folder with all that is in it; returns why
    it cannot be saved, or ""."""
    folder, name = os.path.split(path.rstrip("/") or "/")
    path, real = os.path.join(paths.real_path(folder), name), paths.real_path(path)
    is_inside = below_any(real, map(paths.real_path, roots))
    if os.path.isdir(path) and not os.path.islink(path):
        if not is_inside:  # a home, a whole disk
            return f"{path} is outside the working folders"
        names, folders, _ = _walk(path, frozenset(), files=True)
        files.update(dict.fromkeys((path, *folders, *sorted(names))))
    elif is_inside or os.path.lexists(path):
        # What is written behind a link outside is not the project's: a log in /tmp, say.
        files.update(dict.fromkeys((path, *([real] if is_inside and real != path else []))))
    return ""


def _expand(patterns: Sequence[str]) -> Iterator[str]:
    """Expands globs as a shell would; a name that exists with its marks counts as well."""
    for pattern in patterns:
        is_name = not glob.has_magic(pattern) or os.path.lexists(pattern)
        yield from [pattern] if is_name else glob.glob(pattern, recursive=True)


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


# ── after the command ────────────────────────────────────────────────────────────────────────


def _committed_before(then: Survey, now: Survey) -> dict[str, tuple[str, str]]:
    """(mode, object) of each file that was as committed and may have changed. Raises: GitError."""
    committed = dict(now.committed)
    if then.head and now.head != then.head:
        # A branch without a commit has no tree to compare with.
        words = ["diff-tree", "-r", then.head, now.head] if now.head else ["diff-index", then.head]
        words = [words[0], "-z", "--no-renames", *words[1:]]
        fields = iter(split_names(run_git(then.root, words)))
        for about, name in zip(fields, fields, strict=False):
            mode, _, object_id, *_ = about.lstrip(":").split(" ")
            committed[f"{then.root}/{name}"] = mode, object_id
    return {
        path: of
        for path, of in committed.items()
        if path not in then.files and of[0] not in ("000000", "160000") and then.head
    }


def _contents_in_git(
    contents: Contents, then: Survey, committed: Mapping[str, tuple[str, str]]
) -> dict[str, Seen]:
    """What these files held in the commit, with the line ends of the working tree; all of it is
    saved. Raises: GitError, StorageError."""
    names = [path for path in sorted(committed) if "\n" not in path][:MAX_FILES]
    if not names:
        return {}
    root, start = then.root, len(str(then.root)) + 1
    given = b"".join(os.fsencode(path[start:]) + b"\0" for path in names)
    values = split_names(run_git(root, ["check-attr", "-z", "--stdin", "filter"], given=given))[
        2::3
    ]
    of = dict(zip(names, values, strict=True))
    before = {path: Seen(FILTERED) for path in names if of[path] not in ("unspecified", "unset")}
    given = "".join(f"{committed[path][1]}\n" for path in names).encode()
    lines = run_git(root, ["cat-file", "--batch-check"], given=given).decode().splitlines()
    fitting, room = [], contents.max_bytes // 2
    for path, (_, *words) in zip(names, map(str.split, lines), strict=True):
        size = int(words[1]) if len(words) == 2 else room + 1  # else it is missing
        if path not in before and size <= min(room, contents.max_file_bytes):
            room -= size
            fitting.append(path)
    objects = [(committed[path][1], path[start:]) for path in fitting]
    data = dict(zip(fitting, _read_objects(root, objects), strict=True))
    links = {path for path in fitting if committed[path][0] == "120000"}
    before |= {path: Seen(LINK + os.fsdecode(data[path])) for path in links}
    files = [path for path in fitting if path not in links]
    states = contents.put(*(data[path] for path in files))
    return before | {
        path: Seen(state, _mode_before(path, committed[path][0] == "100755"))
        for path, state in zip(files, states, strict=True)
    }


def _read_objects(root: Path, objects: Sequence[tuple[str, str]]) -> list[bytes]:
    """The contents of existing objects as at these names in the tree. Raises: GitError."""
    if not objects:
        return []
    # git prints the size before it converts the line ends, so the end of a content is found by
    # words that nobody can have put into it.
    mark = secrets.token_hex(16)
    given = b"".join(b"%s %s\n" % (id.encode(), os.fsencode(name)) for id, name in objects)
    out = run_git(root, ["cat-file", f"--batch={mark}", "--filters"], given=given)
    found = [data.removesuffix(b"\n") for data in out.split(f"{mark}\n".encode())[1:]]
    if len(found) != len(objects):
        raise GitError("git could not read its objects")
    return found


def _mode_before(path: str, is_program: bool) -> int:
    """The mode of a file of which git knows only whether it is a program."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        mode = 0
    mode = stat.S_IMODE(mode) if stat.S_ISREG(mode) else 0o644
    return mode | (mode & 0o444) >> 2 if is_program else mode & ~0o111


def _made_and_removed(then: Survey, now: Survey, known: set[str]) -> dict[str, Seen]:
    """The earlier state of what was made, and of folders that were removed or got another mode, but
    for the `known` paths. A new folder that git ignores is looked into."""
    made = {*now.files, *now.folders}
    for folder in now.ignored - then.closed - then.folders.keys():
        files, folders, is_whole = _walk(folder, frozenset(), files=True)
        made |= {folder, *files, *folders} if is_whole else set()
    made -= {*then.files, *then.folders}
    closed = tuple(f"{folder}/" for folder in then.closed)
    before = {path: Seen(None) for path in made if not f"{path}/".startswith(closed)}
    before |= {
        path: Seen(FOLDER, mode)
        for path, mode in then.folders.items()
        if now.folders.get(path) != mode
    }
    return {path: seen for path, seen in before.items() if path not in known}


def _repository_change(then: Survey, now: Survey) -> list[RepositoryChange]:
    """What became of branch and stashes; empty if they are as they were."""
    lost = tuple(stash for stash in then.stashes if stash not in now.stashes)
    switched = then.branch != now.branch
    moved = switched or then.head != now.head
    if not (lost or moved):
        return []
    return [
        RepositoryChange(
            root=str(then.root),
            head=then.head if moved else "",
            branch=then.branch,
            switched=switched,
            stashes=lost,
        )
    ]


def bring_back_stashes(root: Path, lost: Iterable[tuple[str, str]]) -> tuple[int, int]:
    """Restores dropped stashes in their order (`lost` is newest first); returns how many are back,
    and how many commits no longer exist. Raises: GitError."""
    present = {commit for commit, _ in stashes(root)}
    back = gone = 0
    for commit, message in reversed([stash for stash in lost if stash[0] not in present]):
        try:
            run_git(root, ["cat-file", "-e", f"{commit}^{{commit}}"])
        except GitError:
            gone += 1
            continue
        run_git(root, ["stash", "store", "-m", message, commit])
        back += 1
    return back, gone
