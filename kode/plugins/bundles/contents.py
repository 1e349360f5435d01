"""Fetches a bundle from a folder, a git address or an entry of a marketplace; reads all its files
into memory, without following links; and finds its parts by `.claude-plugin/plugin.json`, the usual
folders, and what the marketplace's entry adds. See
https://code.claude.com/docs/en/plugins-reference and .../plugin-marketplaces.

Fetched files are only read here: none of them is run, and the checkout is removed afterwards.
"""

import contextlib
import hashlib
import json
import os
import re
import shlex
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn
from urllib.parse import urlsplit

from kode.plugin import (
    ConfigError,
    GitError,
    expand_path,
    object_of,
    real_path,
    redact_secrets,
    run_git,
    visible,
)

MAX_FILES = 5_000  # the largest public bundles have some hundreds
MAX_BYTES = 64 * 1024 * 1024
"""Limit for the files of a bundle together."""
MAX_DEPTH = 24  # folders in folders
SKIPPED = (".git", "__pycache__")
"""Folders that are left out of a bundle: git's records, which name programs, and byte code."""
LINK = "it is a link, and kode follows none"


@dataclass(frozen=True, kw_only=True)
class BundleFile:
    data: bytes
    executable: bool = False


@dataclass(frozen=True, kw_only=True)
class BundleTree:
    files: Mapping[str, BundleFile]
    """Path below the bundle, with `/` → file; sorted."""
    left: Mapping[str, str] = field(default_factory=dict)
    """Path of a link or special file that was left out → why."""

    def digest(self, more: str) -> str:
        """SHA-256, in hexadecimal, over every file's path, mode and content, and `more`."""
        files = [
            [path, file.executable, hashlib.sha256(file.data).hexdigest()]
            for path, file in sorted(self.files.items())
        ]
        return hashlib.sha256(json.dumps([files, more]).encode()).hexdigest()


def read_tree(folder: Path, below: str = "") -> BundleTree:
    """Reads all files of `folder`, or of the folder `below` in it. Raises: ConfigError for too many
    or unreadable files, a name that cannot be shown, and a link on the way to `below`."""
    top = Path(real_path(folder)).joinpath(*split_path(below))
    if real_path(top) != str(top):
        raise ConfigError(f"{folder / below}: {LINK}. Name where it leads.")
    try:
        return _collect_files(top)
    except OSError as error:
        raise ConfigError(
            f"{visible(str(error.filename))} cannot be read: {error.strerror}."
        ) from error


def _collect_files(top: Path) -> BundleTree:
    files, left, size = dict[str, BundleFile](), dict[str, str](), 0
    for where, folders, names, opened in os.fwalk(top, onerror=_raise):
        folders[:] = sorted({*folders} - {*SKIPPED})
        for name in [*folders, *sorted(names)]:
            steps = [*Path(where).relative_to(top).parts, name]
            path = "/".join(split_path("/".join(steps)))
            mode = os.stat(name, dir_fd=opened, follow_symlinks=False).st_mode
            if stat.S_ISREG(mode):
                data = _read_file(opened, name, MAX_BYTES - size)
                size += len(data)
                files[path] = BundleFile(data=data, executable=bool(mode & 0o111))
            elif not stat.S_ISDIR(mode):
                left[path] = LINK if stat.S_ISLNK(mode) else "it is no regular file"
            if len(steps) > MAX_DEPTH or len(files) + len(left) > MAX_FILES:
                raise _too_large_error()
    return BundleTree(files=dict(sorted(files.items())), left=left)


def split_path(path: str) -> list[str]:
    """The names in a path relative to a bundle or a marketplace. Raises: ConfigError for a path
    that leads out of it, or whose names cannot be shown."""
    steps = [step for step in path.split("/") if step not in ("", ".")]
    shown = visible(path)[:200]
    if path.startswith("/") or "\\" in path or ".." in steps:
        raise ConfigError(f"The path {shown!r} points outside, so nothing of this is used.")
    if any(not step.isprintable() for step in steps):
        raise ConfigError(f"The name {shown!r} has control characters, so nothing of this is used.")
    return steps


def _read_file(folder: int, name: str, most: int) -> bytes:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(name, flags, dir_fd=folder), "rb") as file:
        data = file.read(most + 1) if os.fstat(file.fileno()).st_size <= most else None
    if data is None or len(data) > most:
        raise _too_large_error()
    return data


def _raise(error: OSError) -> NoReturn:
    raise error


def _too_large_error() -> ConfigError:
    return ConfigError(
        f"It has more than {MAX_FILES:,} files or {MAX_BYTES >> 20} MB, too much for a bundle. "
        "Name a folder in it."
    )


