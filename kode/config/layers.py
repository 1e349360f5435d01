"""Merges settings from all their sources, and records the origin of each.

Layers, later wins: defaults < `$KODE_HOME/config.json` < `./kode.json` (found upward to the
repository root) < `KODE_*` environment < flags. A project file may not set what would let a
repository take over its reader (`ALLOWED_IN_PROJECT`). Every error names place, key, value, and
what is allowed.
"""

import copy
import json
import os
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from kode import installed, paths
from kode.config.choice import row_of
from kode.config.files import Layer, expand_variables, guard_home, read_layer
from kode.config.foreign import ForeignSettings, find_foreign, read_named_settings
from kode.config.model import Config, Price, ProviderPart, flat, must_be
from kode.credentials import redact
from kode.errors import ConfigError, KodeError, PluginError, Setting
from kode.paths import real_path
from kode.permissions.modes import MODE_CALLED

ALLOWED_IN_PROJECT = frozenset(
    "model profile agents_files diagnostics permissions.ask permissions.deny".split()
)
"""Everything that a repository's own file may decide for whoever opens it, besides stricter values.
Not where requests and keys go, what runs without asking, what is spent, stored or remembered: a new
key in `Config` is not a project's until it is listed here."""

LIMITS = frozenset(
    """
    max_steps timeout_s
    subagent.max_concurrency subagent.timeout_s subagent.max_steps subagent.max_depth
    """.split()
)
"""Keys that a project may only set lower than the person's value."""

OF_EXTENSIONS = ("mcpServers", "hooks")
"""Sections of the person's config file that are not settings: `kode.extensions` reads them. Of a
project's file only the first, once a person has approved it."""

OTHER_SPELLINGS = {("memory", "dataDir"): "data_dir"}
"""Section and name of a key as it is known from elsewhere → kode's name."""

_NOTHING = object()

STRICTNESS = ("full", "auto-edit", "ask", "plan")
"""Permission modes, loosest first."""

ADDED_UP = ("permissions.allow", "permissions.ask", "permissions.deny")
"""Lists that are concatenated over all layers."""

SETTINGS = "settings"
"""Of the flags: settings of another agent, a file or JSON."""

ENVIRONMENT = {
    "KODE_PROVIDER": "provider",
    "KODE_MODEL": "model",
    "KODE_BASE_URL": "base_url",
    "KODE_API_KEY": "api_key",
    "KODE_MAX_STEPS": "max_steps",
    "KODE_PERMISSION_MODE": "permissions.mode",
    "KODE_MEMORY": "memory.system",
    "KODE_NOTES_URL": "memory.notes.url",
    "KODE_NOTES_TEAM": "memory.notes.team",
}

HOME_VARIABLE = "KODE_HOME"
OWN_MARKS = (
    "KODE_BASH_ENV",
    "KODE_DEPTH",
    "KODE_PLUGIN_FILES",
    "KODE_PROJECT_DIR",
    "KODE_SHELL_ID",
)
"""What kode sets for the processes it starts; no person does."""

MEMORY_OFF = ("off", "none")
"""Values of KODE_MEMORY and --memory that turn memory off."""

FLAGS = {
    "timeout_s": "--timeout",
    "permissions.mode": "--permission-mode",
    "permissions.allow": "--allow",
    "permissions.deny": "--deny",
    "memory.system": "--memory",
    "memory.enabled": "--no-memory",
    "agents_files": "--no-agents",
    "repl.plain": "--plain",
    "add_dirs": "--add-dir",
    "sandbox.enabled": "--sandbox",
}
"""Flags that are not named like their key."""

MAPPINGS: Mapping[str, type[BaseModel]] = {"providers": ProviderPart, "prices": Price}
"""Sections whose keys are names → the type of their values."""

SHOWN_CHARS = 100  # a fault fits in a line or two


@dataclass(frozen=True, kw_only=True)
class Loaded:
    config: Config
    origins: Mapping[str, str]
    """Dotted key → the origin of its value: `default`, `FILE:LINE`, a variable, a flag."""
    warnings: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    """The config files that were read."""
    foreign: tuple[ForeignSettings, ...] = ()
    """Settings files of other agents that were found."""


