"""Changes facts: add (with merge on write), replace, remove, consolidate, settle pairs, undo.

Every change takes the same steps: scan, decide (asking the model if needed) without a lock, then
lock, read again, and apply the decision to the current file, history first.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Literal

from kode.errors import MemoryRefused
from kode.memory import base, scan, stale
from kode.memory.ask import MemoryModel
from kode.memory.history import Author, Change, History, Who, refuse_redacted
from kode.memory.lineage import Entry
from kode.memory.precedence import Standing, source_rank, supersedes
from kode.memory.tiered import consolidate, edits, merge
from kode.memory.tiered.edits import Edit
from kode.memory.tiered.facts import (
    FactFile,
    FactStore,
    Scope,
    Target,
    check_room,
    find,
    holds_separator,
)
from kode.memory.tiered.merge import Judge, Plan
from kode.memory.tiered.places import state_of
from kode.memory.tiered.review import MAX_ATTEMPTS, Review, WaitingPair
from kode.memory.waiting import Pair

SYSTEM = "tiered"
CONTRADICT = "they contradict each other"
"""The reason in a settlement of a contradicting pair."""
JUDGED_AT_END = "the model judged, with the whole file: update"
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
    given_up: int
    """Pairs that a model failed to judge too often."""


@dataclass
class FactWriter:
    """Operations on the facts of one session."""

    _store: FactStore
    _history: History
    _door: MemoryModel
    _judge: Judge
    _review: Review
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
        removed = tuple(islice(self._history.removed(SYSTEM, name), MOST_REMOVED))
        removed = tuple(entry for entry in removed if entry not in file.entries)
        plan = await self._judge.compare(text, (*file.entries, *removed))
        near = [entry for entry in plan.unjudged if entry in file.entries]
        if near:
            await self._review.note(name, near, text)
        wins = plan.word != "update" or self._wins(name, author, text, plan.entry)
        if plan.entry in removed and not wins:
            raise MemoryRefused(
                "This contradicts what the user said, which is no longer among the facts. Ask the "
                "user which of the two holds, then add what they say. Nothing was changed."
            )
        if plan.entry and plan.entry not in removed:
            await self._prepare(name, plan.entry, plan.kept, wins)
        elsewhere = [] if plan.known else await self._note_elsewhere(name, text)
        return await self._change(
            lambda: self._store.read(target, scope),
            lambda file: _plan(file, text, plan, author, wins, elsewhere),
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
        known = next((one for one in file.entries if merge.same(text, one)), "")
        entry = entry if entry in file.entries else ""
        plan = Plan(known=known, entry=entry, word="update", kept=text, reason=JUDGED_AT_END)
        wins = wins and (not entry or self._wins(name, author, text, entry))
        if entry and not known:
            await self._prepare(name, entry, text, wins)
        return await self._change(
            lambda: self._store.read_named(name),
            lambda file: _plan(file, text, plan, author, wins, ()),
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
        wins = merge.same(text, old) or self._wins(name, author, text, old)
        await self._prepare(name, old, text, wins)

        def replaced(file: FactFile) -> Edit:
            if wins or old not in file.entries or text in file.entries:
                return edits.replaced(file, old_text, text)
            return edits.disputed(file, text, old)

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

    async def settle_pair(self, pair: Pair, kept: tuple[Entry, ...], author: Author) -> Outcome:
        """Keeps what the person chose of a waiting pair. Raises as `add`."""
        first, second = pair.first, pair.second
        reason = CONTRADICT if pair.contradict else ""
        texts = tuple(one.key for one in kept)
        if first.target == second.target:
            done = await self.tend(
                first.target,
                lambda file: edits.settled(file, first.key, second.key, texts, reason=reason),
                author,
            )
        else:
            done = Outcome(line="kept both")
            for gone in (one for one in (first, second) if one not in kept):
                edit = partial(edits.removed, old_text=gone.key, instead=kept[0].key)
                done = await self.tend(gone.target, edit, author)
        settled = WaitingPair(
            target=first.target, entry=first.key, new=second.key, new_target=second.target
        )
        await self._review.remove([settled])
        return done

    async def undo(self, change: Change, author: Author) -> Outcome:
        """Undoes one change to a fact file, if its result is still there. Undoing a merge restores
        both texts; a contradicting pair waits for the person again.

        Raises: MemoryRefused with the obstacle; StorageError, BusyError.
        """
        refuse_redacted(change, f"Edit {change.target} by hand.")
        if change.kind in ("supersede", "settle"):
            old, new = change.before[0], change.before[-1]
            contradict = change.kind == "supersede" or change.reason == CONTRADICT
            await self._review.note(change.target, [old], new, contradict=contradict)
        return await self._change(
            lambda: self._store.read_named(change.target),
            lambda file: edits.undone(file, change),
            author,
        )

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
        bound = stale.bound(self._history, SYSTEM, self._store.name_of(file))
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
            return edits.consolidated(now, entries)

        return await self._change(lambda: self._store.read(target, scope), shortened, author)

    async def take_pairs(self, targets: Sequence[str]) -> list[WaitingPair]:
        """The waiting pairs of these files to ask a model about, with the attempt counted; pairs
        that miss a text are forgotten. Raises: StorageError, BusyError."""
        taken = await self._review.take(targets)
        standing = [pair for pair in taken if self._both_stand(pair)]
        if len(standing) < len(taken):
            await self._review.remove([pair for pair in taken if pair not in standing])
        return standing

    async def settle(
        self, judged: Sequence[tuple[WaitingPair, Verdict | None]], author: Author
    ) -> Settled:
        """Applies a model's words about pairs of entries, and merges equivalent ones. Pairs without
        a word keep waiting, except those asked about too often. Raises: StorageError, BusyError."""
        changes: list[Outcome] = []
        settled: list[WaitingPair] = []
        disputed = given_up = 0
        for pair, verdict in judged:
            word: Verdict | None = "distinct" if pair.is_across and verdict == "same" else verdict
            # One may hold everywhere and the other in this project alone, so a model's word removes
            # nothing across files.
            wins = word == "update" and not pair.is_across and self._stands_higher(pair)
            if word == "contradicts" or (word == "update" and not wins):
                await self._review.note(
                    pair.target,
                    [pair.entry],
                    pair.new,
                    new_target=pair.new_target,
                    contradict=True,
                )
                disputed += 1
                continue
            if word == "same" or word == "update":
                kept = merge.kept(word, pair.new, pair.entry)
                gone = pair.new if kept == pair.entry else pair.entry
                await self._prepare(pair.target, gone, kept, True)
                changes.append(await self._merge_pair(pair, word, author))
            elif word is None and pair.attempts >= MAX_ATTEMPTS:
                given_up += 1
            elif word is None:
                continue
            settled.append(pair)
        if settled:
            await self._review.remove(settled)
        return Settled(changes=changes, disputed=disputed, given_up=given_up)

    # ── what counts ──────────────────────────────────────────────────────────────────────────

    def _wins(self, name: str, author: Author, text: str, entry: str) -> bool:
        """Whether a new text replaces an entry that it contradicts."""
        older = self._standing(name).rank(entry, text)
        return supersedes(source_rank(author, text, entry), older)

    def _stands_higher(self, pair: WaitingPair) -> bool:
        """The same for two existing entries."""
        standing, old, new = self._standing(pair.target), pair.entry, pair.new
        return supersedes(standing.rank(new, old), standing.rank(old, new))

    def _standing(self, name: str) -> Standing:
        return Standing(self._history, SYSTEM, name, self._store.project)

    async def _prepare(self, name: str, old: str, new: str, wins: bool) -> None:
        """Before a text is written that replaces an entry, or stands beside it: transfers the old
        one's pairs, or pairs the two."""
        if not wins:
            await self._review.note(name, [old], new, contradict=True)
        elif old != new:
            await self._review.hand_over(name, old, new)

    async def _note_elsewhere(self, name: str, text: str) -> list[str]:
        """Before a text is written to this file: pairs it with what is near in the others that
        prompts here show beside it. Returns those entries."""
        found: list[str] = []
        for file in self._store.files(lambda _: None):
            where = self._store.name_of(file)
            near = await self._judge.near(text, file.standing) if where != name else ()
            if near:
                await self._review.note(where, near, text, new_target=name)
                found += near
        return found

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    async def _merge_pair(self, pair: WaitingPair, word: merge.Word, author: Author) -> Outcome:
        kept = merge.kept(word, pair.new, pair.entry)

        def joined(file: FactFile) -> Edit:
            if pair.entry not in file.entries or pair.new not in file.entries:
                return edits.known(file, kept, "it was changed meanwhile")
            reason = f"the model judged: {word}"
            if word == "update":
                return edits.superseded(file, pair.entry, pair.new, reason=reason)
            return edits.merged(file, pair.entry, pair.new, kept, reason=reason)

        return await self._change(lambda: self._store.read_named(pair.target), joined, author)

    def _both_stand(self, pair: WaitingPair) -> bool:
        try:
            return all(text in self._store.read_named(name).entries for name, text in pair.sides)
        except MemoryRefused:
            return False

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
            undoes=edit.undoes,
            supersedes=edit.supersedes,
            was_archived=tuple(at for at, text in enumerate(edit.before) if text in archived),
            archived=tuple(at for at, text in enumerate(edit.after) if text in after.archived),
        )
        with self._history.making(change, state_of(after)):
            self._store.write(after)
        detail = edit.detail
        if edit.kind not in ("archive", "undo") and not after.archived <= file.archived:
            detail = "; ".join(filter(None, (detail, "it is archived, as what it replaces was")))
        return Outcome(file=after, line=edit.line, detail=detail, change_id=change.id)