MANIFEST = ".claude-plugin/plugin.json"
MAX_DOCUMENT_BYTES = 4 * 1024 * 1024
"""Limit for a manifest or a list; the largest public ones have some hundred kilobytes."""
MAX_TEXT = 400  # characters of a description, a version: a few lines
NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")
_PART_NAME = re.compile(r"[\w.-]+(?::[\w.-]+)*")
_SERVER_NAME = re.compile(r"[A-Za-z0-9._-]+")
_IGNORED = frozenset(
    "$schema name version description author homepage repository license keywords category tags "
    "source strict displayName icon defaultEnabled".split()
)
_PARTS = frozenset("skills commands agents hooks mcpServers".split())
_SERVER_KEYS = frozenset("type command args env url headers timeout disabled".split())


@dataclass(frozen=True, kw_only=True)
class Parts:
    """A bundle's name and its parts, the latter by paths relative to the bundle."""

    name: str
    version: str = ""
    description: str = ""
    skills: Mapping[str, str] = field(default_factory=dict)
    """Name → folder."""
    commands: Mapping[str, str] = field(default_factory=dict)
    agents: Mapping[str, str] = field(default_factory=dict)
    hooks: Mapping[str, Any] = field(default_factory=dict)
    servers: Mapping[str, Any] = field(default_factory=dict)
    unused: Mapping[str, str] = field(default_factory=dict)
    """Part of the bundle that kode does not use → why."""


def is_bundle(tree: BundleTree) -> bool:
    """Whether these files look like a bundle: by a manifest or, without one, by any usual part."""
    usual = (MANIFEST, "skills/", "commands/", "agents/", "hooks/hooks.json", "SKILL.md")
    return any(path.startswith(usual) for path in tree.files)


def read_bundle(tree: BundleTree, entry: Mapping[str, Any], usual_name: str) -> Parts:
    """Finds all parts of a bundle. `entry` is the marketplace's for it, {} without one. Raises:
    ConfigError for a manifest that cannot be read, or a name that cannot be used."""
    manifest = read_document(tree, MANIFEST) if MANIFEST in tree.files else {}
    name = entry.get("name") or manifest.get("name") or usual_name
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ConfigError(
            f"The bundle calls itself {visible(str(name))[:80]!r}: a name has up to 64 letters, "
            "digits, `-`, `.` and `_`. Nothing of it is used."
        )
    is_entry_alone = entry.get("strict") is False and not _PARTS.isdisjoint(entry)
    documents = [entry] if is_entry_alone else [manifest, entry]
    reader = _PartReader(tree, name, documents, scans=not is_entry_alone, unused=dict(tree.left))
    for key in dict.fromkeys(key for document in documents for key in document):
        if key not in _IGNORED | _PARTS:
            reader.unused[visible(str(key))[:80]] = "kode has no such part"
    about = {**manifest, **entry}
    return Parts(
        name=name,
        version=short_text(about, "version"),
        description=short_text(about, "description"),
        skills=reader.skills(),
        commands=reader.texts("commands"),
        agents=reader.texts("agents"),
        hooks=reader.hooks(),
        servers=reader.servers(),
        unused=reader.unused,
    )


def read_document(tree: BundleTree, path: str) -> dict[str, Any]:
    """The JSON object in a file of a bundle. Raises: ConfigError if there is none."""
    file = tree.files.get(path)
    if file is None or len(file.data) > MAX_DOCUMENT_BYTES:
        raise ConfigError(f"{path} is larger than {MAX_DOCUMENT_BYTES >> 20} MB, or no file.")
    document = object_of(file.data)
    if document is None:
        raise ConfigError(f"{path} holds no JSON object.")
    return document


def short_text(document: Mapping[str, Any], key: str) -> str:
    """The text under a key of a document, on one line and cut to `MAX_TEXT` characters."""
    return " ".join(str(document.get(key, "")).split())[:MAX_TEXT]


