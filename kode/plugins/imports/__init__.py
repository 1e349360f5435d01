"""Sessions of other agents for `kode session import`.

claude_code    a file of Claude Code → a transcript
codex          a file of Codex → a transcript
lines          what both need: lines, calls with their results, messages
"""

from kode.plugin import Plugin

PLUGIN = Plugin(
    name="imports",
    summary="sessions of Claude Code and Codex",
    imports={
        "Claude Code": "kode.plugins.imports.claude_code:read",
        "Codex": "kode.plugins.imports.codex:read",
    },
)
