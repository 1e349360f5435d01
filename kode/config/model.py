"""The settings themselves: nested parts with their defaults and allowed values.

`docs/configuration.md` explains each key, and `config.example.json` has every key with its default.
`load.py` loads the values.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from kode import installed
from kode.credentials import redact
from kode.paths import expand_path, real_path
from kode.permissions.names import MODE_CALLED, PermissionMode
from kode.provider import Effort
from kode.registry import SYSTEMS
from kode.values import Value, field, is_dataclass

ProviderName = Annotated[str, ("pattern", r"^[a-zA-Z][a-zA-Z0-9_.-]{0,39}$")]
"""A row of `kode.registry`, or a name that the config itself gives: `load.py` checks that it is one
of the two."""


def _check_system(name: Any) -> Any:
    if isinstance(name, str) and name not in SYSTEMS:
        added = installed.find_additions("memory")
        if name not in added:
            raise ValueError(f"{name!r} is none of {', '.join((*added, *SYSTEMS))}")
    return name


SystemName = Annotated[str, _check_system]
"""A memory system of kode or of a plug-in."""
Count = Annotated[int, ("ge", 0)]
AtLeastOne = Annotated[int, ("ge", 1)]
Seconds = Annotated[float, ("gt", 0), ("allow_inf_nan", False)]
Share = Annotated[float, ("ge", 0), ("le", 1)]
Money = Annotated[float, ("ge", 0), ("allow_inf_nan", False)]
Mode = Annotated[
    PermissionMode, lambda name: MODE_CALLED.get(name, name) if isinstance(name, str) else name
]
"""Also accepts other agents' names for the modes."""


class Permissions(Value):
    mode: Mode = "ask"
    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class Subagent(Value):
    max_concurrency: Annotated[int, ("ge", 1), ("le", 8)] = 3
    timeout_s: Seconds = 1800
    max_steps: AtLeastOne = 60
    max_depth: Count = 1


class ContextPart(Value):
    window: AtLeastOne | None = None
    sees_images: bool | None = None
    compact_at: Annotated[float, ("ge", 0.1), ("le", 0.95)] = 0.8
    keep_user_tokens: Count = 20_000


class Shell(Value):
    environment: tuple[str, ...] = ()


class SandboxPart(Value):
    enabled: Literal[True, False, "auto"] = "auto"
    network: bool = False


class Mcp(Value):
    deferred: Literal[True, False, "auto"] = "auto"


class UndoSettings(Value):
    max_file_mb: AtLeastOne = 5
    max_session_mb: AtLeastOne = 200
    max_total_mb: AtLeastOne = 500


class Retry(Value):
    max_attempts: Annotated[int, ("ge", 1), ("le", 5)] = 5
    idle_timeout_s: Seconds = 120
    total_timeout_s: Seconds = 1800


class Price(Value):
    input: Money
    output: Money
    cached: Money | None = None
    cache_write: Money | None = None


class ServerChoice(Value):
    """A server with its model, its address and its key."""

    model: str | None = None
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)


class ProviderPart(ServerChoice):
    api: Literal["auto", "responses", "chat", "messages"] = "auto"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    effort: Effort | None = None


class Repl(Value):
    vi_mode: bool = False
    theme: Literal["auto", "dark", "light", "16", "none"] = "auto"
    notify: Literal[True, False, "bell"] = True
    plain: bool = False


class Embedding(ServerChoice):
    provider: Literal["local", "openai"] = "local"
    dims: Annotated[int, ("ge", 16), ("le", 8192)] | None = None
    timeout_s: Seconds = 10


class Vault(Value):
    facts_allowlist: tuple[str, ...] | None = None


class Journal(Value):
    max_memory_size: AtLeastOne = 8192
    consolidation_timeout_s: Seconds = 30
    memory_window: Annotated[int, ("ge", 2)] = 50


class Notes(Value):
    forget_brings_back: bool = False
    user: str = "default"
    url: Annotated[str, ("pattern", r"^postgres(ql)?://")] | None = None
    team: Annotated[str, ("min_length", 1), ("max_length", 60)] = "default"
    host: Annotated[str, ("max_length", 60)] | None = None


