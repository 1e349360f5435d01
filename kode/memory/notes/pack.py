"""What of the notes a model sees: the agent context in the system prompt, the context pack beside a
message; and what a person reads of them. Text and choice only.

Sensitive, expired, superseded and unapproved notes are in neither. Limits count after filters.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kode import credentials
from kode.memory import rank
from kode.memory.change import whose
from kode.memory.lineage import Entry, Place
from kode.memory.notes.database import LAST_MAINTENANCE, Database
from kode.memory.notes.note import SOUL_CHARS, Note, in_words
from kode.memory.notes.search import NoteVectors, search
from kode.memory.notes.store import NoteStore, Wanted
from kode.memory.stale import Doubt
from kode.memory.waiting import Waiting

RULES = 10
RULES_CHARS = 10_000
MOST_RULES = 1_000
LEFT_OUT = (
    "(More rules do not fit and are not shown. Offer the user to merge some of them into one, with "
    "remember and forget; recall finds them.)"
)
SUMMARIES = 5
PACK = 20
SHOWN_CHARS = 700
"""A longer note is cut where it is shown; `recall` gives all of it."""
PACK_CHARS = 6_000
SUMMARIES_CHARS = 5_000
SHARE_OF_BEST = 0.35
"""A hit that scores less than this share of the best one matched a common word by chance."""

FIRST_SOUL = (
    "I am kode, a coding agent in this user's terminal. I do what is asked, say plainly what I "
    "did and what I did not, and ask before what cannot be undone."
)
"""What the first soul says until it is updated. The system prompt says as much of its own, so it is
shown only once it says something else."""


@dataclass(frozen=True, kw_only=True)
class AgentContext:
    """What goes into the system prompt, in this order."""

    soul: Note | None
    rules: tuple[Note, ...]
    """The newest, whole."""
    summaries: tuple[Note, ...]
    rules_left_out: int = 0
    """How many did not fit."""

    @property
    def notes(self) -> tuple[Note, ...]:
        return (*((self.soul,) if self.soul else ()), *self.rules, *self.summaries)


def agent_context(store: NoteStore, session: str | None = None) -> AgentContext:
    """Soul, then rules, then recent summaries, but not those of the work of `session`. Raises:
    MemoryRefused, StorageError."""
    souls = store.get(Wanted(kinds=("soul",), limit=1))
    rules = store.get(Wanted(kinds=("rule",), limit=MOST_RULES))
    sizes = itertools.accumulate(len(rule.content) for rule in rules[:RULES])
    fit = sum(size <= RULES_CHARS for size in sizes)
    said = [soul for soul in souls if soul.content != FIRST_SOUL]
    return AgentContext(
        soul=said[0] if said else None,
        rules=tuple(rules[:fit]),
        rules_left_out=len(rules) - fit,
        summaries=tuple(store.get(Wanted(kinds=("summary",), not_of=session, limit=SUMMARIES))),
    )


def context_text(context: AgentContext) -> str:
    """The sections of the agent context; "" when there is nothing."""
    sections = []
    if context.soul:
        sections.append(f"── Soul ──\n{context.soul.content}")
    rules = [f"[rule] {rule.content}" for rule in context.rules]
    if context.rules_left_out:
        rules.append(LEFT_OUT)
    summaries = fitting(context.summaries, SUMMARIES_CHARS)
    for title, lines in (("Rules", rules), ("Recent summaries", summaries)):
        if lines:
            sections.append(f"── {title} ──\n" + "\n\n".join(lines))
    return "\n\n".join(sections)


async def context_pack(
    store: NoteStore, vectors: NoteVectors, query: str, shown: frozenset[str], *, fill: bool
) -> list[Note]:
    """At most 20 notes: those that fit the query first, then with `fill` the newest. Notes that
    were shown already are not among them, nor souls. Raises: MemoryRefused, StorageError."""
    room = PACK + len(shown)
    kinds = Wanted(kinds=("log", "summary", "rule"), limit=room)
    found = await search(store, vectors, query, kinds, typo_chars=rank.RECALL_TYPO_CHARS)
    best = found[0].ranked.score if found else 0.0
    chosen = [one.note for one in found if one.ranked.score >= SHARE_OF_BEST * best]
    if fill:
        chosen += store.get(kinds)
    fresh = {note.id: note for note in chosen if note.id not in shown}
    return list(fresh.values())[:PACK]


def marked(
    notes: Iterable[Note], doubts: Mapping[Place, Doubt], since: Callable[[Note], str]
) -> list[Note]:
    """The notes as a model is shown them: what may be stale says so, and `since` says what of one
    no longer holds."""
    found = ((note, doubts.get(("notes", note.id))) for note in notes)
    texts = (
        (note, f"{doubt.mark if doubt else ''}{note.content}", since(note)) for note, doubt in found
    )
    return [
        replace(
            note,
            content=("\n" if note.kind == "summary" else " ").join(filter(None, (text, told))),
        )
        for note, text, told in texts
    ]


def marked_context(
    context: AgentContext, doubts: Mapping[Place, Doubt], since: Callable[[Note], str]
) -> AgentContext:
    """The same of rules and summaries."""
    rules, summaries = (tuple(marked(x, doubts, since)) for x in (context.rules, context.summaries))
    return replace(context, rules=rules, summaries=summaries)


def fitting(notes: Sequence[Note], max_chars: int) -> list[str]:
    """The notes as lines, as many as fit; the first always does."""
    lines: list[str] = []
    size = 0
    for note in notes:
        line = line_of(note)
        size += len(line) + 2
        if lines and size > max_chars:
            break
        lines.append(line)
    return lines


def line_of(note: Note) -> str:
    """`[rule] ...`, cut where it is long."""
    text = note.content
    if len(text) > SHOWN_CHARS:
        text = text[: SHOWN_CHARS - 1].rstrip() + "…"
    return f"[{note.kind}] {text}"


def with_id(note: Note) -> str:
    """A note with its id, for a model that wants to change it."""
    tags = f" #{' #'.join(note.tags)}" if note.tags else ""
    return f"[{note.id}] ({note.kind}, {note.lasts}, {note.created_at[:10]}){tags}\n{note.content}"


_EXPIRED = "n.superseded_by IS NULL AND n.expires_at <= :now"
_ACTIVE = "n.superseded_by IS NULL AND (n.expires_at IS NULL OR n.expires_at > :now)"


def show(store: NoteStore, context: AgentContext) -> str:
    """What the next session will see, each note with where it came from."""
    parts = []
    if context.soul:
        head = f"soul · {len(context.soul.content)}/{SOUL_CHARS} characters"
        parts.append(_section(head, (context.soul,)))
    else:
        parts.append("soul · the first one (the system prompt says the same)")
    if context.rules:
        parts.append(_section("rules · in every prompt", context.rules))
    if context.rules_left_out:
        parts.append(f"{context.rules_left_out} more rules do not fit into the prompt: merge some")
    if context.summaries:
        parts.append(_section("recent summaries · in every prompt", context.summaries))
    seen = {note.id for note in context.notes}
    wanted = Wanted(kinds=("log", "summary", "rule"), limit=PACK + len(seen))
    others = [note for note in store.get(wanted) if note.id not in seen][:PACK]
    if others:
        parts.append(_section("newest notes · with the first message, if they fit", tuple(others)))
    kept = _kept_back(store)
    if kept:
        parts.append(kept)
    return "\n\n".join(parts)


def status(store: NoteStore, waiting: int) -> str:
    """The system, how full it is and what is pending."""
    database = store.database
    kinds = ("log", "summary", "rule", "soul")
    counts = {kind: store.count(f"n.kind = '{kind}' AND {_ACTIVE}") for kind in kinds}
    lines = [
        "system: notes",
        f"file: {database.path} ({_size(database)})",
        "notes: " + ", ".join(f"{count} {kind}" for kind, count in counts.items()),
        f"replaced or merged, kept: {store.count('n.superseded_by IS NOT NULL')}",
        f"expired, to be pruned: {store.count(_EXPIRED)}",
        f"sensitive, never shown: {store.count(f'{_SENSITIVE} AND {_ACTIVE}')}",
        f"words: {'FTS5' if database.index.able.words else 'one by one (no FTS5)'}",
        f"vectors: {'sqlite-vec' if database.index.able.vectors else 'numpy (no sqlite-vec)'}"
        + (f", {waiting} still to compute" if waiting else ""),
        f"last maintenance: {database.meta(LAST_MAINTENANCE) or 'never'}",
    ]
    return "\n".join(lines)


_SENSITIVE = "n.sensitivity = 'sensitive'"


def _section(head: str, notes: tuple[Note, ...]) -> str:
    lines = [head]
    for note in notes:
        text = credentials.redact(note.content).replace("\n", "\n    ")
        lines += [f"  - {text}", f"    ({_origin(note)})"]
    return "\n".join(lines)


def _origin(note: Note) -> str:
    session = f", session {note.session}" if note.session else ""
    turn = f" turn {note.turn}" if note.turn else ""
    when = note.created_at[:16].replace("T", " ")
    marks = "".join(f" #{tag}" for tag in note.tags)
    by = f"by {note.who}{whose(note.person, note.host)}"
    return f"{note.kind} {note.id}, {note.lasts}, {by}, {when} UTC{session}{turn}{marks}"


def _kept_back(store: NoteStore) -> str:
    counts: Mapping[str, int] = {
        "sensitive": store.count(f"{_SENSITIVE} AND {_ACTIVE}"),
        "waiting for `kode memory approve`": store.count(f"n.untrusted = 'waits' AND {_ACTIVE}"),
    }
    kept = [f"{count} {what}" for what, count in counts.items() if count]
    return f"kept and not shown to a model: {', '.join(kept)}" if kept else ""


def entries(notes: Iterable[Note]) -> list[Entry]:
    """Those of the notes that stand; a sensitive one is only named."""
    return [
        Entry(
            target="notes",
            key=note.id,
            text=_text(note),
            id=note.id,
            is_fact=note.kind in ("log", "rule") and note.untrusted != "waits",
        )
        for note in notes
        if note.superseded_by is None
    ]


def _text(note: Note) -> str:
    waits = " (waits for approval)" if note.untrusted == "waits" else ""
    return f"{in_words(note) if note.sensitive else note.content}{waits}"


def waiting(note: Note) -> Waiting:
    line = f"{note.created_at[:10]}  {in_words(note, 160)}"
    return Waiting(id=note.id, line=line, text=note.content)


def _size(database: Database) -> str:
    path: Path = database.path
    size = path.stat().st_size if path.exists() else 0
    return f"{size / 1024:.0f} KB"
