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
from kode.memory.history import Author, History
from kode.memory.proposals import Proposals
from kode.memory.question import Fact, Found
from kode.memory.queue import Item, Queue, details
from kode.memory.rank import Text
from kode.memory.tiered import merge
from kode.memory.tiered.facts import FactStore, Target, shorten
from kode.memory.tiered.review import Review, Side, WaitingPair
from kode.memory.tiered.write import SYSTEM, FactWriter, Outcome, Verdict

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
    _review: Review
    _history: History

    @property
    def ended(self) -> Ended:
        store = self._store
        return Ended(
            project=paths.path_hash(store.project),
            root=str(store.project),
            in_repository=store.in_repository,
        )

    async def take_pairs(self, item: Item) -> list[WaitingPair]:
        """The pairs of facts that wait for a model's word, with an attempt counted; none if outside
        text may have a say in it. Raises: StorageError, BusyError."""
        names = self._names(self._store_of(item))
        return [] if item.tainted else await self._writer.take_pairs(names)

    def shown(self, item: Item, pairs: Sequence[WaitingPair]) -> list[Line]:
        """The facts for the question, in file order: all, if they fit, else the sides of these
        pairs, and those nearest to what the person said."""
        store = self._store_of(item)
        files = store.files(lambda _: None)
        lines = [Line(store.name_of(file), text) for file in files for text in file.standing]
        if sum(len(line.text) for line in lines) <= question.KNOWN_CHARS:
            return lines
        sides = {side for pair in pairs for side in pair.sides}
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
        if fact.how == "repeats" or any(merge.same(fact.text, line.text) for line in shown):
            return False
        removed = (
            text
            for change in self._history.of_session(SYSTEM, item.session)
            if change.kind == "remove"
            for text in change.before
        )
        if any(merge.same(fact.text, text) for text in removed):
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
        done = await Proposals(self._context.root).propose(
            fact.text,
            fact.about,
            client=FOUND_BY,
            project=self._store_of(item).project,
            now=self._context.now(),
            who="extraction",
        )
        if done.change_id:
            line = f'"{shorten(fact.text, 60)}" waits in `kode memory review`'
            self._tell(Outcome(line=line, change_id=done.change_id))

    # ── known lines ──────────────────────────────────────────────────────────────────────────

    async def _settle(self, item: Item, found: Found, shown: Sequence[Line]) -> None:
        """Applies what the answer says of pairs of lines. Of a pair that waits, no word is a word:
        the two stand side by side."""
        sides = {line.side for line in shown}
        said = {
            (shown[one.of - 1].side, shown[one.line - 1].side): _WORDS[one.how]
            for one in found.lines or ()
        }
        waiting = {
            pair.sides: pair
            for pair in self._review.waiting()
            if not pair.contradict and sides.issuperset(pair.sides)
        }
        judged: list[tuple[WaitingPair, Verdict | None]] = []
        for (old, new), pair in waiting.items():
            word = said.pop((old, new), None) or said.pop((new, old), None)
            none: Verdict | None = None if found.lines is None else "distinct"
            judged.append((pair, word or none))
        disputed = {pair.sides for pair in self._review.waiting() if pair.contradict}
        newest_first = list(self._history.origins(lambda change: change.after)) if said else []
        for two, word in said.items():
            # The model knows what two lines say, the history which of them was said last.
            old, new = sorted(two, key=lambda side: _age(side, newest_first), reverse=True)
            if (old, new) not in disputed and (new, old) not in disputed:
                judged.append((_pair(old, new), word))
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
        if settled.given_up:
            self._notice(
                f"No model could say of {settled.given_up} similar facts whether they mean the "
                "same. They all stay: `kode memory show` lists them."
            )

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    def _store_of(self, item: Item) -> FactStore:
        """The facts as seen from the item's project."""
        ended = details(Ended, item) or Ended()
        if not ended.root or Path(ended.root) == self._store.project:
            return self._store
        return replace(self._store, project=Path(ended.root), in_repository=ended.in_repository)

    def _names(self, store: FactStore) -> list[str]:
        return [store.name_of(file) for file in store.files(lambda _: None)]

    def _tell(self, done: Outcome) -> None:
        if done.change_id:
            self._context.emit(
                MemoryChanged(text=done.line, change_id=done.change_id, of_session=True)
            )

    def _notice(self, text: str, level: Literal["info", "warning"] = "warning") -> None:
        self._context.emit(Notice(text=text, level=level))


def _age(side: Side, newest_first: Sequence[str]) -> int:
    text = side[1]
    return newest_first.index(text) if text in newest_first else len(newest_first)


def _pair(old: Side, new: Side) -> WaitingPair:
    (target, entry), (new_target, text) = old, new
    across = new_target if new_target != target else ""
    return WaitingPair(target=target, entry=entry, new=text, new_target=across)
