"""`kode mcp`: lists, adds, imports, removes, switches, approves and tests the MCP servers of a
folder, and logs in to them.

A paste is never run, and grants nothing: permissions for a server are flags that the person types.
"""

import argparse
import asyncio
import base64
import contextlib
import json
import os
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from kode import credentials, durable, paths
from kode.broken_json import object_of
from kode.cli.flags import directory
from kode.cli.parser import Commands, Parser
from kode.cli.screen.lines import make_public
from kode.cli.screen.printer import Answered, CommandAnswer, complain, say
from kode.cli.screen.question import make_ask
from kode.config.choice import is_url
from kode.errors import EXIT_FAILED, EXIT_OK, ConfigError
from kode.extensions import mcp_config, mcp_server, review, trust
from kode.permissions.question import Question, visible

if TYPE_CHECKING:
    from kode.extensions.mcp_connection import Connection

ABOUT = """\
Add an MCP server to your own config, or to the project's `.mcp.json`:

  kode mcp add NAME URL                     kode mcp add NAME -- COMMAND ARG...
  kode mcp add '{"mcpServers": {...}}'      kode mcp add NAME '{"command": ...}'

Or paste what a README has, in quotes: an address, a whole `claude mcp add ...` or `codex mcp add \
...` line, a TOML block of Codex, a `cursor://` link. kode shows what it would add, and asks."""
ABOUT_IMPORT = (
    "List the MCP servers of Claude Code, Codex, Cursor, VS Code and Gemini on this "
    "machine; with names, take those. Secrets become references to your environment."
)
MAX_BYTES = 32 * 1024 * 1024  # `~/.claude.json` holds whole histories
MAX_PASTE_CHARS = 50_000  # no server's entry is as long

_AGENTS = ("claude", "codex", "gemini")
_ADDS = (["mcp", "add"], ["mcp", "add-json"])
"""The programs with an `mcp add` like kode's, and the words that follow their names."""
_SECTIONS = ("mcpServers", "servers", "context_servers", "mcp_servers", "mcp")
"""The keys of servers by name in Claude Code, Cursor and Gemini, VS Code, Zed, Codex, opencode."""
_TARGETS = {"command", "url", "httpUrl", "serverUrl"}  # each server has one of these keys
_RENAMED = {"httpUrl": "url", "serverUrl": "url", "http_headers": "headers", "environment": "env"}
_TYPES = {"streamable-http": "http", "streamableHttp": "http", "remote": "http"}
_GRANTS = ("write", "network", "read", "outside")  # keys that a person types as flags
_KEYS = ("type", "url", "env", "headers", "timeout", "disabled", *_GRANTS)
_SECRET_NAME = re.compile(r"(?i)key|token|secret|passw|auth|credential|cookie")
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMA = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])')
_NO_NAME = re.compile(r"\W+", re.ASCII)
_VARIABLE = re.compile(r"\$\{(?:env:|input:)?([\w.-]+)\}")
_TOML = re.compile(r"^\s*\[mcp_servers\.", re.MULTILINE)
_LINK = re.compile(r"cursor:|https://cursor\.com/\S*install-mcp")


class ParsedServer(NamedTuple):
    """A server that a person may add: its `values` as kode writes them in an entry, and `notes`,
    sentences about what could not be taken over as it was."""

    name: str
    values: Mapping[str, Any]
    notes: Sequence[str]


