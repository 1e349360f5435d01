"""The approved copies of bundles: `$KODE_HOME/bundles/DIGEST/` holds the files in a folder of the
bundle's name, and `bundle.json`, which is written last. A folder without it, or whose files differ
from the digest in it, is never used."""

import json
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kode.plugin import (
    Bundle,
    ConfigError,
    StorageError,
    make_folder,
    real_path,
    remove_tree,
    replace_file,
    storage_errors,
)
from kode.plugins.bundles.contents import BundleSource, BundleTree, Parts, read_tree

RECORD = "bundle.json"
HASH_CHARS = 16
"""Of the digest in a folder's name; the whole digest is compared."""


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
    """SHA-256 over all that a yes covers: files, parts, and what they may do."""

    @property
    def name(self) -> str:
        return self.parts.name

    def pin(self, tree: BundleTree) -> "ApprovedBundle":
        """The same with the digest for these files."""
        besides = json.dumps([asdict(self.parts), self.network], sort_keys=True)
        return replace(self, digest=tree.digest(besides))


def approved_bundles(home: Path) -> tuple[list[Bundle], list[str]]:
    """The approved bundles that are unchanged, and a sentence for each other one. Never raises."""
    try:
        records = read_records(home).values()
    except ConfigError as error:
        return [], [str(error)]
    intact = [record for record in records if is_intact(home, record)]
    return [bundle_of(home, record) for record in intact], [
        f"The bundle {record.name} is off: its copy has changed since you approved it. "
        f"`kode extensions update {record.name}` fetches it again and asks."
        for record in records
        if record not in intact
    ]


def bundle_of(home: Path, approved: ApprovedBundle) -> Bundle:
    """An approved bundle in its folder, with the words for that folder filled in."""
    folder, parts = folder_of(home, approved), approved.parts
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


def folder_of(home: Path, approved: ApprovedBundle) -> Path:
    """Where the copy of a bundle is: a folder of its name, as programs in it may expect."""
    return Path(real_path(home / "bundles"), approved.digest[:HASH_CHARS], approved.name)


def is_intact(home: Path, approved: ApprovedBundle) -> bool:
    """Whether the copy is there, and just as the person approved it. Never raises."""
    try:
        return approved.pin(read_tree(folder_of(home, approved))) == approved
    except (ConfigError, OSError):
        return False


def read_records(home: Path) -> dict[str, ApprovedBundle]:
    """What was approved, by name. Raises: ConfigError if a record cannot be read; then nothing is
    used."""
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
    # Two versions of a bundle are left by a kode that was killed while it replaced one.
    return {
        record.name: record for record in sorted(records, key=lambda record: record.approved_at)
    }


def write_copy(home: Path, approved: ApprovedBundle, tree: BundleTree) -> Bundle:
    """Writes the files of a bundle that is not approved yet, so that the readers of sessions can
    look at it. Raises: StorageError, also if what is there then differs from the tree."""
    folder = folder_of(home, approved)
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
    return bundle_of(home, approved)


def approve_copy(home: Path, approved: ApprovedBundle) -> None:
    """Notes that a bundle is approved, in place of the one of its name. Raises: StorageError; then
    what was approved before still is."""
    record = folder_of(home, approved).parent / RECORD
    replace_file(record, json.dumps(asdict(approved), indent=2).encode())


def remove_copies(home: Path, name: str, but: ApprovedBundle | None = None) -> None:
    """Removes the copies of a bundle, `but` for an approved one. Raises: StorageError."""
    top = Path(real_path(home / "bundles"))
    with storage_errors(top, "remove a copy in"):
        for folder in [path.parent for path in top.glob(f"*/{name}")]:
            if but is None or folder.name != but.digest[:HASH_CHARS]:
                remove_tree(folder / RECORD)  # without it, nothing of it is used
                remove_tree(folder)
        remove_tree(top, only_empty=True)
