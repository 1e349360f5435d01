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
from kode.memory import question, rank
from kode.memory.base import WORDS_CHARS
from kode.memory.change import Author, Side
from kode.memory.history import History
from kode.memory.ledger import Dispute, Ledger, Statement
from kode.memory.lineage import Entry
from kode.memory.question import Fact, Found
from kode.memory.queue import Item, Queue, details
from kode.memory.rank import Text
from kode.memory.tiered.facts import FactStore, Target, shorten
from kode.memory.tiered.write import FactWriter, Outcome, Verdict
from kode.memory.waiting import came_from, propose

FOUND_BY = "kode, in a session that read outside text"
"""Who proposes a fact of such a session."""
_WORDS: dict[question.How, Verdict] = {
    "repeats": "same",
    "changes": "update",
    "contradicts": "contradicts",
}


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
    def side(self) -> Side:
        return self.target, self.text


@dataclass
class Learner:
    """The facts, seen from the end of a session."""

    _context: MemoryContext
    _store: FactStore
    _writer: FactWriter
    _ledger: Ledger
    _history: History

    @property
    def ended(self) -> Ended:
        store = self._store
        return Ended(
            project=paths.path_hash(store.project),
            root=str(store.project),
            in_repository=store.in_repository,
        )

    def pairs(self, item: Item) -> list[Dispute]:
        """The pairs of facts that wait for a model's word; none if outside text may have a say in
        it. Raises: StorageError."""
        files = self._store_of(item).files(lambda _: None)
        names = [self._store.name_of(file) for file in files]
        return [] if item.tainted else self._writer.unjudged(names)

    def shown(self, item: Item, pairs: Sequence[Dispute]) -> list[Line]:
        """The facts for the question, in file order: all, if they fit, else the sides of these
        pairs, and those nearest to what the person said."""
        store = self._store_of(item)
        files = store.files(lambda _: None)
        lines = [Line(store.name_of(file), text) for file in files for text in file.standing]
        if sum(len(line.text) for line in lines) <= question.KNOWN_CHARS:
            return lines
        sides = {side for pair in pairs for side in pair.places}
        texts = [Text(line.target, line.text) for line in lines]
        ranked = rank.rank("\n".join(item.said) or item.text, texts, self._context.now())
        first = [at for at, line in enumerate(lines) if line.side in sides]
        chosen, room = set[int](), question.KNOWN_CHARS
        for at in dict.fromkeys((*first, *(one.index for one in ranked))):
            room -= len(lines[at].text)
            if room >= 0:
                chosen.add(at)
        return [line for at, line in enumerate(lines) if at in chosen]

    async def learn(self, item: Item, found: Found, shown: Sequence[Line]) -> None:
        """Writes what the answer says of the facts. Outside text may have worded all of it, so of a
        session that read any, new facts wait for the person, and no line loses another. Raises:
        StorageError, BusyError."""
        facts = [fact for fact in found.facts if self._is_said(fact, item, shown)]
        refused: list[str] = []
        for fact in facts:
            try:
                if item.tainted:
                    await self._propose(item, fact)
                else:
                    await self._write(item, fact, shown)
            except MemoryRefused as error:
                refused.append(str(error))
        if refused:
            self._notice(
                f"{len(refused)} facts are only in the note of their session. {refused[0]}"
            )
        if not item.tainted:
            await self._settle(item, found, shown)

    # ── new facts ────────────────────────────────────────────────────────────────────────────

    def _is_said(self, fact: Fact, item: Item, shown: Sequence[Line]) -> bool:
        """Whether a fact is new, and rests on words that the person typed; else it is the model's,
        and stays in the note."""
        if fact.how == "repeats" or any(fact.text == line.text for line in shown):
            return False
        ended = ((one.text, one.ended) for one in self._ledger.ended())
        if any(
            end and (end.kind, end.session) == ("remove", item.session) and text == fact.text
            for text, end in ended
        ):
            return False
        return question.stands_in(fact.words, item.said)

    async def _write(self, item: Item, fact: Fact, shown: Sequence[Line]) -> None:
        store = self._store_of(item)
        old = shown[fact.line - 1] if fact.line else None
        target: Target = "user" if fact.about == "user" else "env"
        path = store.path(target, store.default_scope(target))
        name = old.target if old else path.relative_to(store.root).as_posix()
        author = Author(
            who="extraction", session=item.session, words=shorten(fact.words, WORDS_CHARS)
        )
        wins = fact.how != "contradicts"
        writer = replace(self._writer, _store=store)
        entry = old.text if old else ""
        self._tell(await writer.learn(name, fact.text, author, entry=entry, wins=wins))

    async def _propose(self, item: Item, fact: Fact) -> None:
        waits = await propose(
            self._history,
            fact.text,
            fact.about,
            client=FOUND_BY,
            project=self._store_of(item).project,
            author=Author(who="extraction", session=item.session, turn=item.turn),
            source=came_from(item.session, item.outside),
        )
        if waits is not None:
            line = f'"{shorten(fact.text, 60)}" waits in `kode memory review`'
            self._tell(Outcome(line=line, change_id=waits.id))

    # ── known lines ──────────────────────────────────────────────────────────────────────────

    async def _settle(self, item: Item, found: Found, shown: Sequence[Line]) -> None:
        """Applies what the answer says of pairs of lines. Of a pair that waits, no word is a word:
        the two stand side by side."""
        if found.lines is None:
            return
        sides = {line.side for line in shown}
        said = {
            frozenset((shown[one.of - 1].side, shown[one.line - 1].side)): (one, _WORDS[one.how])
            for one in found.lines
        }
        known = {pair.places: pair for pair in self._writer.pairs() if pair.places <= sides}
        judged: list[tuple[Dispute, Verdict]] = []
        for places, pair in known.items():
            named = said.pop(places, None)
            if not pair.contradict:  # else the person decides
                judged.append((pair, named[1] if named else "distinct"))
        for places, (one, word) in said.items():
            if len(places) == 2 and not self._ledger.is_settled(places):
                older, newer = (self._statement(shown[at - 1]) for at in (one.of, one.line))
                # The model knows what two lines say, the history which of them was said last.
                first, second = sorted((older, newer), key=lambda it: it.at)
                judged.append((Dispute(first=first, second=second, contradict=False), word))
        settled = await self._writer.settle(
            judged, Author(who="merge", session=item.session or None)
        )
        for outcome in settled.changes:
            self._tell(outcome)
        if settled.disputed:
            self._notice(
                f"{settled.disputed} facts contradict others that they cannot replace. Both stay "
                "until you decide: `kode memory review`.",
                level="info",
            )

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    def _store_of(self, item: Item) -> FactStore:
        """The facts as seen from the item's project."""
        ended = details(Ended, item) or Ended()
        if not ended.root or Path(ended.root) == self._store.project:
            return self._store
        return replace(self._store, project=Path(ended.root), in_repository=ended.in_repository)

    def _statement(self, line: Line) -> Statement:
        return self._ledger.statement(Entry(target=line.target, key=line.text, text=line.text))

    def _tell(self, done: Outcome) -> None:
        if done.change_id:
            self._context.emit(
                MemoryChanged(text=done.line, change_id=done.change_id, of_session=True)
            )

    def _notice(self, text: str, level: Literal["info", "warning"] = "warning") -> None:
        self._context.emit(Notice(text=text, level=level))