def add_servers(parser: Parser, argv: Sequence[str]) -> CommandAnswer:
    """Answers `kode mcp add ...` and `add-json`. Raises: ConfigError, StorageError, BusyError."""
    parser.description = ABOUT
    _add_flags(parser)
    parser.add_flags(
        ("--read PATH", "let it read a file or folder of your home", {"action": "append"}),
        ("--write", "let it change the project"),
        ("--network", "let it use the network"),
        ("--outside", "run it without the sandbox, after you approve"),
        ("--yes", "do not ask for confirmation of a paste"),
    )
    servers, scope, form = _parse_add_line(parser, argv)
    if not servers or not all(server.name and server.values for server in servers):
        raise ConfigError(
            f"{parser.prog}: name a server, and give its address, program or JSON. "
            f"`{parser.prog} --help` shows the forms."
        )
    # Scripts pass JSON that their authors have seen; anything else is pasted at a terminal.
    has_terminal = sys.stdin is not None and sys.stdin.isatty()
    asks = form and (form != "JSON" or has_terminal)
    if asks and not asyncio.run(_confirm_paste(servers, form, has_terminal)):
        return CommandAnswer(lines=["Nothing was added."], exit_code=EXIT_FAILED)
    return _add_all(servers, scope)


async def _confirm_paste(servers: Sequence[ParsedServer], form: str, has_terminal: bool) -> bool:
    """Shows what a paste would add, and asks whether to. Raises: ConfigError without a terminal."""
    entries = {server.name: server.values for server in servers}
    preview = make_public(json.dumps(entries, indent=2, ensure_ascii=False))
    if not has_terminal:
        say(preview, sys.stderr)
        raise ConfigError(f"No terminal to ask in about this {form}: --yes adds it.")
    question = Question(
        tool="trust",
        title=f"Add what this {form} says",
        preview=preview,
        reason="A server can run a program and instruct the model, from the next session on.",
        kind="trust",
        takes_words=False,
    )
    return (await make_ask()(question)).choice != "no"


def _parse_add_line(
    parser: Parser, argv: Sequence[str], typed: Mapping[str, Any] | None = None
) -> tuple[Sequence[ParsedServer], str, str]:
    """Returns the servers of an `mcp add` line, their scope, and what kind of paste to confirm (""
    for none, or with `--yes`). `typed` are the flags around a pasted line. Raises: ConfigError."""
    if max(map(len, argv), default=0) > MAX_PASTE_CHARS:
        raise ConfigError(f"{parser.prog}: that is too long for a server. Paste its entry alone.")
    words, command = _split_command_line(argv, parser)
    flags = {key: value for key, value in vars(parser.parse(words, mixed=True)).items() if value}
    name, target, scope = (flags.pop(key, "") for key in ("name", "target", "scope"))
    is_asked, form = not flags.pop("yes", False), ""
    flags |= {key: dict(flags[key]) for key in ("env", "headers") if key in flags}
    flags |= typed or {}
    pasted = next(filter(_is_document, (name, target)), "")
    if pasted or parser.prog.endswith("json"):
        form, document = "JSON", _parse_json(pasted)
        if _TOML.search(pasted):
            form = "TOML"
            with contextlib.suppress(ValueError):
                document = tomllib.loads(pasted)
        if document is None:
            raise ConfigError(
                f"{parser.prog}: {(pasted or target or ' '.join(command))[:60]!r} is no {form} of "
                "an MCP server. In a shell it needs single quotes around it: "
                "'{\"mcpServers\": {…}}'."
            )
        servers = _extract_servers(document, name if name != pasted else "")
    elif foreign := _split_foreign_line(name, command):
        plain = Parser(f"kode mcp {foreign[2]}")
        _add_flags(plain)
        parsed, theirs, _ = _parse_add_line(plain, foreign[3:], flags)
        return parsed, scope or theirs, "line" if is_asked else ""
    elif _LINK.match(name):
        servers, form = _parse_link(name), "link"
    else:
        if command and flags.get("type", "stdio") != "stdio":
            target, *command = command
        target = flags.pop("url", target)
        if is_url(name) and not (target or command):
            name, target, form = _name_from_address(name), name, "address"
        servers = {name: {"command": command} if command else {"url": target} if target else {}}
    parsed = [_parse_server(key, values, flags) for key, values in servers.items()]
    return parsed, scope, form if is_asked else ""


