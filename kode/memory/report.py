"""What a person is shown of a memory, in any system: `show`, `status`, `log`, and an overview for
plug-ins."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from kode.contracts import MemorySystem
from kode.credentials import redact
from kode.memory.fold import DAMAGE, LAYOUT, Entry
from kode.memory.frame import suspicion
from kode.memory.guarded import statements_of
from kode.memory.markdown import display
from kode.memory.remarks import remarks
from kode.memory.review import HEADINGS, Item, items
from kode.memory.statement import AUTHORS, Change, Rank, Statement
from kode.memory.system import Memory
from kode.messages import first_of, plural, shorten

LATEST = 5
"""How many notes on sessions `show` lists."""
NOTE_CHARS = 300  # three lines of a terminal
TEXT_CHARS = 100  # a line of a terminal
MAX_TEXTS = 5
"""Of one change in the log."""


def show(memory: Memory) -> str:
    """Every entry of this project with its id, origin, and what speaks against it."""
    view, doubts = memory.store.view(), remarks(memory.store, memory.today())
    sections = list[str]()
    for place in memory.store.fact_places():
        if facts := view.in_place(place):
            fill = memory.fill(place) or memory.layout.label(place)
            path = memory.store.root / place
            heading = f"{fill} · {path}" if memory.layout.format_of(place) else fill
            lines = (line for fact in facts for line in _entry(fact, doubts.get(fact.id, "")))
            sections.append("\n".join((heading, *lines)))
    notes = memory.notes()
    if notes:
        latest = notes[: -LATEST - 1 : -1]
        of = f", the latest {LATEST} of {len(notes)}" if len(notes) > LATEST else ""
        lines = (line for note in latest for line in _entry(note, "", NOTE_CHARS))
        sections.append("\n".join((f"session notes{of}", *lines)))
    return "\n\n".join(sections) or "Nothing is remembered yet."


def _entry(statement: Statement, doubt: str, max_chars: int = 0) -> Iterator[str]:
    text = redact(display(statement.text))
    text = shorten(text, max_chars) if max_chars else text.replace("\n", "\n    ")
    yield f"  - {text}"
    origin = [statement.id, AUTHORS[statement.who], statement.claimed_at[:10]]
    origin += [f"from {statement.source}"] if statement.source else []
    origin += [f"since {statement.since}"] if statement.since else []
    origin += [f"until {statement.until}"] if statement.until else []
    yield f"    ({', '.join(origin)})"
    remarks = [doubt, "no model sees it" if statement.private else ""]
    remarks.append("archived: in no prompt" if statement.state == "archived" else "")
    if what := suspicion(statement.text):
        remarks.append(f"this looks like {what}: check it")
    yield from (f"    ({remark})" for remark in remarks if remark)


async def status(memory: Memory) -> str:
    """Which system it is, how full it is, and what is pending."""
    lines = [f"system: {memory.name}", f"folder: {memory.store.root}"]
    view = memory.store.view()
    for place in memory.store.fact_places():
        if facts := view.in_place(place):
            label, fill = memory.layout.label(place), memory.fill(place)
            rest = fill.removeprefix(f"{label}: ")
            lines.append(
                f"{label}: {plural(len(facts), 'entry', 'entries')}{f', {rest}' if rest else ''}"
            )
    lines += [f"session notes: {len(memory.notes())}"] if memory.notes() else []
    private = sum(fact.private for fact in memory.store.statements())
    lines += [f"private, no model sees them: {private}"] if private else []
    if pending := len(memory.pending.sessions()):
        left = plural(pending, "session")
        lines.append(f"not finished with: {left} (done at the next start)")
    waiting = Counter(item.reason for item in await items(memory))
    counted = [f"{HEADINGS[reason]}: {count}" for reason, count in waiting.items()]
    lines += [f"{', '.join(counted)} (`kode memory review`)"] if counted else []
    lines += await memory.policy.status(memory)
    return "\n".join(lines)


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
    lines = [
        describe_change(memory, change, statements)
        + (undone.get(change.id, "") if change.id not in effective else "")
        for change in changes[-max(1, count) :]
    ]
    return "\n".join(lines) or "Nothing has changed yet."


def describe_change(memory: Memory, change: Change, statements: dict[str, Statement]) -> str:
    """A change on one line: its id, time, author, and the texts that it took away and added."""
    label = memory.layout.label
    gone = [statements[id] for id in change.end if id in statements]
    set = [statements[id] for id in change.set if id in statements]
    places = dict.fromkeys(label(entry.place) for entry in (*gone, *change.add, *set))
    sides = [
        "; ".join(first_of([shorten(redact(display(e.text)), TEXT_CHARS) for e in side], MAX_TEXTS))
        for side in (gone, (*change.add, *set))
    ]
    texts = " → ".join(side for side in sides if side) or change.undoes
    when, author = change.at[:16].replace("T", " "), change.origin or AUTHORS[change.who]
    where = f" {', '.join(places)}" if places else ""
    end = (f": {texts}" if texts else "") + (f"  [{change.reason}]" if change.reason else "")
    return f"{change.id}  {when}  {author}  {change.kind}{where}{end}"


# ── for plug-ins ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class ListedEntry:
    """One entry, credentials masked."""

    statement: Statement
    text: str
    """For a reader: without the bullet."""
    label: str
    """What a person calls its place."""
    rank: Rank
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
    store, view = memory.store, memory.store.view()
    doubts = remarks(store, memory.today())
    entries = tuple(
        ListedEntry(
            statement=statement,
            text=redact(display(statement.text)),
            label=memory.layout.label(statement.place),
            rank=store.rank(statement),
            remark=doubts.get(statement.id, ""),
        )
        for statement in (*store.statements(), *memory.notes())
    )
    ended = [entry for entry in view.entries.values() if entry.end]
    return Overview(
        system=system.name,
        entries=entries,
        waiting=tuple(await items(system)),
        ended=tuple(sorted(ended, key=lambda entry: entry.end.at if entry.end else "")[::-1]),
        changes=tuple(reversed(store.log.changes())),
        is_damaged=any(change.kind == DAMAGE for change in store.log.changes()),
    )
