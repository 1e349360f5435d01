"""`kode extensions trust`: what of this repository is approved, changed since, or waiting."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kode import paths
from kode.cli.flags import directory
from kode.cli.parser import Parser
from kode.cli.screen.lines import public
from kode.cli.screen.printer import Answer, Answered, complain
from kode.cli.screen.question import make_ask
from kode.errors import EXIT_FAILED, EXIT_OK, ConfigError
from kode.extensions import review, trust
from kode.extensions.trust import Approvals, Approved, Item
from kode.permissions.question import visible
from kode.plain_text import clean


def main(argv: Sequence[str], verb: Sequence[str] = ()) -> Answered:
    """Runs `kode extensions trust ...`; `kode extensions approve` and `revoke` name their `verb`.
    Raises: ConfigError, StorageError, BusyError."""
    arguments = _parser().parse([*verb, *argv] or ["list"])
    cwd, home = directory(), paths.home()
    approvals = trust.load(home, paths.project_root(cwd))
    complain([approvals.problem])
    items = (*review.find_items(home, cwd), *review.foreign_items(home, cwd, "home"))
    if arguments.command == "list":
        return _list(items, approvals, as_json=arguments.json)
    if arguments.command == "revoke":
        return _revoke(arguments.name, approvals, home)
    matches = [item for item in items if arguments.name in (None, item.name)]
    if arguments.name and not matches:
        raise ConfigError(
            f"There is nothing called {arguments.name!r} here: see `kode extensions trust`."
        )
    if arguments.command == "show":
        shown = [public(review.shown(item, approvals, lines=sys.maxsize)) for item in matches]
        return Answer(lines=shown)
    return _approve(arguments, matches, approvals, home)


def _parser() -> Parser:
    parser = Parser("kode extensions trust", "What you approved of this repository.")
    below = parser.add_subparsers(dest="command", metavar="COMMAND")

    def add(name: str, about: str) -> argparse.ArgumentParser:
        return below.add_parser(name, help=about, description=about)

    listed = add("list", "list approved, changed and new items; --json: one list")
    listed.add_argument("--json", action="store_true", help="one JSON list")
    add("show", "show one item in full, or what changed in it").add_argument("name", metavar="ITEM")
    approve = add("approve", "approve one item, or all that are pending")
    approve.add_argument("name", metavar="ITEM", nargs="?")
    approve.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    about = "servers and hooks may run without a sandbox; a hook named as ITEM does"
    approve.add_argument("--outside", action="store_true", help=about)
    about = "the hook ITEM may use the network"
    approve.add_argument("--network", action="store_true", help=about)
    about = "the hook ITEM may write in this folder (repeatable)"
    approve.add_argument("--write", metavar="FOLDER", action="append", default=[], help=about)
    add("revoke", "withdraw an approval").add_argument("name", metavar="ITEM")
    return parser


def _list(items: Sequence[Item], approvals: Approvals, *, as_json: bool) -> Answer:
    rows = [
        _row(item, item.scope, trust.state(item, approvals), trust.digest(item))
        | {"may": list(trust.given_to(item, approvals))}
        for item in items
    ]
    listed = {(row["kind"], row["name"], row["origin"]) for row in rows}
    rows += [
        _row(item, "project", "approved" if item.kind in trust.NOT_FOUND else "gone", item.digest)
        for item in approvals.items
        if (item.kind, item.name, item.origin) not in listed
    ]
    names = ("state", "kind", "name", "hash", "origin")
    return Answer(
        value=rows,
        as_json=as_json,
        rows=[[*(public(row[n]) for n in names), public(", ".join(row["may"]))] for row in rows],
        empty="This project has nothing that needs approval.",
    )


def _row(item: Item | Approved, scope: str, state: str, digest: str) -> dict[str, Any]:
    place = {"scope": scope, "state": state, "origin": str(item.origin)}
    return {"kind": item.kind, "name": item.name, **place, "hash": digest, "may": []}


def _approve(
    arguments: argparse.Namespace, items: Sequence[Item], approvals: Approvals, home: Path
) -> Answered:
    grants = _grants(arguments, items, home, approvals.project)
    wanted = [*items]
    if arguments.outside:
        wanted += [trust.outside(item) for item in items if item.kind in ("mcp", "hook")]
    pending = [
        item
        for item in wanted
        if trust.state(item, approvals) != "trusted" or (grants and item.kind == "hook")
    ]
    if not pending:
        return "Nothing is pending."
    if grants:
        print(clean(f"It would have besides: {', '.join(grants)}"))
    asks = approve_shown(pending, approvals, home, unasked=arguments.yes, grants=grants)
    return EXIT_OK if asyncio.run(asks) else EXIT_FAILED


def _grants(
    arguments: argparse.Namespace, items: Sequence[Item], home: Path, project: Path
) -> list[str]:
    """What a hook may do besides, as `trust.Approved` keeps it. Raises: ConfigError."""
    if not arguments.name or any(item.kind != "hook" for item in items):
        if arguments.network or arguments.write:
            raise ConfigError("--network and --write are for one hook: name it as ITEM.")
        return []
    folders = [Path(paths.real_path(paths.expand(name))) for name in arguments.write]
    for folder in folders:
        if not folder.is_dir() or not trust.may_write_in(folder, home, project):
            raise ConfigError(
                f"--write {folder}: it must be an existing folder, and neither your home, kode's "
                "own, nor one around them or the project."
            )
    grants = {trust.NETWORK: arguments.network, trust.OUTSIDE: arguments.outside}
    return [*(grant for grant, is_wanted in grants.items() if is_wanted), *map(str, folders)]


async def approve_shown(
    items: Sequence[Item],
    approvals: Approvals,
    home: Path,
    *,
    unasked: bool,
    lines: int = review.SHOWN_LINES,
    grants: Sequence[str] = (),
) -> bool:
    """Shows what waits and saves what the person approves, with `grants` for each if there are any;
    False if they refuse any of it. Raises: ConfigError if nobody can be asked."""
    names = visible(", ".join(map(review.named, items)))
    if not unasked and items:
        if sys.stdin is None or not sys.stdin.isatty():
            raise ConfigError(
                f"There is no terminal to ask in about {names}: --yes approves without asking."
            )
        return await review.ask_approval(home, items, approvals, make_ask(), lines, grants)
    for item in items:
        print(public(review.shown(item, approvals, lines=lines)))
    if items:
        trust.approve(home, approvals.project, items, grants)
        print(clean(f"Approved until it changes: {names}"))
    return True


def _revoke(name: str, approvals: Approvals, home: Path) -> str:
    def is_about(approval: Approved) -> bool:
        is_tool = approval.kind == "mcp-tool" and approval.name.startswith(f"{name}:")
        return approval.name == name or is_tool  # a server includes its tools

    revoked = [approval for approval in approvals.items if is_about(approval)]
    if not revoked:
        raise ConfigError(f"Nothing called {name!r} is approved: see `kode extensions trust`.")
    trust.revoke(home, approvals.project, revoked)
    return public(f"Revoked: {', '.join(f'{it.kind} {it.name}' for it in revoked)}")
