"""What a person is shown of memory, in any system: `show`, `status`, `log`, `why`; and an overview
for plug-ins."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from kode.credentials import redact
from kode.errors import MemoryRefused
from kode.memory.contract import MemorySystem
from kode.memory.fold import DAMAGE, LAYOUT, Entry
from kode.memory.frame import suspicion
from kode.memory.markdown import display
from kode.memory.remarks import remarks
from kode.memory.review import Item, items
from kode.memory.statement import AUTHORS, Change, Statement
from kode.memory.store import quoted
from kode.memory.system import Memory, statements_of
from kode.messages import first_of, plural, shorten

LATEST = 5
"""How many notes on sessions `show` lists."""
NOTE_CHARS = 300  # three lines of a terminal
TEXT_CHARS = 100  # a line of a terminal
MAX_TEXTS = 5
"""Of one change in the log."""
MAX_LINKS = 60
"""Limit of the older versions that `why` shows; the rest is in the log."""
MAX_LISTED = 10  # more is a reason to ask again
_CODE = {"unchanged": "unchanged since", "changed": "changed since", "gone": "no longer there"}
_quoted = partial(quoted, max_chars=160)  # two lines of a terminal


def show(memory: Memory) -> str:
    """Every entry of this project with its id, origin, and what speaks against it."""
    view, doubts = memory.store.view(), remarks(memory.store, memory.today())
    sections = list[list[str]]()
    for place in memory.store.fact_places():
        if facts := view.in_place(place):
            fill = memory.fill(place) or memory.layout.label(place)
            path = f" · {memory.store.root / place}" if memory.layout.format_of(place) else ""
            lines = [line for fact in facts for line in _entry(fact, doubts.get(fact.id, ""))]
            sections.append([f"{fill}{path}", *lines])
    if notes := memory.notes():
        latest = notes[: -LATEST - 1 : -1]
        lines = [line for note in latest for line in _entry(note, "", NOTE_CHARS)]
        sections.append([f"session notes, the latest of {len(notes)}", *lines])
    return "\n\n".join(map("\n".join, sections)) or "Nothing is remembered yet."


def _entry(statement: Statement, doubt: str, max_chars: int = 0) -> Iterator[str]:
    text = redact(display(statement.text))
    text = shorten(text, max_chars) if max_chars else text.replace("\n", "\n    ")
    yield f"  - {text}"
    origin = (
        statement.id,
        AUTHORS[statement.who],
        statement.claimed_at[:10],
        statement.source and f"from {statement.source}",
        statement.since and f"since {statement.since}",
        statement.until and f"until {statement.until}",
    )
    yield f"    ({', '.join(filter(None, origin))})"
    what = suspicion(statement.text)
    remarks = (
        doubt,
        "no model sees it" if statement.private else "",
        "archived: in no prompt" if statement.state == "archived" else "",
        what and f"this looks like {what}: check it",
    )
    yield from (f"    ({remark})" for remark in remarks if remark)


async def status(memory: Memory) -> str:
    """Which system it is, how full it is, and what is pending."""
    lines = [f"system: {memory.name}", f"folder: {memory.store.root}"]
    for place in memory.store.fact_places():
        if facts := memory.store.view().in_place(place):
            label = memory.layout.label(place)
            fill = memory.fill(place).replace(f"{label}: ", ", ", 1)
            lines.append(f"{label}: {plural(len(facts), 'entry', 'entries')}{fill}")
    counts = Counter(item.heading for item in await items(memory))
    pending, notes = len(memory.pending.sessions()), len(memory.notes())
    more = (
        notes and f"session notes: {notes}",
        pending and f"not finished with: {plural(pending, 'session')} (done at the next start)",
    )
    lines += [line for line in more if line]
    lines += [f"{heading}: {n} (`kode memory review`)" for heading, n in counts.items()]
    return "\n".join((*lines, *await memory.policy.status(memory)))


def list_changes(memory: Memory, count: int) -> str:
    """The last changes of this system, newest last, each with what it did and whether it was
    undone."""
    changes = [
        change
        for change in memory.store.log.changes()
        if change.system == memory.name and change.kind != LAYOUT
    ]
    effective = {change.id for change in memory.store.view().changes}
    undone = {change.undoes: f"  [undone by {change.id}]" for change in changes if change.undoes}
    statements = {new.id: new for change in changes for new in change.add}
    lines = list[str]()
    for change in changes[-max(1, count) :]:
        gone = [statements[id] for id in change.end if id in statements]
        new = [*change.add, *(statements[id] for id in change.set if id in statements)]
        places = ", ".join(dict.fromkeys(memory.layout.label(e.place) for e in (*gone, *new)))
        sides = [
            [shorten(redact(display(e.text)), TEXT_CHARS) for e in side] for side in (gone, new)
        ]
        texts = " → ".join("; ".join(first_of(side, MAX_TEXTS)) for side in sides if side)
        author, when = change.origin or AUTHORS[change.who], _minute(change.at)
        kind = f"{change.kind} {places}" if places else change.kind
        mark = "" if change.id in effective else undone.get(change.id, "")
        what = ": ".join(filter(None, (kind, texts or change.undoes, change.reason)))
        lines.append(f"{change.id}  {when}  {author}  {what}{mark}")
    return "\n".join(lines) or "Nothing has changed yet."


def why(memory: Memory, words: Sequence[str]) -> str:
    """The history of the entry that an id or a part of its text means, current or not: all that it
    replaced, newest first, and what became of it; or the list of those that it may mean. Raises:
    MemoryRefused if there is none."""
    view, text = memory.store.view(), " ".join(words).strip()
    ended = [entry for entry in view.entries.values() if not entry.is_alive]
    entries = (
        view.find(text)
        or [entry for entry in ended if text in (entry.statement.id, entry.change.id)]
        or [entry for entry in ended if text in entry.statement.text][-1:]
    )
    if entries[1:]:
        listed = [f"  {_describe(memory, entry.statement)}" for entry in entries[:MAX_LISTED]]
        return "\n".join((f"{len(entries)} entries contain {text!r}. Give an id:", *listed))
    if not entries:
        raise MemoryRefused(
            f"No entry contains {text!r}. `kode memory show` lists the entries, `kode memory log` "
            "the changes."
        )
    id, end = entries[0].statement.id, entries[0].end
    chain = view.chain(id)[::-1][:MAX_LINKS]
    lines = [line for link in chain for line in _link(memory, link)]
    if end:
        heirs = ", ".join(_quoted(heir.statement) for heir in view.successors(id))
        lines.append(f"ended by {_when(end)}{f': replaced by {heirs}' if heirs else ''}")
    for first, second in view.conflicts():
        if id == first.id:
            lines.append(f"in conflict with {_quoted(second)}: it does not count yet")
        elif id == second.id:
            lines.append(f"in conflict with {_quoted(first)}: it counts until you decide")
    return "\n".join(lines)


def _link(memory: Memory, entry: Entry) -> Iterator[str]:
    statement = entry.statement
    yield _describe(memory, statement)
    claimed_at = _minute(statement.claimed_at)
    is_other = claimed_at != _minute(entry.change.at)
    yield f"  {_when(entry.change)}{f', said {claimed_at} UTC' if is_other else ''}"
    if statement.quote:
        yield f'  your words: "{shorten(redact(statement.quote), 200)}"'
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
    author = change.origin or AUTHORS[change.who]
    return f"{change.kind} by {author}, {_minute(change.at)} UTC{session}"


def _minute(at: str) -> str:
    return at[:16].replace("T", " ")


# ── for plug-ins ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class ListedEntry:
    """One entry, credentials masked."""

    statement: Statement
    text: str
    """For a reader: without the bullet."""
    label: str
    """What a person calls its place."""
    remark: str
    """Why it may not hold any more; "" for nothing."""


@dataclass(frozen=True, kw_only=True)
class Overview:
    """What the active system holds for this project."""

    system: str
    entries: tuple[ListedEntry, ...]
    """Facts, then notes on sessions."""
    waiting: tuple[Item, ...]
    """In the order to decide it."""
    ended: tuple[Entry, ...]
    """What was replaced or withdrawn, the newest first."""
    changes: tuple[Change, ...]
    """All of the log, newest first."""
    is_damaged: bool
    """Whether the log has lost lines."""


async def overview(system: MemorySystem) -> Overview:
    """Reads an open memory. Raises: MemoryRefused for a system that holds nothing that kode knows
    of; StorageError."""
    memory = statements_of(system, "view")
    store, doubts = memory.store, remarks(memory.store, memory.today())
    ends = [(entry.end.at, entry) for entry in store.view().entries.values() if entry.end]
    return Overview(
        system=system.name,
        entries=tuple(
            ListedEntry(
                statement=statement,
                text=redact(display(statement.text)),
                label=memory.layout.label(statement.place),
                remark=doubts.get(statement.id, ""),
            )
            for statement in (*store.statements(), *memory.notes())
        ),
        waiting=tuple(await items(system)),
        ended=tuple(entry for _, entry in sorted(ends, key=lambda end: end[0])[::-1]),
        changes=tuple(reversed(store.log.changes())),
        is_damaged=any(change.kind == DAMAGE for change in store.log.changes()),
    )
