"""Loads the settings: merges all their sources, and records the origin of each value.

Layers, later wins: defaults < `$KODE_HOME/config.json` < `./kode.json` (found upward to the
repository root) < `KODE_*` environment < flags. A project file may not set what would let a
repository take over its reader (`ALLOWED_IN_PROJECT`). Every error names place, key, value, and
what is allowed.
"""

import contextlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kode import installed, paths
from kode.config.choice import row_of
from kode.config.files import (
    find_foreign_settings,
    parse_document,
    project_folders,
    read_document,
    read_text,
    restrict_home,
    write_document,
)
from kode.config.model import Config, describe_allowed, flatten
from kode.credentials import redact
from kode.errors import ConfigError, KodeError, PluginError, Setting
from kode.messages import shorten
from kode.permissions.names import MODE_CALLED
from kode.registry import COMPATIBLE
from kode.values import Value, is_dataclass, replace, validator

Keys = tuple[str, ...]
Layer = dict[Keys, tuple[Any, str]]
"""One source of settings: the keys that lead to a value → the value, and the name of its origin:
`FILE:LINE`, a variable, a flag."""

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")

ALLOWED_IN_PROJECT = frozenset(
    "model profile agents_files diagnostics permissions.ask permissions.deny".split()
)
"""Everything that a repository's own file may decide for whoever opens it, besides a stricter mode.
Not where requests and keys go, what runs without asking, what is spent, stored or remembered: a new
key in `Config` is not a project's until it is listed here."""

OF_EXTENSIONS = ("mcpServers", "hooks")
"""Sections of the person's config file that are not settings: `kode.extensions` reads them. In a
project's file only the first counts, once a person has approved it."""

OTHER_SPELLINGS: Mapping[Keys, Keys] = {("memory", "dataDir"): ("memory", "data_dir")}
"""A key as other programs spell it → as kode does."""

STRICTNESS = ("full", "auto-edit", "ask", "plan")
"""Permission modes, loosest first."""

ADDED_UP = ("permissions.allow", "permissions.ask", "permissions.deny")
"""Lists that are concatenated over all layers."""

ENVIRONMENT = {
    "provider": "KODE_PROVIDER",
    "model": "KODE_MODEL",
    "base_url": "KODE_BASE_URL",
    "api_key": "KODE_API_KEY",
    "max_steps": "KODE_MAX_STEPS",
    "permissions.mode": "KODE_PERMISSION_MODE",
    "memory.system": "KODE_MEMORY",
    "memory.notes.url": "KODE_NOTES_URL",
    "memory.notes.team": "KODE_NOTES_TEAM",
}
"""Key → the environment variable that sets it."""

OWN_MARKS = "KODE_BASH_ENV KODE_DEPTH KODE_PLUGIN_FILES KODE_PROJECT_DIR KODE_SHELL_ID".split()
"""Variables that kode sets for processes that it starts; they are no settings."""

FLAGS = {
    "timeout_s": "--timeout",
    "permissions.mode": "--permission-mode",
    "permissions.allow": "--allow",
    "permissions.deny": "--deny",
    "memory.system": "--memory",
    "add_dirs": "--add-dir",
    "sandbox.enabled": "--sandbox",
}
"""Key → its flag, if the flag has a value and another name than the key."""


class Loaded(Value):
    config: Config
    origins: Mapping[str, str]
    """Dotted key → the origin of its value: `default`, `FILE:LINE`, a variable, a flag."""
    warnings: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    """The config files that were read."""
    unused: tuple[str, ...] = ()
    """Sentences about what kode does not use of other agents' settings."""


class Faults(ConfigError):
    """Faults in the settings. The message is the first one; `faults` has all of them."""

    def __init__(self, faults: Mapping[Setting, str]) -> None:
        self.setting = next(iter(faults))
        self.faults = tuple(f"{setting.source}: {fault}" for setting, fault in faults.items())

    def __str__(self) -> str:
        more = len(self.faults) - 1
        rest = f" ({more} more: `kode config check` names them.)" if more else ""
        return self.faults[0] + rest


