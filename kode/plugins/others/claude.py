"""`.claude/settings.json`, of Claude Code: `permissions` and `env`.

https://docs.claude.com/en/docs/claude-code/settings describes the keys.
"""

import json
from typing import Any

from kode.plugin import own_rule
from kode.plugin.contracts import ForeignSettings
from kode.plugins.others.variables import for_commands

ELSEWHERE = {"hooks", "statusLine"}
"""What kode reads of the file by itself."""

WHY = {
    "apiKeyHelper": "kode runs no program for a key: set the provider's variable",
    "enabledPlugins": "`kode extensions add` takes a bundle",
    "extraKnownMarketplaces": "`kode extensions add` takes a bundle",
    "model": "set `model` in kode's config",
    "outputStyle": "kode has no styles",
    "permissions.additionalDirectories": "set `add_dirs`, or give --add-dir",
    "permissions.defaultMode": "set `permissions.mode`",
    "permissions.disableBypassPermissionsMode": "kode has no such setting",
    "sandbox": "kode has a sandbox of its own, on by default: `sandbox`",
}
PATHS = ("Edit", "Glob", "Grep", "LS", "MultiEdit", "NotebookEdit", "Read", "Write")
"""Tools whose rules are about paths."""


def read(text: str) -> ForeignSettings:
    """What a settings file says. Raises: ValueError."""
    settings = json.loads(text.strip() or "{}")
    if not isinstance(settings, dict):
        raise ValueError("it holds no JSON object")
    unused = {key: WHY.get(key, "kode has no such setting") for key in settings}
    permissions = settings.get("permissions", {})
    permissions = permissions if isinstance(permissions, dict) else {}
    for key in ("permissions", "env", "$schema", *ELSEWHERE):
        unused.pop(key, None)
    rules = dict[str, tuple[str, ...]]()
    for kind in ("deny", "ask", "allow"):
        given = permissions.get(kind, [])
        said = [(rule, _rule(rule)) for rule in given] if isinstance(given, list) else []
        rules[kind] = tuple(own for _, own in said if own)
        for rule in (rule for rule, own in said if not own):
            unused[f"permissions.{kind}: {rule}"] = "kode has no such rule: write one of your own"
    for key in sorted(permissions.keys() - rules.keys()):
        name = f"permissions.{key}"
        unused[name] = WHY.get(name, "kode has no such setting")
    variables, left = for_commands("env", settings.get("env", {}))
    both, elsewhere = {**unused, **left}, tuple(settings.keys() & ELSEWHERE)
    return ForeignSettings(**rules, environment=variables, unused=both, elsewhere=elsewhere)


def _rule(rule: Any) -> str:
    """A rule in kode's words; "" for one that kode cannot express."""
    return own_rule(_with_path(rule.strip())) if isinstance(rule, str) else ""


def _with_path(rule: str) -> str:
    """`//a` is absolute there, and `/a` and `./a` are relative to the project."""
    name, parenthesis, rest = rule.partition("(")
    if name not in PATHS or not parenthesis:
        return rule
    absolute = rest.startswith("//")
    relative = not absolute and rest.startswith(("/", "./"))
    return f"{name}({rest[1:] if absolute else rest[rest.index('/') + 1 :] if relative else rest}"
