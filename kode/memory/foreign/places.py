"""Finds other agents' memory files, and recognizes whose a file is."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kode import paths
from kode.errors import MemoryRefused
from kode.memory.foreign.entries import AGENTS, Agent
from kode.memory.foreign.readers import looks_like
from kode.memory.proposals import About
from kode.memory.stored import read_import

MAX_BYTES = 16_000_000
_INSTRUCTIONS: Mapping[str, Agent] = {
    "CLAUDE.md": "claude",
    "CLAUDE.local.md": "claude",
    "AGENTS.md": "agents",
}
_OF_CODEX = ("memory_summary.md", "rollout_summaries", "raw_memories.md")
_TEXTS = (".md", ".markdown", ".mdc", ".txt")


@dataclass(frozen=True, kw_only=True)
class Source:
    """A file to take entries from."""

    agent: Agent
    path: Path
    about: About = "project"


def usual(cwd: Path, *, environ: Mapping[str, str] = os.environ) -> list[Source]:
    """The existing files in the usual places: the person's own, and those of the project around
    `cwd`."""
    home, project = Path.home(), paths.project_root(cwd)
    claude = Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")
    codex = Path(environ.get("CODEX_HOME") or home / ".codex")
    found = [
        Source(agent="claude", path=claude / "CLAUDE.md", about="user"),
        *(
            Source(agent="claude", path=project / name)
            for name in ("CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md")
        ),
        *_folder("claude", claude / "projects" / _slug(project) / "memory"),
        *_folder("codex", codex / "memories"),
        Source(agent="codex", path=codex / "AGENTS.md", about="user"),
        *(
            source
            for memory in sorted((home / ".letta" / "agents").glob("*/memory"))
            for source in _folder("letta", memory)
        ),
        *(Source(agent="letta", path=path) for path in sorted(project.glob("*.af"))),
        *(Source(agent="mem0", path=path) for path in sorted(project.glob("mem0*.json"))),
        Source(agent="agents", path=project / "AGENTS.md"),
    ]
    return [source for source in found if source.path.is_file()]


def named(path: Path, agent: Agent | None) -> list[Source]:
    """The file, or the files in a folder, that a person names; `agent` if they say whose it is.

    Raises: MemoryRefused for a file of no known agent.
    """
    if path.is_dir():
        owner = agent or _owner(path)
        found = _folder(owner, path) if owner else []
        if not found:
            raise MemoryRefused(
                f"{path} holds no memory that kode knows. Name its files, or say whose it is with "
                f"`--from`: {', '.join(AGENTS[:-1])}."
            )
        return found
    if not path.is_file():
        raise MemoryRefused(f"{path} is not there. Name a file or a folder.")
    own = (Path.home() / ".claude", Path.home() / ".codex")
    about: About = "user" if path.parent in own else "project"
    owner = agent or _of_file(path)
    if owner is None:
        raise MemoryRefused(
            f"kode does not know whose memory {path} is. Say it with `--from`: "
            f"{', '.join(AGENTS[:-1])}."
        )
    return [Source(agent=owner, path=path, about=about)]


def is_own_export(path: Path) -> bool:
    """Whether a file may be an export of kode's, which is imported directly: anything but Markdown,
    an agent file and another agent's JSON. The content of a Markdown file does not matter: anybody
    may have written it, so it goes through the review."""
    return path.is_file() and path.suffix not in (".af", *_TEXTS) and _of_file(path) is None


def read(path: Path) -> str:
    """The text with line feeds. Raises: MemoryRefused, as `read_import`."""
    return read_import(path, MAX_BYTES).replace("\r\n", "\n")


def _folder(agent: Agent, folder: Path) -> list[Source]:
    return [Source(agent=agent, path=path) for path in _files(agent, folder) if path.is_file()]


def _files(agent: Agent, folder: Path) -> Iterator[Path]:
    if agent == "codex":
        # The rest is what these two were made from.
        yield from (folder / name for name in ("memory_summary.md", "MEMORY.md"))
    elif agent == "letta":
        found = sorted(folder.rglob("*.md"))
        parts = {path: path.relative_to(folder).parts for path in found}
        hidden = [path for path in found if any(p.startswith(".") for p in parts[path])]
        yield from (path for path in found if path not in hidden and parts[path][0] != "skills")
    else:
        yield from sorted(folder.glob("*.md"))


def _owner(folder: Path) -> Agent | None:
    if any((folder / name).exists() for name in _OF_CODEX):
        return "codex"
    if (folder / "system").is_dir():
        return "letta"
    return "claude" if (folder / "MEMORY.md").is_file() else None


def _of_file(path: Path) -> Agent | None:
    """Whose a file is, by its name, folder or content."""
    if path.name in _INSTRUCTIONS:
        return _INSTRUCTIONS[path.name]
    if path.suffix == ".af":
        return "letta"
    if path.suffix in _TEXTS:
        is_kept = path.parent.name in ("memory", "memories")
        return (_owner(path.parent) if is_kept else None) or "file"
    if path.suffix == ".json":
        try:
            return looks_like(json.loads(read(path)))
        except (ValueError, RecursionError, MemoryRefused):
            return None
    return None


def _slug(project: Path) -> str:
    """Claude Code's name for the folder of a project."""
    return re.sub(r"[^A-Za-z0-9]", "-", str(project))
