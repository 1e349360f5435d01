"""The folders in which git keeps its records of a working tree, and what a command may do there.

A tree's `.git` is such a folder, a link to one, or a file that names one: of a linked worktree, of
a submodule, or of `git init --separate-git-dir`. They are found by reading files; no program runs.
"""

import contextlib
import itertools
import os
import re
import struct
import subprocess
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from kode.beneath import real_path
from kode.errors import GitError
from kode.process import find_program
from kode.workplace import GitFolder, is_below, is_below_any

MAX_MODULE_FOLDERS = 1_000
"""The most folders that are searched for submodules of one tree."""

MAX_COMPARED_FILES = 100
"""The most files of a tree that are compared with an index."""

_READ_BYTES = 1 << 20  # of an index of ten thousand files; settings have far less

_URL_OF_ORIGIN = re.compile(
    r'^\[remote "origin"\].*\n(?:(?!\[).*\n)*?[ \t]*url[ \t]*=[ \t]*(\S+)', re.M
)
_ADDRESS = re.compile(
    r"(?:[a-z+]+://(?:[^@/]*@)?([\w.-]+)(?::\d+)?/|(?:[^@/:]+@)?([^/:]+):(?!//))/*(.+?)(?:\.git)?/*"
)
"""A URL, or an address like `git@host:path`, which is none."""

RECORDS = (
    # What is committed, staged and checked out, and how that came about
    "HEAD ORIG_HEAD index packed-refs logs refs/heads refs/tags refs/stash COMMIT_EDITMSG "
    "objects/[0-9a-f][0-9a-f] objects/pack objects/info/commit-graph objects/info/commit-graphs "
    "objects/info/packs info/refs "
    # A merge, a pick or a revert that waits for the person; it runs nothing
    "MERGE_HEAD MERGE_MSG MERGE_MODE MERGE_RR AUTO_MERGE SQUASH_MSG CHERRY_PICK_HEAD REVERT_HEAD "
    # Notes of git to itself
    "gc.log gc.pid"
).split()
"""All paths in a git folder that a command may change, with everything below them: git only shows,
compares and checks them out. Any other file can make git run a program (hooks, settings, the rest
of a rebase), or take objects and refs from elsewhere (alternates, replace, shallow)."""

_SHARED = ("objects/", "refs/heads", "refs/tags", "logs", "packed-refs", "info/refs")
"""Prefixes of the records that a command in one of several worktrees may change for all of them."""


def _compile_names(names: Iterable[str], *, before: str = "") -> re.Pattern[str]:
    return re.compile(rf"{before}(?:{'|'.join(map(str.casefold, names))})(?:\.lock|/.*)?")


_RECORD = _compile_names(RECORDS, before="(?:worktrees/[^/]+/)?")
_SHARED_RECORD = _compile_names(name for name in RECORDS if name.startswith(_SHARED))
_CONFIGURED_TREE = re.compile(r'^[ \t]*worktree[ \t]*=[ \t]*"?(.*?)"?[ \t]*$', re.M | re.I)


def git_folders(roots: Iterable[Path]) -> tuple[GitFolder, ...]:
    """The git folders of the working trees at `roots` and of their submodules, outermost folders
    first. A root may be a git folder itself.

    A git folder outside all roots is included only if it belongs to the user and itself names the
    tree: the tree's own reference to it may have been written by anybody. Never raises.
    """
    real_roots = [real_path(root) for root in roots]
    folders: dict[str, GitFolder] = {}
    for root in real_roots:
        with contextlib.suppress(OSError):  # a named folder that cannot be looked at
            for folder in _find_folders(root, real_roots):
                if folder.worktree or folder.path not in folders:
                    folders[folder.path] = folder
    return tuple(sorted(folders.values(), key=lambda folder: folder.path))


def git_record(folders: Sequence[GitFolder], path: str) -> Literal["record", "runs", ""]:
    """What an absolute path is to git: `record`, which a command may change; `runs`, a file that
    can make git run programs or read another repository; "" if the path is not git's.

    The nearest of `folders` decides. A repository that is not among them is recognized by `.git`.
    """
    folded = fold_path(path)
    around = [folder for folder in folders if is_below(folded, fold_path(folder.path))]
    nearest = max(around, key=lambda folder: len(folder.path), default=None)
    if nearest is None:
        outer, _, name = folded.rpartition("/.git/")
        if not outer:
            return "runs" if os.path.basename(folded) == ".git" else ""
    else:
        name = folded[len(fold_path(nearest.path)) + 1 :]
    is_shared = nearest is not None and not nearest.worktree
    return "record" if (_SHARED_RECORD if is_shared else _RECORD).fullmatch(name) else "runs"


