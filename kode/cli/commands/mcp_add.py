"""`kode mcp add` and `kode mcp add-json`: take the command lines that other agents' READMEs name,
with `kode` in the place of the agent, and JSON as pasted.

The forms: an object under `mcpServers` (Claude Code, Cursor, Gemini), `servers` (VS Code),
`context_servers` (Zed), `mcp_servers` (Codex), `mcp` (opencode, older VS Code); one server's object
with its name in it (VS Code's `--add-mcp`), or beside it.
"""

import argparse
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kode import paths
from kode.cli.flags import working_directory
from kode.cli.parser import Parser
from kode.errors import EXIT_OK, ConfigError
from kode.extensions.mcp_config import add_seen
from kode.permissions.gate import visible
from kode.plain_text import clean

_SCOPES = {"user": "home", "local": "home", "global": "home", "shared": "project"}
_VALUED = (
    "-s --scope -t --transport -e --env -H --header --url --bearer-token-env-var --client-id "
    "--callback-port --timeout --description --read --add-mcp --include-tools --exclude-tools"
).split()

ABOUT = """\
Add an MCP server to your own config, or to the project's `.mcp.json`:

  kode mcp add NAME URL                     kode mcp add NAME -- COMMAND ARG...
  kode mcp add '{"mcpServers": {...}}'      kode mcp add NAME '{"command": ...}'

The `mcp add` lines of other agents work with `kode` in the place of their name."""


@dataclass(frozen=True, kw_only=True)
class ParsedServer:
    """A server that somebody wants to add."""

    name: str
    values: Mapping[str, Any]
    """As kode writes an entry."""
    notes: tuple[str, ...] = ()
    """Sentences about what could not be taken over as it was."""


def main(argv: Sequence[str]) -> int:
    """Runs `kode mcp add ...`. Raises: ConfigError, StorageError, BusyError."""
    words, command = split(argv)
    arguments = _parser("kode mcp add").parse(words)
    name = arguments.name or ""
    pasted = arguments.add_mcp or next(filter(_is_json, (arguments.name, arguments.url)), "")
    if pasted:
        return _add(servers_in(parse_json(pasted), name if pasted != name else ""), arguments)
    if not name:
        raise ConfigError("kode mcp add: name the server. `kode mcp add --help` shows the forms.")
    return _add([(name, _entry_of(arguments, command))], arguments)


def add_json(argv: Sequence[str]) -> int:
    """Runs `kode mcp add-json NAME JSON`. Raises: ConfigError, StorageError, BusyError."""
    arguments = _parser("kode mcp add-json").parse(argv)
    if not arguments.name or not arguments.url:
        raise ConfigError("kode mcp add-json takes a name and the server's JSON: NAME '{…}'.")
    return _add(servers_in(parse_json(arguments.url), arguments.name), arguments)


def _add(servers: Iterable[tuple[str, Mapping[str, Any]]], arguments: argparse.Namespace) -> int:
    """Adds servers with what the flags say of each."""
    given = _flags(arguments)
    parsed = [parse_server(name, _joined(values, given)) for name, values in servers]
    if not parsed:
        raise ConfigError("The JSON names no MCP server: none has a `command` or a `url`.")
    is_shared = _SCOPES.get(arguments.scope, arguments.scope) == "project"
    return add_all(parsed, is_shared, working_directory(argparse.Namespace(cwd=None)))


def add_all(servers: Iterable[ParsedServer], shared: bool, cwd: Path) -> int:
    """Adds servers and says so. Raises: ConfigError, StorageError, BusyError."""
    for server in servers:
        read = _paths_to_read(server.values, cwd)
        values = {**server.values, **({"read": read} if read else {})}
        path = add_seen(paths.home(), cwd, server.name, values, shared=shared)
        lines = [f"Added {server.name} to {path}. `kode mcp test {server.name}` tries it."]
        lines += [*server.notes, *([f"It may read {' and '.join(read)} (`read`)."] if read else [])]
        print("\n  ".join(clean(visible(line)) for line in lines), flush=True)
    return EXIT_OK


