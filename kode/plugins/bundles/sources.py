"""Where bundles come from: finds out what a word of the command line names, and fetches it.

What is fetched is only read here: nothing of it runs, and nothing of it stays.
"""

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from kode.plugin import ConfigError, GitError, credentials, paths, run_git, visible
from kode.plugins.bundles import market
from kode.plugins.bundles.manifest import MANIFEST
from kode.plugins.bundles.market import LIST
from kode.plugins.bundles.tree import (
    MAX_BYTES,
    Tree,
    read_file,
    read_folder,
    steps_of,
)

FETCH_TIMEOUT_S = 300.0  # a repository of some hundred MB on a slow line

PROTOCOLS = "https:http:ssh:git:file"
"""What git may speak; `ext::COMMAND` would run a program."""

WAYS = (
    "kode extensions add ./FOLDER             a bundle",
    "kode extensions add https://HOST/REPO    a git address; OWNER/REPO for GitHub; #REF for a ref",
    "kode extensions add NAME@SOURCE          a bundle that this folder or address lists",
    "kode extensions list SOURCE              the bundles that it lists (marketplace.json)",
)
"""The first lines of the catalogue."""

FILES = (".json", ".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".txz")
"""Ends of addresses that lead to a file, which is no repository."""
_SCP = re.compile(r"(?:[\w.-]+@)?[\w.-]+:(?!//)[^\\]+")
_OWNER_REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_LISTED = re.compile(r"([A-Za-z0-9][\w.-]*)@(.+)")


@dataclass(frozen=True, kw_only=True)
class Source:
    kind: Literal["folder", "git", "list", "listed"]
    where: str = ""
    """A path, absolute, or an address; of one that is listed its name there."""
    ref: str = ""
    """Of git: a branch, tag or commit; "" for the default branch."""
    path: str = ""
    """The folder in it; "" for all."""
    sha: str = ""
    """The commit that a list demands; "" for none."""
    market: "Source | None" = None

    def __str__(self) -> str:
        if self.market is not None:
            return f"{self.where}@{self.market}"
        return self.where + (f"#{self.ref}" if self.ref else "") + (self.path and f" ({self.path})")


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """A bundle as it is at its source."""

    tree: Tree
    usual_name: str
    """Its name where it gives none itself."""
    entry: Mapping[str, Any] = field(default_factory=dict)
    """That of its marketplace."""
    commit: str = ""


@dataclass(frozen=True, kw_only=True)
class _Opened:
    root: Path
    commit: str = ""
    list_path: str = LIST

    def tree(self, path: str) -> Tree:
        found = read_folder(self.root, path)
        if not found.files:
            raise ConfigError(f"There is no folder {visible(path) or '.'!r} with files in it.")
        return found

    def file(self, path: str, most: int) -> bytes | None:
        return read_file(self.root, path, most)


def parsed(word: str, cwd: Path) -> Source:
    """What a word of the command line names. Raises: ConfigError."""
    path = cwd / paths.expand(word)
    if path.exists():
        return _of_path(Path(os.path.abspath(path)))
    match = _LISTED.fullmatch(word)
    if match and not _SCP.fullmatch(word):
        name, rest = match.groups()
        return Source(kind="listed", where=name, market=parsed(rest, cwd))
    where, _, ref = word.partition("#")
    if "://" in where or _SCP.fullmatch(where):
        return _of_address(where, ref)
    if _OWNER_REPO.fullmatch(where):
        return Source(kind="git", where=f"https://github.com/{where}", ref=ref)
    raise ConfigError(
        f"{visible(word)!r} names no bundle here. The ways to add one:\n  " + "\n  ".join(WAYS)
    )


def fetched(source: Source) -> Fetched:
    """Fetches a bundle. Raises: ConfigError."""
    if source.market is None:
        with _opened(source) as opened:
            return _bundle(opened, source)
    with _opened(source.market) as opened:
        listed = _list(opened, source.market)
        entry = next((one for one in listed.entries if one.name == source.where), None)
        if entry is None:
            names = ", ".join(one.name for one in listed.entries) or "none"
            raise ConfigError(f"{source.market} lists no {source.where!r}. It lists: {names}.")
        if isinstance(entry.source, str):
            path = "/".join((*steps_of(listed.root), *steps_of(entry.source)))
            tree, commit = opened.tree(path), opened.commit
            return Fetched(tree=tree, usual_name=entry.name, entry=entry.values, commit=commit)
    found = fetched(_of_entry(entry))
    return replace(found, usual_name=entry.name, entry=entry.values)


def found(source: Source, *, lists_first: bool = False) -> "market.Market | Fetched":
    """What is at a source: a bundle, or the list of a marketplace. One that is both is the bundle,
    unless `lists_first`. Raises: ConfigError."""
    if source.market is not None:
        return fetched(source)
    with _opened(source) as opened:
        is_list = opened.file(opened.list_path, market.MAX_BYTES) is not None
        is_bundle = source.kind != "list" and opened.file(MANIFEST, MAX_BYTES) is not None
        if is_list and (lists_first or not is_bundle):
            return _list(opened, source)
        return _bundle(opened, source)


def _bundle(opened: _Opened, source: Source) -> Fetched:
    name = Path(urlsplit(source.where).path).name.removesuffix(".git")
    return Fetched(tree=opened.tree(source.path), usual_name=name, commit=opened.commit)


def _list(opened: _Opened, source: Source) -> market.Market:
    data = opened.file(opened.list_path, market.MAX_BYTES)
    if data is None:
        raise ConfigError(f"{source} has no list of bundles: there is no {opened.list_path}.")
    return market.read(data, str(source))


def _of_path(path: Path) -> Source:
    if path.is_dir():
        return Source(kind="folder", where=str(path))
    if path.suffix != ".json":
        raise ConfigError(f"{path} is a file. Unpack it, and add the folder.")
    return Source(kind="list", where=str(path))


def _of_address(where: str, ref: str) -> Source:
    if credentials.redact(where) != where or urlsplit(where).password:
        raise ConfigError(
            "The address holds a password or token, which kode would have to keep. Leave it out: "
            "git finds it by a credential helper."
        )
    path = urlsplit(where).path
    if where.startswith(("https://", "http://")) and path.endswith(FILES):
        raise ConfigError(
            f"{visible(where)} is a file. Name the git repository, or fetch it and add the folder."
        )
    return Source(kind="git", where=where, ref=ref)


def _of_entry(entry: "market.Entry") -> Source:
    """Where an entry of a list says that its bundle is. Raises: ConfigError."""

    def text(key: str) -> str:
        value = entry.source.get(key, "")
        if not isinstance(value, str):
            raise ConfigError(f"The list says no text as {key!r} of {entry.name}.")
        return value

    kind, where = text("source"), text("url")
    if kind == "github":
        where = f"https://github.com/{text('repo')}"
    if kind in ("github", "url", "git-subdir", "git"):
        found = _of_address(where, text("ref"))
        return replace(found, kind="git", path=text("path"), sha=text("sha"))
    raise ConfigError(
        f"{entry.name} comes from {visible(kind)[:40] or 'nowhere'!r}, which kode does not use: it "
        "takes folders and git addresses. Fetch it, and add the folder."
    )


@contextlib.contextmanager
def _opened(source: Source) -> Iterator[_Opened]:
    """Raises: ConfigError."""
    if source.kind == "folder":
        yield _Opened(root=Path(source.where))
    elif source.kind == "git":
        with _checkout(source) as (folder, commit):
            yield _Opened(root=folder, commit=commit)
    else:
        path = Path(source.where)
        if path.parent.name == ".claude-plugin":
            yield _Opened(root=path.parent.parent, list_path=f".claude-plugin/{path.name}")
        else:
            yield _Opened(root=path.parent, list_path=path.name)


@contextlib.contextmanager
def _checkout(source: Source) -> Iterator[tuple[Path, str]]:
    """A commit in a folder of its own, and its id. Raises: ConfigError."""
    ssh = os.environ.get("GIT_SSH_COMMAND", "ssh -o BatchMode=yes")
    environ = {"GIT_ALLOW_PROTOCOL": PROTOCOLS, "GIT_SSH_COMMAND": ssh}
    with tempfile.TemporaryDirectory(prefix="kode-bundle-") as made:
        folder, wanted = Path(made), source.sha or source.ref or "HEAD"
        try:
            run_git(folder, ["init", "-q", "--template="])
            words = ["fetch", "-q", "--depth=1", "--no-tags", "--", source.where, wanted]
            run_git(folder, words, environ=environ, timeout_s=FETCH_TIMEOUT_S)
            run_git(folder, ["checkout", "-q", "--detach", "FETCH_HEAD"], timeout_s=FETCH_TIMEOUT_S)
            commit = os.fsdecode(run_git(folder, ["rev-parse", "HEAD"])).strip()
        except GitError as error:
            raise ConfigError(f"{visible(str(source))} could not be fetched: {error}.") from error
        if source.sha and commit != source.sha:
            raise ConfigError(f"{source} is at {commit}, and its list demands {source.sha}.")
        yield folder, commit
