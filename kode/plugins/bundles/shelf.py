"""The copies of bundles in `$KODE_HOME/bundles`, each in a folder named after its content, and the
index `$KODE_HOME/bundles.json` of what the person approved. What the index does not name, or what
differs from it, is never used."""

import contextlib
import fcntl
import functools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from kode.plugin import (
    PLUGIN_ROOT,
    Bundle,
    ConfigError,
    StorageError,
    beneath,
    durable,
    paths,
    sealed,
)
from kode.plugins.bundles.manifest import Parts, placed
from kode.plugins.bundles.sources import Source
from kode.plugins.bundles.tree import Tree, digest, read_folder, status_below

HASH_CHARS = 16
"""Of the digest in a folder's name; the whole digest is compared."""


@dataclass(frozen=True, kw_only=True)
class Approved:
    """A bundle as the person approved it."""

    digest: str
    """See `pin`."""
    source: Source
    commit: str = ""
    parts: Parts
    network: bool = False
    """Whether its servers may use the network."""

    @property
    def name(self) -> str:
        return self.parts.name


@dataclass(frozen=True, kw_only=True)
class Index:
    bundles: Mapping[str, Approved] = field(default_factory=dict)


def pin(tree: Tree, parts: Parts, *, network: bool) -> str:
    """SHA-256 over all that a yes covers: files, parts, and what they may do."""
    return digest(tree, {"parts": asdict(parts), "network": network})


def bundles(home: Path) -> tuple[list[Bundle], list[str]]:
    """The approved bundles that are unchanged, and a sentence for each other one. Never raises."""
    try:
        index = read_index(home)
    except ConfigError as error:
        return [], [str(error)]
    found, faults = [], []
    for approved in index.bundles.values():
        if is_intact(home, approved):
            found.append(bundle_of(home, approved))
        else:
            faults.append(
                f"The bundle {approved.name} is off: its copy has changed since you approved it. "
                f"`kode extensions update {approved.name}` fetches it again and asks."
            )
    return found, faults


def bundle_of(home: Path, approved: Approved) -> Bundle:
    """An approved bundle in its folder, with the words for that folder filled in."""
    folder, parts = folder_of(home, approved), approved.parts
    servers = placed(parts.servers, {PLUGIN_ROOT: str(folder)})
    own = {"network": True} if approved.network else {}
    return Bundle(
        name=approved.name,
        folder=folder,
        skills={name: folder / path for name, path in parts.skills.items()},
        commands={name: folder / path for name, path in parts.commands.items()},
        agents={name: folder / path for name, path in parts.agents.items()},
        hooks=parts.hooks,
        servers={
            name: {**entry, **own, **_with_root(entry, folder)} for name, entry in servers.items()
        },
    )


def folder_of(home: Path, approved: Approved) -> Path:
    """Where the copy of a bundle is: a folder of its name, as programs in it may expect."""
    shelf = Path(paths.real_path(paths.bundles_folder(home)))
    return shelf / approved.digest[:HASH_CHARS] / approved.name


def is_intact(home: Path, approved: Approved) -> bool:
    """Whether the copy is there, and just as the person approved it. Never raises."""
    try:
        return _digest_now(folder_of(home, approved), approved) == approved.digest
    except (ConfigError, OSError):
        return False


def tree_of(home: Path, approved: Approved) -> Tree:
    """The files of the copy. Raises: ConfigError."""
    return read_folder(folder_of(home, approved))


def read_index(home: Path) -> Index:
    """What was approved. Raises: ConfigError if it cannot be read; then nothing is used."""
    path = index_file(home)
    try:
        document = sealed.opened(json.loads(path.read_bytes()))
        rows = document["bundles"].values()
        return Index(bundles={one.name: one for one in map(_approved, rows)})
    except FileNotFoundError:
        return Index()
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ConfigError(
            f"{path} cannot be read ({error}), so no bundle is used. Move it away, and add your "
            "bundles again: `kode extensions add`."
        ) from error


def index_file(home: Path) -> Path:
    return home / "bundles.json"


def keep(home: Path, approved: Approved, tree: Tree) -> None:
    """Copies a bundle and notes that it is approved, in place of the one of its name. Raises:
    StorageError, ConfigError; then what was approved before still is."""
    with _locked(home):
        index = read_index(home)
        _write(folder_of(home, approved), tree)
        if not is_intact(home, approved):
            raise StorageError(
                f"The copy of {approved.name} differs from what you saw, as on a disk that ignores "
                "case or changes names. Nothing of it is used."
            )
        held = {**index.bundles, approved.name: approved}
        _write_index(home, Index(bundles=held))
        _tidy(home)


