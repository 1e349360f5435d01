"""An open memory, for the policy of its system and for commands: what it holds, how it is shown to
a model, and how something is saved in it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any, Literal

from kode import credentials, paths
from kode.contracts import Hit, MemoryContext, Project, SessionRecord, Turn
from kode.errors import MemoryRefused
from kode.events import MemoryChanged, Notice
from kode.memory import frame, judge, scan, source
from kode.memory.ask import MemoryModel
from kode.memory.background import Background
from kode.memory.embed import Embedder
from kode.memory.fold import View
from kode.memory.index import IndexedText
from kode.memory.markdown import display
from kode.memory.quotes import verify_quote
from kode.memory.reading import Seen, check_read, mark_read
from kode.memory.relations import NO_RELATIONS, Relations
from kode.memory.remarks import is_expired, remarks, since_then
from kode.memory.rendering import Layout
from kode.memory.search import Ranked, TextIndex, recall, search
from kode.memory.statement import Author, Outcome, Statement, Who
from kode.memory.store import Store, quoted
from kode.messages import shorten
from kode.registry import system_row

if TYPE_CHECKING:
    from kode.config import MemoryConfig

About = Literal["user", "project"]
"""What an entry from elsewhere is about."""
NO_NOTES = "There is no note on a session yet."
NOTE_CHARS = 200  # two lines of a terminal
SINCE_CHARS = 40  # a version or a day
INDEX_LIMIT_S = 0.5
"""How long a turn may wait for notes that are not indexed yet."""


@dataclass(frozen=True, kw_only=True)
class Addition:
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
    """What others found, as an addition in the place that a system has for it."""
    row = system_row(system)
    if about == "user":
        return Addition(target=row.about_user, text=text)
    scope = "project" if "--scope" in row.options else ""
    return Addition(target=row.about_project, text=text, scope=scope)


class OpenMemory:
    """The store of one session, with a model to ask and indexes to search. What changes something
    raises MemoryRefused, StorageError and BusyError."""

    context: MemoryContext
    store: Store
    model: MemoryModel
    writer: Who = "model"
    """Who writes by tools."""

    def __init__(self, name: str, settings: "MemoryConfig", layout: Layout) -> None:
        self._name, self.settings, self.layout = name, settings, layout
        self.embedder: Embedder | None = None
        self.work = Background(lambda fault: self.warn(f"Memory could not finish: {fault}"))
        self.seen: Seen = {}
        """The texts that the session's model was shown whole; see `reading`."""
        self.shown_notes: list[str] = []
        """The ids of the notes that the session's model was shown."""
        self.turn = Turn(number=0, text="")
        """The turn that runs, or the last one."""
        self._indexed: tuple[View | None, date] = (None, date.min)
        """What the indexes hold: the view, and the day on which it was looked at."""

    @property
    def name(self) -> str:
        return self._name

    def set_up(self, context: MemoryContext) -> None:
        """Makes the store, reading and writing nothing yet."""
        self.context = context
        root = context.project_root or paths.project_root(context.cwd)
        self.store = Store(
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
        self.note_index = TextIndex(context.root / f"index-{self.name}.sqlite")
        self.fact_index = TextIndex()

    async def sum_up(self) -> bool:
        """Sums up this session as far as it has come; False if that is left for the next kode."""
        return True

    # ── reading ──────────────────────────────────────────────────────────────────────────────

    def today(self) -> date:
        return self.context.now().date()

    def warn(self, text: str) -> None:
        """Tells the person something in a line."""
        self.context.emit(Notice(text=text))

    def at_end_of(self, record: SessionRecord) -> "OpenMemory":
        """This memory for the one who looks back on a session: what is written counts as said when
        that ended, and rests on what it read and on what was typed in it."""
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
        """The model, or somebody else, in this turn."""
        return Author(who or self.writer, self.context.session_id or "", self.turn.number)

    def model_author(self, quote: str, lines: str = "") -> tuple[Author, str]:
        """The model with what it rests on, and a remark on what of that does not count: the
        person's words in this session, in which they ask nothing, and lines of code."""
        remarks, author = list[str](), self.author()
        if quote.strip():
            author = author._replace(quote=verify_quote(quote, self.context.typed_messages()))
            if not author.quote:
                remarks.append("`quote` was left out: the user did not state this in these words.")
        if lines.strip():
            try:
                where, source_hash = source.cite(self.store.project.root, lines)
                author = author._replace(source=where, source_hash=source_hash)
            except MemoryRefused as error:
                remarks.append(f"It was left out: {error}")
        return author, " ".join(remarks)

    def new_statement(self, addition: Addition, author: Author) -> Statement:
        """The statement of an addition, in the form of its place. Raises: MemoryRefused."""
        place = self.layout.place_of(addition.target, addition.scope, self.store.project)
        if not addition.text.strip():
            raise MemoryRefused("The text is empty: say in one sentence what to remember.")
        since = " ".join(addition.since.split())
        if len(since) > SINCE_CHARS:
            raise MemoryRefused(f"`since` has {len(since)} characters and may have {SINCE_CHARS}.")
        return self.store.new_statement(
            author,
            place,
            addition.text,
            since=since,
            until=day_of(addition.until, "until").isoformat() if addition.until.strip() else "",
            private=addition.private,
            details=addition.details or {},
        )

    def mark_shown(self, text: str, facts: Iterable[Statement]) -> None:
        """Notes which of these facts the session's model was shown whole in a text."""
        for fact in facts:
            if frame.escape(display(fact.text)) in text:
                mark_read(self.seen, fact.id, fact.text)

    def check_replaced(self, old: Statement, text: str, named: str) -> None:
        """Raises: MemoryRefused if the session's model was not shown the fact that it replaces, or
        loses most of it without having `named` it."""
        check_read(
            self.seen,
            old.id,
            old.text,
            text,
            named=(named,),
            label=f"the fact {quoted(old)}",
            to_read="`read` or search for it; then replace it.",
            to_lose="Quote all that goes in `old_text`, or say in `content` what still holds.",
        )

    async def save(self, new: Statement, *, is_judged: bool = True) -> Outcome:
        """Stores a statement of the model or the person, and announces it. What near it says the
        same, or is outdated, is found by a question to the model, unless `is_judged` is false. In
        a session that read outside text, what the person did not type waits for their approval."""
        remark = scan.check(new.text, author=new.who)
        scan.check(f"{new.since} {new.source}")
        new = self.hold_back(new)
        relations: Relations = NO_RELATIONS
        if is_judged and new.state == "current":
            within = f"{new.place}/"  # what holds everywhere also bears on a project's facts
            facts = [
                fact for fact in self.store.statements() if f"{fact.place}/".startswith(within)
            ]
            judgment = await judge.compare(new, facts, self.settings, self.model, self.embedder)
            relations = judgment.relations
        outcome = await self.ask_about_conflict(await self.store.add(new, relations))
        return self.announce(outcome, remark)

    async def replace(self, old: Statement, new: Statement) -> Outcome:
        """Puts a statement in the place of another one, and announces it; with the same care. One
        that ranks higher stays beside it."""
        remark = scan.check(new.text, author=new.who)
        new = self.hold_back(new)
        if new.state == "waiting":
            return self.announce(await self.store.add(replace(new, replaces=(old.id,))), remark)
        relations = Relations(outdated=((old.id, new.id),))
        outcome = await self.store.add(new, relations, kind="replace")
        return self.announce(await self.ask_about_conflict(outcome), remark)

    async def ask_about_conflict(self, outcome: Outcome) -> Outcome:
        """Asks the person at once whether a new statement replaces one that counts for more; with a
        yes it is their own word. Without one, both stand until they decide."""
        old, new, confirm = outcome.conflict, outcome.statement, self.context.confirm
        if old is None or new is None or confirm is None:
            return outcome
        preview = f"Remembered: {quoted(old)}\nNow:        {quoted(new)}"
        if not await confirm("Replace what memory has", preview):
            return outcome
        return await self.store.decide(f"{old.id}+{new.id}", "second")

    def hold_back(self, new: Statement) -> Statement:
        """A statement as it may be stored: it waits if the model may have it from outside."""
        if new.who == "user" or not self.context.tainted():
            return new
        if verify_quote(display(new.text), self.context.typed_messages()):
            return new
        outside = self.context.outside() or "outside text"
        return replace(new, state="waiting", quote="", source=outside, source_hash="")

    def announce(self, outcome: Outcome, remark: str = "") -> Outcome:
        """Shows a change to the person, and returns it for whom asked."""
        if outcome.change:
            self.context.emit(MemoryChanged(text=outcome.text, change_id=outcome.change.id))
        return replace(outcome, text=f"{outcome.text}\n{remark}") if remark else outcome

    def visible_facts(self, places: Sequence[str] | None = None) -> list[Statement]:
        """The current facts here that a model may see, in the order of a prompt."""
        today = self.today()
        return [
            statement
            for statement in self.store.statements()
            if not statement.private and not is_expired(statement, today)
            if places is None or statement.place in places
        ]

    def describe(self, statement: Statement) -> str:
        """A fact as a model sees it, with its date and what to know of it."""
        remark = remarks(self.store, self.today()).get(statement.id, "")
        return frame.describe(statement, remark)

    def describe_file(self, place: str) -> str:
        """The file of a place as a model sees it: its headings, and its facts with what to know of
        each; without what no model may see. "" if it has no facts to show."""
        format = self.layout.format_of(place)
        facts = {fact.text: fact for fact in self.visible_facts([place])}
        if format is None or not facts:
            return ""
        lines = list[str]()
        for piece in format.split(self.store.read_text(place) or ""):
            text = credentials.redact(piece.text)
            if fact := facts.get(text):
                bullet = text[: len(text) - len(display(text))]
                lines.append(f"{bullet}{self.describe(fact)}")
            elif not piece.text and piece.raw.strip():
                lines.append(f"\n{piece.raw.strip()}")
        return "\n" + "\n".join(lines)

    def fill(self, place: str) -> str:
        """How full a place is, with its name: `env: 37% (940/2500 characters)`; "" without a
        limit, and for a file that cannot be read."""
        try:
            text = self.store.read_text(place) or ""
        except MemoryRefused:
            return ""
        fill = self.layout.fill(place, text)
        return f"{self.layout.label(place)}: {fill}" if fill else ""

    def notes(self) -> list[Statement]:
        """The records of past work here that a model may see, oldest first."""
        view = self.store.view()
        records = [view.current(place) for place in self.store.record_places()]
        notes = [note for listed in records for note in listed if not note.private]
        return sorted(notes, key=lambda note: note.claimed_at)

    def list_notes(self, count: int) -> str:
        """The latest notes, a line each, the newest first; those of this project have a star."""
        here = self.store.project.hash
        return "\n".join(
            f"{note.session or note.id}  {note.claimed_at[:10]}  "
            f"{'*' if note.project == here else ' '} {shorten(display(note.text), NOTE_CHARS)}"
            for note in self.notes()[: -count - 1 : -1]
        )

    def find_notes(self, query: str) -> list[Statement]:
        """The notes that bear on a message and that the session was not shown yet."""
        if self.update_indexes(INDEX_LIMIT_S):
            self.work.start(self.index_rest())
        return self.recall_from(self.note_index, query, self.notes())

    def find_archived(self, query: str) -> list[Statement]:
        """The archived facts that bear on a message and that the session was not shown yet."""
        self.update_indexes(0.0)
        return self.recall_from(self.fact_index, query, self._archived())

    def recall_from(
        self, index: TextIndex, query: str, statements: Sequence[Statement]
    ) -> list[Statement]:
        """Those of some statements that bear on a message and that the session was not shown."""
        left = {new.id: new for new in statements if new.id not in self.shown_notes}
        ranked = recall(index, query, self.context.now(), lambda text: text.id not in left)
        return [left[result.text.id] for result in ranked]

    def show_notes(self, notes: Sequence[Statement]) -> str:
        """Notes for the model, each with what does not hold any more, framed; "" for none."""
        self.shown_notes += [note.id for note in notes]
        return frame.wrap(frame.NOTES, "\n\n".join(map(self.note_text, notes))) if notes else ""

    def note_text(self, note: Statement) -> str:
        """A note with its date and what of it does not hold any more."""
        text = f"[{note.claimed_at[:10]}] {display(note.text)}"
        return "\n".join(filter(None, (text, since_then(self.store, note, self.today()))))

    # ── search ──────────────────────────────────────────────────────────────────────────

    async def search(self, query: str, k: int) -> list[Hit]:
        """The best `k` facts and notes, best first, each with what may not hold any more; none if
        nothing matches."""
        ranked, hits = await self.find(query, k), list[Hit]()
        doubts, entries = remarks(self.store, self.today()), self.store.view().entries
        for result in ranked:
            hit, statement = result.to_hit(), entries[result.text.id].statement
            if statement.kind in ("episode", "summary"):
                doubt = since_then(self.store, statement, self.today())
            else:
                doubt = doubts.get(statement.id, "")
            hits.append(replace(hit, text=f"{hit.text}\n{doubt}") if doubt else hit)
        return hits

    async def find(
        self, query: str, k: int, allows: Callable[[str], bool] = lambda id: True
    ) -> list[Ranked]:
        """The same, of the statements whose ids are allowed."""
        limit_s = INDEX_LIMIT_S if self.context.session_id else float("inf")
        if left := self.update_indexes(limit_s):
            self.warn(f"{left} notes could not be looked at yet: search again.")
        return await search(
            (self.fact_index, self.note_index),
            query,
            k,
            self.context.now(),
            model=self.model if self.settings.llm_search else None,
            embedder=self.embedder,
            allows=lambda text: allows(text.id),
        )

    async def index_rest(self) -> None:
        self.update_indexes(float("inf"))
        if self.embedder:
            texts = [text.text for text in (*self.fact_index.texts, *self.note_index.texts)]
            while not self.work.is_closing and await self.embedder.fill(texts):
                pass

    def update_indexes(self, limit_s: float) -> int:
        """Indexes what is new; returns how many notes are left."""
        view, today = self.store.view(), self.today()
        if self._indexed[0] is view and self._indexed[1] == today:
            return 0
        label = self.layout.label
        is_person = not self.context.session_id
        facts = self.store.statements() if is_person else self.visible_facts()
        self.fact_index.update([_indexed(fact, label) for fact in (*facts, *self._archived())])
        notes = [_indexed(note, label, note.claimed_at[:10]) for note in self.notes()]
        left = self.note_index.update(notes, limit_s=limit_s)
        self._indexed = (None if left else view, today)
        return left

    def _archived(self) -> list[Statement]:
        view = self.store.view()
        facts = (fact for place in self.store.fact_places() for fact in view.in_place(place))
        return [fact for fact in facts if fact.state == "archived" and not fact.private]


def _indexed(statement: Statement, label: Callable[[str], str], day: str = "") -> IndexedText:
    """With a day, texts of the same place and day are neighbours."""
    return IndexedText(
        statement.id,
        display(statement.text),
        where=f"{label(statement.place)} {statement.id}",
        at=statement.claimed_at,
        row=f"{statement.place} {day}" if day else "",
    )


def day_of(text: str, name: str) -> date:
    """Parses a day like `2026-03-06`. Raises: MemoryRefused that names the option."""
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        raise MemoryRefused(
            f"`{name}` is {text!r}: write a day as 2026-03-06. Nothing was changed."
        ) from None
