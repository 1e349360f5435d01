"""Settings files of Claude Code: found, and read as far as kode has an equal, their permissions.

Their denials and questions count as if the person's own config had them: they only make it
stricter. What they allow waits for a yes; see `kode.extensions.review`.
https://docs.claude.com/en/docs/claude-code/settings describes the keys.
"""

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kode import paths
from kode.errors import ConfigError
from kode.paths import real_path
from kode.permissions.tool_names import own_rule

MAX_BYTES = 256 * 1024  # as other files for agents
FILES = (".claude/settings.local.json", ".claude/settings.json")
"""Below a project or a home."""
Scope = Literal["project", "home"]

_PATH = re.compile(r"^((?:Edit|Glob|Grep|LS|MultiEdit|NotebookEdit|Read|Write)\()(?:(/)/|\.?/)")
"""In Claude Code's rules `//a` is absolute, and `/a` and `./a` are relative to the project."""


@dataclass(frozen=True, kw_only=True)
class ForeignSettings:
    """What a settings file of another agent says that has an equal here. Rules are kode's."""

    path: Path
    scope: Scope
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    """Allow nothing until a person has said so."""
    unused: tuple[str, ...] = ()
    """Keys and rules that kode does not use."""
    fault: str = ""
    """Why nothing of it counts; "" if it can be read."""


def find_foreign(cwd: Path) -> tuple[ForeignSettings, ...]:
    """The files for this working directory: the project's, the nearest first, then those of the
    person's home. Never raises."""
    home = Path(real_path(paths.user_home() or paths.NO_HOME))
    start, top = Path(real_path(cwd)), paths.project_root(cwd)
    above = [it for it in (start, *start.parents) if it.is_relative_to(top) and it != home]
    return tuple(
        _read(folder / name, "home" if folder == home else "project", folder)
        for folder in (*above, home)
        for name in FILES
        if os.path.isfile(folder / name)
    )


def read_named_settings(text: str, cwd: Path) -> ForeignSettings:
    """What `--settings` names, a file or JSON. What it allows does not count. Raises:
    ConfigError."""
    is_json = text.lstrip().startswith("{")
    path = Path("--settings") if is_json else Path(real_path(cwd / paths.expand(text)))
    settings = _read(path, "home", path.parent, text if is_json else None, is_named=True)
    if settings.fault:
        raise ConfigError(
            f"--settings {'JSON' if is_json else path}: {settings.fault}. Give a file, or JSON in "
            "quotes."
        )
    return settings


def _read(
    path: Path, scope: Scope, top: Path, text: str | None = None, *, is_named: bool = False
) -> ForeignSettings:
    """A file that does not lie outside of `top`, or its text."""
    try:
        if text is None:
            if not Path(real_path(path)).is_relative_to(real_path(top)):
                raise ValueError(f"it links out of {top}: replace the link with a copy")
            with path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
            if len(data) > MAX_BYTES:
                raise ValueError(f"it is larger than {MAX_BYTES // 1024} KB")
            text = data.decode("utf-8-sig", "replace")
        return parse_settings(text, path, scope, is_named=is_named)
    except (OSError, ValueError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        return ForeignSettings(path=path, scope=scope, fault=str(why))


def parse_settings(
    text: str, path: Path, scope: Scope = "project", *, is_named: bool = False
) -> ForeignSettings:
    """The settings in the text of a file. Raises: ValueError, RecursionError."""
    document = json.loads(text.strip() or "{}")
    if not isinstance(document, dict):
        raise ValueError("it holds no JSON object")
    permissions, unused = document.pop("permissions", {}), list[str]()
    permissions = dict(permissions) if isinstance(permissions, dict) else {}

    def rules(kind: str, *, count: bool = True) -> tuple[str, ...]:
        written = permissions.pop(kind, [])
        pairs = [(text, _rule(text)) for text in (written if isinstance(written, list) else ())]
        unused.extend(f"permissions.{kind}: {it}" for it, rule in pairs if not (rule and count))
        return tuple(rule for _, rule in pairs if rule and count)

    deny, ask = rules("deny"), rules("ask")
    allow = rules("allow", count=not is_named)  # --allow says it
    # Hooks in the usual places are read by `kode.extensions.hooks`.
    unused += [key for key in document if key != "$schema" and (is_named or key != "hooks")]
    unused += [f"permissions.{key}" for key in permissions]
    return ForeignSettings(
        path=path, scope=scope, deny=deny, ask=ask, allow=allow, unused=tuple(unused)
    )


def _rule(rule: Any) -> str:
    """A rule of Claude Code in kode's words; "" for one that kode cannot express."""
    return own_rule(_PATH.sub(r"\1\2", rule.strip())) if isinstance(rule, str) else ""