def _split_foreign_line(name: str, command: Sequence[str]) -> list[str]:
    """Returns the words of another agent's `mcp add` line, in quotes or not; [] for anything else.
    Shell syntax in them has no effect. Raises: ConfigError for several lines."""
    words, text = [name, *command], name.replace("\\\n", " ").strip().removeprefix("$ ")
    if not command:
        with contextlib.suppress(ValueError):
            words = shlex.split(text)
    if words[:1] == [] or words[0] not in _AGENTS or words[1:3] not in _ADDS:
        return []
    if "\n" in text:
        raise ConfigError("These are several lines. Paste one at a time.")
    return words


def _parse_link(link: str) -> dict[str, Any]:
    """Returns the servers of a link that installs them in Cursor. Raises: ConfigError."""
    query = {key: values[0] for key, values in parse_qs(urlsplit(link).query).items()}
    try:
        data = query.get("config", "").replace(" ", "+").translate({45: "+", 95: "/"})
        document = object_of(base64.b64decode(data + "=" * (-len(data) % 4), validate=True))
    except ValueError:
        document = None
    if not document or not (servers := _extract_servers(document, query.get("name", ""))):
        raise ConfigError(
            "The link has no server that can be read: its `config` must be JSON in base64."
        )
    return servers


def _name_from_address(address: str) -> str:
    """Names the server at an address by the longest meaningful part of its host name."""
    host = urlsplit(address).hostname or ""
    labels = [label for label in host.split(".")[:-1] if label not in ("api", "mcp", "www")]
    return max(labels, key=len, default=host) if re.search("[a-z]", host) else host


def import_servers(parser: Parser, argv: Sequence[str]) -> CommandAnswer:
    """Answers `kode mcp import ...`. Raises: ConfigError, StorageError, BusyError."""
    parser.description = ABOUT_IMPORT
    parser.add_argument("names", metavar="NAME", nargs="*", help="a server, or AGENT:NAME")
    parser.add_flags(("--json", "one JSON list, and take nothing"))
    arguments = parser.parse(argv)
    cwd, faults = directory(), list[str]()
    foreign, chosen = [*_read_foreign_servers(cwd, faults)], dict[str, ParsedServer]()
    for name in arguments.names:
        servers = [it for agent, _, it in foreign if name in (it.name, f"{agent}:{it.name}")]
        if not servers:
            raise ConfigError(f"No other agent has a server {name}: `kode mcp import` lists all.")
        if any(server.values != servers[0].values for server in servers):
            raise ConfigError(f"{name} is configured in several ways: give AGENT:NAME.")
        chosen[name] = servers[0]
    if chosen:
        return _add_all(chosen.values(), "home", faults)
    rows = [
        {"agent": agent, "name": name, "path": str(path), "runs": mcp_config.target_of(values)}
        for agent, path, (name, values, _) in foreign
    ]
    return CommandAnswer(
        value=rows,
        as_json=arguments.json,
        rows=[[*map(visible, row.values())] for row in rows],
        lines=["`kode mcp import NAME` takes one."] if rows else (),
        empty="No other agent has MCP servers configured here.",
        faults=map(visible, faults),
    )


def _add_all(
    servers: Iterable[ParsedServer], scope: str, faults: Iterable[str] = ()
) -> CommandAnswer:
    """Adds all servers, or none on an error. Raises: ConfigError, StorageError, BusyError."""
    servers, is_shared = [*servers], scope in ("project", "shared")
    entries = [(server.name, server.values) for server in servers]
    path = mcp_config.add_entries(paths.kode_home(), directory(), entries, shared=is_shared)
    lines = []
    for server in servers:
        lines.append(f"Added {server.name} to {path}. `kode mcp test {server.name}` tries it.")
        lines += [f"  {note}" for note in server.notes]
    return CommandAnswer(lines=map(visible, lines), faults=map(visible, faults))


