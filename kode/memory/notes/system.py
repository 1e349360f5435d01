"""The notes system: a database of notes of four kinds, with lifetimes, sensitivity and vectors."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kode import credentials, paths
from kode.contracts import (
    Drop,
    DropReason,
    Injection,
    InjectReason,
    MemoryContext,
    SnapshotSection,
    Tool,
    Turn,
)
from kode.errors import MemoryRefused
from kode.memory import embed, replacing
from kode.memory.ask import MemoryModel
from kode.memory.base import has_lost_messages
from kode.memory.change import Author, Who
from kode.memory.frame import MOST_SAID, count_turns, transcript, typed_in
from kode.memory.history import History
from kode.memory.ledger import Ledger
from kode.memory.lineage import Place
from kode.memory.notes import jobs, learn, maintenance, pack
from kode.memory.notes.database import Database
from kode.memory.notes.note import PROJECT_SCOPE, Untrusted
from kode.memory.notes.opened import TURN_S, OpenedNotes
from kode.memory.notes.places import NotesPlaces
from kode.memory.notes.replica import NotesReplica, remote_of
from kode.memory.notes.search import NoteVectors
from kode.memory.notes.store import NoteStore, Wanted
from kode.memory.notes.tools import SOUL, note_tools
from kode.memory.notes.write import Kept, NoteWriter
from kode.memory.queue import work_off
from kode.memory.search import Finder
from kode.memory.stale import Doubt
from kode.memory.stored import may_name_a_file
from kode.messages import Message, keep_ends

ABOUT_CONTEXT = "What kode remembers from earlier sessions."
ABOUT_PACK = "Notes of earlier sessions that may bear on this request."
OPEN_S = 4.0
"""How long opening waits for a team's server; what is not there by then comes with a later turn."""
ASKED_TTL_DAYS = 30
ASKED_CHARS = 2_000
SNAPSHOT_NOTES = 20
MOST_SHOWN = 500
"""Ids of notes that the session remembers as shown."""

_SENSITIVE = "n.sensitivity = 'sensitive'"


def is_command(text: str) -> bool:
    """Whether a message is the command `remember TEXT`: it begins with that word, and a text
    follows. The word anywhere else asks for nothing."""
    command, *said = text.split(maxsplit=1) or [""]
    return bool(said) and command.rstrip(":,").lower() == "remember"