class Faults(ConfigError):
    """Faults in the settings. Its message is the first; `faults` has them all."""

    def __init__(self, faults: list[tuple[Setting, str]]) -> None:
        self.setting = faults[0][0]
        self.faults = tuple(f"{setting.source}: {fault}" for setting, fault in faults)

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
    """The effective settings in `cwd`. `flags` are dotted keys, and `SETTINGS`; `flags_of` names
    their origin in errors, None: the command line.

    Raises: ConfigError (`Faults` if there are several) that names file, line, key, value and what
        is allowed.
    """
    merged: dict[str, Any] = {}
    places: dict[str, str] = {}
    warnings: list[str] = []
    files: list[Path] = []

    def add(layer: Layer) -> None:
        for key, place in layer.places.items():
            both = key in ADDED_UP and key in places
            places[key] = f"{places[key]} + {place}" if both else place
        _merge(merged, layer.values)

    warnings += filter(None, [guard_home(home)])
    own = paths.config_file(home)
    layer = _settings_in(own, OF_EXTENSIONS)
    if layer is not None:
        add(expand_variables(layer, environ, own))
        files.append(own)
    path = project_file(cwd)
    layer = _settings_in(path, OF_EXTENSIONS[:1]) if path is not None else None
    if layer is not None and path is not None:
        layer, ignored = _allowed(layer, merged)
        if ignored:
            warnings.append(
                f"Ignored in {path}, since a project may not set it: {', '.join(ignored)}. "
                f"If you want it, set it in {own}."
            )
        add(expand_variables(layer, None, path))
        files.append(path)
    named, flags = flags.get(SETTINGS), {key: flags[key] for key in flags if key != SETTINGS}
    foreign = (*((read_named_settings(named, cwd),) if named else ()), *find_foreign(cwd))
    for one in foreign:
        add(_stricter(one))
    add(_environment_layer(environ))
    warnings += _unknown_variables(environ)
    add(_flag_layer(flags, flags_of))
    config = _validate(merged, places)
    _check_providers(config, places)
    _check_plugins(config, places)
    origins = {**places, **{key: places.get(key, "default") for key in flat(config)}}
    return Loaded(
        config=config,
        origins=origins,
        warnings=tuple(warnings),
        files=tuple(files),
        foreign=foreign,
    )


def with_value(document: Mapping[str, Any], key: str, value: Any, place: str) -> dict[str, Any]:
    """A config file's document with one more key, dotted. `place` is named in errors.

    Raises: ConfigError (`Faults`) for a key or a value that is none.
    """
    asked = _respell(Layer(values=_nest({key: value}), places={key: place}))
    _validate(asked.values, asked.places)
    changed: dict[str, Any] = copy.deepcopy(dict(document))
    *sections, name = key.split(".")
    section: Any = changed
    for part in sections:
        section = section.setdefault(part, {})
        if not isinstance(section, dict):
            raise ConfigError(f"{place}: `{part}` in the file must be a section: {{...}}. Fix it.")
    section[name] = value
    _respell(Layer(values=changed, places={}))
    return changed


def locate(error: BaseException, origins: Mapping[str, str]) -> None:
    """Completes an error whose raiser did not know what set its setting."""
    if isinstance(error, KodeError) and (setting := error.setting) is not None:
        error.setting = replace(setting, source=origins.get(setting.key, setting.source))


def project_file(cwd: Path) -> Path | None:
    """`kode.json` in `cwd` or a parent folder, up to the repository root; None if there is none.
    Outside a repository only `cwd` itself counts."""
    root = paths.repository_root(cwd)
    folder = Path(real_path(cwd))
    while True:
        if os.path.lexists(folder / "kode.json"):
            return folder / "kode.json"
        if root is None or folder in (root, folder.parent):
            return None
        folder = folder.parent


# ── the layers ───────────────────────────────────────────────────────────────────────────────


def _settings_in(path: Path, others: tuple[str, ...]) -> Layer | None:
    """The settings of a file, without the sections in `others`."""
    layer = read_layer(path)
    if layer is None:
        return None
    settings = {key: part for key, part in layer.values.items() if key not in others}
    return _respell(replace(layer, values=settings))


def _stricter(foreign: ForeignSettings) -> Layer:
    """What another agent's settings deny or ask about."""
    kinds = {"deny": foreign.deny, "ask": foreign.ask}
    rules = {kind: list(given) for kind, given in kinds.items() if given}
    return Layer(
        values={"permissions": rules} if rules else {},
        places={f"permissions.{kind}": str(foreign.path) for kind in rules},
    )


def _respell(layer: Layer) -> Layer:
    """Translates `OTHER_SPELLINGS` to kode's names. Raises: ConfigError for both spellings of a
    key."""
    values, places = dict(layer.values), dict(layer.places)
    for (section, name), own in OTHER_SPELLINGS.items():
        other, key, part = f"{section}.{name}", f"{section}.{own}", values.get(section)
        if not isinstance(part, dict) or name not in part:
            continue
        if own in part:
            place = places.get(other, "config")
            raise ConfigError(f"{place}: `{other}` is another spelling of `{key}`. Keep one.")
        values[section] = {own if at == name else at: value for at, value in part.items()}
        places = {key if at == other else at: place for at, place in places.items()}
    return Layer(values=values, places=places)


