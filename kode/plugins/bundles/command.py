"""`kode extensions`: the catalogue, and what adds, shows, updates and removes bundles."""

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from kode.plugin import (
    EXIT_FAILED,
    EXIT_OK,
    ConfigError,
    Parser,
    clean,
    paths,
    print_either,
    subcommands,
    visible,
    working_directory,
)
from kode.plugins.bundles import shelf, show, sources
from kode.plugins.bundles.manifest import Parts, is_bundle, parts_of
from kode.plugins.bundles.parts import forget_servers, items_of
from kode.plugins.bundles.shelf import Approved, Index
from kode.plugins.bundles.sources import Fetched, Source
from kode.plugins.bundles.tree import Tree

YES = "do not ask for confirmation"


def main(argv: Sequence[str]) -> int:
    """Runs `kode extensions ...`. Raises: ConfigError, StorageError, BusyError."""
    arguments = _parser().parse(argv or ["list"])
    home, cwd = paths.home(), working_directory(argparse.Namespace(cwd=None))
    match arguments.command:
        case "list" if arguments.source:
            return _list_source(home, arguments.source, cwd, as_json=arguments.json)
        case "list":
            return _list(home, as_json=arguments.json)
        case "add":
            return _add(home, arguments, cwd)
        case "show":
            return _show(home, arguments.name, arguments.files)
        case "update":
            return _update(home, _approved(home, arguments.name), unasked=arguments.yes)
        case "remove":
            return _remove(home, arguments.name)
    raise AssertionError(arguments.command)


def _parser() -> Parser:
    parser = Parser("kode extensions", "Skills, commands, agents, hooks, and bundles of them.")
    others = (f"\n    {n:<10}{what}" for n, what in subcommands("extensions").items())
    parser.epilog = "what files bring:" + "".join(others)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    def add(name: str, about: str) -> argparse.ArgumentParser:
        one: argparse.ArgumentParser = commands.add_parser(name, help=about, description=about)
        return one

    listed = add("list", "list what is installed, or what SOURCE offers")
    listed.add_argument("source", metavar="SOURCE", nargs="?", help="what this one offers")
    listed.add_argument("--json", action="store_true", help="one JSON object")
    added = add("add", "show a bundle whole, and add it once you approve")
    added.add_argument("source", metavar="SOURCE", help="a folder, a git address, NAME@SOURCE")
    added.add_argument("--yes", action="store_true", help=YES)
    added.add_argument("--network", action="store_true", help="its servers may use the network")
    shown = add("show", "show a bundle: its parts, and with FILE... these files in full")
    shown.add_argument("name", metavar="NAME", help="the bundle")
    shown.add_argument("files", metavar="FILE", nargs="*", help="a path in it, or `all`")
    updated = add("update", "fetch again; what changed is shown, and asked about")
    updated.add_argument("name", metavar="NAME", help="a bundle")
    updated.add_argument("--yes", action="store_true", help=YES)
    add("remove", "remove a bundle").add_argument("name", metavar="NAME")
    return parser


def _list(home: Path, *, as_json: bool) -> int:
    index = shelf.read_index(home)
    rows = [_row(home, one) for one in index.bundles.values()]
    print_either({"installed": rows}, _catalogue(rows), as_json=as_json)
    return EXIT_OK


def _row(home: Path, approved: Approved) -> dict[str, object]:
    parts = approved.parts
    return {
        "name": approved.name,
        "version": parts.version,
        "state": _state(home, approved),
        "source": str(approved.source),
        "commit": approved.commit,
        "digest": approved.digest,
        "skills": sorted(parts.skills),
        "commands": sorted(parts.commands),
        "agents": sorted(parts.agents),
        "hooks": sorted(parts.hooks),
        "servers": sorted(parts.servers),
        "unused": dict(parts.unused),
    }


def _state(home: Path, approved: Approved) -> str:
    """`on`, `changed` (its copy, so that it is off), or `outdated` (its folder is another one)."""
    if not shelf.is_intact(home, approved):
        return "changed"
    if approved.source.kind != "folder":
        return "on"
    try:
        fetched = sources.fetched(approved.source)
        wanted = _wanted(approved.source, fetched, _parts(fetched), network=approved.network)
    except ConfigError:  # it is gone, which the copy does not mind
        return "on"
    return "on" if wanted.digest == approved.digest else "outdated"


def _catalogue(rows: Sequence[Mapping[str, object]]) -> list[str]:
    lines = ["Installed:" if rows else "Nothing is installed."]
    for row in rows:
        lines.append(visible(f"  {row['name']} {row['version']}  {row['state']}  {row['source']}"))
    lines += ["To add more:", *(f"  {way}" for way in sources.WAYS)]
    return [*lines, "What files bring: `kode extensions --help`."]


def _offers(offered: Mapping[str, str], market: str, index: Index) -> Iterable[str]:
    for name, description in offered.items():
        mark = " [installed]" if name in index.bundles else ""
        yield visible(f"  {name}@{market}{mark}  {description}".rstrip())


def _list_source(home: Path, word: str, cwd: Path, *, as_json: bool) -> int:
    index = shelf.read_index(home)
    found = sources.found(sources.parsed(word, cwd), lists_first=True)
    if isinstance(found, Fetched):
        parts = _parts(found)
        lines = [visible(f"  {parts.name} {parts.version}  {parts.description}")]
        offered = {parts.name: parts.description}
    else:
        offered = {one.name: one.description for one in found.entries}
        lines = [*_offers(offered, word, index), *found.faults]
    value = [
        {"name": n, "description": d, "installed": n in index.bundles} for n, d in offered.items()
    ]
    print_either(value, lines, as_json=as_json)
    return EXIT_OK


