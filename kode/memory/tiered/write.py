"""Changes facts: add (with merge on write), replace, remove, consolidate, settle pairs, undo.

Every change takes the same steps: scan, decide (asking the model if needed) without a lock, then
lock, read again, and apply the decision to the current file, history first.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from kode import durable
from kode.errors import MemoryRefused
from kode.memory import base, replacing, stale
from kode.memory.ask import MemoryModel
from kode.memory.change import Author, Change, Side
from kode.memory.change import Pair as TextPair
from kode.memory.compare import PAIRS
from kode.memory.history import History
from kode.memory.ledger import Dispute, Ledger, Statement
from kode.memory.lineage import Entry
from kode.memory.precedence import rank, source_rank, supersedes
from kode.memory.stored import locked, read_row, version_of
from kode.memory.tiered import consolidate, edits, merge
from kode.memory.tiered.edits import Edit
from kode.memory.tiered.facts import (
    FactFile,
    FactStore,
    Scope,
    Target,
    check_room,
    check_text,
    find,
)
from kode.memory.tiered.merge import Judge, Plan
from kode.memory.tiered.places import state_of

SYSTEM = "tiered"
JUDGED_AT_END = "the model judged, with the whole file: update"
MAX_PAIRS = 40
"""Pairs per question; the others wait for the next."""
MOST_REMOVED = 200
"""How many of a file's most recently removed texts are compared with a new fact."""


@dataclass(frozen=True, kw_only=True)
class Outcome(base.Outcome):
    file: FactFile | None = None
    """The current file; None if the change was not in a fact file."""


Verdict = merge.Word | Literal["contradicts"]
"""A model's word about two entries."""


@dataclass(frozen=True, kw_only=True)
class Settled:
    """The result for pairs that waited."""

    changes: Sequence[Outcome]
    disputed: int
    """Contradicting pairs that now wait for the person."""


@dataclass(frozen=True, kw_only=True)
class _WaitingPair:
    """A row of an older kode's `review/pairs.json`."""

    target: str
    entry: str
    new: str
    new_target: str = ""
    contradict: bool = False


