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
    view, text = memory.store.view(), " ".join(words)
    entries = view.find(text)
    if not entries:
        every = (entry for entry in view.entries.values() if not entry.is_alive)
        entries = [entry for entry in every if text in (entry.statement.id, entry.change.id)]
        if not entries:
            ended = (entry for entry in view.entries.values() if not entry.is_alive)
            entries = [entry for entry in ended if text.strip() in entry.statement.text][-1:]
    if len(entries) == 1:
        return history(memory, entries[0])
    if entries:
        listed = [f"  {describe(memory, entry.statement)}" for entry in entries[:MAX_LISTED]]
        return "\n".join((f"{len(entries)} entries contain {text!r}. Give an id:", *listed))
    raise MemoryRefused(
        f"No entry contains {text!r}. `kode memory show` lists the entries, `kode memory log` the "
        "changes."
    )


def describe(memory: Memory, statement: Statement) -> str:
    """An entry with its id and place, on one line."""
    label = memory.layout.label(statement.place)
    return f"{statement.id} [{label}] {_quoted(statement)}"


def history(memory: Memory, entry: Entry) -> str:
    """An entry with all that it replaced, newest first, and what became of it."""
    view = memory.store.view()
    chain = view.chain(entry.statement.id)[::-1]
    lines = [line for link in chain[:MAX_LINKS] for line in _link(memory, link)]
    if entry.end is not None:
        heirs = [_quoted(heir.statement) for heir in view.successors(entry.statement.id)]
        by = f": replaced by {', '.join(heirs)}" if heirs else ""
        lines.append(f"ended by {when(entry.end)}{by}")
    for first, second in view.conflicts():
        if entry.statement.id in (first.id, second.id):
            other = second if entry.statement.id == first.id else first
            counts = "counts until you decide" if other is second else "does not count yet"
            lines.append(f"in conflict with {_quoted(other)}: it {counts}")
    return "\n".join(lines)


def when(change: Change) -> str:
    """Who made a change and when: `the model, 2026-03-01 12:00 UTC, session ... turn 2`."""
    turn = f" turn {change.turn}" if change.turn else ""
    session = f", session {change.session}{turn}" if change.session else ""
    return f"{change.kind} by {change.origin or AUTHORS[change.who]}, {_minute(change.at)}{session}"


def _link(memory: Memory, entry: Entry) -> Iterator[str]:
    statement = entry.statement
    yield describe(memory, statement)
    at, claimed_at = _minute(entry.change.at), _minute(statement.claimed_at)
    yield f"  {when(entry.change)}{f', said {claimed_at}' if claimed_at != at else ''}"
    if statement.quote:
        yield f'  your words: "{shorten(redact(statement.quote), QUOTE_CHARS)}"'
    if statement.source:
        state = memory.store.code_state(statement)
        yield f"  from {statement.source}{f', {_CODE[state]}' if state else ''}"
    days = (("since", statement.since), ("until", statement.until))
    if period := [f"{word} {day}" for word, day in days if day]:
        yield f"  holds {', '.join(period)}"
    for change in entry.amendments:
        yield f"  {when(change)}"
    if entry.change.reason:
        yield f"  {entry.change.reason}"


def _minute(at: str) -> str:
    return f"{at[:16].replace('T', ' ')} UTC"
