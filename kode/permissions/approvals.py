"""Stores a person's permanent approvals, one file per project, under `$KODE_HOME`. `decide` says
when to ask; rules that the user wrote are in the config."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeVar

from kode import durable, paths
from kode.errors import ConfigError, StorageError
from kode.permissions.modes import StandingRule
from kode.permissions.rules import Rule, Rules, parse
from kode.record_log import seal_object, unseal_object

One = TypeVar("One")


@dataclass(frozen=True, kw_only=True)
class Approval:
    """A lasting yes of a person. Once removed it allows nothing, and can be restored."""

    rule: Rule
    at: str = ""
    """When it was given (ISO 8601)."""
    removed: bool = False

    @property
    def id(self) -> str:
        """Names it in a command."""
        return id_of(str(self.rule))


def id_of(rule: str) -> str:
    """The id of a rule's approval: the same in any session."""
    return hashlib.sha256(rule.encode()).hexdigest()[:4]


def load(home: Path, project: Path) -> tuple[tuple[Approval, ...], str]:
    """The approvals of a project, and a sentence about a problem with the file, if any.

    A damaged file is set aside, and saved approvals are ignored. Never raises.
    """
    path = paths.permissions_file(home, project)
    return read_approvals(path, _decode, "saved approvals are ignored")


def change(
    home: Path, project: Path, *, give: Sequence[Rule] = (), remove: Sequence[Rule] = ()
) -> None:
    """Gives approvals (again, if they were removed) and removes others, durably, keeping those that
    another kode gave meanwhile.

    Raises: StorageError, for a damaged file too, which is set aside; BusyError.
    """
    path = paths.permissions_file(home, project)
    with durable.locked(path.parent):
        known, problem = load(home, project)
        if problem:
            raise StorageError(problem)
        every = changed(known, give=give, remove=remove)
        items = {
            "allow": [str(one.rule) for one in every if not one.removed],
            "removed": [str(one.rule) for one in every if one.removed],
            "at": {str(one.rule): one.at for one in every if one.at},
        }
        write_approvals(path, project, items)


def changed(
    known: Sequence[Approval], *, give: Sequence[Rule] = (), remove: Sequence[Rule] = ()
) -> tuple[Approval, ...]:
    """The approvals after a change, in their order; new ones last."""
    every = {one.rule: one for one in known}
    for rule in remove:
        if rule in every:
            every[rule] = replace(every[rule], removed=True)
    for rule in give:
        if rule not in every or every[rule].removed:
            every[rule] = Approval(rule=rule, at=datetime.now(UTC).isoformat(timespec="seconds"))
    return tuple(every.values())


def change_named(
    home: Path, project: Path, *, remove: str = "", restore: str = "", give: str = ""
) -> None:
    """As `asked_for` and `change`. Raises: ConfigError; StorageError, BusyError."""
    known, problem = load(home, project)
    if problem:
        raise StorageError(problem)
    added, removed = asked_for(known, remove=remove, restore=restore, give=give)
    change(home, project, give=added, remove=removed)


def asked_for(
    known: Sequence[Approval], *, remove: str = "", restore: str = "", give: str = ""
) -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
    """The rules to give and to remove; `remove` and `restore` name an approval by its id or rule.
    Raises: ConfigError where there is none, or for a bad rule."""
    given = [parse(give)] if give else []
    given += [_named(known, restore, removed=True)] if restore else []
    return tuple(given), (_named(known, remove, removed=False),) if remove else ()


def _named(known: Sequence[Approval], name: str, *, removed: bool) -> Rule:
    among = [one for one in known if one.removed is removed]
    for one in among:
        if name in (one.id, str(one.rule)):
            return one.rule
    state = "was removed" if removed else "counts"
    there = ", ".join(f"{one.id} {one.rule}" for one in among) or "none"
    raise ConfigError(f"No approval {name!r} {state} in this project. Those are: {there}.")


def standing(
    rules: Rules, session: Sequence[Approval], saved: Sequence[Approval]
) -> tuple[StandingRule, ...]:
    """Every rule that counts, and the approvals that were removed."""

    def answers(
        given: Sequence[Approval], source: Literal["session", "project"]
    ) -> list[StandingRule]:
        return [
            StandingRule("allow", str(one.rule), source, one.id, one.at, one.removed)
            for one in given
        ]

    return (
        *(StandingRule("deny", str(rule), "settings") for rule in rules.deny),
        *(StandingRule("ask", str(rule), "settings") for rule in rules.ask),
        *(StandingRule("allow", str(rule), "settings") for rule in rules.allow),
        *answers(session, "session"),
        *answers(saved, "project"),
    )


def read_approvals(
    path: Path, decode: Callable[[Mapping[str, Any]], tuple[One, ...]], without: str
) -> tuple[tuple[One, ...], str]:
    """The content of one approvals file, and what was wrong with it, if anything. A damaged file is
    set aside; `without` says what applies then. Never raises."""
    try:
        document = unseal_object(json.loads(path.read_bytes()))
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
    document = seal_object({"version": 1, "project": str(project), **items})
    durable.replace(path, json.dumps(document, indent=2).encode() + b"\n")


def _decode(document: Mapping[str, Any]) -> tuple[Approval, ...]:
    at = document.get("at", {})
    found = {}
    for key, removed in (("allow", False), ("removed", True)):
        if not isinstance(texts := document.get(key, [] if removed else None), list):
            raise ValueError(f"{key} is not a list of rules")
        for text in texts:
            rule = parse(text)
            found[rule] = Approval(rule=rule, at=str(at.get(text, "")), removed=removed)
    return tuple(found.values())
