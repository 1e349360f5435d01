"""A throw-away copy of the working folders: an overlay that receives what a command writes there.

The real folders change only when somebody applies the changes. Each change is checked again then,
because others work in the same folders, and is made through `beneath`, which follows no links. The
mounts exist only in the command's namespace. As the kernel documents overlayfs, a deleted path is
a character device 0:0, and a folder that replaces another has the attribute
`user.overlay.opaque`."""

import contextlib
import errno
import filecmp
import os
import secrets
import shutil
import stat
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from kode import beneath, paths
from kode.errors import GitError, KodeError
from kode.git import git_record, run_git, split_names
from kode.permissions import places
from kode.sandbox.reach import STAGE, Reach, access
from kode.tool import ChangeKind, FileChange
from kode.values import Value, dataclass, field
from kode.workplace import GitFolder

MAX_CHANGES = 20_000  # if a command changes more files, none is shown or applied


class Layer(Value):
    """The overlay over one folder, for one command."""

    root: Path  # the real folder
    holder: Path
    """Contains `upper`, what the command wrote; `work`, the kernel's own folder; `lower`, where the
    real folder is mounted in the command's namespace."""
    below: "Layer | None" = None
    """What earlier commands of the session wrote and nobody applied; mounted between the two."""
    git: tuple[GitFolder, ...] = ()  # the known folders of git, here or elsewhere
    made_ns: int = field(default_factory=time.time_ns)
    """When the layer was made: what somebody else changed later is not overwritten."""

    @property
    def upper(self) -> Path:
        return self.holder / "upper"

    def mount(self) -> tuple[str, str, str]:
        """What the launcher mounts: the holder (its working directory), the folder, the options."""
        lower = f"../{self.below.holder.name}/upper:lower" if self.below is not None else "lower"
        options = f"userxattr,volatile,lowerdir={lower},upperdir=upper,workdir=work"
        return f"{STAGE}/{self.holder.name}", str(self.root), options

    def version(self, path: str) -> Path:
        """The path of the command's version of a real path."""
        return self.upper / Path(path).relative_to(self.root)

    def pick(self, changes: Iterable[FileChange]) -> list[FileChange]:
        """The changes that are in this layer's folder."""
        return [change for change in changes if Path(change.path).is_relative_to(self.root)]


def make_layer(
    store: Path, root: Path, below: Layer | None = None, git: tuple[GitFolder, ...] = ()
) -> Layer:
    """Creates an empty layer over `root`; nothing is mounted yet. Raises: OSError."""
    holder = store / secrets.token_hex(6)
    for name in ("upper", "work", "lower"):
        (holder / name).mkdir(parents=True, mode=0o700)
    os.chmod(holder / "upper", stat.S_IMODE(root.stat().st_mode))
    return Layer(root=root, holder=holder, below=below, git=git)


def list_changes(layer: Layer) -> tuple[FileChange, ...]:
    """Lists what a command changed, sorted by path; rewriting the same content is no change. For an
    ignored folder with changes, what earlier commands left there is moved in and listed too.
    Raises: OSError, KodeError when there are too many changes."""
    give_rights(layer.upper)
    if layer.below is not None:
        _drop_replaced(layer.below.upper, layer.upper)
    listed = _list_changes(layer)
    names = {change.ignored for change in listed if change.kind != "cache" and change.ignored}
    earlier = {name: layer.below.version(name) for name in names} if layer.below else {}
    folders = {name: version for name, version in earlier.items() if version.is_dir()}
    for name, version in folders.items():
        with contextlib.suppress(OSError):
            _merge_path(version, layer.version(name), real=Path(name))
    return _list_changes(layer) if folders else listed


def _list_changes(layer: Layer) -> tuple[FileChange, ...]:
    try:
        pairs = sorted(islice(_walk(layer, Path()), MAX_CHANGES + 1), key=lambda pair: pair[0])
    except RecursionError:
        raise KodeError("It nested folders too deeply.") from None
    if len(pairs) > MAX_CHANGES:
        raise KodeError(f"It changed more than {MAX_CHANGES:,} files.")
    return tuple(_describe(layer, pairs))


