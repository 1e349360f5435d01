"""The tiered system: facts in the prompt, a buffer in the session, episodes on disk."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

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
from kode.errors import MemoryRefused
from kode.memory import embed, frame
from kode.memory.ask import MemoryModel
from kode.memory.base import Verb, has_lost_messages
from kode.memory.frame import Recording
from kode.memory.lineage import Entry
from kode.memory.report import Part
from kode.memory.search import Finder
from kode.memory.tiered import buffer, report
from kode.memory.tiered.by_hand import FactMemory
from kode.memory.tiered.episode_files import Episode, summary_of
from kode.memory.tiered.episode_index import EpisodeIndex
from kode.memory.tiered.episodes import MAX_ATTEMPTS, EpisodeKeeper, open_queue
from kode.memory.tiered.facts import FactFile, FactStore, Scope, Target
from kode.memory.tiered.merge import Judge
from kode.memory.tiered.places import TieredPlaces
from kode.memory.tiered.search import REMEMBERED_AS_SHOWN, Searcher
from kode.memory.tiered.tool import memory_tool
from kode.memory.tiered.write import FactWriter, Outcome
from kode.memory.waiting import Waiting
from kode.messages import Message, plural

if TYPE_CHECKING:
    from kode.config import MemoryConfig

ABOUT_FACTS = "What kode remembers about the user and the environment from earlier sessions."
ABOUT_TURNS = "What the last turns of this session were about. Some are no longer shown in full."
ABOUT_ARCHIVED = "Archived facts that may bear on this request."
ABOUT_EPISODES = "Notes on earlier sessions that may bear on this request."
LISTED_EPISODES = 20
SHOWN_OVER_LIMIT = 2
"""A file edited far over its limit is shown up to this many times the limit."""

TITLES: Mapping[tuple[Target, Scope], str] = {
    ("user", "global"): "User Profile",
    ("user", "project"): "User Profile, this project only",
    ("env", "global"): "Environment",
    ("env", "project"): "Environment, this project only",
}
_BLANK_LINES = re.compile(r"\n\s*\n")


class Tiered(FactMemory):
    def __init__(self, settings: "MemoryConfig") -> None:
        super().__init__(settings)
        self._lines: tuple[str, ...] = ()

    # ── the moments of the contract ──────────────────────────────────────────────────────────

    async def open(self, context: MemoryContext, state: Mapping[str, Any]) -> None:
        await super().open(context, state)
        settings = self._settings
        self._door = MemoryModel(context.ask_reply, expected_s=context.expected_s)
        embedder = embed.open_embedder(settings.embedding, context.root / "vectors", self._notice)
        self._store = FactStore(
            context.root,
            context.project_root or paths.project_root(context.cwd),
            in_repository=context.project_root is not None,
            limits={"user": settings.facts_limit_user, "env": settings.facts_limit_env},
        )
        self.history.places = places = TieredPlaces(self._store)
        self.writer = FactWriter(
            system=self.name,
            history=self.history,
            ledger=self.ledger,
            project=self._store.project,
            store=self._store,
            places=places,
            door=self._door,
            judge=Judge(self._door, settings, embedder),
            may_consolidate=settings.llm_consolidate,
            emit=context.emit,
        )
        self._index = EpisodeIndex(context, embedder)
        self._episodes = EpisodeKeeper(
            context=context,
            queue=open_queue(self._index.files.folder),
            door=self._door,
            timeout_s=settings.end_deadline_s,
            attempts=MAX_ATTEMPTS,
            settings=settings,
            writer=self.writer,
            index=self._index,
        )
        # In a session the model always ranks, as the design says; a person at the shell waits for
        # it and pays only if words find too little.
        in_session = context.session_id is not None
        llm = settings.llm_search
        finder = Finder(self._door, embedder, context.now, llm=llm, always=in_session)
        self._searcher = Searcher(
            self._index,
            finder,
            context.session_id,
            self._noted,
            self.marked,
            context.now,
        )
        self._recording = Recording()
        self._capacity = settings.buffer_lines if settings.buffer_enabled else 0
        self._lines = buffer.restore(state.get("buffer"), self._capacity)
        shown = state.get("shown")
        listed = shown if isinstance(shown, list) else []
        self._searcher.shown = [id for id in listed if isinstance(id, str)]

    async def inject(self, reason: InjectReason) -> Injection:
        """The facts; where messages were dropped, the buffer in the next message."""
        layers = self.layers(notice=True)
        facts = "\n\n".join(_section(file) for file in layers if file.shown)
        self.note_shown(facts, layers)
        turns = buffer.section(self._lines) if self._lines and has_lost_messages(reason) else ""
        return Injection(
            system="# Memory\n" + self._frame(ABOUT_FACTS, facts) if facts else "",
            first_user=self._frame(ABOUT_TURNS, turns) if turns else "",
        )

    async def recall(self, turn: Turn) -> str:
        self._hear(turn)
        if not self._context.root.is_dir():  # nothing was ever kept
            return ""
        files = self.files()
        facts = self._searcher.recall_archived(turn.text, files)
        if facts:
            self.note_shown("\n".join(facts), files)
        episodes = await self._searcher.recall(turn.text, is_first=turn.number == 1)
        found = {ABOUT_ARCHIVED: "\n§\n".join(facts), ABOUT_EPISODES: "\n\n".join(episodes)}
        return "\n\n".join(self._frame(about, body) for about, body in found.items() if body)

    def tools(self) -> tuple[Tool, ...]:
        return () if self._context.read_only else (memory_tool(self, self.read_episodes),)

    async def after_turn(self, turn: Turn) -> None:
        self._hear(turn)
        lines = buffer.lines_of(turn, self._context.now(), self._context.cwd)
        self._lines = buffer.append(self._lines, lines, self._capacity)
        self._recording.add(turn, self._context.typed)

    async def before_drop(self, messages: Sequence[Message], reason: DropReason) -> Drop:
        if reason == "window":
            return Drop()
        return Drop(done=await self._episodes.end(messages, self._recording))

    async def maintain(self) -> None:
        if not self._context.read_only:
            await self._index.refresh()
            await self._work.finish(self._episodes.finish_pending(lambda: self._work.is_closing))

    @property
    def unfinished(self) -> int:
        return len(self._episodes.queue.ids())

    async def search(self, query: str, k: int) -> list[Hit]:
        if self._context.session_id is None:  # a person waits for an answer that looked everywhere
            await self._index.refresh()
            if self.unread:
                notes = plural(self.unread, "session note")
                self._notice(f"{notes} could not be looked at yet: search again.")
        return await self._searcher.search(query, k, self.files())

    async def snapshot(self) -> tuple[SnapshotSection, ...]:
        sections = []
        for target, title in (("user", "User Profile"), ("env", "Environment")):
            files = [f for f in self.layers() if f.target == target and f.shown]
            content = "\n§\n".join(entry for file in files for entry in file.shown)
            if content:
                masked = credentials.redact(content)
                sections.append(SnapshotSection(title=title, content=masked))
        return tuple(sections)

    def state(self) -> Mapping[str, Any]:
        shown = self._searcher.shown[-REMEMBERED_AS_SHOWN:]
        state = {"buffer": list(self._lines), "shown": shown}
        return {name: value for name, value in state.items() if value}

    async def close(self, grace_s: float) -> None:
        """If the session ends without a last turn (after an interruption), its recording becomes
        pending."""
        if not self._context.read_only:
            await self._episodes.leave_pending(self._recording)
        await super().close(grace_s)

    # ── what the tool and the commands need ──────────────────────────────────────────────────

    def parts(self) -> Sequence[Part]:
        turns = Part(called="recent turns of this session", lines=self._lines)
        return [*super().parts(), turns]

    async def figures(self) -> Mapping[str, object]:
        unjudged = sum(not pair.contradict for pair in self.writer.pairs())
        return {"similar facts to compare when a session ends": unjudged}

    def verbs(self) -> Mapping[str, Verb]:
        async def episodes(given: Any) -> str:
            newest = await self._index.newest(max(1, given.n))
            return report.episodes(newest, self._index.project) or "There is no episode yet."

        async def whole(given: Any) -> str:  # one that waits for approval too
            return self._searcher.whole(self._searcher.find(given.id))

        return {**super().verbs(), "episodes": episodes, "show ID": whole}

    async def newest_episodes(self) -> list[Episode]:
        """The ones that a model may read."""
        return [e for e in await self._index.newest(LISTED_EPISODES) if e.recallable]

    async def read_episodes(self, id: str) -> str:
        """For the model: one episode in full, or without an id the newest ones; none that waits for
        approval. Raises: MemoryRefused."""
        if not id.strip():
            listed = report.episodes(await self.newest_episodes(), self._index.project)
            about = "The newest episodes, those of this project marked by *."
            return self._frame(about, listed) if listed else "There is no episode yet."
        episode = self._searcher.find(id)
        if not episode.recallable:
            raise MemoryRefused(
                f"The episode {episode.session_id} comes from a session with untrusted content and "
                "waits for the user's `kode memory approve`."
            )
        return self._frame("The note of an earlier session.", self._searcher.whole(episode))

    async def waiting(self) -> list[Waiting]:
        """The episodes of sessions that read untrusted content."""
        return [
            Waiting(
                id=one.session_id,
                line=self._held(one),
                text=one.text,
                decide=partial(self._decide, one.session_id),
            )
            for one in await self._episodes.waiting()
        ]

    def _held(self, episode: Episode) -> str:
        file = f"episodes/{episode.session_id}.md"
        change = self.ledger.statement(Entry(target=file, key="", text="")).change
        source = f"  (from {change.source})" if change and change.source else ""
        return f"{summary_of(episode.narrative)}{source}"

    async def _decide(self, session_id: str, choice: Literal["approve", "drop"]) -> Outcome:
        """Lets an episode that read untrusted content be recalled, or drops it. Raises:
        MemoryRefused."""
        self.check_writable()
        carry_out = self._episodes.approve if choice == "approve" else self._episodes.drop
        return self._report_outcome(await carry_out(session_id, self._author("user")))

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    def _noted(self, text: str, session: str) -> str:
        """A record of a session with what of it holds no longer."""
        return "\n".join(filter(None, (text, self.since_then(text, session))))


def _section(file: FactFile) -> str:
    """Entries are separated by blank lines, and how full the file is has a line of its own: another
    fact changes no other lines."""
    title = TITLES[file.target, file.scope]
    entries = "\n\n".join(_BLANK_LINES.sub("\n", entry) for entry in file.shown)
    shown = frame.within(entries, SHOWN_OVER_LIMIT * file.limit)
    return f"── {title} ──\n{title}: {file.fill}\n\n{shown}"
