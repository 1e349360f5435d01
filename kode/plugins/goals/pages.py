"""What `kode view` shows of goals: on the page of a session, each with its attempts."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kode.plugin import FileChanges, Page, Place, paths, read_session, session_path
from kode.plugin.entries import AnyEntry, PluginEntry, TurnEntry
from kode.plugins.goals.changes import changed_by
from kode.plugins.goals.state import TYPE, Goal, Record, goals_of


def goals(place: Place, query: Mapping[str, str]) -> tuple[str, Mapping[str, object]]:
    """The goals of a session. Raises: SessionError, StorageError."""
    header, entries, _ = read_session(session_path(place.home, query["id"]))
    past = FileChanges.of_session(paths.session_folder(place.home, query["id"]))
    root = paths.project_root(Path(header.cwd))
    found = goals_of(_records(entries))
    for goal in found:
        goal.attempts = [{**one, "diffs": list(_diffs(past, one, root))} for one in goal.attempts]
    return "goals.html", {"goals": [(goal, _total(goal)) for goal in found]}


def _records(entries: Iterable[AnyEntry]) -> Iterator[Record]:
    """The records of goals; an attempt with the `last` of its turns."""
    number = 0
    for entry in entries:
        if isinstance(entry, TurnEntry):
            number = entry.number
        elif isinstance(entry, PluginEntry) and entry.type == TYPE:
            is_attempt = "attempt" in entry.value
            yield {**entry.value, "last": number} if is_attempt else entry.value


def _diffs(past: FileChanges, attempt: Record, root: Path) -> Iterator[tuple[str, list[Any]]]:
    """Each file that an attempt changed, with (sign, line) of its diff."""
    for one in changed_by(past, attempt["turn"], attempt["last"], root):
        lines = [("@", "") if line[0] == "@" else (line[0], line[1:]) for line in one.diff(3)]
        yield one.path, lines[2:]


def _total(goal: Goal) -> Mapping[str, Any]:
    """What a goal has cost, its review included; `cost_usd` is None where a part is unknown."""
    parts = [*goal.attempts, *([goal.reviewed] if goal.reviewed is not None else ())]
    costs = [one["cost_usd"] for one in parts]
    return {
        "requests": sum(one["requests"] for one in parts),
        "cost_usd": None if None in costs else sum(costs),
        "seconds": sum(one["seconds"] for one in parts),
    }


PAGES = (Page(path="/sessions/{id}/goals", show=goals),)
