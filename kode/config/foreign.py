"""Settings files of Claude Code and Codex: found, and read as far as kode has an equal.

Their denials and questions count as if the person's own config had them: they only make it
stricter. What they allow, and their variables, waits for a yes; see `kode.extensions.foreign`.
https://docs.claude.com/en/docs/claude-code/settings and
https://developers.openai.com/codex/config-reference describe the keys.
"""

import json
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from kode import credentials, paths
from kode.errors import ConfigError, KodeError
from kode.paths import real_path
from kode.permissions.tool_names import own_rule

MAX_BYTES = 256 * 1024  # as other files for agents

_READ_AS_HOOKS = {"hooks", "statusLine"}
"""What kode reads of Claude Code's file by itself."""
_PATH_TOOLS = ("Edit", "Glob", "Grep", "LS", "MultiEdit", "NotebookEdit", "Read", "Write")
"""Claude Code's tools whose rules are about paths."""
_POLICY = "shell_environment_policy"
_NO_SUCH_SETTING = "kode has no such setting"
_CLAUDE_KEYS = {
    "apiKeyHelper": "kode runs no program for a key: set the provider's variable",
    "enabledPlugins": "`kode extensions add` takes a bundle",
    "extraKnownMarketplaces": "`kode extensions add` takes a bundle",
    "model": "set `model` in kode's config",
    "outputStyle": "kode has no styles",
    "permissions.additionalDirectories": "set `add_dirs`, or give --add-dir",
    "permissions.defaultMode": "set `permissions.mode`",
    "sandbox": "kode has a sandbox of its own, on by default: `sandbox`",
}
_CODEX_KEYS = {
    "approval_policy": "set `permissions.mode`: kode asks by default",
    "mcp_servers": "`kode mcp add` takes a server",
    "model": "set `model` in kode's config",
    "model_provider": "set `provider` in kode's config",
    "model_providers": "set `providers` in kode's config",
    "model_reasoning_effort": "set `effort` in kode's config",
    "notify": "a hook of the event Notification or Stop does this",
    "profiles": "kode has no profiles of settings",
    "projects": "`kode extensions trust` keeps what you approved",
    "sandbox_mode": "set `permissions.mode` to plan, or `sandbox`",
    "sandbox_workspace_write": "set `sandbox.network`, `add_dirs`",
}


@dataclass(frozen=True, kw_only=True)
class ForeignSettings:
    """What a settings file of another agent says that has an equal here. Rules are kode's."""

    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    """Allow nothing until a person has said so."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables for commands."""
    unused: Mapping[str, str] = field(default_factory=dict)
    """Key → why kode does not use it, in a few words that say what to do instead."""
    elsewhere: tuple[str, ...] = ()
    """Keys that something else in kode reads, of the files in their usual places alone."""


@dataclass(frozen=True, kw_only=True)
class Foreign:
    """One such file."""

    path: Path
    scope: Literal["project", "home"]
    settings: ForeignSettings = field(default_factory=ForeignSettings)
    fault: str = ""
    """Why nothing of it counts; "" if it can be read."""
    named: bool = False
    """Whether the person named it: `--settings`."""


def find_foreign(cwd: Path) -> tuple[Foreign, ...]:
    """The files for this working directory: the project's, the nearest first, then those of the
    person's home. Never raises."""
    found = []
    for folder, scope in _folders(cwd):
        for name, read in _READERS.items():
            path = folder / name
            if not os.path.isfile(path):
                continue
            try:
                settings = read(_text(path, folder))
            except (KodeError, OSError, ValueError, RecursionError) as error:
                found.append(Foreign(path=path, scope=scope, fault=str(error)))
            else:
                found.append(Foreign(path=path, scope=scope, settings=settings))
    return tuple(found)


