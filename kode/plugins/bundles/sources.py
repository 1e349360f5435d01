"""Where bundles come from: finds out what a word of the command line names, and fetches it.

What is fetched is only read here: nothing of it runs, and nothing of it stays. A marketplace is
what https://code.claude.com/docs/en/plugin-marketplaces describes.
"""

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from kode.plugin import ConfigError, GitError, expand_path, redact_secrets, run_git, visible
from kode.plugins.bundles.contents import (
    MANIFEST,
    NAME,
    Parts,
    Tree,
    is_bundle,
    parts_of,
    read_document,
    read_tree,
    steps_of,
)

FETCH_TIMEOUT_S = 300.0  # a repository of some hundred MB on a slow line
PROTOCOLS = "https:http:ssh:git:file"
"""What git may speak; `ext::COMMAND` would run a program."""
LIST = "marketplace.json"
"""In the folder of the manifest."""
WAYS = (
    "kode extensions add ./FOLDER             a bundle",
    "kode extensions add https://HOST/REPO    a git address; OWNER/REPO for GitHub; #REF for a ref",
    "kode extensions add NAME@SOURCE          a bundle that this folder or address lists",
)
"""The first lines of the catalogue."""

_FILES = (".json", ".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".txz")
"""Ends of addresses that lead to a file, which is no repository."""
_SCP = re.compile(r"(?:[\w.-]+@)?[\w.-]+:(?!//)[^\\]+")
_OWNER_REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_LISTED = re.compile(r"([A-Za-z0-9][\w.-]*)@(.+)")


@dataclass(frozen=True, kw_only=True)
class Source:
    where: str
    """An absolute path or a git address, of the bundle or of the marketplace."""
    ref: str = ""
    """Of git: a branch, tag or commit; "" for the default branch."""
    path: str = ""
    """The folder in it; "" for all."""
    sha: str = ""
    """The commit that a list demands; "" for none."""
    entry: str = ""
    """The name of the bundle in the list there; "" without a list."""

    def __str__(self) -> str:
        place = self.where + (f"#{self.ref}" if self.ref else "")
        return (f"{self.entry}@" if self.entry else "") + place + (self.path and f" ({self.path})")


class Fetched(NamedTuple):
    """A bundle as it is at its source."""

    tree: Tree
    parts: Parts
    commit: str


def parse_source(word: str, cwd: Path) -> Source:
    """What a word of the command line names. Raises: ConfigError."""
    path = cwd / expand_path(word)
    if path.is_dir():
        return Source(where=os.path.abspath(path))
    listed = _LISTED.fullmatch(word)
    if listed and not _SCP.fullmatch(word):
        return replace(parse_source(listed[2], cwd), entry=listed[1])
    where, _, ref = word.partition("#")
    if path.exists() or ("://" in where and urlsplit(where).path.endswith(_FILES)):
        raise ConfigError(f"{visible(word)} is a file. Fetch and unpack it, and add the folder.")
    return _git_source(
        f"https://github.com/{where}" if _OWNER_REPO.fullmatch(where) else where, ref
    )


def fetch(source: Source, entry: Mapping[str, Any] = MappingProxyType({})) -> Fetched:
    """Fetches a bundle; `entry` is that of the list which named the source. Raises: ConfigError."""
    with _checkout(source) as (root, commit):
        place: object = source.path
        if source.entry:
            entries = _read_list(root, source)
            if source.entry not in entries:
                listed = ", ".join(entries) or "no bundles"
                raise ConfigError(f"{source} is not listed. The list there has {listed}.")
            entry = entries[source.entry]
            place = entry["source"]
        if isinstance(place, str):
            tree = read_tree(root, place)
            if not entry and not is_bundle(tree):
                listed = ", ".join(f"{name}@{source}" for name in _read_list(root, source))
                raise ConfigError(
                    f"{source} is no bundle: no {MANIFEST}, no skills, commands, agents or hooks."
                    + (f" It lists bundles that you can add: {listed}." if listed else "")
                )
            name = Path(urlsplit(source.where).path).name.removesuffix(".git")
            return Fetched(tree, parts_of(tree, entry, name), commit)
    return fetch(_source_of_entry(entry), entry)


def _read_list(root: Path, source: Source) -> dict[str, Mapping[str, Any]]:
    """The usable entries of the list at a source by name, with paths below the root; none without a
    list. Raises: ConfigError."""
    folder = Path(source.path, MANIFEST).parent
    tree = read_tree(root, str(folder)) if (root / folder).is_dir() else Tree(files={})
    document = read_document(tree, LIST) if LIST in tree.files else {"plugins": []}
    entries, about = document.get("plugins"), document.get("metadata")
    if not isinstance(entries, list):
        raise ConfigError(f"{source} holds no list of bundles: {LIST} needs `plugins`.")
    top = str(about.get("pluginRoot", "")) if isinstance(about, dict) else ""
    usable: dict[str, Mapping[str, Any]] = {}
    for entry in entries:
        if isinstance(entry, dict) and NAME.fullmatch(str(entry.get("name"))):
            place = entry.get("source")
            if isinstance(place, str):
                steps = [*steps_of(source.path), *steps_of(top)]
                # A path that leads out of the root is refused where it is used.
                place = "/".join([*steps, place]) if place[:1] != "/" else place
            if isinstance(place, str | dict):
                usable.setdefault(entry["name"], {**entry, "source": place})
    return usable


def _git_source(where: str, ref: str) -> Source:
    """Raises: ConfigError for what is no address of git: a list must not name a folder here."""
    if "://" not in where and not _SCP.fullmatch(where):
        raise ConfigError(
            f"{visible(where)!r} names no bundle here. The ways to add one:\n  " + "\n  ".join(WAYS)
        )
    if redact_secrets(where) != where or urlsplit(where).password:
        raise ConfigError(
            "The address holds a password or token, which kode would have to keep. Leave it out: "
            "git finds it by a credential helper."
        )
    return Source(where=where, ref=ref)


def _source_of_entry(entry: Mapping[str, Any]) -> Source:
    """Where an entry of a list says that its bundle is. Raises: ConfigError."""
    kind, url, repo, ref, path, sha = (
        str(entry["source"].get(key, "")) for key in ("source", "url", "repo", "ref", "path", "sha")
    )
    if kind not in ("github", "url", "git-subdir", "git"):
        raise ConfigError(
            f"{entry['name']} comes from {visible(kind)[:40] or 'nowhere'!r}, which kode does not "
            "use: it takes folders and git addresses. Fetch it, and add the folder."
        )
    where = f"https://github.com/{repo}" if kind == "github" else url
    return replace(_git_source(where, ref), path=path, sha=sha)


@contextlib.contextmanager
def _checkout(source: Source) -> Iterator[tuple[Path, str]]:
    """The folder of a source, and the commit there. Raises: ConfigError."""
    if source.where.startswith("/"):
        yield Path(source.where), ""
        return
    ssh = os.environ.get("GIT_SSH_COMMAND", "ssh -o BatchMode=yes")
    environ = {"GIT_ALLOW_PROTOCOL": PROTOCOLS, "GIT_SSH_COMMAND": ssh}
    with tempfile.TemporaryDirectory(prefix="kode-bundle-") as name:
        folder, wanted = Path(name), source.sha or source.ref or "HEAD"
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
