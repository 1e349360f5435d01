"""`.codex/config.toml`, of Codex: `shell_environment_policy.set`.

https://developers.openai.com/codex/config-reference describes the keys. Codex has no rules in it
that deny a call: what makes it stricter is its sandbox and its policy, which kode has its own of.
"""

import tomllib

from kode.plugin.contracts import ForeignSettings
from kode.plugins.others.variables import for_commands

WHY = {
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
POLICY = "shell_environment_policy"


def read(text: str) -> ForeignSettings:
    """What a config file says. Raises: ValueError."""
    settings = tomllib.loads(text)
    policy = settings.pop(POLICY, {})
    policy = policy if isinstance(policy, dict) else {}
    variables, left = for_commands(f"{POLICY}.set", policy.pop("set", {}))
    unused = {key: WHY.get(key, "kode has no such setting") for key in settings}
    for key in policy:
        unused[f"{POLICY}.{key}"] = "commands get an allow-list: `shell.environment` adds to it"
    return ForeignSettings(environment=variables, unused={**unused, **left})