class Notes(OpenedNotes):
    # ── the moments of the contract ──────────────────────────────────────────────────────────

    async def open(self, context: MemoryContext, state: Mapping[str, Any]) -> None:
        await super().open(context, state)
        settings = self._settings
        self._door = MemoryModel(context.ask_reply, expected_s=context.expected_s)
        embedder = embed.open_embedder(settings.embedding, context.root / "vectors", self._notice)
        self.team = remote_of(settings.notes, self.project)
        folder, project = context.root / "notes", paths.path_hash(self.project)
        if self.team is not None:
            self.history = History(context.root / f"history-team-{self.team.key}.jsonl")
            self.ledger = Ledger(self.history, self.name, self.sides)
            folder, project = folder / "teams" / self.team.key, self.team.project
        self.database = Database(
            folder / "notes.db", read_only=context.read_only, notice=self._notice
        )
        self.store = NoteStore(
            database=self.database,
            history=self.history,
            user=settings.notes.user,
            project_scope=PROJECT_SCOPE + project,
            now=context.now,
        )
        self.history.places = NotesPlaces(context.root, self.store)
        replica = NotesReplica(self.store, self.history)
        self.writer = NoteWriter(self.store, self._writing, settings.notes)
        self.vectors = NoteVectors(self.store, embedder)
        if self.team is not None:
            self.team.join(replica, context.emit, self._work.start)
            self.writer = replace(self.writer, _check_approval=replica.check_approval)
        self._finder = Finder(self._door, embedder, context.now, llm=settings.llm_search)
        self._tainted = False
        self._wrote_in_turn = False
        self._said: list[str] = []
        shown = state.get("shown")
        listed = shown if isinstance(shown, list) else []
        self._shown = dict.fromkeys(id for id in listed if isinstance(id, str))
        self._in_prompt: frozenset[str] = frozenset()
        self._first_pack = not self._shown
        self.doubts: Mapping[Place, Doubt] = {}
        if not context.read_only:
            await self.writer.first_soul()
        if self.team and not context.read_only:
            await self.team.update(OPEN_S)

    async def inject(self, reason: InjectReason) -> Injection:
        """The agent context. The session's own messages say what its work was: summaries of it come
        with `recall`, and only after messages were dropped."""
        if has_lost_messages(reason):
            self._shown.clear()
            self._first_pack = True
        self.look_again()
        context = pack.agent_context(self.store, self._context.session_id)
        self._in_prompt = frozenset(note.id for note in context.notes)
        if context.rules_left_out:
            self._notice(
                f"{context.rules_left_out} of your rules do not fit into the prompt, which holds "
                f"{pack.RULES} of {pack.RULES_CHARS:,} characters together. Ask kode to merge some."
            )
        rules = tuple(self.marked(context.rules))
        summaries = tuple(self.marked(context.summaries, pack.cut))
        body = pack.context_text(replace(context, rules=rules, summaries=summaries))
        replacing.note(self.seen, SOUL, self.soul())
        if not body:
            return Injection()
        return Injection(system="# Memory\n" + self._frame(ABOUT_CONTEXT, body))

    async def recall(self, turn: Turn) -> str:
        self._hear(turn)
        self._wrote_in_turn = False
        self._tainted = self._tainted or turn.tainted
        news = await self._news()
        seen = self._in_prompt | frozenset(self._shown)
        notes = await pack.context_pack(
            self.store, self.vectors, turn.text, seen, fill=self._first_pack
        )
        self._first_pack = False
        lines = pack.fitting(self.marked(notes, pack.cut), pack.PACK_CHARS)
        self._shown |= dict.fromkeys(note.id for note in notes[: len(lines)])
        parts = ["## Memory Context", *lines] if lines else []
        parts += ["## Changed by colleagues just now", news] if news else []
        return self._frame(ABOUT_PACK, "\n\n".join(parts)) if parts else ""

    def tools(self) -> tuple[Tool, ...]:
        return () if self._context.read_only else note_tools(self)

    async def after_turn(self, turn: Turn) -> None:
        self._hear(turn)
        self._tainted = self._tainted or turn.tainted
        self._said = [*self._said, *typed_in(turn, self._context.typed)][-MOST_SAID:]
        if self._context.read_only:
            return
        if is_command(turn.text) and not self._wrote_in_turn:
            await self._keep_asked(turn.text)
        if jobs.is_job(turn):
            await self._keep_job(turn)
        self._work.start(self._make_vectors())

    async def before_drop(self, messages: Sequence[Message], reason: DropReason) -> Drop:
        if reason == "window" or self._context.read_only:
            return Drop()
        return Drop(done=await self._keep_session(messages))

    async def maintain(self) -> None:
        if self._context.read_only:
            return
        await self._work.finish(self._maintain())

    async def snapshot(self) -> tuple[SnapshotSection, ...]:
        self.look_again()
        context = pack.agent_context(self.store)
        seen = {note.id for note in context.notes}
        wanted = Wanted(kinds=("log", "summary"), limit=SNAPSHOT_NOTES + len(seen))
        others = [note for note in self.store.get(wanted) if note.id not in seen]
        sections = {
            "Soul": [context.soul] if context.soul else [],
            "Rules": self.marked(context.rules),
            "Notes": self.marked((*context.summaries, *others[:SNAPSHOT_NOTES]), pack.cut),
        }
        return tuple(
            SnapshotSection(
                title=title, content=credentials.redact("\n\n".join(map(pack.line_of, notes)))
            )
            for title, notes in sections.items()
            if notes
        )

    def state(self) -> Mapping[str, Any]:
        return {"shown": list(self._shown)[-MOST_SHOWN:]} if self._shown else {}

    async def close(self, grace_s: float) -> None:
        """What is not finished within `grace_s` (vectors, a merge, sending) is done at the next
        start."""
        if self.team and not self._context.read_only:
            await self.team.finish(grace_s / 2)
        await super().close(grace_s)
        self.database.close()

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    async def _news(self) -> str:
        """What colleagues changed since the turn before."""
        if self.team is None or self._context.read_only:
            return ""
        await self.team.update(TURN_S)
        return self.team.news()

    def _writing(self, who: Who | None, source: str | None) -> Author:
        """Who writes, where nobody is named too."""
        other: Who = "model" if self._context.session_id else "user"
        return self._author(who or other, source=source)

    @property
    def unfinished(self) -> int:
        return len(jobs.open_queue(self.database.path.parent).items())

    async def _maintain(self) -> None:
        """Finishes what earlier processes left, and tidies up."""
        learning = self._learning()

        def ids() -> list[str]:
            can_ask = self._door.usable and self._settings.llm_extract
            items = learning.queue.items() if can_ask and not self._work.is_closing else []
            return [item.id for item in items]

        await work_off(learning.queue, learning, ids, self._notice)
        if made := await maintenance.run(self.store, self._author("merge")):
            self._notice(f"memory: merged old notes into {len(made)}", level="info")
        await self.vectors.make_missing()

    @property
    def _untrusted(self) -> Untrusted:
        return "waits" if self._tainted or self._context.tainted() else ""

    async def _keep_asked(self, text: str) -> None:
        """The person's own words, for a month: the model may have missed the wish. In a session for
        another agent they are that agent's, so there nothing counts as said by the person."""
        who: Who = "extraction" if self._untrusted else "user"
        try:
            outcome = await self.writer.remember(
                keep_ends(text.strip(), ASKED_CHARS),
                tags=("asked",),
                stability="volatile",
                ttl_days=ASKED_TTL_DAYS,
                untrusted=self._untrusted,
                who=who,
            )
        except MemoryRefused as error:
            return self._notice(str(error))
        self._report(outcome)

    async def _keep_job(self, turn: Turn) -> None:
        text = jobs.job_summary(turn, self._context.cwd)
        if text is None:
            return
        kept = await self.writer.remember(
            text,
            kind="summary",
            tags=("job",),
            stability="volatile",
            ttl_days=jobs.JOB_TTL_DAYS,
            job_id=f"{self._context.session_id or 'session'}#{turn.number}",
            # What was said in the turn is in it, and some of that is never to be shown.
            sensitivity="sensitive"
            if any(
                note.turn == turn.number
                for note in learn.of_session(self.store, self._context.session_id, _SENSITIVE)
            )
            else "normal",
            untrusted=self._untrusted,
            who="extraction",
            change="job",
        )
        self._mark_said(kept)

    async def _keep_session(self, messages: Sequence[Message]) -> bool:
        """Leaves the session to the queue, and asks about it if a model can answer; returns whether
        nothing is left to do. A short session is not summed up: it is asked about only if notes
        near each other wait to be compared."""
        settings, session = self._settings, self._context.session_id
        learning = self._learning()
        wanted = settings.extract_on_end and settings.llm_extract and self._door.usable
        if not (wanted and may_name_a_file(session) and session and self._turn):
            return True
        is_long = count_turns(messages) >= settings.min_turns_for_extraction
        if not self._untrusted:
            learning.notes.pair_up(self._author("merge"))
        if not is_long and (self._untrusted or not learning.notes.unjudged()):
            return True
        details = jobs.Queued(
            sensitive=self._was_sensitive(session),
            scope=self.store.project_scope,
            in_repository=self._context.project_root is not None,
        )
        text = transcript(jobs.without_memory(messages)) if is_long else ""
        id, tainted = f"{session}.{self._turn:04d}", bool(self._untrusted)
        item = learning.item(id, self._turn, text, self._said, tainted, details)
        learning.queue.write(item)
        is_done = await learning.ask_within(item, settings.end_deadline_s)
        self._work.start(self._make_vectors())
        return is_done

    def _was_sensitive(self, session: str) -> bool:
        """Whether a change of this session was of a sensitive note, which may be gone since."""
        ours = [one for one in self.history.lines() if one.session == session]
        try:
            return any(
                note.sensitive
                for change in ours
                if change.system == self.name
                for side in self.store.sides(change)
                for note in side
            )
        except MemoryRefused:  # a row that another program has spoiled: nobody knows
            return True

    def _learning(self) -> learn.Learning:
        return learn.Learning(
            context=self._context,
            queue=jobs.open_queue(self.database.path.parent),
            door=self._door,
            timeout_s=self._settings.end_deadline_s,
            attempts=learn.MAX_ATTEMPTS,
            summed_up=self._mark_said,
            notes=learn.HeldNotes(
                system=self.name,
                history=self.history,
                ledger=self.ledger,
                project=self.project,
                store=self.store,
                writer=self.writer,
            ),
        )

    def _mark_said(self, kept: Kept) -> None:
        """Marks a summary of this session's own work as shown: its messages say the same."""
        if kept.note is not None:
            self._shown[kept.note.id] = None
