"""`kode memory why`: the chain of an entry, in words."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from kode import credentials
from kode.errors import MemoryRefused
from kode.memory import source
from kode.memory.base import BaseMemory
from kode.memory.change import Change
from kode.memory.ledger import Fate, Statement
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
_BY = {
    "user": "you",
    "model": "the model",
    "extraction": "a model that summed up",
    "consolidation": "a model that consolidated",
    "merge": "a model that judged two entries",
    "import": "an import",
    "client": "another agent",
}


def why(system: BaseMemory, wanted: str) -> str:
    """The chain of one entry, or the list of those that `wanted` may mean. Raises: MemoryRefused if
    there is none."""
    entries = find(system.entries(), wanted)
    if len(entries) > 1:
        listed = (f"  {one}" for one in first_of([*map(_named, entries)], LISTED))
        head = f"{len(entries)} entries hold {wanted!r}. Give more of the one you mean:"
        return "\n".join([head, *listed])
    if entries:
        return in_words(system.ledger.statement(entries[0]), system.project)
    if past := _past(system, wanted):
        return past
    for change in system.history.find(wanted):
        if change.system == system.name and not change.undoes:
            after = system.sides(change)[1]
            began = (Statement(entry=entry, change=change) for entry in after[:LISTED])
            texts = [in_words(one, system.project) for one in began]
            return "\n\n".join(texts) or describe(change)
    raise MemoryRefused(
        f"No entry holds {wanted!r}, and no change has that id. `kode memory show` lists the "
        "entries, `kode memory log` the changes."
    )


def _past(system: BaseMemory, wanted: str) -> str:
    """The chain of the latest former entry with these words, and what became of it; "" if there was
    none."""
    for one in system.ledger.ended():
        fate = one.fate
        if fate is not None and find([one.entry], wanted):
            return f"{in_words(one, system.project)}\n{ended(fate)}: {describe(fate.change)}"
    return ""


def ended(fate: Fate) -> str:
    """What became of an entry, in a few words."""
    into = "; ".join(map(quoted, fate.into))
    return f"superseded by {into}" if into else "no longer there"


def in_words(statement: Statement, project: Path) -> str:
    """A chain, the newest link first, with the sources of each indented below it. Paths of code are
    relative to `project`."""
    seen: list[Statement] = []
    lines = [*_lines(statement, project, 0, seen)]
    changes = (one.change for one in seen if one.change is not None)
    sessions = dict.fromkeys(one.session for one in changes if one.session and not one.person)
    lines += [f"open: kode session show {session}" for session in sessions]
    return "\n".join(lines)


def describe(change: Change) -> str:
    """One change on a line: what, by whom, when and where."""
    when = change.at[:16].replace("T", " ")
    by = _BY.get(change.who, change.who) + change.whose
    if change.whose and change.who == "user":
        by = f"{change.person} on {change.host}"
    turn = f" turn {change.turn}" if change.turn else ""
    session = f", session {change.session}{turn}" if change.session else ""
    return f"{change.kind} {change.id} by {by}, {when} UTC{session}"


def _lines(one: Statement, project: Path, depth: int, seen: list[Statement]) -> Iterator[str]:
    indent = "    " * depth
    yield f"{indent}{_named(one.entry) if not depth else quoted(one.entry)}"
    change = one.change
    if change is None:
        yield f"{indent}  {NOT_RECORDED}"
        return
    yield f"{indent}  {describe(change)}"
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


def _named(entry: Entry) -> str:
    id = f"{entry.id}  " if entry.id else ""
    return f"{id}{quoted(entry)}  ·  {entry.target}"


def quoted(entry: Entry) -> str:
    """Its text on one line, credentials masked."""
    return f'"{shorten(credentials.redact(entry.text), TEXT_CHARS)}"'
