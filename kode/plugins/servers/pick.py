"""`kode mcp import`: lists the MCP servers that other agents have configured on this machine, and
takes the chosen ones into kode's config."""

import argparse
import os
import sys
from collections.abc import Sequence

from kode.plugin import Parser, clean, credentials, paths, print_either, visible, working_directory
from kode.plugin.errors import ConfigError
from kode.plugin.servers import find_servers
from kode.plugins.servers.add import add_all
from kode.plugins.servers.forms import with_references
from kode.plugins.servers.others import Found, found_servers


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
        print_either(
            [_object(one, here) for one in found], _lines(found, here), as_json=arguments.json
        )
        names = [] if arguments.json or not found else _asked()
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


def _asked() -> list[str]:
    if sys.stdin is None or not sys.stdin.isatty():
        return []
    try:
        return input("Take which? Names, `all`, or Enter for none: ").replace(",", " ").split()
    except (EOFError, KeyboardInterrupt):
        return []


def _full_name(one: Found) -> str:
    return f"{one.agent}:{one.server.name}"


def _object(one: Found, here: set[str]) -> dict[str, object]:
    return {
        "agent": one.agent,
        "name": one.server.name,
        "path": str(one.path),
        "runs": _runs(one),
        "variables": sorted(one.server.values.get("env", {})),
        "here": one.server.name in here,
    }


def _lines(found: Sequence[Found], here: set[str]) -> list[str]:
    if not found:
        return ["No other agent has MCP servers configured here."]
    width = max(len(_full_name(one)) for one in found)
    return [
        visible(f"{_full_name(one):<{width}}  {_runs(one)}{_marked(one, here)}  ({one.path})")
        for one in found
    ]


def _marked(one: Found, here: set[str]) -> str:
    return "  [kode has one of this name]" if one.server.name in here else ""


def _runs(one: Found) -> str:
    """What it runs or reaches, without credentials, also where they do not look like any."""
    values = with_references(one.server, {}).values
    words = [values.get("url") or values.get("command", ""), *values.get("args", ())]
    return credentials.redact(" ".join(words))
