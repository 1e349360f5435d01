"""`kode config`: shows each key's value and origin, secrets masked, checks and sets them; and `kode
permissions`: shows and changes the rules of a project, the person's saved approvals included."""

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from kode import paths
from kode.cli.flags import directory
from kode.cli.parser import Commands, Parser
from kode.cli.screen.lines import one_line
from kode.cli.screen.printer import CHANGES, Answered, CommandAnswer, change_rules, rule_rows
from kode.config.choice import is_url
from kode.config.load import Faults, Loaded, load_config, project_file, store_value
from kode.config.model import display_value, flatten
from kode.errors import EXIT_NOT_STARTED, ConfigError
from kode.messages import plural
from kode.values import asdict

FIRST_KEYS = tuple(
    "model provider effort base_url permissions.mode permissions.allow permissions.deny "
    "sandbox.enabled memory.system max_budget_usd".split()
)
"""The keys that people set most, in the order in which they are shown."""
RULE_KEYS = ("permissions.allow", "permissions.ask", "permissions.deny")


def _load_settings() -> Loaded:
    return load_config(paths.kode_home(), directory(), environ=os.environ, flags={})


def _show_paths(parser: Parser, argv: Sequence[str]) -> CommandAnswer:
    parser.parse(argv)
    project = project_file(directory()) or directory() / "kode.json"
    files = (paths.config_file(paths.kode_home()), project)
    return CommandAnswer(lines=[f"{it}{'' if it.exists() else '  (not there)'}" for it in files])


def _show_settings(parser: Parser, argv: Sequence[str]) -> CommandAnswer:
    """Shows all keys with `--all`; otherwise `FIRST_KEYS`, and those that are set."""
    parser.add_flags(("--all", "every key"), ("--json", "one JSON object, of every key"))
    arguments, loaded = parser.parse(argv), _load_settings()
    values = {key: display_value(key, value) for key, value in flatten(loaded.config).items()}
    whole = {key: {"value": value, "from": loaded.origins[key]} for key, value in values.items()}
    is_set = (key for key in values if loaded.origins[key] != "default")
    rows = []
    for key in values if arguments.all else dict.fromkeys((*FIRST_KEYS, *is_set)):
        text = one_line(json.dumps(values[key], ensure_ascii=False))
        origin = loaded.origins[key]
        rows.append((key, text if origin == "default" else f"{text}  ({origin})"))
    more = "" if arguments.all else " Every key: `kode config show --all`."
    return CommandAnswer(
        value=whole,
        as_json=arguments.json,
        rows=rows,
        lines=["", f"Values without a source are defaults.{more}"],
        faults=() if arguments.json else loaded.warnings,
    )


def _set_key(parser: Parser, argv: Sequence[str]) -> CommandAnswer:
    """Sets one key. Raises: ConfigError for an unknown key or a wrong value, writing nothing."""
    about = "its dotted name, as `config show --all` lists it"
    parser.add_argument("key", metavar="KEY", help=about)
    parser.add_argument("value", metavar="VALUE", help="JSON, or a text as it is; null for none")
    arguments = parser.parse(argv)
    key, value = arguments.key, arguments.value
    with contextlib.suppress(ValueError):
        value = json.loads(value)
    if (
        key in RULE_KEYS
        and isinstance(value, list)
        and (fault := next(_find_wrong_rules(key, value, "kode config set"), None))
    ):
        raise ConfigError(fault)
    try:
        path = store_value(key, value, "kode config set")
    except Faults:
        if isinstance(value, str):
            raise
        value = arguments.value  # a text may look like JSON: a model named 5
        path = store_value(key, value, "kode config set")
    loaded = _load_settings()
    place = paths.short_path(path)
    origin = loaded.origins.get(key, place)
    notes = [] if place in origin else [f"note: here {origin} decides."]
    saved = json.dumps(display_value(key, value), ensure_ascii=False)
    return CommandAnswer(lines=[f"{key} is {saved} in {place}.", *notes], faults=loaded.warnings)


