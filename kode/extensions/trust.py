"""Stores which extensions a person approved. Each is pinned by its full content and what it loads,
so that a change disables it until the person approves the diff. Whatever a session wrote after it
had read outside text needs approval, wherever it is. `review` finds extensions and asks."""

import contextlib
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

from kode import durable, paths
from kode.config.files import resolve_inside
from kode.credentials import redact
from kode.errors import ConfigError, StorageError
from kode.permissions.approvals import read_approvals, write_approvals
from kode.plain_text import unified_diff
from kode.session.provenance import MarksFile, marks_file
from kode.values import Value, asdict, field, replace, validator
from kode.workplace import is_below

Beside = Literal["mcp-tool", "mcp-outside", "mcp-download", "hook-outside"]
"""`-outside` lets an item run without a sandbox; for `-download`, see `mcp_server`."""
Kind = Literal["mcp", "skill", "command", "agent", "hook", "instructions"] | Beside
BESIDE: tuple[Kind, ...] = get_args(Beside)
"""Kinds that are approved separately from their server or hook, whoever brought that."""
NOT_FOUND: tuple[Kind, ...] = (*BESIDE, "instructions")
"""Kinds that no search lists once they are approved."""
Scope = Literal["project", "home", "client", "bundle"]
FOREIGN: tuple[Scope, ...] = ("project", "bundle")
"""Scopes whose hooks and servers run unsandboxed only if approved, and cannot allow calls."""
State = Literal["trusted", "new", "changed"]

MAX_FILES = 1_000  # a skill with its scripts
MAX_BYTES = 16 * 1024 * 1024
"""Limit of a folder that can be approved as one item."""
MAX_LOADED = 5_000  # a package with its dependencies
MAX_KEPT_CHARS = 1024 * 1024
"""Limit of a text that is kept to show a change."""


class Candidate(Value):
    """One thing that can run something or steer the model."""

    kind: Kind
    name: str
    origin: Path
    """The file or folder it was read from."""
    scope: Scope
    """Who brought it: the repository, the person's own home, the program that started kode, or a
    bundle that the person approved whole."""
    content: str
    """What an approval pins, besides loaded files; for a folder, the text of `folder_content`."""
    covers: tuple[str, ...] = ()
    """Files and folders that are in `content`, absolute."""
    can: str = ""
    """Sentences for the person: what it may do once approved, and how to allow it more."""
    sha256: str = ""
    """For instructions, the file's hash if all of its text is in `content`; "" otherwise."""


class Approved(Value):
    """An item as a person approved it."""

    kind: Kind
    name: str
    origin: str
    digest: str
    content: str
    """The content without credentials, to show what changed; "" if it was too large to keep."""
    approved_at: str
    """ISO 8601, UTC."""
    loads: Mapping[str, str] = field(default_factory=dict)
    """Other files that it was seen to load: path → SHA-256 of the content, or "" if the file
    changed between the approval and that load, so that no content is approved."""
    folders: tuple[str, ...] = ()
    """The folders in which it looked for those files."""
    names: str = ""
    """`_hash_names` of `folders`; "" until its loads were first recorded."""

    @property
    def is_seen(self) -> bool:
        """Whether its loads were recorded and the names in `folders` are still the same."""
        return self.names != "" and self.names == _hash_names(self.folders)


class Approvals(Value):
    """The approvals for one project."""

    project: Path = field(default_factory=Path)
    items: tuple[Approved, ...] = ()
    trust_project: bool = False
    """Whether the entire project counts as approved in this process (`--trust-project`)."""
    problem: str = ""
    """Sentences if the approvals file or the record of marks was damaged; "" otherwise."""
    marks: MarksFile | None = None
    """Which files were written by sessions that had read outside text."""

    def find(self, item: Candidate) -> Approved | None:
        """The approval of this item, whatever its content; None if there is none."""
        return next((o for o in self.items if _identity(o) == _identity(item)), None)


