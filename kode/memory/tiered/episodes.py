"""Episodes: what a session was about, and what lasts of it, by one question when it ends.

The raw material waits in `episodes/pending/` until then; unfinished work is finished at a later
start.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kode import credentials
from kode.contracts import MemoryContext
from kode.errors import BusyError, MemoryRefused
from kode.memory import question, scan
from kode.memory.ask import MemoryModel
from kode.memory.change import Author, Change
from kode.memory.frame import MAX_PART_CHARS, Recording, count_turns, transcript
from kode.memory.history import History
from kode.memory.queue import Item, answered, details, work, work_through
from kode.memory.stored import read_row
from kode.memory.tiered.episode_files import Episode, raw_note, render, summary_of, valid_id
from kode.memory.tiered.episode_index import EpisodeIndex
from kode.memory.tiered.facts import shorten
from kode.memory.tiered.learn import Ended, Learner, Line, open_queue
from kode.memory.tiered.write import SYSTEM, Outcome
from kode.memory.waiting import came_from
from kode.messages import Message

if TYPE_CHECKING:
    from kode.config import MemoryConfig
    from kode.memory.index import Vector

FACTS_A_NOTE = 3
"""How many a question adds to a note."""
MAX_FACTS = 12
"""Limit per episode, however often its session is continued."""
MAX_ATTEMPTS = 5
"""Attempts without a usable answer; then the episode is made from the raw material, without a
model."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    text: str
    shown: tuple[Line, ...] = ()
    """The known lines that the question was about."""


