"""Reads and edits the configured MCP servers (`mcpServers` in `.mcp.json`, `kode.json` and
`$KODE_HOME/config.json`), and defines the types exchanged with servers. An entry's variables are
replaced only when its server starts, so that no expanded value is stored, hashed or shown."""

import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo

from kode import paths
from kode.config.choice import is_url
from kode.config.files import read_document, read_flag_document, write_document
from kode.config.load import project_file
from kode.config.model import describe_allowed
from kode.credentials import redact
from kode.errors import ConfigError
from kode.extensions import trust
from kode.extensions.definitions import bundles_in
from kode.extensions.trust import Candidate, Scope
from kode.values import Value, dataclass

SECTION = "mcpServers"
START_TIMEOUT_S = 30.0  # `npx` and `uvx` may have to install the server first
LOGIN_TIMEOUT_S = 300.0
CALL_TIMEOUT_S = 300
"""Default time limit for a server to start, for a person to log in, and for an answer to a call."""

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]|_(?!_)){0,39}")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


class ServerEntry(Value):
    """A server as configured, with its variables unreplaced."""

    name: str
    origin: Path
    scope: Scope
    project: Path
    values: Mapping[str, Any]

    @property
    def item(self) -> Candidate:
        """The item that a person approves: the entry with its variables unreplaced, and the hashes
        of the project's files that its command names."""
        written = json.dumps(self.values, indent=2, sort_keys=True, ensure_ascii=False)
        content = "\n".join((written, *self.files_of_command(), ""))
        name, origin, scope = self.name, self.origin, self.scope
        return Candidate(kind="mcp", name=name, origin=origin, scope=scope, content=content)

    @property
    def root(self) -> Path:
        """The folder whose approvals include this server's: the project for a project's server,
        `$KODE_HOME` for any other."""
        return self.project if self.scope == "project" else paths.kode_home()

    def files_of_command(self) -> list[str]:
        """A line with the path and hash of each file of the project that the command names."""
        words = dict.fromkeys((self.values.get("command", ""), *self.values.get("args", ())))
        files = {word: Path(paths.real_path(self.project / word)) for word in words}
        return [
            f"{word} has the SHA-256 {hashlib.sha256(path.read_bytes()).hexdigest()}"
            for word, path in files.items()
            if path.is_relative_to(self.project) and path.is_file()
        ]


def _expand_variables(text: str, info: ValidationInfo) -> str:
    """Replaces variables by their values in the context, if there is one. Raises: KeyError."""
    context = info.context
    if context is None:
        return text
    return _VARIABLE.sub(lambda m: context[m[1]] if m[2] is None else context.get(m[1], m[2]), text)


Expanded = Annotated[str, AfterValidator(_expand_variables)]


class ServerFields(BaseModel):
    """The checked fields of an entry: either `program` or `url` is set. `resolve` also replaces the
    variables in them. An entry's other keys belong to other programs and are ignored."""

    model_config = ConfigDict(populate_by_name=True, frozen=True)

    name: str
    type: Literal["stdio", "http", "streamable-http", "sse"] | None = None
    """`sse` is the older transport, HTTP with SSE."""
    program: Expanded = Field("", alias="command")
    args: tuple[Expanded, ...] = ()
    environment: Mapping[str, Expanded] = Field({}, alias="env")
    url: Expanded = ""
    headers: Mapping[str, Expanded] = {}
    write: bool = False
    """Whether its process may change the project."""
    network: bool = False
    """Whether its process may use the network."""
    read: tuple[Expanded, ...] = ()
    """Paths in the home and in temporary folders that its process may read."""
    outside: bool = False
    """Whether its process runs without a sandbox."""
    timeout: int = CALL_TIMEOUT_S * 1000
    """How long the server may take to answer a call, in milliseconds."""

    @property
    def command(self) -> tuple[str, ...]:
        return (self.program, *self.args) if self.program else ()


