"""Runs git in a repository that somebody else may have made, and finds its uncommitted content
without touching tree, index or refs.

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

from kode.errors import GitError as GitError
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
    # Do not fetch missing objects. The list of protocols comes from the environment, because a
    # repository may allow itself `ext::COMMAND`, and versions before 2.44 know no other way.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "",
    "LC_ALL": "C",
}
_OF_FILTER = re.compile(r"filter\..*\.(?:clean|smudge|process|required)\Z", re.DOTALL)
_OF_HOOK = re.compile(r"(hook\..*)\.[^.]*\Z", re.DOTALL)
"""Since git 2.54 settings name hooks too, and `core.hooksPath` does not turn those off."""
_NOT_PASSED_ON = (
    "GIT_DIR",
    "GIT_COMMON_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
)


def run_git(
    root: Path,
    arguments: Sequence[str],
    *,
    given: bytes = b"",
    environ: Mapping[str, str] = NOTHING,
    timeout_s: float = TIMEOUT_S,
) -> bytes:
    """Runs git in `root` and returns its output, without any program that the repository names.
    `environ` are variables of git: another index, another object folder.

    Raises: GitError.
    """
    more = {**_without_programs(root, environ), **environ}
    return _run(root, arguments, given, more, timeout_s)


def environment() -> dict[str, str]:
    """The variables to start git with, besides `OPTIONS`."""
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
        words = f"git said: {said[:200]}" if said else "git failed"
        raise GitError(words, exit_status=done.returncode)
    return done.stdout


def _without_programs(root: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Settings that empty every filter of the repository or the person, which git would run to
    compare a file with its index, and turn off every hook that is named in the settings. Passed by
    the environment, because a name may hold any bytes, also invalid UTF-8.

    Raises: GitError; then its programs are unknown, and nothing may run.
    """
    listed = os.fsdecode(_run(root, ["config", "--null", "--name-only", "--list"], b"", environ))
    off: dict[str, str] = {}
    for name in listed.split("\0"):
        if _OF_FILTER.match(name):
            off[name] = "false" if name.endswith(".required") else ""
        elif hook := _OF_HOOK.match(name):
            off[f"{hook[1]}.enabled"] = "false"
    settings = {"GIT_CONFIG_COUNT": str(len(off))}
    for index, (name, value) in enumerate(off.items()):
        settings[f"GIT_CONFIG_KEY_{index}"] = name
        settings[f"GIT_CONFIG_VALUE_{index}"] = value
    return settings


MAX_TRACKED = 100_000
"""In a larger repository only differences from the last commit are examined."""


@dataclass(frozen=True, kw_only=True)
class Tracked:
    """An unmodified file, as in the index."""

    object_id: str
    size_bytes: int
    """Size of the file, which git may have converted."""
    mode: int


@dataclass(frozen=True, kw_only=True)
class Survey:
    root: Path
    head: str = ""
    """The commit; "" before the first."""
    branch: str = ""
    """"" for a detached HEAD."""
    differing: tuple[str, ...] = ()
    """Absolute paths of files that differ from the last commit, including deleted ones."""
    untracked: tuple[str, ...] = ()
    """Absolute paths, ignored files excluded."""
    tracked: Mapping[str, Tracked] | None = None
    """All others, by absolute path; None if there are too many."""
    stashes: tuple[tuple[str, str], ...] = ()
    """(commit, message), newest first."""


def survey(root: Path) -> Survey:
    """The current state of the repository. Raises: GitError."""
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
    """The contents of existing objects, as git stores them. Raises: GitError."""
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
    """Restores dropped stashes in their order (`lost` is newest first); returns how many commits no
    longer exist. Raises: GitError."""
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
            case "?" if not rest.endswith("/"):  # a nested repository is its own affair
                untracked.append(f"{root}/{rest}")
    return head, branch, tuple(filter(_is_inside, differing)), tuple(untracked)


def _is_inside(path: str) -> bool:
    """Whether no part of a path leads up: somebody else may have written the index, and git trusts
    the names in it."""
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
