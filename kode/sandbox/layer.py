"""A throw-away copy of the working folders: an overlay that receives what a command writes there.

The real folders change only when somebody applies the changes; `kode.permissions` decides which.
Each is checked once more here, because others work in the same folders: all is done by `beneath`,
so that nothing is written where a link leads. The mounts live in a namespace of the command and
disappear with it. From the kernel's documentation of overlayfs: a deleted path is a character
device 0:0, a folder that replaces another has the attribute `user.overlay.opaque`.
"""

import contextlib
import errno
import filecmp
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from kode import beneath, paths
from kode.errors import GitError, SandboxError
from kode.git import git_record, ignored_names, run_git
from kode.paths import real_path
from kode.permissions import places
from kode.sandbox.reach import STAGE
from kode.sandbox.store import give_rights, let_in
from kode.tool import ChangeKind, FileChange
from kode.workplace import GitFolder

MAX_CHANGES = 20_000
"""Of a command that changes more files, none is shown or applied."""

_RULES = ".gitignore"


@dataclass(frozen=True, kw_only=True)
class Layer:
    """The overlay over one folder, for one command."""

    root: Path
    """The real folder."""
    holder: Path
    """Contains `upper`, what the command wrote; `work`, the kernel's own; `lower`, where the real
    folder is mounted within the command's namespace."""
    below: "CarriedLayer | None" = None
    """What earlier commands of the session wrote and is not real: between the two."""
    git: tuple[GitFolder, ...] = ()
    """The known folders of git, here or elsewhere."""

    @property
    def upper(self) -> Path:
        return self.holder / "upper"

    def mount(self) -> tuple[str, str, str]:
        """What the launcher mounts: the mount point, the real folder, the options."""
        lower = f"../{self.below.holder.name}/upper:lower" if self.below is not None else "lower"
        options = f"userxattr,volatile,lowerdir={lower},upperdir=upper,workdir=work"
        return f"{STAGE}/{self.holder.name}", str(self.root), options

    def version(self, path: str) -> Path:
        """Where the command's version of a real path lies."""
        return self.upper / Path(path).relative_to(self.root)

    def files(self, change: FileChange) -> tuple[str, ...]:
        """The real paths that a change is of: of a new folder also those that come with it."""
        version = self.version(change.path)
        inside = (
            self.root / Path(folder, name).relative_to(self.upper)
            for folder, folders, names in (os.walk(version) if _is_folder(version) else ())
            for name in (*folders, *names)
        )
        return (change.path, *map(str, inside))


def make_layer(
    store: Path, root: Path, below: "CarriedLayer | None", git: tuple[GitFolder, ...] = ()
) -> Layer:
    """Creates an empty layer over `root`; nothing is mounted yet. Raises: OSError."""
    if below is not None:
        below.drop_idle_whiteouts()
    holder = store / secrets.token_hex(6)
    for name in ("upper", "work", "lower"):
        (holder / name).mkdir(parents=True, mode=0o700)
    os.chmod(holder / "upper", stat.S_IMODE(root.stat().st_mode))
    return Layer(root=root, holder=holder, below=below, git=git)


# ── what a command changed ───────────────────────────────────────────────────────────────────


def changes(layer: Layer) -> tuple[FileChange, ...]:
    """What a command changed, sorted by path; rewriting the same content is not a change. With
    files in a folder that git ignores comes what earlier commands left there.

    Raises: OSError, SandboxError when there are too many changes.
    """
    if layer.below is None:
        return _list_changes(layer)
    layer.below.drop_replaced(layer)
    listed = _list_changes(layer)
    folders = {change.ignored for change in listed if change.kind != "cache" and change.ignored}
    return _list_changes(layer) if layer.below.move_into(layer, folders) else listed


def _list_changes(layer: Layer) -> tuple[FileChange, ...]:
    try:
        pairs = sorted(islice(_walk(layer, Path()), MAX_CHANGES + 1), key=lambda pair: pair[0])
    except RecursionError:
        raise SandboxError("It nested folders too deeply.") from None
    if len(pairs) > MAX_CHANGES:
        raise SandboxError(f"It changed more than {MAX_CHANGES:,} files.")
    listed = [_describe(layer, path, change) for path, change in pairs]
    return _set_kinds(layer, [change for change in listed if not _is_same_index(layer, change)])