def _check_settings(parser: Parser, argv: Sequence[str]) -> CommandAnswer:
    """Reports every fault. Exits 3 if kode cannot start with these settings."""
    parser.parse(argv)
    try:
        loaded = _load_settings()
    except ConfigError as error:
        return _report_faults(error.faults if isinstance(error, Faults) else [str(error)])
    faults = _find_wrong_urls(loaded)
    for key in RULE_KEYS:
        faults += _find_wrong_rules(key, flatten(loaded.config)[key], loaded.origins[key])
    notes = [f"note: {remark}" for remark in loaded.warnings]
    if faults:
        return _report_faults(faults, notes)
    names = ", ".join(map(str, loaded.files)) or "no config file, all defaults"
    return CommandAnswer(lines=[*notes, f"{names}: no errors"])


def _find_wrong_rules(key: str, rules: Iterable[object], where: str) -> Iterator[str]:
    from kode.permissions.rules import parse

    for rule in rules:
        try:
            parse(str(rule))
        except ConfigError as error:
            yield f"{where}: `{key}`: {error}"


def _find_wrong_urls(loaded: Loaded) -> list[str]:
    urls = {key: url for key, url in flatten(loaded.config).items() if key.endswith("base_url")}
    for name, part in loaded.config.providers.items():
        urls[f"providers.{name}.base_url"] = part.base_url
    return [
        f"{loaded.origins.get(key, loaded.origins['providers'])}: `{key}` is "
        f"{json.dumps(display_value(key, url))}; it must be an address like https://host/v1."
        for key, url in urls.items()
        if url is not None and not is_url(url)
    ]


def _report_faults(faults: Sequence[str], notes: Sequence[str] = ()) -> CommandAnswer:
    count = f"{plural(len(faults), 'fault')}: see docs/configuration.md for what is allowed"
    return CommandAnswer(lines=[*notes, *faults, count], exit_code=EXIT_NOT_STARTED)


COMMANDS: Commands = {
    "show": (_show_settings, "show what is set, with its layer (--all: every key; --json)"),
    "path": (_show_paths, "show the config files of this directory"),
    "check": (_check_settings, "check the config files"),
    "set": (_set_key, "set a key in your own config file: KEY VALUE"),
}


def main(argv: Sequence[str]) -> Answered:
    """Answers `kode config ...`. Raises: ConfigError."""
    return Parser.run_group("config", COMMANDS, argv)


def _list_permissions(parser: Parser, argv: Sequence[str]) -> CommandAnswer:
    from kode.permissions import approvals  # slow, and `config show` does not need it
    from kode.permissions.rules import Rules, parse_all

    parser.add_argument("--json", action="store_true", help="one JSON list")
    arguments, loaded = parser.parse(argv), _load_settings()
    rows = loaded.config.permissions
    rules = Rules(deny=parse_all(rows.deny), ask=parse_all(rows.ask), allow=parse_all(rows.allow))
    saved, problem = approvals.load_approvals(paths.kode_home(), paths.project_root(directory()))
    standing = (*approvals.find_standing(rules), *saved)
    return CommandAnswer(
        value=[{**asdict(it), "rule": str(it.rule), "id": it.id} for it in standing],
        as_json=arguments.json,
        rows=rule_rows(standing, loaded.origins),
        empty="No rules or saved approvals in this project.",
        faults=[problem] if problem else (),
    )


def _change_permissions(parser: Parser, argv: Sequence[str]) -> str:
    from kode.permissions import approvals

    parser.add_argument("ids", metavar="ID", nargs="+")
    home, project = paths.kode_home(), paths.project_root(directory())
    return change_rules(
        "kode permissions",
        [parser.prog.split()[-1], *parser.parse(argv).ids],
        lambda **wish: approvals.change(home, project, partial(approvals.change_named, **wish)),
    )


PERMISSIONS: Commands = {
    "list": (_list_permissions, "list rules and answers, with where each is from (--json)"),
    **{name: (_change_permissions, about) for name, (_, about) in CHANGES.items()},
}


def run_permissions(argv: Sequence[str]) -> Answered:
    """Answers `kode permissions ...`. Raises: ConfigError, StorageError, BusyError."""
    return Parser.run_group("permissions", PERMISSIONS, argv or ["list"])
