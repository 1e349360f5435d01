"""A throw-away copy of the working folders: an overlay that receives what a command writes there.

The real folders change only when somebody applies the changes; `kode.permissions` decides which.
The mounts live in a namespace of the command and disappear with it. From the kernel's documentation
of overlayfs: a deleted path is a character device 0:0, a folder that replaces another has the
attribute `user.overlay.opaque`.
"""

import contextlib
import os
import secrets
import shutil
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kode.errors import GitError, SandboxError
from kode.git import git_record, ignored_names, run_git
from kode.permissions import places
from kode.sandbox.store import let_in, remove_tree
from kode.tool import ChangeKind, FileChange
from kode.workplace import GitFolder

MAX_CHANGES = 20_000
"""Of a command that changes more files, none is shown or applied."""

_RULES = ".gitignore"

STAGE = "/dev/.kode"
"""Where the store of layers is, in the command's namespace, until the layers are mounted."""

_VOLATILE_SINCE = (5, 10)


@dataclass(frozen=True, kw_only=True)
class Layer:
    """The overlay over one folder, for one command."""

    root: Path
    """The real folder."""
    holder: Path
    """Contains `upper`, what the command wrote; `work`, the kernel's own; `lower`, where the real
    folder is mounted within the command's namespace."""
    below: Path | None = None
    """Holder of what earlier commands of the session wrote and is not real: between the two."""
    git: tuple[GitFolder, ...] = ()
    """The known folders of git, here or elsewhere."""

    @property
    def upper(self) -> Path:
        return self.holder / "upper"

    def mount(self) -> tuple[str, str, str]:
        """What the launcher mounts: the mount point, the real folder, the options."""
        lower = f"../{self.below.name}/upper:lower" if self.below is not None else "lower"
        volatile = ",volatile" if _kernel() >= _VOLATILE_SINCE else ""
        options = f"userxattr,lowerdir={lower},upperdir=upper,workdir=work{volatile}"
        return f"{STAGE}/{self.holder.name}", str(self.root), options


def make_layer(
    store: Path, root: Path, below: Path | None, git: tuple[GitFolder, ...] = ()
) -> Layer:
    """Creates an empty layer over `root`; nothing is mounted yet. Raises: OSError."""
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
    """What a command changed, sorted by path; rewriting the same content is not a change.

    Raises: OSError, SandboxError when there are too many changes.
    """
    file_changes: list[FileChange] = []
    try:
        for path, change in _walk(layer, Path()):
            file_changes.append(_change(layer, path, change))
            if len(file_changes) > MAX_CHANGES:
                raise SandboxError(f"It changed more than {MAX_CHANGES:,} files.")
    except RecursionError:
        raise SandboxError("It nested folders too deeply.") from None
    changed = [change for change in file_changes if not _is_index_as_it_was(layer, change)]
    return _mark_kinds(layer, sorted(changed, key=lambda change: change.path))


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


def new_files(layer: Layer, path: str) -> tuple[str, ...]:
    """The real paths of a new folder, and of the folders and files that come with it."""
    found = [path]
    for folder, folders, names in os.walk(version(layer, path)):
        real = layer.root / Path(folder).relative_to(layer.upper)
        found += (str(real / name) for name in (*folders, *names))
    return tuple(found)


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
        _let_in_all(layer.upper / path)
        yield path, "created"
        return
    empty = True
    for one in _walk(layer, path, opaque=opaque or is_opaque(layer.upper / path)):
        empty = False
        yield one
    if empty and before is None:
        yield path, "created"


def _let_in_all(folder: Path) -> None:
    let_in(folder)
    for here, folders, _ in os.walk(folder):
        for name in folders:
            if not os.path.islink(os.path.join(here, name)):
                let_in(Path(here, name))


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
    if status.st_size != before.st_size or stat.S_IMODE(status.st_mode) != stat.S_IMODE(
        before.st_mode
    ):
        return True
    try:
        with open(version, "rb") as new, open(real, "rb") as old:
            while chunk := new.read(1 << 20):
                if chunk != old.read(len(chunk)):
                    return True
    except OSError:
        return True
    return False


def _mark_kinds(layer: Layer, file_changes: list[FileChange]) -> tuple[FileChange, ...]:
    """Says what kind each change is of, and marks those in what git ignores."""
    steps = {
        change.path: [] if change.kind == "git" else list(_steps_to(layer, change))
        for change in file_changes
    }
    asked = {step for those in steps.values() for step in those}
    try:
        ignored = ignored_names(layer.root, sorted(asked))
    except GitError:
        ignored = _ignored_by_rules(layer, sorted(asked))
    else:
        if any(os.path.basename(change.path) == _RULES for change in file_changes):
            ignored |= _ignored_by_rules(layer, sorted(asked))
    gone = {change.path for change in file_changes if change.change == "deleted"}
    special: dict[str, ChangeKind] = {}
    for step in asked:
        path = Path(step)
        is_vendor = path.name == "vendor" and step in ignored
        # Tools drop entries of their caches; to delete all of one is somebody's wish.
        if places.is_cache(path.name) and str(layer.root / path) not in gone:
            special[step] = "cache"
        elif step.endswith("/") and (is_vendor or _is_dependency(layer, path)):
            special[step] = "dependency"
    return tuple(
        _mark_kind(layer, change, steps[change.path], special, ignored) for change in file_changes
    )


def _mark_kind(
    layer: Layer,
    change: FileChange,
    steps: Sequence[str],
    special: Mapping[str, ChangeKind],
    ignored: Collection[str],
) -> FileChange:
    if change.kind == "git":
        return change
    for kind in ("cache", "dependency"):
        if outermost := next((step for step in steps if special.get(step) == kind), ""):
            return replace(change, kind=kind, ignored=f"{layer.root}/{outermost}")
    outermost = next(filter(ignored.__contains__, steps), "")
    return replace(change, ignored=f"{layer.root}/{outermost}") if outermost else change


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


def _kernel() -> tuple[int, int]:
    major, _, rest = os.uname().release.partition(".")
    minor = rest.split(".")[0].split("-")[0]
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else (0, 0)
