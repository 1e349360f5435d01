"""The bundles that a person approved: their copies, and what `kode extensions` lists, adds, shows,
updates and removes.

`$KODE_HOME/bundles/DIGEST/` holds a bundle's files, in a folder of its name, and `bundle.json`,
which is written last. A copy without that file, or whose files differ from its digest, is never
used. Before approving, a person is shown every file (for an update, every change), what each part
may do, and what is not used, with control characters spelt out and credentials masked."""

import argparse
import difflib
import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kode.plugin import (
    Bundle,
    BundleItems,
    ConfigError,
    Parser,
    StorageError,
    kode_home,
    make_folder,
    print_either,
    real_path,
    redact_secrets,
    remove_tree,
    replace_file,
    storage_errors,
    visible,
)
from kode.plugins.bundles.contents import (
    WAYS,
    BundleFile,
    BundleSource,
    BundleTree,
    Fetched,
    Parts,
    fetch_bundle,
    parse_source,
    read_tree,
)

RECORD = "bundle.json"
HASH_CHARS = 16
"""How much of the digest a folder's name has; comparisons use the whole digest."""


@dataclass(frozen=True, kw_only=True)
class ApprovedBundle:
    """A bundle as the person approved it."""

    source: BundleSource
    commit: str = ""
    parts: Parts
    network: bool = False
    """Whether its servers may use the network."""
    approved_at: str = field(default_factory=lambda: datetime.now(UTC).isoformat())

    digest: str = ""
    """SHA-256 over all that the person approved: files, parts, and what they may do."""

    @property
    def name(self) -> str:
        return self.parts.name

    def with_digest(self, tree: BundleTree) -> "ApprovedBundle":
        """A copy of this record with the digest that these files give."""
        besides = json.dumps([asdict(self.parts), self.network], sort_keys=True)
        return replace(self, digest=tree.digest(besides))


def approved_bundles(home: Path) -> tuple[list[Bundle], list[str]]:
    """The approved bundles whose copies are intact, and a sentence per other one. Never raises."""
    try:
        records = read_records(home).values()
    except ConfigError as error:
        return [], [str(error)]
    intact = [record for record in records if is_intact(home, record)]
    return [load_bundle(home, record) for record in intact], [
        f"The bundle {record.name} is off: its copy has changed since you approved it. "
        f"`kode extensions update {record.name}` fetches it again and asks."
        for record in records
        if record not in intact
    ]


def load_bundle(home: Path, approved: ApprovedBundle) -> Bundle:
    """An approved bundle, with `${CLAUDE_PLUGIN_ROOT}` in its servers replaced by its folder."""
    folder, parts = copy_folder(home, approved), approved.parts
    root = json.dumps(str(folder))[1:-1]
    servers: dict[str, dict[str, Any]] = json.loads(
        json.dumps(parts.servers).replace("${CLAUDE_PLUGIN_ROOT}", root)
    )
    for entry in servers.values():
        variables = entry.get("env", {})
        if "command" in entry and isinstance(variables, dict):
            entry["env"] = {**variables, "CLAUDE_PLUGIN_ROOT": str(folder)}
        if approved.network:
            entry["network"] = True
    return Bundle(
        name=approved.name,
        folder=folder,
        skills={name: folder / path for name, path in parts.skills.items()},
        commands={name: folder / path for name, path in parts.commands.items()},
        agents={name: folder / path for name, path in parts.agents.items()},
        hooks=parts.hooks,
        servers=servers,
    )


def copy_folder(home: Path, approved: ApprovedBundle) -> Path:
    """Where the copy of a bundle is; its folder has its name, which its programs may rely on."""
    return Path(real_path(home / "bundles"), approved.digest[:HASH_CHARS], approved.name)


def is_intact(home: Path, approved: ApprovedBundle) -> bool:
    """Whether the copy exists and is exactly what the person approved. Never raises."""
    try:
        return approved.with_digest(read_tree(copy_folder(home, approved))) == approved
    except (ConfigError, OSError):
        return False