@dataclass
class FactWriter:
    """Operations on the facts of one session."""

    _store: FactStore
    _history: History
    _door: MemoryModel
    _judge: Judge
    _ledger: Ledger
    may_consolidate: bool

    async def add(self, target: Target, scope: Scope, content: str, author: Author) -> Outcome:
        """Adds a fact, or merges it into an equivalent entry.

        Raises: MemoryRefused (refused, full), StorageError, BusyError; then nothing changed.
        """
        text = check_text(content, author.who)
        file = self._store.read(target, scope)
        name = self._store.name_of(file)
        # Removed texts still count: the model must not get around the user's words by removing
        # them.
        removed = self._removed(name, file)
        plan = await self._judge.compare(text, (*file.entries, *removed))
        wins = plan.word != "update" or self._wins(name, author, text, plan.entry)
        if plan.entry in removed and not wins:
            raise MemoryRefused(
                "This contradicts what the user said, which is no longer among the facts. Ask the "
                "user which of the two holds, then add what they say. Nothing was changed."
            )
        elsewhere = [] if plan.known else await self._near_elsewhere(name, text)
        return await self._change(
            lambda: self._store.read(target, scope),
            lambda file: _plan(file, name, text, plan, author, wins, elsewhere),
            author,
        )

    async def learn(
        self, name: str, content: str, author: Author, *, entry: str = "", wins: bool = True
    ) -> Outcome:
        """Adds a fact that a model has compared with the whole file of this name: it supersedes
        `entry` if one is given, or stands beside it if `wins` is false or that ranks higher. Raises
        as `add`."""
        text = check_text(content, author.who)
        file = self._store.read_named(name)
        known = text if text in file.entries else ""
        entry = entry if entry in file.entries else ""
        plan = Plan(known=known, entry=entry, word="update", kept=text, reason=JUDGED_AT_END)
        wins = wins and (not entry or self._wins(name, author, text, entry))
        return await self._change(
            lambda: self._store.read_named(name),
            lambda file: _plan(file, name, text, plan, author, wins, ()),
            author,
        )

    async def replace(
        self, target: Target, scope: Scope, old_text: str, content: str, author: Author
    ) -> Outcome:
        """Replaces the one entry that `old_text` means; a higher-ranking one stays beside the new
        text. Raises as `add`."""
        text = check_text(content, author.who)
        file = self._store.read(target, scope)
        name, old = self._store.name_of(file), file.entries[find(file, old_text)]
        wins = text == old or self._wins(name, author, text, old)

        def replaced(file: FactFile) -> Edit:
            if wins or old not in file.entries or text in file.entries:
                return edits.replaced(file, old_text, text)
            return edits.disputed(file, (name, old), (name, text))

        return await self._change(lambda: self._store.read(target, scope), replaced, author)

    async def remove(self, target: Target, scope: Scope, old_text: str, author: Author) -> Outcome:
        """Removes the one entry that `old_text` means. Raises as `add`."""
        return await self._change(
            lambda: self._store.read(target, scope),
            lambda file: edits.removed(file, old_text),
            author,
        )

    async def archive(self, target: Target, scope: Scope, old_text: str, author: Author) -> Outcome:
        """Moves the one entry that `old_text` means into the archive. Raises as `add`."""
        return await self._change(
            lambda: self._store.read(target, scope),
            lambda file: edits.archived(file, old_text),
            author,
        )

    async def tend(self, name: str, edit: Callable[[FactFile], Edit], author: Author) -> Outcome:
        """Applies an edit to the file with this name in the history. Raises as `add`."""
        return await self._change(lambda: self._store.read_named(name), edit, author)

    async def settle_pair(self, pair: Dispute, kept: tuple[Entry, ...], author: Author) -> Outcome:
        """Keeps what the person chose of a waiting pair. Raises as `add`."""
        first, second = pair.first.entry, pair.second.entry
        texts = tuple(one.key for one in kept)
        if first.target == second.target:
            return await self.tend(
                first.target, lambda file: edits.settled(file, first.key, second.key, texts), author
            )
        for gone in (one for one in (first, second) if one not in kept):
            edit = partial(edits.removed, old_text=gone.key, instead=kept[0].key)
            return await self.tend(gone.target, edit, author)
        change = self._record(author, "settle", settled=((first.place, second.place),))
        return Outcome(line="kept both", change_id=change.id)

    async def consolidate(
        self, target: Target, scope: Scope, author: Author, expired: Collection[str] = ()
    ) -> Outcome:
        """Lets the model shorten the facts without losing any. Entries that rest on code or hold
        until a day are unchanged, and `expired` ones are removed.

        Raises: MemoryRefused if refused or without a model; the file stays.
        """
        file = self._store.read(target, scope)
        if len(file.standing) < 2:
            return Outcome(
                file=file,
                line=f"nothing to consolidate in {file.label}",
                detail=f"that takes two entries, and it has {len(file.standing)}",
            )
        if not self.may_consolidate:
            raise MemoryRefused(
                "Consolidating by a model is off (memory.llm_consolidate). "
                "Replace or remove single entries instead."
            )
        bound = stale.bound(self._ledger, self._store.name_of(file))
        free = tuple(entry for entry in file.standing if entry not in bound)
        kept = [entry for entry in file.standing if entry in bound and entry not in expired]
        fewer = (
            await consolidate.shorten_facts(self._door, replace(file, entries=free))
            if free[1:]
            else free
        )
        entries = [*fewer, *kept]
        if set(entries) == set(file.standing):
            return Outcome(file=file, line=f"{file.label} is as short as it gets")

        def shortened(now: FactFile) -> Edit:
            if now.entries != file.entries:
                raise MemoryRefused(
                    f"{file.label} was changed while the model was at work, so its answer was "
                    "not used. Try again."
                )
            replacing.check(
                {file.label: version_of("\n".join(file.standing))},  # the model was shown all of it
                file.label,
                "\n".join(now.standing),
                "\n".join(entries),
                to_read="Try again.",
                to_lose="Remove what no longer holds, then consolidate the rest.",
            )
            return edits.consolidated(now, entries)

        return await self._change(lambda: self._store.read(target, scope), shortened, author)

    async def settle(self, judged: Sequence[tuple[Dispute, Verdict]], author: Author) -> Settled:
        """Applies a model's words about pairs of entries, also such that nobody was waiting for,
        and merges equivalent ones. Raises: StorageError, BusyError."""
        changes: list[Outcome] = []
        apart: list[Dispute] = []
        against: list[Dispute] = []
        for pair, word in judged:
            first, second = pair.first, pair.second
            is_across = first.entry.target != second.entry.target
            if word == "distinct" or (word == "same" and is_across):
                apart.append(pair)
            # One may hold everywhere and the other in this project alone, so a model's word removes
            # nothing across files.
            elif word == "contradicts" or (
                word == "update" and (is_across or not self._stands_higher(first, second))
            ):
                against.append(pair)
            else:
                changes.append(await self._merge_pair(pair, word, author))
        known = {pair.places: pair.contradict for pair in self.pairs()}  # others may be faster
        apart = [one for one in apart if known.get(one.places) is False]
        against = [one for one in self._standing(against) if not known.get(one.places)]
        if apart:
            self._record(author, "settle", settled=tuple(map(_sides, apart)))
        if against:
            self._record(author, "dispute", against=tuple(map(_sides, against)))
        return Settled(changes=changes, disputed=len(against))

    def pairs(self) -> list[Dispute]:
        """The pairs that wait and stand in the files, those for a judge and for the person."""
        return self._standing(self._ledger.disputes())

    def unjudged(self, targets: Collection[str]) -> list[Dispute]:
        """The oldest pairs of these files that wait for a judge, as many as one question has."""
        found = [one for one in self.pairs() if not one.contradict]
        return [one for one in found if all(at[0] in targets for at in one.places)][:MAX_PAIRS]

    async def take_in_pairs(self, old: Path) -> None:
        """Makes the pairs in an older kode's file lines of the history, in one change. Raises:
        StorageError, BusyError."""
        if not old.exists():
            return
        async with locked(old.parent):
            try:
                pairs = read_row(list[_WaitingPair], old.read_bytes())
            except FileNotFoundError:
                return
            if pairs is None:
                durable.set_aside(old)
                return
            near, against = (
                tuple(
                    ((one.target, one.entry), (one.new_target or one.target, one.new))
                    for one in some
                )
                for some in (
                    [one for one in pairs if not one.contradict],
                    [one for one in pairs if one.contradict],
                )
            )
            self._record(Author(who="import"), "import", near=near, against=against)
            durable.remove(old)

    # ── what counts ──────────────────────────────────────────────────────────────────────────

    def _wins(self, name: str, author: Author, text: str, entry: str) -> bool:
        """Whether a new text replaces an entry that it contradicts."""
        old = self._ledger.statement(Entry(target=name, key=entry, text=entry))
        return supersedes(source_rank(author, text, entry), rank(old, self._store.project, text))

    def _stands_higher(self, old: Statement, new: Statement) -> bool:
        """The same for two existing entries."""
        project = self._store.project
        return supersedes(rank(new, project, old.text), rank(old, project, new.text))

    def _removed(self, name: str, file: FactFile) -> tuple[str, ...]:
        """What a model removed from a file and nothing has superseded, newest first."""
        gone = (one for one in self._ledger.ended() if one.entry.target == name and not one.into)
        ends = ((one.text, one.ended) for one in gone if one.text not in file.entries)
        by_model = (
            text for text, end in ends if end and (end.kind, end.who) == ("remove", "model")
        )
        return tuple(islice(by_model, MOST_REMOVED))

    async def _near_elsewhere(self, name: str, text: str) -> list[Side]:
        """What is near a text of this file in the others that prompts here show beside it."""
        found: list[Side] = []
        for file in self._store.files(lambda _: None):
            where = self._store.name_of(file)
            if where != name:
                found += [(where, one) for one in await self._judge.near(text, file.standing)]
        return found

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    async def _merge_pair(self, pair: Dispute, word: merge.Word, author: Author) -> Outcome:
        old, new = pair.first.text, pair.second.text
        kept = merge.kept(word, new, old)

        def joined(file: FactFile) -> Edit:
            if old not in file.entries or new not in file.entries:
                return edits.known(file, kept, "it was changed meanwhile")
            reason = f"the model judged: {word}"
            if word == "update":
                return edits.superseded(file, old, new, reason=reason)
            return edits.merged(file, old, new, kept, reason=reason)

        target = pair.first.entry.target
        return await self._change(lambda: self._store.read_named(target), joined, author)

    def _standing(self, pairs: Sequence[Dispute]) -> list[Dispute]:
        """Those of which both texts stand in the files."""
        names = {name for one in pairs for name, _ in one.places}
        held = {(name, text) for name in names for text in self._entries(name)}
        return [one for one in pairs if one.places <= held]

    def _entries(self, name: str) -> tuple[str, ...]:
        try:
            return self._store.read_named(name).entries
        except MemoryRefused:
            return ()

    def _record(self, author: Author, kind: str, **values: Any) -> Change:
        """Appends a line about pairs of texts, which changes none of them."""
        return self._history.record(author, SYSTEM, kind, PAIRS, **values)

    async def _change(
        self, read: Callable[[], FactFile], edit: Callable[[FactFile], Edit], author: Author
    ) -> Outcome:
        """Applies one change to the file as read inside the lock."""
        async with self._store.lock(read()):
            file = read()
            return self._write(file, edit(file), author)

    def _write(self, file: FactFile, edit: Edit, author: Author) -> Outcome:
        """Records the change, then writes the file: a crash in between loses nothing. Call with the
        lock held, which syncs what a killed writer left, so that a confirmation is durable."""
        if not edit.kind:
            return Outcome(file=file, line=edit.line, detail=edit.detail)
        after = edit.on(file)
        check_room(file, after)
        # A text that is new counts as found where it was put.
        archived = file.archived | (after.archived - set(file.entries))
        change = Change.by(
            author,
            SYSTEM,
            edit.kind,
            self._store.name_of(file),
            before=edit.before,
            after=edit.after,
            position=edit.position,
            reason=edit.reason,
            supersedes=edit.supersedes,
            near=edit.near,
            against=edit.against,
            was_archived=tuple(at for at, text in enumerate(edit.before) if text in archived),
            archived=tuple(at for at, text in enumerate(edit.after) if text in after.archived),
        )
        with self._history.making(change, state_of(after)):
            self._store.write(after)
        detail = edit.detail
        if edit.kind != "archive" and not after.archived <= file.archived:
            detail = "; ".join(filter(None, (detail, "it is archived, as what it replaces was")))
        return Outcome(file=after, line=edit.line, detail=detail, change_id=change.id)


