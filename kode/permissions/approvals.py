"""Stores a person's permanent approvals, one file per project, under `$KODE_HOME`. `decide` says
when to ask; rules that the user wrote are in the config."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeVar

from kode import durable, paths
from kode.errors import ConfigError, StorageError
from kode.permissions.rules import Rule, Rules, parse
from kode.values import Value, replace

Item = TypeVar("Item")
AnswerSource = Literal["session", "project"]


class StandingRule(Value):
    """A rule of the settings, or a person's lasting approval. A removed approval allows nothing; it
    can be restored."""

    rule: Rule
    effect: Literal["deny", "ask", "allow"] = "allow"
    source: Literal["settings", "session", "project"] = "project"
    at: str = ""
    """When the approval was given (ISO 8601); "" for a rule of the settings."""
    removed: bool = False

    @property
    def id(self) -> str:
        """Identifies an approval in commands; "" for a rule of the settings."""
        return "" if self.source == "settings" else rule_id(str(self.rule))


Approvals = tuple[StandingRule, ...]


def rule_id(rule: str) -> str:
    """The id of a rule's approval: the same in any session."""
    return hashlib.sha256(rule.encode()).hexdigest()[:4]


def load_approvals(home: Path, project: Path) -> tuple[Approvals, str]:
    """The approvals of a project, and a sentence about a problem with the file, if any.

    A damaged file is set aside, and its approvals are ignored. Never raises.
    """
    path = paths.permissions_file(home, project)
    return read_approvals(path, _decode_approvals, "saved approvals are ignored")


def change(home: Path, project: Path, update: Callable[[Approvals], Approvals]) -> None:
    """Changes a project's approvals durably, under a lock against other processes of kode.

    Raises: StorageError, also for a damaged file, which is set aside; BusyError; what `update`
    raises.
    """
    path = paths.permissions_file(home, project)
    with durable.hold_lock(path.parent):
        saved, problem = load_approvals(home, project)
        if problem:
            raise StorageError(problem)
        rows = [{"rule": str(it.rule), "at": it.at, "removed": it.removed} for it in update(saved)]
        write_approvals(path, project, {"rules": rows})


def add_rules(
    approvals: Approvals, rules: Iterable[Rule], source: AnswerSource = "project"
) -> Approvals:
    """Returns the approvals with these rules added last; a removed one is given again."""
    by_rule = {approval.rule: approval for approval in approvals}
    at = datetime.now(UTC).isoformat(timespec="seconds")
    for rule in rules:
        if rule not in by_rule or by_rule[rule].removed:
            by_rule[rule] = StandingRule(rule=rule, at=at, source=source)
    return tuple(by_rule.values())


def change_named(
    approvals: Approvals, *, remove: str = "", restore: str = "", source: AnswerSource = "project"
) -> Approvals:
    """Returns the approvals with the one that matches this id or rule removed, or restored. Raises:
    ConfigError if none matches."""
    name, candidates = remove or restore, [it for it in approvals if it.removed is not bool(remove)]
    match = next((it for it in candidates if name in (it.id, str(it.rule))), None)
    if match is None:
        names = ", ".join(f"{approval.id} {approval.rule}" for approval in candidates)
        kind, listed = "saved" if remove else "removed", f" There are: {names}." if names else ""
        raise ConfigError(f"No {kind} approval {name!r}.{listed}")
    if restore:
        return add_rules(approvals, [match.rule], source)
    return tuple(replace(it, removed=True) if it == match else it for it in approvals)


def find_standing(rules: Rules) -> tuple[StandingRule, ...]:
    """The rules of the settings as standing rules: deny, then ask, then allow."""
    effects: tuple[Literal["deny", "ask", "allow"], ...] = ("deny", "ask", "allow")
    pairs = [(effect, rule) for effect in effects for rule in getattr(rules, effect)]
    return tuple(StandingRule(rule=it, effect=effect, source="settings") for effect, it in pairs)


def read_approvals(
    path: Path, decode: Callable[[Mapping[str, Any]], tuple[Item, ...]], without: str
) -> tuple[tuple[Item, ...], str]:
    """Returns the content of an approvals file, and a sentence about a problem with it, or "". A
    damaged file is set aside; `without` says what applies instead. Never raises."""
    try:
        document = durable.unseal_object(json.loads(path.read_bytes()))
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
        aside = f"It is saved as {durable.set_aside(path).name}"
    except StorageError as problem:
        aside = str(problem)
    return (), f"{path} was damaged ({damage}). {aside}; {without} until you approve again."


def write_approvals(path: Path, project: Path, items: Mapping[str, Any]) -> None:
    """Replaces an approvals file; the caller holds the folder's lock. Raises: StorageError."""
    document = durable.seal_object({"version": 1, "project": str(project), **items})
    durable.replace_file(path, json.dumps(document, indent=2).encode() + b"\n")


def _decode_approvals(document: Mapping[str, Any]) -> Approvals:
    rows = [(parse(it["rule"]), str(it["at"]), it["removed"] is True) for it in document["rules"]]
    return tuple(StandingRule(rule=rule, at=at, removed=removed) for rule, at, removed in rows)