def read_records(home: Path) -> dict[str, ApprovedBundle]:
    """The approved bundles by name. Raises: ConfigError if any record cannot be read, so that then
    no bundle is used."""
    records = []
    for path in sorted((home / "bundles").glob(f"*/{RECORD}")):
        try:
            values = json.loads(path.read_bytes())
            values |= {
                "source": BundleSource(**values["source"]),
                "parts": Parts(**values["parts"]),
            }
            records.append(ApprovedBundle(**values))
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise ConfigError(
                f"{path} cannot be read ({error}), so no bundle is used. Remove its folder, and "
                "add the bundle again: `kode extensions add`."
            ) from error
    # A kode that was killed during an update leaves two versions: the newer one counts.
    return {
        record.name: record for record in sorted(records, key=lambda record: record.approved_at)
    }


def write_copy(home: Path, approved: ApprovedBundle, tree: BundleTree) -> Bundle:
    """Writes a bundle's files before it is approved, so that the code that loads bundles can read
    them. Raises: StorageError, also if the copy then differs from the tree."""
    folder = copy_folder(home, approved)
    if not is_intact(home, approved):
        with storage_errors(folder, "write"):
            remove_tree(folder)
        for part in sorted({(folder / path).parent for path in tree.files} | {folder}):
            make_folder(part)
        for path, file in tree.files.items():
            mode = 0o700 if file.executable else 0o600
            replace_file(folder / path, file.data, mode=mode, follow=False)
    if not is_intact(home, approved):
        raise StorageError(
            f"The copy of {approved.name} differs from what you saw, as on a disk that ignores "
            "case or changes names. Nothing of it is used."
        )
    return load_bundle(home, approved)


def record_approval(home: Path, approved: ApprovedBundle) -> None:
    """Records that a bundle is approved; it replaces the one of its name. Raises: StorageError; the
    earlier approval then still holds."""
    record = copy_folder(home, approved).parent / RECORD
    replace_file(record, json.dumps(asdict(approved), indent=2).encode())


def remove_copies(home: Path, name: str, but: ApprovedBundle | None = None) -> None:
    """Removes the copies of the bundle `name`, except `but`. Raises: StorageError."""
    top = Path(real_path(home / "bundles"))
    with storage_errors(top, "remove a copy in"):
        for folder in [path.parent for path in top.glob(f"*/{name}")]:
            if but is None or folder.name != but.digest[:HASH_CHARS]:
                remove_tree(folder / RECORD)  # without it, nothing of it is used
                remove_tree(folder)
        remove_tree(top, only_empty=True)


# ── the command lines, and what a person is shown before approving ───────────────────────────────

ABILITIES: Mapping[str, str] = {
    "skill": "The model loads it where it fits a task; its scripts run in the sandbox.",
    "command": "You start it; its text goes to the model, and what it runs is judged as ever.",
    "agent": "It instructs a subagent, whose calls are judged like any other.",
    "hook": "Each says what it may do.",
    "mcp": "It offers the model tools, whose calls kode asks about. A program runs in the sandbox, "
    "without your home and the network; what goes to an address leaves this machine.",
}
"""Kind → what a part may do once it is approved."""


def summarize_bundle(
    approved: ApprovedBundle, tree: BundleTree, items: Sequence[Any], problems: Sequence[str]
) -> Iterator[str]:
    """Lines about a bundle: its source and size, what each part may do, and what is not used."""
    parts = approved.parts
    commit = f", commit {approved.commit[:12]}" if approved.commit else ""
    size = sum(len(file.data) for file in tree.files.values())
    yield f"Bundle {parts.name} {parts.version}, from {approved.source}{commit}"
    yield from [f"  {parts.description}"] if parts.description else ()
    yield f"  {len(tree.files)} files, {size:,} bytes, SHA-256 {approved.digest}"
    for kind, ability in ABILITIES.items():
        of_kind = [item for item in items if item.kind == kind]
        network = " It may use the network." if kind == "mcp" and approved.network else ""
        if of_kind:
            yield f"{'MCP server' if kind == 'mcp' else kind}s ({len(of_kind)}): {ability}{network}"
        for item in of_kind:
            yield f"  {kind} {item.name}{f': {item.can}' if item.can else ''}"
            shown = item.content if kind in ("mcp", "hook") else ""
            yield from (f"    {line}" for line in make_printable(shown).splitlines())
    unused = [*(f"{what}: {why}" for what, why in parts.unused.items()), *problems]
    yield from ["Not used:", *(f"  {line}" for line in unused)] if unused else ()