def outside_item(item: Candidate) -> Candidate:
    """What a person approves so that a server or hook may run without a sandbox."""
    return replace(item, kind="mcp-outside" if item.kind == "mcp" else "hook-outside", can="")


def digest(item: Candidate) -> str:
    """SHA-256 over the full content, in hexadecimal."""
    return hashlib.sha256(item.content.encode("utf-8", "surrogatepass")).hexdigest()


def folder_content(folder: Path) -> str:
    """All files below a folder as one text: paths, modes, lengths and contents, in a fixed order.
    Binary files are represented by their hash.

    Raises: ConfigError for what cannot be pinned: a link to a folder or out of this one, a special
        file, or too much data.
    """
    parts, size = list[str](), 0
    try:
        for path in sorted(folder.rglob("*")):
            if path.is_dir() and not path.is_symlink():
                continue
            if path.is_dir():
                text = f"{path} links to a folder: replace the link with a copy to approve it."
                raise ConfigError(text)
            if (read := _read_regular(str(resolve_inside(path, folder)), MAX_BYTES + 1)) is None:
                raise ConfigError(f"{path} is not a regular file: remove it from {folder}.")
            data, size = read[0], size + len(read[0])
            if len(parts) == MAX_FILES or size > MAX_BYTES:
                most = f"{MAX_FILES} files or {MAX_BYTES // 2**20} MB"
                raise ConfigError(f"{folder} has more than {most}: move unneeded files out of it.")
            name = path.relative_to(folder).as_posix()
            mark = " executable" if path.stat().st_mode & 0o111 else ""
            link = f" -> {os.readlink(path)!r}" if path.is_symlink() else ""
            parts.append(f"=== {name!r}{link}{mark} ({len(data)} bytes)\n{_as_text(data)}\n")
    except OSError as error:
        raise ConfigError(f"{error.filename} cannot be read ({error.strerror}).") from error
    return "".join(parts)


def load(home: Path, project: Path, *, trust_project: bool = False) -> Approvals:
    """Loads a project's approvals. A damaged file is set aside, and then nothing counts as
    approved. Never raises."""
    path, marks = paths.trust_file(home, project), marks_file(home)
    items, problem = read_approvals(path, _decode_approvals, "this project's extensions are off")
    try:
        damage = marks.read()
    except StorageError as error:
        damage = str(error)
    return Approvals(
        project=project,
        items=items,
        trust_project=trust_project,
        problem=f"{problem} {damage}".strip(),
        marks=marks,
    )


def state(item: Candidate, approvals: Approvals) -> State:
    """Whether an item may be used. A repository's item must be approved with exactly this content.
    Instructions, and items that are not a repository's, are trusted unless `find_tainting_source`
    names a source. A tool of any server must match its pin, even of the person's own server;
    running without a sandbox and downloading always need approval."""
    its_own = item.scope != "project" or approvals.trust_project or item.kind == "instructions"
    if its_own and item.kind not in BESIDE and not find_tainting_source(item, approvals):
        return "trusted"
    before = _text_before(item, approvals)
    if before is not None:
        return "trusted" if before == item.content else "changed"
    approval = approvals.find(item)
    if approval is None:
        return "new"
    is_changed = approval.digest != digest(item) or any(_changed_loads(approval, approvals.project))
    return "changed" if is_changed else "trusted"


def find_tainting_source(item: Candidate, approvals: Approvals) -> str:
    """The outside text that was read by a session that wrote one of an item's files; "" if none."""
    if item.kind in BESIDE or approvals.marks is None or not approvals.marks.paths:
        return ""
    covers = item.covers or (str(item.origin),)
    walks = (entry for cover in covers for entry in os.walk(cover))
    inside = (os.path.join(where, name) for where, _, names in walks for name in names)
    return next(filter(None, map(approvals.marks.source, (*covers, *inside))), "")


