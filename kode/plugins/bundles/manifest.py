"""What a bundle consists of: `.claude-plugin/plugin.json`, the usual folders, and what the entry of
a marketplace adds, as https://code.claude.com/docs/en/plugins-reference describes them."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kode.plugin import ConfigError, object_of, visible
from kode.plugins.bundles.tree import Tree, steps_of

MANIFEST = ".claude-plugin/plugin.json"
MAX_BYTES = 1024 * 1024
"""Limit of a manifest; public ones have some kilobytes."""
MAX_TEXT = 400  # characters of a description, a version: a few lines

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")
_PART = re.compile(r"[\w.-]+(?::[\w.-]+)*")
_SERVER = re.compile(r"[A-Za-z0-9._-]+")
_FOLDERS = {"skills", "commands", "agents"}
_ABOUT = {
    "$schema", "name", "version", "description", "author", "homepage", "repository", "license",
    "keywords", "category", "tags", "source", "strict", "displayName", "icon",
}  # fmt: skip
_PARTS = {*_FOLDERS, "hooks", "mcpServers"}
_OF_SERVERS = {
    "type", "command", "args", "env", "url", "headers", "timeout", "oauth", "disabled",
}  # fmt: skip

_WHY = {
    "lspServers": "kode starts no language servers; checkers of edits are built in (`diagnostics`)",
    "outputStyles": "kode has no styles; put the text in AGENTS.md if you want it",
    "themes": "kode has one look",
    "monitors": "kode starts no watchers; a hook does something at an event",
    "workflows": "kode has no workflows; `kode fleet` runs many tasks",
    "channels": "kode takes no messages from servers",
    "dependencies": "add each of them: `kode extensions add`",
    "userConfig": "kode asks for no values: set the variables it names in your environment",
    "settings": "a bundle does not change your settings",
    "bin": "kode puts no programs in the path of commands; hooks and skills reach them",
    "defaultEnabled": "what you added is on",
}
"""Keys of a manifest that kode does not use → what to do instead."""

_PLACES = {
    ".lsp.json": "lspServers",
    "output-styles/": "outputStyles",
    "themes/": "themes",
    "monitors/": "monitors",
    "workflows/": "workflows",
    "settings.json": "settings",
    "bin/": "bin",
}
"""The usual places of such parts."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The parts of a bundle; paths below it."""

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
    """What kode does not use of it → why."""


def is_bundle(tree: Tree) -> bool:
    """Whether files are those of a bundle, also of one without a manifest."""
    usual = ("skills/", "commands/", "agents/", "hooks/hooks.json", "SKILL.md")
    return any(path == MANIFEST or path.startswith(usual) for path in tree.files)


def parts_of(tree: Tree, entry: Mapping[str, Any], usual_name: str) -> Parts:
    """The parts of a bundle; `entry` is that of its marketplace, {} without one. Raises:
    ConfigError for a manifest that cannot be read, or a name that cannot be used."""
    manifest = _document(tree, MANIFEST) if MANIFEST in tree.files else {}
    name = entry.get("name") or manifest.get("name") or usual_name
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError(
            f"The bundle calls itself {visible(str(name))[:80]!r}: a name has up to 64 letters, "
            "digits, `-`, `.` and `_`. Nothing of it is used."
        )
    unused = dict(tree.left)
    alone = entry.get("strict") is False and not _PARTS.isdisjoint(entry)
    said = [entry] if alone else [manifest, entry]
    reading = _Reading(tree, name, unused, scans=not alone)
    for key in dict.fromkeys(key for one in said for key in one):
        if key not in _ABOUT | _PARTS:
            unused[visible(str(key))[:80]] = _WHY.get(key, "kode has no such part")
    for place, key in _PLACES.items():
        if any(path == place or path.startswith(place) for path in tree.files):
            unused.setdefault(place, _WHY[key])
    return Parts(
        name=name,
        version=_text(entry, manifest, key="version"),
        description=_text(entry, manifest, key="description"),
        skills=reading.skills([one["skills"] for one in said if "skills" in one]),
        commands=reading.files("commands", [one["commands"] for one in said if "commands" in one]),
        agents=reading.files("agents", [one["agents"] for one in said if "agents" in one]),
        hooks=reading.hooks([one["hooks"] for one in said if "hooks" in one]),
        servers=reading.servers([one["mcpServers"] for one in said if "mcpServers" in one]),
        unused=unused,
    )