class MemoryConfig(Value):
    enabled: bool = True
    system: SystemName = "tiered"
    data_dir: Annotated[str, ("min_length", 1)] | None = None
    facts_limit_user: AtLeastOne = 1500
    facts_limit_env: AtLeastOne = 2500
    buffer_lines: Annotated[int, ("ge", 0), ("le", 1000)] = 20
    buffer_enabled: bool = True
    merge_on_write: bool = True
    extract_on_end: bool = True
    llm_search: bool = True
    llm_extract: bool = True
    llm_consolidate: bool = True
    merge_threshold: Share = 0.7
    add_threshold: Share = 0.3
    min_turns_for_extraction: AtLeastOne = 3
    end_deadline_s: Seconds = 30
    exit_wait_s: Annotated[float, ("ge", 0)] = 2
    model: str | None = None
    embedding: Embedding = Embedding()
    vault: Vault = Vault()
    journal: Journal = Journal()
    notes: Notes = Notes()

    @property
    def drop_deadline_s(self) -> float:
        """How long the end of a session may wait for the chosen system."""
        is_journal = self.system == "journal"
        return self.journal.consolidation_timeout_s if is_journal else self.end_deadline_s

    def __post_init__(self) -> None:
        if self.add_threshold > self.merge_threshold:
            raise ValueError("`add_threshold` must not be above `merge_threshold`")
        if self.embedding.provider == "local" and (self.embedding.base_url or self.embedding.model):
            raise ValueError(
                'memory.embedding.provider must be "openai" for `base_url` or `model` to be used'
            )


class Config(ServerChoice):
    """All settings. Secrets are only in `api_key` fields; `display_value` hides them."""

    provider: ProviderName | None = None
    small_model: str | None = None
    fallback_model: str | None = None
    effort: Effort | None = None
    web_search: bool | None = None
    cache: Literal["auto", "short", "long", "none"] = "auto"
    providers: Mapping[ProviderName, ProviderPart] = field(default_factory=dict)
    script: str | None = None
    max_steps: AtLeastOne = 90
    max_budget_usd: Annotated[float, ("gt", 0), ("allow_inf_nan", False)] | None = None
    shared_budget: str | None = None
    timeout_s: Seconds | None = None
    system: str | None = None
    append_system: str = ""
    profile: Literal["auto", "small", "full"] = "auto"
    tool_format: Literal["auto", "kode", "patch", "editor"] = "auto"
    agents_files: bool = True
    diagnostics: bool = True
    add_dirs: tuple[str, ...] = ()
    permissions: Permissions = Permissions()
    subagent: Subagent = Subagent()
    context: ContextPart = ContextPart()
    shell: Shell = Shell()
    sandbox: SandboxPart = SandboxPart()
    mcp: Mcp = Mcp()
    undo: UndoSettings = UndoSettings()
    retry: Retry = Retry()
    prices: Mapping[str, Price] = field(default_factory=dict)
    repl: Repl = Repl()
    memory: MemoryConfig = MemoryConfig()
    plugins: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The name of a plug-in → whether it is `enabled`, and its own settings."""

    def part(self, provider: str) -> ProviderPart:
        """The settings of a provider; the defaults if it has none."""
        return self.providers.get(provider) or ProviderPart()

    def roots(self, cwd: Path) -> tuple[Path, ...]:
        """The working folders: `cwd` unchanged, then those of `add_dirs`, absolute and real."""
        return (cwd, *(Path(real_path(expand_path(folder))) for folder in self.add_dirs))


def configured_prices(config: Config) -> dict[str, dict[str, Any]]:
    """The configured prices, in the format of `kode.providers.models.model_info_of`."""
    return {
        model: {f"{kind}_price": value for kind, value in vars(price).items() if value is not None}
        for model, price in config.prices.items()
    }


def flatten(part: Any, prefix: str = "") -> dict[str, Any]:
    """Dotted key → value; sections are flattened, mappings are not."""
    values: dict[str, Any] = {}
    for name, value in vars(part).items():
        is_section = is_dataclass(value)
        values |= flatten(value, f"{prefix}{name}.") if is_section else {prefix + name: value}
    return values


def display_value(key: str, value: Any) -> Any:
    """A value as plain JSON for display: of an API key only the last four characters."""
    if is_dataclass(value):
        value = vars(value)
    if isinstance(value, Mapping):
        return {name: display_value(f"{key}.{name}", item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [display_value(key, item) for item in value]
    if not isinstance(value, str):
        return value
    if ".headers." in f".{key}":
        return "set"
    if key.rpartition(".")[2] == "api_key":
        return f"set, ends in …{value[-4:]}" if len(value) >= 12 else "set"
    # The password in an address is hidden even if it does not look like one.
    return redact(_URL_PASSWORD.sub(r"\1[redacted password]@", value))


_URL_PASSWORD = re.compile(r"(://[^/@\s]*?:)[^/@\s]+@")


_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "string": "a text",
    "bool": "true or false",
    "list": "a list",
    "tuple": "a list",
    "model": "a section: {...}",
    "dataclass": "a section: {...}",
    "dict": "a section: {...}",
}


def describe_allowed(fault: Mapping[str, Any]) -> str:
    """What pydantic allows in place of a value, in plain words: `a number`, `true or false`."""
    kind, _, check = fault["type"].partition("_")
    if check in ("type", "parsing") and kind in _KINDS:
        return _KINDS[kind]
    if fault["type"] == "string_too_short":
        return "a text that is not empty"
    return str(fault["msg"]).removeprefix("Input should be ").replace("True, False", "true, false")