def _walk(layer: Layer, folder: Path, *, hides: bool = False) -> Iterator[tuple[str, str]]:
    """Real paths that differ, each with what was done to it. `hides`: whether nothing of the real
    folder is seen through this one."""
    upper, real = layer.upper / folder, layer.root / folder
    let_in(upper)
    names = set(os.listdir(upper))
    for name in names | (set(os.listdir(real)) if hides and _is_folder(real) else set()):
        path, version = real / name, upper / name
        after, before = _status(version), _status(path)
        if after is None or _is_whiteout(after):
            if before is not None:
                yield from _list_deleted(str(path))
            elif after is not None:  # it hid what an earlier command left
                version.unlink()
        elif stat.S_ISDIR(after.st_mode):
            if before is not None and not stat.S_ISDIR(before.st_mode):
                yield str(path), "deleted"
                before = None
            is_whole = before is None
            if is_whole and (_is_dependency(layer, folder / name) or places.is_cache(name)):
                give_rights(version)
            else:
                for inner in _walk(layer, folder / name, hides=hides or _is_opaque(version)):
                    is_whole = False
                    yield inner
            if is_whole:
                yield str(path), "created"
        elif is_plain(after):
            if before is None:
                yield str(path), "created"
            elif stat.S_ISDIR(before.st_mode):
                yield from _list_deleted(str(path))
                yield str(path), "created"
            elif _differs(version, path, after, before):
                yield str(path), "changed"


def _list_deleted(path: str) -> Iterator[tuple[str, str]]:
    """A folder after everything in it."""
    for name in os.listdir(path) if _is_folder(path) else ():
        yield from _list_deleted(f"{path}/{name}")
    yield path, "deleted"


def _status(path: Path) -> os.stat_result | None:
    with contextlib.suppress(OSError):
        return os.lstat(path)
    return None


def _is_folder(path: str | Path) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def is_plain(status: os.stat_result) -> bool:
    """Sockets, pipes and devices are never applied."""
    return stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)


def _is_whiteout(status: os.stat_result) -> bool:
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def _is_opaque(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return os.getxattr(path, "user.overlay.opaque", follow_symlinks=False) == b"y"
    return False


def _differs(version: Path, real: Path, after: os.stat_result, before: os.stat_result) -> bool:
    if after.st_mode != before.st_mode or after.st_size != before.st_size:
        return True
    if stat.S_ISLNK(after.st_mode):
        return os.readlink(version) != os.readlink(real)
    with contextlib.suppress(OSError):
        return not filecmp.cmp(version, real, shallow=False)
    return True


def _describe(layer: Layer, path: str, change: str) -> FileChange:
    version, is_deleted = layer.version(path), change == "deleted"
    is_folder = not is_deleted and _is_folder(version)
    return FileChange(
        path=path,
        change=change,
        runs_later=places.runs_later(path, layer.git),
        kind="git" if git_record(layer.git, path) else "work",
        is_link=not is_deleted and version.is_symlink(),
        files=sum(len(names) for _, _, names in os.walk(version)) if is_folder else 1,
    )


def _set_kinds(layer: Layer, listed: Sequence[FileChange]) -> tuple[FileChange, ...]:
    """Says what kind each change is of, and marks those in what git ignores."""
    steps = {each: tuple(_steps_to(layer, each)) for each in listed if each.kind != "git"}
    names = sorted({step for path_steps in steps.values() for step in path_steps})
    try:
        ignored = ignored_names(layer.root, names)
        changes_rules = any(os.path.basename(each.path) == _RULES for each in listed)
    except GitError:
        ignored, changes_rules = frozenset(), True
    if changes_rules:
        ignored |= _ignored_by_rules(layer, names)
    gone = {change.path for change in listed if change.change == "deleted"}
    kinds: dict[str, ChangeKind] = dict.fromkeys(ignored, "work")
    for step in names:
        path = Path(step)
        is_vendor = path.name == "vendor" and step in ignored
        # Tools drop entries of their caches; to delete all of one is somebody's wish.
        if places.is_cache(path.name) and str(layer.root / path) not in gone:
            kinds[step] = "cache"
        elif step.endswith("/") and (is_vendor or _is_dependency(layer, path)):
            kinds[step] = "dependency"

    def mark(change: FileChange) -> FileChange:
        for kind in ("cache", "dependency", "work"):
            for step in steps.get(change, ()):
                if kinds.get(step) == kind:
                    return replace(change, kind=kind, ignored=f"{layer.root}/{step}")
        return change

    return tuple(map(mark, listed))


def _steps_to(layer: Layer, change: FileChange) -> Iterator[str]:
    """The folders that a change is in, the outermost first, and the changed file or folder itself:
    relative to the root, a folder with a slash at its end."""
    path = Path(change.path).relative_to(layer.root)
    for above in reversed(path.parents[:-1]):
        yield f"{above}/"
    is_deleted = change.change == "deleted"
    is_folder = _is_folder(change.path if is_deleted else layer.version(change.path))
    yield f"{path}/" if is_folder else str(path)


def _is_dependency(layer: Layer, folder: Path) -> bool:
    """Whether a folder holds installed packages, by its name or as a virtual environment."""
    versions = (layer.upper / folder, layer.root / folder)
    return folder.name in places.names("dependencies") or any(
        (at / "pyvenv.cfg").exists() for at in versions
    )


def _is_same_index(layer: Layer, change: FileChange) -> bool:
    """Git writes its index to note when it looked at files: what is staged may be the same. Where
    it is not, the index belongs to the commit that wrote it."""
    trees = (git.worktree for git in layer.git if change.path == f"{git.path}/index")
    tree = next(filter(None, trees), "")
    if change.change != "changed" or not tree:
        return False
    new = {"GIT_INDEX_FILE": str(layer.version(change.path))}
    listing = ["ls-files", "--stage", "-v", "-z"]
    try:
        return run_git(Path(tree), listing, environ=new) == run_git(Path(tree), listing)
    except GitError:
        return False


def _ignored_by_rules(layer: Layer, names: Sequence[str]) -> frozenset[str]:
    """What git would ignore once the command's own rules are real (a folder may hide itself) and
    where it refuses to answer for the real tree: in a submodule, or behind a link."""
    rules = layer.holder / "rules"
    rules.mkdir(exist_ok=True)
    for folder in {"", *(name for name in names if name.endswith("/"))}:
        version = layer.upper / folder / _RULES
        source = version if os.path.lexists(version) else layer.root / folder / _RULES
        with contextlib.suppress(OSError):
            if source.is_file() and not source.is_symlink():
                (rules / folder).mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, rules / folder / _RULES)
    with contextlib.suppress(GitError):
        return ignored_names(layer.root, names, rules)
    return frozenset()