def find_servers(
    home: Path, cwd: Path, *, with_disabled: bool = False
) -> tuple[tuple[ServerEntry, ...], list[str]]:
    """Returns the servers configured for `cwd`, and a sentence for each entry that is unusable or
    whose name is taken. The person's entries come first, then `.mcp.json`, `kode.json` and bundles,
    whose unusable entries are not reported. A disabled entry takes no name. Never raises."""
    project, personal = paths.project_root(cwd), paths.config_file(home)
    configured, faults = list[ServerEntry](), list[str]()
    for path in filter(None, (personal, project / ".mcp.json", project_file(cwd))):
        scope: Scope = "home" if path == personal else "project"
        try:
            configured += entries_in(_document(path).get(SECTION, {}), path, scope, project, faults)
        except ConfigError as error:
            faults.append(str(error))
    for bundle in bundles_in(home)[0]:
        configured += entries_in(bundle.servers, bundle.folder, "bundle", project, [])
    entries: dict[str, ServerEntry] = {}
    disabled = [entry for entry in configured if entry.values.get("disabled")]
    enabled = [entry for entry in configured if entry not in disabled]
    for entry in (*enabled, *(disabled if with_disabled else ())):
        nearer = entries.setdefault(entry.name, entry)
        if nearer is not entry:
            text = f"{entry.origin}: the MCP server {entry.name} is hidden by {nearer.origin}."
            faults.append(text)
    return tuple(entries.values()), faults


def entries_in(
    section: Mapping[str, Any], origin: Path, scope: Scope, project: Path, faults: list[str]
) -> Iterator[ServerEntry]:
    """Yields the servers of a section; adds to `faults` a sentence for each unusable entry."""
    for name, values in section.items():
        if fault := _find_fault(origin, name, values):
            faults.append(fault)
        else:
            yield ServerEntry(name=name, origin=origin, scope=scope, project=project, values=values)


def client_entries(servers: Mapping[str, Mapping[str, Any]], cwd: Path) -> Iterator[ServerEntry]:
    """Yields the servers that an editor names for a session, given as name → entry."""
    origin, project = Path("the editor"), paths.project_root(cwd)
    for name, values in servers.items():
        yield ServerEntry(
            name=name, origin=origin, scope="client", project=project, values=dict(values)
        )


def resolve(entry: ServerEntry, environ: Mapping[str, str]) -> ServerFields:
    """Replaces the variables in an entry's fields. Raises: ConfigError that names an unset one."""
    # An editor passes final values: `${...}` in them is literal.
    variables = None if entry.scope == "client" else environ
    try:
        return ServerFields.model_validate({**entry.values, "name": entry.name}, context=variables)
    except KeyError as error:
        name, about = error.args[0], f"{entry.origin}: the MCP server {entry.name}"
        text = f"{about} uses ${{{name}}}, which is not set. Set {name} in the environment"
        raise ConfigError(f"{text}, or write ${{{name}:-DEFAULT}}.") from error


def target_of(values: Mapping[str, Any]) -> str:
    """An entry's address, or its program with the arguments, without credentials."""
    words = (values.get("url") or values.get("command", ""), *values.get("args", ()))
    return redact(" ".join(words))


def add_entries(
    home: Path, cwd: Path, servers: Sequence[tuple[str, Mapping[str, Any]]], *, shared: bool = False
) -> Path:
    """Adds entries, all or none, to the person's config file, or to the project's `.mcp.json` if
    `shared`, which also approves them. Returns the file, whose other contents are kept. Raises:
    ConfigError for a name that is taken or an unusable entry; StorageError, BusyError."""
    project = paths.project_root(cwd)
    path = project / ".mcp.json" if shared else paths.config_file(home)
    document = _document(path)
    section = document.setdefault(SECTION, {})
    for name, values in servers:
        if fault := _find_fault(path, name, values):
            raise ConfigError(fault)
        if name in section:
            raise ConfigError(f"{path} has an MCP server {name} already: `kode mcp remove {name}`.")
        section[name] = values
    write_document(path, document)
    if shared:
        entries = entries_in(dict(servers), path, "project", project, [])
        trust.approve_items(home, project, [entry.item for entry in entries])
    return path


