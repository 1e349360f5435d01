"""What an ended session leaves in the notes: its summary, and the facts of the answer as notes."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from kode.memory import question, scan
from kode.memory.ask import says_something
from kode.memory.base import Outcome
from kode.memory.change import Author
from kode.memory.learn import Answer, Facts, Learner, report
from kode.memory.ledger import Statement
from kode.memory.lineage import Entry, Place
from kode.memory.notes.jobs import details_of
from kode.memory.notes.note import SYSTEM, Kind, Note, entry_of, in_words
from kode.memory.notes.store import NoteStore, Wanted
from kode.memory.notes.write import Kept, NoteWriter
from kode.memory.question import Fact, Found, How
from kode.memory.queue import Item

NARRATIVE_CHARS = 1_200
MAX_ATTEMPTS = 3
MOST_KNOWN = 1_000
"""Notes that a question may show and that new ones are compared with, the newest."""
_WHAT_HOLDS: tuple[Kind, ...] = ("log", "rule")


@dataclass(kw_only=True)
class HeldNotes(Facts):
    """The notes that say what holds."""

    store: NoteStore
    writer: NoteWriter

    def among(self, places: Collection[Place]) -> Mapping[Place, Entry]:
        notes = self.store.by_ids(id for target, id in places if target == SYSTEM)
        standing = (note for note in notes.values() if note.superseded_by is None)
        return {one.place: one for one in map(entry_of, standing)}

    def standing(self) -> list[Entry]:
        """The newest of them, oldest first."""
        notes = self.store.get(Wanted(kinds=_WHAT_HOLDS, limit=MOST_KNOWN))
        return [entry_of(note) for note in reversed(notes)]

    def worded(self, fact: Fact, old: Entry | None) -> Place:
        return SYSTEM, fact.text

    async def learn(
        self, fact: Fact, author: Author, item: Item, old: Entry | None, *, wins: bool, ends: bool
    ) -> tuple[Outcome, Entry | None]:
        """What it ends gives it its kind and its tags, what it is about its scope."""
        note = self.store.by_ids((old.id,)).get(old.id) if old else None
        gone = note if ends else None
        of_old: dict[str, Any] = {"scope": note.scope} if note else {}
        if gone is not None:
            of_old |= {"kind": gone.kind, "tags": gone.tags, "confidence": gone.confidence}
        kept = await self._keep(
            fact,
            author,
            item,
            change="supersede" if gone else "learn",
            supersedes=(gone,) if gone else (),
            beside=None if gone else note,
            wins=wins,
            **of_old,
        )
        return kept, entry_of(kept.note) if kept.note else None

    async def propose(self, fact: Fact, author: Author, item: Item) -> Outcome:
        return await self._keep(fact, author, item, untrusted="waits", change="learn")

    async def join(
        self, older: Statement, newer: Statement, how: How, author: Author
    ) -> Outcome | None:
        """What holds for a time does not end what holds without one."""
        async with self.store.writing():
            notes = self.store.by_ids((older.entry.id, newer.entry.id))
            old, new = notes.get(older.entry.id), notes.get(newer.entry.id)
            if old is None or new is None or old.superseded_by or new.superseded_by:
                return None
            kept, gone = new, old
            if how == "repeats" and (old.kind == "rule" or new.expires_at):
                kept, gone = old, new
            passes = how == "changes" and new.expires_at is not None and old.expires_at is None
            if passes or kept.scope != gone.scope or gone.stability == "permanent":
                return None
            kind, did = (
                ("merge", "is said by") if how == "repeats" else ("supersede", "gave way to")
            )
            reason = f"{in_words(gone)} {did} {in_words(kept)}"
            after = [replace(gone, superseded_by=kept.id), kept]
            change = self.store.commit(kind, [old, new], after, author, reason)
        return Outcome(line=reason, change_id=change.id)

    async def withdraw(self, entry: Entry, author: Author) -> Outcome:
        return await self.writer.forget(entry.id, author=author)

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    async def _keep(self, fact: Fact, author: Author, item: Item, **fields: Any) -> Kept:
        details = details_of(item)
        of_project = fact.about == "project" and details.in_repository
        return await self.writer.remember(
            fact.text,
            author=author,
            evidence=(author.words,),
            sensitivity=_sensitivity(item),
            **{"scope": details.scope if of_project else "user", **fields},
        )


@dataclass(kw_only=True)
class Learning(Learner):
    """The `Job` of the notes' queue for ended sessions."""

    notes: HeldNotes
    summed_up: Callable[[Kept], None]
    """Called with each summary."""

    def facts(self, item: Item) -> HeldNotes:
        scope = details_of(item).scope
        store = replace(self.notes.store, project_scope=scope) if scope else self.notes.store
        return replace(self.notes, store=store)

    def so_far(self, item: Item) -> str:
        earlier = of_session(self.facts(item).store, item.session, _FINAL)
        return earlier[0].content if earlier and not earlier[0].sensitive else ""

    async def note(self, item: Item, found: Found, answer: Answer) -> None:
        """One summary in place of those of the session's jobs, and of an earlier end of it."""
        store, text = self.facts(item).store, question.cut(found.narrative, NARRATIVE_CHARS)
        replaced = of_session(store, item.session, "n.kind = 'summary' AND n.job_id IS NOT NULL")
        is_there = any(note.content == text for note in replaced)  # written before a kill
        if is_there or not says_something(text, question.INSTRUCTIONS) or scan.scan(text):
            return
        waits = item.tainted or any(note.untrusted == "waits" for note in replaced)
        kept = await self.notes.writer.remember(
            text,
            author=Author(who="extraction", session=item.session, turn=item.turn),
            kind="summary",
            tags=("session",),
            job_id=item.session,
            sensitivity=_sensitivity(item),
            untrusted="waits" if waits else "",
            change="session",
            supersedes=tuple(replaced),
        )
        report(kept, self.context.emit)
        self.summed_up(kept)


def of_session(store: NoteStore, session: str | None, condition: str) -> list[Note]:
    """The session's notes that stand; `condition` is SQL over `memory_notes n`."""
    return store.select(
        f"WHERE n.user = :user AND n.session = :session AND n.superseded_by IS NULL "
        f"AND {condition}",
        {"user": store.user, "session": session},
    )


_FINAL = "n.kind = 'summary' AND n.job_id = n.session"


def _sensitivity(item: Item) -> Literal["normal", "sensitive"]:
    return "sensitive" if details_of(item).sensitive else "normal"
