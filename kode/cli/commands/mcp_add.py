"""`kode mcp add` and `kode mcp add-json`: take the command lines that other agents' READMEs name,
with `kode` in the place of the agent, and JSON as pasted.

The forms: an object under `mcpServers` (Claude Code, Cursor, Gemini), `servers` (VS Code),
`context_servers` (Zed), `mcp_servers` (Codex), `mcp` (opencode, older VS Code); one server's object
with its name in it (VS Code's `--add-mcp`), or beside it.
"""

import argparse
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kode import credentials, paths
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
    cwd = working_directory(argparse.Namespace(cwd=None))
    pasted = arguments.add_mcp or next(filter(_is_json, (arguments.name, arguments.url)), "")
    if pasted:
        named = arguments.name if pasted != arguments.name else ""
        servers = [_with_flags(one, arguments) for one in wanted_in(parsed(pasted), named or "")]
        if not servers:
            raise ConfigError("The JSON names no MCP server: none has a `command` or a `url`.")
        return add_all(servers, _is_shared(arguments), cwd)
    if not arguments.name:
        raise ConfigError("kode mcp add: name the server. `kode mcp add --help` shows the forms.")
    return add_all([_of_words(arguments, command)], _is_shared(arguments), cwd)


def add_json(argv: Sequence[str]) -> int:
    """Runs `kode mcp add-json NAME JSON`. Raises: ConfigError, StorageError, BusyError."""
    arguments = _parser("kode mcp add-json").parse(argv)
    if not arguments.name or not arguments.url:
        raise ConfigError("kode mcp add-json takes a name and the server's JSON: NAME '{…}'.")
    cwd = working_directory(argparse.Namespace(cwd=None))
    servers = list(wanted_in(parsed(arguments.url), arguments.name))
    return add_all([_with_flags(one, arguments) for one in servers], _is_shared(arguments), cwd)


def add_all(servers: Iterable[ParsedServer], shared: bool, cwd: Path) -> int:
    """Adds servers and says so. Raises: ConfigError, StorageError, BusyError."""
    for one in servers:
        one = with_engine(with_read(one, cwd))
        path = add_seen(paths.home(), cwd, one.name, one.values, shared=shared)
        said = [f"Added {one.name} to {path}. `kode mcp test {one.name}` tries it.", *one.notes]
        print("\n  ".join(clean(visible(line)) for line in said), flush=True)
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
    add("--callback-port", metavar="PORT", type="whole", help="the port that logins return to")
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


def _of_words(arguments: argparse.Namespace, command: list[str]) -> ParsedServer:
    if len(command) == 1 and " " in command[0] and not Path(command[0]).exists():
        import shlex  # some agents take the whole command as one word

        command = shlex.split(command[0])
    url = arguments.address or arguments.url
    kind = arguments.transport or ("http" if url else "stdio")
    if kind != "stdio" and not url and command:
        url, command = command[0], command[1:]
    if kind == "stdio" and url:
        raise ConfigError(
            f"{url} is an address, and --transport stdio is for a program: leave the flag out, or "
            f"write `kode mcp add {arguments.name} -- COMMAND`."
        )
    values = {"command": command} if command else {"type": kind, "url": url} if url else {}
    if not values:
        raise ConfigError(
            f"kode mcp add: {arguments.name} needs a URL, or a program: "
            f"`kode mcp add {arguments.name} -- COMMAND ARG...`."
        )
    return _with_flags(wanted(arguments.name, values), arguments)


def _with_flags(one: ParsedServer, arguments: argparse.Namespace) -> ParsedServer:
    values = dict(one.values)
    notes = list(one.notes)
    if arguments.env:
        values["env"] = {
            **values.get("env", {}),
            **dict(_pair(text, "=") for text in arguments.env),
        }
    headers = dict(_pair(text, ":=") for text in arguments.header)
    if token := arguments.bearer_token_env_var:
        headers["Authorization"] = f"Bearer ${{{token}}}"
    if headers:
        values["headers"] = {**values.get("headers", {}), **headers}
    login = {"clientId": arguments.client_id, "callbackPort": arguments.callback_port}
    if any(login.values()):
        values["oauth"] = {key: value for key, value in login.items() if value}
    for key in ("write", "network", "outside", "timeout", "read"):
        if given := getattr(arguments, key):
            values[key] = given
    if arguments.scope == "local":
        notes.append("It is in all of your projects: kode keeps nothing for you in one alone.")
    if arguments.trust:
        notes.append('kode asks about its calls; `permissions.allow` with "mcp(NAME)" allows them.')
    if arguments.include_tools or arguments.exclude_tools:
        notes.append('All its tools are offered; `permissions.deny` with "mcp(NAME:TOOL)" denies.')
    return ParsedServer(name=one.name, values=values, notes=tuple(notes))