def split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """A command line → the words for kode, and the server's command with all its flags: what is
    behind `--`, or begins with the second word that is no flag, unless that is an address."""
    words: list[str] = []
    free = 0
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return words, rest
        if word.startswith("-"):
            words.append(word)
            if word in _VALUED and rest:
                words.append(rest.pop(0))
            continue
        free += 1
        if free == 2 and not _is_address(word) and not _is_json(word):
            return words, [word, *rest]
        words.append(word)
    return words, []


def _parser(name: str) -> Parser:
    parser = Parser(name, ABOUT)
    add = parser.add_argument
    add("name", metavar="NAME", nargs="?", help="the server")
    add("url", metavar="URL", nargs="?", help="the address of an HTTP server, or JSON")
    scopes = ("home", "project", *_SCOPES)
    where = "home (default; also user, local) or project"
    add("-s", "--scope", choices=scopes, default="home", help=where)
    kinds = ("stdio", "http", "sse", "streamable-http")
    add("-t", "--transport", choices=kinds, help="stdio, http (default for a URL) or sse")
    pair: dict[str, Any] = {"action": "append", "default": []}
    about = "a variable the server gets; ${VAR} is replaced from your environment"
    add("-e", "--env", metavar="NAME=VALUE", help=about, **pair)
    add("-H", "--header", metavar="NAME:VALUE", help="a header of its requests", **pair)
    add("--url", dest="address", metavar="URL", help="the address of an HTTP server")
    add("--bearer-token-env-var", metavar="VAR", help="a variable with the token for its requests")
    add("--client-id", metavar="ID", help="kode's registered id, for logins")
    add("--callback-port", metavar="PORT", type="port", help="the port that logins return to")
    add("--timeout", metavar="MS", type="whole", help="time limit of a call, in milliseconds")
    add("--read", metavar="PATH", help="let it read a file or folder of your home", **pair)
    add("--write", action="store_true", help="let it change the project")
    add("--network", action="store_true", help="let it use the network")
    add("--outside", action="store_true", help="run it without the sandbox, once you said yes")
    add("--add-mcp", metavar="JSON", help="one server as JSON")
    for flag in ("--description", "--include-tools", "--exclude-tools"):
        add(flag, help=argparse.SUPPRESS)
    add("--trust", action="store_true", help=argparse.SUPPRESS)
    return parser


def _entry_of(arguments: argparse.Namespace, command: list[str]) -> Mapping[str, Any]:
    """The server that words name: an address, or a program. Raises: ConfigError."""
    if len(command) == 1 and " " in command[0] and not Path(command[0]).exists():
        command = shlex.split(command[0])  # some agents take the whole command as one word
    url = arguments.address or arguments.url
    kind = arguments.transport or ("http" if url else "stdio")
    if kind != "stdio" and not url and command:
        url, command = command[0], command[1:]
    instead = f"`kode mcp add {arguments.name} -- COMMAND ARG...`"
    if kind == "stdio" and url:
        raise ConfigError(
            f"{url} is an address, and --transport stdio is for a program: leave the flag out, or "
            f"write {instead}."
        )
    if not command and not url:
        raise ConfigError(f"kode mcp add: {arguments.name} needs a URL, or a program: {instead}.")
    return {"command": command} if command else {"type": kind, "url": url}


def _flags(arguments: argparse.Namespace) -> dict[str, Any]:
    """What the flags say, in the form of an entry. Raises: ConfigError."""
    login = {"clientId": arguments.client_id, "callbackPort": arguments.callback_port}
    values = {
        "env": dict(_pair(text, "=") for text in arguments.env),
        "headers": dict(_pair(text, ":=") for text in arguments.header),
        "oauth": {key: value for key, value in login.items() if value},
        "includeTools": arguments.include_tools or arguments.exclude_tools,
        "isLocal": arguments.scope == "local",
    }
    for name in ("bearer_token_env_var", "write", "network", "outside", "timeout", "read", "trust"):
        values[name] = getattr(arguments, name)
    return {name: value for name, value in values.items() if value}


