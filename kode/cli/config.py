"""`kode config`: the effective value of every key and where it came from, secrets masked."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kode import paths
from kode.cli.main import Parser, nearest
from kode.config import Loaded, ProviderPart, flat, load_config, masked, project_file
from kode.errors import EXIT_OK, ConfigError

ACTIONS = ("show", "path", "check")


def main(argv: Sequence[str]) -> int:
    """Runs `kode config ...` and returns its exit code. Raises: ConfigError."""
    action, *rest = argv or ["--help"]
    if action in ("-h", "--help"):
        print(
            "usage: kode config show [--json]   every key, its value, where it came from\n"
            "       kode config path            the config files of this directory\n"
            "       kode config check           what is wrong with them"
        )
        return EXIT_OK
    if action not in ACTIONS:
        raise ConfigError(
            f"kode config: unknown action {action!r}.{nearest(action, ACTIONS)} "
            f"The actions are: {', '.join(ACTIONS)}."
        )
    parser = Parser(f"kode config {action}", "Settings and where they came from.")
    if action == "show":
        parser.add_argument("--json", action="store_true", help="one JSON object")
    arguments = parser.parse(rest)
    if action == "path":
        return _path()
    loaded = load_config(paths.home(), Path.cwd(), environ=os.environ, flags={})
    if action == "check":
        return _check(loaded)
    return _show(loaded, as_json=arguments.json)


def _path() -> int:
    own, project = paths.config_file(paths.home()), project_file(Path.cwd())
    print(f"{own}{'' if own.exists() else '  (not there)'}")
    print(project if project else f"{Path.cwd() / 'kode.json'}  (not there)")
    return EXIT_OK


def _show(loaded: Loaded, *, as_json: bool) -> int:
    values = {key: _shown(key, value) for key, value in flat(loaded.config).items()}
    if as_json:
        print(
            json.dumps(
                {key: {"value": v, "from": loaded.origins[key]} for key, v in values.items()},
                ensure_ascii=False,
            )
        )
        return EXIT_OK
    width = max(map(len, values))
    for key, value in values.items():
        print(f"{key:<{width}}  {json.dumps(value, ensure_ascii=False)}  ({loaded.origins[key]})")
    for warning in loaded.warnings:
        print(f"! {warning}")
    return EXIT_OK


def _check(loaded: Loaded) -> int:
    """The files could be read and every value is allowed, or `load_config` had raised."""
    from kode.permissions.rules import never_matches, parse

    faults = list(loaded.warnings)
    permissions = loaded.config.permissions
    for text in (*permissions.allow, *permissions.ask, *permissions.deny):
        why = never_matches(parse(text))
        if why:
            faults.append(f"The rule {text!r} can never match: {why}")
    for fault in faults:
        print(f"! {fault}")
    names = ", ".join(map(str, loaded.files)) or "no config file, all defaults"
    print(f"{names}: {'see above' if faults else 'no faults'}")
    return EXIT_OK


def _shown(key: str, value: Any) -> Any:
    """A value as it may be shown."""
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, dict):
        return {name: _shown(f"{key}.{name}", item) for name, item in value.items()}
    if isinstance(value, ProviderPart) or hasattr(value, "model_dump"):
        return {name: _shown(name, item) for name, item in value.model_dump().items()}
    if key.endswith("api_key") and isinstance(value, str):
        return masked(value)
    return value
