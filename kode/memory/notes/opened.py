"""An open notes memory as its tools, its folder and a person use it: found, marked, shown."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from kode.contracts import Hit, Remote
from kode.errors import BusyError, MemoryRefused, StorageError
from kode.memory import stale
from kode.memory.lineage import Place
from kode.memory.notes import pack
from kode.memory.notes.by_hand import NotesByHand
from kode.memory.notes.note import Note, entry_of
from kode.memory.notes.search import NoteVectors, search, text_of
from kode.memory.notes.store import Wanted
from kode.memory.rank import Text
from kode.memory.report import Part
from kode.memory.search import CANDIDATES, POOL, Finder, with_note
from kode.memory.stale import Doubt
from kode.memory.withdrawn import unsettled

TURN_S = 1.0
"""How long a turn waits for a team's server."""


class OpenedNotes(NotesByHand):
    """Who opens it sets these."""

    vectors: NoteVectors
    team: Remote | None
    """The server that the notes are shared through."""
    doubts: Mapping[Place, Doubt]
    """What may be stale, as it was when the prompt was made."""
    _finder: Finder
    _wrote_in_turn: bool

    async def search(self, query: str, k: int) -> list[Hit]:
        found = await self.find(query, Wanted(limit=k))
        marks = self._marks(note for _, note in found)
        return [
            with_note(replace(hit, why=f"{note.kind}; {hit.why}"), marks[note.id])
            for hit, note in found
        ]

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
        notes = self.store.by_ids(ids)
        return [(hit, notes[id]) for hit, id in zip(hits, ids, strict=True)]

    def look_again(self) -> None:
        """Finds what may be stale by now."""
        self.doubts = stale.doubts(self.ledger, self.project, self._context.now().date())

    def marked(
        self, notes: Iterable[Note], shorten: Callable[[str], str] = lambda text: text
    ) -> list[Note]:
        """The notes as a model is shown them, each text as `shorten` leaves it: what may be stale
        says so, and what no longer holds of a note on past work, or is not settled of another,
        follows it."""
        kept = list(notes)
        marks = self._marks(kept)
        shown = []
        for note in kept:
            doubt = self.doubts.get(entry_of(note).place)
            text = f"{doubt.mark if doubt else ''}{shorten(note.content)}"
            between = "\n" if note.kind == "summary" else " "
            shown.append(replace(note, content=between.join(filter(None, (text, marks[note.id])))))
        return shown

    def _marks(self, notes: Iterable[Note]) -> dict[str, str]:
        """What follows each note, by its id; "" for nothing."""
        open_ = unsettled(self.ledger, self.project)
        found = {}
        for note in notes:
            why = open_.get(entry_of(note).place)
            since = note.kind == "summary" and self.since_then(note.content, note.session or "")
            found[note.id] = since or (f"({why})" if why else "")
        return found

    def soul(self) -> str:
        """Who kode is for this user; "" for the first one, which says nothing of its own."""
        souls = self.store.get(Wanted(kinds=("soul",), limit=1))
        return "" if not souls or souls[0].is_first_soul else souls[0].content

    async def after_change(self) -> None:
        """A tool has written: it needs a vector, and the trigger needs not write it again."""
        self._wrote_in_turn = True
        self._work.start(self._make_vectors())

    async def _make_vectors(self) -> None:
        if self.team:  # which keeps vectors of notes that it has
            await self.team.update(TURN_S)
        try:
            await self.vectors.make_missing()
        except (MemoryRefused, StorageError, BusyError):
            pass  # found missing and made by the next maintenance

    def parts(self) -> Sequence[Part]:
        return pack.parts(self.store, pack.agent_context(self.store))

    async def figures(self) -> Mapping[str, object]:
        own = pack.figures(self.store, self.vectors.count_missing())
        return {**own, "team": await self.team.status()} if self.team else own

    async def rebuild(self) -> str:
        """Puts back the notes as the history has them last; one that the database alone has
        stays."""
        from kode.memory.notes.carry import NotesCarrier

        assert self.history.places is not None
        carrier = NotesCarrier(self, self.history.places)
        carrier.author = self._author("user")
        return (await carrier.rebuild(self.history)).in_words()