# ── what becomes real ────────────────────────────────────────────────────────────────────────


def apply(
    layer: Layer,
    wanted: Iterable[FileChange],
    started_ns: int,
    is_hidden: Callable[[str], bool],
) -> dict[str, str]:
    """Applies changes; returns those skipped, each with the reason. A file that somebody else
    changed since `started_ns` (time of day) is skipped. So is a link to a path that `is_hidden`
    from commands: others would read it for them."""
    skipped: dict[str, str] = {}
    ordered = sorted(wanted, key=lambda change: change.path)
    gone = [change for change in reversed(ordered) if change.change == "deleted"]
    for change in (*gone, *(change for change in ordered if change.change != "deleted")):
        try:
            reason = _apply_change(layer, change, started_ns, is_hidden)
        except OSError as error:
            reason = error.strerror or str(error)
        if reason:
            skipped[change.path] = reason
    return skipped


def _apply_change(
    layer: Layer, change: FileChange, started_ns: int, is_hidden: Callable[[str], bool]
) -> str:
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
        before = beneath.status(folder, name)
        is_folder = before is not None and stat.S_ISDIR(before.st_mode)
        if before is not None and not is_folder and before.st_ctime_ns > started_ns:
            return "someone else changed it meanwhile"
        if is_deleted:
            try:
                (os.rmdir if is_folder else os.unlink)(name, dir_fd=folder)
            except OSError as error:
                # Already gone; or replaced meanwhile, or with what is not to be deleted in it.
                if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                    raise
            return ""
        if change.change == "changed" and before is None:
            return "someone else deleted it meanwhile"
        upper = opened.enter_context(beneath.open_folder(layer.upper))
        new = opened.enter_context(beneath.open_below(upper, parents))
        return _move(Path(change.path), new, folder, is_hidden)


