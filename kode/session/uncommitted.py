"""What a git working tree holds that is in no commit: found without touching tree, index or refs.

`survey` is taken before a command and after it. What is kept of it, and what undo makes of it, is
`checkpoints`' business.
"""

import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kode.session.git import GitError, run_git

MAX_TRACKED = 100_000
"""In a larger repository only what differs from the last commit is looked at."""


@dataclass(frozen=True, kw_only=True)
class Tracked:
    """A file as the index has it, that was as committed."""

    object_id: str
    size_bytes: int
    """Of the file, which git may have converted."""
    mode: int


@dataclass(frozen=True, kw_only=True)
class Survey:
    root: Path
    head: str = ""
    """The commit; "" before the first."""
    branch: str = ""
    """ "" where none is checked out."""
    differing: tuple[str, ...] = ()
    """Absolute paths of files that differ from the last commit, deleted ones included."""
    untracked: tuple[str, ...] = ()
    """Absolute paths; ignored ones are not among them."""
    tracked: Mapping[str, Tracked] | None = None
    """All others, by absolute path; None where there are too many."""
    stashes: tuple[tuple[str, str], ...] = ()
    """(commit, message), the newest first."""


def survey(root: Path) -> Survey:
    """What is there now. Raises: GitError."""
    top = run_git(root, ["rev-parse", "--show-toplevel"]).decode("utf-8", "surrogateescape")
    if os.path.realpath(top.rstrip("\n")) != os.path.realpath(root):
        raise GitError("its settings place its files elsewhere")
    head, branch, differing, untracked = _status(root)
    return Survey(
        root=root,
        head=head,
        branch=branch,
        differing=differing,
        untracked=untracked,
        tracked=_tracked(root, frozenset(differing)),
        stashes=_stashes(root),
    )


def blobs(root: Path, object_ids: Iterable[str]) -> dict[str, bytes]:
    """The contents of objects that are there, as git keeps them. Raises: GitError."""
    wanted = list(dict.fromkeys(object_ids))
    given = "".join(f"{one}\n" for one in wanted).encode()
    out = run_git(root, ["cat-file", "--batch"], given=given) if wanted else b""
    found: dict[str, bytes] = {}
    at = 0
    while at < len(out):
        end = out.index(b"\n", at)
        words = out[at:end].decode("ascii", "replace").split(" ")
        at = end + 1
        if len(words) == 3:  # else: "ID missing"
            size = int(words[2])
            found[words[0]] = out[at : at + size]
            at += size + 1
    return found


def bring_back_stashes(root: Path, lost: Iterable[tuple[str, str]]) -> int:
    """Puts stashes that were dropped back in their order, newest first in `lost`; returns how many
    commits are not there any more. Raises: GitError."""
    gone = 0
    for commit, message in reversed(list(lost)):
        try:
            run_git(root, ["cat-file", "-e", f"{commit}^{{commit}}"])
        except GitError:
            gone += 1
            continue
        run_git(root, ["stash", "store", "-m", message, commit])
    return gone


def _status(root: Path) -> tuple[str, str, tuple[str, ...], tuple[str, ...]]:
    out = run_git(
        root,
        "status --porcelain=v2 -z --branch --untracked-files=all --ignore-submodules=all "
        "--no-renames".split(),
    )
    head = branch = ""
    differing, untracked = [], []
    for record in out.decode("utf-8", "surrogateescape").split("\0"):
        kind, _, rest = record.partition(" ")
        match kind:
            case "#":
                key, _, value = rest.partition(" ")
                head = value if key == "branch.oid" and value != "(initial)" else head
                branch = value if key == "branch.head" and value != "(detached)" else branch
            case "1":
                differing.append(f"{root}/{rest.split(' ', 7)[7]}")
            case "u":
                differing.append(f"{root}/{rest.split(' ', 9)[9]}")
            case "?" if not rest.endswith("/"):  # a repository inside is its own affair
                untracked.append(f"{root}/{rest}")
    return head, branch, tuple(filter(_is_inside, differing)), tuple(untracked)


def _is_inside(path: str) -> bool:
    """Whether no step of it leads up: the index is a file that somebody else may have written, and
    git takes the names in it for granted."""
    return ".." not in path.split("/")


def _tracked(root: Path, differing: frozenset[str]) -> dict[str, Tracked] | None:
    out = run_git(root, ["ls-files", "--stage", "-z"])
    if out.count(b"\0") > MAX_TRACKED:
        return None
    found = {}
    for record in out.decode("utf-8", "surrogateescape").split("\0"):
        about, _, name = record.partition("\t")
        path = f"{root}/{name}"
        if not name or path in differing or about.startswith("160000") or not _is_inside(name):
            continue
        try:
            status = os.lstat(path)
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode):
            found[path] = Tracked(
                object_id=about.split(" ")[1],
                size_bytes=status.st_size,
                mode=status.st_mode & 0o7777,
            )
    return found


def _stashes(root: Path) -> tuple[tuple[str, str], ...]:
    try:
        run_git(root, ["rev-parse", "--verify", "--quiet", "refs/stash"])
    except GitError:
        return ()
    out = run_git(root, ["log", "-g", "-z", "--format=%H %gs", "refs/stash", "--"])
    lines = out.decode("utf-8", "replace").split("\0")
    return tuple((line.partition(" ")[0], line.partition(" ")[2]) for line in lines if line)