def _pair(text: str, marks: str) -> tuple[str, str]:
    at = min((text.find(mark) for mark in marks if mark in text), default=-1)
    if at <= 0:
        raise ConfigError(f"{text!r} is not NAME{marks[0]}VALUE.")
    return text[:at].strip(), text[at + 1 :].strip() if marks[0] == ":" else text[at + 1 :]


def _is_shared(arguments: argparse.Namespace) -> bool:
    return bool(_SCOPES.get(arguments.scope, arguments.scope) == "project")


def _is_address(word: str) -> bool:
    return word.startswith(("http://", "https://", "${"))


def _is_json(word: str | None) -> bool:
    return word is not None and (word.lstrip().startswith("{") or word.lstrip().startswith('"'))


# ── forms ────────────────────────────────────────────────────────────────────────────────────

SECTIONS = ("mcpServers", "servers", "context_servers", "mcp_servers")

_KEPT = ("write", "network", "read", "outside", "deferred", "disabled", "oauth", "env", "headers")
_TYPES = {"streamable-http": "http", "streamableHttp": "http", "remote": "http"}
_LAUNCHED = ("docker", "podman", "nerdctl")
"""Clients of an engine that they reach through a unix socket, which no sandbox of kode has."""
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])')
_VARIABLE = re.compile(r"\$\{(env|input):([A-Za-z0-9_.-]+)\}")
_REFERENCE = re.compile(r"\$\{([A-Za-z_]\w*)\}")
_ROOTS = ("package.json", "pyproject.toml", "Cargo.toml", "go.mod", ".git")
_SECRET_NAME = re.compile(r"(?i)key|token|secret|passw|auth|credential|cookie")


def parsed(text: str) -> dict[str, Any]:
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


def wanted_in(document: Mapping[str, Any], name: str = "") -> Iterator[ParsedServer]:
    """The servers in a document; `name` is for one that has none in it. Raises: ConfigError."""
    if _is_server(document):
        own = document.get("name")
        named = name or (own if isinstance(own, str) else "")
        if not named:
            raise ConfigError("The JSON has no name for the server: `kode mcp add NAME JSON`.")
        yield wanted(named, document)
        return
    section = section_of(document)
    for key, values in section.items():
        if isinstance(values, dict) and _is_server(values):
            yield wanted(name if name and len(section) == 1 else key, values)


