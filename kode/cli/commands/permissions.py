"""`kode permissions`: the rules that count in this project, and your lasting answers."""

import os
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

from kode import paths
from kode.cli.flags import directory
from kode.cli.parser import Parser
from kode.cli.screen.describe import CHANGES, change_rules, rule_rows
from kode.cli.screen.printer import Answer, Answered
from kode.config.load import load_config
from kode.permissions import approvals
from kode.permissions.rules import Rules, parse_all


def main(argv: Sequence[str]) -> Answered:
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
    loaded = load_config(home, cwd, environ=os.environ, flags={})
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
