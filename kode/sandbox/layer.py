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
from pathlib import Path

from kode import beneath, paths
from kode.errors import GitError, SandboxError
from kode.git import git_record, ignored_names, run_git
from kode.paths import real_path
from kode.permissions import places
from kode.sandbox.reach import STAGE
from kode.sandbox.store import give_rights, let_in, remove_tree
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
        options = f"userxattr,lowerdir={lower},upperdir=upper,workdir=work,volatile"
        return f"{STAGE}/{self.holder.name}", str(self.root), options


def make_layer(
    store: Path, root: Path, below: "CarriedLayer | None", git: tuple[GitFolder, ...] = ()
) -> Layer:
    """Creates an empty layer over `root`; nothing is mounted yet. Raises: OSError."""
    if below is not None:
        below.drop_idle_whiteouts()
    holder = store / secrets.token_hex(6)
    for name in ("upper", "work", "lower"):
        (holder / name).mkdir(parents=True, mode=0o700)
    status = root.stat()
    os.chmod(holder / "upper", stat.S_IMODE(status.st_mode))
    return Layer(root=root, holder=holder, below=below, git=git)


def discard(layer: Layer) -> None:
    """Removes a layer with everything the command wrote. Never raises."""
    remove_tree(layer.holder)


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
    file_changes: list[FileChange] = []
    try:
        for path, change in _walk(layer, Path()):
            file_changes.append(_change(layer, path, change))
            if len(file_changes) > MAX_CHANGES:
                raise SandboxError(f"It changed more than {MAX_CHANGES:,} files.")
    except RecursionError:
        raise SandboxError("It nested folders too deeply.") from None
    changed = [change for change in file_changes if not _is_index_as_it_was(layer, change)]
    return _set_kinds(layer, sorted(changed, key=lambda change: change.path))


def _change(layer: Layer, path: Path, change: str) -> FileChange:
    above = layer.upper / path
    real = str(layer.root / path)
    file_change = FileChange(
        path=real,
        change=change,
        runs_later=places.runs_later(real, layer.git),
        kind="git" if git_record(layer.git, real) else "work",
    )
    if change == "deleted":
        return file_change
    if above.is_symlink() or not above.is_dir():
        return replace(file_change, is_link=above.is_symlink())
    return replace(file_change, files=sum(len(names) for _, _, names in os.walk(above)))


def files(layer: Layer, change: FileChange) -> tuple[str, ...]:
    """The real paths that a change is of: of a new folder also those that come with it."""
    files, above = [change.path], version(layer, change.path)
    for folder, folders, names in os.walk(above) if _is_folder(above) else ():
        real = layer.root / Path(folder).relative_to(layer.upper)
        files += (str(real / name) for name in (*folders, *names))
    return tuple(files)


def version(layer: Layer, path: str) -> Path:
    """Where the command's version of a real path lies."""
    return layer.upper / Path(path).relative_to(layer.root)


def _walk(layer: Layer, folder: Path, *, opaque: bool = False) -> Iterator[tuple[Path, str]]:
    """`opaque`: whether the real folder and its subfolders are hidden."""
    above, real = layer.upper / folder, layer.root / folder
    let_in(above)
    if opaque and real.is_dir() and not real.is_symlink():
        for name in os.listdir(real):
            if not os.path.lexists(above / name):
                yield from _deleted(layer.root, folder / name)
    with os.scandir(above) as entries:
        for entry in entries:
            path = folder / entry.name
            status = entry.stat(follow_symlinks=False)
            before = _status(real / entry.name)
            if is_whiteout(status):
                if before is not None:
                    yield from _deleted(layer.root, path)
            elif stat.S_ISDIR(status.st_mode):
                yield from _changes_of_folder(layer, path, before, opaque)
            elif before is None:
                if is_plain(status):
                    yield path, "created"
            elif is_plain(status) and _differs(above / entry.name, layer.root / path, before):
                if stat.S_ISDIR(before.st_mode):
                    yield from _deleted(layer.root, path)
                    yield path, "created"
                else:
                    yield path, "changed"


