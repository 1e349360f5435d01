"""Changes facts: every way in ends in one `Edit`, applied to the file as it is under its lock.

What to do is decided without a lock, asking the model if needed; then the file is read again, and
the history has the change before it is made.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from kode.errors import MemoryRefused
from kode.events import Emit
from kode.memory import base, question
from kode.memory.ask import MemoryModel
from kode.memory.change import Author, Change
from kode.memory.change import Pair as TextPair
from kode.memory.learn import Facts, relate
from kode.memory.ledger import Statement
from kode.memory.lineage import Entry, Place
from kode.memory.precedence import rank, source_rank, supersedes
from kode.memory.question import Fact, How
from kode.memory.queue import Item
from kode.memory.stored import locked
from kode.memory.tiered.facts import (
    FactFile,
    FactStore,
    Scope,
    Target,
    check_text,
    find,
    shorten,
)
from kode.memory.tiered.merge import Judge, Plan, kept
from kode.memory.tiered.places import TieredPlaces

SYSTEM = "tiered"
JUDGED_AT_END = "the model judged, with the whole file"
MOST_REMOVED = 200
"""How many of a file's most recently removed texts are compared with a new fact."""
TIMEOUT_S = 45.0
"""For consolidating: an answer about a whole file, which somebody waits for."""


@dataclass(frozen=True, kw_only=True)
class Outcome(base.Outcome):
    file: FactFile | None = None
    """The current file; None if the change was not in a fact file."""


@dataclass(frozen=True, kw_only=True)
class Edit:
    """A change of one file's entries, as in the history: `after` takes the place of `before`."""

    kind: str = ""
    """"" if nothing changes."""
    line: str
    """One line for a person: `merged into env "uses pytest -q"`."""
    detail: str = ""
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    position: int | None = None
    """The index of `after` among the other entries; None for the end."""
    reason: str = ""
    supersedes: str = ""
    near: tuple[TextPair, ...] = ()
    against: tuple[TextPair, ...] = ()


