"""Finds the folders for skills, commands, agents and hooks, of the project and of the person's
home, and reads their files, with the front matter of those in Markdown.

The nearest folder comes first: it takes precedence over the same name further away.
"""

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kode import installed, paths
from kode.config.files import project_folders, resolve_inside
from kode.errors import ConfigError
from kode.extensions.trust import FOREIGN, Scope
from kode.paths import real_path
from kode.values import dataclass, field

MAX_FILE_BYTES = 256 * 1024  # 64,000 tokens: nobody means to send more
MAX_FOUND = 500
"""Limit of files of one kind in one folder; a folder with more was not made for agents."""
MAX_DEPTH = 4  # a group in a group, and a spare one
SKIPPED = (".git", "node_modules", "__pycache__")
MAX_HEAD_CHARS = 16_000  # many times the longest description

_HEAD = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(
    r"^(?=(?:agent|allowed-tools|argument-hint|arguments|color|context|description|disallowedTools|"
    r"disable-model-invocation|effort|hooks|license|mcpServers|metadata|model|name|permissionMode|"
    r"reasoningEffort|skills|tools|user-invocable|version)[ \t]*:)",
    re.MULTILINE,
)
"""Where a field begins that agents know; in descriptions, examples have lines like `user: ...`."""
PLUGIN_ROOT = "${CLAUDE_PLUGIN_ROOT}"
"""What texts of a bundle call its folder."""


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """Skills, commands, agents, hooks and servers that a person approved as one, all below a copy
    in `$KODE_HOME`. Names are qualified: `BUNDLE:NAME`, of servers `BUNDLE.NAME`."""

    name: str
    folder: Path
    skills: Mapping[str, Path] = field(default_factory=dict)
    """Name → folder with a SKILL.md."""
    commands: Mapping[str, Path] = field(default_factory=dict)
    agents: Mapping[str, Path] = field(default_factory=dict)
    hooks: Mapping[str, Any] = field(default_factory=dict)
    """Event → groups, as `hooks` in a settings file."""
    servers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Name → entry, as `mcpServers` in a config file."""


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """Where to search for extensions."""

    cwd: Path
    project: Path
    """The folder that approvals are stored for."""
    home: Path
    """`$KODE_HOME`."""
    user_home: Path
    bundles: tuple[Bundle, ...] = ()
    faults: tuple[str, ...] = ()
    """A sentence for each bundle that is off."""


@dataclass(frozen=True, kw_only=True)
class ExtensionFolder:
    """A folder that may contain extensions."""

    folder: Path
    scope: Scope
    top: Path
    """The project, or the person's home, around it."""


def surroundings(cwd: Path, home: Path, user_home: Path | None) -> Surroundings:
    """The surroundings of a working directory, for a person with this home folder, or none."""
    bundles, faults = bundles_in(home)
    return Surroundings(
        cwd=cwd,
        project=paths.project_root(cwd),
        home=home,
        user_home=user_home or paths.NO_HOME,
        bundles=bundles,
        faults=faults,
    )


def bundles_in(home: Path) -> tuple[tuple[Bundle, ...], tuple[str, ...]]:
    """The bundles that a person approved and that are unchanged, and a sentence for each other.
    Never raises."""
    bundles, faults = list[Bundle](), list[str]()
    try:
        for plugin in installed.enabled_plugins() if paths.bundles_folder(home).is_dir() else ():
            if plugin.bundles:
                usable, off = installed.call_part(plugin, plugin.bundles, home)
                bundles += usable
                faults += off
    except ConfigError as error:
        faults.append(str(error))
    return tuple(bundles), tuple(faults)


def parts(bundles: Iterable[Bundle], kind: str) -> Iterator[tuple[str, Path, ExtensionFolder]]:
    """The name, path and place of each part of one kind ("skills")."""
    for bundle in bundles:
        place = ExtensionFolder(folder=bundle.folder, scope="bundle", top=bundle.folder)
        yield from ((name, path, place) for name, path in getattr(bundle, kind).items())