def settings_folders(tree: str) -> tuple[str, str]:
    """The folders with the settings that git obeys in a tree, whoever owns them: the one of this
    tree alone, then the one that all worktrees share, which has the hooks. Both are the tree's
    `.git` unless that names another folder."""
    path = _find_git_folder(tree) or f"{tree}/.git"
    return path, _shared_folder(path) or path


def repository_name(tree: Path) -> str:
    """The name of a repository that is the same on every machine: the address of its `origin`
    without protocol and user, as `github.com/org/repo`; "" if it has no `origin`."""
    url = _URL_OF_ORIGIN.search(_read_text(f"{settings_folders(str(tree))[1]}/config"))
    address = url and _ADDRESS.fullmatch(url[1])
    return f"{(address[1] or address[2]).lower()}/{address[3]}" if address else ""


def git_folder_above(path: str) -> str:
    """The nearest folder around an absolute path in which git keeps records; "" for none."""
    return next((it for it in map(str, Path(path).parents) if _is_git_folder(it)), "")


def fold_path(path: str) -> str:
    """The form in which file systems that ignore case compare a path, without invisible marks."""
    if path.isascii():
        return path.lower()
    composed = unicodedata.normalize("NFC", path).casefold()
    return "".join(c for c in composed if unicodedata.category(c) != "Cf")


def _find_folders(root: str, roots: Sequence[str]) -> Iterator[GitFolder]:
    if _is_git_folder(root):
        yield GitFolder(path=root, worktree="")
    path = _find_git_folder(root)
    if not _is_git_folder(path) or is_below(root, path):
        return
    if not is_below_any(path, roots) and not (_is_owned_by_user(path) and _names_tree(path, root)):
        return
    yield GitFolder(path=path, worktree=root)
    yield from _list_submodules(path, root)
    if shared := _shared_folder(path):
        # Only somebody who may write in the shared folder can have made the other in it.
        is_within = os.path.dirname(path) == f"{shared}/worktrees" and _is_owned_by_user(shared)
        if (is_within or is_below_any(shared, roots)) and not is_below(root, shared):
            yield GitFolder(path=shared, worktree="")


def _find_git_folder(tree: str) -> str:
    """The folder that a tree's `.git` is or names; "" for none."""
    link = f"{tree}/.git"
    if os.path.isdir(link):
        return real_path(link)
    word, _, name = _read_text(link).partition(":")
    return real_path(os.path.join(tree, name.strip())) if word == "gitdir" else ""


def _shared_folder(path: str) -> str:
    """The folder that a git folder names as shared with other worktrees; "" for none."""
    name = _read_text(f"{path}/commondir").strip()
    return real_path(os.path.join(path, name)) if name else ""


def _is_git_folder(path: str) -> bool:
    """Whether a folder has the files without which git does not accept it as a repository."""
    if not path or not os.path.lexists(f"{path}/HEAD"):
        return False
    parts = all(os.path.isdir(f"{path}/{name}") for name in ("objects", "refs"))
    return parts or os.path.isfile(f"{path}/commondir")


def _is_owned_by_user(path: str) -> bool:
    return os.stat(path).st_uid == os.geteuid()


def _names_tree(path: str, tree: str) -> bool:
    """Whether git's folder says that its tree is this one: as a worktree, a submodule, or by its
    index."""
    if link := _read_text(f"{path}/gitdir").strip():
        folder, name = os.path.split(os.path.join(path, link))
        return name == ".git" and real_path(folder) == tree
    configured = _read_configured_tree(path)
    return configured == tree if configured else _has_indexed(path, tree)


def _read_configured_tree(path: str) -> str:
    """The tree in the settings of git's folder; "" for none."""
    settings = "\n".join(_read_text(f"{path}/{name}") for name in ("config", "config.worktree"))
    values = _CONFIGURED_TREE.findall(settings)
    return real_path(os.path.join(path, values[-1])) if values else ""


