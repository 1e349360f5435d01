"""Finds other agents' memory files, and recognizes whose a file is."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from kode.plugin import ForeignSource as Source
from kode.plugin import paths
from kode.plugins.imports.memory.readers import About, Agent

_INSTRUCTIONS: Mapping[str, Agent] = {
    "CLAUDE.md": "claude",
    "CLAUDE.local.md": "claude",
    "AGENTS.md": "agents",
}
_OF_CODEX = ("memory_summary.md", "rollout_summaries", "raw_memories.md")
_TEXTS = (".md", ".markdown", ".mdc", ".txt")


def usual(cwd: Path, *, environ: Mapping[str, str] = os.environ) -> list[Source]:
    """The existing files in the usual places: the person's own, and those of the project around
    `cwd`."""
    home, project = paths.user_home() or paths.NO_HOME, paths.project_root(cwd)
    claude = Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")
    codex = Path(environ.get("CODEX_HOME") or home / ".codex")
    sources = [
        Source(agent="claude", path=claude / "CLAUDE.md", about="user"),
        *(
            Source(agent="claude", path=project / name)
            for name in ("CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md")
        ),
        *_folder("claude", claude / "projects" / _slug(project) / "memory"),
        *_folder("codex", codex / "memories"),
        Source(agent="codex", path=codex / "AGENTS.md", about="user"),
        Source(agent="agents", path=project / "AGENTS.md"),
    ]
    return [source for source in sources if source.path.is_file()]


def named(path: Path, agent: Agent) -> list[Source]:
    """The file, or the files of this agent in a folder."""
    if path.is_dir():
        return _folder(agent, path)
    home = paths.user_home() or paths.NO_HOME
    about: About = "user" if path.parent in (home / ".claude", home / ".codex") else "project"
    return [Source(agent=agent, path=path, about=about)]


def owner(path: Path) -> Agent | None:
    """Whose a file or a folder is, by its name or place; None if nobody's."""
    return _of_folder(path) if path.is_dir() else _of_file(path)


def _folder(agent: Agent, folder: Path) -> list[Source]:
    return [Source(agent=agent, path=path) for path in _files(agent, folder) if path.is_file()]


def _files(agent: Agent, folder: Path) -> Iterator[Path]:
    if agent == "codex":
        # The rest is what these two were made from.
        yield from (folder / name for name in ("memory_summary.md", "MEMORY.md"))
    else:
        yield from sorted(folder.glob("*.md"))


def _of_folder(folder: Path) -> Agent | None:
    if any((folder / name).exists() for name in _OF_CODEX):
        return "codex"
    return "claude" if (folder / "MEMORY.md").is_file() else None


def _of_file(path: Path) -> Agent | None:
    """Whose a file is, by its name or folder."""
    if path.name in _INSTRUCTIONS:
        return _INSTRUCTIONS[path.name]
    if path.suffix in _TEXTS:
        is_kept = path.parent.name in ("memory", "memories")
        return (_of_folder(path.parent) if is_kept else None) or "file"
    return None


def _slug(project: Path) -> str:
    """Claude Code's name for the folder of a project."""
    return re.sub(r"[^A-Za-z0-9]", "-", str(project))