def _changes_of_folder(
    layer: Layer, path: Path, before: os.stat_result | None, opaque: bool
) -> Iterator[tuple[Path, str]]:
    if before is not None and not stat.S_ISDIR(before.st_mode):
        yield path, "deleted"
        before = None
    is_installed = _is_dependency(layer, path) or places.is_cache(path.name)
    if is_installed and before is None:
        give_rights(layer.upper / path)
        yield path, "created"
        return
    empty = True
    for inner in _walk(layer, path, opaque=opaque or is_opaque(layer.upper / path)):
        empty = False
        yield inner
    if empty and before is None:
        yield path, "created"


def _status(path: Path) -> os.stat_result | None:
    with contextlib.suppress(OSError):
        return os.lstat(path)
    return None


def _deleted(root: Path, path: Path) -> Iterator[tuple[Path, str]]:
    """A folder after everything in it."""
    real = root / path
    if os.path.isdir(real) and not os.path.islink(real):
        for name in os.listdir(real):
            yield from _deleted(root, path / name)
    yield path, "deleted"


def is_plain(status: os.stat_result) -> bool:
    """Sockets, pipes and devices are never applied."""
    return stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)


def is_whiteout(status: os.stat_result) -> bool:
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def is_opaque(path: Path) -> bool:
    try:
        return os.getxattr(path, "user.overlay.opaque", follow_symlinks=False) == b"y"
    except OSError:
        return False


def _differs(version: Path, real: Path, before: os.stat_result) -> bool:
    status = os.lstat(version)
    if stat.S_IFMT(status.st_mode) != stat.S_IFMT(before.st_mode):
        return True
    if stat.S_ISLNK(status.st_mode):
        return os.readlink(version) != os.readlink(real)
    if (status.st_size, status.st_mode) != (before.st_size, before.st_mode):
        return True
    try:
        return not filecmp.cmp(version, real, shallow=False)
    except OSError:
        return True


def _set_kinds(layer: Layer, file_changes: list[FileChange]) -> tuple[FileChange, ...]:
    """Says what kind each change is of, and marks those in what git ignores."""
    steps = {
        change.path: () if change.kind == "git" else tuple(_steps_to(layer, change))
        for change in file_changes
    }
    each = sorted({step for those in steps.values() for step in those})
    try:
        ignored = ignored_names(layer.root, each)
    except GitError:
        ignored = _ignored_by_rules(layer, each)
    else:
        if any(os.path.basename(change.path) == _RULES for change in file_changes):
            ignored |= _ignored_by_rules(layer, each)
    gone = {change.path for change in file_changes if change.change == "deleted"}
    kinds: dict[str, ChangeKind] = dict.fromkeys(ignored, "work")
    for step in each:
        path = Path(step)
        is_vendor = path.name == "vendor" and step in ignored
        # Tools drop entries of their caches; to delete all of one is somebody's wish.
        if places.is_cache(path.name) and str(layer.root / path) not in gone:
            kinds[step] = "cache"
        elif step.endswith("/") and (is_vendor or _is_dependency(layer, path)):
            kinds[step] = "dependency"

    def mark(change: FileChange) -> FileChange:
        for kind in ("cache", "dependency", "work"):
            outermost = next((s for s in steps[change.path] if kinds.get(s) == kind), "")
            if outermost:
                return replace(change, kind=kind, ignored=f"{layer.root}/{outermost}")
        return change

    return tuple(map(mark, file_changes))


def _steps_to(layer: Layer, change: FileChange) -> Iterator[str]:
    """The folders that a change is in, the outermost first, and the changed file or folder itself:
    relative to the root, a folder with a slash at its end."""
    path = Path(change.path).relative_to(layer.root)
    for above in reversed(path.parents[:-1]):
        yield f"{above}/"
    there = Path(change.path) if change.change == "deleted" else version(layer, change.path)
    yield f"{path}/" if there.is_dir() and not there.is_symlink() else str(path)