def load_config(
    home: Path,
    cwd: Path,
    *,
    environ: Mapping[str, str],
    flags: Mapping[str, Any],
    flags_of: str | None = None,
) -> Loaded:
    """Loads the settings for `cwd`. `flags` has dotted keys, and `settings`: another agent's, as
    file or JSON. `flags_of` is the origin of `flags` in errors; None: the command line.

    Raises: ConfigError (`Faults` if there are several) that names file, line, key, value and what
        is allowed.
    """
    merged: Layer = {}
    warnings = [*filter(None, [restrict_home(home)])]
    own_file, project = paths.config_file(home), project_file(cwd)
    if (text := read_text(own_file)) is not None:
        _merge_layer(merged, _expand(_flatten_file(text, own_file, OF_EXTENSIONS), environ))
    if project is not None and (text := read_text(project)) is not None:
        layer, ignored = _split_allowed(_flatten_file(text, project, OF_EXTENSIONS[:1]), merged)
        if ignored:
            warnings.append(
                f"Ignored in {project}, since a project may not set it: {', '.join(ignored)}. "
                f"If you want it, set it in {own_file}."
            )
        # No variables: a project must not choose which of them go to requests and logs.
        _merge_layer(merged, _expand(layer, {}))
    flags = dict(flags)
    foreign, unused = find_foreign_settings(cwd, flags.pop("settings", None))
    for kind, rules, path in foreign:
        _merge_layer(merged, {("permissions", kind): (rules, str(path))} if rules else {})
    _merge_layer(merged, _make_environment_layer(environ))
    warnings += _report_unknown_variables(environ)
    names = {key: flags_of or FLAGS.get(key, "--" + key.replace("_", "-")) for key in flags}
    _merge_layer(merged, _make_layer(flags, names))
    config = _validate(merged)
    _check_providers(config, merged)
    for plugin in installed.enabled_plugins() if config.plugins else ():
        with contextlib.suppress(PluginError):  # whoever uses the plug-in names it
            plugin_settings(plugin, config, merged)
    places = {keys[0]: place for keys, (_, place) in merged.items()}  # of `providers`, `prices`
    places |= {".".join(keys): place for keys, (_, place) in merged.items()}
    return Loaded(
        config=config,
        origins={**dict.fromkeys(flatten(config), "default"), **places},
        warnings=tuple(warnings),
        files=tuple(path for path in (own_file, project) if path and path.exists()),
        unused=unused,
    )


def with_key(document: Mapping[str, Any], key: str, value: Any, place: str) -> dict[str, Any]:
    """Returns a config file's document with a dotted key set. `place` is named in errors.

    Raises: ConfigError (`Faults`) for an unknown key or a value that is not allowed.
    """
    keys = tuple(key.split("."))
    keys = OTHER_SPELLINGS.get(keys, keys)
    added: Layer = {keys: (value, place)}
    _validate(added)
    layer = _flatten_file(json.dumps(document), Path(place)).items()
    return _nest_settings({other: it for other, it in layer if other[: len(keys)] != keys} | added)


def store_value(key: str, value: Any, place: str) -> Path:
    """Sets a key in the person's config file; returns its path. Raises: as `with_key`;
    StorageError."""
    path = paths.config_file(paths.kode_home())
    write_document(path, with_key(read_document(path), key, value, place))
    return path


def add_setting_source(error: BaseException, origins: Mapping[str, str]) -> None:
    """Adds the origin of its setting to an error that was raised without knowing it."""
    if isinstance(error, KodeError) and (setting := error.setting) is not None:
        error.setting = replace(setting, source=origins.get(setting.key, setting.source))


def project_file(cwd: Path) -> Path | None:
    """`kode.json` in `cwd` or a parent folder, up to the repository root; None if there is none."""
    files = (folder / "kode.json" for folder in project_folders(cwd))
    return next(filter(os.path.lexists, files), None)


# ── the layers ───────────────────────────────────────────────────────────────────────────────


def _flatten_file(text: str, path: Path, others: Sequence[str] = ()) -> Layer:
    """The values of a file, without the sections in `others`, each with its line: keys are searched
    in the order of the text, which JSON keeps. Raises: ConfigError."""
    layer: Layer = {}
    position, shown = 0, paths.short_path(path)

    def walk(section: Mapping[str, Any], above: Keys) -> None:
        nonlocal position
        for key, value in section.items():
            quoted = re.escape(json.dumps(key, ensure_ascii=False))
            match = re.compile(quoted + r"\s*:").search(text, position)
            position = match.start() + 1 if match else position
            keys = OTHER_SPELLINGS.get((*above, key), (*above, key))
            if isinstance(value, dict) and value:
                walk(value, keys)
            elif keys[0] not in others:
                layer[keys] = (value, f"{shown}:{text.count(chr(10), 0, position) + 1}")

    walk(parse_document(text, path), ())
    return layer