@dataclass(kw_only=True)
class FactWriter(Facts):
    """Operations on the facts, as seen from one project, in one session."""

    store: FactStore
    places: TieredPlaces
    door: MemoryModel
    judge: Judge
    may_consolidate: bool
    emit: Emit

    async def add(self, target: Target, scope: Scope, content: str, author: Author) -> Outcome:
        """Adds a fact, or merges it into an equivalent entry.

        Raises: MemoryRefused (refused, full), StorageError, BusyError; then nothing changed.
        """
        text, name = check_text(content, author.who), self.store.name(target, scope)
        entries = self.store.read_named(name).entries
        # Removed texts still count: the model must not get around the user's words by removing
        # them.
        removed = self._removed(name, entries)
        plan = await self.judge.compare(text, (*entries, *removed))
        if plan.entry in removed and not self._wins(name, author, text, plan):
            raise MemoryRefused(
                "This contradicts what the user said, which is no longer among the facts. Ask the "
                "user which of the two holds, then add what they say. Nothing was changed."
            )
        near = [(name, one) for one in plan.unjudged]
        if text not in entries:
            near += await self._near_elsewhere(name, text)
        wins = self._wins(name, author, text, plan)
        return await self._put(name, text, plan, author, near, wins=wins)

    # ── as the end of a session changes them ─────────────────────────────────────────────────

    def standing(self) -> list[Entry]:
        return [
            Entry(target=self.store.name_of(file), key=text, text=text)
            for file in self.store.files(lambda _: None)
            for text in file.standing
        ]

    def worded(self, fact: Fact, old: Entry | None) -> Place:
        target: Target = "user" if fact.about == "user" else "env"
        name = self.store.name(target, self.store.default_scope(target))
        return old.target if old else name, fact.text.strip()

    async def learn(
        self, fact: Fact, author: Author, item: Item, old: Entry | None, *, wins: bool, ends: bool
    ) -> tuple[Outcome, Entry | None]:
        name, text = self.worded(fact, old)
        text = check_text(text, author.who)
        how: How = "changes" if ends else "contradicts" if old else "new"
        reason = f"{JUDGED_AT_END}: {fact.how}"
        plan = Plan(how=how, entry=old.key if old else "", reason=reason)
        done = await self._put(name, text, plan, author, wins=wins)
        return done, Entry(target=name, key=text, text=text)

    async def join(
        self, older: Statement, newer: Statement, how: How, author: Author
    ) -> Outcome | None:
        """One may hold everywhere and the other in this project alone, so a model's word removes
        nothing across files."""
        if older.entry.target != newer.entry.target:
            return None

        def joined(file: FactFile) -> Edit:
            if not {older.text, newer.text} <= {*file.entries}:
                stays = kept(how, newer.text, older.text)
                return _known(file, stays, "it was changed meanwhile")
            return _joined(file, older.text, newer.text, how, f"the model judged: {how}")

        return await self._change(older.entry.target, joined, author)

    # ── as the tool and a person change them ─────────────────────────────────────────────────

    async def replace(
        self, target: Target, scope: Scope, old_text: str, content: str, author: Author
    ) -> Outcome:
        """Replaces the one entry that `old_text` means; a higher-ranking one stays beside the new
        text. Raises as `add`."""
        text, name = check_text(content, author.who), self.store.name(target, scope)
        file = self.store.read_named(name)
        old = file.entries[find(file, old_text)]
        wins = text == old or self._wins(name, author, text, Plan(how="changes", entry=old))

        def replaced(file: FactFile) -> Edit:
            if not wins and old in file.entries and text not in file.entries:
                return _disputed(file, name, old, text, "it contradicts an entry that counts more")
            at = find(file, old_text)
            there = file.entries[at]
            if there == text:
                return _known(file, text, "it already says that")
            return Edit(
                kind="replace",
                line=f"replaced in {file.label} {_quote(there)} by {_quote(text)}",
                before=tuple(one for one in file.entries if one in (there, text)),
                after=(text,),
                position=_place(file, there, text),
            )

        return await self._change(name, replaced, author)

    async def remove(self, target: Target, scope: Scope, old_text: str, author: Author) -> Outcome:
        """Removes the one entry that `old_text` means. Raises as `add`."""
        name = self.store.name(target, scope)
        return await self._change(name, partial(_removed, old=old_text), author)

    async def archive(self, target: Target, scope: Scope, old_text: str, author: Author) -> Outcome:
        """Moves the one entry that `old_text` means into the archive. Raises as `add`."""

        def archived(file: FactFile) -> Edit:
            at = find(file, old_text)
            old = file.entries[at]
            if old in file.archived:
                return _known(file, old, "it is archived already")
            return Edit(
                kind=ARCHIVE,
                line=f"archived from {file.label} {_quote(old)}",
                detail="not in prompts any more; recalled with a message it fits, and found by "
                "search",
                before=(old,),
                after=(old,),
                position=at,
            )

        return await self._change(self.store.name(target, scope), archived, author)

    async def consolidate(
        self, target: Target, scope: Scope, author: Author, expired: Collection[str] = ()
    ) -> Outcome:
        """Joins the entries of which a model says that they repeat or outdate others, and removes
        `expired` ones; no text is reworded.

        Raises: MemoryRefused without a usable answer; the file stays.
        """
        name = self.store.name(target, scope)
        file = self.store.read_named(name)
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
        shown = [(name, text) for text in file.standing if text not in expired]
        answer = await self.door.ask(
            question.INSTRUCTIONS,
            question.build("", [text for _, text in shown]),
            max_output_tokens=question.MAX_OUTPUT_TOKENS,
            timeout_s=TIMEOUT_S,
            patient=True,
        )
        lines = question.read(answer.text or "", len(shown)).lines
        if lines is None:
            why = answer.detail or answer.failure or "its answer says nothing of the entries"
            raise MemoryRefused(
                f"{file.label} was not consolidated and stays as it is: {why}. "
                "Replace or remove single entries instead."
            )
        gone = [text for text in file.standing if text in expired]
        done: list[base.Outcome] = [await self.remove(target, scope, text, author) for text in gone]
        author = replace(author, who="consolidation")
        settled = await relate(self, lines, shown, author, self.emit)
        now = self.store.read_named(name)
        done = [one for one in (*done, *settled) if one.change_id]
        if not done:
            return Outcome(file=now, line=f"{file.label} is as short as it gets")
        held = f"{len(file.standing)} entries → {len(now.standing)}"
        return Outcome(
            file=now,
            line=f"consolidated {file.label} {held}",
            detail="\n".join(one.line for one in done),
            change_id=done[-1].change_id,
            also=tuple(one.change_id for one in done[:-1]),
        )

    # ── what counts ──────────────────────────────────────────────────────────────────────────

    def _wins(self, name: str, author: Author, text: str, plan: Plan) -> bool:
        """Whether a new text may take the place of the entry that a plan names."""
        if plan.how != "changes" or not plan.entry:
            return plan.how != "contradicts"
        entry = Entry(target=name, key=plan.entry, text=plan.entry)
        new_rank = source_rank(author, text, plan.entry)
        return supersedes(new_rank, rank(self.ledger.statement(entry), self.project, text))

    def _removed(self, name: str, entries: Collection[str]) -> tuple[str, ...]:
        """What a model removed from a file and nothing has superseded, newest first."""
        ends = ((one, one.ended) for one in self.ledger.ended())
        by_model = (
            one.text
            for one, end in ends
            if end and (end.kind, end.who) == ("remove", "model") and one.entry.target == name
            if not one.into and one.text not in entries
        )
        return tuple(islice(by_model, MOST_REMOVED))

    async def _near_elsewhere(self, name: str, text: str) -> list[Place]:
        """What is near a text of this file in the others that prompts here show beside it."""
        found: list[Place] = []
        for file in self.store.files(lambda _: None):
            where = self.store.name_of(file)
            if where != name:
                found += [(where, one) for one in await self.judge.near(text, file.standing)]
        return found

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    async def _put(
        self,
        name: str,
        text: str,
        plan: Plan,
        author: Author,
        near: Sequence[Place] = (),
        *,
        wins: bool,
    ) -> Outcome:
        """Adds a text by a plan. If the entry is gone meanwhile, the text is added, which loses
        nothing; `near` could not be compared with it."""

        def put(file: FactFile) -> Edit:
            if text in file.entries:
                is_new = author.source_hash or author.since or author.until
                return _confirmed(file, text) if is_new else _known(file, text)
            beside = [side for side in near if side[0] != name or side[1] in file.entries]
            if plan.entry not in file.entries:
                gone = plan.entry if plan.how == "changes" else ""
                edit = _added(file, text, beside, plan.reason, supersedes=gone)
            elif not wins or plan.how == "contradicts":
                edit = _disputed(file, name, plan.entry, text, plan.reason, wins=wins)
            else:
                edit = _joined(file, plan.entry, text, plan.how, plan.reason)
            return replace(edit, near=tuple((side, (name, edit.after[0])) for side in beside))

        return await self._change(name, put, author)

    async def _change(
        self, name: str, edit_of: Callable[[FactFile], Edit], author: Author
    ) -> Outcome:
        """Makes one edit of the file as it is: the lock syncs what a killed writer left, so that a
        confirmation is durable."""
        places = self.places
        async with locked(places.lock(name)):
            file = self.store.read_named(name)
            edit = edit_of(file)
            if not edit.kind:
                return Outcome(file=file, line=edit.line, detail=edit.detail)
            # What takes the place of archived entries alone is archived too; a text that is new
            # counts as found where it was put.
            gone = {*file.entries} & {*edit.before} - {*edit.after}
            new = {*edit.after} - {*file.entries} if gone and gone <= file.archived else set[str]()
            was_archived = file.archived | new
            archived = was_archived | ({*edit.after} if edit.kind == ARCHIVE else set())
            change = Change.by(
                author,
                SYSTEM,
                edit.kind,
                name,
                before=edit.before,
                after=edit.after,
                position=edit.position,
                reason=edit.reason,
                supersedes=edit.supersedes,
                near=edit.near,
                against=edit.against,
                was_archived=tuple(n for n, one in enumerate(edit.before) if one in was_archived),
                archived=tuple(n for n, one in enumerate(edit.after) if one in archived),
            )
            state = places.read(name)
            after = places.after(state, change)
            places.check(name, state, after)
            with self.history.making(change, after):
                places.put(name, after)
        also = "it is archived, as what it replaces was" if new else ""
        detail = "; ".join(filter(None, (edit.detail, also)))
        file = self.store.read_named(name)
        return Outcome(file=file, line=edit.line, detail=detail, change_id=change.id)