def _plan(
    file: FactFile,
    name: str,
    text: str,
    plan: Plan,
    author: Author,
    wins: bool,
    elsewhere: Sequence[Side],
) -> Edit:
    """Applies the plan to the current file: if a compared entry is gone meanwhile, the text is
    added, which loses nothing. `elsewhere` are near entries of other files."""
    for entry in (text, plan.known):
        if entry in file.entries:
            is_new = author.source_hash or author.since or author.until
            return edits.confirmed(file, entry) if is_new else edits.known(file, entry)
    near = [*((name, one) for one in plan.unjudged if one in file.entries), *elsewhere]
    if plan.entry in file.entries and not wins:
        edit = edits.disputed(file, (name, plan.entry), (name, text), reason=plan.reason)
    elif plan.entry in file.entries and plan.word == "update":
        edit = edits.superseded(file, plan.entry, text, reason=plan.reason)
    elif plan.entry in file.entries:
        edit = edits.merged(file, plan.entry, text, plan.kept, reason=plan.reason)
    else:
        supersedes = plan.entry if plan.word == "update" else ""
        beside = [one for _, one in near]
        edit = edits.added(file, text, near=beside, reason=plan.reason, supersedes=supersedes)
    new = (name, edit.after[0])
    return replace(edit, near=tuple((side, new) for side in near))


def _sides(pair: Dispute) -> TextPair:
    return pair.first.place, pair.second.place
