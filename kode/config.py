"""Settings: nested parts, their layers, and where each value came from.

Layers, later wins: defaults < `$KODE_HOME/config.json` < `./kode.json` (found upward to the
repository root) < `KODE_*` environment < flags. A project file may not set what would let a
repository take over its reader (`FORBIDDEN_IN_PROJECT`). Every wrong value names file, line, key,
what was found and what is allowed. `docs/configuration.md` says what each key does.
"""

import difflib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from kode import paths
from kode.contracts import PermissionMode
from kode.errors import ConfigError, UserError

ProviderName = Literal["openai", "anthropic", "scripted"]
Count = Annotated[int, Field(ge=0)]
AtLeastOne = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Money = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Part(BaseModel):
    """A section of the settings: fixed once loaded, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Permissions(Part):
    mode: PermissionMode = "ask"
    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class Subagent(Part):
    max_concurrency: Annotated[int, Field(ge=1, le=8)] = 3
    timeout_s: Seconds = 120
    max_steps: AtLeastOne = 15
    max_depth: Count = 1


class ContextPart(Part):
    window: AtLeastOne | None = None
    compact_at: Annotated[float, Field(ge=0.1, le=0.95)] = 0.8
    keep_tool_output_tokens: Count = 40_000
    keep_user_tokens: Count = 20_000


class Shell(Part):
    environment: tuple[str, ...] = ()


class Retry(Part):
    max_attempts: Annotated[int, Field(ge=1, le=5)] = 5
    idle_timeout_s: Seconds = 120
    total_timeout_s: Seconds = 1800


class Price(Part):
    input: Money
    output: Money
    cached: Money | None = None
    cache_write: Money | None = None


class ProviderPart(Part):
    api_key: str | None = Field(default=None, repr=False)
    base_url: str | None = None
    model: str | None = None


class Repl(Part):
    vi_mode: bool = False
    notify: bool = True


class Embedding(Part):
    provider: Literal["local", "openai"] = "local"
    base_url: str | None = None
    model: str | None = None
    api_key: str | None = Field(default=None, repr=False)
    dims: Annotated[int, Field(ge=16, le=8192)] = 256
    timeout_s: Seconds = 10


class Vault(Part):
    facts_allowlist: tuple[str, ...] | None = None
    facts_budget_bytes: AtLeastOne | None = None


class Journal(Part):
    max_memory_size: AtLeastOne = 8192
    consolidation_timeout_s: Seconds = 30
    memory_window: Annotated[int, Field(ge=2)] = 50


class Notes(Part):
    strict_ttl: bool = False
    user: str = "default"


class MemoryConfig(Part):
    enabled: bool = True
    system: Literal["tiered", "vault", "journal", "notes"] = "tiered"
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
    model: str | None = None
    embedding: Embedding = Embedding()
    vault: Vault = Vault()
    journal: Journal = Journal()
    notes: Notes = Notes()

    @model_validator(mode="after")
    def _ordered(self) -> "MemoryConfig":
        if self.add_threshold > self.merge_threshold:
            raise ValueError("add_threshold must not be above merge_threshold")
        return self


class Config(Part):
    """All settings. Secrets are in `api_key` fields only; `masked` hides them."""

    provider: ProviderName | None = None
    model: str | None = None
    base_url: str | None = None
    api_key: str | None = Field(default=None, repr=False)
    providers: Mapping[ProviderName, ProviderPart] = {}
    script: str | None = None
    max_steps: AtLeastOne = 90
    max_budget_usd: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    timeout_s: Seconds | None = None
    system: str | None = None
    append_system: str = ""
    agents_files: bool = True
    add_dirs: tuple[str, ...] = ()
    permissions: Permissions = Permissions()
    subagent: Subagent = Subagent()
    context: ContextPart = ContextPart()
    shell: Shell = Shell()
    retry: Retry = Retry()
    prices: Mapping[str, Price] = {}
    repl: Repl = Repl()
    memory: MemoryConfig = MemoryConfig()


FORBIDDEN_IN_PROJECT = (
    "provider",
    "base_url",
    "api_key",
    "providers",
    "script",
    "system",
    "append_system",
    "add_dirs",
    "permissions.allow",
    "permissions.mode",
    "shell.environment",
    "prices",
    "max_budget_usd",
    "memory.enabled",
    "memory.system",
    "memory.model",
    "memory.embedding",
    "memory.vault",
    "memory.journal",
    "memory.notes",
)
"""What a repository's own file may not decide for whoever opens it: where requests and keys go,
what runs unasked, what the model is told on kode's behalf, and where memory is. Instructions of a
project belong into AGENTS.md, which the person can read."""

ENVIRONMENT = {
    "KODE_PROVIDER": "provider",
    "KODE_MODEL": "model",
    "KODE_BASE_URL": "base_url",
    "KODE_API_KEY": "api_key",
    "KODE_MAX_STEPS": "max_steps",
    "KODE_PERMISSION_MODE": "permissions.mode",
    "KODE_MEMORY": "memory.system",
}

MEMORY_OFF = ("off", "none")
"""Values of KODE_MEMORY that turn memory off."""

SDK_VARIABLES: Mapping[ProviderName, tuple[str, str]] = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
    "openai": ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
}

LOCAL_KEY = "none"
"""Sent to servers that want no key; the SDK insists on having one."""

MAX_FILE_BYTES = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Loaded:
    config: Config
    origins: Mapping[str, str]
    """Dotted key → where its value came from: `default`, `FILE:LINE`, a variable, a flag."""
    warnings: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    """The config files that were read."""


@dataclass(frozen=True, kw_only=True)
class ProviderChoice:
    """Which provider to ask, and how. None leaves it to the provider's default."""

    name: ProviderName
    model: str | None
    base_url: str | None
    api_key: str | None