# ── what a change does to a file ─────────────────────────────────────────────────────────────

ARCHIVE = "archive"


def _known(file: FactFile, entry: str, why: str = "it is the same text") -> Edit:
    """Nothing changes: the file has it."""
    return Edit(line=f"already in {file.label}: {_quote(entry)}", detail=why)


def _removed(file: FactFile, *, old: str, why: str = "") -> Edit:
    """The one entry that `old` means goes. Raises: MemoryRefused."""
    at = find(file, old)
    gone = file.entries[at]
    line = f"removed from {file.label} {_quote(gone)}"
    return Edit(kind="remove", line=line, before=(gone,), position=at, reason=why)


def _confirmed(file: FactFile, entry: str) -> Edit:
    """The entry stays, and now rests on what is cited for it."""
    line = f"confirmed in {file.label} {_quote(entry)}"
    at = file.entries.index(entry)
    return Edit(kind="confirm", line=line, before=(entry,), after=(entry,), position=at)


def _added(
    file: FactFile, text: str, near: Sequence[Place], reason: str, *, supersedes: str = ""
) -> Edit:
    """Appends a text, which could not be compared with those `near`; `supersedes` is one that it
    makes outdated although it had been removed before."""
    listed = " and ".join(_quote(one) for _, one in near)
    asked = f"it is similar to {listed}: a model compares them when a session ends"
    return Edit(
        kind="add",
        line=f"added to {file.label} {_quote(text)}",
        detail=asked if near else "",
        after=(text,),
        position=len(file.entries),
        reason=reason,
        supersedes=supersedes,
    )