def _joined(values: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    both = {
        name: {**values[name], **value}
        for name, value in given.items()
        if isinstance(value, dict) and isinstance(values.get(name), dict)
    }
    return {**values, **given, **both}


def _pair(text: str, marks: str) -> tuple[str, str]:
    at = min((text.find(mark) for mark in marks if mark in text), default=-1)
    if at <= 0:
        raise ConfigError(f"{text!r} is not NAME{marks[0]}VALUE.")
    return text[:at].strip(), text[at + 1 :].strip() if marks[0] == ":" else text[at + 1 :]


def _is_address(word: str) -> bool:
    return word.startswith(("http://", "https://", "${"))


def _is_json(word: str | None) -> bool:
    return word is not None and word.lstrip().startswith(("{", '"'))


# ── forms ────────────────────────────────────────────────────────────────────────────────────

SECTIONS = ("mcpServers", "servers", "context_servers", "mcp_servers")
FOREIGN_KEYS = ("disabled", "oauth", "env", "headers")
"""Keys of an entry that mean the same to other agents."""
OWN_KEYS = (*FOREIGN_KEYS, "write", "network", "read", "outside", "deferred")

_TYPES = {"streamable-http": "http", "streamableHttp": "http", "remote": "http"}
_URLS = ("url", "httpUrl", "serverUrl")
_ENGINES = ("docker", "podman", "nerdctl")
"""Clients of an engine that they reach through a unix socket, which no sandbox of kode has."""
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])')
_VARIABLE = re.compile(r"\$\{(?:env|input):([A-Za-z0-9_.-]+)\}")
_ROOTS = ("package.json", "pyproject.toml", "Cargo.toml", "go.mod", ".git")


def parse_json(text: str) -> dict[str, Any]:
    """JSON as people paste it: with comments, trailing commas, or the outer braces missing.

    Raises: ConfigError.
    """
    plain = _TRAILING.sub(r"\1", _COMMENT.sub(r"\1", text)).strip()
    for tried in (plain, f"{{{plain.rstrip(',')}}}"):
        try:
            found = json.loads(tried, strict=False)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            return found
    raise ConfigError(
        f"{text[:60]!r} is no JSON of an MCP server. In a shell it needs single quotes around it: "
        "kode mcp add '{\"mcpServers\": {…}}'."
    )


