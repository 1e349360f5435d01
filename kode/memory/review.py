"""Memory as a person sees it, in any system: the items that wait for a decision, each of which is
one change; the reports `show`, `status`, `log` and `why`; and an overview for plug-ins.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Literal

from kode.credentials import redact
from kode.errors import MemoryRefused
from kode.memory.contract import MemorySystem
from kode.memory.fold import DAMAGE, LAYOUT, MemoryEntry
from kode.memory.frame import describe_suspicion, find_remarks, visible_notes
from kode.memory.policy import About, addition_about
from kode.memory.rendering import strip_bullet
from kode.memory.scan import check_text
from kode.memory.statement import AUTHORS, Author, MemoryChange, Outcome, Statement, Who
from kode.memory.store import Choice, quote
from kode.memory.system import Memory, statements_of
from kode.messages import cut_list, plural, shorten
from kode.paths import short_path
from kode.values import Value, replace

Confirm = Callable[[str], bool]
"""Asks the person a question; True for yes."""
Reason = Literal["outside", "conflict", "no longer true"]
_REASONS: Mapping[Reason, tuple[str, Mapping[Choice, str]]] = {
    "outside": ("waiting for approval", {"approve": "approve", "drop": "drop"}),
    "conflict": (
        "contradict each other",
        {"first": "keep the first", "second": "keep the second", "both": "keep both"},
    ),
    "no longer true": ("may no longer be true", {"confirm": "still true", "remove": "remove"}),
}
"""Why an item waits, in the order to ask about it → its heading, and the choices in the words that
a person reads."""
NOTHING_WAITS = "Nothing is pending."
MAX_PROPOSED_CHARS = 1_000  # a few sentences
MAX_PROPOSALS = 100  # a person decides on each
MAX_NAME_CHARS = 60  # of another agent's name, shown on one line


class WaitingItem(Value):
    """An item that waits for the person's decision."""

    reason: Reason
    id: str
    """The id of its statement, or the ids of both, joined by `+`."""
    statements: tuple[Statement, ...]
    remark: str = ""
    batch: str = ""
    """The import that it came with; "" for none."""

    @property
    def heading(self) -> str:
        return _REASONS[self.reason][0]

    @property
    def choices(self) -> Mapping[Choice, str]:
        return _REASONS[self.reason][1]

    @property
    def texts(self) -> tuple[str, ...]:
        """The full texts, each with its origin, credentials masked."""
        return tuple(
            f"{redact(strip_bullet(old.text))}  ({AUTHORS[old.who]}, {old.claimed_at[:10]}"
            f"{old.source and f', from {old.source}'})"
            for old in self.statements
        )


async def list_waiting(system: MemorySystem) -> list[WaitingItem]:
    """Returns the items that wait in this project, in the order to ask about them. Raises:
    MemoryRefused for a system whose statements kode does not know; StorageError."""
    memory = statements_of(system, "review")
    store, view = memory.store, memory.store.view()
    doubts = dict(find_remarks(store, memory.today()))
    waiting = [
        WaitingItem(reason="outside", id=new.id, statements=(new,), batch=change.batch)
        for new, change, *_ in filter(None, (view.entry(old.id) for old in view.find_waiting()))
        if store.is_here(new.place)
    ]
    for pair in view.conflicts():
        doubts.pop(pair[1].id, None)
        if all(store.is_here(statement.place) for statement in pair):
            id = "+".join(statement.id for statement in pair)
            waiting.append(WaitingItem(reason="conflict", id=id, statements=pair))
    doubtful = [statement for statement in store.statements() if statement.id in doubts]
    return waiting + [
        WaitingItem(reason="no longer true", id=old.id, statements=(old,), remark=doubts[old.id])
        for old in doubtful
    ]


async def propose_fact(system: MemorySystem, text: str, about: About, client: str) -> Outcome:
    """Adds a fact that another agent proposes, to wait for the person's approval; changes nothing
    if it waits already. Raises: MemoryRefused, StorageError, BusyError."""
    memory = statements_of(system, "propose")
    name = shorten(client, MAX_NAME_CHARS) or "an agent without a name"
    addition = addition_about(memory.name, text, about)
    statement = memory.new_statement(addition, Author("client", source=name))
    check_text(statement.text, max_chars=MAX_PROPOSED_CHARS, author="client")
    check_text(name)
    waiting = [new for new in memory.store.view().find_waiting() if new.who == "client"]
    if len(waiting) >= MAX_PROPOSALS:
        raise MemoryRefused(
            f"{MAX_PROPOSALS} proposals wait already. The person decides on them with "
            "`kode memory review`."
        )
    return await memory.store.add(replace(statement, state="waiting"), kind="propose")


async def decide_item(system: MemorySystem, id: str, choice: str, who: Who = "user") -> Outcome:
    """Carries out a choice about the item with this id. Raises: MemoryRefused if it no longer waits
    or does not allow the choice; StorageError, BusyError."""
    item = next((item for item in await list_waiting(system) if item.id == id), None)
    choices = [name for name in item.choices if name == choice] if item else []
    if not choices:
        fault = f"No entry that waits has the id {id!r} and the choice {choice!r}."
        raise MemoryRefused(f"{fault} `kode memory review` lists all.")
    memory = statements_of(system, "review")
    return memory.announce(await memory.store.decide(id, choices[0], who))


