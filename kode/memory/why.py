"""`kode memory why`: the chain of an entry, in words."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from kode import credentials
from kode.errors import MemoryRefused
from kode.memory import source
from kode.memory.history import Change
from kode.memory.lineage import Chain, Entry, Link, Traced, find, steps, trace
from kode.messages import shorten

LISTED = 10
TEXT_CHARS = 160
NOT_RECORDED = "not recorded: written by hand, or before kode kept a history"

_STATES: Mapping[source.State, str] = {
    "unchanged": "unchanged since",
    "changed": "changed since",
    "gone": "no longer there",
}

_BY = {
    "user": "you",
    "model": "the model",
    "extraction": "a model that summed up",
    "consolidation": "a model that consolidated",
    "merge": "a model that judged two entries",
    "import": "an import",
    "client": "another agent",
}


def why(system: Traced, wanted: str) -> str:
    """The chain of one entry, or the list of those that `wanted` may mean. Raises: MemoryRefused
    when there is none."""
    entries = find(system.entries(), wanted)
    if len(entries) > 1:
        listed = [f"  {_named(entry)}" for entry in entries[:LISTED]]
        more = [f"  ... and {len(entries) - LISTED} more"] if len(entries) > LISTED else []
        head = f"{len(entries)} entries hold {wanted!r}. Give more of the one you mean:"
        return "\n".join([head, *listed, *more])
    if entries:
        return in_words(trace(system, entries[0]), system.project)
    if past := _past(system, wanted):
        return past
    for change in system.history.find(wanted):
        if change.system == system.name and not change.undoes:
            after = system.sides(change)[1]
            links = (Link(entry=entry, change=change) for entry in after[:LISTED])
            texts = [in_words(link, system.project) for link in links]
            return "\n\n".join(texts) or describe(change)
    raise MemoryRefused(
        f"No entry holds {wanted!r}, and no change has that id. `kode memory show` lists the "
        "entries, `kode memory log` the changes."
    )


def _past(system: Traced, wanted: str) -> str:
    """The chain of the latest entry that held these words and stands no more, with what became of
    it; "" when there was none."""
    found = steps(system)
    for at in range(len(found) - 1, -1, -1):
        gone = [entry for entry in found[at].lost if find([entry], wanted)]
        if not gone:
            continue
        chain = Chain(found)
        link = chain.link(gone[-1], at) or Link(entry=gone[-1], change=None)
        made = [to for to, of in found[at].made.items() if gone[-1] in of]
        after = {entry.place: entry for entry in system.sides(found[at].change)[1]}
        into = "; ".join(quoted(after[place]) for place in made)
        fate = f"superseded by {into}" if into else "no longer there"
        return f"{in_words(link, system.project)}\n{fate}: {describe(found[at].change)}"
    return ""


def in_words(link: Link, project: Path) -> str:
    """A chain, the newest link first, what each was made of indented below it. `project` is what
    paths of code are relative to."""
    lines = [*_lines(link, project, 0)]
    sessions = dict.fromkeys(_sessions(link))
    lines += [f"open: kode session show {session}" for session in sessions]
    return "\n".join(lines)


def describe(change: Change) -> str:
    """One change on a line: what, by whom, when and where."""
    when = change.at[:16].replace("T", " ")
    by = _BY.get(change.who, change.who)
    turn = f" turn {change.turn}" if change.turn else ""
    session = f", session {change.session}{turn}" if change.session else ""
    return f"{change.kind} {change.id} by {by}, {when} UTC{session}"


def _lines(link: Link, project: Path, depth: int) -> Iterator[str]:
    indent = "    " * depth
    yield f"{indent}{_named(link.entry) if not depth else quoted(link.entry)}"
    change = link.change
    if change is None:
        yield f"{indent}  {NOT_RECORDED}"
        return
    yield f"{indent}  {describe(change)}"
    if change.words:
        yield f'{indent}  you had asked: "{credentials.redact(change.words)}"'
    if change.source:
        state = source.state(project, change.source, change.source_hash)
        yield f"{indent}  from {change.source}" + (f" ({_STATES[state]})" if state else "")
    if change.until:
        yield f"{indent}  holds until {change.until}"
    if link.made_of:
        yield f"{indent}  made of:"
    for parent in link.made_of:
        yield from _lines(parent, project, depth + 1)


def _sessions(link: Link) -> Iterator[str]:
    if link.change is not None and link.change.session:
        yield link.change.session
    for parent in link.made_of:
        yield from _sessions(parent)


def _named(entry: Entry) -> str:
    id = f"{entry.id}  " if entry.id else ""
    return f"{id}{quoted(entry)}  ·  {entry.target}"


def quoted(entry: Entry) -> str:
    """Its text on one line, credentials masked."""
    return f'"{shorten(credentials.redact(entry.text), TEXT_CHARS)}"'