def _is_dependency(layer: Layer, folder: Path) -> bool:
    """Whether a folder holds installed packages, by its name or as a virtual environment."""
    versions = (layer.upper / folder, layer.root / folder)
    return folder.name in places.names("dependencies") or any(
        (at / "pyvenv.cfg").exists() for at in versions
    )


def _is_index_as_it_was(layer: Layer, change: FileChange) -> bool:
    """Git writes its index to note when it looked at files: what is staged may be the same. Where
    it is not, the index belongs to the commit that wrote it."""
    trees = (git.worktree for git in layer.git if change.path == f"{git.path}/index")
    tree = next(filter(None, trees), "")
    if change.change != "changed" or not tree:
        return False
    new = {"GIT_INDEX_FILE": str(version(layer, change.path))}
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
        above = layer.upper / folder / _RULES
        source = above if os.path.lexists(above) else layer.root / folder / _RULES
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
    left: dict[str, str] = {}
    ordered = sorted(wanted, key=lambda change: change.path)
    gone = [change for change in reversed(ordered) if change.change == "deleted"]
    for change in (*gone, *(change for change in ordered if change.change != "deleted")):
        try:
            why = _apply_one(layer, change, started_ns, is_hidden)
        except OSError as error:
            why = error.strerror or str(error)
        if why:
            left[change.path] = why
    return left


def _apply_one(
    layer: Layer, change: FileChange, started_ns: int, is_hidden: Callable[[str], bool]
) -> str:
    """Applies one change; returns why it was skipped, or ""."""
    *parents, name = Path(change.path).relative_to(layer.root).parts
    is_deleted = change.change == "deleted"

    def mode(step: int) -> int:
        return stat.S_IMODE(os.lstat(layer.upper.joinpath(*parents[: step + 1])).st_mode) & 0o777

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
        move = _Move(Path(change.path).parent, new, folder, is_hidden)
        if stat.S_ISDIR(os.lstat(name, dir_fd=new).st_mode):
            move.folder(name)
        elif move.leads_to_hidden(name):
            return "it leads to a place hidden from commands"
        else:
            if is_folder:
                os.rmdir(name, dir_fd=folder)
            move.file(name)
    return ""