def servers_in(
    document: Mapping[str, Any], name: str = ""
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The servers in a document, each with its name; `name` is for one that has none in it. Raises:
    ConfigError."""
    if _is_server(document):
        own = document.get("name")
        named = name or (own if isinstance(own, str) else "")
        if not named:
            raise ConfigError("The JSON has no name for the server: `kode mcp add NAME JSON`.")
        yield named, document
        return
    section = section_of(document)
    for key, values in section.items():
        if isinstance(values, dict) and _is_server(values):
            yield name if name and len(section) == 1 else key, values


def section_of(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The servers of a document by name, wherever it keeps them."""
    for key in SECTIONS:
        if isinstance(found := document.get(key), dict):
            return found
    within = document.get("mcp")
    return section_of(within) if isinstance(within, dict) else document


def parse_server(
    name: str, values: Mapping[str, Any], keys: Sequence[str] = OWN_KEYS
) -> ParsedServer:
    """One server's object of any of the forms as an entry, which takes over these `keys` as they
    are. A name that kode does not take is changed."""
    plain = re.sub(r"_{2,}", "_", re.sub(r"[^A-Za-z0-9._-]+", "-", name)).strip("-._")[:40]
    entry: dict[str, Any] = {}
    command = _command_of(values)
    url = next((values[key] for key in _URLS if key in values), None)
    if command:
        entry["command"], *words = command
        entry |= {"args": words} if words else {}
    elif url is not None:
        kind = values.get("type", values.get("transport", "http"))
        entry |= {"type": _TYPES.get(kind, kind), "url": url}
    entry |= {key: values[key] for key in keys if key in values and values[key] != {}}
    if environment := values.get("environment"):  # opencode
        entry["env"] = environment
    if names := values.get("env_vars"):  # Codex
        entry["env"] = {**entry.get("env", {}), **{one: f"${{{one}}}" for one in names}}
    headers = {**values.get("headers", {}), **values.get("http_headers", {})}
    headers |= {one: f"${{{key}}}" for one, key in values.get("env_http_headers", {}).items()}
    if token := values.get("bearer_token_env_var"):
        headers["Authorization"] = f"Bearer ${{{token}}}"
    entry |= {"headers": headers} if headers else {}
    if isinstance(seconds := values.get("tool_timeout_sec"), int | float):
        entry["timeout"] = int(seconds * 1000)
    elif isinstance(values.get("timeout"), int):
        entry["timeout"] = values["timeout"]
    if values.get("enabled") is False:
        entry["disabled"] = True
    notes = [f"It is called {plain} here."] if plain != name else []
    notes += _notes(entry, values)
    return ParsedServer(name=plain, values=_with_own_variables(entry), notes=tuple(notes))


def _is_server(values: Mapping[str, Any]) -> bool:
    is_program = isinstance(values.get("command"), str | list | dict)
    return is_program or any(isinstance(values.get(key), str) for key in _URLS)


def _command_of(values: Mapping[str, Any]) -> list[str]:
    command = values.get("command")
    if isinstance(command, dict):  # an older Zed
        return [command.get("path", ""), *command.get("args", ())]
    words = [*(command if isinstance(command, list) else [command] if command else [])]
    words += values.get("args") or []
    is_of_windows = words[:1] == ["cmd"] and words[1:2] in (["/c"], ["/C"])
    return words[2:] if is_of_windows else words


def _notes(entry: Mapping[str, Any], values: Mapping[str, Any]) -> Iterator[str]:
    """What could not be taken over as it was, or what the server needs besides."""
    if values.get("cwd"):
        yield f"kode starts it in the project's root, not in {values['cwd']}."
    if values.get("envFile"):
        yield f"kode reads no `envFile`: name its variables in `env` ({values['envFile']})."
    if any(values.get(key) for key in ("autoApprove", "alwaysAllow", "trust")):
        yield 'kode asks about its calls; `permissions.allow` with "mcp(NAME:TOOL)" allows one.'
    if any(values.get(key) for key in ("includeTools", "excludeTools", "enabled_tools")):
        yield 'All of its tools are offered; `permissions.deny` with "mcp(NAME:TOOL)" denies one.'
    if values.get("isLocal"):
        yield "It is in all of your projects: kode keeps nothing for you in one alone."
    if Path(entry.get("command", "")).name in _ENGINES and not entry.get("outside"):
        yield (
            f"{entry['command']} reaches its engine through a unix socket, which the sandbox never "
            'allows: with `--outside`, or `"outside": true`, kode asks once to run it without.'
        )


def _with_own_variables(value: Any) -> Any:
    """Other agents' variables as kode's."""
    if isinstance(value, dict):
        return {key: _with_own_variables(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_with_own_variables(one) for one in value]
    if not isinstance(value, str):
        return value
    value = value.replace("${workspaceFolder}", ".").replace("${userHome}", "${HOME}")
    return _VARIABLE.sub(lambda match: f"${{{variable_name(match[1])}}}", value)


def variable_name(name: str) -> str:
    """The name itself where it can be a variable's, else one made of it."""
    if re.fullmatch(r"[A-Za-z_]\w*", name):
        return name
    return re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").upper()


def _paths_to_read(values: Mapping[str, Any], cwd: Path) -> list[str]:
    """What the command names below the home or in a temporary folder, which the sandbox would
    hide: a file with the package that it belongs to, if any, or a folder."""
    if "command" not in values or "read" in values or values.get("outside"):
        return []
    words = (values["command"], *values.get("args", ()))
    return [*dict.fromkeys(path for word in words for path in _hidden_paths(word, cwd))]


def _hidden_paths(word: str, cwd: Path) -> Iterator[str]:
    if "/" not in word or "://" in word or "${" in word:
        return
    path = cwd / paths.expand(word)
    for way in dict.fromkeys((path, Path(paths.real_path(path)))):
        if path.exists() and not way.is_relative_to(cwd) and _is_hidden(way):
            folders = (one for one in way.parents if _is_hidden(one) and not way.is_dir())
            packages = (one for one in folders if any((one / name).exists() for name in _ROOTS))
            yield str(next(packages, way))


def _is_hidden(path: Path) -> bool:
    home = paths.user_home() or paths.NO_HOME
    return path != home and any(path.is_relative_to(one) for one in (home, "/tmp", "/var/tmp"))
