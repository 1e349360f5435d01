"""Runs git in a repository that somebody else may have made, and finds its uncommitted content
without touching tree, index or refs.

A repository's own settings name programs: hooks, filters, a file system monitor, programs that
show, sign or connect. None of them runs here.
"""

import os
import re
import stat
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kode.errors import GitError as GitError
from kode.paths import real_path
from kode.programs import find_program

TIMEOUT_S = 20.0  # `git status` of a very large repository on a cold disk
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


@dataclass(frozen=True, kw_only=True, slots=True)
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
    own: str = ""
    """The folder of git's records about this worktree, absolute."""
    shared: str = ""
    """The folder of those that it shares with other worktrees."""
    differing: tuple[str, ...] = ()
    """Absolute paths of files that differ from the last commit, including deleted ones."""
    untracked: tuple[str, ...] = ()
    """Absolute paths, ignored files excluded."""
    tracked: Mapping[str, Tracked] | None = None
    """All others, by absolute path; None if there are too many."""
    stashes: tuple[tuple[str, str], ...] = ()
    """(commit, message), newest first."""
    number: int = 0
    """Which look at a watched repository this is."""

    @property
    def dirty(self) -> frozenset[str]:
        """What the last commit does not restore."""
        return frozenset((*self.differing, *self.untracked))


Files = Mapping[str, os.stat_result]
"""By absolute path."""


def place(root: Path) -> Survey:
    """Where git keeps its records, and nothing else. Raises: GitError."""
    words = ["rev-parse", "--show-toplevel", "--absolute-git-dir", "--git-common-dir"]
    lines = os.fsdecode(run_git(root, words)).split("\n")
    if real_path(lines[0]) != real_path(root):
        raise GitError("its settings place its files elsewhere")
    return Survey(root=root, own=lines[1], shared=os.path.join(root, lines[2]))


def survey(root: Path, look: Callable[[frozenset[str]], Files] | None = None) -> Survey:
    """The current state of the repository. `look` gets what git ignores, as absolute paths of files
    and folders, and returns the status of all other files. Raises: GitError, and what it raises."""
    words = [] if look is None else ["--ignored=matching"]
    status = _status(place(root), ["--untracked-files=all", *words])
    files = None if look is None else look(status.ignored)
    tracked = _tracked(root, frozenset(status.survey.differing), files)
    return replace(status.survey, tracked=tracked, stashes=stashes(root))


def refs(known: Survey) -> Survey:
    """The same with commit, branch and stashes as they are now. Raises: GitError."""
    # A path that no repository has: git then looks at no file.
    found = _status(known, ["--untracked-files=no", "--", ".git/HEAD"]).survey
    stashed = stashes(known.root)
    return replace(known, head=found.head, branch=found.branch, stashes=stashed)


def staged(root: Path, commit: str) -> frozenset[str]:
    """Absolute paths of which the index differs from a commit ("": from none). Raises: GitError."""
    words = ["diff-index", "--cached", "--name-only", "--no-renames", "-z", commit, "--"]
    out = run_git(root, words if commit else ["ls-files", "-z"])
    return frozenset(f"{root}/{name}" for name in _names(out) if _is_inside(name))


def ignored_names(root: Path, names: Iterable[str], rules: Path | None = None) -> frozenset[str]:
    """Those of the names, relative to the root, that git ignores; by the rules in a folder of their
    own, if one is given. Raises: GitError."""
    given = b"".join(b"./" + os.fsencode(name) + b"\0" for name in names)
    if not given or not (root / ".git").exists():
        return frozenset()
    arguments = ["--no-literal-pathspecs", "check-ignore", "--stdin", "-z"]
    environ: dict[str, str] = {}
    if rules is not None:
        environ = {"GIT_DIR": str(root / ".git"), "GIT_WORK_TREE": str(rules)}
        # Its index knows submodules, about which git refuses to answer.
        arguments = ["-C", str(rules), *arguments, "--no-index"]
    try:
        out = run_git(root, arguments, given=given, environ=environ)
    except GitError as error:
        if error.exit_status == 1:
            return frozenset()  # none of them
        raise
    return frozenset(name[2:] for name in _names(out))


def blobs(root: Path, object_ids: Iterable[str]) -> dict[str, bytes]:
    """The contents of existing objects, as git stores them. Raises: GitError."""
    wanted = list(dict.fromkeys(object_ids))
    given = "".join(f"{one}\n" for one in wanted).encode()
    out = run_git(root, ["cat-file", "--batch"], given=given) if wanted else b""
    found: dict[str, bytes] = {}
    position = 0
    while position < len(out):
        end = out.index(b"\n", position)
        words = out[position:end].decode("ascii", "replace").split(" ")
        position = end + 1
        if len(words) == 3:  # else: "ID missing"
            size = int(words[2])
            found[words[0]] = out[position : position + size]
            position += size + 1
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


@dataclass(frozen=True, kw_only=True)
class _Status:
    survey: Survey
    ignored: frozenset[str]
    """Absolute paths of files and whole folders."""


def _status(known: Survey, words: Sequence[str]) -> _Status:
    """`known` with what git says of its files."""
    options = "--porcelain=v2 -z --branch --no-ahead-behind --ignore-submodules=all --no-renames"
    root = known.root
    head = branch = ""
    differing, untracked, ignored = [], [], []
    for record in _names(run_git(root, ["status", *options.split(), *words])):
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
            case "!":
                ignored.append(f"{root}/{rest.rstrip('/')}")
    found = replace(
        known,
        head=head,
        branch=branch,
        differing=tuple(filter(_is_inside, differing)),
        untracked=tuple(untracked),
    )
    return _Status(survey=found, ignored=frozenset(ignored))


def _names(out: bytes) -> list[str]:
    """What ends with a zero byte each."""
    return out.decode("utf-8", "surrogateescape").split("\0")[:-1]


def _is_inside(path: str) -> bool:
    """Whether no part of a path leads up: somebody else may have written the index, and git trusts
    the names in it."""
    return ".." not in path.split("/")


def _tracked(
    root: Path, differing: frozenset[str], files: Files | None
) -> dict[str, Tracked] | None:
    out = run_git(root, ["ls-files", "--stage", "-z"])
    if out.count(b"\0") > MAX_TRACKED:
        return None
    found = {}
    for record in _names(out):
        about, _, name = record.partition("\t")
        path = f"{root}/{name}"
        if path in differing or about.startswith("160000") or not _is_inside(name):
            continue
        status = _lstat(path) if files is None else files.get(path)
        if status is not None and stat.S_ISREG(status.st_mode):
            found[path] = Tracked(
                object_id=about.split(" ")[1],
                size_bytes=status.st_size,
                mode=status.st_mode & 0o7777,
            )
    return found


def _lstat(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def stashes(root: Path) -> tuple[tuple[str, str], ...]:
    """(commit, message) of each stash, newest first. Raises: GitError."""
    try:
        run_git(root, ["rev-parse", "--verify", "--quiet", "refs/stash"])
    except GitError:
        return ()
    out = run_git(root, ["log", "-g", "-z", "--format=%H %gs", "refs/stash", "--"])
    lines = out.decode("utf-8", "replace").split("\0")
    return tuple((line.partition(" ")[0], line.partition(" ")[2]) for line in lines if line)
