"""`kode config`: the effective value and origin of every key, secrets masked; and `kode
permissions`: the rules that apply in a project, the person's lasting answers among them."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

from kode import paths
from kode.cli.flags import directory
from kode.cli.parser import Parser
from kode.cli.screen.describe import CHANGES, change_rules, rule_rows
from kode.cli.screen.lines import one_line
from kode.cli.screen.printer import Answer, Answered
from kode.config.choice import is_url
from kode.config.files import read_document, write_document
from kode.config.load import Faults, Loaded, load_config, project_file, with_value
from kode.config.model import display_value, flat
from kode.errors import EXIT_NOT_STARTED, ConfigError
from kode.messages import plural
from kode.permissions import approvals
from kode.permissions.rules import Rules, never_matches, parse, parse_all

COMMANDS = {
    "show": "show what is set, with its layer (--all: every key; --json)",
    "path": "show the config files of this directory",
    "check": "check the config files",
    "set": "set a key in your own config file: KEY VALUE",
}
FIRST_KEYS = tuple(
    "model provider effort base_url permissions.mode permissions.allow permissions.deny "
    "sandbox.enabled memory.system max_budget_usd".split()
)
"""The keys that people set most, in the order in which they are shown."""


def main(argv: Sequence[str]) -> Answer:
    """Answers `kode config ...`. Raises: ConfigError."""
    command, parser, rest = Parser.of_group("config", COMMANDS, argv)
    if command == "show":
        parser.add_argument("--all", action="store_true", help="every key")
        parser.add_argument("--json", action="store_true", help="one JSON object, of every key")
    if command == "set":
        about = "its dotted name, as `config show --all` lists it"
        parser.add_argument("key", metavar="KEY", help=about)
        about = "JSON, or a text as it is; null for none"
        parser.add_argument("value", metavar="VALUE", help=about)
    arguments = parser.parse(rest)
    match command:
        case "set":
            return _set(arguments.key, arguments.value)
        case "path":
            return _path()
        case "check":
            return _check()
    return _show(_load(), every=arguments.all, as_json=arguments.json)


def _load() -> Loaded:
    return load_config(paths.home(), directory(), environ=os.environ, flags={})


def _path() -> Answer:
    folder = directory()
    home_file, project = paths.config_file(paths.home()), project_file(folder)
    missing = folder / "kode.json"
    second = str(project) if project else f"{missing}  (not there)"
    return Answer(lines=[f"{home_file}{'' if home_file.exists() else '  (not there)'}", second])


def _show(loaded: Loaded, *, every: bool, as_json: bool) -> Answer:
    """Without `every` only the first keys, and those that are set."""
    values = {key: display_value(key, value) for key, value in flat(loaded.config).items()}
    whole = {key: {"value": value, "from": loaded.origins[key]} for key, value in values.items()}
    is_set = (key for key in values if loaded.origins[key] != "default")
    rows = []
    for key in values if every else dict.fromkeys((*FIRST_KEYS, *is_set)):
        text = one_line(json.dumps(values[key], ensure_ascii=False))
        origin = loaded.origins[key]
        rows.append((key, text if origin == "default" else f"{text}  ({origin})"))
    more = "" if every else " Every key: `kode config show --all`."
    return Answer(
        value=whole,
        as_json=as_json,
        rows=rows,
        lines=["", f"Values without a source are defaults.{more}"],
        faults=() if as_json else loaded.warnings,
    )


def _set(key: str, text: str) -> Answer:
    """Raises: ConfigError for a key or a value that is none: nothing is written then."""
    path = paths.config_file(paths.home())
    document = read_document(path)
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    try:
        document = with_value(document, key, value, "kode config set")
    except Faults:
        if isinstance(value, str):
            raise
        # A model may be named 5.
        value, document = text, with_value(document, key, text, "kode config set")
    write_document(path, document)
    loaded = _load()
    origin = loaded.origins.get(key, str(path))
    notes = [] if str(path) in origin else [f"note: here {origin} decides."]
    saved = json.dumps(display_value(key, value), ensure_ascii=False)
    return Answer(lines=[f"{key} is {saved} in {path}.", *notes], faults=loaded.warnings)


def _check() -> Answer:
    """Reports every fault. Exits 3 if kode cannot start with these settings."""
    try:
        loaded = _load()
    except ConfigError as error:
        return _faulty(error.faults if isinstance(error, Faults) else [str(error)])
    faults, remarks = _wrong_urls(loaded), list(loaded.warnings)
    for key in ("permissions.allow", "permissions.ask", "permissions.deny"):
        for text in flat(loaded.config)[key]:
            try:
                why = never_matches(parse(text))
            except ConfigError as error:
                faults.append(f"{loaded.origins[key]}: `{key}`: {error}")
                continue
            if why:
                remarks.append(f"{loaded.origins[key]}: the rule {text!r} can never match: {why}.")
    notes = [f"note: {remark}" for remark in remarks]
    if faults:
        return _faulty(faults, notes)
    names = ", ".join(map(str, loaded.files)) or "no config file, all defaults"
    return Answer(lines=[*notes, f"{names}: no errors"])


def _wrong_urls(loaded: Loaded) -> list[str]:
    values = flat(loaded.config)
    urls = {key: values[key] for key in ("base_url", "memory.embedding.base_url")}
    for name, part in loaded.config.providers.items():
        urls[f"providers.{name}.base_url"] = part.base_url
    return [
        f"{loaded.origins.get(key, loaded.origins['providers'])}: `{key}` is "
        f"{json.dumps(display_value(key, url))}; it must be an address like https://host/v1."
        for key, url in urls.items()
        if url is not None and not is_url(url)
    ]


def _faulty(faults: Sequence[str], notes: Sequence[str] = ()) -> Answer:
    count = f"{plural(len(faults), 'fault')}: see docs/configuration.md for what is allowed"
    return Answer(lines=[*notes, *faults, count], exit_code=EXIT_NOT_STARTED)


def run_permissions(argv: Sequence[str]) -> Answered:
    """Runs `kode permissions ...`. Raises: ConfigError, StorageError, BusyError."""
    parser = Parser("kode permissions", "The rules that count here, and your lasting answers.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    about = "list rules and answers, with where each is from (--json: one list)"
    listed = commands.add_parser("list", help=about, description=about)
    listed.add_argument("--json", action="store_true", help="one JSON list")
    for name, (_, about) in CHANGES.items():
        below = commands.add_parser(name, help=about, description=about)
        below.add_argument("ids", metavar="ID", nargs="+")
    arguments = parser.parse(argv or ["list"])
    cwd = directory()
    home, project = paths.home(), paths.project_root(cwd)
    if arguments.command != "list":
        return change_rules(
            "kode permissions",
            [arguments.command, *arguments.ids],
            lambda **wish: approvals.change(home, project, partial(approvals.change_named, **wish)),
        )
    loaded = _load()
    given = loaded.config.permissions
    rules = Rules(
        deny=parse_all(given.deny), ask=parse_all(given.ask), allow=parse_all(given.allow)
    )
    saved, problem = approvals.load(home, project)
    standing = (*approvals.find_standing(rules), *saved)
    return Answer(
        value=[{**asdict(it), "rule": str(it.rule), "id": it.id} for it in standing],
        as_json=arguments.json,
        rows=rule_rows(standing, loaded.origins),
        empty="No rules, and no lasting answers in this project.",
        faults=[problem] if problem else (),
    )
