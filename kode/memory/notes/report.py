"""What a person reads of the notes: show, status, the outcome of a change. Text only."""

from collections.abc import Mapping
from pathlib import Path

from kode import credentials
from kode.memory.notes.database import Database
from kode.memory.notes.maintenance import LAST
from kode.memory.notes.note import SOUL_CHARS, Note, in_words
from kode.memory.notes.pack import PACK, AgentContext
from kode.memory.notes.store import NoteStore, Wanted

_EXPIRED = "n.superseded_by IS NULL AND n.expires_at <= :now"
_ACTIVE = "n.superseded_by IS NULL AND (n.expires_at IS NULL OR n.expires_at > :now)"


def shown(store: NoteStore, context: AgentContext) -> str:
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
        + (f", {waiting} still to be made" if waiting else ""),
        f"last maintenance: {database.meta(LAST) or 'never'}",
    ]
    unapproved = store.count(f"n.untrusted = 'waits' AND {_ACTIVE}")
    if unapproved:
        lines.append(f"waiting for approval: {unapproved} (`kode memory approve` lists them)")
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
    return f"{note.kind} {note.id}, {note.lasts}, by {note.who}, {when} UTC{session}{turn}{marks}"


def _kept_back(store: NoteStore) -> str:
    counts: Mapping[str, int] = {
        "sensitive": store.count(f"{_SENSITIVE} AND {_ACTIVE}"),
        "waiting for `kode memory approve`": store.count(f"n.untrusted = 'waits' AND {_ACTIVE}"),
    }
    kept = [f"{count} {what}" for what, count in counts.items() if count]
    return f"kept and not shown to a model: {', '.join(kept)}" if kept else ""


def waiting_line(note: Note) -> str:
    return f"{note.id}  {note.created_at[:10]}  {in_words(note, 160)}"


def _size(database: Database) -> str:
    path: Path = database.path
    size = path.stat().st_size if path.exists() else 0
    return f"{size / 1024:.0f} KB"
