"""What of the notes a model sees: the agent context in the system prompt, the context pack beside a
message; and what a person is shown of them. Text and choice only.

Sensitive, expired, superseded and unapproved notes are in neither. Limits count after filters.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kode.memory import rank
from kode.memory.lineage import Entry
from kode.memory.notes.database import LAST_MAINTENANCE
from kode.memory.notes.note import Note, entry_of, in_words
from kode.memory.notes.search import NoteVectors, search
from kode.memory.notes.store import NoteStore, Wanted
from kode.memory.report import Part
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
    said = [soul for soul in souls if not soul.is_first_soul]
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
    """`[rule] ...`"""
    return f"[{note.kind}] {note.content}"


def cut(text: str) -> str:
    """A text as it is shown where nobody asked for all of it."""
    return text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 1].rstrip() + "…"


def with_id(note: Note) -> str:
    """A note with its id, for a model that wants to change it."""
    tags = f" #{' #'.join(note.tags)}" if note.tags else ""
    return f"[{note.id}] ({note.kind}, {note.lasts}, {note.created_at[:10]}){tags}\n{note.content}"


_EXPIRED = "n.superseded_by IS NULL AND n.expires_at <= :now"
_ACTIVE = "n.superseded_by IS NULL AND (n.expires_at IS NULL OR n.expires_at > :now)"


def parts(store: NoteStore, context: AgentContext) -> list[Part]:
    """What the next session will see, and the newest notes besides."""
    seen = {note.id for note in context.notes}
    wanted = Wanted(kinds=("log", "summary", "rule"), limit=PACK + len(seen))
    others = [note for note in store.get(wanted) if note.id not in seen][:PACK]
    left = f"{context.rules_left_out} do not fit, merge some" if context.rules_left_out else ""
    groups: Mapping[str, Sequence[Note]] = {
        "soul": (context.soul,) if context.soul else (),
        "rules, in every prompt": context.rules,
        "recent summaries, in every prompt": context.summaries,
        "newest notes, with the first message": others,
    }
    return [
        Part(
            called=called,
            fill=left if notes is context.rules else "",
            entries=entries(notes),
            remarks={
                ("notes", one.id): " ".join((one.kind, one.lasts, *one.tags)) for one in notes
            },
        )
        for called, notes in groups.items()
    ]


def figures(store: NoteStore, waiting: int) -> dict[str, object]:
    """What there is of each kind, and how the database works."""
    database = store.database
    kinds = ("log", "summary", "rule", "soul")
    counts = ((kind, store.count(f"n.kind = '{kind}' AND {_ACTIVE}")) for kind in kinds)
    return {
        "notes": ", ".join(f"{count} {kind}" for kind, count in counts),
        "replaced or merged, kept": store.count("n.superseded_by IS NOT NULL"),
        "expired, to be pruned": store.count(_EXPIRED),
        "sensitive, never shown": store.count(f"n.sensitivity = 'sensitive' AND {_ACTIVE}"),
        "vectors": "sqlite-vec" if database.index.measures else "none (no sqlite-vec)",
        "vectors still to compute": waiting,
        "last maintenance": database.meta(LAST_MAINTENANCE) or "never",
    }


def entries(notes: Iterable[Note]) -> list[Entry]:
    """Those of the notes that stand."""
    return [entry_of(note) for note in notes if note.superseded_by is None]


def waiting(note: Note) -> Waiting:
    line = f"{note.created_at[:10]}  {in_words(note, 160)}"
    return Waiting(id=note.id, line=line, text=note.content)
