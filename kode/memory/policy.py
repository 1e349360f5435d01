"""What makes a memory system: its policy decides what a prompt shows, which tools there are, and
how notes and facts are worded; its layout decides where they go. A policy works on an `OpenMemory`.
A new system is a module with its policy, and a row in `systems.toml`."""

import asyncio
import itertools
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from copy import copy
from datetime import date
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Literal

from kode import credentials, paths
from kode.errors import BusyError, MemoryRefused, StorageError, ToolError
from kode.events import MemoryChanged, Notice
from kode.memory import digest, frame, judge, scan, source
from kode.memory.ask import MemoryModel, cut_middle
from kode.memory.contract import Drop, DropReason, Hit, Injection, InjectReason, MemoryContext, Turn
from kode.memory.embed import Embedder
from kode.memory.fold import MemoryView
from kode.memory.pending import Pending
from kode.memory.question import (
    INSTRUCTIONS,
    MAX_OUTPUT_TOKENS,
    LearnedFact,
    build_prompt,
    choose_known,
)
from kode.memory.rendering import LINES, Layout, strip_bullet
from kode.memory.search import MAX_IN_MEMORY, IndexedText, Ranked, TextIndex, recall_texts, search
from kode.memory.statement import NO_RELATIONS, Author, Outcome, Relations, Statement, Who
from kode.memory.store import MemoryStore, quote
from kode.messages import Message, shorten, text_of
from kode.registry import SYSTEMS, SystemRow
from kode.session.record import Project, SessionRecord
from kode.tool import Tool, ToolContext, ToolOutput, tool
from kode.values import Value, replace

if TYPE_CHECKING:
    from kode.config.model import MemoryConfig

About = Literal["user", "project"]
"""What an entry from elsewhere is about."""
Question = tuple[str, tuple[str, ...]]
"""A prompt, and the ids of the known facts that it numbers, in their order."""
INDEX_LIMIT_S = 0.5
"""How long a turn may wait for notes that are not indexed yet."""
TURNS = "What the last turns of this session were about. Some are no longer shown in full."
NOTE_CHARS = 200  # two lines of a terminal
MAX_HIT_CHARS = 1_000  # the rest is a file to read
SINCE_CHARS = 40  # a version or a day


class Addition(Value):
    """What a person or a tool wants to add."""

    target: str
    """The system's word for the place: `user`, `facts/tools.md`, `rule`, `memory`."""
    text: str
    scope: str = ""
    """`global`, `project`, or "" for the default."""
    since: str = ""
    """The version or day from which it holds."""
    until: str = ""
    """The last day on which it holds."""
    private: bool = False
    """Whether no model may see it."""
    details: Mapping[str, Any] | None = None
    """What only this system knows: tags, evidence."""


def addition_about(system: str, text: str, about: About) -> Addition:
    """Returns an entry from elsewhere as an addition to the place that a system has for it."""
    row = SYSTEMS.get(system, SystemRow())
    if about == "user":
        return Addition(target=row.about_user, text=text)
    scope = "project" if "--scope" in row.options else ""
    return Addition(target=row.about_project, text=text, scope=scope)