def is_held(item: Candidate, home: Path, project: Path) -> bool:
    """Whether an item, in its present form, was written by a session that had read outside text,
    and is not approved."""
    approvals = load(home, project)
    return bool(find_tainting_source(item, approvals)) and state(item, approvals) != "trusted"


def diff(item: Candidate, approvals: Approvals) -> str:
    """What changed since the approval: a unified diff without credentials, and a line for each
    changed file that the item loads; "" if it is new or unchanged."""
    before, approval = _text_before(item, approvals), approvals.find(item)
    if before is None and approval is not None:
        before = approval.content
    text = "" if before is None else unified_diff(item.name, redact(before), _text_to_compare(item))
    if approval is None:
        return text
    if not text and approval.digest != digest(item):
        text = f"{item.name} differs in a credential, or is too large to compare\n"
    changed = _changed_loads(approval, approvals.project)
    names = (os.path.relpath(path, approvals.project) for path in changed)
    return text + "".join(f"{name}, which it loads, has changed: look at it\n" for name in names)


def _text_before(item: Candidate, approvals: Approvals) -> str | None:
    """The instructions before a session that had read outside text first changed them, if any."""
    if item.kind != "instructions" or approvals.marks is None:
        return None
    before = approvals.marks.text_before(str(item.origin))
    return None if before is None else f"{before}\n"


def approve_items(home: Path, project: Path, items: Sequence[Candidate]) -> Approvals:
    """Saves the approval of items as they are now; returns all approvals of the project. Raises:
    StorageError, BusyError; then nothing was approved."""
    instructions = [item for item in items if item.kind == "instructions"]
    marks_file(home).approve((str(item.origin), item.sha256) for item in instructions)

    def add(approvals: dict[tuple[str, ...], Approved]) -> None:
        for item in items:
            approvals[_identity(item)] = Approved(
                kind=item.kind,
                name=item.name,
                origin=str(item.origin),
                digest=digest(item),
                content=_text_to_compare(item),
                approved_at=datetime.now(UTC).isoformat(),
            )

    return _change_approvals(home, project, add)


def pin_loads(home: Path, project: Path, item: Candidate, opened: Sequence[str]) -> Approvals:
    """Pins the project's files that an approved item was seen to open; returns all approvals. A
    file that changed after the approval counts as a change of the item. Raises: ConfigError for too
    many files; StorageError, BusyError."""

    # The content has only one entry of the settings file, so it does not cover that file.
    covers = [path for path in item.covers if path != str(item.origin)]
    besides = [path for path in opened if not any(is_below(path, cover) for cover in covers)]
    # The folders in which it found, or looked for, what it opened.
    places = {path if path.is_dir() else path.parent for path in map(Path, opened)}
    folders = tuple(sorted(str(place) for place in places if ".git" not in place.parts))

    def pin(approvals: dict[tuple[str, ...], Approved]) -> None:
        if (approval := approvals.get(_identity(item))) is None:
            return
        since = datetime.fromisoformat(approval.approved_at).timestamp()
        loads = dict(approval.loads)
        for path in besides:
            # Files in `.git` change with each commit, and no command may change those that run.
            inside = Path(path).is_relative_to(project)
            if path in loads or not inside or ".git" in Path(path).relative_to(project).parts:
                continue
            if (load := _hash_load(path, project)) is not None:
                loads[path] = load[0] if load[1] <= since else ""
        if len(loads) > MAX_LOADED:
            raise ConfigError(
                f"It opens over {MAX_LOADED:,} files of the project: put it into your own config."
            )
        names = _hash_names(folders)
        approvals[_identity(item)] = replace(approval, loads=loads, folders=folders, names=names)

    return _change_approvals(home, project, pin)


def revoke_approvals(home: Path, project: Path, gone: Iterable[Approved]) -> Approvals:
    """Removes approvals; returns the remaining ones. Raises: StorageError, BusyError."""
    gone = tuple(gone)
    for approval in gone:
        if approval.kind == "instructions":
            marks_file(home).withdraw(approval.origin)
    return _change_approvals(
        home, project, lambda approvals: [approvals.pop(_identity(o), None) for o in gone]
    )


