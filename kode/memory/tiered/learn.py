"""What an ended session brings for the facts: shows them to the one question, and writes what its
answer says: new facts that rest on the person's words, and which lines repeat or outdate others."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from kode import paths
from kode.contracts import MemoryContext
from kode.errors import MemoryRefused
from kode.events import MemoryChanged, Notice
from kode.memory import question
from kode.memory.base import WORDS_CHARS
from kode.memory.change import Author
from kode.memory.history import History
from kode.memory.judged import MAX_PAIRS
from kode.memory.ledger import Dispute, Ledger
from kode.memory.lineage import Place
from kode.memory.question import Fact, Found
from kode.memory.queue import Item, Queue, details
from kode.memory.tiered.facts import Target, shorten
from kode.memory.tiered.write import FactWriter, Outcome
from kode.memory.waiting import FOUND_BY, came_from, propose


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


@dataclass(frozen=True)
class Line:
    """A fact as the question shows it."""

    target: str
    """Its file, as named in the history."""
    text: str

    @property
    def place(self) -> Place:
        return self.target, self.text


@dataclass
class Learner:
    """The facts, seen from the end of a session."""

    _context: MemoryContext
    _writer: FactWriter
    _ledger: Ledger
    _history: History

    @property
    def ended(self) -> Ended:
        store = self._writer.store
        return Ended(
            project=paths.path_hash(store.project),
            root=str(store.project),
            in_repository=store.in_repository,
        )

    def pairs(self, item: Item) -> list[Dispute]:
        """The oldest pairs of facts that wait for a model's word, as many as one question has; none
        if outside text may have a say in it. Raises: StorageError."""
        writer = self._writer_of(item)
        here, found = set(writer.store.names()), [] if item.tainted else writer.pairs()
        unjudged = (one for one in found if not one.contradict)
        return [one for one in unjudged if {at[0] for at in one.places} <= here][:MAX_PAIRS]

    def shown(self, item: Item) -> list[Line]:
        """The facts for the question, in file order: all, if they fit, else the sides of the pairs
        that wait, and by turns those nearest to what the person said and the newest."""
        store = self._writer_of(item).store
        files = store.files(lambda _: None)
        lines = [Line(store.name_of(file), text) for file in files for text in file.standing]
        waiting = {place for pair in self.pairs(item) for place in pair.places}
        known = self._ledger.standing()
        ages = [known[line.place].at if line.place in known else -1 for line in lines]
        chosen = question.to_show(
            [line.text for line in lines],
            "\n".join(item.said) or item.text,
            self._context.now(),
            first=[at for at, line in enumerate(lines) if line.place in waiting],
            newest=sorted(range(len(lines)), key=lambda at: -ages[at]),
        )
        return [lines[at] for at in chosen]

    async def learn(self, item: Item, found: Found, shown: Sequence[Line]) -> None:
        """Writes what the answer says of the facts. Outside text may have worded all of it, so of a
        session that read any, new facts wait for the person, and no line loses another. Raises:
        StorageError, BusyError."""
        writer, refused = self._writer_of(item), list[str]()
        for fact in found.facts:
            if not self._is_said(fact, item, shown):
                continue
            add = self._propose if item.tainted else self._write
            try:
                self.tell(await add(item, fact, shown, writer))
            except MemoryRefused as error:
                refused.append(str(error))
        if refused:
            self.notice(f"{len(refused)} facts are only in the note of their session. {refused[0]}")
        if item.tainted or found.lines is None:
            return
        author = Author(who="merge", session=item.session or None)
        places = [line.place for line in shown]
        changes, disputed = await writer.settle(found.lines, places, author)
        for outcome in changes:
            self.tell(outcome)
        if disputed:
            self.notice(
                f"{disputed} facts contradict others that they cannot replace. Both stay "
                "until you decide: `kode memory review`.",
                level="info",
            )

    def tell(self, done: Outcome) -> None:
        if done.change_id:
            self._context.emit(
                MemoryChanged(text=done.line, change_id=done.change_id, of_session=True)
            )

    def notice(self, text: str, level: Literal["info", "warning"] = "warning") -> None:
        self._context.emit(Notice(text=text, level=level))

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    def _is_said(self, fact: Fact, item: Item, shown: Sequence[Line]) -> bool:
        """Whether a fact is new, and rests on words that the person typed; else it is the model's,
        and stays in the note."""
        if fact.how == "repeats" or any(fact.text == line.text for line in shown):
            return False
        removed = self._ledger.ended_in(item.session, "remove")
        return fact.text not in removed and question.stands_in(fact.words, item.said)

    async def _write(
        self, item: Item, fact: Fact, shown: Sequence[Line], writer: FactWriter
    ) -> Outcome:
        target: Target = "user" if fact.about == "user" else "env"
        old = shown[fact.line - 1] if fact.line else None
        name = old.target if old else writer.store.name(target, writer.store.default_scope(target))
        words = shorten(fact.words, WORDS_CHARS)
        author = Author(who="extraction", session=item.session, words=words)
        entry = old.text if old else ""
        return await writer.learn(name, fact.text, author, entry=entry, how=fact.how)

    async def _propose(
        self, item: Item, fact: Fact, shown: Sequence[Line], writer: FactWriter
    ) -> Outcome:
        waits = await propose(
            self._history,
            fact.text,
            fact.about,
            client=FOUND_BY,
            project=writer.store.project,
            author=Author(who="extraction", session=item.session, turn=item.turn),
            source=came_from(item.session, item.outside),
        )
        line = f'"{shorten(fact.text, 60)}" waits in `kode memory review`'
        return Outcome(line=line, change_id=waits.id if waits else "")

    def _writer_of(self, item: Item) -> FactWriter:
        """The facts as seen from the item's project."""
        ended, store = details(Ended, item) or Ended(), self._writer.store
        if not ended.root or Path(ended.root) == store.project:
            return self._writer
        store = replace(store, project=Path(ended.root), in_repository=ended.in_repository)
        return replace(self._writer, store=store)