@dataclass(frozen=True)
class _PartReader:
    tree: BundleTree
    name: str
    documents: Sequence[Mapping[str, Any]]
    unused: dict[str, str] = field(kw_only=True)
    scans: bool = field(kw_only=True)
    """Whether the usual folders are searched, too."""

    def skills(self) -> dict[str, str]:
        """The skills by name: folders."""
        skills: dict[str, str] = {}
        for below, path in self._list_files_of_kind("skills"):
            if f"/{below}".endswith("/SKILL.md") and below.count("/") <= 1:
                folder = path.rpartition("/")[0]
                self._add_path(skills, folder.rpartition("/")[2] or self.name, folder)
        if self.scans and not skills and "SKILL.md" in self.tree.files:
            self._add_path(skills, self.name, "")
        return skills

    def texts(self, kind: str) -> dict[str, str]:
        """The commands or agents by name; a command's name begins with its folders: `a:b:name`."""
        texts: dict[str, str] = {}
        for below, path in self._list_files_of_kind(kind):
            if below.endswith(".md"):
                name = below if kind == "commands" else below.rpartition("/")[2]
                self._add_path(texts, name.removesuffix(".md").replace("/", ":"), path)
        return texts

    def _list_files_of_kind(self, kind: str) -> Iterator[tuple[str, str]]:
        """Each file of a kind, as (its path relative to the place it was found by, its path).
        Commands and agents that a manifest names replace those of the usual folder."""
        is_named = any(kind in document for document in self.documents)
        usual = [kind] if self.scans and (kind == "skills" or not is_named) else []
        for place in [*usual, *self._find_named(kind)[1]]:
            for path in self.tree.files:
                if path == place:
                    yield path.rpartition("/")[2], path
                elif not place or path.startswith(f"{place}/"):
                    yield path.removeprefix(f"{place}/"), path

    def hooks(self) -> dict[str, list[Any]]:
        hooks: dict[str, list[Any]] = {}
        for document in self._read_documents("hooks", "hooks/hooks.json"):
            section = document.get("hooks", document)
            for event, groups in section.items() if isinstance(section, dict) else ():
                if isinstance(groups, list):
                    hooks.setdefault(str(event), []).extend(map(_join_arguments, groups))
        return hooks

    def servers(self) -> dict[str, Any]:
        """The servers' entries, without keys that only a person may set, such as the network."""
        servers: dict[str, Any] = {}
        for document in self._read_documents("mcpServers", ".mcp.json"):
            section = document.get("mcpServers", document)
            for name, values in section.items() if isinstance(section, dict) else ():
                shown = f"mcpServers.{visible(name)[:80]}"
                if not isinstance(values, dict) or not _SERVER_NAME.fullmatch(name):
                    self.unused[shown] = "it is no entry of a server"
                    continue
                for key in sorted(values.keys() - _SERVER_KEYS):
                    self.unused[f"{shown}.{visible(key)[:80]}"] = (
                        "a bundle cannot say it; `kode extensions add --network` gives the network"
                    )
                usable = {key: value for key, value in values.items() if key in _SERVER_KEYS}
                servers[f"{self.name}.{name}"] = usable
        return servers

    def _read_documents(self, key: str, usual: str) -> Iterator[Mapping[str, Any]]:
        """The objects with the parts of a kind: those in the manifest, then those in files."""
        objects, places = self._find_named(key)
        yield from objects
        files = [usual] if self.scans and usual in self.tree.files else []
        for path in dict.fromkeys([*files, *places]):
            try:
                yield read_document(self.tree, path)
            except ConfigError as error:
                self.unused[path] = str(error)

    def _find_named(self, key: str) -> tuple[list[Mapping[str, Any]], list[str]]:
        """The objects under a key of the manifests, and the files and folders named there."""
        objects: list[Mapping[str, Any]] = []
        places: list[str] = []
        values = [document[key] for document in self.documents if key in document]
        for value in [part for v in values for part in (v if isinstance(v, list) else [v])]:
            try:
                path = "/".join(split_path(value)) if isinstance(value, str) else "\0"
            except ConfigError:
                path = "\0"  # it leads out of the bundle
            if not path or any(f"{file}/".startswith(f"{path}/") for file in self.tree.files):
                places.append(path)
            elif isinstance(value, dict) and key in ("hooks", "mcpServers"):
                objects.append(value)
            else:
                shown = f"{key}: {visible(str(value))[:80]}"
                self.unused[shown] = "it is no file or folder of the bundle"
        return objects, places

    def _add_path(self, parts: dict[str, str], name: str, path: str) -> None:
        qualified = f"{self.name}:{name}"
        if not _PART_NAME.fullmatch(name) or parts.setdefault(qualified, path) != path:
            self.unused[path] = "its name cannot be typed, or another part has it"


def _join_arguments(group: Any) -> Any:
    """Joins each program of a group of hooks with its `args` into one command line, in which only
    variables `${CLAUDE_...}` are expanded. Changes and returns the group."""
    hooks = group.get("hooks") if isinstance(group, dict) else None
    for hook in hooks if isinstance(hooks, list) else ():
        if isinstance(hook, dict) and isinstance(words := hook.pop("args", None), list):
            line = shlex.join([str(hook.get("command", "")), *map(str, words)])
            hook["command"] = re.sub(r"\$\{CLAUDE_\w+\}", r"""'"\g<0>"'""", line)
    return group


FETCH_TIMEOUT_S = 300.0  # a repository of some hundred MB on a slow line
PROTOCOLS = "https:http:ssh:git:file"
"""The protocols that git may use; the address `ext::COMMAND` would run a program."""
LIST = "marketplace.json"
"""The file name of a marketplace's list, in the folder of the manifest."""
WAYS = (
    "kode extensions add ./FOLDER             a bundle",
    "kode extensions add https://HOST/REPO    a git address; OWNER/REPO for GitHub; #REF for a ref",
    "kode extensions add NAME@SOURCE          a bundle that this folder or address lists",
)
"""The ways to add a bundle, shown by `kode extensions list` and in errors."""