def given(text: str, cwd: Path) -> Foreign:
    """What `--settings` names, a file or JSON: TOML as Codex has it, all else as Claude Code
    has it. What it allows does not count. Raises: ConfigError."""
    is_json = text.lstrip().startswith("{")
    path = Path("--settings") if is_json else Path(real_path(cwd / paths.expand(text)))
    read = read_codex_settings if path.suffix == ".toml" else read_claude_settings
    try:
        said = read(text if is_json else _text(path, path.parent))
    except (ConfigError, OSError, ValueError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(
            f"--settings {'JSON' if is_json else path}: {why}. Give a file, or JSON in quotes."
        ) from error
    left = {f"permissions.allow: {rule}": "give it with --allow" for rule in said.allow}
    left |= dict.fromkeys(said.elsewhere, "put it into `.claude/settings.json`")
    said = replace(said, allow=(), unused={**said.unused, **left})
    return Foreign(path=path, scope="home", settings=said, named=True)


def _folders(cwd: Path) -> Iterator[tuple[Path, Literal["project", "home"]]]:
    home = Path(real_path(paths.user_home() or paths.NO_HOME))
    top = paths.project_root(cwd)
    here = Path(real_path(cwd))
    for folder in (here, *here.parents):
        if folder != home and (folder == top or top in folder.parents):
            yield folder, "project"
    yield home, "home"


def _text(path: Path, folder: Path) -> str:
    """Raises: ConfigError, OSError."""
    if not Path(real_path(path)).is_relative_to(real_path(folder)):
        raise ConfigError(f"it links out of {folder}: replace the link with a copy")
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ConfigError(f"it is larger than {MAX_BYTES // 1024} KB")
    return data.decode("utf-8-sig", "replace")


def read_claude_settings(text: str) -> ForeignSettings:
    """What `permissions` and `env` of a settings file of Claude Code say. Raises: ValueError."""
    settings = json.loads(text.strip() or "{}")
    if not isinstance(settings, dict):
        raise ValueError("it holds no JSON object")
    used = {"permissions", "env", "$schema", *_READ_AS_HOOKS}
    unused = {key: _CLAUDE_KEYS.get(key, _NO_SUCH_SETTING) for key in settings if key not in used}
    permissions = _object(settings.get("permissions"))
    rules = dict[str, tuple[str, ...]]()
    for kind in ("deny", "ask", "allow"):
        entries = permissions.pop(kind, [])
        translated = [(rule, _rule(rule)) for rule in entries] if isinstance(entries, list) else []
        rules[kind] = tuple(rule for _, rule in translated if rule)
        for entry in (entry for entry, rule in translated if not rule):
            unused[f"permissions.{kind}: {entry}"] = "kode has no such rule: write one of your own"
    for name in (f"permissions.{key}" for key in sorted(permissions)):
        unused[name] = _CLAUDE_KEYS.get(name, _NO_SUCH_SETTING)
    variables, left = _command_variables("env", settings.get("env"))
    return ForeignSettings(
        **rules,
        environment=variables,
        unused={**unused, **left},
        elsewhere=tuple(settings.keys() & _READ_AS_HOOKS),
    )


def read_codex_settings(text: str) -> ForeignSettings:
    """What `shell_environment_policy.set` of a config file of Codex says. It has no rules that deny
    a call: what makes it stricter is its sandbox and its policy, and kode has both of its own.

    Raises: ValueError.
    """
    settings = tomllib.loads(text)
    policy = _object(settings.pop(_POLICY, {}))
    variables, left = _command_variables(f"{_POLICY}.set", policy.pop("set", {}))
    unused = {key: _CODEX_KEYS.get(key, _NO_SUCH_SETTING) for key in settings}
    for key in policy:
        unused[f"{_POLICY}.{key}"] = "commands get an allow-list: `shell.environment` adds to it"
    return ForeignSettings(environment=variables, unused={**unused, **left})


_READERS: Mapping[str, Callable[[str], ForeignSettings]] = {
    ".claude/settings.local.json": read_claude_settings,
    ".claude/settings.json": read_claude_settings,
    ".codex/config.toml": read_codex_settings,
}
"""Path below a project or a home → what reads its text."""


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _rule(rule: Any) -> str:
    """A rule of Claude Code in kode's words; "" for one that kode cannot express."""
    return own_rule(_with_path(rule.strip())) if isinstance(rule, str) else ""


def _with_path(rule: str) -> str:
    """`//a` is absolute there, and `/a` and `./a` are relative to the project."""
    name, parenthesis, rest = rule.partition("(")
    if name not in _PATH_TOOLS or not parenthesis:
        return rule
    absolute = rest.startswith("//")
    relative = not absolute and rest.startswith(("/", "./"))
    return f"{name}({rest[1:] if absolute else rest[rest.index('/') + 1 :] if relative else rest}"


def _command_variables(key: str, entries: Any) -> tuple[dict[str, str], Mapping[str, str]]:
    """The variables for commands of an object under `key`, and why others are left out. A secret
    is: commands get none unasked."""
    variables, left = dict[str, str](), dict[str, str]()
    for name, value in _object(entries).items():
        if not isinstance(value, str) or "\0" in value or "=" in name or not name:
            left[f"{key}.{name}"] = "it is no text"
        elif credentials.redact(line := f"{name}={value}") != line:
            left[f"{key}.{name}"] = (
                "it looks like a secret: set it in your own environment, and for commands name it "
                "in `shell.environment`"
            )
        else:
            variables[name] = value
    return variables, left
