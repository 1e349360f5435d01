"""`kode memory why`: the chain of an entry, in words."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from kode import credentials
from kode.errors import MemoryRefused
from kode.memory import source
from kode.memory.base import BaseMemory
from kode.memory.change import Change, by, when
from kode.memory.ledger import Statement
from kode.memory.lineage import Entry, find
from kode.messages import first_of, shorten

LISTED = 10
TEXT_CHARS = 160
WORDS_CHARS = 200
MAX_LINKS = 60
"""Limit of links shown of one chain; the rest is in the log."""
NOT_RECORDED = "not recorded: written by hand, or before kode kept a history"

_STATES: Mapping[source.State, str] = {
    "unchanged": "unchanged since",
    "changed": "changed since",
    "gone": "no longer there",
}

_MADE_OF = {"supersede": "in place of", "replace": "in place of"}


def why(system: BaseMemory, wanted: str) -> str:
    """The chain of one entry, or the list of those that `wanted` may mean. Raises: MemoryRefused if
    there is none."""
    entries = find(system.entries(), wanted)
    if len(entries) > 1:
        listed = (f"  {one}" for one in first_of([*map(named, entries)], LISTED))
        head = f"{len(entries)} entries hold {wanted!r}. Give more of the one you mean:"
        return "\n".join([head, *listed])
    if entries:
        return in_words(system.ledger.statement(entries[0]), system.project)
    for one in system.ledger.ended():
        if find([one.entry], wanted):
            return f"{in_words(one, system.project)}\n{ended(one)}"
    for change in system.history.find(wanted):
        return _by_id(system, change)
    raise MemoryRefused(
        f"No entry holds {wanted!r}, and no change has that id. `kode memory show` lists the "
        "entries, `kode memory log` the changes."
    )


def _by_id(system: BaseMemory, change: Change) -> str:
    """What a change began, and whether it was undone."""
    is_of_entries = change.system == system.name and not change.undoes
    after = system.sides(change)[1][:LISTED] if is_of_entries else ()
    began = (Statement(entry=entry, change=change) for entry in after)
    texts = "\n\n".join(in_words(one, system.project) for one in began) or described(change)
    undone = system.history.lines().undo_of(change)
    return f"{texts}\nundone: {described(undone)}" if undone else texts


def ended(one: Statement) -> str:
    """What became of a statement that holds no more, and by which change."""
    into = "; ".join(quoted(new.entry) for new in one.into)
    fate = f"superseded by {into}" if into else "no longer there"
    return f"{fate}: {described(one.ended)}"


def in_words(statement: Statement, project: Path) -> str:
    """A chain, the newest link first, with the sources of each indented below it. Paths of code are
    relative to `project`."""
    seen: list[Statement] = []
    lines = [*_lines(statement, project, 0, seen)]
    changes = (one.change for one in seen if one.change is not None)
    sessions = dict.fromkeys(one.session for one in changes if one.session and not one.person)
    lines += [f"open: kode session show {session}" for session in sessions]
    return "\n".join(lines)


def described(change: Change | None) -> str:
    """One change on a line: what, by whom, when and where."""
    if change is None:
        return NOT_RECORDED
    return f"{change.kind} {change.id} by {by(change)}, {when(change)}"


def _lines(one: Statement, project: Path, depth: int, seen: list[Statement]) -> Iterator[str]:
    indent = "    " * depth
    yield f"{indent}{named(one.entry) if not depth else quoted(one.entry)}"
    change = one.change
    yield f"{indent}  {described(change)}"
    if change is None:
        return
    if change.words:
        words = shorten(credentials.redact(change.words), WORDS_CHARS)
        yield f'{indent}  {change.person or "you"} had asked: "{words}"'
    if change.source:
        state = source.state(project, change.source, change.source_hash)
        yield f"{indent}  from {change.source}" + (f" ({_STATES[state]})" if state else "")
    if change.since:
        yield f"{indent}  holds since {change.since}"
    if change.until:
        yield f"{indent}  holds until {change.until}"
    if one in seen or len(seen) >= MAX_LINKS:
        return
    seen.append(one)
    if one.made_of:
        yield f"{indent}  {_MADE_OF.get(change.kind, 'made of')}:"
    for parent in one.made_of:
        yield from _lines(parent, project, depth + 1, seen)


def named(entry: Entry) -> str:
    """An entry in its place, on one line."""
    id = f"{entry.id}  " if entry.id else ""
    return f"{id}{quoted(entry)}  ·  {entry.target}"


def quoted(entry: Entry) -> str:
    """Its text on one line, credentials masked."""
    return f'"{shorten(credentials.redact(entry.text), TEXT_CHARS)}"'