def _expand(layer: Layer, environ: Mapping[str, str]) -> Layer:
    """The layer with `${VAR}` in string values replaced. Raises: ConfigError for a variable that is
    not in `environ`."""

    def look_up(uses: str, match: re.Match[str]) -> str:
        if match[1] not in environ:
            raise ConfigError(
                f"{uses} {match[0]}, which is not set. Set {match[1]} in the environment, which a "
                "project's file does not read, or write the value itself."
            )
        return environ[match[1]]

    def expand(value: Any, uses: str) -> Any:
        if isinstance(value, list):
            return [expand(item, uses) for item in value]
        return _VARIABLE.sub(partial(look_up, uses), value) if isinstance(value, str) else value

    return {
        keys: (expand(value, f"{place}: `{'.'.join(keys)}` uses"), place)
        for keys, (value, place) in layer.items()
    }


def _split_allowed(layer: Layer, personal: Layer) -> tuple[Layer, list[str]]:
    """Returns the allowed settings of a project file, given the `personal` ones, and the refused
    keys. Unknown keys stay among the allowed, to be reported as faults."""
    all_keys = {*flatten(Config()), "hooks"}
    personal_mode, _ = personal.get(("permissions", "mode"), ("", ""))
    loosest = MODE_CALLED.get(str(personal_mode), Config().permissions.mode)
    stricter = STRICTNESS[STRICTNESS.index(loosest) :]
    allowed, ignored = Layer(), dict[str, None]()
    for keys, (value, place) in layer.items():
        names = (".".join(keys[:end]) for end in range(len(keys), 0, -1))
        key = next((name for name in names if name in all_keys), "")
        is_stricter = key == "permissions.mode" and MODE_CALLED.get(str(value)) in stricter
        if not key or key in ALLOWED_IN_PROJECT or is_stricter:
            allowed[keys] = (value, place)
        else:
            ignored[key] = None
    return allowed, list(ignored)


def _make_environment_layer(environ: Mapping[str, str]) -> Layer:
    texts = {key: environ.get(name, "").strip() for key, name in ENVIRONMENT.items()}
    values: dict[str, Any] = {key: text for key, text in texts.items() if text}
    if re.fullmatch(r"-?[0-9]{1,18}", texts["max_steps"]):
        values["max_steps"] = int(texts["max_steps"])
    return _make_layer(values, ENVIRONMENT)


def _make_layer(values: dict[str, Any], places: dict[str, str]) -> Layer:
    """The layer of values by dotted keys. A memory system turns memory on, `off` turns it off."""
    if (system := values.get("memory.system")) is not None:
        values = {"memory.enabled": system != "off", **values}
        places = {"memory.enabled": places["memory.system"], **places}
    return {
        tuple(key.split(".")): ([*value] if isinstance(value, tuple) else value, places[key])
        for key, value in values.items()
        if (key, value) != ("memory.system", "off")
    }


def _report_unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """A sentence for each unknown `KODE_*`: perhaps a typo."""
    names = ["KODE_HOME", *ENVIRONMENT.values()]
    return [
        f"Unknown environment variable {name[:80]}. {_suggest_nearest(name, names)}"
        for name in sorted(environ)
        if name.startswith("KODE_") and name not in (*names, *OWN_MARKS)
    ]


def _suggest_nearest(word: str, words: Sequence[str]) -> str:
    import difflib

    near = difflib.get_close_matches(word, words, n=1, cutoff=0.7)
    return f"Did you mean {near[0]}?" if near else "docs/configuration.md has them all."


def _merge_layer(merged: Layer, layer: Layer) -> None:
    for keys, (value, place) in layer.items():
        before, origin = merged.get(keys, (None, ""))
        if ".".join(keys) in ADDED_UP and isinstance(before, list) and isinstance(value, list):
            value, place = [*before, *value], f"{origin} + {place}"
        merged[keys] = (value, place)


