"""Sessions and memory of other agents, for `kode session import` and `kode memory import`.

sessions    a file of Claude Code or Codex → a transcript
memory      finds the memory files of other agents, and splits them into entries
"""

from kode.plugin import Plugin

PLUGIN = Plugin(
    name="imports",
    summary="sessions and memory of other agents",
    imports={
        "Claude Code": "kode.plugins.imports.sessions:read_claude_code",
        "Codex": "kode.plugins.imports.sessions:read_codex",
    },
    memory_imports={
        "claude": "kode.plugins.imports.memory:CLAUDE",
        "codex": "kode.plugins.imports.memory:CODEX",
        "agents": "kode.plugins.imports.memory:AGENTS_MD",
        "file": "kode.plugins.imports.memory:FILE",
    },
)
