"""What of the notes a model sees: the agent context in the system prompt, the context pack beside a
message. Text and choice only; the frame around it is the system's.

Sensitive, expired, superseded and unapproved notes are in neither. Limits count after filters.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from kode.memory import rank
from kode.memory.notes.note import SOUL_CHARS, Note
from kode.memory.notes.search import NoteVectors, search
from kode.memory.notes.store import NoteStore, Wanted

RULES = 10
RULES_CHARS = 10_000
MOST_RULES = 1_000
LEFT_OUT = (
    "({count} more rules do not fit and are not shown. Offer the user to merge some of them into "
    "one, with remember and forget; recall finds them.)"
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


def agent_context(store: NoteStore) -> AgentContext:
    """Soul, then rules, then recent summaries. Raises: MemoryRefused, StorageError."""
    souls = store.get(Wanted(kinds=("soul",), limit=1))
    rules = store.get(Wanted(kinds=("rule",), limit=MOST_RULES))
    sizes = itertools.accumulate(len(rule.content) for rule in rules[:RULES])
    fit = sum(size <= RULES_CHARS for size in sizes)
    said = [soul for soul in souls if soul.content != FIRST_SOUL]
    return AgentContext(
        soul=said[0] if said else None,
        rules=tuple(rules[:fit]),
        rules_left_out=len(rules) - fit,
        summaries=tuple(store.get(Wanted(kinds=("summary",), limit=SUMMARIES))),
    )


def context_text(context: AgentContext) -> str:
    """The sections of the agent context; "" when there is nothing."""
    sections = []
    if context.soul:
        head = f"── Soul · {len(context.soul.content)}/{SOUL_CHARS} characters ──"
        sections.append(f"{head}\n{context.soul.content}")
    rules = [f"[rule] {rule.content}" for rule in context.rules]
    if context.rules_left_out:
        rules.append(LEFT_OUT.format(count=context.rules_left_out))
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
    """`[rule] ...`, cut where it is long."""
    text = note.content
    if len(text) > SHOWN_CHARS:
        text = text[: SHOWN_CHARS - 1].rstrip() + "…"
    return f"[{note.kind}] {text}"


def listed(note: Note) -> str:
    """A note with its id, for a model that wants to change it."""
    tags = f" #{' #'.join(note.tags)}" if note.tags else ""
    return f"[{note.id}] ({note.kind}, {note.lasts}, {note.created_at[:10]}){tags}\n{note.content}"