async def approve_all_of(system: MemorySystem, source: str) -> str:
    """Approves all that waits from an import or a file. Raises as `decide_item`, also for none."""
    path, waiting = short_path(source), await list_waiting(system)
    of_source = [
        item.id
        for item in waiting
        if item.reason == "outside"
        and (source == item.batch or f"{item.statements[0].source}:".startswith(f"{path}:"))
    ]
    for id in of_source or [source]:
        await decide_item(system, id, "approve")
    return f"approved {len(of_source)}"


async def describe_waiting(system: MemorySystem, reason: str = "") -> str:
    """Returns the waiting items, or those with one reason, as text. Raises as `list_waiting`."""
    waiting = [item for item in await list_waiting(system) if reason in ("", item.reason)]
    lines, counts = list[str](), Counter(item.heading for item in waiting)
    for item in waiting:
        if count := counts.pop(item.heading, 0):
            lines.append(f"{item.heading}: {count}")
        lines.append(f"  {item.id}{f'  ({item.remark})' if item.remark else ''}")
        lines += [f"    {text}" for text in item.texts]
    return "\n".join(lines) or NOTHING_WAITS


# ── reports ──────────────────────────────────────────────────────────────────────────────────────

LATEST, MAX_READ, NOTE_CHARS = 5, 20, 300  # of the notes on sessions in `show_entries`
MAX_TEXTS, TEXT_CHARS = 5, 100  # of one change in `log`
MAX_LINKS = 60  # older versions in `explain_entry`; the rest is in the log
MAX_LISTED = 10  # more is a reason to ask again
_CODE = {"unchanged": "unchanged since", "changed": "changed since", "gone": "no longer there"}
_quoted = partial(quote, max_chars=160)  # two lines of a terminal


def show_entries(memory: Memory) -> str:
    """Returns this project's entries, each with id, origin and doubts, and its latest notes."""
    view, doubts = memory.store.view(), find_remarks(memory.store, memory.today())
    sections = list[list[str]]()
    for place in memory.store.fact_places():
        if facts := view.in_place(place):
            fill = memory.describe_fill(place) or memory.layout.label(place)
            path = f" · {memory.store.root / place}" if memory.layout.format_of(place) else ""
            lines = [
                line for fact in facts for line in _describe_entry(fact, doubts.get(fact.id, ""))
            ]
            sections.append([f"{fill}{path}", *lines])
    places = memory.store.record_places(is_for_all=False)
    if notes := visible_notes(view, places[-MAX_READ:]):
        latest, count = notes[: -LATEST - 1 : -1], max(len(notes), len(places))
        lines = [line for note in latest for line in _describe_entry(note, "", NOTE_CHARS)]
        sections.append([f"session notes, the latest of {count}", *lines])
    return "\n\n".join(map("\n".join, sections)) or "Nothing is remembered yet."


def _describe_entry(statement: Statement, doubt: str, max_chars: int = 0) -> Iterator[str]:
    text = redact(strip_bullet(statement.text))
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
    what = describe_suspicion(statement.text)
    remarks = (
        doubt,
        "no model sees it" if statement.private else "",
        "archived: in no prompt" if statement.state == "archived" else "",
        what and f"this looks like {what}: check it",
    )
    yield from (f"    ({remark})" for remark in remarks if remark)


async def describe_status(memory: Memory) -> str:
    """Returns the system, its folder, how full each place is, and what is pending, as text."""
    lines = [f"system: {memory.name}", f"folder: {memory.store.root}"]
    for place in memory.store.fact_places():
        if facts := memory.store.view().in_place(place):
            label = memory.layout.label(place)
            fill = memory.describe_fill(place).replace(f"{label}: ", ", ", 1)
            lines.append(f"{label}: {plural(len(facts), 'entry', 'entries')}{fill}")
    counts = Counter(item.heading for item in await list_waiting(memory))
    pending, notes = len(memory.pending.sessions()), len(memory.notes())
    more = (
        notes and f"session notes: {notes}",
        pending and f"not finished with: {plural(pending, 'session')} (done at the next start)",
    )
    lines += [line for line in more if line]
    lines += [f"{heading}: {n} (`kode memory review`)" for heading, n in counts.items()]
    return "\n".join((*lines, *await memory.policy.status(memory)))


def list_changes(memory: Memory, count: int) -> str:
    """Returns the last changes of this system, newest last, each with what it did and whether it
    was undone."""
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
            [shorten(redact(strip_bullet(e.text)), TEXT_CHARS) for e in side]
            for side in (gone, new)
        ]
        texts = " → ".join("; ".join(cut_list(side, MAX_TEXTS)) for side in sides if side)
        author, when = change.origin or AUTHORS[change.who], _format_minute(change.at)
        kind = f"{change.kind} {places}" if places else change.kind
        mark = "" if change.id in effective else undone.get(change.id, "")
        what = ": ".join(filter(None, (kind, texts or change.undoes, change.reason)))
        lines.append(f"{change.id}  {when}  {author}  {what}{mark}")
    return "\n".join(lines) or "Nothing has changed yet."