def _split_command_line(argv: Sequence[str], parser: Parser) -> tuple[list[str], list[str]]:
    """Splits a command line into kode's own words and the server's command with its flags: what
    follows `--`, or starts at the second word that is no flag, address or document."""
    actions = [action for action in parser._actions if action.nargs != 0]
    with_value = {flag for action in actions for flag in action.option_strings}
    words, rest, is_named = list[str](), [*argv], False
    while rest:
        word = rest.pop(0)
        if word == "--":
            return words, rest
        if not word.startswith("-"):
            is_address = word.startswith(("http://", "https://", "${"))
            if is_named and not (is_address or _is_document(word)):
                return words, [word, *rest]
            is_named = True
        words.append(word)
        if word in with_value and rest:
            words.append(rest.pop(0))
    return words, []


def _add_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("name", metavar="NAME", nargs="?", help="the server")
    add("target", metavar="URL", nargs="?", help="the address of an HTTP server, or JSON")
    scopes = ("home", "project", "user", "local", "global", "shared")
    kinds = {"dest": "type", "choices": ("stdio", "http", "sse", "streamable-http")}
    pairs: dict[str, Any] = {"action": "append", "type": _parse_pair}
    parser.add_flags(
        ("-s --scope SCOPE", "home (default; also user, local) or project", {"choices": scopes}),
        ("-t --transport TYPE", "stdio, http (default for a URL) or sse", kinds),
        ("-e --env NAME=VALUE", "a variable it gets; ${VAR} is taken from your environment", pairs),
        ("-H --header NAME:VALUE", "a header of its requests", {**pairs, "dest": "headers"}),
        ("--url URL", "the address of an HTTP server"),
        ("--bearer-token-env-var VAR", "a variable with the token for its requests"),
        ("--timeout MS", "time limit of a call, in milliseconds", {"type": "whole"}),
    )


def _parse_pair(text: str) -> tuple[str, str]:
    match = re.fullmatch(r"([^=:]+)(?:=|:\s*)(.*)", text, re.DOTALL)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} has no `=` after a name")
    return match[1].strip(), match[2]


def _is_document(word: str) -> bool:
    return word.lstrip().startswith(("{", '"')) or bool(_TOML.search(word))


def _parse_json(text: str) -> dict[str, Any] | None:
    """JSON as people paste it: with comments, trailing commas, or the outer braces missing; None
    for any other text."""
    plain = _LAST_COMMA.sub(r"\1", _COMMENT.sub(r"\1", text)).strip()
    document = object_of(plain)
    return object_of(f"{{{plain.rstrip(',')}}}") if document is None and plain else document


def _extract_servers(document: Mapping[str, Any], name: str = "") -> dict[str, Any]:
    """Returns a document's servers by name, wherever it keeps them. A single one gets `name`."""
    if _TARGETS & document.keys():
        return {name or str(document.get("name", "")): document}
    section: Any = next((document[key] for key in _SECTIONS if key in document), document)
    servers = {
        key: values
        for key, values in (section.items() if isinstance(section, dict) else ())
        if isinstance(values, dict) and _TARGETS & values.keys()
    }
    return dict.fromkeys([name], *servers.values()) if name and len(servers) == 1 else servers


def _parse_server(name: str, values: Mapping[str, Any], flags: Mapping[str, Any]) -> ParsedServer:
    """Converts a server's object, as any agent writes it, with what the flags add. A name that kode
    would not accept is changed. Raises: ConfigError."""
    plain = re.sub(r"_{2,}", "_", re.sub(r"[^A-Za-z0-9._-]+", "-", name)).strip("-._")[:40]
    try:
        entry, notes = _convert_entry(values, flags)
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise ConfigError(
            f"The MCP server {name!r} has a value of the wrong kind: docs/extensions.md says what "
            "each key holds."
        ) from error
    return ParsedServer(plain, entry, [f"It is called {plain} here."] * (plain != name) + notes)


