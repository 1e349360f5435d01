"""`kode extensions`: the catalogue, and what adds, shows, updates and removes bundles."""

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from kode.plugin import (
    BundleItems,
    ConfigError,
    Parser,
    kode_home,
    print_either,
    visible,
)
from kode.plugins.bundles import copies, show, sources
from kode.plugins.bundles.copies import ApprovedBundle
from kode.plugins.bundles.sources import Fetched, Source
from kode.plugins.bundles.tree import read_tree

YES = "do not ask for confirmation"


def list_bundles(argv: Sequence[str]) -> str | int:
    """Runs `kode extensions list`. Raises: ConfigError."""
    parser = Parser("kode extensions list", "List what is installed.")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    as_json, home, rows = parser.parse(argv).json, kode_home(), []
    for approved in copies.read_records(home).values():
        parts = approved.parts
        row: dict[str, object] = {
            "name": approved.name,
            "version": parts.version,
            "state": "on" if copies.is_intact(home, approved) else "changed",
            "source": str(approved.source),
            "commit": approved.commit,
            "digest": approved.digest,
            "unused": dict(parts.unused),
        }
        for kind in ("skills", "commands", "agents", "hooks", "servers"):
            row[kind] = sorted(getattr(parts, kind))
        rows.append(row)
    lines = ["Installed:" if rows else "Nothing is installed."]
    lines += [f"  {r['name']} {r['version']}  {r['state']}  {r['source']}" for r in rows]
    lines += ["To add more:", *(f"  {way}" for way in sources.WAYS)]
    lines += ["What files bring: `kode extensions --help`."]
    print_either({"installed": rows}, map(show.printable, lines), as_json=as_json)
    return 0


def show_bundle(argv: Sequence[str]) -> str | int:
    """Runs `kode extensions show`. Raises: ConfigError."""
    parser = Parser("kode extensions show", "Show a bundle: its parts, and what each may do.")
    home, approved, _ = _named_bundle(parser, argv)
    if not copies.is_intact(home, approved):
        raise ConfigError(
            f"The copy of {approved.name} has changed since you approved it, so nothing of it is "
            f"used. `kode extensions update {approved.name}` fetches it again and asks."
        )
    folder = copies.folder_of(home, approved)
    tree = read_tree(folder)
    parts = BundleItems(copies.bundle_of(home, approved), home)
    _say(show.summarize(approved, tree, parts.items, parts.problems))
    _say([f"Files in {folder}:", *(f"  {path}" for path in tree.files)])
    return 0


def remove_bundle(argv: Sequence[str]) -> str | int:
    """Runs `kode extensions remove`. Raises: ConfigError, StorageError, BusyError."""
    parser = Parser("kode extensions remove", "Remove a bundle.")
    home, approved, _ = _named_bundle(parser, argv)
    BundleItems(copies.bundle_of(home, approved), home).forget_servers()
    copies.remove_copies(home, approved.name)
    return f"Removed {approved.name}."


def update_bundle(argv: Sequence[str]) -> str | int:
    """Runs `kode extensions update`. Raises: ConfigError, StorageError, BusyError."""
    parser = Parser("kode extensions update", "Fetch again, and ask about what changed.")
    parser.add_argument("--yes", action="store_true", help=YES)
    home, approved, arguments = _named_bundle(parser, argv)
    fetched = sources.fetch(approved.source)
    return _confirm(home, approved.source, fetched, approved, approved.network, arguments.yes)


def add_bundle(argv: Sequence[str]) -> str | int:
    """Runs `kode extensions add`. Raises: ConfigError, StorageError, BusyError."""
    parser = Parser("kode extensions add", "Show a bundle whole, and add it once you approve.")
    parser.add_argument("source", metavar="SOURCE", help="a folder, a git address, NAME@SOURCE")
    parser.add_argument("--yes", action="store_true", help=YES)
    parser.add_argument("--network", action="store_true", help="its servers may use the network")
    arguments, home = parser.parse(argv), kode_home()
    source = sources.parse_source(arguments.source, Path.cwd())
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


def _named_bundle(
    parser: Parser, argv: Sequence[str]
) -> tuple[Path, ApprovedBundle, argparse.Namespace]:
    """Raises: ConfigError for a bundle that was not added."""
    parser.add_argument("name", metavar="NAME", help="the bundle")
    arguments, home = parser.parse(argv), kode_home()
    approved = copies.read_records(home).get(arguments.name)
    if approved is None:
        raise ConfigError(
            f"You have no bundle {visible(arguments.name)!r}. `kode extensions list` lists all."
        )
    return home, approved, arguments


def _confirm(
    home: Path,
    source: Source,
    fetched: Fetched,
    before: ApprovedBundle | None,
    network: bool,
    is_confirmed: bool,
) -> str | int:
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
        offer = BundleItems(copies.write_copy(home, approved, tree), home)
        if before is not None and is_intact:
            _say(show.list_changes(read_tree(copies.folder_of(home, before)), tree))
        elif not is_confirmed:
            _say(show.list_contents(tree))
        _say(show.summarize(approved, tree, offer.items, offer.problems))
        if not offer.items:
            raise ConfigError(f"{name} has no part that kode uses, so it is not added.")
        if not is_confirmed and not _is_wanted(name, is_update=before is not None):
            _say(["Nothing was changed."])
            return 1
        if before is not None:
            BundleItems(copies.bundle_of(home, before), home).forget_servers()
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
    print_either(lines=map(show.printable, lines))