class OpenMemory:
    """One session's memory: its store, a model to ask, and indexes to search. Methods that change
    something raise MemoryRefused, StorageError or BusyError."""

    context: MemoryContext
    store: MemoryStore
    model: MemoryModel
    embedder: Embedder | None = None
    writer: Who = "model"
    """The author of what tools write."""

    def __init__(self, name: str, settings: "MemoryConfig", layout: Layout) -> None:
        self.name, self.settings, self.layout = name, settings, layout
        self.seen: frame.Seen = {}
        """The texts that the session's model was shown whole."""
        self.shown_notes: list[str] = []
        """The ids of the notes that the session's model was shown."""
        self.turn = Turn(number=0, text="")
        """The turn that runs, or the last one."""
        self.is_closing = False
        """Whether the session is ending: start no further step."""
        self.tasks: set[asyncio.Task[None]] = set()
        self._archive: tuple[MemoryView | None, list[Statement]] = None, []
        self._notes: tuple[MemoryView | None, list[Statement]] = None, []
        """The cached results of `archived_facts` and `notes`, each after the view it comes from."""
        self._indexed: tuple[MemoryView | None, date] = (None, date.min)
        """The view and the day for which the indexes are complete."""

    def set_up(self, context: MemoryContext) -> None:
        """Makes the store, the model and the indexes, reading and writing no files yet."""
        self.context, root = context, context.project_root or paths.project_root(context.cwd)
        self.store = MemoryStore(
            context.root,
            self.name,
            self.layout,
            Project(root, paths.path_hash(root), context.project_root is not None),
            now=context.now,
            emit=context.emit,
            read_only=context.read_only,
        )
        self.model = MemoryModel(context.ask_reply, expected_s=context.expected_s)
        if self.settings.embedding.provider != "local":
            vectors = context.root / "vectors.sqlite"
            self.embedder = Embedder(self.settings.embedding, vectors, self.warn)
        project = self.store.project
        is_shared = not any(project.hash in place for place in self.layout.records(project))
        name = self.name if is_shared else f"{self.name}-{project.hash}"
        self._index_path = context.root / f"index-{name}.sqlite"
        self.note_index = TextIndex(self._index_path)
        self.fact_index = TextIndex()

    async def sum_up(self, session: str = "") -> bool:
        """Summarizes a session, by default this one so far; False if it stays pending."""
        return True

    def start_work(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Starts a background task that nobody has to await: its fault becomes a notice."""

        async def run() -> None:
            try:
                await work
            except Exception as fault:
                self.warn(f"Memory ({self.name}) could not finish: {fault}")

        task = asyncio.create_task(run())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    # ── what a model sees ────────────────────────────────────────────────────────────────────

    def today(self) -> date:
        return self.context.now().date()

    def warn(self, text: str) -> None:
        """Shows the person a notice of one line."""
        self.context.emit(Notice(text=text))

    def visible_facts(self, places: Sequence[str] | None = None) -> list[Statement]:
        """Returns the current facts, of all or some places, that a model may see, in order."""
        facts = frame.visible_facts(self.store, self.store.view(), self.today().isoformat())
        return [fact for fact in facts if places is None or fact.place in places]

    def archived_facts(self) -> list[Statement]:
        """Returns this project's archived facts: no prompt shows them, but a search finds them."""
        view = self.store.view()
        if self._archive[0] is not view:
            facts = itertools.chain.from_iterable(map(view.in_place, self.store.fact_places()))
            archived = [fact for fact in facts if fact.state == "archived" and not fact.private]
            self._archive = view, archived
        return self._archive[1]

    def notes(self) -> list[Statement]:
        """Records of past work that a model may see, oldest first."""
        view = self.store.view()
        if self._notes[0] is not view:
            self._notes = view, frame.visible_notes(view, self.store.record_places())
        return self._notes[1]

    def describe(self, statement: Statement) -> str:
        """Returns a fact as a model sees it, with its date and any doubt about it."""
        return frame.describe_fact(
            statement, frame.find_remarks(self.store, self.today()).get(statement.id, "")
        )

    def describe_file(self, place: str) -> str:
        """The headings of a place's file, and the facts that a model may see; "" without any."""
        format = self.layout.format_of(place)
        facts = {fact.text: fact for fact in self.visible_facts([place])}
        if format is None or not facts:
            return ""
        lines = list[str]()
        for piece in format.split(self.store.read_text(place) or ""):
            text = credentials.redact(piece.text)
            if fact := facts.get(text):
                lines.append(text.removesuffix(strip_bullet(text)) + self.describe(fact))
            elif not piece.text and piece.raw.strip():
                lines.append(f"\n{piece.raw.strip()}")
        return "\n" + "\n".join(lines)

    def describe_fill(self, place: str) -> str:
        """How full a place is, with its name: `env: 37% (940/2500 characters)`; "" without a
        limit, and for a file that cannot be read."""
        try:
            fill = self.layout.fill(place, self.store.read_text(place) or "")
        except MemoryRefused:
            return ""
        return f"{self.layout.label(place)}: {fill}" if fill else ""

    def list_notes(self, count: int) -> str:
        """The latest notes, a line each, the newest first; those of this project have a star."""
        project = self.store.project.hash
        lines = (
            f"{note.session or note.id}  {note.claimed_at[:10]}  "
            f"{'*' if note.project == project else ' '} "
            f"{shorten(strip_bullet(note.text), NOTE_CHARS)}"
            for note in self.notes()[: -max(1, count) - 1 : -1]
        )
        return "\n".join(lines) or "There is no note on a session yet."

    def show_notes(self, notes: Sequence[Statement]) -> str:
        """Returns notes, framed for the model ("" for none), and records them as shown."""
        self.shown_notes += [note.id for note in notes]
        return frame.wrap(frame.NOTES, "\n\n".join(map(self.note_text, notes)))

    def note_text(self, note: Statement) -> str:
        """Returns a note with its date, its project if not this one, and what no longer holds."""
        place = str(note.details.get("path", "another project"))
        is_elsewhere = note.project not in ("", self.store.project.hash)
        where = f" in {strip_bullet(place)}" if is_elsewhere else ""
        text = f"[{note.claimed_at[:10]}{where}] {strip_bullet(note.text)}"
        return frame.show_record(self.store, note, text, self.today())

    # ── what is written ──────────────────────────────────────────────────────────────────────

    def at_end_of(self, record: SessionRecord) -> "OpenMemory":
        """Returns this memory for looking back on a session: what is written counts as said when
        the session ended, and is judged by what the session read and what was typed in it."""
        memory = copy(self)
        memory.writer, memory.seen, memory.turn = "session", {}, Turn(number=record.turns, text="")
        memory.context = replace(
            self.context,
            session_id=record.id,
            now=lambda: record.ended_at,
            tainted=lambda: bool(record.tainted_by),
            outside=lambda: record.tainted_by,
            typed_messages=lambda: record.typed,
        )
        return memory

    def author(self, who: Who | None = None) -> Author:
        """Returns the author of a change in this turn: `who`, by default the writer."""
        return Author(who or self.writer, self.context.session_id or "", self.turn.number)

    def model_author(self, quote: str, lines: str = "") -> tuple[Author, str]:
        """Returns the writer with its evidence (the person's words, cited lines of code), and a
        remark on evidence that could not be verified and was left out."""
        remarks, author = list[str](), self.author()._replace(quote=self.verify_quote(quote))
        if quote.strip() and not author.quote:
            remarks.append("`quote` was left out: the user did not state this in these words.")
        if lines.strip():
            try:
                root, messages = self.store.project.root, self._messages()
                where, source_hash = source.cite(root, lines, messages)
                author = author._replace(source=where, source_hash=source_hash)
            except MemoryRefused as error:
                remarks.append(f"It was left out: {error}")
        return author, " ".join(remarks)

    def _messages(self) -> Iterator[Message]:
        """The messages of this session, which are read from its file only when needed."""
        record = self.context.session(self.context.session_id or "")
        yield from record.messages if record else ()

    def verify_quote(self, quote: str) -> str:
        """Returns the quotation if the person typed it in this session as a statement, else ""."""
        return source.verify_quote(quote, self.context.typed_messages())

    def new_statement(self, addition: Addition, author: Author) -> Statement:
        """Makes the statement of an addition, in the form of its place. Raises: MemoryRefused."""
        place = self.layout.place_of(addition.target, addition.scope, self.store.project)
        if not addition.text.strip():
            raise MemoryRefused("The text is empty: say in one sentence what to remember.")
        since = " ".join(addition.since.split())
        if len(since) > SINCE_CHARS:
            raise MemoryRefused(f"`since` has {len(since)} characters and may have {SINCE_CHARS}.")
        try:
            until = addition.until.strip() and date.fromisoformat(addition.until.strip())
        except ValueError:
            fault = f"`until` is {addition.until!r}: write a day as 2026-03-06."
            raise MemoryRefused(f"{fault} Nothing was changed.") from None
        return self.store.new_statement(
            author,
            place,
            addition.text,
            since=since,
            until=str(until),
            private=addition.private,
            details=addition.details or {},
        )

    def mark_shown(self, text: str, facts: Iterable[Statement]) -> None:
        """Records which of these facts stand whole in a text that the session's model was shown."""
        for fact in facts:
            if frame.escape_frame(strip_bullet(fact.text)) in text:
                frame.mark_read(self.seen, fact.id, fact.text)

    def check_replaced(self, old: Statement, text: str, removal: str) -> None:
        """Raises: MemoryRefused if the session's model was not shown the fact that it replaces, or
        if most of the fact would go without being named as the `removal`."""
        label = f"the fact {quote(old)}"
        frame.check_read(self.seen, old.id, old.text, text, label=label, removal=removal)

    async def save(self, new: Statement, *, old: Statement | None = None) -> Outcome:
        """Stores and announces a statement of the model or the person. It replaces the `old` one,
        or a model compares it with similar facts. A fact of higher rank stays beside it until the
        person decides; after outside text, what the person did not type waits for approval."""
        remark = scan.check_text(new.text, author=new.who)
        scan.check_text(f"{new.since} {new.source}")
        new, relations, kind = self.hold_back(new), NO_RELATIONS, "add"
        if old and new.state == "waiting":
            new = replace(new, replaces=(old.id,))
        elif old:
            relations, kind = Relations(outdated=((old.id, new.id),)), "replace"
        elif new.state == "current":  # what holds everywhere also bears on a project's facts
            facts = [
                fact
                for fact in (*self.store.statements(), *self.archived_facts())
                if f"{fact.place}/".startswith(f"{new.place}/")
            ]
            relations = await judge.compare(new, facts, self.settings, self.model, self.embedder)
        outcome = await self.store.add(new, relations=relations, kind=kind)
        first, second, confirm = outcome.conflict, outcome.statement, self.context.confirm
        if first and second and confirm:  # with a yes it is the person's own word
            preview = f"Remembered: {quote(first)}\nNow:        {quote(second)}"
            if await confirm("Replace what memory has", preview):
                outcome = await self.store.decide(f"{first.id}+{second.id}", "second")
        return self.announce(outcome, remark)

    def hold_back(self, new: Statement) -> Statement:
        """Returns the statement, made to wait for approval if it may come from outside text."""
        if (
            new.who == "user"
            or not self.context.tainted()
            or self.verify_quote(strip_bullet(new.text))
        ):
            return new
        outside = self.context.outside() or "outside text"
        return replace(new, state="waiting", quote="", source=outside, source_hash="")

    def announce(self, outcome: Outcome, remark: str = "") -> Outcome:
        """Shows a change, if any, to the person; returns the outcome with the remark added."""
        if outcome.change:
            self.context.emit(MemoryChanged(text=outcome.text, change_id=outcome.change.id))
        return replace(outcome, text=f"{outcome.text}\n{remark}") if remark else outcome

    # ── search ───────────────────────────────────────────────────────────────────────────────

    async def search(self, query: str, k: int) -> list[Hit]:
        """Returns the best `k` facts and notes, best first, each with what may no longer hold; an
        empty list if nothing matches."""
        ranked, store, today = await self.find(query, k), self.store, self.today()
        doubts, hits = frame.find_remarks(store, today), list[Hit]()
        for result in ranked:
            statement = store.view().entries[result.text.id].statement
            text = cut_middle(credentials.redact(result.text.text), MAX_HIT_CHARS)
            if statement.kind in ("episode", "summary"):
                text = frame.show_record(store, statement, text, today)
            elif statement.id in doubts:
                text += f"\n{doubts[statement.id]}"
            where = f"{self.layout.label(statement.place)} {statement.id}"
            match: Literal["exact", "near"] = "exact" if result.is_exact else "near"
            hits.append(Hit(text=text, where=where, match=match))
        return hits

    async def find(
        self, query: str, k: int, allows: Callable[[str], bool] = lambda id: True
    ) -> list[Ranked]:
        """The best `k` facts and notes whose ids are allowed, best first."""
        limit_s = INDEX_LIMIT_S if self.context.session_id else float("inf")
        if rest := self.update_indexes(limit_s):
            self.warn(f"{rest} notes could not be looked at yet: search again.")
        return await search(
            (self.fact_index, self.note_index),
            query,
            k,
            self.context.now(),
            model=self.model if self.settings.llm_search else None,
            embedder=self.embedder,
            allows=lambda text: allows(text.id),
        )

    def find_related(self, query: str, statements: Iterable[Statement]) -> list[Statement]:
        """Returns the statements that bear on a message and that the session does not show yet."""
        notes = (n for n in statements if n.kind == "fact" or n.session != self.context.session_id)
        new = {note.id: note for note in notes if note.id not in self.shown_notes}
        if not new:
            return []
        self.update_indexes(INDEX_LIMIT_S)
        return [
            new[result.text.id]
            for index in (self.fact_index, self.note_index)
            for result in recall_texts(
                index, query, self.context.now(), lambda text: text.id not in new
            )
        ]

    def update_indexes(self, limit_s: float) -> int:
        """Indexes new facts, and notes for `limit_s`; returns how many notes are still missing."""
        view, today = self.store.view(), self.today()
        if self._indexed[0] is view and self._indexed[1] == today:
            return 0
        facts = self.visible_facts() if self.context.session_id else self.store.statements()
        self.fact_index.update([self._indexed_text(f) for f in (*facts, *self.archived_facts())])
        rest = self.note_index.update(self._note_texts(), limit_s=limit_s)
        self._indexed = (None if rest else view, today)
        return rest

    async def fill_index(self) -> None:
        """Indexes notes in a thread, into their file, if they are too many for memory."""
        texts, index = self._note_texts(), TextIndex(self._index_path)
        while len(texts) > MAX_IN_MEMORY and not self.is_closing:
            if not await asyncio.to_thread(index.update, texts, limit_s=INDEX_LIMIT_S):
                return

    def _note_texts(self) -> list[IndexedText]:
        return [self._indexed_text(note, note.claimed_at[:10]) for note in self.notes()]

    def _indexed_text(self, statement: Statement, day: str = "") -> IndexedText:
        """Makes the text to index. With a `day`, texts of one place and day are neighbours."""
        row = f"{statement.place} {day}" if day else ""
        return IndexedText(statement.id, strip_bullet(statement.text), statement.claimed_at, row)


class Policy(ABC):
    """What one system does, and when, in one session. The `memory` that it gets is open."""

    layout: Layout
    tools: Sequence[Callable[[OpenMemory], Tool]] = ()
    """The tools of the model in their order, as `memory_tool` declares them."""
    keeps_unquoted_facts = True
    """Whether a fact that the closing question finds, but that the person did not state, is stored
    as the model's own; if not, only the session's note has it."""
    message_window: int | None = None
    """See `MemorySystem.message_window`."""

    def __init__(self, settings: "MemoryConfig") -> None:
        self.settings = settings
        self.buffer: list[str] = []
        """Lines on the last turns, kept in the session and repeated once messages were dropped."""
        self.set_up()

    def set_up(self) -> None:
        """Makes what follows from the settings, such as `layout`. It only computes."""
        return

    @abstractmethod
    def prompt(self, memory: OpenMemory, reason: InjectReason) -> Injection:
        """What the model sees before its first message, and after messages were dropped."""

    @abstractmethod
    def note(self, record: SessionRecord, narrative: str, facts: Sequence[str]) -> Statement:
        """Makes the note on a session, by `session_statement`."""

    @abstractmethod
    def fact(self, fact: LearnedFact, record: SessionRecord) -> Statement:
        """Makes the statement of a fact that the closing question found, by `session_statement`."""

    def is_worth_asking(self, record: SessionRecord) -> bool:
        """Whether the model is asked about an ended session."""
        settings = self.settings
        return settings.extract_on_end and record.turns >= settings.min_turns_for_extraction

    def part_to_sum_up(self, view: MemoryView, record: SessionRecord) -> SessionRecord:
        """The part of a session that its next note is about."""
        return record

    def replaced_notes(self, view: MemoryView, record: SessionRecord) -> list[Statement]:
        """Returns the notes that a new note replaces: earlier ones on the same session."""
        notes = (note for note in view.statements() if note.kind in ("episode", "summary"))
        return [note for note in notes if note.session == record.id]

    def record_without_model(self, view: MemoryView, record: SessionRecord) -> str:
        """The text of a note that no model wrote; "" for a session that needs none."""
        return digest.record_of(record.messages)

    def question(self, memory: OpenMemory, record: SessionRecord) -> Question:
        """What the model is asked about a session."""
        store, text = memory.store, digest.render_transcript(record.messages)
        items = (*store.statements(), *memory.archived_facts())
        facts = [old for old in items if old.kind in ("fact", "rule", "log") and not old.private]
        shown = choose_known(facts, filter(None, map(text_of, record.messages)), record.id)
        earlier = "\n".join(note.text for note in self.replaced_notes(store.view(), record))
        return build_prompt(text, shown, earlier=earlier), tuple(fact.id for fact in shown)

    async def ask(self, memory: OpenMemory, record: SessionRecord, pending: Pending) -> bool:
        """Asks the model about a pending session that this process has claimed, and stores its
        answer; returns whether it answered. Raises: StorageError, BusyError."""
        prompt, ids = self.question(memory, record)
        reply = await memory.model.ask(
            INSTRUCTIONS,
            prompt,
            max_output_tokens=MAX_OUTPUT_TOKENS,
            timeout_s=self.settings.drop_deadline_s,
            patient=True,
        )
        if reply.message is not None:
            pending.update(record.id, answer=reply.text, shown=ids)
        return reply.message is not None

    async def recall(self, memory: OpenMemory, turn: Turn) -> str:
        """Text for this turn's message, framed; "" for none."""
        return ""

    async def after_turn(self, memory: OpenMemory, turn: Turn) -> None:
        """Called after each turn, which is marked as pending already."""
        return

    async def before_drop(
        self, memory: OpenMemory, messages: Sequence[Message], reason: DropReason
    ) -> Drop:
        """Called before the context loses messages, and before an ended session is summarized;
        `memory.sum_up()` summarizes it at once."""
        return Drop()

    async def after_learning(self, memory: OpenMemory) -> None:
        """Called after each try to summarize a session, also one of another process."""
        return

    async def maintain(self, memory: OpenMemory) -> None:
        """Called in the background after opening and every six hours, when all else is done."""
        return

    async def follow(self, memory: OpenMemory, wait_s: float) -> None:
        """Exchanges changes with others: called on opening, before each message and at the end."""
        return

    async def status(self, memory: OpenMemory) -> list[str]:
        """Returns further lines for `status`, besides those of every system."""
        return []

    def draft(self, memory: OpenMemory, addition: Addition, author: Author) -> Statement:
        """The statement that a person or a tool wants to add. Raises: MemoryRefused."""
        return memory.new_statement(addition, author)

    def injection(self, reason: InjectReason, *framed: str) -> Injection:
        """Returns framed texts as the section of the system prompt and, if messages were dropped,
        the buffer for the next message."""
        system = "\n".join(filter(None, ("# Memory", *framed))) if any(framed) else ""
        buffer = self.buffer if reason in ("compacted", "trimmed") else ()
        return Injection(system=system, first_user=frame.wrap(TURNS, "\n".join(buffer)))


# ── tools of the model ───────────────────────────────────────────────────────────────────────────

Function = Callable[..., Awaitable[ToolOutput]]
MakeTool = Callable[[OpenMemory], Tool]
Source = Annotated[str, "path:line or path:first-last of the code that shows it"]


def memory_tool(**declaration: Any) -> Callable[[Function], MakeTool]:
    """Declares a tool as `kode.tool.tool` does, from a function whose first parameter is an open
    memory. The result makes the tool for one memory; memory's errors become ToolErrors."""

    def declare(function: Function) -> MakeTool:
        text = " ".join((function.__doc__ or "").split())

        def bind(memory: OpenMemory) -> Tool:
            @wraps(function)
            async def run(context: ToolContext, **arguments: Any) -> ToolOutput:
                try:
                    return await function(memory, **arguments)
                except (MemoryRefused, StorageError, BusyError) as error:
                    raise ToolError(credentials.redact(str(error))) from error

            return tool(description=text, **declaration)(run)

        return bind

    return declare


def as_sentence(text: str) -> str:
    """A clause such as `added to user: "Use tabs"` as a sentence."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def describe_outcome(memory: OpenMemory, outcome: Outcome, remark: str = "") -> ToolOutput:
    """Tells the model what an operation did, and how full the place is now or the entry's id."""
    lines = [as_sentence(outcome.text), "" if outcome.change else "Nothing was changed."]
    if new := outcome.statement:
        memory.mark_shown(frame.escape_frame(new.text), [new])
        lines.append(f"{memory.describe_fill(new.place) or f'Its id is {new.id}'}.")
    return ToolOutput(text=" ".join(filter(None, (*lines, remark))), summary=outcome.text)


def check_choice(name: str, value: str, allowed: Iterable[str]) -> None:
    """Raises: MemoryRefused if the parameter `name` has none of the allowed values."""
    if value not in allowed:
        listed = " or ".join(filter(None, allowed))
        raise MemoryRefused(f"`{name}` is {value!r}: say {listed}. Nothing was changed.")


def describe_share(size: int, limit: int, unit: str) -> str:
    """How much of a limit is used: `37% (940/2500 characters)`; "" without one."""
    return f"{round(100 * size / limit)}% ({size}/{limit} {unit})" if limit else ""


def as_list_item(text: str) -> str:
    """Returns one plain line as a list item, and any other text unchanged."""
    is_plain = text[:1].isalnum() and "\n" not in text and LINES.texts(text) == [text]
    return f"- {text}" if is_plain else text