def list_contents(tree: BundleTree) -> Iterator[str]:
    """The lines of every file in full, below a heading each."""
    for path, file in tree.files.items():
        mark = ", executable" if file.executable else ""
        yield f"=== {path} ({len(file.data):,} bytes{mark})"
        yield from _lines(file)


def list_changes(before: BundleTree, after: BundleTree) -> Iterator[str]:
    """All changes of an update, as a diff for each file."""
    for path in sorted({*before.files, *after.files}):
        old, new = before.files.get(path), after.files.get(path)
        if old != new:
            change = "added" if old is None else "removed" if new is None else "changed"
            is_new_program = new and new.executable and not (old and old.executable)
            yield f"=== {path} ({change}{', now executable' if is_new_program else ''})"
            yield from [*difflib.unified_diff(_lines(old), _lines(new), lineterm="")][2:]


def make_printable(text: str) -> str:
    """A text with credentials masked and control characters spelt out."""
    return visible(redact_secrets(text))


def _lines(file: BundleFile | None) -> list[str]:
    if file is None:
        return []
    try:
        return make_printable(file.data.decode()).splitlines()
    except UnicodeDecodeError:
        return [f"[no text, SHA-256 {hashlib.sha256(file.data).hexdigest()}]"]


YES = "do not ask for confirmation"


def list_bundles(argv: Sequence[str]) -> str | int:
    """Runs `kode extensions list`. Raises: ConfigError."""
    Parser("kode extensions list", "List what is installed.").parse(argv)
    home, lines = kode_home(), ["Installed:"]
    for approved in read_records(home).values():
        state = "on" if is_intact(home, approved) else "changed"
        lines.append(f"  {approved.name} {approved.parts.version}  {state}  {approved.source}")
    lines = lines if lines[1:] else ["Nothing is installed."]
    lines += ["To add more:", *(f"  {way}" for way in WAYS)]
    lines += ["What files bring: `kode extensions --help`."]
    _print_lines(lines)
    return 0


def show_bundle(argv: Sequence[str]) -> str | int:
    """Runs `kode extensions show`. Raises: ConfigError."""
    parser = Parser("kode extensions show", "Show a bundle: its parts, and what each may do.")
    home, approved, _ = _named_bundle(parser, argv)
    if not is_intact(home, approved):
        raise ConfigError(
            f"The copy of {approved.name} has changed since you approved it, so nothing of it is "
            f"used. `kode extensions update {approved.name}` fetches it again and asks."
        )
    folder = copy_folder(home, approved)
    tree = read_tree(folder)
    parts = BundleItems(load_bundle(home, approved), home)
    _print_lines(summarize_bundle(approved, tree, parts.items, parts.problems))
    _print_lines([f"Files in {folder}:", *(f"  {path}" for path in tree.files)])
    return 0


def remove_bundle(argv: Sequence[str]) -> str | int:
    """Runs `kode extensions remove`. Raises: ConfigError, StorageError, BusyError."""
    parser = Parser("kode extensions remove", "Remove a bundle.")
    home, approved, _ = _named_bundle(parser, argv)
    BundleItems(load_bundle(home, approved), home).forget_servers()
    remove_copies(home, approved.name)
    return f"Removed {approved.name}."


def update_bundle(argv: Sequence[str]) -> str | int:
    """Runs `kode extensions update`. Raises: ConfigError, StorageError, BusyError."""
    parser = Parser("kode extensions update", "Fetch again, and ask about what changed.")
    parser.add_argument("--yes", action="store_true", help=YES)
    home, approved, arguments = _named_bundle(parser, argv)
    fetched = fetch_bundle(approved.source)
    return _confirm_bundle(
        home, approved.source, fetched, approved, approved.network, arguments.yes
    )