def _disputed(
    file: FactFile, name: str, entry: str, text: str, reason: str, *, wins: bool = False
) -> Edit:
    """Appends a text beside the entry that it contradicts; the one that counts is the first of the
    pair."""
    pair = ((name, entry), (name, text))
    return replace(
        _added(file, text, (), reason),
        line=f"added to {file.label} {_quote(text)}, which contradicts {_quote(entry)}",
        detail="both stay until the user decides in `kode memory review`"
        if wins
        else "what it contradicts comes from a source that counts for more, so both stay until "
        "the user decides in `kode memory review`",
        against=(pair[::-1] if wins else pair,),
    )


def _joined(file: FactFile, entry: str, text: str, how: How, reason: str) -> Edit:
    """Keeps one of an entry and a text, which may be another entry; the history has both, and an
    undo restores both."""
    stays = kept(how, text, entry)
    merge = f"merged into {file.label} {_quote(stays)}"
    other = _quote(text if stays == entry else entry, 200)
    newer = f"superseded in {file.label} {_quote(entry)} by {_quote(text)}"
    return Edit(
        kind="supersede" if how == "changes" else "merge",
        line=newer if how == "changes" else merge,
        detail="the older stays in the history; undoing it restores both"
        if how == "changes"
        else f"it stands for {other} too; undoing it restores both",
        before=(entry, text),
        after=(stays,),
        position=_place(file, entry, text),
        reason=reason,
    )


def _place(file: FactFile, entry: str, other: str) -> int:
    """The index of an entry among those that stay when it and another go."""
    return [one for one in file.entries if one == entry or one != other].index(entry)


def _quote(text: str, max_chars: int = 80) -> str:
    return f'"{shorten(text, max_chars)}"'
