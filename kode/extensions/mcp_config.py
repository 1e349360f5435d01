"""Reads the configured MCP servers: `.mcp.json` of the project, and `mcpServers` in `kode.json` and
in `$KODE_HOME/config.json`. Variables in an entry are replaced only when its server starts, so that
no expanded value is stored, hashed or shown."""

import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo

from kode import paths
from kode.config.files import read_document, read_flag_document, write_document
from kode.config.load import project_file
from kode.config.model import describe_allowed
from kode.credentials import redact
from kode.errors import ConfigError
from kode.extensions import trust
from kode.extensions.definitions import bundles_in
from kode.extensions.trust import Candidate, Scope
from kode.paths import real_path
from kode.values import dataclass

SECTION = "mcpServers"
START_TIMEOUT_S = 30.0  # `npx` and `uvx` may have to install it first
LOGIN_TIMEOUT_S = 300.0
CALL_TIMEOUT_S = 300
"""Default time limit for a server to start, for a person to log in, and for an answer to a call."""

ADDRESS = re.compile(r"https?://|\$\{")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]|_(?!_)){0,39}")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


@dataclass(frozen=True, kw_only=True)
class ServerEntry:
    """A server as configured."""

    name: str
    origin: Path
    scope: Scope
    project: Path
    values: Mapping[str, Any]

    @property
    def item(self) -> Candidate:
        """What a person approves: the entry with its variables unreplaced, and the contents of the
        project's files that its command names."""
        written = json.dumps(self.values, indent=2, sort_keys=True, ensure_ascii=False)
        content = "\n".join((written, *self.files_of_command(), ""))
        name, origin, scope = self.name, self.origin, self.scope
        return Candidate(kind="mcp", name=name, origin=origin, scope=scope, content=content)

    @property
    def root(self) -> Path:
        """The folder that its approvals are stored for: the project, or the home for the person's
        own."""
        return self.project if self.scope == "project" else paths.kode_home()

    def files_of_command(self) -> list[str]:
        """A line with the hash of each file of the project that its command names."""
        words = dict.fromkeys((self.values.get("command", ""), *self.values.get("args", ())))
        files = {word: Path(real_path(self.project / word)) for word in words}
        return [
            f"{word} has the SHA-256 {hashlib.sha256(path.read_bytes()).hexdigest()}"
            for word, path in files.items()
            if path.is_relative_to(self.project) and path.is_file()
        ]


def _expand_variables(text: str, info: ValidationInfo) -> str:
    """Replaces variables by those in the context, if there is one. Raises: KeyError."""
    context = info.context
    if context is None:
        return text
    return _VARIABLE.sub(lambda m: context[m[1]] if m[2] is None else context.get(m[1], m[2]), text)


Expanded = Annotated[str, AfterValidator(_expand_variables)]


class ServerFields(BaseModel):
    """A server ready to be started or reached: either `program` or `url` is set. The fields are the
    keys of an entry; other keys belong to other programs and are ignored."""

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
    """What its process may read of the home and of temporary folders."""
    outside: bool = False
    """Whether its process runs without a sandbox."""
    timeout: int = CALL_TIMEOUT_S * 1000
    """Milliseconds to answer a call."""

    @property
    def command(self) -> tuple[str, ...]:
        return (self.program, *self.args) if self.program else ()


def find_servers(
    home: Path, cwd: Path, *, with_disabled: bool = False
) -> tuple[tuple[ServerEntry, ...], list[str]]:
    """The servers configured for `cwd`, and a sentence for each that is unusable, or hidden by one
    of the same name: the person's own hide the project's, `.mcp.json` hides `kode.json`, bundles
    come last. A disabled one hides none. Never raises."""
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
    """The servers of a section; adds to `faults` a sentence for each unusable one."""
    for name, values in section.items():
        if fault := _find_fault(origin, name, values):
            faults.append(fault)
        else:
            yield ServerEntry(name=name, origin=origin, scope=scope, project=project, values=values)


def client_entries(servers: Mapping[str, Mapping[str, Any]], cwd: Path) -> Iterator[ServerEntry]:
    """The servers that an editor names for a session, by name."""
    origin, project = Path("the editor"), paths.project_root(cwd)
    for name, values in servers.items():
        yield ServerEntry(
            name=name, origin=origin, scope="client", project=project, values=dict(values)
        )