def add_bundle(argv: Sequence[str]) -> str | int:
    """Runs `kode extensions add`. Raises: ConfigError, StorageError, BusyError."""
    parser = Parser("kode extensions add", "Show a bundle whole, and add it once you approve.")
    parser.add_argument("source", metavar="SOURCE", help="a folder, a git address, NAME@SOURCE")
    parser.add_argument("--yes", action="store_true", help=YES)
    parser.add_argument("--network", action="store_true", help="its servers may use the network")
    arguments, home = parser.parse(argv), kode_home()
    source = parse_source(arguments.source, Path.cwd())
    fetched = fetch_bundle(source)
    name = fetched.parts.name
    before = read_records(home).get(name)
    if before is not None and before.source != source:
        raise ConfigError(
            f"You have a bundle {name} from {before.source}. `kode extensions remove {name}` "
            "first, if this one is to take its place."
        )
    network = arguments.network or (before is not None and before.network)
    return _confirm_bundle(home, source, fetched, before, network, arguments.yes)


def _named_bundle(
    parser: Parser, argv: Sequence[str]
) -> tuple[Path, ApprovedBundle, argparse.Namespace]:
    """Raises: ConfigError for a bundle that was not added."""
    parser.add_argument("name", metavar="NAME", help="the bundle")
    arguments, home = parser.parse(argv), kode_home()
    approved = read_records(home).get(arguments.name)
    if approved is None:
        raise ConfigError(
            f"You have no bundle {visible(arguments.name)!r}. `kode extensions list` lists all."
        )
    return home, approved, arguments


def _confirm_bundle(
    home: Path,
    source: BundleSource,
    fetched: Fetched,
    before: ApprovedBundle | None,
    network: bool,
    is_confirmed: bool,
) -> str | int:
    """Shows what is new, asks, records a yes. Raises: ConfigError, StorageError, BusyError."""
    tree, parts, commit = fetched
    bundle = ApprovedBundle(source=source, commit=commit, parts=parts, network=network)
    approved, name = bundle.with_digest(tree), bundle.name
    if before is not None and before.name != name:
        raise ConfigError(
            f"{source} calls itself {name} now, not {before.name}: `kode extensions remove "
            f"{before.name}`, then add it."
        )
    has_copy = before is not None and is_intact(home, before)
    if before is not None and before.digest == approved.digest:
        write_copy(home, approved, tree)
        return f"{name} is as you approved it{'' if has_copy else ': its copy is restored'}."
    try:
        offer = BundleItems(write_copy(home, approved, tree), home)
        if before is not None and has_copy:
            _print_lines(list_changes(read_tree(copy_folder(home, before)), tree))
        elif not is_confirmed:
            _print_lines(list_contents(tree))
        _print_lines(summarize_bundle(approved, tree, offer.items, offer.problems))
        if not offer.items:
            raise ConfigError(f"{name} has no part that kode uses, so it is not added.")
        if not is_confirmed and not _ask_to_add(name, is_update=before is not None):
            _print_lines(["Nothing was changed."])
            return 1
        if before is not None:
            BundleItems(load_bundle(home, before), home).forget_servers()
        record_approval(home, approved)
    finally:
        remove_copies(home, name, but=read_records(home).get(name))
    return f"{'Updated' if before else 'Added'} {name}. It is on from the next session."


def _ask_to_add(name: str, *, is_update: bool) -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        raise ConfigError(f"There is no terminal to ask in about {name}: --yes approves it.")
    try:
        answer = input(f"{'Update' if is_update else 'Add'} {name}? [y/N] ")
    except (EOFError, KeyboardInterrupt):
        return False
    return answer.strip().lower() in ("y", "yes")


def _print_lines(lines: Iterable[str]) -> None:
    print_either(lines=map(make_printable, lines))
