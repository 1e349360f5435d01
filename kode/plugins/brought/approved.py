"""`kode extensions trust`: what of this repository is approved, changed since, or waiting."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from kode.plugin import (
    EXIT_FAILED,
    EXIT_OK,
    Answered,
    ConfigError,
    Parser,
    approve_shown,
    clean,
    complain,
    foreign,
    paths,
    public,
    review,
    trust,
    working_directory,
)
from kode.plugin import (
    PrintedAnswer as Answer,
)


def main(argv: Sequence[str]) -> Answered:
    """Runs `kode extensions trust ...`. Raises: ConfigError, StorageError."""
    about = "What you approved of this repository, and what is pending."
    parser = Parser("kode extensions trust", about)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    about = "list approved, changed and new items; --json: one list"
    listed = commands.add_parser("list", help=about, description=about)
    listed.add_argument("--json", action="store_true", help="one JSON list")
    for name, about in (
        ("show", "show one item in full, or what changed in it"),
        ("approve", "approve one item, or all that are pending"),
        ("revoke", "withdraw an approval"),
    ):
        one = commands.add_parser(name, help=about, description=about)
        one.add_argument("name", metavar="ITEM", nargs="?" if name == "approve" else None)
        if name == "approve":
            one.add_argument("--yes", action="store_true", help="do not ask for confirmation")
            one.add_argument(
                "--outside",
                action="store_true",
                help="servers and hooks may run without a sandbox; a hook named as ITEM does",
            )
            one.add_argument(
                "--network", action="store_true", help="the hook ITEM may use the network"
            )
            one.add_argument(
                "--write",
                metavar="FOLDER",
                action="append",
                default=[],
                help="the hook ITEM may write in this folder (repeatable)",
            )
    arguments = parser.parse(argv or ["list"])
    cwd = working_directory(argparse.Namespace(cwd=None))
    home, project = paths.home(), paths.project_root(cwd)
    approvals = trust.load(home, project)
    complain([approvals.problem])
    items = (*review.find_items(home, cwd), *foreign.own_items(cwd))
    match arguments.command:
        case "list":
            return _list(items, approvals, as_json=arguments.json)
        case "show":
            named = _named(items, arguments.name)
            return Answer(
                lines=[public(review.shown(item, approvals, lines=sys.maxsize)) for item in named]
            )
        case "approve":
            wanted = [*(_named(items, arguments.name) if arguments.name else items)]
            grants = _grants(arguments, wanted, home, project)
            if arguments.outside:
                wanted += [trust.outside(item) for item in wanted if item.kind in ("mcp", "hook")]
            pending = [
                item
                for item in wanted
                if trust.state(item, approvals) != "trusted" or (grants and item.kind == "hook")
            ]
            if not pending:
                return "Nothing is pending."
            if grants:
                print(clean(f"It would have besides: {', '.join(grants)}"))
            done = asyncio.run(
                approve_shown(pending, approvals, home, unasked=arguments.yes, grants=grants)
            )
            return EXIT_OK if done else EXIT_FAILED
    return _revoke(arguments.name, approvals, home, project)


def _verb(verb: str, argv: Sequence[str]) -> Answered:
    return main([verb, *argv])


approve, revoke = partial(_verb, "approve"), partial(_verb, "revoke")


def _grants(
    arguments: argparse.Namespace, items: Sequence[trust.Item], home: Path, project: Path
) -> list[str]:
    """What a hook may do besides, as `trust.Approved` keeps it. Raises: ConfigError."""
    is_hook = bool(arguments.name) and all(item.kind == "hook" for item in items)
    if not is_hook:
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
    grants = [trust.NETWORK] if arguments.network else []
    return [*grants, *([trust.OUTSIDE] if arguments.outside else []), *map(str, folders)]


def _list(items: Sequence[trust.Item], approvals: trust.Approvals, *, as_json: bool) -> Answer:
    rows = [
        {
            "kind": item.kind,
            "name": item.name,
            "scope": item.scope,
            "state": trust.state(item, approvals),
            "origin": str(item.origin),
            "hash": trust.digest(item),
            "may": list(trust.given_to(item, approvals)),
        }
        for item in items
    ]
    known = {(item.kind, item.name, str(item.origin)) for item in items}
    rows += [
        {
            "kind": item.kind,
            "name": item.name,
            "scope": "project",
            "state": "approved" if item.kind in trust.NOT_FOUND else "gone",
            "origin": item.origin,
            "hash": item.digest,
            "may": [],
        }
        for item in approvals.items
        if (item.kind, item.name, item.origin) not in known
    ]
    names = ("state", "kind", "name", "hash", "origin")
    return Answer(
        value=rows,
        as_json=as_json,
        rows=[
            [*(public(str(row[name])) for name in names), public(", ".join(row["may"]))]
            for row in rows
        ],
        empty="This project has nothing that needs approval.",
    )


def _revoke(name: str, approvals: trust.Approvals, home: Path, project: Path) -> str:
    gone = [item for item in approvals.items if _is_about(item, name)]
    if not gone:
        raise ConfigError(f"Nothing called {name!r} is approved: see `kode extensions trust`.")
    trust.revoke(home, project, gone)
    return public(f"Revoked: {', '.join(f'{approval.kind} {approval.name}' for approval in gone)}")


def _is_about(approval: trust.Approved, name: str) -> bool:
    """A server includes its tools."""
    return approval.name == name or (
        approval.kind == "mcp-tool" and approval.name.startswith(f"{name}:")
    )


def _named(items: Sequence[trust.Item], name: str) -> list[trust.Item]:
    found = [item for item in items if item.name == name]
    if not found:
        raise ConfigError(f"There is nothing called {name!r} here: see `kode extensions trust`.")
    return found