@dataclass(frozen=True, kw_only=True)
class _Layer:
    values: Mapping[str, Any]
    """Nested, as in a config file."""
    names: Mapping[str, str]
    """Dotted key → how to name its place."""


def load_config(
    home: Path, cwd: Path, *, environ: Mapping[str, str], flags: Mapping[str, Any]
) -> Loaded:
    """The settings in force in `cwd`. `flags` are dotted keys.

    Raises: ConfigError that names file, line, key, what was found and what is allowed.
    """
    layers: list[_Layer] = []
    warnings: list[str] = []
    files: list[Path] = []
    for path, of_project in ((paths.config_file(home), False), (project_file(cwd), True)):
        if path is None or not path.exists():
            continue
        layer = _read_file(path, environ, expand=not of_project)
        if of_project:
            layer, ignored = _without_forbidden(layer)
            if ignored:
                warnings.append(
                    f"{path} may not set {', '.join(ignored)}: a repository must not decide that "
                    f"for whoever opens it. Set it in {paths.config_file(home)} if you want it."
                )
            layer = _expanded(layer, environ, path)
        layers.append(layer)
        files.append(path)
    layers.append(_environment_layer(environ))
    layers.append(_flag_layer(flags))
    merged: dict[str, Any] = {}
    places: dict[str, str] = {}
    for layer in layers:
        _merge(merged, layer.values)
        places.update(layer.names)
    try:
        config = Config.model_validate(merged)
    except ValidationError as error:
        raise ConfigError(_explain(error, places)) from None
    origins = {key: places.get(key, "default") for key in flat(config)}
    return Loaded(config=config, origins=origins, warnings=tuple(warnings), files=tuple(files))


def project_file(cwd: Path) -> Path | None:
    """`kode.json` in `cwd` or a folder above it, up to the repository root; None when there is
    none. Outside a repository only `cwd` itself counts."""
    root = paths.repository_root(cwd)
    folder = Path(os.path.realpath(cwd))
    while True:
        if (folder / "kode.json").is_file():
            return folder / "kode.json"
        if root is None or folder in (root, folder.parent):
            return None
        folder = folder.parent


def resolve_provider(config: Config, environ: Mapping[str, str]) -> ProviderChoice:
    """The provider to ask. With none named it is the one with a key; with two keys the one that
    the model's name belongs to, else Anthropic.

    Raises: UserError that says how to get a key.
    """
    name = config.provider or _provider_with_key(config, environ)
    part = config.providers.get(name, ProviderPart())
    if name == "scripted":
        return ProviderChoice(name=name, model=config.model, base_url=None, api_key=None)
    key_variable, url_variable = SDK_VARIABLES[name]
    base_url = config.base_url or part.base_url or environ.get(url_variable) or None
    model = config.model or part.model
    key = config.api_key or part.api_key or environ.get(key_variable) or None
    if key is None and base_url is None:
        raise UserError(
            f"There is no key for {name}. Set {key_variable}, or run `kode init`. "
            "`kode demo` shows kode without one."
        )
    other = {"openai": "claude", "anthropic": "gpt-"}[name]
    if base_url is None and model is not None and model.startswith(other):
        raise UserError(
            f"The model {model} is not one of {name}. Name its provider with --provider, and give "
            "its key, or choose another model."
        )
    return ProviderChoice(name=name, model=model, base_url=base_url, api_key=key or LOCAL_KEY)


