"""Settings files of Claude Code and Codex: found, and read as far as kode has an equal.

Their denials and questions count as if the person's own config had them: they only make it
stricter. What they allow, and their variables, waits for a yes; see `kode.extensions.foreign`.
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
_NO_RULE = "kode has no such rule: write one of your own"
_INSTEAD = {
    "approval_policy": "set `permissions.mode`: kode asks by default",
    "enabledPlugins": "`kode extensions add` takes a bundle",
    "hooks": "put it into `.claude/settings.json`",
    "mcp_servers": "`kode mcp import` takes servers",
    "model": "set `model` in kode's config",
    "model_provider": "set `provider` in kode's config",
    "model_providers": "set `providers` in kode's config",
    "model_reasoning_effort": "set `effort` in kode's config",
    "notify": "a hook of the event Notification or Stop does this",
    "permissions.additionalDirectories": "set `add_dirs`, or give --add-dir",
    "permissions.defaultMode": "set `permissions.mode`",
    "sandbox": "kode has a sandbox of its own, on by default: `sandbox`",
    "sandbox_mode": "set `permissions.mode` to plan, or `sandbox`",
    "sandbox_workspace_write": "set `sandbox.network`, `add_dirs`",
    _POLICY: "commands get an allow-list: `shell.environment` adds to it",
}
"""A key of either agent → what to do instead."""


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
    unused: Mapping[str, str] = field(default_factory=dict)
    """Key → why kode does not use it, in a few words that say what to do instead."""
    fault: str = ""
    """Why nothing of it counts; "" if it can be read."""
    is_named: bool = False
    """Whether the person named it: `--settings`."""


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
        return ForeignSettings(path=path, scope=scope, fault=str(why), is_named=is_named)


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
    environment, unused, fields = dict[str, str](), dict[str, str](), dict[str, Any]()
    for kind in ("deny", "ask", "allow"):
        written = permissions.pop(kind, [])
        rules = [(text, _rule(text)) for text in (written if isinstance(written, list) else ())]
        fields[kind] = tuple(rule for _, rule in rules if rule)
        unused |= {f"permissions.{kind}: {text}": _NO_RULE for text, rule in rules if not rule}
    if is_named:
        unused |= {f"permissions.allow: {rule}": "use --allow" for rule in fields.pop("allow")}
    for key, part in (("env", document.pop("env", {})), (f"{_POLICY}.set", policy.pop("set", {}))):
        for name, value in _object(part).items():
            if fault := _fault(name, value):
                unused[f"{key}.{name}"] = fault
            else:
                environment[name] = value
    # Hooks in the usual places are read by `kode.extensions.hooks`.
    ignored = {"$schema"} if is_named or is_toml else {"$schema", "hooks", "statusLine"}
    left = [key for key in document if key not in ignored]
    left += [f"permissions.{key}" for key in permissions]
    unused |= {key: _INSTEAD.get(key, "kode has no such setting") for key in left}
    unused |= {f"{_POLICY}.{key}": _INSTEAD[_POLICY] for key in policy}
    fields |= {"environment": environment, "unused": unused}
    return ForeignSettings(path=path, scope=scope, is_named=is_named, **fields)


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _rule(rule: Any) -> str:
    """A rule of Claude Code in kode's words; "" for one that kode cannot express."""
    return own_rule(_PATH.sub(r"\1\2", rule.strip())) if isinstance(rule, str) else ""


def _fault(name: str, value: Any) -> str:
    """Why commands do not get a variable, "" if they do."""
    if not isinstance(value, str) or "\0" in value or "=" in name or not name:
        return "it is no text"
    is_secret = credentials.redact(line := f"{name}={value}") != line
    return "it looks like a secret: `shell.environment` gives commands one" if is_secret else ""