def _walk(layer: Layer, folder: Path, *, hides: bool = False) -> Iterator[tuple[str, str]]:
    """Yields the real paths that differ, each with what was done to it. `hides`: whether this
    folder hides everything in the real one."""
    upper, real = layer.upper / folder, layer.root / folder
    names = set(os.listdir(upper))
    for name in names | set(os.listdir(real) if hides and _find_kind(real) == "folder" else ()):
        path, version = real / name, upper / name
        before, after = _find_kind(path), _find_kind(version)
        if after == "whiteout" and not before:  # it hid what an earlier command left
            version.unlink()
        if after == "special":
            continue
        if before and (after in ("", "whiteout") or (before == "folder") != (after == "folder")):
            yield from _list_deleted(str(path))
            before = ""
        is_new = not before and after in ("folder", "plain")
        if after == "folder":
            is_unit = is_new and (_is_dependency(layer, folder / name) or places.is_cache(name))
            hides_more = hides or _is_opaque(version)
            for inner in () if is_unit else _walk(layer, folder / name, hides=hides_more):
                is_new = False
                yield inner
        elif after == "plain" and before and _differs(version, path):
            yield str(path), "changed"
        if is_new:
            yield str(path), "created"


def _list_deleted(path: str) -> Iterator[tuple[str, str]]:
    """Yields a path as deleted, a folder after everything in it."""
    for name in os.listdir(path) if _find_kind(path) == "folder" else ():
        yield from _list_deleted(f"{path}/{name}")
    yield path, "deleted"


def _find_kind(path: str | Path) -> Literal["folder", "plain", "whiteout", "special", ""]:
    """What is at a path: `plain` is a file or a link, `whiteout` a deletion, "" nothing. Sockets,
    pipes and devices are `special`: they are never applied."""
    try:
        status = os.lstat(path)
    except OSError:
        return ""
    kind = stat.S_IFMT(status.st_mode)
    if kind in (stat.S_IFDIR, stat.S_IFREG, stat.S_IFLNK):
        return "folder" if kind == stat.S_IFDIR else "plain"
    return "whiteout" if kind == stat.S_IFCHR and status.st_rdev == 0 else "special"