def flat(part: BaseModel, prefix: str = "") -> dict[str, Any]:
    """Every key, dotted, with its value; sections are walked into, mappings are not."""
    values: dict[str, Any] = {}
    for name in type(part).model_fields:
        value = getattr(part, name)
        if isinstance(value, Part):
            values.update(flat(value, f"{prefix}{name}."))
        else:
            values[prefix + name] = value
    return values


def masked(value: str) -> str:
    """A secret as it may be shown."""
    return f"set, ends in …{value[-4:]}" if len(value) >= 12 else "set"


def _provider_with_key(config: Config, environ: Mapping[str, str]) -> ProviderName:
    if config.script is not None:
        return "scripted"
    with_key: list[ProviderName] = [
        name
        for name, (variable, _) in SDK_VARIABLES.items()
        if environ.get(variable) or (config.providers.get(name) or ProviderPart()).api_key
    ]
    model = config.model or ""
    if model.startswith("claude") and not config.base_url:
        return "anthropic"
    if config.base_url or (model and "anthropic" in with_key and "openai" in with_key):
        return "openai"
    if with_key:
        return with_key[0]
    if config.api_key:
        return "anthropic" if config.api_key.startswith("sk-ant-") else "openai"
    if any(environ.get(url) for _, url in SDK_VARIABLES.values()):
        return "openai" if environ.get("OPENAI_BASE_URL") else "anthropic"
    raise UserError(
        "There is no model to work with yet. Run `kode init` to set one up, or set "
        "OPENAI_API_KEY or ANTHROPIC_API_KEY, or name a local server with --base-url. "
        "`kode demo` needs none of them."
    )


def _read_file(path: Path, environ: Mapping[str, str], *, expand: bool) -> _Layer:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}. Check its owner.") from error
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"{path} is larger than 1 MB, which no config is.")
    try:
        text = data.decode("utf-8-sig")
        values = json.loads(text) if text.strip() else {}
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text (byte {error.start}). Save it anew.") from None
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"{path}:{error.lineno}:{error.colno} is not JSON: {error.msg}. Mend that place."
        ) from None
    except RecursionError:
        raise ConfigError(f"{path} is nested too deeply to be a config.") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path} holds {_kind(values)}; a config is one JSON object.")
    names = {key: f"{path}:{line}" for key, line in _lines(text, values).items()}
    layer = _Layer(values=values, names=names)
    return _expanded(layer, environ, path) if expand else layer