class EpisodeKeeper:
    """The episodes of one session; also the `Job` of the queue of ended sessions."""

    attempts = MAX_ATTEMPTS

    def __init__(
        self,
        *,
        context: MemoryContext,
        settings: "MemoryConfig",
        door: MemoryModel,
        history: History,
        index: EpisodeIndex,
        learner: Learner,
    ) -> None:
        self.files = index.files
        self.queue = open_queue(index.files.folder)
        self._index = index
        self._context = context
        self._settings = settings
        self._door = door
        self._history = history
        self._learner = learner

    # ── making one ───────────────────────────────────────────────────────────────────────────

    async def keep(self, messages: Sequence[Message], recording: Recording) -> bool:
        """Writes the episode of an ending session, and what it brought for the facts; False if that
        is left for later.

        Raises: StorageError if not even the raw material can be stored; CancelledError (then the
            raw material is on disk).
        """
        deadline_s = self._settings.end_deadline_s
        turns = max(recording.turns, count_turns(messages))
        if not messages or not self._is_due(turns, recording):
            await self._settle_alone(recording, deadline_s)
            return True
        item = await self._put_down(turns, transcript(messages), recording)
        finished = False
        try:
            async with asyncio.timeout(deadline_s):
                finished = await work(self.queue, self, item.id, timeout_s=deadline_s)
        except (TimeoutError, BusyError):
            pass
        if not finished:
            self._learner.notice(
                "The note of this session could not be written now; what it needs is kept, and "
                "kode writes it at a later start.",
                level="info",
            )
        return finished

    async def leave_pending(self, recording: Recording) -> None:
        """Stores the raw material of a session that ends unprocessed."""
        if recording.heard and self._is_due(recording.turns, recording):
            await self._put_down(recording.turns, recording.text(), recording)

    async def finish_pending(self, is_closing: Callable[[], bool]) -> None:
        """Writes the episodes that earlier processes left; starts no more once `is_closing`. Those
        that another process works on are left to it."""
        if not self.queue.folder.is_dir():
            return
        async with self.files.lock():
            damaged = self.queue.set_aside_damaged()
        for path in damaged:
            self._learner.notice(
                f"What was kept of a session for its note cannot be read: now {path}."
            )

        def others() -> list[str]:
            if is_closing() or not self._settings.llm_extract or not self._door.usable:
                return []
            items = self.queue.items()
            return [one.id for one in items if one.session != self._context.session_id]

        try:
            await work_through(self.queue, self, others, timeout_s=0.0)
        except BusyError:
            pass

    async def approve(self, session_id: str, author: Author) -> Outcome:
        """Lets a tainted episode be recalled. Raises: MemoryRefused, StorageError."""
        async with self.files.lock():
            episode = self.files.read(session_id)
            if episode is None:
                raise MemoryRefused(f"The episode {session_id} has gone.")
            return self._write(
                replace(episode, approved=True), "approve", author, "recalled from now on"
            )

    async def drop(self, session_id: str, author: Author) -> Outcome:
        """Removes an episode that waits for approval. Raises: MemoryRefused, StorageError."""
        async with self.files.lock():
            text = self.files.text(session_id)
            change = Change.by(author, SYSTEM, "drop", f"episodes/{session_id}.md", before=(text,))
            with self._history.making(change):
                self.files.remove(session_id)
        return Outcome(line=f"dropped episode {session_id}", change_id=change.id)

    async def waiting(self) -> list[Episode]:
        """The episodes that wait for approval."""
        return await self._index.waiting()

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    def _is_due(self, turns: int, recording: Recording) -> bool:
        session_id = self._context.session_id
        settings = self._settings
        if session_id is None or not valid_id(session_id) or self._context.read_only:
            return False
        if not settings.extract_on_end or not settings.llm_extract:
            return False
        if turns < max(1, settings.min_turns_for_extraction):
            return False
        if recording.heard:
            return True
        before = self.files.read(session_id)
        return before is None or before.turns < turns

    async def _put_down(self, turns: int, text: str, recording: Recording) -> Item:
        """Stores the raw material."""
        session = self._context.session_id or ""
        tainted = recording.tainted or self._context.tainted()
        item = Item(
            id=f"{session}.{turns:04d}",
            session=session,
            turn=turns,
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            text=text,
            said=tuple(credentials.redact(text[:MAX_PART_CHARS]) for text in recording.said),
            tainted=tainted,
            outside=self._context.outside() if tainted else "",
            more=asdict(self._learner.ended),
        )
        async with self.files.lock():
            self.queue.write(item)
        recording.mark_stored()
        return item

    # ── the job ──────────────────────────────────────────────────────────────────────────────

    def is_answered(self, item: Item) -> bool:
        return bool(item.answer)

    async def do(self, item: Item) -> str:
        """Writes the episode, then the facts."""
        if not item.answer:
            others = (one for one in self.queue.items(item.session) if one.id != item.id)
            item = self.queue.join(item, [one for one in others if not one.answer])
        item, saved = await answered(self.queue, item, lambda: self._ask(item))
        answer = _read_answer(saved)
        found = question.read(answer.text, len(answer.shown))
        if not found.narrative:
            await self._learner.learn(item, question.Found(lines=None), answer.shown)
            self.queue.write(replace(item, answer=""))
            return "no usable answer"
        await self._write_note(item, found)
        await self._learner.learn(item, found, answer.shown)
        self.queue.finish(item)
        return ""

    async def fail(self, item: Item, why: str) -> None:
        """The end of the session says so, and no later start."""

    async def give_up(self, item: Item, why: str) -> None:
        self._learner.notice(
            f"No model could summarize session {item.session} in "
            f"{MAX_ATTEMPTS} attempts: its note says what you asked, in your words."
        )
        await self._write_note(item, question.Found())
        self.queue.finish(item)

    async def _write_note(self, item: Item, found: question.Found) -> None:
        facts = [fact.text for fact in found.facts][:FACTS_A_NOTE]
        narrative, facts = self._scan(found.narrative, facts, item)
        vector = await self._index.vector("\n".join([narrative, *facts]))
        ended = details(Ended, item) or Ended()
        async with self.files.lock():
            before = self.files.read(item.session)
            episode = Episode(
                session_id=item.session,
                turns=max(item.turn or 0, before.turns if before else 0),
                created_at=before.created_at if before else item.at,
                updated_at=item.at,
                narrative=narrative,
                facts=joined_facts(before.facts if before else (), facts),
                tainted=item.tainted or (before is not None and before.tainted),
                # The person approved the note as it was then.
                approved=before is not None and before.approved and not item.tainted,
                project=ended.project or (before.project if before else ""),
            )
            if render(episode) == self.files.text(item.session):
                return  # written before a kill
            source = came_from(item.session, item.outside) if item.tainted else ""
            author = Author(who="extraction", session=item.session, turn=item.turn, source=source)
            outcome = self._write(episode, "episode", author, summary_of(narrative), vector)
        self._learner.tell(outcome)

    async def _ask(self, item: Item) -> str:
        """The model's answer with what it was shown; "" for none."""
        shown = self._learner.shown(item)
        text = await self._question(item, shown)
        saved = Answer(text=text, shown=tuple(shown))
        return json.dumps(asdict(saved), ensure_ascii=False) if text else ""

    async def _question(self, item: Item, shown: Sequence[Line]) -> str:
        earlier = self.files.read(item.session)
        prompt = question.build(
            f"The transcript of {item.turn} turns:\n\n{item.text}" if item.text else "",
            [line.text for line in shown],
            so_far=earlier.text if earlier and earlier.narrative else "",
        )
        answer = await self._door.ask(
            question.INSTRUCTIONS,
            prompt,
            max_output_tokens=question.MAX_OUTPUT_TOKENS,
            timeout_s=self._settings.end_deadline_s,
            patient=True,  # at the end of a session `keep` has its own limit
        )
        return credentials.redact(answer.text or "")

    async def _settle_alone(self, recording: Recording, timeout_s: float) -> None:
        """For a session without a note: asks about the pairs of facts that wait for a word."""
        session = self._context.session_id or ""
        tainted = recording.tainted or self._context.tainted()
        item = Item(id="", session=session, at="", text="", tainted=tainted)
        if self._context.read_only or not self._door.usable or not session:
            return
        if self._learner.pairs(item):
            shown = self._learner.shown(item)
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    lines = question.read(await self._question(item, shown), len(shown)).lines
                    await self._learner.learn(item, question.Found(lines=lines), shown)

    def _scan(self, narrative: str, facts: Sequence[str], item: Item) -> tuple[str, list[str]]:
        """Both without what may not be remembered; the narrative is never empty."""
        good = [fact for fact in facts if not scan.scan(fact)]
        if scan.scan(narrative) or not narrative:
            narrative = raw_note(item.text)
        if scan.scan(narrative):
            narrative = f"(A session of {item.turn} turns; the scan refused its note.)"
        if len(good) < len(facts):
            self._learner.notice(
                "A fact that the model drew from this session was refused by the scan."
            )
        return narrative, good

    def _write(
        self,
        episode: Episode,
        kind: str,
        author: Author,
        reason: str,
        vector: "Vector | None" = None,
    ) -> Outcome:
        """History, then file and index; call with the lock held."""
        id = episode.session_id
        if (aside := self.files.set_aside_if_no_text(id)) is not None:
            self._learner.notice(f"The note of session {id} was not UTF-8 text. It is now {aside}.")
        before, after = self.files.text(id), render(episode)
        values = {"before": (before,) if before else (), "after": (after,), "reason": reason}
        change = Change.by(author, SYSTEM, kind, f"episodes/{id}.md", **values)
        with self._history.making(change):
            self._index.write(episode, vector)
        verb = {"approve": "approved", "episode": "kept"}[kind]
        waits = "" if episode.recallable else " (waits for `kode memory approve`)"
        line = f'{verb} episode "{shorten(episode.narrative, 60)}"{waits}'
        return Outcome(line=line, change_id=change.id)


def _read_answer(saved: str) -> Answer:
    """A stored answer; an older kode stored its bare text."""
    return read_row(Answer, saved.encode(errors="replace")) or Answer(text=saved)


def joined_facts(known: Sequence[str], more: Sequence[str]) -> tuple[str, ...]:
    """The facts of a continued session, without duplicates, newest last."""
    facts = list(known)
    facts += [fact for fact in more if fact not in known]
    return tuple(facts[-MAX_FACTS:])
