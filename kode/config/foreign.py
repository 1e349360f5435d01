"""Settings files of Claude Code: found, and read as far as kode has an equal.

Their denials and questions count as if the person's own config had them: they only make it
stricter. What they allow does not count.
https://docs.claude.com/en/docs/claude-code/settings describes the keys.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kode import paths
from kode.config.files import decode, read_document
from kode.errors import ConfigError
from kode.paths import real_path
from kode.permissions.tool_names import own_rule

FILES = (".claude/settings.local.json", ".claude/settings.json")
"""Below a project or a home."""

_PATH = re.compile(r"^((?:Edit|Glob|Grep|LS|MultiEdit|NotebookEdit|Read|Write)\()(?:(/)/|\.?/)")
"""In Claude Code's rules `//a` is absolute, and `/a` and `./a` are relative to the project."""


@dataclass(frozen=True, kw_only=True)
class ForeignSettings:
    """What a settings file of another agent says that has an equal here. Rules are kode's."""

    path: Path
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    """Keys and rules that kode does not use."""
    fault: str = ""
    """Why nothing of it counts, a sentence; "" if it can be read."""


def find_foreign(cwd: Path) -> tuple[ForeignSettings, ...]:
    """The files for this working directory: the project's, the nearest first, then those of the
    person's home. Never raises."""
    home = Path(real_path(paths.user_home() or paths.NO_HOME))
    start, top = Path(real_path(cwd)), paths.project_root(cwd)
    above = [it for it in (start, *start.parents) if it.is_relative_to(top) and it != home]
    folders = ((folder, folder / name) for folder in (*above, home) for name in FILES)
    return tuple(_read(path, folder) for folder, path in folders if os.path.isfile(path))


def read_named_settings(text: str, cwd: Path) -> ForeignSettings:
    """What `--settings` names, a file or JSON. Raises: ConfigError."""
    if text.lstrip().startswith("{"):
        return parse_settings(decode(text, path := Path("--settings")), path, is_named=True)
    path = cwd / paths.expand(text)
    if not path.is_file():
        raise ConfigError(f"--settings {path}: it is no file. Give a file, or JSON in quotes.")
    return parse_settings(read_document(path), path, is_named=True)


def _read(path: Path, folder: Path) -> ForeignSettings:
    """A file that does not lie outside of its folder."""
    try:
        if not Path(real_path(path)).is_relative_to(real_path(folder)):
            raise ConfigError(f"{path} links out of {folder}: replace the link with a copy.")
        return parse_settings(read_document(path), path)
    except ConfigError as error:
        return ForeignSettings(path=path, fault=str(error))


def parse_settings(
    document: Mapping[str, Any], path: Path, *, is_named: bool = False
) -> ForeignSettings:
    """The settings in the document of a file."""
    permissions, unused = document.get("permissions"), list[str]()
    permissions = dict(permissions) if isinstance(permissions, dict) else {}

    def rules(kind: str) -> tuple[str, ...]:
        written = permissions.pop(kind, [])
        pairs = [(text, _rule(text)) for text in (written if isinstance(written, list) else ())]
        unused.extend(f"permissions.{kind}: {text}" for text, rule in pairs if not rule)
        return tuple(rule for _, rule in pairs if rule)

    deny, ask = rules("deny"), rules("ask")
    # Hooks in the usual places are read by `kode.extensions.hooks`.
    read = ("$schema", "permissions") if is_named else ("$schema", "permissions", "hooks")
    unused += [key for key in document if key not in read]
    unused += [f"permissions.{key}" for key in permissions]
    return ForeignSettings(path=path, deny=deny, ask=ask, unused=tuple(unused))


def _rule(rule: Any) -> str:
    """A rule of Claude Code in kode's words; "" for one that kode cannot express."""
    return own_rule(_PATH.sub(r"\1\2", rule.strip())) if isinstance(rule, str) else ""
