"""What other agents have configured on this machine: where each keeps its MCP servers."""

import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kode.plugin.errors import ConfigError
from kode.plugins.servers.forms import Wanted, parsed, section_of, wanted_in

MAX_BYTES = 32 * 1024 * 1024
"""Limit of a file; `~/.claude.json` holds whole histories."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """A server of another agent."""

    agent: str
    """A word to name it by, such as `claude`."""
    path: Path
    server: Wanted


def found_servers(
    home: Path, cwd: Path, project: Path, environ: Mapping[str, str]
) -> tuple[list[Found], list[str]]:
    """The servers of all agents, those of the project first, and a sentence for each file that
    cannot be read. Never raises."""
    found: list[Found] = []
    faults: list[str] = []
    for agent, path in _places(home, project, environ):
        try:
            documents = list(_documents(agent, path, cwd, project))
        except FileNotFoundError:
            continue
        except (OSError, ValueError, ConfigError) as error:
            said = error.strerror if isinstance(error, OSError) else error
            faults.append(f"{path} could not be read: {said}")
            continue
        for document in documents:
            servers = wanted_in({"servers": section_of(document)})
            found += (Found(agent=agent, path=path, server=one) for one in servers)
    return found, faults


def _places(home: Path, project: Path, environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Agent and file, as their documentation says on 2026-11-27; some may be missing."""
    mac = sys.platform == "darwin"
    config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    apps = home / "Library/Application Support" if mac else config
    claude = Path(environ["CLAUDE_CONFIG_DIR"]) if environ.get("CLAUDE_CONFIG_DIR") else home
    codex = Path(environ.get("CODEX_HOME") or home / ".codex")
    yield "codex", project / ".codex/config.toml"
    yield "cursor", project / ".cursor/mcp.json"
    yield "vscode", project / ".vscode/mcp.json"
    yield "zed", project / ".zed/settings.json"
    yield "gemini", project / ".gemini/settings.json"
    yield "claude", claude / ".claude.json"
    yield "claude-desktop", apps / "Claude/claude_desktop_config.json"
    yield "codex", codex / "config.toml"
    yield "cursor", home / ".cursor/mcp.json"
    for name in ("Code", "Code - Insiders", "VSCodium"):
        yield "vscode", apps / name / "User/mcp.json"
        yield "vscode", apps / name / "User/settings.json"
    yield "zed", config / "zed/settings.json"
    yield "gemini", home / ".gemini/settings.json"


def _documents(agent: str, path: Path, cwd: Path, project: Path) -> Iterator[Mapping[str, Any]]:
    """The documents in a file that may hold servers. Raises: OSError, ValueError, ConfigError."""
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"it is larger than {MAX_BYTES >> 20} MB")
    text = data.decode("utf-8-sig")
    document = tomllib.loads(text) if path.suffix == ".toml" else parsed(text) if text else {}
    known = ("mcpServers", "servers", "context_servers", "mcp_servers", "mcp")
    if agent == "claude":
        projects = document.get("projects")
        by_folder = projects if isinstance(projects, dict) else {}
        for folder in dict.fromkeys((str(cwd), str(project))):
            if isinstance(own := by_folder.get(folder), dict) and "mcpServers" in own:
                yield own
    if any(isinstance(document.get(key), dict) for key in known):
        yield _typed(document) if agent == "gemini" else document


def _typed(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gemini's `url` is of the older transport, `httpUrl` of the newer one."""
    servers = {
        name: {"type": "sse", **values} if isinstance(values, dict) and "url" in values else values
        for name, values in section_of(document).items()
    }
    return {"mcpServers": servers}