def _has_indexed(path: str, tree: str) -> bool:
    """Whether the index has the exact size and time of a file in the tree, as after a checkout
    there: who only made the tree cannot know the time, which counts in nanoseconds."""
    index = _read_bytes(f"{path}/index")
    with contextlib.suppress(OSError), os.scandir(tree) as files:
        for file in itertools.islice(files, MAX_COMPARED_FILES):
            status = file.stat(follow_symlinks=False)
            seconds, nanoseconds = divmod(status.st_mtime_ns, 1_000_000_000)
            when = re.escape(struct.pack(">II", seconds % 2**32, nanoseconds))
            size = re.escape(struct.pack(">I", status.st_size % 2**32))
            name = re.escape(os.fsencode(file.name))
            entry = when + b".{20}" + size + b".{22,24}" + name + b"\\0"
            if nanoseconds and re.search(entry, index, re.DOTALL):
                return True
    return False


def _list_submodules(path: str, tree: str) -> Iterator[GitFolder]:
    walk = os.walk(f"{path}/modules")
    for folder, names, _ in itertools.islice(walk, MAX_MODULE_FOLDERS):
        if _is_git_folder(folder):
            is_inside = is_below(worktree := _read_configured_tree(folder), tree)
            if is_inside:
                yield GitFolder(path=folder, worktree=worktree)
            names[:] = {"modules"}.intersection(names) if is_inside else ()


def _read_text(path: str) -> str:
    return os.fsdecode(_read_bytes(path)).replace("\0", "")


def _read_bytes(path: str) -> bytes:
    """The beginning of a regular file; b"" for anything else."""
    with contextlib.suppress(OSError, ValueError):
        if os.path.isfile(path):
            with open(path, "rb") as file:
                return file.read(_READ_BYTES)
    return b""


# ── running git ──────────────────────────────────────────────────────────────────────────────
#
# A repository that somebody else may have made names programs in its settings: hooks, filters, a
# file system monitor, programs that show, sign or connect. None of them runs here.

TIMEOUT_S = 20.0  # `git status` of a very large repository on a cold disk

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
_OF_A_REPOSITORY = (
    "GIT_DIR GIT_COMMON_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY".split()
)


def run_git(
    root: Path,
    arguments: Sequence[str],
    *,
    stdin: bytes = b"",
    environ: Mapping[str, str] = {},
    timeout_s: float = TIMEOUT_S,
) -> bytes:
    """Runs git in `root` and returns its output, without any program that the repository names.
    `environ` are variables of git: another index, another object folder. Raises: GitError."""
    return _spawn(root, arguments, {**_disable_filters(root, environ), **environ}, stdin, timeout_s)


def _spawn(
    root: Path, arguments: Sequence[str], environ: Mapping[str, str], stdin: bytes, timeout_s: float
) -> bytes:
    program = find_program("git", [root])
    if program is None:
        raise GitError("git is not installed")
    passed = {name: value for name, value in os.environ.items() if name not in _OF_A_REPOSITORY}
    try:
        done = subprocess.run(
            [program, *OPTIONS, *arguments],
            cwd=root,
            env={**passed, **ENVIRONMENT, **environ},
            input=stdin,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise GitError(f"git took longer than {timeout_s:g} s") from None
    except OSError as error:
        raise GitError(f"git could not be started: {error.strerror}") from None
    if done.returncode != 0:
        complaint = done.stderr.decode("utf-8", "replace").strip().partition("\n")[0].rstrip(".")
        text = f"git said: {complaint[:200]}" if complaint else "git failed"
        raise GitError(text, exit_status=done.returncode)
    return done.stdout


def _disable_filters(root: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Environment with settings that empty every filter of the repository or the person, which git
    would run to compare a file with its index, and turn off every hook that settings name. They
    are not passed as arguments, because a name may hold any bytes, even invalid UTF-8.

    Raises: GitError; then its programs are unknown, and nothing may run.
    """
    off, listing = dict[str, str](), ("config", "--null", "--name-only", "--list")
    for name in os.fsdecode(_spawn(root, listing, environ, b"", TIMEOUT_S)).split("\0"):
        if _OF_FILTER.match(name):
            off[name] = "false" if name.endswith(".required") else ""
        elif hook := _OF_HOOK.match(name):
            off[f"{hook[1]}.enabled"] = "false"
    settings = {"GIT_CONFIG_COUNT": str(len(off))}
    for index, (name, value) in enumerate(off.items()):
        settings[f"GIT_CONFIG_KEY_{index}"] = name
        settings[f"GIT_CONFIG_VALUE_{index}"] = value
    return settings


def split_names(out: bytes) -> list[str]:
    """Splits the output of git with `-z`, names that each end with a zero byte."""
    return out.decode("utf-8", "surrogateescape").split("\0")[:-1]
