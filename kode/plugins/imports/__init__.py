"""Sessions and memory of other agents, for `kode session import` and `kode memory import`.

claude_code    a file of Claude Code → a transcript
codex          a file of Codex → a transcript
lines          what both need: lines, calls with their results, messages
memory         what other agents remember, and where
markdown       a Markdown text → its entries
"""

from kode.plugin import Plugin

PLUGIN = Plugin(
    name="imports",
    summary="sessions and memory of other agents",
    imports={
        "Claude Code": "kode.plugins.imports.claude_code:read",
        "Codex": "kode.plugins.imports.codex:read",
    },
    memory_imports={
        "claude": "kode.plugins.imports.memory:CLAUDE",
        "codex": "kode.plugins.imports.memory:CODEX",
        "agents": "kode.plugins.imports.memory:AGENTS_MD",
        "file": "kode.plugins.imports.memory:FILE",
    },
)