@dataclass(frozen=True)
class _Move:
    """From a folder of the layer to the real one, both open."""

    path: Path
    """Of the real folder, to say where a link leads."""
    new: int
    real: int
    is_hidden: Callable[[str], bool]

    def leads_to_hidden(self, name: str) -> bool:
        if not stat.S_ISLNK(os.lstat(name, dir_fd=self.new).st_mode):
            return False
        return self.is_hidden(real_path(self.path / os.readlink(name, dir_fd=self.new)))

    def folder(self, name: str) -> None:
        """Moves a folder that is new, file by file; what is no file or link stays behind."""
        mode = stat.S_IMODE(os.lstat(name, dir_fd=self.new).st_mode) & 0o777
        with (
            beneath.open_below(self.new, [name]) as new,
            beneath.open_below(self.real, [name], make=lambda _: mode) as real,
        ):
            below = _Move(self.path / name, new, real, self.is_hidden)
            for inner in sorted(os.listdir(new)):
                status = os.lstat(inner, dir_fd=new)
                if stat.S_ISDIR(status.st_mode):
                    below.folder(inner)
                elif is_plain(status) and not below.leads_to_hidden(inner):
                    below.file(inner)

    def file(self, name: str) -> None:
        """Moves one file without overlay attributes and setuid bits."""
        mode = os.lstat(name, dir_fd=self.new).st_mode
        if not stat.S_ISLNK(mode):
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with open(os.open(name, flags, dir_fd=self.new), "rb") as file:
                if mode & (stat.S_ISUID | stat.S_ISGID):
                    os.fchmod(file.fileno(), stat.S_IMODE(mode) & 0o1777)
                with contextlib.suppress(OSError):
                    for attribute in os.listxattr(file.fileno()):
                        if attribute.startswith("user.overlay."):
                            os.removexattr(file.fileno(), attribute)
        beneath.move_in(self.new, name, self.real, name)


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

    def add(self, layer: Layer, file_changes: Iterable[FileChange]) -> None:
        """Moves changed files out of a layer."""
        for change in file_changes:
            path = Path(change.path).relative_to(self.root)
            with contextlib.suppress(OSError):
                self.whiteouts.update(_whiteouts(layer.upper, path))
                _merge(layer.upper / path, self.upper / path)

    def drop_idle_whiteouts(self) -> None:
        """Drops those that hide nothing of the real folder: where no folder lies under theirs, the
        kernel shows them as broken files."""
        for path in [path for path in self.whiteouts if not self._hides(path)]:
            self.whiteouts.remove(path)
            with contextlib.suppress(OSError):
                if is_whiteout(os.lstat(self.upper / path)):
                    (self.upper / path).unlink()

    def _hides(self, path: Path) -> bool:
        real = self.root / path
        if not os.path.lexists(real) or real_path(real.parent) != str(real.parent):
            return False
        return not any(is_opaque(self.upper / above) for above in path.parents[:-1])

    def drop_replaced(self, layer: Layer, folder: Path = Path()) -> None:
        """Drops what the command of a layer deleted or replaced."""
        with contextlib.suppress(OSError), os.scandir(layer.upper / folder) as entries:
            for entry in entries:
                path = folder / entry.name
                is_folder = entry.is_dir(follow_symlinks=False) and _is_folder(self.upper / path)
                if is_folder and not is_opaque(layer.upper / path):
                    self.drop_replaced(layer, path)
                elif os.path.lexists(self.upper / path):
                    _remove(self.upper / path)

    def move_into(self, layer: Layer, folders: Iterable[str]) -> bool:
        """Moves what lies in these folders into a layer, where that has nothing and no real file is
        newer. Returns whether there was any."""
        inside = [Path(folder).relative_to(self.root) for folder in folders]
        inside = [folder for folder in inside if _is_folder(self.upper / folder)]
        for folder in inside:
            with contextlib.suppress(OSError):
                self._fill(layer, folder)
        return bool(inside)

    def _fill(self, layer: Layer, folder: Path) -> None:
        for path in [folder / name for name in os.listdir(self.upper / folder)]:
            new, real = layer.upper / path, _status(self.root / path)
            is_folder = _is_folder(self.upper / path)
            if is_folder and (_is_folder(new) or (real is not None and stat.S_ISDIR(real.st_mode))):
                new.mkdir(exist_ok=True)
                self._fill(layer, path)
            elif os.path.lexists(new):
                continue
            elif real is None or real.st_ctime_ns <= os.lstat(self.upper / path).st_ctime_ns:
                os.rename(self.upper / path, new)
        if not os.listdir(self.upper / folder):
            (self.upper / folder).rmdir()


def carry_into(store: Path, root: Path) -> CarriedLayer:
    """An empty one. Raises: OSError."""
    carried = CarriedLayer(root=root, holder=store / f"below-{paths.path_hash(root)}")
    carried.upper.mkdir(parents=True, exist_ok=True)
    return carried


def _whiteouts(upper: Path, path: Path) -> Iterator[Path]:
    status = os.lstat(upper / path)
    if is_whiteout(status):
        yield path
    elif stat.S_ISDIR(status.st_mode):
        with os.scandir(upper / path) as entries:
            for entry in entries:
                if not entry.is_file(follow_symlinks=False):
                    yield from _whiteouts(upper, path / entry.name)


def _merge(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if _is_folder(source) and _is_folder(target):
        for name in os.listdir(source):
            _merge(source / name, target / name)
        return
    if os.path.lexists(target):
        _remove(target)
    os.rename(source, target)


def _remove(path: Path) -> None:
    if _is_folder(path):
        shutil.rmtree(path)
    else:
        path.unlink()


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()