def _allowed(layer: Layer, own: Mapping[str, Any]) -> tuple[Layer, list[str]]:
    """The allowed settings of a project file, given the person's `own`, and the refused keys.
    Unknown keys stay: they are faults."""
    values = copy.deepcopy(dict(layer.values))
    defaults = {**flat(Config()), "hooks": None}
    ignored = []
    for key, default in defaults.items():
        asked = _at(key, values, _NOTHING)
        if asked is not _NOTHING and not _may_set(key, asked, _at(key, own, default)):
            section, _, name = key.rpartition(".")
            del (_at(section, values, None) if section else values)[name]
            ignored.append(key)
    places = {
        key: place
        for key, place in layer.places.items()
        if not any(key == name or key.startswith(f"{name}.") for name in ignored)
    }
    return Layer(values=values, places=places), ignored


def _may_set(key: str, asked: Any, own: Any) -> bool:
    """Whether a project may set a key to this, given the person's `own` value."""
    if key == "permissions.mode":
        mode, limit = (MODE_CALLED.get(str(value)) for value in (asked, own))
        limit = limit or Config().permissions.mode
        return mode is not None and STRICTNESS.index(mode) >= STRICTNESS.index(limit)
    if key in LIMITS:
        has_both = isinstance(asked, int | float) and isinstance(own, int | float)
        return asked <= own if has_both else asked is not None  # anything but a number is a fault
    return key in ALLOWED_IN_PROJECT


def _at(key: str, values: Any, otherwise: Any) -> Any:
    for name in key.split("."):
        if not isinstance(values, dict) or name not in values:
            return otherwise
        values = values[name]
    return values


def _environment_layer(environ: Mapping[str, str]) -> Layer:
    given: dict[str, Any] = {}
    places: dict[str, str] = {}
    for variable, key in ENVIRONMENT.items():
        if value := environ.get(variable, "").strip():
            is_whole = key == "max_steps" and re.fullmatch(r"-?[0-9]{1,18}", value)
            given[key] = int(value) if is_whole else value
            places[key] = variable
    return _choosing_memory(given, places)


def _unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """A sentence for each unknown `KODE_*`: perhaps a typo."""
    known = [variable.removeprefix("KODE_") for variable in (*ENVIRONMENT, HOME_VARIABLE)]
    ignored = []
    for name in sorted(environ):
        rest = name.removeprefix("KODE_")
        if rest == name or rest in known or name in OWN_MARKS:
            continue
        import difflib

        near = difflib.get_close_matches(rest, known, n=1, cutoff=0.5)
        allowed = ", ".join(f"KODE_{variable}" for variable in known)
        hint = f"Did you mean KODE_{near[0]}?" if near else f"Known are {allowed}."
        ignored.append(f"Unknown environment variable {name[:80]}. {hint}")
    return ignored


def _flag_layer(flags: Mapping[str, Any], flags_of: str | None) -> Layer:
    places = {key: flags_of or FLAGS.get(key, "--" + key.replace("_", "-")) for key in flags}
    return _choosing_memory(dict(flags), places)


def _choosing_memory(given: dict[str, Any], places: dict[str, str]) -> Layer:
    """Naming a memory system turns memory on; `off` names none."""
    system = given.get("memory.system")
    if system is not None and "memory.enabled" not in given:
        given["memory.enabled"] = system not in MEMORY_OFF
        places["memory.enabled"] = places["memory.system"]
    if system in MEMORY_OFF:
        del given["memory.system"], places["memory.system"]
    return Layer(values=_nest(given), places=places)


def _nest(flat_values: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for key, value in flat_values.items():
        holder = nested
        *sections, name = key.split(".")
        for section in sections:
            holder = holder.setdefault(section, {})
        holder[name] = list(value) if isinstance(value, tuple) else value
    return nested


def _merge(into: dict[str, Any], values: Mapping[str, Any], prefix: str = "") -> None:
    for key, value in values.items():
        name = prefix + key
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value, f"{name}.")
        elif name in ADDED_UP and isinstance(value, list) and isinstance(into.get(key), list):
            into[key] = [*into[key], *value]
        else:
            into[key] = copy.deepcopy(value)


# ── what is wrong ────────────────────────────────────────────────────────────────────────────


def _validate(merged: Mapping[str, Any], places: Mapping[str, str]) -> Config:
    try:
        # As JSON and strictly: "yes" is not a boolean, "90" and true are not numbers.
        return Config.model_validate_json(json.dumps(merged), strict=True)
    except ValidationError as error:
        faults = defaultdict(list)
        for fault in error.errors():
            faults[_steps(fault["loc"], merged)].append(fault)
        raise Faults([_explain(list(at), faults[at], places) for at in faults]) from None


