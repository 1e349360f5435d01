"""`kode memory why`: the history of one entry, in words."""

from collections.abc import Iterator, Sequence
from functools import partial

from kode.credentials import redact
from kode.errors import MemoryRefused
from kode.memory.fold import Entry
from kode.memory.statement import AUTHORS, Change, Statement
from kode.memory.store import quoted
from kode.memory.system import Memory
from kode.messages import shorten

TEXT_CHARS = 160  # two lines of a terminal
QUOTE_CHARS = 200  # a sentence or two
MAX_LINKS = 60
"""Limit of the older versions that are shown; the rest is in the log."""
MAX_LISTED = 10  # more is a reason to ask again
_CODE = {"unchanged": "unchanged since", "changed": "changed since", "gone": "no longer there"}
_quoted = partial(quoted, max_chars=TEXT_CHARS)


def why(memory: Memory, words: Sequence[str]) -> str:
    """The history of the entry that an id or a part of its text means, current or not; or the list
    of those that it may mean. Raises: MemoryRefused if there is none."""
    view, text = memory.store.view(), " ".join(words).strip()
    ended = [entry for entry in view.entries.values() if not entry.is_alive]
    entries = (
        view.find(text)
        or [entry for entry in ended if text in (entry.statement.id, entry.change.id)]
        or [entry for entry in ended if text in entry.statement.text][-1:]
    )
    if len(entries) == 1:
        return history(memory, entries[0])
    if entries:
        listed = [f"  {_describe(memory, entry.statement)}" for entry in entries[:MAX_LISTED]]
        return "\n".join((f"{len(entries)} entries contain {text!r}. Give an id:", *listed))
    raise MemoryRefused(
        f"No entry contains {text!r}. `kode memory show` lists the entries, `kode memory log` the "
        "changes."
    )


def history(memory: Memory, entry: Entry) -> str:
    """An entry with all that it replaced, newest first, and what became of it."""
    view, id = memory.store.view(), entry.statement.id
    chain = view.chain(id)[::-1][:MAX_LINKS]
    lines = [line for link in chain for line in _link(memory, link)]
    if entry.end:
        heirs = ", ".join(_quoted(heir.statement) for heir in view.successors(id))
        lines.append(f"ended by {_when(entry.end)}{f': replaced by {heirs}' if heirs else ''}")
    for first, second in view.conflicts():
        if id == first.id:
            lines.append(f"in conflict with {_quoted(second)}: it does not count yet")
        elif id == second.id:
            lines.append(f"in conflict with {_quoted(first)}: it counts until you decide")
    return "\n".join(lines)


def _link(memory: Memory, entry: Entry) -> Iterator[str]:
    statement = entry.statement
    yield _describe(memory, statement)
    at, claimed_at = _minute(entry.change.at), _minute(statement.claimed_at)
    yield f"  {_when(entry.change)}{f', said {claimed_at}' if claimed_at != at else ''}"
    if statement.quote:
        yield f'  your words: "{shorten(redact(statement.quote), QUOTE_CHARS)}"'
    if statement.source:
        state = memory.store.code_state(statement)
        yield f"  from {statement.source}{f', {_CODE[state]}' if state else ''}"
    for word, day in (("since", statement.since), ("until", statement.until)):
        if day:
            yield f"  holds {word} {day}"
    yield from (f"  {_when(change)}" for change in entry.amendments)
    if entry.change.reason:
        yield f"  {entry.change.reason}"


def _describe(memory: Memory, statement: Statement) -> str:
    return f"{statement.id} [{memory.layout.label(statement.place)}] {_quoted(statement)}"


def _when(change: Change) -> str:
    """Who made a change and when: `add by the model, 2026-03-01 12:00 UTC, session ... turn 2`."""
    turn = f" turn {change.turn}" if change.turn else ""
    session = f", session {change.session}{turn}" if change.session else ""
    return f"{change.kind} by {change.origin or AUTHORS[change.who]}, {_minute(change.at)}{session}"


def _minute(at: str) -> str:
    return f"{at[:16].replace('T', ' ')} UTC"
