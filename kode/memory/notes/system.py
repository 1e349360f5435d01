"""The notes system: a database of notes of four kinds, with lifetimes, sensitivity and vectors."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

from kode import credentials, paths
from kode.contracts import (
    Drop,
    DropReason,
    Hit,
    Injection,
    InjectReason,
    MemoryContext,
    SnapshotSection,
    Tool,
    Turn,
)
from kode.errors import BusyError, MemoryRefused, StorageError
from kode.memory import embed, replacing, stale
from kode.memory.ask import MemoryModel
from kode.memory.base import Outcome, has_lost_messages
from kode.memory.change import REBUILD, Author, Who
from kode.memory.exchange import read_row
from kode.memory.folder_tool import folder_tool
from kode.memory.frame import count_turns, transcript
from kode.memory.history import History
from kode.memory.ledger import Ledger
from kode.memory.lineage import Place
from kode.memory.notes import jobs, maintenance, pack
from kode.memory.notes.by_hand import NotesByHand
from kode.memory.notes.database import Database
from kode.memory.notes.folder import NotesFolder
from kode.memory.notes.note import Note, Untrusted, stamp
from kode.memory.notes.places import NotesPlaces
from kode.memory.notes.replica import NotesReplica, remote_of
from kode.memory.notes.search import NoteVectors, search, text_of
from kode.memory.notes.store import NoteStore, Wanted
from kode.memory.notes.tools import SOUL, note_tools
from kode.memory.notes.write import Kept, NoteWriter
from kode.memory.places import Row
from kode.memory.queue import Item, work, work_through
from kode.memory.rank import Text
from kode.memory.search import CANDIDATES, POOL, Finder, with_note
from kode.memory.stale import Doubt
from kode.memory.stored import may_name_a_file
from kode.messages import Message, keep_ends

ABOUT_CONTEXT = "What kode remembers from earlier sessions."
ABOUT_PACK = "Notes of earlier sessions that may bear on this request."
OPEN_S = 4.0
"""How long opening waits for a team's server; what is not there by then comes with a later turn."""
TURN_S = 1.0
ASKED_TTL_DAYS = 30
ASKED_CHARS = 2_000
SNAPSHOT_NOTES = 20
MOST_SHOWN = 500
"""Ids of notes that the session remembers as shown."""

_SENSITIVE = "n.sensitivity = 'sensitive'"
_FAULTS = (MemoryRefused, StorageError, BusyError)


def is_command(text: str) -> bool:
    """Whether a message is the command `remember TEXT`: it begins with that word, and a text
    follows. The word anywhere else asks for nothing."""
    command, *said = text.split(maxsplit=1) or [""]
    return bool(said) and command.rstrip(":,").lower() == "remember"


