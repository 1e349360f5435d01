"""`kode mcp import`: lists the MCP servers that other agents have configured on this machine, and
takes the chosen ones into kode's config."""

import argparse
import json
import os
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kode import credentials, paths
from kode.cli.commands.mcp_add import (
    FOREIGN_KEYS,
    SECTIONS,
    ParsedServer,
    add_all,
    parse_json,
    parse_server,
    section_of,
    servers_in,
    variable_name,
)
from kode.cli.flags import working_directory
from kode.cli.parser import Parser
from kode.cli.screen.printer import print_either
from kode.errors import ConfigError
from kode.extensions.mcp_config import find_servers
from kode.messages import columns
from kode.permissions.gate import visible
from kode.plain_text import clean

SECRET_NAME = re.compile(r"(?i)key|token|secret|passw|auth|credential|cookie")
REFERENCE = re.compile(r"\$\{([A-Za-z_]\w*)\}")
MAX_BYTES = 32 * 1024 * 1024
"""Limit of a file; `~/.claude.json` holds whole histories."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """A server of another agent."""

    agent: str
    """A word to name it by, such as `claude`."""
    path: Path
    server: ParsedServer


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
            found += (
                Found(agent=agent, path=path, server=parse_server(name, values, FOREIGN_KEYS))
                for name, values in servers_in({"servers": section_of(document)})
            )
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
    document = tomllib.loads(text) if path.suffix == ".toml" else parse_json(text) if text else {}
    if agent == "claude":
        projects = document.get("projects")
        by_folder = projects if isinstance(projects, dict) else {}
        for folder in dict.fromkeys((str(cwd), str(project))):
            if isinstance(own := by_folder.get(folder), dict) and "mcpServers" in own:
                yield own
    if any(isinstance(document.get(key), dict) for key in (*SECTIONS, "mcp")):
        yield _typed(document) if agent == "gemini" else document


def _typed(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gemini's `url` is of the older transport, `httpUrl` of the newer one."""
    servers = {
        name: {"type": "sse", **values} if isinstance(values, dict) and "url" in values else values
        for name, values in section_of(document).items()
    }
    return {"mcpServers": servers}


def with_references(server: ParsedServer, environ: Mapping[str, str]) -> ParsedServer:
    """Replaces what is secret by references to variables of the environment, so that no copy is
    made of it."""

    def reference(name: str, key: str, value: str) -> str:
        is_secret = bool(SECRET_NAME.search(key)) or credentials.redact(value) != value
        if not is_secret or "${" in value or not value:
            return value
        known = (variable for variable, known in environ.items() if known == value)
        return f"${{{next(known, None) or name}}}"

    own, values = variable_name(f"-{server.name}-").upper(), dict(server.values)
    if "env" in values:
        values["env"] = {
            key: reference(variable_name(key), key, value) for key, value in values["env"].items()
        }
    if "headers" in values:
        values["headers"] = {
            key: reference(f"{own}_{variable_name(key).upper()}", key, value)
            for key, value in values["headers"].items()
        }
    if "url" in values:
        values["url"] = reference(f"{own}_URL", "", values["url"])
    if "args" in values:
        values["args"] = [
            reference(f"{own}_ARG_{number}", "", word)
            for number, word in enumerate(values["args"], 1)
        ]
    used = dict.fromkeys(REFERENCE.findall(json.dumps(values)))
    missing = ", ".join(name for name in used if name not in environ)
    note = f"It needs {missing} in your environment: kode copies no secrets."
    return replace(server, values=values, notes=(*server.notes, *([note] if missing else [])))


def main(argv: Sequence[str]) -> int:
    """Runs `kode mcp import ...`. Raises: ConfigError, StorageError, BusyError."""
    parser = Parser(
        "kode mcp import",
        "List the MCP servers of Claude Code, Codex, Cursor, VS Code, Zed and Gemini on this "
        "machine; with names, take those. Secrets become references to your environment.",
    )
    add = parser.add_argument
    add("names", metavar="NAME", nargs="*", help="a server, or AGENT:NAME")
    add("--all", action="store_true", help="take all that are not here yet")
    scopes = ("home", "project")
    add("-s", "--scope", choices=scopes, default="home", help="where to: home (default), project")
    add("--json", action="store_true", help="one JSON list, and take nothing")
    arguments = parser.parse(argv)
    cwd = working_directory(argparse.Namespace(cwd=None))
    user_home = paths.user_home() or paths.NO_HOME
    found, faults = found_servers(user_home, cwd, paths.project_root(cwd), os.environ)
    for fault in faults:
        print(clean(f"kode: {visible(fault)}"), file=sys.stderr)
    here = {entry.name for entry in find_servers(paths.home(), cwd).entries}
    names = arguments.names
    if not names and not arguments.all:
        rows = [_row(one, here) for one in found]
        print_either(rows, _lines(rows), as_json=arguments.json)
        names = [] if arguments.json or not found else _ask_for_names()
    chosen = _new(found, here) if arguments.all or names == ["all"] else _chosen(found, names)
    taken = [with_references(one.server, os.environ) for one in chosen]
    return add_all(taken, arguments.scope == "project", cwd)


def _new(found: Sequence[Found], here: set[str]) -> list[Found]:
    """Of several with one name the first: those of the project come first."""
    first: dict[str, Found] = {}
    for one in found:
        if one.server.name not in here:
            first.setdefault(one.server.name, one)
    return list(first.values())


def _chosen(found: Sequence[Found], names: Sequence[str]) -> list[Found]:
    """Raises: ConfigError for a name that nobody has, or several with different entries."""
    chosen = []
    for name in names:
        fitting = [one for one in found if name in (one.server.name, _full_name(one))]
        if not fitting:
            raise ConfigError(f"No other agent has an MCP server {name!r}: `kode mcp import`.")
        if any(one.server.values != fitting[0].server.values for one in fitting):
            ways = ", ".join(dict.fromkeys(map(_full_name, fitting)))
            raise ConfigError(f"{name} is configured in several ways. Name one: {ways}.")
        chosen.append(fitting[0])
    return chosen


def _ask_for_names() -> list[str]:
    if sys.stdin is None or not sys.stdin.isatty():
        return []
    try:
        return input("Take which? Names, `all`, or Enter for none: ").replace(",", " ").split()
    except (EOFError, KeyboardInterrupt):
        return []


def _full_name(one: Found) -> str:
    return f"{one.agent}:{one.server.name}"


def _row(one: Found, here: set[str]) -> dict[str, Any]:
    return {
        "agent": one.agent,
        "name": one.server.name,
        "path": str(one.path),
        "runs": _runs(one),
        "variables": sorted(one.server.values.get("env", {})),
        "here": one.server.name in here,
    }


def _lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    cells = [
        (
            f"{row['agent']}:{row['name']}",
            row["runs"] + ("  [kode has one of this name]" if row["here"] else ""),
            f"({row['path']})",
        )
        for row in rows
    ]
    lines = columns([[visible(cell) for cell in line] for line in cells])
    return lines or ["No other agent has MCP servers configured here."]


def _runs(one: Found) -> str:
    """What it runs or reaches, without credentials, also where they do not look like any."""
    values = with_references(one.server, {}).values
    words = [values.get("url") or values.get("command", ""), *values.get("args", ())]
    return credentials.redact(" ".join(words))
