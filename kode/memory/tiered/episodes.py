"""Episodes: what a session was about, and what lasts of it, by one question when it ends.

The raw material waits in `episodes/pending/` until then; unfinished work is finished at a later
start.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kode import paths
from kode.errors import MemoryRefused
from kode.events import Notice
from kode.memory import learn, question, scan
from kode.memory.change import Author, Change
from kode.memory.frame import Recording, count_turns, transcript
from kode.memory.learn import Answer, Learner
from kode.memory.queue import Item, Queue, details, work_off
from kode.memory.tiered.episode_files import Episode, raw_note, render, summary_of, valid_id
from kode.memory.tiered.episode_index import EpisodeIndex
from kode.memory.tiered.facts import shorten
from kode.memory.tiered.write import SYSTEM, FactWriter, Outcome
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
class Ended:
    """What the queue keeps of an ended session besides."""

    project: str = ""
    """The path hash of its project."""
    root: str = ""
    """The project's folder; "" if unknown."""
    in_repository: bool = False


def open_queue(episodes: Path) -> Queue:
    """The sessions that have ended and are not noted yet; `episodes` is their folder."""
    return Queue(episodes / "pending", Ended)


@dataclass(kw_only=True)
class EpisodeKeeper(Learner):
    """The episodes of one session; also the `Job` of the queue of ended sessions."""

    settings: "MemoryConfig"
    writer: FactWriter
    index: EpisodeIndex

    # ── making one ───────────────────────────────────────────────────────────────────────────

    async def end(self, messages: Sequence[Message], recording: Recording) -> bool:
        """Writes the episode of an ending session, and what it brought for the facts; False if that
        is left for later.

        Raises: StorageError if not even the raw material can be stored; CancelledError (then the
            raw material is on disk).
        """
        deadline_s = self.settings.end_deadline_s
        turns = max(recording.turns, count_turns(messages))
        if not messages or not self._is_due(turns, recording):
            await self._relate_alone(recording)
            return True
        item = self._put_down(turns, transcript(messages), recording)
        finished = await self.ask_within(item, deadline_s)
        if not finished:
            self._notice(
                "The note of this session could not be written now; what it needs is kept, and "
                "kode writes it at a later start.",
                level="info",
            )
        return finished

    async def leave_pending(self, recording: Recording) -> None:
        """Stores the raw material of a session that ends unprocessed."""
        if recording.heard and self._is_due(recording.turns, recording):
            self._put_down(recording.turns, recording.text(), recording)

    async def finish_pending(self, is_closing: Callable[[], bool]) -> None:
        """Writes the episodes that earlier processes left; starts no more once `is_closing`."""

        def others() -> list[str]:
            if is_closing() or not self.settings.llm_extract or not self.door.usable:
                return []
            items = self.queue.items()
            return [one.id for one in items if one.session != self.context.session_id]

        await work_off(self.queue, self, others, self._notice)

    async def approve(self, session_id: str, author: Author) -> Outcome:
        """Lets a tainted episode be recalled. Raises: MemoryRefused, StorageError."""
        async with self.index.files.lock():
            episode = self.index.files.read(session_id)
            if episode is None:
                raise MemoryRefused(f"The episode {session_id} has gone.")
            return self._write(
                replace(episode, approved=True), "approve", author, "recalled from now on"
            )

    async def drop(self, session_id: str, author: Author) -> Outcome:
        """Removes an episode that waits for approval. Raises: MemoryRefused, StorageError."""
        async with self.index.files.lock():
            text = self.index.files.text(session_id)
            change = Change.by(author, SYSTEM, "drop", f"episodes/{session_id}.md", before=(text,))
            with self.writer.history.making(change):
                self.index.files.remove(session_id)
        return Outcome(line=f"dropped episode {session_id}", change_id=change.id)

    async def waiting(self) -> list[Episode]:
        """The episodes that wait for approval."""
        return await self.index.waiting()

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    def _is_due(self, turns: int, recording: Recording) -> bool:
        session_id = self.context.session_id
        settings = self.settings
        if session_id is None or not valid_id(session_id) or self.context.read_only:
            return False
        if not settings.extract_on_end or not settings.llm_extract:
            return False
        if turns < max(1, settings.min_turns_for_extraction):
            return False
        if recording.heard:
            return True
        before = self.index.files.read(session_id)
        return before is None or before.turns < turns

    def _put_down(self, turns: int, text: str, recording: Recording) -> Item:
        """Stores what the question is about."""
        ended = Ended(
            project=paths.path_hash(self.writer.project),
            root=str(self.writer.project),
            in_repository=self.writer.store.in_repository,
        )
        id = f"{self.context.session_id}.{turns:04d}"
        item = self.item(id, turns, text, recording.said, recording.tainted, ended)
        self.queue.write(item)
        recording.mark_stored()
        return item

    async def _relate_alone(self, recording: Recording) -> None:
        """For a session without a note: asks about the pairs of facts that wait for a word."""
        session, can_ask = self.context.session_id, self.door.usable and not self.context.read_only
        tainted = recording.tainted or self.context.tainted()
        if can_ask and valid_id(session or "") and not tainted and self.writer.unjudged():
            item = self._put_down(recording.turns, "", recording)
            await self.ask_within(item, self.settings.end_deadline_s)

    # ── the job ──────────────────────────────────────────────────────────────────────────────

    def facts(self, item: Item) -> FactWriter:
        ended = details(Ended, item) or Ended()
        if not ended.root or Path(ended.root) == self.writer.project:
            return self.writer
        root, store = Path(ended.root), self.writer.store
        store = replace(store, project=root, in_repository=ended.in_repository)
        return replace(self.writer, store=store, project=root)

    def so_far(self, item: Item) -> str:
        earlier = self.index.files.read(item.session)
        return earlier.text if earlier and earlier.narrative else ""

    async def do(self, item: Item) -> str:
        if not item.answer:
            others = (one for one in self.queue.items(item.session) if one.id != item.id)
            item = self.queue.join(item, [one for one in others if not one.answer])
        return await super().do(item)

    async def give_up(self, item: Item, why: str) -> None:
        self._notice(
            f"No model could summarize session {item.session} in "
            f"{MAX_ATTEMPTS} attempts: its note says what you asked, in your words."
        )
        await self.note(item, question.Found(), Answer(text=""))
        self.queue.finish(item)

    async def note(self, item: Item, found: question.Found, answer: Answer) -> None:
        changed = {fact.line for fact in found.facts if fact.how == "changes"}
        facts = [fact.text for fact in found.facts if fact.number not in changed][:FACTS_A_NOTE]
        narrative, facts = self._scan(found.narrative, facts, item)
        vector = await self.index.vector("\n".join([narrative, *facts]))
        ended = details(Ended, item) or Ended()
        async with self.index.files.lock():
            before = self.index.files.read(item.session)
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
            if render(episode) == self.index.files.text(item.session):
                return  # written before a kill
            source = came_from(item.session, item.outside) if item.tainted else ""
            author = Author(who="extraction", session=item.session, turn=item.turn, source=source)
            outcome = self._write(episode, "episode", author, summary_of(narrative), vector)
        learn.report(outcome, self.context.emit)

    def _notice(self, text: str, level: Literal["info", "warning"] = "warning") -> None:
        self.context.emit(Notice(text=text, level=level))

    def _scan(self, narrative: str, facts: Sequence[str], item: Item) -> tuple[str, list[str]]:
        """Both without what may not be remembered; the narrative is never empty."""
        good = [fact for fact in facts if not scan.scan(fact)]
        if scan.scan(narrative) or not narrative:
            narrative = raw_note(item.text)
        if scan.scan(narrative):
            narrative = f"(A session of {item.turn} turns; the scan refused its note.)"
        if len(good) < len(facts):
            self._notice("A fact that the model drew from this session was refused by the scan.")
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
        if (aside := self.index.files.set_aside_if_no_text(id)) is not None:
            self._notice(f"The note of session {id} was not UTF-8 text. It is now {aside}.")
        before, after = self.index.files.text(id), render(episode)
        values = {"before": (before,) if before else (), "after": (after,), "reason": reason}
        change = Change.by(author, SYSTEM, kind, f"episodes/{id}.md", **values)
        with self.writer.history.making(change):
            self.index.write(episode, vector)
        verb = {"approve": "approved", "episode": "kept"}[kind]
        waits = "" if episode.recallable else " (waits for `kode memory approve`)"
        line = f'{verb} episode "{shorten(episode.narrative, 60)}"{waits}'
        return Outcome(line=line, change_id=change.id)


def joined_facts(known: Sequence[str], more: Sequence[str]) -> tuple[str, ...]:
    """The facts of a continued session, without duplicates, newest last."""
    facts = list(known)
    facts += [fact for fact in more if fact not in known]
    return tuple(facts[-MAX_FACTS:])
