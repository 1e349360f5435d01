"""The settings themselves: nested parts with their defaults and allowed values.

`docs/configuration.md` explains each key, and `config.example.json` has every key with its default.
`load.py` loads the values.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from kode import installed, paths
from kode.credentials import redact
from kode.paths import real_path
from kode.permissions.names import MODE_CALLED, PermissionMode
from kode.provider import Effort
from kode.registry import SYSTEMS

ProviderName = Annotated[str, Field(pattern=r"^[a-zA-Z][a-zA-Z0-9_.-]{0,39}$")]
"""A row of `kode.registry`, or a name that the config itself gives: `load.py` checks that it is one
of the two."""


def _check_system(name: str) -> str:
    if name not in SYSTEMS and name not in (added := installed.find_additions("memory")):
        raise ValueError(f"{name!r} is none of {', '.join((*added, *SYSTEMS))}")
    return name


SystemName = Annotated[str, AfterValidator(_check_system)]
"""A memory system of kode or of a plug-in."""
Count = Annotated[int, Field(ge=0)]
AtLeastOne = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Money = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Mode = Annotated[
    PermissionMode,
    BeforeValidator(lambda name: MODE_CALLED.get(name, name) if isinstance(name, str) else name),
]
"""Also accepts other agents' names for the modes."""


class Section(BaseModel):
    """A section of the settings: fixed once loaded; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Permissions(Section):
    mode: Mode = "ask"
    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class Subagent(Section):
    max_concurrency: Annotated[int, Field(ge=1, le=8)] = 3
    timeout_s: Seconds = 1800
    max_steps: AtLeastOne = 60
    max_depth: Count = 1


class ContextPart(Section):
    window: AtLeastOne | None = None
    sees_images: bool | None = None
    compact_at: Annotated[float, Field(ge=0.1, le=0.95)] = 0.8
    keep_user_tokens: Count = 20_000


class Shell(Section):
    environment: tuple[str, ...] = ()


class SandboxPart(Section):
    enabled: Literal[True, False, "auto"] = "auto"
    network: bool = False


class Mcp(Section):
    deferred: Literal[True, False, "auto"] = "auto"


class UndoSettings(Section):
    max_file_mb: AtLeastOne = 5
    max_session_mb: AtLeastOne = 200
    max_total_mb: AtLeastOne = 500


class Retry(Section):
    max_attempts: Annotated[int, Field(ge=1, le=5)] = 5
    idle_timeout_s: Seconds = 120
    total_timeout_s: Seconds = 1800


class Price(Section):
    input: Money
    output: Money
    cached: Money | None = None
    cache_write: Money | None = None


class ServerChoice(Section):
    """A server with its model, its address and its key."""

    model: str | None = None
    base_url: str | None = None
    api_key: str | None = Field(default=None, repr=False)


class ProviderPart(ServerChoice):
    api: Literal["auto", "responses", "chat", "messages"] = "auto"
    headers: Mapping[str, str] = Field(default={}, repr=False)
    effort: Effort | None = None


class Repl(Section):
    vi_mode: bool = False
    theme: Literal["auto", "dark", "light", "16", "none"] = "auto"
    notify: Literal[True, False, "bell"] = True
    plain: bool = False


class Embedding(ServerChoice):
    provider: Literal["local", "openai"] = "local"
    dims: Annotated[int, Field(ge=16, le=8192)] | None = None
    timeout_s: Seconds = 10


class Vault(Section):
    facts_allowlist: tuple[str, ...] | None = None


class Journal(Section):
    max_memory_size: AtLeastOne = 8192
    consolidation_timeout_s: Seconds = 30
    memory_window: Annotated[int, Field(ge=2)] = 50


class Notes(Section):
    forget_brings_back: bool = False
    user: str = "default"
    url: Annotated[str, Field(pattern=r"^postgres(ql)?://")] | None = None
    team: Annotated[str, Field(min_length=1, max_length=60)] = "default"
    host: Annotated[str, Field(max_length=60)] | None = None


class MemoryConfig(Section):
    enabled: bool = True
    system: SystemName = "tiered"
    data_dir: Annotated[str, Field(min_length=1)] | None = None
    facts_limit_user: AtLeastOne = 1500
    facts_limit_env: AtLeastOne = 2500
    buffer_lines: Annotated[int, Field(ge=0, le=1000)] = 20
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
    exit_wait_s: Annotated[float, Field(ge=0)] = 2
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

    @model_validator(mode="after")
    def _check_together(self) -> "MemoryConfig":
        if self.add_threshold > self.merge_threshold:
            raise ValueError("`add_threshold` must not be above `merge_threshold`")
        if self.embedding.provider == "local" and (self.embedding.base_url or self.embedding.model):
            raise ValueError(
                'memory.embedding.provider must be "openai" for `base_url` or `model` to be used'
            )
        return self


class Config(ServerChoice):
    """All settings. Secrets are only in `api_key` fields; `display_value` hides them."""

    provider: ProviderName | None = None
    small_model: str | None = None
    fallback_model: str | None = None
    effort: Effort | None = None
    web_search: bool | None = None
    cache: Literal["auto", "short", "long", "none"] = "auto"
    providers: Mapping[ProviderName, ProviderPart] = {}
    script: str | None = None
    max_steps: AtLeastOne = 90
    max_budget_usd: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
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
    prices: Mapping[str, Price] = {}
    repl: Repl = Repl()
    memory: MemoryConfig = MemoryConfig()
    plugins: Mapping[str, Mapping[str, Any]] = {}
    """The name of a plug-in → whether it is `enabled`, and its own settings."""

    def part(self, provider: str) -> ProviderPart:
        """The settings of a provider; the defaults if it has none."""
        return self.providers.get(provider) or ProviderPart()

    def roots(self, cwd: Path) -> tuple[Path, ...]:
        """The working folders: `cwd` unchanged, then those of `add_dirs`, absolute and real."""
        return (cwd, *(Path(real_path(paths.expand_path(folder))) for folder in self.add_dirs))


def configured_prices(config: Config) -> dict[str, dict[str, Any]]:
    """The configured prices, in the format of `kode.providers.models.model_info_of`."""
    return {
        model: {f"{kind}_price": value for kind, value in price if value is not None}
        for model, price in config.prices.items()
    }


def flatten(part: BaseModel, prefix: str = "") -> dict[str, Any]:
    """Dotted key → value; sections are flattened, mappings are not."""
    values: dict[str, Any] = {}
    for name, value in part:
        is_section = isinstance(value, Section)
        values |= flatten(value, f"{prefix}{name}.") if is_section else {prefix + name: value}
    return values


def display_value(key: str, value: Any) -> Any:
    """A value as plain JSON for display: of an API key only the last four characters."""
    if isinstance(value, BaseModel):
        value = value.model_dump()
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