def read_named_servers(text: str, cwd: Path) -> tuple[ServerEntry, ...]:
    """The servers of `--mcp-config`, JSON or a file with `mcpServers`. They count as the person's
    own. Raises: ConfigError, also if one entry is unusable."""
    document, path = read_flag_document(text, "--mcp-config", cwd)
    if not isinstance(section := document.get(SECTION), dict):
        raise ConfigError(f"--mcp-config {path}: it holds no `{SECTION}`.")
    faults: list[str] = []
    entries = tuple(entries_in(section, path, "home", paths.project_root(cwd), faults))
    if faults:
        raise ConfigError(faults[0])
    return entries


def change(path: Path, name: str, values: Mapping[str, Any] | None) -> None:
    """Replaces an existing entry; removes it if None. Raises: ConfigError, StorageError."""
    if path.is_dir():
        raise ConfigError(f"{name} comes with the bundle {path}: `kode extensions list`.")
    document = _document(path)
    section = document.get(SECTION, {})
    if name not in section:
        raise ConfigError(f"{path} has no MCP server {name}. `kode mcp list` lists them.")
    section[name] = values
    if values is None:
        del section[name]
    write_document(path, document)


def tokens_file(home: Path, url: str) -> Path:
    """The file that stores the login at the server with this address."""
    return paths.mcp_tokens_file(home, hashlib.sha256(url.encode()).hexdigest()[:16])


def _find_fault(path: Path, name: str, values: Any) -> str:
    """A sentence about what is wrong with an entry; "" if nothing is."""
    about = f"{path}: the MCP server {name[:40]!r}"
    if not _NAME.fullmatch(name):
        return f"{about} needs a name of up to 40 letters, digits, `-`, `.` and single `_`."
    if not isinstance(values, dict):
        return f"{about} must be a section: {{...}}."
    try:
        server = ServerFields.model_validate({**values, "name": name})
    except ValidationError as error:
        fault = error.errors()[0]
        return f"{about}: `{'.'.join(map(str, fault['loc']))}` must be {describe_allowed(fault)}."
    if bool(server.program) == bool(server.url) or (server.url and server.type == "stdio"):
        return f"{about} needs either a `command` or a `url` (type http, sse)."
    if server.url and "${" not in server.url and not is_url(server.url):
        text = f"{about} needs a `url` like https://host/mcp."
        return f"{text} A program goes into `command` (`kode mcp add NAME -- COMMAND`)."
    return ""


def _document(path: Path) -> dict[str, Any]:
    """Reads a config file; {} if it is missing. Raises: ConfigError."""
    document = read_document(path)
    if not isinstance(document.get(SECTION, {}), dict):
        raise ConfigError(f"{path}: `{SECTION}` must be a section: {{NAME: {{...}}}}.")
    return document


# ── what servers exchange with the person and the model ──────────────────────────────────────

SOCKET = ".sock"
"""An error that contains this is probably about a unix socket, which the sandbox hides."""


@dataclass(frozen=True)
class ToolDefinition:
    """A tool's whole definition from its server, hints included; an approval pins all of it."""

    whole: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.whole["name"])

    @property
    def description(self) -> str:
        return str(self.whole.get("description", ""))

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON schema of its arguments, always of type object."""
        return {"properties": {}, **self.whole.get("inputSchema", {}), "type": "object"}

    @property
    def content(self) -> str:
        """The definition as a canonical text."""
        return json.dumps(self.whole, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


class Content(Value):
    """A server's answer to a call, for a resource, or for a prompt."""

    text: str
    pictures: tuple[tuple[str, bytes], ...] = ()
    """The name and the bytes of each picture."""
    is_error: bool = False


class Offering(Value):
    """A resource (`key` is its URI) or a prompt (`key` is its name)."""

    key: str
    description: str = ""
    arguments: tuple[str, ...] = ()
    """The names of a prompt's arguments, in order; `!` is appended to a required one."""


class ElicitField(Value):
    name: str
    title: str
    kind: Literal["text", "number", "integer", "boolean", "choice", "choices"]
    options: tuple[str, ...] = ()
    required: bool = False
    default: Any = None


class ElicitForm(Value):
    """A server's request to the person: to fill in `fields`, or, if `url` is set, to open it."""

    server: str
    message: str
    fields: tuple[ElicitField, ...] = ()
    url: str = ""


Elicit = Callable[[ElicitForm], Awaitable[Mapping[str, Any] | None]]
"""Shows a form to the person; returns the values they filled in, or None if they declined."""