def _is_opaque(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return os.getxattr(path, "user.overlay.opaque", follow_symlinks=False) == b"y"
    return False


def _differs(version: Path, real: Path) -> bool:
    with contextlib.suppress(OSError):
        after, before = os.lstat(version), os.lstat(real)
        if (after.st_mode, after.st_size) == (before.st_mode, before.st_size):
            if stat.S_ISLNK(after.st_mode):
                return os.readlink(version) != os.readlink(real)
            return not filecmp.cmp(version, real, shallow=False)
    return True


def _describe(layer: Layer, pairs: Sequence[tuple[str, str]]) -> Iterator[FileChange]:
    """Makes a `FileChange` of each pair, with its kind and the ignored folder that it is in."""
    steps = {path: [*_list_parents(layer, path, change == "deleted")] for path, change in pairs}
    names = sorted({step for path_steps in steps.values() for step in path_steps})
    ignored = frozenset[str]()
    with contextlib.suppress(GitError):
        ignored = _ignored_names(layer.root, names)
    gone = {path for path, change in pairs if change == "deleted"}
    kinds: dict[str, ChangeKind] = dict.fromkeys(ignored, "work")
    for step in names:
        path = Path(step)
        is_vendor = path.name == "vendor" and step in ignored
        # Tools delete entries of their caches; whoever deletes a whole cache means to.
        if places.is_cache(path.name) and str(layer.root / path) not in gone:
            kinds[step] = "cache"
        elif step.endswith("/") and (is_vendor or _is_dependency(layer, path)):
            kinds[step] = "dependency"
    for name, change in pairs:
        order = {"cache": 0, "dependency": 1, "work": 2, "git": 3}
        step = min(
            (s for s in steps[name] if s in kinds), key=lambda s: order[kinds[s]], default=""
        )
        version, is_deleted = layer.version(name), change == "deleted"
        is_folder = not is_deleted and _find_kind(version) == "folder"
        yield FileChange(
            path=name,
            change=change,
            runs_later=places.runs_later(name, layer.git),
            kind=kinds[step] if step else "work" if steps[name] else "git",
            ignored=f"{layer.root}/{step}" if step else "",
            is_link=not is_deleted and version.is_symlink(),
            files=sum(len(files) for _, _, files in os.walk(version)) if is_folder else 1,
        )


def _ignored_names(root: Path, names: Iterable[str]) -> frozenset[str]:
    """Returns those of the names, relative to the root, that git ignores. Raises: GitError."""
    if not (root / ".git").exists():
        return frozenset()
    names = list(names)
    folders = {name: os.path.normpath(root / os.path.dirname(name)) for name in names}
    plain = {path for path in set(folders.values()) if paths.real_path(path) == path}
    # Git refuses to answer about what lies behind a link.
    stdin = b"".join(b"./" + os.fsencode(name) + b"\0" for name in names if folders[name] in plain)
    if not stdin:
        return frozenset()
    # If it uses its index, git also refuses to answer about paths in a submodule.
    for option in ((), ("--no-index",)):
        try:
            words = ["--no-literal-pathspecs", "check-ignore", "--stdin", "-z", *option]
            return frozenset(it[2:] for it in split_names(run_git(root, words, stdin=stdin)))
        except GitError as error:
            if error.exit_status == 1:
                return frozenset()  # none of them
            if option:
                raise
    return frozenset()


def _list_parents(layer: Layer, name: str, is_deleted: bool) -> Iterator[str]:
    """Yields the folders that a change is in, the outermost first, then the changed path itself:
    relative to the root, a folder with a slash at its end. Yields nothing for git's own files."""
    if git_record(layer.git, name):
        return
    path = Path(name).relative_to(layer.root)
    yield from (f"{above}/" for above in reversed(path.parents[:-1]))
    is_folder = _find_kind(name if is_deleted else layer.version(name)) == "folder"
    yield f"{path}/" if is_folder else str(path)


def _is_dependency(layer: Layer, folder: Path) -> bool:
    """Whether a folder holds installed packages, by its name or as a virtual environment."""
    marks = (top / folder / "pyvenv.cfg" for top in (layer.upper, layer.root))
    return folder.name in places.names("dependencies") or any(mark.exists() for mark in marks)


def apply_changes(layer: Layer, changes: Iterable[FileChange], reach: Reach) -> dict[str, str]:
    """Applies those of the changes that are in the layer's folder; returns the paths it skipped,
    each with the reason. It skips a file that somebody else changed meanwhile, and a link to a path
    that `reach` hides from commands: other programs would read that path for them."""
    skipped: dict[str, str] = {}
    ordered = sorted(layer.pick(changes), key=lambda change: change.path)
    gone = [change for change in reversed(ordered) if change.change == "deleted"]
    for change in (*gone, *(change for change in ordered if change.change != "deleted")):
        try:
            reason = _apply_change(layer, change, reach)
        except OSError as error:
            reason = error.strerror or str(error)
        skipped |= {change.path: reason} if reason else {}
    return skipped


def _apply_change(layer: Layer, change: FileChange, reach: Reach) -> str:
    """Applies one change; returns why it was skipped, or ""."""
    *parents, name = Path(change.path).relative_to(layer.root).parts
    is_deleted = change.change == "deleted"

    def mode(step: int) -> int:
        return os.lstat(layer.upper.joinpath(*parents[: step + 1])).st_mode & 0o777

    with contextlib.ExitStack() as opened:
        try:
            root = opened.enter_context(beneath.open_folder(layer.root))
            make = None if is_deleted else mode
            folder = opened.enter_context(beneath.open_below(root, parents, make=make))
        except (beneath.LinkInTheWay, NotADirectoryError):
            return "its folder is a link"
        except FileNotFoundError:
            if not is_deleted:
                raise
            return ""  # deleted with its folder
        before = beneath.stat_entry(folder, name)
        is_folder = before is not None and stat.S_ISDIR(before.st_mode)
        if before is not None and not is_folder and before.st_ctime_ns > layer.made_ns:
            return "someone else changed it meanwhile"
        if is_deleted:
            try:
                (os.rmdir if is_folder else os.unlink)(name, dir_fd=folder)
            except OSError as error:
                # Already gone; or replaced meanwhile; or a folder with what must not be deleted.
                if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                    raise
            return ""
        if change.change == "changed" and before is None:
            return "someone else deleted it meanwhile"
        upper = opened.enter_context(beneath.open_folder(layer.upper))
        new = opened.enter_context(beneath.open_below(upper, parents))
        return _move_path(Path(change.path), new, folder, reach)


def _move_path(path: Path, new: int, real: int, reach: Reach) -> str:
    """Moves the new version of `path` from a folder of the layer to the real one, both open; a new
    folder file by file. What is no file or link, or leads to a hidden place, stays; returns why, or
    "", as for any folder."""
    name, mode = path.name, os.lstat(path.name, dir_fd=new).st_mode
    if stat.S_ISDIR(mode):
        with (
            beneath.open_below(new, [name]) as inner,
            beneath.open_below(real, [name], make=lambda _: mode & 0o777) as folder,
        ):
            for each in sorted(os.listdir(inner)):
                _move_path(path / each, inner, folder, reach)
        return ""
    if stat.S_ISLNK(mode):
        target = paths.real_path(path.parent / os.readlink(name, dir_fd=new))
        if access(reach, target) in ("empty", "hidden"):
            return "it leads to a place hidden from commands"
    elif not stat.S_ISREG(mode):
        return "it is no file"
    else:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with beneath.auto_close(os.open(name, flags, dir_fd=new)) as file:
            if mode & (stat.S_ISUID | stat.S_ISGID):
                os.fchmod(file, mode & 0o1777)
            with contextlib.suppress(OSError):
                for attribute in os.listxattr(file):
                    if attribute.startswith("user.overlay."):
                        os.removexattr(file, attribute)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        os.rmdir(name, dir_fd=real)  # a folder whose content was deleted before
    beneath.move_entry(new, name, real, name)
    return ""


# What a session's commands wrote and nobody applied is carried in a layer of its own, so that the
# tests find what a build made. Deletions are not carried. No function here raises: what cannot be
# moved is rebuilt.


def carry_layer(layer: Layer, changes: Iterable[FileChange]) -> None:
    """Moves new and changed files to the carried layer, so that later commands see them. Call after
    `list_changes`."""
    for change in layer.pick(changes):
        if layer.below is not None and change.change != "deleted":
            target = layer.below.version(change.path)
            with contextlib.suppress(OSError):
                target.parent.mkdir(parents=True, exist_ok=True)
                _merge_path(layer.version(change.path), target)


def _drop_replaced(carried: Path, upper: Path) -> None:
    """Removes from the carried layer what a command deleted or replaced."""
    with contextlib.suppress(OSError):
        for name in os.listdir(upper):
            version, earlier = upper / name, carried / name
            if _find_kind(version) == _find_kind(earlier) == "folder" and not _is_opaque(version):
                _drop_replaced(earlier, version)
            else:
                beneath.remove_tree(earlier)


def _merge_path(source: Path, target: Path, *, real: Path | None = None) -> None:
    """Moves a file or folder from one layer to another, unless the target exists or, if `real` is
    given, that real path is newer. Merges folders."""
    kind, before = _find_kind(source), _find_kind(real) if real is not None else ""
    if kind == "folder" and "folder" in (_find_kind(target), before):
        target.mkdir(exist_ok=True)
        for name in os.listdir(source):
            _merge_path(source / name, target / name, real=real and real / name)
        with contextlib.suppress(OSError):  # something stays in it
            source.rmdir()
    elif kind in ("", "whiteout") or os.path.lexists(target):
        return
    elif not (before and real) or os.lstat(real).st_ctime_ns <= os.lstat(source).st_ctime_ns:
        os.rename(source, target)


def remove_tree(folder: Path) -> None:
    """Removes a folder. Never raises; what cannot be removed stays."""
    with contextlib.suppress(OSError):
        give_rights(folder)
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:
        subprocess.run(["rm", "-rf", "--", str(folder)], capture_output=True, check=False)


def give_rights(folder: Path) -> None:
    """Gives the user all rights to these folders: the kernel or a command may deny some."""
    folders = [folder]
    for each in folders:  # the loop adds to it
        mode = stat.S_IMODE(os.lstat(each).st_mode)
        if mode & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(each, mode | stat.S_IRWXU)
        with os.scandir(each) as entries:
            folders += [Path(entry) for entry in entries if entry.is_dir(follow_symlinks=False)]


# ── files with keys ──────────────────────────────────────────────────────────────────────────────

MAX_ENTRIES = 50_000  # most names to scan below each root, from the top

_TICK_NS = 2_000_000_000  # file systems that count times in steps of two seconds


class _Folder(NamedTuple):
    """One folder, as it was when it was scanned."""

    stamp: tuple[int, int]
    """Its inode and change time, which no program can set."""
    folders: list[str]
    candidates: list[str]
    """Paths that may hold keys, or that a rule denies."""
    entries: int


@dataclass
class Masks:
    """Finds the files with keys below some folders; remembers unchanged folders between calls."""

    roots: Sequence[Path]
    also: Callable[[str], bool] = lambda path: False
    """Whether a rule of the person denies reading this path."""
    skipped: frozenset[str] = frozenset()  # folders that are not searched, such as git's
    _scanned: dict[str, _Folder] = field(default_factory=dict)

    def paths(self) -> list[Path]:
        """The current files and folders with keys."""
        folders = dict[str, _Folder]()
        for root in self.roots:
            waiting, left = [str(root)], MAX_ENTRIES
            for path in waiting:  # the loop adds to it
                with contextlib.suppress(OSError):
                    if left > 0:
                        folders[path] = self._scan(path)
                        left -= folders[path].entries
                        waiting += folders[path].folders
        self._scanned = folders
        candidates = (path for folder in folders.values() for path in folder.candidates)
        return [Path(path) for path in candidates if self._must_hide(path)]

    def _scan(self, path: str) -> _Folder:
        status = os.lstat(path)
        stamp = (status.st_ino, status.st_ctime_ns)
        if path in self._scanned and self._scanned[path].stamp == stamp:
            return self._scanned[path]
        if time.time_ns() - status.st_ctime_ns < _TICK_NS:  # it may change again within the tick
            stamp = (0, 0)
        folders, candidates = list[str](), list[str]()
        entries = [*os.scandir(path)]
        for entry in entries:
            if entry.is_symlink():
                continue  # its target is masked where it lies, or hidden
            is_folder = entry.is_dir(follow_symlinks=False)
            if places.is_named_like_keys(entry.path, is_folder=is_folder) or self.also(entry.path):
                candidates.append(entry.path)
            elif is_folder and entry.path not in self.skipped:
                folders += [] if places.is_made_by_tools(entry.name) else [entry.path]
        return _Folder(stamp, folders, candidates, len(entries))

    def _must_hide(self, path: str) -> bool:
        if os.path.isdir(path) or (self.also(path) and os.path.exists(path)):
            return True
        return os.path.isfile(path) and places.contains_keys(path)


def make_mask(store: Path, path: Path) -> str:
    """Makes the file to show in place of one with keys: empty, without permissions, with the size
    and time of `path`, so that nobody can read it and git considers it unchanged. Returns its path;
    the null device if it cannot be made, "" for a folder. Never raises."""
    if path.is_dir():
        return ""
    try:
        status = os.lstat(path)
        name = f"mask-{status.st_dev}-{status.st_ino}-{status.st_size}-{status.st_mtime_ns}"
        mask = store / name
        if not mask.exists():
            with open(mask, "wb") as file:
                file.truncate(min(status.st_size, 1 << 30))
            os.chmod(mask, 0)
            os.utime(mask, ns=(status.st_atime_ns, status.st_mtime_ns))
        return str(mask)
    except OSError:
        return os.devnull


def settle_indexes(masked: Sequence[Path], git: Iterable[GitFolder]) -> None:
    """Makes git examine, outside the sandbox, the masked files that are as new as its index, as in
    any fresh clone: inside, it would examine them again and again and report each as changed. Never
    raises: a file that cannot be settled shows as changed."""
    records = {folder.worktree: folder.path for folder in git}
    for root in filter(None, dict.fromkeys(paths.repository_root(it.parent) for it in masked)):
        index = f"{records.get(str(root), root / '.git')}/index"
        with contextlib.suppress(OSError, GitError):
            newest = max(os.lstat(path).st_mtime for path in masked if path.is_relative_to(root))
            status = os.lstat(index)
            # A link may lead to somebody else's index, and a pipe would make git wait.
            is_own = stat.S_ISREG(status.st_mode) and paths.real_path(index) == index
            if is_own and int(status.st_mtime) <= newest:
                run_git(root, ["update-index", "-q", "--refresh", "--force-write-index"])