def _plan(
    file: FactFile,
    text: str,
    plan: Plan,
    author: Author,
    wins: bool,
    elsewhere: Sequence[str],
) -> Edit:
    """Applies the plan to the current file: if a compared entry is gone meanwhile, the text is
    added, which loses nothing. `elsewhere` are near entries of other files."""
    for entry in (text, plan.known):
        if entry in file.entries:
            is_new = author.source_hash or author.since or author.until
            return edits.confirmed(file, entry) if is_new else edits.known(file, entry)
    if plan.entry in file.entries and not wins:
        return edits.disputed(file, text, plan.entry, reason=plan.reason)
    if plan.entry in file.entries and plan.word == "update":
        return edits.superseded(file, plan.entry, text, reason=plan.reason)
    if plan.entry in file.entries:
        return edits.merged(file, plan.entry, text, plan.kept, reason=plan.reason)
    near = [*(entry for entry in plan.unjudged if entry in file.entries), *elsewhere]
    supersedes = plan.entry if plan.word == "update" else ""
    return edits.added(file, text, near=near, reason=plan.reason, supersedes=supersedes)


def check_text(content: str, who: Who = "model") -> str:
    """A text as it will be stored: trimmed, one entry, scanned as written by `who`.

    Raises: MemoryRefused naming what is wrong with it.
    """
    text = content.replace("\r\n", "\n").strip()
    if not text:
        raise MemoryRefused("content is empty: say in one sentence what to remember.")
    if holds_separator(text):
        raise MemoryRefused(
            "content holds a line with only §, which separates entries: write one fact at a time."
        )
    scan.check(text, author=who)
    return text
