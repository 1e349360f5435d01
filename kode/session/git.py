"""Runs git to look at a repository that somebody else may have made, and finds what its working
tree holds that is in no commit, without touching tree, index or refs.

A repository's own settings name programs: hooks, filters, a file system monitor, programs that
show, sign or connect. None of them runs here.
"""

import os
import re
import stat
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kode.programs import find_program

TIMEOUT_S = 20.0
NOTHING: Mapping[str, str] = {}

OPTIONS = (
    *("--no-optional-locks", "--no-pager", "--literal-pathspecs", "--no-replace-objects"),
    *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"),
    *("-c", "core.untrackedCache=keep", "-c", "diff.external=", "-c", "log.showSignature=false"),
    *("-c", "core.sshCommand=false", "-c", "core.askPass="),
    *("-c", "core.quotePath=false", "-c", "status.relativePaths=false"),
)
ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    # What is missing is not fetched. The list of protocols is the environment's, since a repository
    # may allow itself `ext::COMMAND`, and versions before 2.44 know no other way.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "",
    "LC_ALL": "C",
}
_OF_FILTER = re.compile(r"filter\..*\.(?:clean|smudge|process|required)\Z", re.DOTALL)
_NOT_PASSED_ON = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY")


class GitError(Exception):
    """git is missing, took too long, or refused. The text says which, in a few words."""


def run_git(
    root: Path,
    arguments: Sequence[str],
    *,
    given: bytes = b"",
    environ: Mapping[str, str] = NOTHING,
    timeout_s: float = TIMEOUT_S,
) -> bytes:
    """What git prints in `root`, without running any program that the repository names. `environ`
    are variables of git: another index, another folder of objects.

    Raises: GitError.
    """
    more = {**_without_filters(root, environ), **environ}
    return _run(root, arguments, given, more, timeout_s)


def environment() -> dict[str, str]:
    """What git is to be started with, besides `OPTIONS`."""
    passed = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED_ON}
    return {**passed, **ENVIRONMENT}


def _run(
    root: Path,
    arguments: Sequence[str],
    given: bytes,
    more: Mapping[str, str],
    timeout_s: float = TIMEOUT_S,
) -> bytes:
    program = find_program("git", [root])
    if program is None:
        raise GitError("git is not installed")
    try:
        done = subprocess.run(
            [program, *OPTIONS, *arguments],
            cwd=root,
            env={**environment(), **more},
            input=given,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise GitError(f"git took longer than {timeout_s:g} s") from None
    except OSError as error:
        raise GitError(f"git could not be started: {error.strerror}") from None
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
        raise GitError(f"git said: {said[:200]}" if said else "git failed")
    return done.stdout


def _without_filters(root: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Settings that empty every filter the repository or the person has set: git would run them
    to compare a file with its index. Given by the environment, since a name may hold anything,
    also what is no UTF-8.

    Raises: GitError; then nothing is known of its filters, and nothing may run.
    """
    listed = os.fsdecode(_run(root, ["config", "--null", "--name-only", "--list"], b"", environ))
    names = [name for name in dict.fromkeys(listed.split("\0")) if _OF_FILTER.match(name)]
    settings = {"GIT_CONFIG_COUNT": str(len(names))}
    for index, name in enumerate(names):
        settings[f"GIT_CONFIG_KEY_{index}"] = name
        settings[f"GIT_CONFIG_VALUE_{index}"] = "false" if name.endswith(".required") else ""
    return settings


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