def _text_to_compare(item: Candidate) -> str:
    return redact(item.content) if len(item.content) <= MAX_KEPT_CHARS else ""


def _identity(item: Candidate | Approved) -> tuple[str, ...]:
    return item.kind, item.name, str(item.origin)


def _change_approvals(
    home: Path, project: Path, change: Callable[[dict[tuple[str, ...], Approved]], object]
) -> Approvals:
    """Raises: StorageError, for a damaged file too, which is set aside; BusyError."""
    path = paths.trust_file(home, project)
    with durable.hold_lock(path.parent):
        approvals = load(home, project)
        if approvals.problem:
            raise StorageError(approvals.problem)
        by_identity = {_identity(approval): approval for approval in approvals.items}
        change(by_identity)
        items = tuple(by_identity.values())
        if items != approvals.items:
            write_approvals(path, project, {"items": [asdict(item) for item in items]})
    return replace(approvals, items=items)


def _decode_approvals(document: Mapping[str, Any]) -> tuple[Approved, ...]:
    """Raises: ValueError for damage."""
    items: tuple[Approved, ...] = validator(tuple[Approved, ...]).validate_python(document["items"])
    return items


def _read_regular(path: str, limit: int = -1) -> tuple[bytes, float] | None:
    """The content of a regular file, up to `limit` bytes, and when it last changed; None for
    another kind of file. Raises: OSError, also for a link."""
    # Without waiting, in case of a pipe that nobody writes to.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        return (file.read(limit), status.st_ctime) if stat.S_ISREG(status.st_mode) else None


def _as_text(data: bytes) -> str:
    """The text of UTF-8 bytes, else their hash: different bytes never give the same text with the
    same length before it."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"[no text, SHA-256 {hashlib.sha256(data).hexdigest()}]"


# ── files of the project that an approved extension was seen to open. They are pinned with it, so
# that a change to one of them is a change of the extension.


def _changed_loads(approval: Approved, project: Path) -> Iterator[str]:
    """Yields the loaded files that differ from the approved ones. Never raises."""
    for path, digest in approval.loads.items():
        states = []
        with contextlib.suppress(OSError):
            states += [os.lstat(path)]
            states += [os.stat(path)]
        # The kernel sets ctime, and no program can choose it.
        version = tuple((state.st_ino, state.st_size, state.st_ctime_ns) for state in states)
        if _digest_of(path, project, version) != digest:
            yield path


def _hash_names(folders: Sequence[str]) -> str:
    """SHA-256 over the names in these folders: a different one means that the extension may find
    other files than before. Never raises."""
    names = hashlib.sha256()
    for folder in folders:
        try:
            entries = sorted(os.listdir(folder))
        except OSError:
            entries = ["/"]
        names.update("\0".join((folder, *entries, "")).encode("utf-8", "surrogateescape"))
    return names.hexdigest()


@lru_cache(maxsize=4 * MAX_LOADED)
def _digest_of(path: str, project: Path, version: object) -> str:
    """The hash of a loaded file. `version` is a key of the cache: each run compares all files."""
    return (_hash_load(path, project) or ("", 0.0))[0]


def _hash_load(path: str, project: Path) -> tuple[str, float] | None:
    """The SHA-256 of a regular file, and when it or the link to it last changed; None if there is
    none. For a link out of the project, its target's path is hashed, never the content."""
    try:
        link, real = os.lstat(path), paths.real_path(path)
        if not Path(real).is_relative_to(project):
            read: tuple[bytes, float] | None = (os.fsencode(f"-> {real}"), 0.0)
        else:
            read = _read_regular(real)
    except OSError:
        return None
    return read and (hashlib.sha256(read[0]).hexdigest(), max(link.st_ctime, read[1]))