def places(around: Surroundings, kind: str) -> list[ExtensionFolder]:
    """The folders for `kind` ("skills"), nearest first: from the working directory up to the
    repository's root, then the home."""
    families = (".kode", *((".agents",) if kind == "skills" else ()), ".claude")
    personal = [around.home / kind, *(around.user_home / family / kind for family in families[1:])]
    above = [top / family / kind for top in project_folders(around.cwd) for family in families]

    def existing(folders: list[Path], scope: Scope, top: Path) -> dict[str, ExtensionFolder]:
        known = filter(Path.is_dir, folders)
        return {real_path(f): ExtensionFolder(folder=f, scope=scope, top=top) for f in known}

    home = existing(personal, "home", around.user_home)
    project = existing(above, "project", around.project)
    return [*(place for real, place in project.items() if real not in home), *home.values()]


def files_below(folder: Path, suffix: str) -> Iterator[Path]:
    """Files with this suffix, sorted, at most `MAX_FOUND` and `MAX_DEPTH` folders deep; does not
    follow links to folders."""

    def walk() -> Iterator[Path]:
        for where, folders, names in os.walk(folder):
            depth = len(Path(where).relative_to(folder).parts)
            folders[:] = sorted(set(folders) - set(SKIPPED)) if depth < MAX_DEPTH else []
            yield from (Path(where) / name for name in sorted(names) if name.endswith(suffix))

    return itertools.islice(walk(), MAX_FOUND)


def read_text(path: Path, place: ExtensionFolder) -> str:
    """The text of a file of a place.

    Raises: ConfigError if it is unreadable, too large or not text, or a project's link out of the
        place: a repository must not choose which of the reader's files leak, nor load what the
        person does not see beside it.
    """
    folders = (place.top, place.folder) if place.scope in FOREIGN else ()
    try:
        real = resolve_inside(path, *folders)
        if not real.is_file():
            raise ConfigError(f"{path} is not a file")
        with real.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path} could not be read ({error.strerror})") from error
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"{path} is larger than {MAX_FILE_BYTES // 1024} KB")
    if b"\0" in data:
        raise ConfigError(f"{path} is not text")
    text = data.decode("utf-8-sig", "replace")
    return text.replace(PLUGIN_ROOT, str(place.top)) if place.scope == "bundle" else text


# ── front matter: YAML between two lines of `---`. Lenient, because the files were written for
# other agents, some of which take what is no YAML.


@dataclass(frozen=True, kw_only=True)
class Document:
    whole: str
    body: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """A field as one text; "" if it is missing. A list is joined with commas."""
        value = self.fields.get(name)
        return ", ".join(filter(None, map(_plain, value if isinstance(value, list) else [value])))


def read_document(path: Path, place: ExtensionFolder) -> Document:
    """Reads a file with its front matter. Raises: ConfigError as `read_text`, and if the fields
    cannot be told apart: without its limits it would do more than intended."""
    try:
        return parse_document(read_text(path, place))
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None


def parse_document(text: str) -> Document:
    """Splits a text into fields and body. If the front matter is no YAML, as in `description: Use
    when: it rains`, each known field is read alone, as YAML or else as the text up to the next.
    Raises: ValueError."""
    plain = text.replace("\r\n", "\n").removeprefix("\ufeff")
    match = _HEAD.match(plain)
    if match is None:
        return Document(whole=text, body=plain.strip())
    if len(head := match[1]) > MAX_HEAD_CHARS:
        raise ValueError(f"its front matter has over {MAX_HEAD_CHARS} characters")
    if (fields := _load(head)) is None:
        first, *parts = _FIELD.split(head)
        if first and not re.match(r"[A-Za-z][\w-]*[ \t]*:", first):
            raise ValueError("its front matter is not YAML")
        fields = {}
        for part in parts:
            name, _, value = part.partition(":")
            loaded = _load(part) or {}
            fields[name.strip()] = loaded[name] if [*loaded] == [name] else value.strip()
    return Document(whole=text, body=plain[match.end() :].strip(), fields=fields)


def _load(head: str) -> dict[str, Any] | None:
    import yaml

    try:
        # The same in C, five times as fast, if the wheel has it.
        value = yaml.load(head, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError, ValueError):  # an invalid date is a ValueError
        return None
    if value is None:
        return {}
    return {str(key): item for key, item in value.items()} if isinstance(value, dict) else None


def _plain(value: Any) -> str:
    """Allows only plain values: an alias in YAML can expand to more text than fits in memory."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).strip() if isinstance(value, str | int | float) else ""