@dataclass(frozen=True)
class _Reading:
    tree: Tree
    name: str
    unused: dict[str, str]
    scans: bool
    """Whether the usual folders count."""

    def skills(self, said: list[Any]) -> dict[str, str]:
        folders = ["skills"] if self.scans else []
        folders += [path for one in said for path in self._paths("skills", one)]
        found: dict[str, str] = {}
        for folder in folders:
            for path in sorted(self.tree.files):
                if path == f"{folder}/SKILL.md" or _is_in(path, folder, "SKILL.md", depth=1):
                    own = path.rpartition("/")[0]
                    self._add(found, own.rpartition("/")[2], own)
        if self.scans and not found and "SKILL.md" in self.tree.files:
            self._add(found, self.name, "")
        return found

    def files(self, kind: str, said: list[Any]) -> dict[str, str]:
        places = [path for one in said for path in self._paths(kind, one)]
        if not said and self.scans:
            places = [kind]
        found: dict[str, str] = {}
        for place in places:
            if place in self.tree.files:
                self._add(found, _stem(place), place)
                continue
            for path in sorted(self.tree.files):
                if path.startswith(f"{place}/") and path.endswith(".md"):
                    below = path.removeprefix(f"{place}/").removesuffix(".md")
                    own = below.replace("/", ":") if kind == "commands" else _stem(path)
                    self._add(found, own, path)
        return found

    def hooks(self, said: list[Any]) -> dict[str, list[Any]]:
        usual = "hooks/hooks.json"
        documents = [self._hooks_in(usual)] if self.scans and usual in self.tree.files else []
        for one in said:
            for part in one if isinstance(one, list) else [one]:
                if isinstance(part, dict):
                    documents.append(part.get("hooks", part))
                else:
                    paths = [p for p in self._paths("hooks", part) if p != usual]
                    documents += [self._hooks_in(path) for path in paths]
        found: dict[str, list[Any]] = {}
        for document in documents:
            for event, groups in document.items() if isinstance(document, dict) else ():
                if isinstance(groups, list):
                    found.setdefault(str(event), []).extend(map(_in_one_line, groups))
        return found

    def servers(self, said: list[Any]) -> dict[str, Any]:
        usual = ".mcp.json"
        documents = [self._document(usual)] if self.scans and usual in self.tree.files else []
        for one in said:
            for part in one if isinstance(one, list) else [one]:
                if isinstance(part, dict):
                    documents.append(part)
                else:
                    paths = [path for path in self._paths("mcpServers", part) if path != usual]
                    documents += [self._document(path) for path in paths]
        found: dict[str, Any] = {}
        for document in documents:
            section = document.get("mcpServers", document)
            for name, values in section.items() if isinstance(section, dict) else ():
                if isinstance(values, dict) and _SERVER.fullmatch(name):
                    found[f"{self.name}.{name}"] = self._plain(name, values)
                else:
                    self.unused[f"mcpServers.{visible(name)[:80]}"] = "it is no entry of a server"
        return found

    def _plain(self, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """An entry without what only a person gives, such as the network."""
        for key in sorted(values.keys() - _OF_SERVERS):
            self.unused[f"mcpServers.{name}.{visible(key)[:80]}"] = (
                "kode starts servers in the project's root"
                if key == "cwd"
                else "a bundle cannot say it; `kode extensions add --network` gives the network"
            )
        return {key: value for key, value in values.items() if key in _OF_SERVERS}

    def _add(self, found: dict[str, str], name: str, path: str) -> None:
        qualified = f"{self.name}:{name}"
        if _PART.fullmatch(name) and found.setdefault(qualified, path) == path:
            return
        self.unused[path] = "its name cannot be typed, or another part has it"

    def _paths(self, key: str, said: Any) -> list[str]:
        """The paths that a manifest names; notes those that it cannot use."""
        paths = list[str]()
        values = said if isinstance(said, list) else [said]
        if isinstance(said, dict):
            values = [v.get("source", v) if isinstance(v, dict) else v for v in said.values()]
        for value in values:
            about = f"{key}: {visible(str(value))[:80]}"
            if not isinstance(value, str):
                self.unused[about] = "kode reads parts from files only"
                continue
            try:
                path = "/".join(steps_of(value))
            except ConfigError:
                self.unused[about] = "it points outside of the bundle"
                continue
            held = any(not path or p == path or p.startswith(f"{path}/") for p in self.tree.files)
            if held and not path.endswith((".mcpb", ".dxt")):
                paths.append(path)
            else:
                self.unused[about] = "kode reads no such packages" if held else "it is not there"
        return paths

    def _hooks_in(self, path: str) -> Any:
        return self._document(path).get("hooks", {})

    def _document(self, path: str) -> dict[str, Any]:
        try:
            return _document(self.tree, path)
        except ConfigError as error:
            self.unused[path] = str(error)
            return {}


def _document(tree: Tree, path: str) -> dict[str, Any]:
    """Raises: ConfigError."""
    file = tree.files.get(path)
    if file is None or len(file.data) > MAX_BYTES:
        raise ConfigError(f"{path} is larger than {MAX_BYTES >> 20} MB, or no file.")
    found = object_of(file.data)
    if found is None:
        raise ConfigError(f"{path} holds no JSON object.")
    return found


def _is_in(path: str, folder: str, name: str, *, depth: int) -> bool:
    """Whether a file of this name is `depth` folders below another, "" for the bundle itself."""
    rest = path.removeprefix(f"{folder}/") if folder else path
    is_below = not folder or path.startswith(f"{folder}/")
    return is_below and rest.count("/") == depth and rest.endswith(f"/{name}")


def _stem(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(".md")


def _text(*said: Mapping[str, Any], key: str) -> str:
    found = next((one[key] for one in said if isinstance(one.get(key), str)), "")
    return " ".join(found.split())[:MAX_TEXT]


def _in_one_line(group: Any) -> Any:
    """A group of hooks with each program and its `args` as one command line."""
    if not isinstance(group, dict) or not isinstance(group.get("hooks"), list):
        return group
    return {**group, "hooks": [_line(one) for one in group["hooks"]]}


def _line(hook: Any) -> Any:
    args = hook.get("args") if isinstance(hook, dict) else None
    if not isinstance(args, list) or not isinstance(hook.get("command"), str):
        return hook
    words = " ".join(_quoted(str(word)) for word in (hook["command"], *args))
    return {**{key: value for key, value in hook.items() if key != "args"}, "command": words}


def _quoted(word: str) -> str:
    """A word for a shell, which puts in only where the bundle and the project are."""
    return "".join(
        f'"{piece}"' if piece.startswith("${CLAUDE_") else shlex.quote(piece)
        for piece in re.split(r"(\$\{CLAUDE_(?:PLUGIN_ROOT|PROJECT_DIR)\})", word)
        if piece
    )


def placed(value: Any, replaced: Mapping[str, str]) -> Any:
    """A JSON value with these words replaced in all of its texts."""
    if isinstance(value, dict):
        return {key: placed(held, replaced) for key, held in value.items()}
    if isinstance(value, list):
        return [placed(held, replaced) for held in value]
    if isinstance(value, str):
        for word, by in replaced.items():
            value = value.replace(word, by)
    return value