def _check_providers(config: Config, places: Mapping[str, str]) -> None:
    """Raises: Faults for a provider that neither kode nor the config knows."""
    faults = []
    for name in dict.fromkeys((*config.providers, *filter(None, (config.provider,)))):
        try:
            row_of(config, name)
        except ConfigError as error:
            key = f"providers.{name}" if name in config.providers else "provider"
            place = next((at for at in (key, "providers", "provider") if at in places), "config")
            faults.append((Setting(key, places.get(place, place)), f"`{key}`: {error}"))
    if faults:
        raise Faults(faults)


def _check_plugins(config: Config, places: Mapping[str, str]) -> None:
    """Raises: ConfigError for settings that a plug-in's model refuses. Those of a plug-in that is
    off or not installed are nobody's."""
    for plugin in installed.plugins() if config.plugins else ():
        try:
            settings_of(plugin, config.plugins.get(plugin.name, {}))
        except PluginError:
            continue  # no fault of the config: whoever uses the plug-in names it
        except ConfigError as error:
            key = f"{installed.SECTION}.{plugin.name}"
            raise Faults([(Setting(key, places.get(key, "config")), str(error))]) from None


def settings_of(plugin: installed.Plugin, section: Mapping[str, Any]) -> Any:
    """An instance of the plug-in's settings model; None if it has none.

    Raises: ConfigError that names the key and what is allowed.
    """
    given = {key: value for key, value in section.items() if key != "enabled"}
    prefix = f"{installed.SECTION}.{plugin.name}"
    if not plugin.settings:
        if given:
            raise ConfigError(
                f"`{prefix}.{next(iter(given))}`: the plug-in has no settings. Remove the key."
            )
        return None
    model = installed.load(plugin, plugin.settings)
    try:
        return model.model_validate_json(json.dumps(given), strict=True)
    except ValidationError as error:
        fault = error.errors()[0]
        key = ".".join((prefix, *map(str, fault["loc"])))
        if fault["type"] == "extra_forbidden":
            allowed = ", ".join(model.model_fields) or "none"
            raise ConfigError(f"There is no key `{key}`. Allowed: {allowed}.") from None
        if fault["type"] == "missing":
            raise ConfigError(f"`{key}` is missing. Add it to your config.") from None
        raise ConfigError(f"`{key}` must be {must_be([fault])}.") from None


def _steps(loc: Sequence[int | str], merged: Mapping[str, Any]) -> tuple[str, ...]:
    """The path of a value that is wrong. Of a value that may be of several kinds, pydantic reports
    each kind as a step of its own below it."""
    steps: list[str] = []
    value: Any = merged
    for step in loc:
        if step == "[key]" or not isinstance(value, dict | list):
            break
        steps.append(str(step))
        value = value.get(step) if isinstance(value, dict) else value[int(step)]
    return tuple(steps)


def _explain(
    steps: list[str], faults: Sequence[Mapping[str, Any]], places: Mapping[str, str]
) -> tuple[Setting, str]:
    """The fault of one value: its key and place, and a sentence with the value and what is allowed.
    There are several for a value that may be of several kinds and is of none."""
    fault = faults[0]
    key = ".".join(steps)
    named = (".".join(steps[:end]) for end in range(len(steps), 0, -1))
    setting = Setting(key, next((places[known] for known in named if known in places), "config"))
    if fault["type"] == "extra_forbidden":
        allowed_keys = _keys_beside(steps)
        import difflib

        near = difflib.get_close_matches(steps[-1], allowed_keys, n=1, cutoff=0.5)
        hint = f"Did you mean `{near[0]}`?" if near else f"Allowed: {', '.join(allowed_keys)}."
        return setting, f"there is no key `{key}`. {hint}"
    if fault["type"] == "value_error":
        return setting, f"in `{key}` {fault['ctx']['error']}."
    if fault["type"] == "missing":
        return setting, f"`{key}` is missing. Add it."
    return setting, f"`{key}` is {_found(steps, fault['input'])}; it must be {must_be(faults)}."


def _found(steps: list[str], value: Any) -> str:
    is_plain = len(steps) == 3 and steps[2] in ("api", "effort", "model")
    if steps[-1:] == ["api_key"] or (steps[:1] == ["providers"] and not is_plain):
        return "a hidden value"
    text = redact(json.dumps(value, ensure_ascii=False))
    return text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 1] + "…"


def _keys_beside(steps: list[str]) -> list[str]:
    """The keys of the section that the last step belongs to."""
    part: type[BaseModel] = Config
    for step in steps[:-1]:
        if step in MAPPINGS:
            part = MAPPINGS[step]
        elif step in part.model_fields:
            annotation = part.model_fields[step].annotation
            part = annotation if isinstance(annotation, type) else part
    return list(part.model_fields)