_FILES = (".json", ".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".txz")
"""How addresses end that lead to a file instead of a repository."""
_SCP = re.compile(r"(?:[\w.-]+@)?[\w.-]+:(?!//)[^\\]+")
_PASSWORD = re.compile(r"://[^/?#]*:[^/?#]+@")
_OWNER_REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_LISTED = re.compile(r"([A-Za-z0-9][\w.-]*)@(.+)")


@dataclass(frozen=True, kw_only=True)
class BundleSource:
    where: str
    """The absolute path or git address of the bundle, or of the marketplace that lists it."""
    ref: str = ""
    """The branch, tag or commit to fetch; "" for the default branch."""
    path: str = ""
    """The bundle's folder below `where`; "" for `where` itself."""
    sha: str = ""
    """The commit that the marketplace demands; "" for none."""
    entry: str = ""
    """The bundle's name in the marketplace's list; "" for a source without one."""

    def __str__(self) -> str:
        place = self.where + (f"#{self.ref}" if self.ref else "")
        return (f"{self.entry}@" if self.entry else "") + place + (self.path and f" ({self.path})")


class Fetched(NamedTuple):
    """A bundle as it is at its source."""

    tree: BundleTree
    parts: Parts
    commit: str


def parse_source(word: str, cwd: Path) -> BundleSource:
    """The source that a word of the command line names. Raises: ConfigError."""
    path = cwd / expand_path(word)
    if path.is_dir():
        return BundleSource(where=os.path.abspath(path))
    listed = _LISTED.fullmatch(word)
    if listed and not _SCP.fullmatch(word):
        return replace(parse_source(listed[2], cwd), entry=listed[1])
    where, _, ref = word.partition("#")
    if path.exists() or ("://" in where and where.partition("?")[0].endswith(_FILES)):
        raise ConfigError(f"{visible(word)} is a file. Fetch and unpack it, and add the folder.")
    return _make_git_source(
        f"https://github.com/{where}" if _OWNER_REPO.fullmatch(where) else where, ref
    )


def fetch_bundle(source: BundleSource, entry: Mapping[str, Any] = MappingProxyType({})) -> Fetched:
    """Fetches a bundle; `entry` is the marketplace's that named the source. Raises: ConfigError."""
    with _check_out(source) as (root, commit):
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
            return Fetched(tree, read_bundle(tree, entry, name), commit)
    return fetch_bundle(_parse_entry_source(entry), entry)


def _read_list(root: Path, source: BundleSource) -> dict[str, Mapping[str, Any]]:
    """The usable entries of a source's list by name, with their paths made relative to `root`; {}
    if there is no list. Silently skips unusable entries. Raises: ConfigError."""
    folder = Path(source.path, MANIFEST).parent
    tree = read_tree(root, str(folder)) if (root / folder).is_dir() else BundleTree(files={})
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
                steps = [*split_path(source.path), *split_path(top)]
                # A path that leads out of the root is refused where it is used.
                place = "/".join([*steps, place]) if place[:1] != "/" else place
            if isinstance(place, str | dict):
                usable.setdefault(entry["name"], {**entry, "source": place})
    return usable


def _make_git_source(where: str, ref: str) -> BundleSource:
    """Raises: ConfigError if `where` is no git address: a list may not name a local folder."""
    if "://" not in where and not _SCP.fullmatch(where):
        raise ConfigError(
            f"{visible(where)!r} names no bundle here. The ways to add one:\n  " + "\n  ".join(WAYS)
        )
    if redact_secrets(where) != where or _PASSWORD.search(where):
        raise ConfigError(
            "The address holds a password or token, which kode would have to keep. Leave it out: "
            "git finds it by a credential helper."
        )
    return BundleSource(where=where, ref=ref)


def _parse_entry_source(entry: Mapping[str, Any]) -> BundleSource:
    """The git source that a list's entry gives for its bundle. Raises: ConfigError."""
    kind, url, repo, ref, path, sha = (
        str(entry["source"].get(key, "")) for key in ("source", "url", "repo", "ref", "path", "sha")
    )
    if kind not in ("github", "url", "git-subdir", "git"):
        raise ConfigError(
            f"{entry['name']} comes from {visible(kind)[:40] or 'nowhere'!r}, which kode does not "
            "use: it takes folders and git addresses. Fetch it, and add the folder."
        )
    where = f"https://github.com/{repo}" if kind == "github" else url
    return replace(_make_git_source(where, ref), path=path, sha=sha)


@contextlib.contextmanager
def _check_out(source: BundleSource) -> Iterator[tuple[Path, str]]:
    """The source's folder or a temporary checkout; its commit or "". Raises: ConfigError."""
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
