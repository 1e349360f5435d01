"""What an ended session leaves, by the one question: its summary, the facts that the person stated
in it, and which notes repeat, change or contradict others."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from kode import credentials
from kode.memory import question, scan
from kode.memory.ask import MemoryModel, says_something
from kode.memory.base import WORDS_CHARS
from kode.memory.change import Author
from kode.memory.history import History
from kode.memory.ledger import PAIRS, Ledger, Statement
from kode.memory.notes.jobs import details_of
from kode.memory.notes.note import SYSTEM, Kind, Note, entry_of, in_words
from kode.memory.notes.search import NoteVectors, search
from kode.memory.notes.store import NoteStore, Wanted
from kode.memory.notes.write import Kept, NoteWriter
from kode.memory.precedence import rank, source_rank, supersedes
from kode.memory.question import Fact, Relation
from kode.memory.queue import Item, Queue, answered
from kode.memory.stored import read_row
from kode.messages import shorten

NARRATIVE_CHARS = 1_200
MAX_ATTEMPTS = 3
MOST_KNOWN = 200
"""Notes that may be shown all; of more, the nearest."""
MOST_NEW = 20
NEAR = 5
"""Notes that each new one is shown with, the nearest, where not all fit."""
ASKED_AT = "asked_at"
"""In the database's `meta`: the newest note that a question has shown."""
MERGE = "merge"
"""What an older kode wrote for the session of old notes to merge: maintenance joins those."""
_WHAT_HOLDS: tuple[Kind, ...] = ("log", "rule")

Verdict = Literal["same", "outdated", "contradicts"]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """As the queue keeps it."""

    text: str
    shown: tuple[str, ...] = ()
    """The ids of the notes that the question showed, in its order."""