def _add(home: Path, arguments: argparse.Namespace, cwd: Path) -> int:
    index = shelf.read_index(home)
    source = sources.parsed(arguments.source, cwd)
    fetched = sources.found(source)
    if not isinstance(fetched, Fetched):
        names = ", ".join(one.name for one in fetched.entries) or "nothing"
        raise ConfigError(
            f"{arguments.source} is a marketplace, which lists {names}. Add one: "
            f"`kode extensions add NAME@{arguments.source}`."
        )
    parts = _parts(fetched)
    known = index.bundles.get(parts.name)
    if known is not None and known.source != source:
        raise ConfigError(
            f"You have a bundle {parts.name} from {known.source}. `kode extensions remove "
            f"{parts.name}` first, if this one is to take its place."
        )
    network = arguments.network or (known is not None and known.network)
    return _settle(
        home,
        known,
        _wanted(source, fetched, parts, network=network),
        fetched.tree,
        unasked=arguments.yes,
    )


def _update(home: Path, known: Approved, *, unasked: bool) -> int:
    fetched = sources.fetched(known.source)
    parts = _parts(fetched)
    if parts.name != known.name:
        raise ConfigError(
            f"{known.source} calls itself {parts.name} now, not {known.name}: `kode extensions "
            f"remove {known.name}`, then add it."
        )
    wanted = _wanted(known.source, fetched, parts, network=known.network)
    return _settle(home, known, wanted, fetched.tree, unasked=unasked)


def _settle(
    home: Path, known: Approved | None, wanted: Approved, tree: Tree, *, unasked: bool
) -> int:
    """Shows what is new, asks, and keeps it."""
    intact = known is not None and shelf.is_intact(home, known)
    if known is not None and known.digest == wanted.digest:
        if not intact:
            shelf.keep(home, wanted, tree)
        _say([f"{wanted.name} is as you approved it{'' if intact else ': its copy is restored'}."])
        return EXIT_OK
    with shelf.staged(home, wanted, tree) as bundle:
        items, problems = items_of(bundle, home)
        before = shelf.tree_of(home, known) if known is not None and intact else None
        if before is not None:
            _say(show.diff(before, tree))
        elif not unasked:
            _say(show.contents(tree))
        _say(show.summary(wanted, tree, items, problems))
        if not items:
            raise ConfigError(f"{wanted.name} has no part that kode uses, so it is not added.")
        if not unasked and not _is_wanted(wanted, is_update=known is not None):
            _say(["Nothing was changed."])
            return EXIT_FAILED
        if known is not None:
            forget_servers(shelf.bundle_of(home, known), home)
        shelf.keep(home, wanted, tree)
    _say([f"{'Updated' if known else 'Added'} {wanted.name}. It is on from the next session."])
    return EXIT_OK


def _remove(home: Path, name: str) -> int:
    forget_servers(shelf.bundle_of(home, _approved(home, name)), home)
    shelf.forget(home, [name])
    _say([f"Removed {name}."])
    return EXIT_OK


def _show(home: Path, name: str, files: Sequence[str]) -> int:
    approved = _approved(home, name)
    if not shelf.is_intact(home, approved):
        raise ConfigError(
            f"The copy of {name} has changed since you approved it, so nothing of it is used. "
            f"`kode extensions update {name}` fetches it again and asks."
        )
    tree = shelf.tree_of(home, approved)
    if files:
        absent = [path for path in files if path != "all" and path not in tree.files]
        if absent:
            raise ConfigError(f"{name} has no file {visible(absent[0])!r}.")
        kept = {p: f for p, f in tree.files.items() if p in files or "all" in files}
        _say(show.contents(Tree(files=kept)))
        return EXIT_OK
    items, problems = items_of(shelf.bundle_of(home, approved), home)
    _say(show.summary(approved, tree, items, problems))
    _say(["Files:", *(visible(f"  {path}") for path in tree.files)])
    return EXIT_OK


def _parts(fetched: Fetched) -> Parts:
    """Raises: ConfigError for what is no bundle."""
    if not fetched.entry and not is_bundle(fetched.tree):
        raise ConfigError(
            "There is no bundle: no .claude-plugin/plugin.json, no skills, commands, agents or "
            "hooks. `kode extensions list SOURCE` lists what a marketplace has."
        )
    return parts_of(fetched.tree, fetched.entry, fetched.usual_name)


def _wanted(source: Source, fetched: Fetched, parts: Parts, *, network: bool) -> Approved:
    digest = shelf.pin(fetched.tree, parts, network=network)
    return Approved(
        digest=digest, source=source, commit=fetched.commit, parts=parts, network=network
    )


def _is_wanted(wanted: Approved, *, is_update: bool) -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        raise ConfigError(
            f"There is no terminal to ask in about {wanted.name}: --yes approves without asking."
        )
    try:
        what = "Update" if is_update else "Add"
        return input(f"{what} {wanted.name}? [y/N] ").strip().lower() in ("y", "yes")
    except (EOFError, KeyboardInterrupt):
        return False


def _approved(home: Path, name: str) -> Approved:
    """Raises: ConfigError for a bundle that was not added."""
    found = shelf.read_index(home).bundles.get(name)
    if found is None:
        raise ConfigError(
            f"You have no bundle {visible(name)!r}. `kode extensions list` lists all."
        )
    return found


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        print(clean(line))
    sys.stdout.flush()
