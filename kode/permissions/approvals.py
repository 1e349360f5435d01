"""Stores a person's permanent approvals, one file per project, under `$KODE_HOME`. `decide` says
when to ask; rules that the user wrote are in the config."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from kode import durable, paths
from kode.errors import ConfigError, StorageError
from kode.permissions.rules import Rule, parse
from kode.sealed import opened, sealed_object

One = TypeVar("One")


def load(home: Path, project: Path) -> tuple[tuple[Rule, ...], str]:
    """The approvals of a project, and a sentence about a problem with the file, if any.

    A damaged file is set aside, and saved approvals are ignored. Never raises.
    """
    path = paths.permissions_file(home, project)
    return read_approvals(path, _decode, "saved approvals are ignored")


def add(home: Path, project: Path, rules: tuple[Rule, ...]) -> None:
    """Adds approvals durably, keeping those another kode added meanwhile.

    Raises: StorageError, for a damaged file too, which is set aside; BusyError.
    """
    path = paths.permissions_file(home, project)
    with durable.locked(path.parent):
        known, problem = load(home, project)
        if problem:
            raise StorageError(problem)
        merged = dict.fromkeys((*known, *rules))
        write_approvals(path, project, {"allow": [str(rule) for rule in merged]})


def read_approvals(
    path: Path, decode: Callable[[Mapping[str, Any]], tuple[One, ...]], without: str
) -> tuple[tuple[One, ...], str]:
    """The content of one approvals file, and what was wrong with it, if anything. A damaged file is
    set aside; `without` says what applies then. Never raises."""
    try:
        document = opened(json.loads(path.read_bytes()))
        if document["version"] != 1:
            raise ValueError(f"version {document['version']!r}")
        return decode(document), ""
    except FileNotFoundError:
        return (), ""
    except OSError as error:
        return (), f"Could not read {path} ({error.strerror}): {without}."
    except (ValueError, TypeError, KeyError, AttributeError, ConfigError, RecursionError) as error:
        damage = error
    try:
        aside = durable.set_aside(path)
    except StorageError as problem:
        return (), f"{path} is damaged ({damage}), so {without}. {problem}"
    kept = f"{path} was damaged ({damage}). It is saved as {aside.name}"
    return (), f"{kept}; {without} until you approve again."


def write_approvals(path: Path, project: Path, items: Mapping[str, Any]) -> None:
    """Replaces an approvals file; the caller holds the folder's lock. Raises: StorageError."""
    document = sealed_object({"version": 1, "project": str(project), **items})
    durable.replace(path, json.dumps(document, indent=2).encode() + b"\n")


def _decode(document: Mapping[str, Any]) -> tuple[Rule, ...]:
    if not isinstance(document["allow"], list):
        raise ValueError("not a list of rules")
    return tuple(parse(text) for text in document["allow"])