def _move(path: Path, new: int, real: int, is_hidden: Callable[[str], bool]) -> str:
    """Moves the new version of `path` from a folder of the layer to the real one, both open; a new
    folder file by file. What is no file or link, or leads to a hidden place, stays behind; returns
    why, or ""."""
    name = path.name
    status = os.lstat(name, dir_fd=new)
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISDIR(status.st_mode):
        with (
            beneath.open_below(new, [name]) as inner,
            beneath.open_below(real, [name], make=lambda _: mode & 0o777) as folder,
        ):
            for each in sorted(os.listdir(inner)):
                _move(path / each, inner, folder, is_hidden)
        return ""
    if not is_plain(status):
        return "it is no file"
    if stat.S_ISLNK(status.st_mode):
        if is_hidden(real_path(path.parent / os.readlink(name, dir_fd=new))):
            return "it leads to a place hidden from commands"
    else:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(name, flags, dir_fd=new), "rb") as file:
            if mode & (stat.S_ISUID | stat.S_ISGID):
                os.fchmod(file.fileno(), mode & 0o1777)
            with contextlib.suppress(OSError):
                for attribute in os.listxattr(file.fileno()):
                    if attribute.startswith("user.overlay."):
                        os.removexattr(file.fileno(), attribute)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        os.rmdir(name, dir_fd=real)  # a folder whose content was deleted before
    beneath.move_in(new, name, real, name)
    return ""


# ── what the next command finds ──────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class CarriedLayer:
    """What commands of a session wrote in a working folder and is not real: a build's products are
    there for the tests. No method raises: what cannot be moved is rebuilt."""

    root: Path
    holder: Path
    whiteouts: set[Path] = field(default_factory=set)
    """Relative paths in it that hide a real file."""

    @property
    def upper(self) -> Path:
        return self.holder / "upper"

    def add(self, layer: Layer, listed: Iterable[FileChange]) -> None:
        """Moves changed files out of a layer."""
        for change in listed:
            path = Path(change.path).relative_to(self.root)
            with contextlib.suppress(OSError):
                (self.upper / path).parent.mkdir(parents=True, exist_ok=True)
                if change.change == "deleted":
                    os.rename(layer.upper / path, self.upper / path)
                    self.whiteouts.add(path)
                else:
                    _merge(layer.upper / path, self.upper / path)

    def drop_idle_whiteouts(self) -> None:
        """Drops those that hide nothing of the real folder: where no folder lies under theirs, the
        kernel shows them as broken files."""
        for path in [path for path in self.whiteouts if not os.path.lexists(self.root / path)]:
            self.whiteouts.remove(path)
            status = _status(self.upper / path)
            if status is not None and _is_whiteout(status):
                (self.upper / path).unlink()

    def drop_replaced(self, layer: Layer, folder: Path = Path()) -> None:
        """Drops what the command of a layer deleted or replaced."""
        with contextlib.suppress(OSError), os.scandir(layer.upper / folder) as entries:
            for entry in entries:
                path = folder / entry.name
                is_folder = entry.is_dir(follow_symlinks=False) and _is_folder(self.upper / path)
                if is_folder and not _is_opaque(layer.upper / path):
                    self.drop_replaced(layer, path)
                else:
                    beneath.remove_tree(self.upper / path)

    def move_into(self, layer: Layer, folders: Iterable[str]) -> bool:
        """Moves what lies in these folders into a layer, where that has nothing and no real file is
        newer. Returns whether there was any."""
        inside = [Path(folder).relative_to(self.root) for folder in folders]
        inside = [folder for folder in inside if _is_folder(self.upper / folder)]
        for folder in inside:
            with contextlib.suppress(OSError):
                _merge(self.upper / folder, layer.upper / folder, real=self.root / folder)
        return bool(inside)


def carry_into(store: Path, root: Path) -> CarriedLayer:
    """An empty one. Raises: OSError."""
    carried = CarriedLayer(root=root, holder=store / f"below-{paths.path_hash(root)}")
    carried.upper.mkdir(parents=True, exist_ok=True)
    return carried


def _merge(source: Path, target: Path, *, real: Path | None = None) -> None:
    """Moves a file or folder from one layer to another. With `real`, its place in the real folder,
    nothing is replaced, and nothing hides what is newer there."""
    before = _status(real) if real is not None else None
    is_real_folder = before is not None and stat.S_ISDIR(before.st_mode)
    if _is_folder(source) and (_is_folder(target) or is_real_folder):
        target.mkdir(exist_ok=True)
        for name in os.listdir(source):
            _merge(source / name, target / name, real=real and real / name)
        with contextlib.suppress(OSError):  # something stays in it
            source.rmdir()
    elif real is None and _is_whiteout(os.lstat(source)):
        source.unlink()  # it hid what an earlier command left
    elif real is None:
        beneath.remove_tree(target)
        os.rename(source, target)
    elif not os.path.lexists(target) and (
        before is None or before.st_ctime_ns <= os.lstat(source).st_ctime_ns
    ):
        os.rename(source, target)