def _expanded(layer: _Layer, environ: Mapping[str, str], path: Path) -> _Layer:
    def expand(value: Any, key: str) -> Any:
        if isinstance(value, dict):
            return {
                name: expand(item, f"{key}.{name}" if key else name) for name, item in value.items()
            }
        if isinstance(value, list):
            return [expand(item, key) for item in value]
        if not isinstance(value, str):
            return value

        def variable(match: re.Match[str]) -> str:
            name = match.group(1)
            if name not in environ:
                where = layer.names.get(key, str(path))
                raise ConfigError(
                    f"{where}: `{key}` uses ${{{name}}}, which is not set. Set {name} in the "
                    "environment, or write the value itself."
                )
            return environ[name]

        return re.sub(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", variable, value)

    return _Layer(values=expand(dict(layer.values), ""), names=layer.names)


def _without_forbidden(layer: _Layer) -> tuple[_Layer, list[str]]:
    """The layer of a project file without the keys it may not set, and those keys. A mode that
    only tightens (`plan`, `ask`) may stay."""
    values = json.loads(json.dumps(layer.values))
    ignored: list[str] = []
    for key in FORBIDDEN_IN_PROJECT:
        section, _, name = key.rpartition(".")
        holder = values.get(section) if section else values
        if not isinstance(holder, dict) or name not in holder:
            continue
        if key == "permissions.mode" and holder[name] in ("plan", "ask"):
            continue
        del holder[name]
        ignored.append(key)
    names = {
        key: place
        for key, place in layer.names.items()
        if not any(key == name or key.startswith(f"{name}.") for name in ignored)
    }
    return _Layer(values=values, names=names), ignored


def _environment_layer(environ: Mapping[str, str]) -> _Layer:
    given: dict[str, Any] = {}
    names: dict[str, str] = {}
    for variable, key in ENVIRONMENT.items():
        value: Any = environ.get(variable, "")
        if not value:
            continue
        if variable == "KODE_MEMORY" and value in MEMORY_OFF:
            key, value = "memory.enabled", False
        given[key] = value
        names[key] = variable
    return _Layer(values=_nested(given), names=names)


def _flag_layer(flags: Mapping[str, Any]) -> _Layer:
    special = {
        "max_budget_usd": "--max-budget-usd",
        "permissions.mode": "--permission-mode",
        "permissions.allow": "--allow",
        "permissions.deny": "--deny",
        "timeout_s": "--timeout",
        "memory.system": "--memory",
        "memory.enabled": "--no-memory",
        "agents_files": "--no-agents",
        "add_dirs": "--add-dir",
    }
    names = {key: special.get(key, "--" + key.replace("_", "-")) for key in flags}
    return _Layer(values=_nested(flags), names=names)


def _nested(flat_values: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for key, value in flat_values.items():
        holder = nested
        *sections, name = key.split(".")
        for section in sections:
            holder = holder.setdefault(section, {})
        holder[name] = list(value) if isinstance(value, tuple) else value
    return nested


ADDED_UP = ("permissions.allow", "permissions.ask", "permissions.deny")
"""Lists of which every layer's part counts."""


def _merge(into: dict[str, Any], values: Mapping[str, Any], prefix: str = "") -> None:
    for key, value in values.items():
        name = prefix + key
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value, f"{name}.")
        elif name in ADDED_UP and isinstance(value, list) and isinstance(into.get(key), list):
            into[key] = [*into[key], *value]
        else:
            into[key] = json.loads(json.dumps(value)) if isinstance(value, dict) else value


def _lines(text: str, values: Mapping[str, Any]) -> dict[str, int]:
    """Dotted key → its line, found in the order of the text, since JSON keeps that order."""
    lines: dict[str, int] = {}
    position = 0

    def walk(section: Mapping[str, Any], prefix: str) -> None:
        nonlocal position
        for key, value in section.items():
            found = text.find(json.dumps(key, ensure_ascii=False), position)
            if found >= 0:
                position = found + 1
            lines[prefix + key] = text.count("\n", 0, max(found, 0)) + 1
            if isinstance(value, dict):
                walk(value, f"{prefix}{key}.")

    walk(values, "")
    return lines


def _explain(error: ValidationError, places: Mapping[str, str]) -> str:
    """One sentence for the first fault: where, which key, what was found, what is allowed."""
    fault = error.errors()[0]
    steps = [str(step) for step in fault["loc"]]
    key = ".".join(steps)
    place = next(
        (
            places[known]
            for end in range(len(steps), 0, -1)
            if (known := ".".join(steps[:end])) in places
        ),
        "config",
    )
    if fault["type"] == "extra_forbidden":
        allowed_keys = _keys_beside(steps)
        near = difflib.get_close_matches(steps[-1], allowed_keys, n=1, cutoff=0.5)
        hint = f"Did you mean `{near[0]}`?" if near else f"Allowed: {', '.join(allowed_keys)}."
        return f"{place}: there is no key `{key}`. {hint}"
    found = fault["input"]
    shown = "a value that is not shown" if "api_key" in key else repr(found)[:100]
    allowed = re.sub(r"^(Input should be|Value error,) ?", "", fault["msg"])
    if not key:
        return f"{place}: {allowed}."
    return f"{place}: `{key}` is {shown}; allowed is {allowed}."


def _keys_beside(steps: list[str]) -> list[str]:
    part: Any = Config
    for step in steps[:-1]:
        annotation = part.model_fields[step].annotation if step in part.model_fields else None
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return list(ProviderPart.model_fields)
        part = annotation
    names: list[str] = list(part.model_fields)
    return names


def _kind(value: Any) -> str:
    return {list: "a list", str: "a text", type(None): "null"}.get(type(value), "a bare value")
