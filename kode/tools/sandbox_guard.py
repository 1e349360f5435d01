"""Puts back what a command in the sandbox has changed of git's hooks and settings, where nothing
could keep it from doing so: Landlock alone cannot except a folder's part, and no mount can keep a
file from appearing.

What was there before is put back when the command and all it started have ended; what the command
made of it is put aside, next to it.
"""

import contextlib
import fcntl
import hashlib
import marshal
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from kode import durable
from kode.errors import KodeError

ASIDE = ".from-sandbox"

MAX_BYTES = 1 << 20
"""A longer file among them is no hook and no settings of anybody."""

_KEPT = ("config", "config.worktree", "hooks", "commondir", "gitdir")
"""The last two say what a linked worktree belongs to."""

State = dict[str, tuple[str, int, bytes]]
"""Path → kind, mode and content; what is not there is not in it."""


def guard(gits: Sequence[Path], *, whole: bool, records: Path) -> Callable[[], str]:
    """Begins to watch folders of git, and files `.git` that lead to one; the function that is
    returned ends it, and says what was put back ("" when nothing was). `whole`: hooks and settings,
    too, and not only what redirects them. `records` is a folder that no command can write in.
    """
    for git in gits:
        _put_aside_redirection(git)
    kept = [_Watch(git, records) for git in gits] if whole else []

    def settle() -> str:
        found = [watch.end() for watch in kept]
        found += [_put_aside_redirection(git) for git in gits]
        return " ".join(filter(None, found))

    return settle


def _put_aside_redirection(git: Path) -> str:
    """A file `commondir` in a main `.git` makes git take hooks and settings from elsewhere. Nobody
    makes one there; linked worktrees have theirs below `worktrees`."""
    path = git / "commondir"
    if git.parent.name == "worktrees" or not os.path.lexists(path):
        return ""
    return _put_aside(path)


class _Watch:
    """One folder of git while a command runs. Commands side by side share the state that the first
    of them found: what one has planted must not count as what was there for the next."""

    def __init__(self, git: Path, records: Path) -> None:
        self._git = git
        records.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = hashlib.sha256(os.fsencode(git)).hexdigest()[:20]
        self._lock = os.open(records / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._record = records / name
        try:
            self._before = _shared(git, self._lock, self._record)
        except BaseException:
            os.close(self._lock)
            raise

    def end(self) -> str:
        if self._lock < 0:
            return ""
        try:
            return " ".join(_put_back(self._git, self._before))
        finally:
            # Settings may hold a password; the last one out leaves nothing of them behind.
            with contextlib.suppress(OSError):
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.truncate(self._record, 0)
            os.close(self._lock)
            self._lock = -1


def _shared(git: Path, lock: int, record: Path) -> State:
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found = state(git)
            _write(record, marshal.dumps(found))
            fcntl.flock(lock, fcntl.LOCK_SH)
            return found
        # Another command runs: it wrote down what was there before it began.
        fcntl.flock(lock, fcntl.LOCK_SH)
        if written := record.read_bytes():
            shared: State = marshal.loads(written)
            return shared
        # It has ended meanwhile, and took what it wrote with it.
        fcntl.flock(lock, fcntl.LOCK_UN)


def _write(record: Path, data: bytes) -> None:
    """Only commands that run meanwhile read it, so a power cut may take it."""
    temporary = record.with_suffix(".new")
    with open(temporary, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        file.write(data)
    temporary.replace(record)


def state(git: Path) -> State:
    """Hooks and settings as they are, and which folder `git` is."""
    found: State = {}
    paths = [git, *(git / name for name in _KEPT)]
    with contextlib.suppress(OSError):
        if stat.S_ISDIR(os.lstat(git / "hooks").st_mode):
            paths += [git / "hooks" / name for name in sorted(os.listdir(git / "hooks"))]
    for path in paths:
        with contextlib.suppress(OSError):
            found[str(path)] = _look(path, is_git=path == git)
    return found


def _look(path: Path, *, is_git: bool) -> tuple[str, int, bytes]:
    status = os.lstat(path)
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISLNK(status.st_mode):
        return "link", 0, os.fsencode(os.readlink(path))
    if stat.S_ISDIR(status.st_mode):
        return "folder", 0, f"{status.st_dev}:{status.st_ino}".encode() if is_git else b""
    if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
        return "other", mode, str(status.st_ino).encode()
    return "file", mode, path.read_bytes()


def _put_back(git: Path, before: State) -> Iterator[str]:
    now = state(git)
    root = str(git)
    is_folder = root in before and before[root][0] == "folder"
    if is_folder and (now.get(root) != before[root] or os.path.realpath(git) != root):
        yield f"{git} is not the folder any more that it was before the command."
        if os.path.lexists(git):
            yield _put_aside(git)
        if not _moved_back(git, before[root]):
            return
        now = state(git)
    for name in sorted({*before, *now}, key=lambda name: (name.count("/"), name)):
        if before.get(name) == now.get(name) or ASIDE in name:
            continue
        path = Path(name)
        if os.path.lexists(path):
            yield _put_aside(path)
        try:
            _restore(path, before.get(name))
        except (OSError, KodeError) as error:
            yield f"{path} could not be put back ({error}): look at it before you use git."


def _moved_back(git: Path, before: tuple[str, int, bytes]) -> bool:
    """Looks for the folder beside its old place, where a rename leaves it."""
    with contextlib.suppress(OSError):
        for name in os.listdir(git.parent):
            if _look(git.parent / name, is_git=True) == before:
                os.rename(git.parent / name, git)
                return True
    return False


def _put_aside(path: Path) -> str:
    aside = path.with_name(f"{path.name}{ASIDE}-{secrets.token_hex(3)}")
    try:
        os.rename(path, aside)
    except OSError as error:
        return f"{path} was changed by the command and could not be put aside ({error})."
    return f"What the command made of {path} was put aside, as {aside.name}."


def _make_way(folder: Path) -> None:
    """Makes a folder that was real before the command be there, and be real."""
    if os.path.realpath(folder) == str(folder) and folder.is_dir():
        return
    for path in (*reversed(folder.parents), folder):
        if path.is_symlink() or (path.exists() and not path.is_dir()):
            _put_aside(path)
    folder.mkdir(parents=True, exist_ok=True)


def _restore(path: Path, before: tuple[str, int, bytes] | None) -> None:
    if before is None:
        return
    kind, mode, data = before
    _make_way(path.parent)
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        os.symlink(os.fsdecode(data), path)
    elif kind == "file":
        durable.replace(path, data, mode=mode, follow=False)
