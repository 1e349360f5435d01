"""Settings files of Claude Code and Codex: found, and read as far as kode has an equal.

Their denials and questions count as if the person's own config had them: they only make it
stricter. What they allow, and their variables, waits for a yes; see `kode.extensions.review`.
https://docs.claude.com/en/docs/claude-code/settings and
https://developers.openai.com/codex/config-reference describe the keys.
"""

import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from kode import credentials, paths
from kode.errors import ConfigError
from kode.paths import real_path
from kode.permissions.tool_names import own_rule

MAX_BYTES = 256 * 1024  # as other files for agents
FILES = (".claude/settings.local.json", ".claude/settings.json", ".codex/config.toml")
"""Below a project or a home."""
Scope = Literal["project", "home"]

_PATH = re.compile(r"^((?:Edit|Glob|Grep|LS|MultiEdit|NotebookEdit|Read|Write)\()(?:(/)/|\.?/)")
"""In Claude Code's rules `//a` is absolute, and `/a` and `./a` are relative to the project."""
_POLICY = "shell_environment_policy"


@dataclass(frozen=True, kw_only=True)
class ForeignSettings:
    """What a settings file of another agent says that has an equal here. Rules are kode's."""

    path: Path
    scope: Scope
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    """Allow nothing until a person has said so."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables for commands."""
    unused: tuple[str, ...] = ()
    """Keys, rules and variables that kode does not use."""
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
    """What `--settings` names, a file or JSON: TOML as Codex has it, all else as Claude Code
    has it. What it allows does not count. Raises: ConfigError."""
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
    """The settings in the text of a file, TOML or JSON by its name. Codex has no rules that deny a
    call: what makes it stricter is its sandbox and its policy, and kode has both of its own.

    Raises: ValueError, RecursionError.
    """
    is_toml = path.suffix == ".toml"
    document = tomllib.loads(text) if is_toml else json.loads(text.strip() or "{}")
    if not isinstance(document, dict):
        raise ValueError("it holds no JSON object")
    permissions, policy = (_object(document.pop(key, {})) for key in ("permissions", _POLICY))
    environment, unused = dict[str, str](), list[str]()

    def rules(kind: str, *, count: bool = True) -> tuple[str, ...]:
        written = permissions.pop(kind, [])
        pairs = [(text, _rule(text)) for text in (written if isinstance(written, list) else ())]
        unused.extend(f"permissions.{kind}: {it}" for it, rule in pairs if not (rule and count))
        return tuple(rule for _, rule in pairs if rule and count)

    deny, ask = rules("deny"), rules("ask")
    allow = rules("allow", count=not is_named)  # --allow says it
    for key, part in (("env", document.pop("env", {})), (f"{_POLICY}.set", policy.pop("set", {}))):
        for name, value in _object(part).items():
            if _is_variable(name, value):
                environment[name] = value
            else:
                unused.append(f"{key}.{name}")
    # Hooks in the usual places are read by `kode.extensions.hooks`.
    ignored = {"$schema"} if is_named or is_toml else {"$schema", "hooks"}
    unused += [key for key in document if key not in ignored]
    unused += [f"permissions.{key}" for key in permissions]
    unused += [f"{_POLICY}.{key}" for key in policy]
    return ForeignSettings(
        path=path,
        scope=scope,
        deny=deny,
        ask=ask,
        allow=allow,
        environment=environment,
        unused=tuple(unused),
    )


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _rule(rule: Any) -> str:
    """A rule of Claude Code in kode's words; "" for one that kode cannot express."""
    return own_rule(_PATH.sub(r"\1\2", rule.strip())) if isinstance(rule, str) else ""


def _is_variable(name: str, value: Any) -> bool:
    """Whether commands get it: `shell.environment` gives them what looks like a secret."""
    is_text = isinstance(value, str) and "\0" not in value and name != "" and "=" not in name
    return is_text and credentials.redact(line := f"{name}={value}") == line