class Notes(NotesByHand):
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
        self._layout = NotesPlaces(context.root, self.database)
        if self.team is None:
            self.history.places = self._layout
        self.store = NoteStore(
            self.database,
            self.history,
            user=settings.notes.user,
            project=project,
            now=context.now,
        )
        self.writer = NoteWriter(self.store, self._writing, settings.notes)
        self.vectors = NoteVectors(self.store, embedder)
        if self.team is not None:
            replica = NotesReplica(self.store, self.history)
            self.team.join(replica, context.emit, self._work.start)
            self.writer = NoteWriter(
                self.store, self._writing, settings.notes, replica.check_approval
            )
            if embedder is not None:
                shared = self.team.vectors(settings.embedding.model or embed.DEFAULT_MODEL)
                self.vectors = NoteVectors(self.store, embedder, shared)
        self._finder = Finder(self._door, embedder, context.now, llm=settings.llm_search)
        self._tainted = False
        self._wrote_in_turn = False
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
        self.doubts = stale.doubts(self.ledger, self.project, self._context.now().date())
        context = pack.agent_context(self.store, self._context.session_id)
        context = pack.marked_context(context, self.doubts, self._told_since)
        self._in_prompt = frozenset(note.id for note in context.notes)
        if context.rules_left_out:
            self._notice(
                f"{context.rules_left_out} of your rules do not fit into the prompt, which holds "
                f"{pack.RULES} of {pack.RULES_CHARS:,} characters together. Ask kode to merge some."
            )
        body = pack.context_text(context)
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
        lines = pack.fitting(pack.marked(notes, self.doubts, self._told_since), pack.PACK_CHARS)
        self._shown |= dict.fromkeys(note.id for note in notes[: len(lines)])
        parts = ["## Memory Context", *lines] if lines else []
        parts += ["## Changed by colleagues just now", news] if news else []
        return self._frame(ABOUT_PACK, "\n\n".join(parts)) if parts else ""

    def tools(self) -> tuple[Tool, ...]:
        if self._context.read_only:
            return ()
        tools = note_tools(self)
        if self._settings.tool_face == "native":
            return tools
        return (folder_tool(NotesFolder(self)), *(one for one in tools if one.name == "recall"))

    async def after_turn(self, turn: Turn) -> None:
        self._hear(turn)
        self._tainted = self._tainted or turn.tainted
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

    @property
    def layout(self) -> NotesPlaces:
        return self._layout

    async def rebuild(self) -> str:
        """Puts back the notes as the history has them last; one that the database alone has
        stays."""
        from kode.memory.notes.carry import NotesCarrier

        if self.history.places is None:
            return await super().rebuild()
        rows: dict[str, Row] = {}
        for change in self.history.made(""):
            before, after = (map(read_row, side) for side in (change.before, change.after))
            for row in before:
                rows.pop(str(row.get("id")), None)
            rows |= {str(row.get("id")): row for row in after}
        carrier = NotesCarrier(self, self.history.places)
        carrier.author = self._author("user")
        counts = Counter[str]()
        for row in rows.values():
            try:
                counts[carrier.place_row(row)] += 1
            except MemoryRefused:
                counts["refused"] += 1
        ids = await carrier.write(REBUILD)
        if not ids:
            return "Every note that the history has is there."
        lost = f"; {counts['refused']} cannot be read" if counts["refused"] else ""
        line = f"rebuilt {counts['added']} notes, and {counts['changed']} as they were last{lost}"
        return Outcome(line=line, change_id=ids[0]).in_words()

    async def search(self, query: str, k: int) -> list[Hit]:
        found = await self.find(query, Wanted(limit=k))
        return [
            with_note(replace(hit, why=f"{note.kind}; {hit.why}"), self._told_since(note))
            for hit, note in found
        ]

    async def snapshot(self) -> tuple[SnapshotSection, ...]:
        doubts = stale.doubts(self.ledger, self.project, self._context.now().date())
        context = pack.marked_context(pack.agent_context(self.store), doubts, self._told_since)
        seen = {note.id for note in context.notes}
        wanted = Wanted(kinds=("log", "summary"), limit=SNAPSHOT_NOTES + len(seen))
        others = [note for note in self.store.get(wanted) if note.id not in seen]
        others = pack.marked(others[:SNAPSHOT_NOTES], doubts, self._told_since)
        sections = (
            ("Soul", (context.soul,) if context.soul else ()),
            ("Rules", context.rules),
            (
                "Notes",
                (
                    *context.summaries,
                    *pack.marked(others[:SNAPSHOT_NOTES], doubts, self._told_since),
                ),
            ),
        )
        return tuple(
            SnapshotSection(
                title=title, content=credentials.redact("\n\n".join(map(pack.line_of, notes)))
            )
            for title, notes in sections
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

    # ── what the tools and the commands need ─────────────────────────────────────────────────

    async def find(self, query: str, wanted: Wanted) -> list[tuple[Hit, Note]]:
        """The best of the wanted notes, with how they were found."""
        more = replace(wanted, limit=max(wanted.limit, CANDIDATES))
        found = await search(self.store, self.vectors, query, more)

        async def pool() -> list[Text]:
            newest = replace(wanted, limit=POOL)
            # Who kode is answers no question that none of its words is in.
            return [text_of(note) for note in self.store.get(newest) if note.kind != "soul"]

        ranked = [(text_of(one.note), one.ranked) for one in found]
        hits = await self._finder.hits(query, ranked, pool, wanted.limit)
        ids = [hit.where.removeprefix("notes/") for hit in hits]
        doubts = stale.doubts(self.ledger, self.project, self._context.now().date())
        found_notes = pack.marked(self.store.by_ids(ids).values(), doubts, self._told_since)
        notes = {note.id: note for note in found_notes}
        return [(hit, notes[id]) for hit, id in zip(hits, ids, strict=True)]

    def soul(self) -> str:
        """Who kode is for this user; "" for the first one, which says nothing of its own."""
        souls = self.store.get(Wanted(kinds=("soul",), limit=1))
        return "" if not souls or souls[0].content == pack.FIRST_SOUL else souls[0].content

    def _told_since(self, note: Note) -> str:
        """What no longer holds of a note on past work, or is not settled of another."""
        if note.kind != "summary":
            return f"({why})" if (why := self.unsettled().get(("notes", note.id))) else ""
        return self.since_then(note.content, note.session or "")

    async def after_change(self) -> None:
        """A tool has written: it needs a vector, and the trigger needs not write it again."""
        self._wrote_in_turn = True
        self._work.start(self._make_vectors())

    async def show(self) -> str:
        return pack.show(self.store, pack.agent_context(self.store))

    async def status(self) -> str:
        status = pack.status(self.store, self.vectors.count_missing())
        return f"{status}\n{await self.team.status()}" if self.team else status

    @property
    def trouble(self) -> str:
        if self.team is None or self.team.answers:
            return ""
        return (
            "check memory.notes.url, and that the server runs; until then kode works with its copy"
        )

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
        return len(self._summarizing().waiting())

    async def _maintain(self) -> None:
        """Finishes what earlier processes left, and tidies up."""
        summarizing = self._summarizing()
        for path in summarizing.queue.set_aside_damaged():
            self._notice(f"What was kept of a session to sum up cannot be read. It is now {path}.")

        def ids() -> list[str]:
            can_ask = self._door.usable and self._settings.llm_extract
            return summarizing.waiting() if can_ask and not self._work.is_closing else []

        with suppress(BusyError):  # another process works on them
            await work_through(summarizing.queue, summarizing, ids, timeout_s=0.0)
        done = await maintenance.run(
            self.store,
            self._door,
            self._author("merge"),
            synthesize=self._settings.llm_consolidate,
            is_closing=lambda: self._work.is_closing,
        )
        if done.into:
            self._notice(f"memory: merged {done.merged} old notes into {done.into}", level="info")
        if done.given_up:
            self._notice(
                f"{done.given_up} merges of old notes were begun {maintenance.MAX_ATTEMPTS} times "
                "and never finished, because kode ended: the notes were joined as they are."
            )
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
                for note in jobs.of_session(self.store, self._context.session_id, _SENSITIVE)
            )
            else "normal",
            untrusted=self._untrusted,
            who="extraction",
            change="job",
        )
        self._mark_said(kept)

    async def _keep_session(self, messages: Sequence[Message]) -> bool:
        """Leaves the session to the queue, and sums it up if a model can; returns whether nothing
        is left to do."""
        settings, session = self._settings, self._context.session_id
        enough = count_turns(messages) >= settings.min_turns_for_extraction
        wanted = settings.extract_on_end and settings.llm_extract and self._door.usable
        if not (enough and wanted and may_name_a_file(session) and session and self._turn):
            return True
        sensitive = bool(jobs.of_session(self.store, session, _SENSITIVE))
        item = Item(
            id=f"{session}.{self._turn:04d}",
            session=session,
            turn=self._turn,
            at=stamp(self.store.now()),
            text=transcript(messages),
            tainted=bool(self._untrusted),
            more=asdict(jobs.Summed(sensitive=sensitive)),
        )
        summarizing = self._summarizing()
        summarizing.queue.write(item)
        with suppress(TimeoutError, BusyError):
            async with asyncio.timeout(settings.end_deadline_s):
                return await work(
                    summarizing.queue, summarizing, item.id, timeout_s=settings.end_deadline_s
                )
        return False

    def _summarizing(self) -> jobs.Summarizing:
        return jobs.Summarizing(
            store=self.store,
            queue=jobs.open_queue(self.database.path.parent),
            door=self._door,
            settings=self._settings.notes,
            written=self._summed_up,
        )

    def _summed_up(self, kept: Kept) -> None:
        self._mark_said(kept)
        self._report(kept)
        self._work.start(self._make_vectors())

    def _mark_said(self, kept: Kept) -> None:
        """Marks a summary of this session's own work as shown: its messages say the same."""
        if kept.note is not None:
            self._shown[kept.note.id] = None

    async def _make_vectors(self) -> None:
        if self.team:  # which keeps vectors of notes that it has
            await self.team.update(TURN_S)
        try:
            await self.vectors.make_missing()
        except _FAULTS:
            pass  # found missing and made by the next maintenance