def forget(home: Path, names: Sequence[str]) -> None:
    """Removes bundles with all that is kept of them. Raises: StorageError, ConfigError."""
    with _locked(home):
        held = read_index(home).bundles.items()
        _write_index(home, Index(bundles={name: one for name, one in held if name not in names}))
        _tidy(home)


@contextlib.contextmanager
def staged(home: Path, approved: Approved, tree: Tree) -> Iterator[Bundle]:
    """A bundle in its folder before it is approved, so that the readers of sessions can look at
    it: nothing there is used that the index does not name. It is removed again if it is not
    approved meanwhile. Raises: StorageError, ConfigError."""
    with _locked(home):
        _write(folder_of(home, approved), tree)
    try:
        yield bundle_of(home, approved)
    finally:
        with _locked(home):
            _tidy(home)


def _with_root(entry: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The variables of a server that is a program, with the bundle's folder."""
    given = entry.get("env", {})
    if "command" not in entry or not isinstance(given, dict):
        return {}
    return {"env": {**given, "CLAUDE_PLUGIN_ROOT": str(folder)}}


def _digest_now(folder: Path, approved: Approved) -> str:
    more = json.dumps({"parts": asdict(approved.parts), "network": approved.network})
    return _digest_in(folder, status_below(folder), more)


@functools.lru_cache(maxsize=64)
def _digest_in(folder: Path, state: object, more: str) -> str:
    """`state` is for the cache: copies are compared before each use."""
    return digest(read_folder(folder), json.loads(more))


def _write(folder: Path, tree: Tree) -> None:
    """Makes a folder hold just these files. Raises: StorageError."""
    durable.make_folder(folder.parent)
    with durable.storage_errors(folder, "write"):
        with beneath.open_folder(folder.parent) as top:
            beneath.remove(top, folder.name)
    made = {(folder / path).parent for path in tree.files} | {folder}
    for one in sorted(made):
        durable.make_folder(one)

    def write(path: str) -> None:
        mode = 0o700 if tree.files[path].executable else 0o600
        data = tree.files[path].data
        durable.replace(folder / path, data, mode=mode, follow=False, sync_name=False)

    durable.for_each(write, tree.files)
    with durable.storage_errors(folder, "make durable"):
        for one in made:
            durable.sync_folder(one)


def _write_index(home: Path, index: Index) -> None:
    if not index.bundles:
        durable.remove(index_file(home))
        return
    document = {"bundles": {name: asdict(one) for name, one in index.bundles.items()}}
    durable.make_folder(home)
    data = json.dumps(sealed.sealed_object(document), indent=2).encode()
    durable.replace(index_file(home), data)


def _tidy(home: Path) -> None:
    """Removes the copies that the index does not name: of removed bundles, of older versions, and
    of a kode that was killed. Raises: StorageError, ConfigError."""
    folder = Path(paths.real_path(paths.bundles_folder(home)))
    known = {folder_of(home, one).parent.name for one in read_index(home).bundles.values()}
    with durable.storage_errors(folder, "tidy"):
        try:
            with beneath.open_folder(folder) as opened:
                for name in os.listdir(opened):
                    if name not in known:
                        beneath.remove(opened, name)
        except FileNotFoundError:
            return
        if not known:
            beneath.remove_folder(folder)


@contextlib.contextmanager
def _locked(home: Path) -> Iterator[None]:
    """Holds the lock of the home itself: a lock file would be a trace that stays."""
    durable.make_folder(home)
    with durable.storage_errors(home, "lock"):
        descriptor = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError:
            os.close(descriptor)
            raise
    try:
        yield
    finally:
        durable.unlock(descriptor)
        os.close(descriptor)


def _approved(row: Mapping[str, Any]) -> Approved:
    """Raises: TypeError, KeyError for damage."""
    given = {**row, "source": _source(row["source"]), "parts": Parts(**row["parts"])}
    return Approved(**{one.name: given[one.name] for one in fields(Approved)})


def _source(row: Mapping[str, Any]) -> Source:
    market = row.get("market")
    return Source(**{**row, "market": _source(market) if market else None})
