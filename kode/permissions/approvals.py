"""What a person approved for good, one file a project, under `$KODE_HOME`. When to ask is `decide`;
rules the user wrote are in the config, not here."""

import json
from pathlib import Path

from kode import durable, paths
from kode.errors import ConfigError, StorageError
from kode.permissions.rules import Rule, parse


def load(home: Path, project: Path) -> tuple[tuple[Rule, ...], str]:
    """The approvals of a project, and a sentence about what was wrong with the file, if anything.

    A damaged file is set aside, and saved approvals are ignored. Never raises.
    """
    path = paths.permissions_file(home, project)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return (), ""
    except OSError as error:
        return (), f"Could not read {path} ({error.strerror}): saved approvals are ignored."
    try:
        return _decoded(data), ""
    except (ValueError, TypeError, KeyError, ConfigError, RecursionError) as error:
        return (), _set_aside(path, error)


def add(home: Path, project: Path, rules: tuple[Rule, ...]) -> None:
    """Adds approvals durably, beside those another kode may have added meanwhile.

    Raises: StorageError, BusyError.
    """
    path = paths.permissions_file(home, project)
    with durable.locked(path.parent):
        known, _ = load(home, project)
        merged = tuple(dict.fromkeys((*known, *rules)))
        document = {
            "version": 1,
            "project": str(project),
            "allow": [str(rule) for rule in merged],
        }
        durable.replace(path, json.dumps(document, indent=2, ensure_ascii=True).encode() + b"\n")


def _decoded(data: bytes) -> tuple[Rule, ...]:
    document = json.loads(data)
    if document["version"] != 1 or not isinstance(document["allow"], list):
        raise ValueError("not a list of rules")
    return tuple(parse(text) for text in document["allow"])


def _set_aside(path: Path, error: Exception) -> str:
    try:
        aside = durable.set_aside(path)
    except StorageError as problem:
        return f"{path} is damaged ({error}), so saved approvals are ignored. {problem}"
    return (
        f"{path} was damaged ({error}). It is kept as {aside.name}; "
        "saved approvals are ignored until you approve again."
    )