def _nest_settings(layer: Layer) -> dict[str, Any]:
    """Nests the settings as in a config file."""
    nested: dict[str, Any] = {}
    for keys, (value, _) in layer.items():
        section = nested
        for key in keys[:-1]:
            if not isinstance(section.get(key), dict):
                section[key] = {}
            section = section[key]
        if value != {} or keys[-1] not in section:
            section[keys[-1]] = value
    return nested


# ── what is wrong ────────────────────────────────────────────────────────────────────────────


def _validate(layer: Layer) -> Config:
    for keys, (value, place) in layer.items():
        if _HALF_CHARACTER.search(json.dumps(value, ensure_ascii=False)):
            fault = f"`{'.'.join(keys)}` holds half of a character. Write the full character."
            raise Faults({Setting(".".join(keys), place): fault})
    config: Config = _parse(Config, _nest_settings(layer), layer)
    return config


def _parse(cls: Any, values: Mapping[str, Any], layer: Layer, above: Keys = ()) -> Any:
    """Validates values as an instance of a dataclass, or of a plug-in's model. Raises: Faults."""
    from pydantic_core import ValidationError

    is_own = is_dataclass(cls)
    read = (
        partial(validator(cls).validate_json, extra="forbid") if is_own else cls.model_validate_json
    )
    try:
        # As JSON and strictly: "yes" is not a boolean, "90" and true are not numbers.
        return read(json.dumps(values), strict=True)
    except ValidationError as error:
        faults, names = {}, flatten(cls()) if is_own else cls.model_fields
        for fault in error.errors():
            steps = tuple(str(step) for step in fault["loc"] if step != "[key]")
            faults[_make_setting((*above, *steps), layer)] = _explain(names, above, steps, fault)
        raise Faults(faults) from None


def _make_setting(keys: Keys, layer: Layer) -> Setting:
    """A setting with the place of its value or, if it has none, of the nearest one that has."""
    for end in range(len(keys), 0, -1):
        for other, (_, place) in sorted(layer.items(), key=lambda it: len(it[0])):
            if other[:end] == keys[:end]:
                return Setting(".".join(keys), place)
    return Setting(".".join(keys), "config")


def _check_providers(config: Config, layer: Layer) -> None:
    """Raises: Faults for a provider that neither kode nor the config knows."""
    names = {("providers", name): name for name in config.providers}
    for keys, name in ({("provider",): config.provider} | names).items():
        try:
            row_of(config, name or COMPATIBLE)
        except ConfigError as error:
            raise Faults({_make_setting(keys, layer): f"`{'.'.join(keys)}`: {error}"}) from None


def plugin_settings(plugin: installed.Plugin, config: Config, layer: Layer | None = None) -> Any:
    """An instance of the plug-in's settings model; None if it has none.

    Raises: Faults that name the key and what is allowed.
    """
    section = config.plugins.get(plugin.name, {})
    values = {key: value for key, value in section.items() if key != "enabled"}
    model = installed.load_part(plugin, plugin.settings) if plugin.settings else Value
    settings = _parse(model, values, layer or {}, (installed.SECTION, plugin.name))
    return settings if plugin.settings else None


def _explain(names: Iterable[str], above: Keys, steps: Keys, fault: Mapping[str, Any]) -> str:
    """The fault of one value: a sentence with the value and what is allowed."""
    key = ".".join((*above, *steps))
    match fault["type"]:
        case "extra_forbidden" | "unexpected_keyword_argument":
            nearest = _suggest_nearest(f"`{key}`", [f"`{name}`" for name in names])
            return f"unknown key `{key}`. {nearest}"
        case "value_error":
            return f"in `{key}` {fault['ctx']['error']}."
        case "missing":
            return f"`{key}` is missing. Add it."
    value = _display_setting((*above, *steps), fault["input"])
    return f"`{key}` is {value}; it must be {describe_allowed(fault)}."


def _display_setting(keys: Keys, value: Any) -> str:
    is_of_others = keys[0] in ("providers", installed.SECTION)
    if keys[-1] == "api_key" or (is_of_others and keys[2:] not in (("api",), ("effort",))):
        return "a hidden value"
    return shorten(redact(json.dumps(value, ensure_ascii=False)), 100)
