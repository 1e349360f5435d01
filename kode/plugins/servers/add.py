"""`kode mcp add` and `kode mcp add-json`: take the command lines that other agents' READMEs name,
with `kode` in the place of the agent, and JSON as pasted."""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from kode.plugin import Parser, clean, paths, visible, working_directory
from kode.plugin.errors import EXIT_OK, ConfigError
from kode.plugin.servers import add_seen
from kode.plugins.servers.forms import Wanted, parsed, wanted, wanted_in, with_engine, with_read

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


def add_all(servers: Iterable[Wanted], shared: bool, cwd: Path) -> int:
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


def _of_words(arguments: argparse.Namespace, command: list[str]) -> Wanted:
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


def _with_flags(one: Wanted, arguments: argparse.Namespace) -> Wanted:
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
    return Wanted(name=one.name, values=values, notes=tuple(notes))


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