def resolve(entry: ServerEntry, environ: Mapping[str, str]) -> ServerFields:
    """Replaces the variables of an entry. Raises: ConfigError that names an unset variable."""
    # A value passed by a program is literal.
    variables = None if entry.scope == "client" else environ
    try:
        return ServerFields.model_validate({**entry.values, "name": entry.name}, context=variables)
    except KeyError as error:
        name, about = error.args[0], f"{entry.origin}: the MCP server {entry.name}"
        text = f"{about} uses ${{{name}}}, which is not set. Set {name} in the environment"
        raise ConfigError(f"{text}, or write ${{{name}:-DEFAULT}}.") from error


def target_of(values: Mapping[str, Any]) -> str:
    """The program that an entry runs with its arguments, or its address, without credentials."""
    words = (values.get("url") or values.get("command", ""), *values.get("args", ()))
    return redact(" ".join(words))


def add_entries(
    home: Path, cwd: Path, servers: Sequence[tuple[str, Mapping[str, Any]]], *, shared: bool = False
) -> Path:
    """Adds entries that a person has just written to a config file, all or none: to the project's
    if they are `shared`, which approves them. Returns the file, the rest of which stays. Raises:
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
    """The servers of `--mcp-config`: a file, or JSON, with `mcpServers`. They are the person's own.
    Raises: ConfigError."""
    document, path = read_flag_document(text, "--mcp-config", cwd)
    if not isinstance(section := document.get(SECTION), dict):
        raise ConfigError(f"--mcp-config {path}: it holds no `{SECTION}`.")
    faults: list[str] = []
    entries = tuple(entries_in(section, path, "home", paths.project_root(cwd), faults))
    if faults:
        raise ConfigError(faults[0])
    return entries


def change(path: Path, name: str, values: Mapping[str, Any] | None) -> None:
    """Replaces an entry in a config file, or removes it. Raises: ConfigError, StorageError."""
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
    """Where the login at the server of this address is stored."""
    return paths.mcp_tokens_file(home, hashlib.sha256(url.encode()).hexdigest()[:16])


def _find_fault(path: Path, name: str, values: Any) -> str:
    """What is wrong with an entry, a sentence; "" if nothing."""
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
    if server.url and not ADDRESS.match(server.url):
        text = f"{about} needs a `url` that begins with http:// or https://."
        return f"{text} A program goes into `command` (`kode mcp add NAME -- COMMAND`)."
    return ""


def _document(path: Path) -> dict[str, Any]:
    """A config file, {} if it is missing. Raises: ConfigError."""
    document = read_document(path)
    if not isinstance(document.get(SECTION, {}), dict):
        raise ConfigError(f"{path}: `{SECTION}` must be a section: {{NAME: {{...}}}}.")
    return document


# ── what servers exchange with the person and the model ──────────────────────────────────────

SOCKET = ".sock"
"""How programs name a unix socket that they cannot reach."""


@dataclass(frozen=True)
class ToolDefinition:
    """A tool with everything that its server says about it, hints included: what is pinned."""

    whole: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.whole["name"])

    @property
    def description(self) -> str:
        return str(self.whole.get("description", ""))

    @property
    def parameters(self) -> Mapping[str, Any]:
        """A JSON schema of an object."""
        return {"properties": {}, **self.whole.get("inputSchema", {}), "type": "object"}

    @property
    def content(self) -> str:
        """The definition as a canonical text."""
        return json.dumps(self.whole, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


@dataclass(frozen=True, kw_only=True)
class Content:
    """A server's answer to a call, for a resource, or for a prompt."""

    text: str
    pictures: tuple[tuple[str, bytes], ...] = ()
    """The name and the data of each."""
    is_error: bool = False


@dataclass(frozen=True, kw_only=True)
class Offering:
    """A resource (`key` is its URI) or a prompt (`key` is its name)."""

    key: str
    description: str = ""
    arguments: tuple[str, ...] = ()
    """Of a prompt, in order; a required one ends with `!`."""


@dataclass(frozen=True, kw_only=True)
class ElicitField:
    name: str
    title: str
    kind: Literal["text", "number", "integer", "boolean", "choice", "choices"]
    options: tuple[str, ...] = ()
    required: bool = False
    default: Any = None


@dataclass(frozen=True, kw_only=True)
class ElicitForm:
    """What a server asks the person: to fill in fields, or to open a page."""

    server: str
    message: str
    fields: tuple[ElicitField, ...] = ()
    url: str = ""


Elicit = Callable[[ElicitForm], Awaitable[Mapping[str, Any] | None]]
"""Puts a form to the person; what they filled in, None if they declined."""
