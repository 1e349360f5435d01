"""`kode extensions`: the catalogue, and what adds, shows, updates and removes bundles."""

import argparse
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from kode.plugin import (
    EXIT_FAILED,
    EXIT_OK,
    Answered,
    ConfigError,
    Parser,
    PrintedAnswer,
    forget_servers,
    items_in_bundle,
    paths,
    print_either,
    visible,
    working_directory,
)
from kode.plugins.bundles import copies, show, sources
from kode.plugins.bundles.copies import ApprovedBundle
from kode.plugins.bundles.sources import Fetched, Source
from kode.plugins.bundles.tree import read_tree


def main(argv: Sequence[str]) -> Answered:
    """Runs `kode extensions ...`. Raises: ConfigError, StorageError, BusyError."""
    arguments = _parser().parse(argv or ["list"])
    home, cwd = paths.home(), working_directory(argparse.Namespace(cwd=None))
    if arguments.command == "list":
        return _list(home, as_json=arguments.json)
    if arguments.command == "add":
        return _add(home, sources.parse_source(arguments.source, cwd), arguments)
    approved = copies.read_records(home).get(arguments.name)
    if approved is None:
        raise ConfigError(
            f"You have no bundle {visible(arguments.name)!r}. `kode extensions list` lists all."
        )
    if arguments.command == "show":
        return _show(home, approved)
    if arguments.command == "update":
        fetched = sources.fetch(approved.source)
        return _confirm(home, approved.source, fetched, approved, approved.network, arguments.yes)
    forget_servers(copies.bundle_of(home, approved), home)
    copies.remove_copies(home, approved.name)
    return f"Removed {approved.name}."


def _parser() -> Parser:
    parser = Parser("kode extensions", "Skills, commands, agents, hooks, and bundles of them.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    def add(name: str, about: str) -> argparse.ArgumentParser:
        command: argparse.ArgumentParser = commands.add_parser(name, help=about, description=about)
        if name != "list":
            what = "a folder, a git address, NAME@SOURCE" if name == "add" else "the bundle"
            operand = "source" if name == "add" else "name"
            command.add_argument(operand, metavar=operand.upper(), help=what)
        if name in ("add", "update"):
            command.add_argument("--yes", action="store_true", help="do not ask for confirmation")
        return command

    listed = add("list", "list what is installed")
    listed.add_argument("--json", action="store_true", help="one JSON object")
    added = add("add", "show a bundle whole, and add it once you approve")
    added.add_argument("--network", action="store_true", help="its servers may use the network")
    add("show", "show a bundle: its parts, and what each may do")
    add("update", "fetch again; what changed is shown, and asked about")
    add("remove", "remove a bundle")
    return parser


def _list(home: Path, *, as_json: bool) -> Answered:
    rows = [_row(home, approved) for approved in copies.read_records(home).values()]
    lines = ["Installed:" if rows else "Nothing is installed."]
    lines += [visible(f"  {r['name']} {r['version']}  {r['state']}  {r['source']}") for r in rows]
    lines += ["To add more:", *(f"  {way}" for way in sources.WAYS)]
    lines += ["What files bring: `kode extensions --help`."]
    return PrintedAnswer(value={"installed": rows}, as_json=as_json, lines=lines)


def _row(home: Path, approved: ApprovedBundle) -> dict[str, object]:
    parts = approved.parts
    kinds = ("skills", "commands", "agents", "hooks", "servers")
    return {
        "name": approved.name,
        "version": parts.version,
        "state": "on" if copies.is_intact(home, approved) else "changed",
        "source": str(approved.source),
        "commit": approved.commit,
        "digest": approved.digest,
        **{kind: sorted(getattr(parts, kind)) for kind in kinds},
        "unused": dict(parts.unused),
    }


def _show(home: Path, approved: ApprovedBundle) -> Answered:
    if not copies.is_intact(home, approved):
        raise ConfigError(
            f"The copy of {approved.name} has changed since you approved it, so nothing of it is "
            f"used. `kode extensions update {approved.name}` fetches it again and asks."
        )
    folder = copies.folder_of(home, approved)
    tree = read_tree(folder)
    items, problems = items_in_bundle(copies.bundle_of(home, approved), home)
    _say(show.summarize(approved, tree, items, problems))
    _say([f"Files in {folder}:", *(f"  {path}" for path in tree.files)])
    return EXIT_OK


def _add(home: Path, source: Source, arguments: argparse.Namespace) -> Answered:
    fetched = sources.fetch(source)
    name = fetched.parts.name
    before = copies.read_records(home).get(name)
    if before is not None and before.source != source:
        raise ConfigError(
            f"You have a bundle {name} from {before.source}. `kode extensions remove {name}` "
            "first, if this one is to take its place."
        )
    network = arguments.network or (before is not None and before.network)
    return _confirm(home, source, fetched, before, network, arguments.yes)


def _confirm(
    home: Path,
    source: Source,
    fetched: Fetched,
    before: ApprovedBundle | None,
    network: bool,
    is_confirmed: bool,
) -> Answered:
    """Shows what is new, asks, and approves it. Raises: ConfigError, StorageError, BusyError."""
    tree, parts, commit = fetched
    bundle = ApprovedBundle(source=source, commit=commit, parts=parts, network=network)
    approved, name = bundle.pin(tree), bundle.name
    if before is not None and before.name != name:
        raise ConfigError(
            f"{source} calls itself {name} now, not {before.name}: `kode extensions remove "
            f"{before.name}`, then add it."
        )
    is_intact = before is not None and copies.is_intact(home, before)
    if before is not None and before.digest == approved.digest:
        copies.write_copy(home, approved, tree)
        return f"{name} is as you approved it{'' if is_intact else ': its copy is restored'}."
    try:
        items, problems = items_in_bundle(copies.write_copy(home, approved, tree), home)
        if before is not None and is_intact:
            _say(show.list_changes(read_tree(copies.folder_of(home, before)), tree))
        elif not is_confirmed:
            _say(show.list_contents(tree))
        _say(show.summarize(approved, tree, items, problems))
        if not items:
            raise ConfigError(f"{name} has no part that kode uses, so it is not added.")
        if not is_confirmed and not _is_wanted(name, is_update=before is not None):
            _say(["Nothing was changed."])
            return EXIT_FAILED
        if before is not None:
            forget_servers(copies.bundle_of(home, before), home)
        copies.approve_copy(home, approved)
    finally:
        copies.remove_copies(home, name, but=copies.read_records(home).get(name))
    return f"{'Updated' if before else 'Added'} {name}. It is on from the next session."


def _is_wanted(name: str, *, is_update: bool) -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        raise ConfigError(f"There is no terminal to ask in about {name}: --yes approves it.")
    try:
        answer = input(f"{'Update' if is_update else 'Add'} {name}? [y/N] ")
    except (EOFError, KeyboardInterrupt):
        return False
    return answer.strip().lower() in ("y", "yes")


def _say(lines: Iterable[str]) -> None:
    print_either(None, map(show.printable, lines), as_json=False)


def _run(command: str, argv: Sequence[str]) -> Answered:
    return main([command, *argv])


list_bundles, add_bundle, show_bundle, update_bundle, remove_bundle = (
    partial(_run, command) for command in ("list", "add", "show", "update", "remove")
)