def section_of(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The servers of a document by name, wherever it keeps them."""
    for key in SECTIONS:
        if isinstance(found := document.get(key), dict):
            return found
    within = document.get("mcp")
    return section_of(within) if isinstance(within, dict) else document


def wanted(name: str, values: Mapping[str, Any]) -> ParsedServer:
    """One server's object of any of the forms as an entry. A name that kode does not take is
    changed."""
    plain = re.sub(r"_{2,}", "_", re.sub(r"[^A-Za-z0-9._-]+", "-", name)).strip("-._")[:40]
    entry: dict[str, Any] = {}
    notes = [f"It is called {plain} here."] if plain != name else []
    command = _command(values)
    url = next((values[k] for k in ("url", "httpUrl", "serverUrl") if k in values), None)
    if command:
        entry["command"], *words = command
        entry |= {"args": words} if words else {}
    elif url is not None:
        kind = values.get("type", values.get("transport", "http"))
        entry |= {"type": _TYPES.get(kind, kind), "url": url}
    entry |= {key: values[key] for key in _KEPT if key in values and values[key] != {}}
    if environment := values.get("environment"):  # opencode
        entry["env"] = environment
    if names := values.get("env_vars"):  # Codex
        entry["env"] = {**entry.get("env", {}), **{one: f"${{{one}}}" for one in names}}
    entry |= _headers(values)
    if isinstance(seconds := values.get("tool_timeout_sec"), int | float):
        entry["timeout"] = int(seconds * 1000)
    elif isinstance(values.get("timeout"), int):
        entry["timeout"] = values["timeout"]
    if values.get("enabled") is False:
        entry["disabled"] = True
    notes += _notes(values)
    return ParsedServer(name=plain, values=_expanded(entry), notes=tuple(notes))


def with_read(one: ParsedServer, cwd: Path) -> ParsedServer:
    """Adds to `read` what the command names below the home or in a temporary folder, which the
    sandbox would hide: a file with the package that it belongs to, if any, or a folder."""
    values = one.values
    if "command" not in values or "read" in values or values.get("outside"):
        return one
    words = (values["command"], *values.get("args", ()))
    found = dict.fromkeys(path for word in words for path in _hidden(word, cwd))
    if not found:
        return one
    read = list(found)
    note = f"It may read {' and '.join(read)} (`read`)."
    return replace(one, values={**values, "read": read}, notes=(*one.notes, note))


def with_engine(one: ParsedServer) -> ParsedServer:
    """Says of a client of a container engine what it needs."""
    command = one.values.get("command", "")
    if Path(command).name not in _LAUNCHED or one.values.get("outside"):
        return one
    note = (
        f"{command} reaches its engine through a unix socket, which the sandbox never allows: "
        'with `--outside`, or `"outside": true`, kode asks once to run it without.'
    )
    return replace(one, notes=(*one.notes, note))


def with_references(one: ParsedServer, environ: Mapping[str, str]) -> ParsedServer:
    """Replaces what is secret by references to variables of the environment, so that no copy is
    made of it."""

    def reference(variable: str, value: str) -> str:
        if "${" in value or not value:
            return value
        known = next((key for key, held in environ.items() if held == value), variable)
        return f"${{{known}}}"

    values = dict(one.values)
    for section in ("env", "headers"):
        if section in values:
            values[section] = {
                key: reference(_variable(one.name if section == "headers" else "", key), value)
                if _is_secret(key, value)
                else value
                for key, value in values[section].items()
            }
    if _is_secret("", values.get("url", "")):
        values["url"] = reference(_variable(one.name, "URL"), values["url"])
    if "args" in values:
        values["args"] = [
            reference(_variable(one.name, f"ARG_{number}"), word) if _is_secret("", word) else word
            for number, word in enumerate(values["args"], 1)
        ]
    used = _REFERENCE.findall(json.dumps(values))
    missing = [key for key in dict.fromkeys(used) if key not in environ]
    note = f"It needs {', '.join(missing)} in your environment: kode copies no secrets."
    return replace(one, values=values, notes=(*one.notes, *((note,) if missing else ())))


def _is_server(values: Mapping[str, Any]) -> bool:
    is_text = isinstance(values.get("command"), str | list | dict)
    return is_text or any(isinstance(values.get(k), str) for k in ("url", "httpUrl", "serverUrl"))


def _command(values: Mapping[str, Any]) -> list[str]:
    command = values.get("command")
    if isinstance(command, dict):  # an older Zed
        return [command.get("path", ""), *command.get("args", ())]
    words = [*(command if isinstance(command, list) else [command] if command else [])]
    words += values.get("args") or []
    if words[:1] == ["cmd"] and words[1:2] in (["/c"], ["/C"]):  # for Windows
        words = words[2:]
    return words


def _headers(values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of Codex."""
    headers = {**values.get("headers", {}), **values.get("http_headers", {})}
    headers |= {name: f"${{{key}}}" for name, key in values.get("env_http_headers", {}).items()}
    if token := values.get("bearer_token_env_var"):
        headers["Authorization"] = f"Bearer ${{{token}}}"
    return {"headers": headers} if headers else {}


def _notes(values: Mapping[str, Any]) -> Iterator[str]:
    if values.get("cwd"):
        yield f"kode starts it in the project's root, not in {values['cwd']}."
    if values.get("envFile"):
        yield f"kode reads no `envFile`: name its variables in `env` ({values['envFile']})."
    if any(values.get(key) for key in ("autoApprove", "alwaysAllow", "trust")):
        yield 'kode asks about its calls; `permissions.allow` with "mcp(NAME:TOOL)" allows one.'
    if any(values.get(key) for key in ("includeTools", "excludeTools", "enabled_tools")):
        yield 'All of its tools are offered; `permissions.deny` with "mcp(NAME:TOOL)" denies one.'


def _expanded(value: Any) -> Any:
    """Other agents' variables as kode's."""
    if isinstance(value, dict):
        return {key: _expanded(held) for key, held in value.items()}
    if isinstance(value, list):
        return [_expanded(held) for held in value]
    if not isinstance(value, str):
        return value
    value = value.replace("${workspaceFolder}", ".").replace("${userHome}", "${HOME}")
    return _VARIABLE.sub(lambda match: f"${{{_variable('', match[2])}}}", value)


def _variable(server: str, name: str) -> str:
    words = f"{server}_{name}" if server else name
    named = re.sub(r"[^A-Za-z0-9]+", "_", words).strip("_")
    return named if not server and re.fullmatch(r"[A-Za-z_]\w*", name) else named.upper()


def _is_secret(name: str, value: str) -> bool:
    return bool(_SECRET_NAME.search(name)) or credentials.redact(value) != value


def _hidden(word: str, cwd: Path) -> Iterator[str]:
    if "/" not in word or "://" in word or "${" in word:
        return
    path = cwd / paths.expand(word)
    for way in dict.fromkeys((path, Path(paths.real_path(path)))):
        if path.exists() and not way.is_relative_to(cwd) and _is_covered(way):
            yield str(_whole(way))


def _is_covered(path: Path) -> bool:
    home = paths.user_home() or paths.NO_HOME
    return path != home and any(path.is_relative_to(one) for one in (home, "/tmp", "/var/tmp"))


def _whole(path: Path) -> Path:
    """The package that a file belongs to, else the path itself."""
    above = (folder for folder in path.parents if _is_covered(folder) and not path.is_dir())
    packages = (one for one in above if any((one / name).exists() for name in _ROOTS))
    return next(packages, path)
