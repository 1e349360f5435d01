"""The tiered system: facts in the prompt, a buffer in the session, episodes on disk.

Here: which moment of the contract does what, and the texts that memory adds to a prompt. The
parts are modules of their own: `facts`, `write`, `merge`, `consolidate`, `buffer`, `episodes`,
`search`, `tool`.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

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
from kode.errors import MemoryError_
from kode.events import MemoryChanged, Notice
from kode.memory import embed, frame
from kode.memory.ask import Door
from kode.memory.history import Author, Change, History
from kode.memory.search import Finder
from kode.memory.tiered import buffer, report
from kode.memory.tiered.episode_index import EpisodeIndex
from kode.memory.tiered.episodes import EpisodeKeeper
from kode.memory.tiered.facts import SCOPES, TARGETS, FactFile, FactStore, Scope, Target
from kode.memory.tiered.nearness import Nearness
from kode.memory.tiered.search import Searcher
from kode.memory.tiered.tool import memory_tool
from kode.memory.tiered.transcript import Recording
from kode.memory.tiered.write import SYSTEM, FactWriter, MergeSettings, Outcome
from kode.messages import Message

if TYPE_CHECKING:
    from kode.config import MemoryConfig

ABOUT_FACTS = "What kode remembers about the user and the environment from earlier sessions."
ABOUT_EPISODES = "Notes on earlier sessions that may bear on this request."
SHOWN_OVER_LIMIT = 2
"""A file that was edited far over its limit is shown up to so many times the limit."""

TITLES: Mapping[tuple[Target, Scope], str] = {
    ("user", "global"): "User Profile",
    ("user", "project"): "User Profile, this project only",
    ("env", "global"): "Environment",
    ("env", "project"): "Environment, this project only",
}


class Tiered:
    """One session's tiered memory. Nothing is read or written before `open`."""

    def __init__(self, settings: "MemoryConfig") -> None:
        self._settings = settings
        self._turn = 0
        self._lines: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return SYSTEM

    @property
    def message_window(self) -> int | None:
        return None

    # ── the moments of the contract ──────────────────────────────────────────────────────────

    async def open(self, context: MemoryContext, state: Mapping[str, Any]) -> None:
        settings = self._settings
        self._context = context
        self._door = Door(context.ask_model)
        self.history = History(context.root / "history.jsonl")
        """Every change, with its undo."""
        embedder = embed.open_embedder(settings.embedding, context.root / "vectors", self._notice)
        self._nearness = Nearness(embedder)
        self._store = FactStore(
            context.root,
            context.project_root or paths.project_root(context.cwd),
            in_repository=context.project_root is not None,
            limits={"user": settings.facts_limit_user, "env": settings.facts_limit_env},
        )
        self.writer = FactWriter(
            self._store,
            self.history,
            self._door,
            MergeSettings(
                enabled=settings.merge_on_write,
                merge_threshold=settings.merge_threshold,
                add_threshold=settings.add_threshold,
            ),
            self._nearness.cosines,
            may_consolidate=settings.llm_consolidate,
        )
        self._index = EpisodeIndex(context, embedder)
        self._episodes = EpisodeKeeper(
            context=context,
            settings=settings,
            door=self._door,
            history=self.history,
            index=self._index,
        )
        # In a session the model ranks whatever words found, as the document has it; a person at
        # the shell waits for it and pays only where words found too little.
        in_session = context.session_id is not None
        llm = settings.llm_search
        finder = Finder(self._door, embedder, context.now, llm=llm, always=in_session)
        self._searcher = Searcher(self._index, finder, context.session_id)
        self._recording = Recording()
        self._turn = 0
        self._capacity = settings.buffer_lines if settings.buffer_enabled else 0
        self._lines = buffer.restored(state.get("buffer"), self._capacity)
        shown = state.get("shown")
        self._searcher.restore_shown(shown if isinstance(shown, list) else [])

    async def inject(self, reason: InjectReason) -> Injection:
        files = [file for file in self.layers(notice=True) if file.entries]
        if not files and not self._lines:
            return Injection()
        sections = [_section(file) for file in files]
        if self._lines:
            sections.append(buffer.section(self._lines))
        body = "\n\n".join(sections)
        return Injection(system="# Memory\n" + self._framed(ABOUT_FACTS, body))

    async def recall(self, turn: Turn) -> str:
        self._turn = turn.number
        episodes = await self._searcher.recall(turn.text, is_first=turn.number == 1)
        if not episodes:
            return ""
        return self._framed(ABOUT_EPISODES, "\n\n".join(episodes))

    def tools(self) -> tuple[Tool, ...]:
        return () if self._context.read_only else (memory_tool(self),)

    async def after_turn(self, turn: Turn) -> None:
        self._turn = turn.number
        lines = buffer.lines_of(turn, self._context.now(), self._context.cwd)
        self._lines = buffer.appended(self._lines, lines, self._capacity)
        self._recording.add(turn)

    async def before_drop(self, messages: Sequence[Message], reason: DropReason) -> Drop:
        if reason == "window":
            return Drop()
        kept = await self._episodes.keep(messages, self._recording)
        return Drop(done=kept)

    async def maintain(self) -> None:
        if not self._context.read_only:
            await self._episodes.maintain()

    async def search(self, query: str, k: int) -> list[Hit]:
        return await self._searcher.search(query, k, self.layers())

    async def snapshot(self) -> tuple[SnapshotSection, ...]:
        sections = []
        for target, title in (("user", "User Profile"), ("env", "Environment")):
            files = [f for f in self.layers() if f.target == target and f.entries]
            content = "\n§\n".join(entry for file in files for entry in file.entries)
            if content:
                masked = credentials.redact(content)
                sections.append(SnapshotSection(title=title, content=masked))
        return tuple(sections)

    def state(self) -> Mapping[str, Any]:
        state = {"buffer": list(self._lines), "shown": self._searcher.shown()}
        return {name: value for name, value in state.items() if value}

    async def close(self, grace_s: float) -> None:
        """Nothing runs in the background of its own; a session that ends unheard (after an
        interruption) leaves what it recorded pending."""
        if not self._context.read_only:
            await self._episodes.leave_pending(self._recording)

    # ── what the tool and the commands need ──────────────────────────────────────────────────

    def author(self) -> Author:
        """The model, in this turn."""
        return Author(who="model", session=self._context.session_id, turn=self._turn or None)

    def person(self) -> Author:
        """The user, by a command."""
        return Author(who="user", session=self._context.session_id, turn=self._turn or None)

    def default_scope(self, target: Target) -> Scope:
        return self._store.default_scope(target)

    def layers(self, *, notice: bool = False) -> list[FactFile]:
        """The fact files that apply here, global before project; one that cannot be read is left
        out, and told with `notice`."""
        files = []
        for target in TARGETS:
            for scope in SCOPES:
                try:
                    files.append(self._store.read(target, scope))
                except MemoryError_ as error:
                    if notice:
                        self._notice(str(error))
        return files

    async def show(self) -> str:
        """What the next session will see, and where each entry came from."""
        return report.shown(self.layers(notice=True), self.history, self._lines)

    async def status(self) -> str:
        """Which system, how full, what is pending."""
        return report.status(
            self._context.root, self.layers(notice=True), await self._episodes.counts()
        )

    async def list_episodes(self, count: int) -> str:
        """The newest episodes, one a line."""
        newest = await self._index.newest(count)
        return report.episodes(newest, self._index.project) or "There is no episode yet."

    async def show_one(self, id: str) -> str:
        """One episode, whole, also one that waits for approval. Raises: MemoryError_."""
        return report.episode(self._searcher.find(id))

    def read_episode(self, id: str) -> str:
        """The same for the model, but none that waits for approval. Raises: MemoryError_."""
        episode = self._searcher.find(id)
        if not episode.recallable:
            raise MemoryError_(
                f"The episode {episode.session_id} comes from a session with untrusted content and "
                "waits for the user's `kode memory approve`."
            )
        return self._framed("The note of an earlier session.", report.episode(episode))

    async def undo_change(self, change: Change) -> str:
        """Takes back one change. Raises: MemoryError_, StorageError, BusyError."""
        self._check_writable()
        author = Author(who="undo", session=self._context.session_id, turn=self._turn or None)
        if change.target.startswith("episodes/"):
            return self._told(await self._episodes.undo(change, author))
        return self._told(await self.writer.undo(change, author))

    async def approve(self, session_id: str | None) -> str:
        """Lets an episode that took in untrusted content be recalled; without an id, lists those
        that wait. Raises: MemoryError_."""
        if session_id is None:
            lines = await self._episodes.waiting()
            return "\n".join(lines) or "No episode waits for approval."
        self._check_writable()
        return self._told(await self._episodes.approve(session_id, self.person()))

    async def edit_facts(
        self, command: str, target: Target, scope: Scope | None, texts: Sequence[str]
    ) -> str:
        """`add TEXT`, `replace OLD NEW`, `remove OLD` or `consolidate`, by the person.

        Raises: MemoryError_, StorageError, BusyError.
        """
        self._check_writable()
        where = scope or self.default_scope(target)
        match command, list(texts):
            case "add", [text]:
                outcome = await self.writer.add(target, where, text, self.person())
            case "replace", [old, new]:
                outcome = await self.writer.replace(target, where, old, new, self.person())
            case "remove", [old]:
                outcome = await self.writer.remove(target, where, old, self.person())
            case "consolidate", []:
                outcome = await self.writer.consolidate(target, where, self.person())
            case _:
                raise MemoryError_(f"`{command}` takes other arguments: `kode memory --help`.")
        return self._told(outcome)

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    def _told(self, outcome: Outcome) -> str:
        if outcome.change_id:
            self._context.emit(MemoryChanged(text=outcome.line, change_id=outcome.change_id))
        return report.outcome(outcome)

    def _framed(self, about: str, body: str) -> str:
        what = frame.suspicion(body)
        if what:
            self._notice(
                f"Memory holds text that looks like {what}. It is shown to the model as data, "
                "with a warning. `kode memory show` finds it; edit or remove the entry."
            )
        return frame.framed(about, body, what=what)

    def _check_writable(self) -> None:
        if self._context.read_only:
            raise MemoryError_("This memory was opened for reading only.")

    def _notice(self, text: str) -> None:
        self._context.emit(Notice(text=text))


def _section(file: FactFile) -> str:
    head = f"── {TITLES[file.target, file.scope]} · {file.fill} ──"
    text = "\n§\n".join(file.entries)
    most = SHOWN_OVER_LIMIT * file.limit
    if len(text) > most:
        text = text[:most] + f"\n[... {len(text) - most} characters over the limit, not shown]"
    return f"{head}\n{text}"