def _convert_entry(
    values: Mapping[str, Any], flags: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Returns an entry in kode's form, and sentences about what that leaves out. Raises: TypeError,
    ValueError, AttributeError, KeyError for a value of another type."""
    text = json.dumps(values).replace("${workspaceFolder}", ".").replace("${userHome}", "${HOME}")
    text = _VARIABLE.sub(lambda match: f"${{{_NO_NAME.sub('_', match[1])}}}", text)
    rest = {_RENAMED.get(key, key): value for key, value in json.loads(text).items()}
    granted = [key for key in _GRANTS if rest.pop(key, None)]
    for key, value in flags.items():
        rest[key] = {**rest.get(key, {}), **value} if isinstance(value, dict) else value
    command = rest.pop("command", ())
    words = [*([command] if isinstance(command, str) else command), *rest.pop("args", ())]
    if len(words) == 1 and " " in words[0] and not shutil.which(words[0]):
        words = shlex.split(words[0])  # some agents take the whole command as one word
    rest["env"] = rest.get("env", {}) | {key: f"${{{key}}}" for key in rest.pop("env_vars", ())}
    headers = {key: f"${{{name}}}" for key, name in rest.pop("env_http_headers", {}).items()}
    if token := rest.pop("bearer_token_env_var", ""):
        headers["Authorization"] = f"Bearer ${{{token}}}"
    rest["headers"] = rest.get("headers", {}) | headers
    kind = rest.pop("type", rest.pop("transport", "http"))
    rest["type"] = _TYPES.get(kind, kind) if "url" in rest else ""
    rest["disabled"] = rest.get("disabled") or not rest.pop("enabled", True)
    entry = {"command": words[0], "args": words[1:]} if words else {}
    entry |= {key: rest.pop(key) for key in _KEYS if key in rest}
    notes = [f"What is pasted grants no `{key}`: type --{key} if it needs that." for key in granted]
    if unused := ", ".join(sorted(rest.keys() - {"name"})):
        notes.append(f"kode does not use its {unused}.")
    return {key: value for key, value in entry.items() if value}, notes


def _read_foreign_servers(cwd: Path, faults: list[str]) -> Iterator[tuple[str, Path, ParsedServer]]:
    """Yields (agent, file, server) for all agents, beginning with the project's files; secrets
    become references. Adds to `faults` a sentence for each file that cannot be read."""
    project = paths.project_root(cwd)
    for agent, path in _list_foreign_configs(project):
        try:
            if not path.is_file():
                continue
            with path.open("rb") as file:
                text = file.read(MAX_BYTES).decode("utf-8-sig")
            document = tomllib.loads(text) if path.suffix == ".toml" else _parse_json(text or "{}")
            if document is None:
                raise ValueError("it holds no JSON object")
            of_folders = document.get("projects") if agent == "claude" else {}
            folders = dict.fromkeys((str(cwd), str(project)))
            for part in (*((of_folders or {}).get(folder) or {} for folder in folders), document):
                servers = _extract_servers(part) if part.keys() & {*_SECTIONS} else {}
                for name, values in servers.items():
                    if agent == "gemini" and "url" in values:  # `httpUrl` is the newer transport's
                        values = {"type": "sse", **values}
                    yield agent, path, _replace_secrets(_parse_server(name, values, {}))
        except (OSError, ValueError, AttributeError, ConfigError) as error:
            faults.append(f"{path} could not be read: {error}")


def _list_foreign_configs(project: Path) -> Iterator[tuple[str, Path]]:
    """Yields (agent, config file) as documented on 2026-11-27; not every file need exist."""
    home, environ = paths.user_home() or paths.NO_HOME, os.environ
    apps = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    apps = home / "Library/Application Support" if sys.platform == "darwin" else apps
    yield "codex", project / ".codex/config.toml"
    yield "vscode", project / ".vscode/mcp.json"
    for folder in (project, home):
        yield "cursor", folder / ".cursor/mcp.json"
        yield "gemini", folder / ".gemini/settings.json"
    yield "codex", Path(environ.get("CODEX_HOME") or home / ".codex") / "config.toml"
    yield "claude", Path(environ.get("CLAUDE_CONFIG_DIR") or home) / ".claude.json"
    yield "vscode", apps / "Code/User/mcp.json"


def _replace_secrets(server: ParsedServer) -> ParsedServer:
    """Replaces secrets by references to environment variables, so that the config holds no copy of
    them."""
    names = {value: name for name, value in os.environ.items()}

    def refer(value: Any, key: str, name: str) -> Any:
        if isinstance(value, dict):
            names_of = {k: k if key == "env" else f"{name}_{k}".upper() for k in value}
            return {k: refer(v, k, names_of[k]) for k, v in value.items()}
        if isinstance(value, list):
            return [refer(item, key, f"{name}_{at}") for at, item in enumerate(value, 1)]
        is_text = isinstance(value, str) and key != "command" and "${" not in value
        if not is_text or not (_SECRET_NAME.search(key) or credentials.redact(value) != value):
            return value
        return f"${{{names.get(value) or _NO_NAME.sub('_', name)}}}"

    values = refer(server.values, "", server.name)
    used = dict.fromkeys(_VARIABLE.findall(json.dumps(values)))
    missing = ", ".join(name for name in used if name not in os.environ)
    note = f"It needs {missing} in your environment: kode copies no secrets."
    notes = [*server.notes, *([note] if missing else [])]
    return ParsedServer(server.name, values, notes)


NONE = "No MCP servers here. Add one: `kode mcp add NAME URL`, `kode mcp add NAME -- COMMAND`."


def _list_servers(parser: Parser, argv: Sequence[str]) -> CommandAnswer:
    parser.add_argument("--json", action="store_true", help="one JSON list")
    as_json = parser.parse(argv).json
    entries, faults = mcp_config.find_servers(paths.kode_home(), directory(), with_disabled=True)
    values, rows = [], []
    for entry in entries:
        approvals = _load_approvals(entry)
        pins, state = mcp_server.saved_pins(entry, approvals), trust.state(entry.item, approvals)
        row = {
            "name": entry.name,
            "scope": entry.scope,
            "state": "disabled" if entry.values.get("disabled") else state,
            "origin": str(entry.origin),
            "hash": trust.digest(entry.item),
            "runs": mcp_config.target_of(entry.values),
            "tools": len(pins),
            "tokens": sum(len(pin.content) for pin in pins) // 4,
        }
        seen = f"tools: {row['tools']}, {row['tokens']} tokens" if pins else "not seen yet"
        cells = (row["state"], entry.name, str(row["hash"])[:12], seen, row["runs"])
        values.append(row)
        rows.append([*map(visible, map(str, cells)), f"({visible(str(entry.origin))})"])
    return CommandAnswer(
        value=values,
        as_json=as_json,
        rows=rows,
        empty=NONE,
        faults=faults,
        exit_code=EXIT_FAILED if faults and not rows else EXIT_OK,
    )


def _find(parser: Parser, argv: Sequence[str]) -> tuple[argparse.Namespace, mcp_config.ServerEntry]:
    """The arguments and the server that they name. Raises: ConfigError if there is none."""
    parser.add_argument("name", metavar="SERVER", help="the server")
    arguments = parser.parse(argv)
    entries, faults = mcp_config.find_servers(paths.kode_home(), directory(), with_disabled=True)
    for entry in entries:
        if entry.name == arguments.name:
            return arguments, entry
    why = f"There is no MCP server {arguments.name!r} here. `kode mcp list` lists all."
    raise ConfigError(" ".join((why, *faults)))


def _remove_server(parser: Parser, argv: Sequence[str]) -> str:
    _, entry = _find(parser, argv)
    mcp_config.change(entry.origin, entry.name, None)
    mcp_server.forget_server(paths.kode_home(), entry, _load_approvals(entry))
    return f"Removed {entry.name} from {entry.origin}."


def _switch_server(on: bool, parser: Parser, argv: Sequence[str]) -> str:
    _, entry = _find(parser, argv)
    values = {key: value for key, value in entry.values.items() if key != "disabled"}
    mcp_config.change(entry.origin, entry.name, values if on else {**values, "disabled": True})
    return f"{'Enabled' if on else 'Disabled'} {entry.name} in {entry.origin}."


def _log_out(parser: Parser, argv: Sequence[str]) -> str:
    _, entry = _find(parser, argv)
    tokens = mcp_config.tokens_file(paths.kode_home(), mcp_config.resolve(entry, os.environ).url)
    if not tokens.exists():
        return f"You are not logged in to {entry.name}."
    durable.remove(tokens)
    return f"Logged out of {entry.name}: kode has no login of it any more."


def _show_server(parser: Parser, argv: Sequence[str]) -> CommandAnswer:
    """Shows the entry and its approved tools, with the values of variables and headers masked: most
    are secret, whatever they look like. References to the environment stay readable."""
    _, entry = _find(parser, argv)
    approvals, values = _load_approvals(entry), entry.values
    held = [*values.get("env", {}).values(), *values.get("headers", {}).values()]
    secrets = [json.dumps(value, ensure_ascii=False) for value in held if "${" not in str(value)]
    lines = [credentials.mask(review.describe(entry.item, approvals), {*secrets} - {'""'})]
    for pin in mcp_server.saved_pins(entry, approvals):
        about = json.loads(pin.content).get("description", "")
        lines += [f"tool {pin.name}  {pin.digest[:12]}  {pin.approved_at}", about]
    return CommandAnswer(lines=map(make_public, lines))


def _load_approvals(entry: mcp_config.ServerEntry) -> trust.Approvals:
    approvals = trust.load(paths.kode_home(), entry.root)
    complain(approvals.problem)  # once: the damaged file is then out of the way
    return approvals


def _run_on(run: Callable[..., Any], parser: Parser, argv: Sequence[str]) -> Answered:
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    arguments, entry = _find(parser, argv)
    answer: Answered = asyncio.run(run(entry, unasked=arguments.yes))
    return answer


async def _approve_server(entry: mcp_config.ServerEntry, *, unasked: bool) -> Answered:
    """Approves the entry first, because it may not start before, then its current tools."""
    if not await _approve_pending(entry, [entry.item], unasked=unasked):
        return EXIT_FAILED
    async with _connect(entry, unasked=unasked) as connection:
        items = mcp_server.pins_of(entry, await connection.tools())
    return EXIT_OK if await _approve_pending(entry, items, unasked=unasked) else EXIT_FAILED


async def _log_in(entry: mcp_config.ServerEntry, *, unasked: bool) -> Answered:
    """Connects, which logs in if the server requires it. Raises: ConfigError for a program."""
    url = mcp_config.resolve(entry, os.environ).url
    if not url:
        raise ConfigError(f"{entry.name} is a program: it has no login. `kode mcp test` tries it.")
    async with _connect(entry, unasked=unasked):
        is_in = mcp_config.tokens_file(paths.kode_home(), url).exists()
    return f"Logged in to {entry.name}." if is_in else f"{entry.name} answers without a login."


async def _approve_pending(
    entry: mcp_config.ServerEntry, items: Sequence[trust.Candidate], *, unasked: bool
) -> bool:
    """Asks a person to approve the pending ones of `items`; returns whether they do."""
    from kode.cli.commands.extensions import approve_shown

    approvals = _load_approvals(entry)
    pending = [item for item in items if trust.state(item, approvals) != "trusted"]
    # In full: no other command shows an unapproved tool.
    home = paths.kode_home()
    return await approve_shown(pending, approvals, home, unasked=unasked, lines=sys.maxsize)


async def _test(entry: mcp_config.ServerEntry, *, unasked: bool) -> Answered:
    """Lists what a server offers. Raises: ConfigError for an unapproved server; ServerError;
    StorageError, BusyError if its tools cannot be pinned."""
    approvals = _load_approvals(entry)
    if trust.state(entry.item, approvals) != "trusted":
        raise ConfigError(
            f"The MCP server {entry.name} is the project's and not approved in its current form: "
            f"`kode mcp approve {entry.name}` shows it."
        )
    async with _connect(entry, unasked=unasked) as connection:
        tools = await connection.tools()
        held = mcp_server.tools_held_back(entry, tools, approvals)
        # From now on a session offers them without waiting for the server.
        mcp_server.keep_pins(paths.kode_home(), entry, tools, approvals)
        lines = [f"{entry.name} answers.", *filter(None, [connection.client.instructions])]
        for name, tool in tools.items():
            mark = " (changed since it was approved: off)" if name in held else ""
            about = tool.description.partition("\n")[0]
            lines.append(f"  tool      {name}{mark}: {about}")
        for resource in await connection.offerings("resources"):
            lines.append(f"  resource  @{entry.name}:{resource.key}: {resource.description}")
        for prompt in await connection.offerings("prompts"):
            words = " ".join((*prompt.arguments, prompt.description))
            lines.append(f"  prompt    /mcp__{entry.name}__{prompt.key} {words}")
        lines += [f"  left out  {what}" for what in connection.left_out]
    return CommandAnswer(lines=map(visible, lines))


@contextlib.asynccontextmanager
async def _connect(entry: mcp_config.ServerEntry, *, unasked: bool) -> "AsyncIterator[Connection]":
    """Connects to a server, if need be after a download. Raises: ServerError, ConfigError."""
    from kode.assembly import open_workplace
    from kode.cli.screen.question import make_elicit
    from kode.config.load import load_config
    from kode.extensions.mcp_server import DownloadNeededError, Opener

    home, cwd = paths.kode_home(), directory()
    config = load_config(home, cwd, environ=os.environ, flags={}).config
    open_entry = Opener(
        place=open_workplace(config, home, cwd),
        sandboxed=config.sandbox.enabled is not False,
        required=config.sandbox.enabled is True,
        elicit=make_elicit() if sys.stdin is not None and sys.stdin.isatty() else None,
        tell=lambda page: say(visible(f"Log in here, on this machine:\n\n{page}\n"), sys.stderr),
    )
    async with contextlib.AsyncExitStack() as stack:
        try:
            connection = await stack.enter_async_context(open_entry(entry))
        except DownloadNeededError as needed:
            say(review.DOWNLOADS, sys.stderr)
            if not await _approve_pending(entry, [needed.item], unasked=unasked):
                raise
            await open_entry.download(entry, needed.item)
            connection = await stack.enter_async_context(open_entry(entry))
        yield connection


COMMANDS: Commands = {
    "list": (_list_servers, "list all servers, with source and trust"),
    "get": (_show_server, "show one server: its entry and approved tools"),
    "remove": (_remove_server, "remove one from the file it is in"),
    "enable": (partial(_switch_server, True), "use one again"),
    "disable": (partial(_switch_server, False), "do not use one, but keep its entry"),
    "login": (partial(_run_on, _log_in), "log in to one at an address"),
    "logout": (_log_out, "delete the login of one"),
    "approve": (partial(_run_on, _approve_server), "approve a project's server, or changed tools"),
    "test": (partial(_run_on, _test), "connect to one and list what it offers; log in if needed"),
    "add": (add_servers, "add one: NAME URL, NAME -- COMMAND ARG..., or what you paste"),
    "add-json": (add_servers, "add one: NAME JSON"),
    "import": (import_servers, "list or take what other agents have configured here"),
}


def main(argv: Sequence[str]) -> Answered:
    """Runs `kode mcp ...`. Raises: KodeError."""
    return Parser.run_group("mcp", COMMANDS, argv or ["list"])