@dataclass(frozen=True, kw_only=True)
class Learning:
    """The `Job` of the notes' queue for ended sessions."""

    store: NoteStore
    history: History
    ledger: Ledger
    queue: Queue
    door: MemoryModel
    writer: NoteWriter
    vectors: NoteVectors
    project: Path
    """Where paths of cited code begin."""
    timeout_s: float
    written: Callable[[Kept], None]
    attempts: int = MAX_ATTEMPTS

    def waiting(self) -> list[str]:
        return [item.id for item in self.queue.items()]

    def is_answered(self, item: Item) -> bool:
        return bool(item.answer) or item.session == MERGE

    async def do(self, item: Item) -> str:
        if item.session == MERGE:
            self.queue.finish(item)
            return ""
        scope = details_of(item).scope
        store = replace(self.store, project_scope=scope) if scope else self.store
        item, saved = await answered(self.queue, item, lambda: self._ask(store, item))
        answer = read_row(Answer, saved.encode()) or Answer(text=saved)  # of an older kode: a text
        known = store.by_ids(answer.shown)
        shown = [known.get(id) for id in answer.shown]
        found = question.read(answer.text, len(shown))
        if not found.narrative and (item.text or found.lines is None):
            self.queue.write(replace(item, answer=""))
            return "no usable answer"
        if item.text:
            await self._sum_up(store, item, found.narrative)
            await self._learn(item, found.facts, shown)
        if not item.tainted and found.lines is not None:
            for one in found.lines:
                await self._relate(store, item, one, shown)
            if answer.shown:
                await store.keep_meta(ASKED_AT, max(answer.shown))
        self.queue.finish(item)
        return ""

    async def fail(self, item: Item, why: str) -> None:
        """The notes of its jobs say what was done; notes alone are shown to the next question."""
        if not item.text:
            self.queue.finish(item)

    async def give_up(self, item: Item, why: str) -> None:
        self.queue.finish(item)

    async def has_new(self) -> bool:
        """Whether a note that no question has shown yet is near another."""
        for note in self._new(self.store):
            found = await self._near(self.store, note.content)
            if any(one.id != note.id for one in found):
                return True
        return False

    # ── asking ───────────────────────────────────────────────────────────────────────────────

    async def _ask(self, store: NoteStore, item: Item) -> str:
        """The model's answer with what it was shown; "" for none."""
        shown = await self._shown(store, item)
        earlier = of_session(store, item.session, _FINAL)
        prompt = question.build(
            f"The transcript of {item.turn} turns:\n\n{item.text}" if item.text else "",
            [credentials.redact(note.content) for note in shown],
            so_far=earlier[0].content if earlier and not earlier[0].sensitive else "",
        )
        answer = await self.door.ask(
            question.INSTRUCTIONS,
            prompt,
            max_output_tokens=question.MAX_OUTPUT_TOKENS,
            timeout_s=self.timeout_s,
            patient=True,
        )
        if not answer.text:
            return ""
        text = credentials.redact(answer.text)
        ids = [note.id for note in shown]
        return json.dumps({"text": text, "shown": ids}, ensure_ascii=False)

    async def _shown(self, store: NoteStore, item: Item) -> list[Note]:
        """The notes for the question, oldest first: all that say what holds, if they fit; else the
        new ones, and what is nearest to them and to what the person said."""
        notes = store.get(Wanted(kinds=_WHAT_HOLDS, limit=MOST_KNOWN))
        size = sum(len(note.content) for note in notes)
        if size > question.KNOWN_CHARS or len(notes) == MOST_KNOWN:
            new = self._new(store)
            nearest = [await self._near(store, text) for text in (n.content for n in new)]
            said = await self._near(store, "\n".join(item.said) or item.text, MOST_NEW)
            ranked = [*new, *(one for found in nearest for one in found), *said]
            notes, room = [], question.KNOWN_CHARS
            for note in {one.id: one for one in ranked}.values():
                room -= len(note.content)
                notes += [note] if room >= 0 else []
        return sorted(notes, key=_age)

    def _new(self, store: NoteStore) -> list[Note]:
        """What no question has shown yet, newest first."""
        last = store.database.meta(ASKED_AT)
        found = store.get(Wanted(kinds=_WHAT_HOLDS, limit=MOST_NEW))
        return [note for note in found if note.id > last]

    async def _near(self, store: NoteStore, text: str, most: int = NEAR) -> list[Note]:
        wanted = Wanted(kinds=_WHAT_HOLDS, limit=most)
        return [one.note for one in await search(store, self.vectors, text, wanted)]

    # ── the session ──────────────────────────────────────────────────────────────────────────

    async def _sum_up(self, store: NoteStore, item: Item, narrative: str) -> None:
        """One summary in place of those of the session's jobs, and of an earlier end of it."""
        text = question.cut(narrative, NARRATIVE_CHARS)
        replaced = of_session(store, item.session, "n.kind = 'summary' AND n.job_id IS NOT NULL")
        is_there = any(note.content == text for note in replaced)  # written before a kill
        if is_there or not says_something(text, question.INSTRUCTIONS) or scan.scan(text):
            return
        kept = await self.writer.remember(
            text,
            author=Author(who="extraction", session=item.session, turn=item.turn),
            kind="summary",
            tags=("session",),
            job_id=item.session,
            sensitivity=_sensitivity(item),
            untrusted="waits"
            if item.tainted or any(note.untrusted == "waits" for note in replaced)
            else "",
            change="session",
            supersedes=tuple(replaced),
        )
        self.written(kept)

    async def _learn(self, item: Item, facts: Sequence[Fact], shown: Sequence[Note | None]) -> None:
        """Keeps what is new and rests on words that the person typed; the rest is the model's, and
        stays in the summary. What is not kept for its wording is left out."""
        forgotten = self.ledger.ended_in(item.session, "forget")
        known = {note.content for note in shown if note} | forgotten
        for fact in facts:
            is_new = fact.how != "repeats" and fact.text not in known
            if is_new and question.stands_in(fact.words, item.said) and not scan.scan(fact.text):
                await self._keep(item, fact, shown[fact.line - 1] if fact.line else None)

    async def _keep(self, item: Item, fact: Fact, old: Note | None) -> None:
        """A new note; in place of the one that it changes, if it ranks as high, else beside it."""
        words = shorten(fact.words, WORDS_CHARS)
        author = Author(who="extraction", session=item.session, turn=item.turn, words=words)
        details = details_of(item)
        if old is not None and (old.superseded_by or item.tainted):
            old = None
        wins = old is not None and supersedes(
            source_rank(author, fact.text, old.content),
            rank(self._statement(old), self.project, fact.text),
        )
        replaces = old if wins and fact.how == "changes" else None
        of_project = fact.about == "project" and details.in_repository
        kept = await self.writer.remember(
            fact.text,
            author=author,
            kind=replaces.kind if replaces else "log",
            tags=replaces.tags if replaces else (),
            confidence=replaces.confidence if replaces else 1.0,
            evidence=(words,),
            scope=old.scope if old else details.scope if of_project else "user",
            sensitivity=_sensitivity(item),
            untrusted="waits" if item.tainted else "",
            change="supersede" if replaces else "learn",
            supersedes=(replaces,) if replaces else (),
            beside=None if replaces else old,
            wins=wins,
        )
        self.written(kept)

    # ── known notes ──────────────────────────────────────────────────────────────────────────

    async def _relate(
        self, store: NoteStore, item: Item, one: Relation, shown: Sequence[Note | None]
    ) -> None:
        """What the model says of two notes: one that is outdated or said twice goes; where the
        older ranks higher, both are in dispute. The model knows what they say, and the notes which
        is the newer."""
        async with store.writing():
            pair = [note for note in (shown[one.line - 1], shown[one.of - 1]) if note]
            standing = store.by_ids(note.id for note in pair)
            if len(pair) < 2 or any(standing.get(note.id) != note for note in pair):
                return
            older, newer = sorted(pair, key=lambda note: self._statement(note).at)
            places = frozenset(entry_of(note).place for note in pair)
            if self.ledger.is_settled(places) or any(
                known.contradict and known.places == places for known in self.ledger.disputes()
            ):
                return
            author = Author(who="merge", session=item.session or None)
            kept, gone = newer, older
            if one.how == "repeats" and (older.kind == "rule" or newer.expires_at):
                kept, gone = older, newer
            is_ended = self._ends(older, newer) if one.how == "changes" else one.how == "repeats"
            if is_ended and kept.scope == gone.scope and gone.stability != "permanent":
                self._end(store, kept, gone, author, [older, newer], one)
            elif one.how != "repeats":
                first, second = (newer, older) if self._outranks(older, newer) else (older, newer)
                sides = (entry_of(first).place, entry_of(second).place)
                self.history.record(author, SYSTEM, "dispute", PAIRS, against=(sides,))

    def _end(
        self,
        store: NoteStore,
        kept: Note,
        gone: Note,
        author: Author,
        before: Sequence[Note],
        one: Relation,
    ) -> None:
        repeats = one.how == "repeats"
        reason = f"{in_words(gone)} {'is said by' if repeats else 'gave way to'} {in_words(kept)}"
        after = [replace(gone, superseded_by=kept.id), kept]
        change = store.commit("merge" if repeats else "supersede", before, after, author, reason)
        self.written(Kept(line=reason, change_id=change.id, note=kept))

    def _ends(self, older: Note, newer: Note) -> bool:
        """Whether a newer note ends one that it changes. What holds for a time does not end what
        holds without one."""
        passes = newer.expires_at is not None and older.expires_at is None
        return not passes and self._outranks(older, newer)

    def _outranks(self, older: Note, newer: Note) -> bool:
        old, new = self._statement(older), self._statement(newer)
        return supersedes(
            rank(new, self.project, older.content), rank(old, self.project, newer.content)
        )

    def _statement(self, note: Note) -> Statement:
        return self.ledger.statement(entry_of(note))


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


def _age(note: Note) -> tuple[str, str]:
    return note.created_at, note.id