def explain_entry(memory: Memory, words: Sequence[str]) -> str:
    """Returns the history of the entry that an id or a part of a text identifies, current or not:
    its versions, newest first, and its end; or the candidates. Raises: MemoryRefused for none."""
    view, text = memory.store.view(), " ".join(words).strip()
    ended = [entry for entry in view.entries.values() if not entry.is_alive]
    entries = (
        view.find(text)
        or [entry for entry in ended if text in (entry.statement.id, entry.change.id)]
        or [entry for entry in ended if text in entry.statement.text][-1:]
    )
    if entries[1:]:
        listed = [f"  {_describe_text(memory, entry.statement)}" for entry in entries[:MAX_LISTED]]
        return "\n".join((f"{len(entries)} entries contain {text!r}. Give an id:", *listed))
    if not entries:
        raise MemoryRefused(
            f"No entry contains {text!r}. `kode memory show` lists the entries, `kode memory log` "
            "the changes."
        )
    id, end, lines = entries[0].statement.id, entries[0].end, list[str]()
    for version in view.chain(id)[: -MAX_LINKS - 1 : -1]:
        lines += _describe_history(memory, version)
    if end:
        heirs = ", ".join(_quoted(heir.statement) for heir in view.successors(id))
        lines.append(f"ended by {_describe_change(end)}{f': replaced by {heirs}' if heirs else ''}")
    for first, second in view.conflicts():
        if id == first.id:
            lines.append(f"in conflict with {_quoted(second)}: it does not count yet")
        elif id == second.id:
            lines.append(f"in conflict with {_quoted(first)}: it counts until you decide")
    return "\n".join(lines)


def _describe_history(memory: Memory, entry: MemoryEntry) -> Iterator[str]:
    statement = entry.statement
    yield _describe_text(memory, statement)
    claimed_at = _format_minute(statement.claimed_at)
    is_other = claimed_at != _format_minute(entry.change.at)
    yield f"  {_describe_change(entry.change)}{f', said {claimed_at} UTC' if is_other else ''}"
    if statement.quote:
        yield f'  your words: "{shorten(redact(statement.quote), 200)}"'
    if statement.source:
        state = memory.store.code_state(statement)
        yield f"  from {statement.source}{f', {_CODE[state]}' if state else ''}"
    for word, day in (("since", statement.since), ("until", statement.until)):
        if day:
            yield f"  holds {word} {day}"
    yield from (f"  {_describe_change(change)}" for change in entry.amendments)
    if entry.change.reason:
        yield f"  {entry.change.reason}"


def _describe_text(memory: Memory, statement: Statement) -> str:
    return f"{statement.id} [{memory.layout.label(statement.place)}] {_quoted(statement)}"


def _describe_change(change: MemoryChange) -> str:
    """Who made a change and when: `add by the model, 2026-03-01 12:00 UTC, session ... turn 2`."""
    turn = f" turn {change.turn}" if change.turn else ""
    session = f", session {change.session}{turn}" if change.session else ""
    author = change.origin or AUTHORS[change.who]
    return f"{change.kind} by {author}, {_format_minute(change.at)} UTC{session}"


def _format_minute(at: str) -> str:
    return at[:16].replace("T", " ")


# ── for plug-ins ─────────────────────────────────────────────────────────────────────────────────


class ListedEntry(Value):
    """One entry, credentials masked."""

    statement: Statement
    text: str
    """For a reader: without the bullet."""
    label: str
    """What a person calls its place."""
    remark: str
    """Why it may no longer hold; "" if nothing speaks against it."""


class Overview(Value):
    """What the active system holds for this project."""

    system: str
    entries: tuple[ListedEntry, ...]
    """Facts, then notes on sessions."""
    waiting: tuple[WaitingItem, ...]
    """In the order in which to ask the person."""
    ended: tuple[MemoryEntry, ...]
    """What was replaced or withdrawn, the newest first."""
    changes: tuple[MemoryChange, ...]
    """All of the log, newest first."""
    is_damaged: bool
    """Whether the log has lost lines."""


async def read_overview(system: MemorySystem) -> Overview:
    """Returns the overview of an open memory. Raises: MemoryRefused for a system whose statements
    kode does not know; StorageError."""
    memory = statements_of(system, "view")
    store, doubts = memory.store, find_remarks(memory.store, memory.today())
    ends = [(entry.end.at, entry) for entry in store.view().entries.values() if entry.end]
    return Overview(
        system=system.name,
        entries=tuple(
            ListedEntry(
                statement=statement,
                text=redact(strip_bullet(statement.text)),
                label=memory.layout.label(statement.place),
                remark=doubts.get(statement.id, ""),
            )
            for statement in (*store.statements(), *memory.notes())
        ),
        waiting=tuple(await list_waiting(system)),
        ended=tuple(entry for _, entry in sorted(ends, key=lambda end: end[0])[::-1]),
        changes=tuple(reversed(store.log.changes())),
        is_damaged=any(change.kind == DAMAGE for change in store.log.changes()),
    )
