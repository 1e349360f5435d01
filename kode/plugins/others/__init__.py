"""Settings files of other agents: what of them has an equal in kode, and why the rest has none."""

from kode.plugin import Plugin

CLAUDE = "kode.plugins.others.claude:read"

PLUGIN = Plugin(
    name="others",
    summary="reads the settings of Claude Code and Codex",
    foreign_settings={
        ".claude/settings.local.json": CLAUDE,
        ".claude/settings.json": CLAUDE,
        ".codex/config.toml": "kode.plugins.others.codex:read",
    },
    hints={
        "flags": "kode.plugins.others.words:FLAGS",
        "commands": "kode.plugins.others.words:COMMANDS",
        "prompt": "kode.plugins.others.words:PROMPT_COMMANDS",
        "sandbox": "kode.plugins.others.words:SANDBOX_MODES",
    },
    checks="kode.plugins.others.checks:checks",
)
