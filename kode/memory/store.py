"""What a person or a model can do to statements: add, edit, forget, decide, undo.

Each operation is one change of the log, and says in an outcome what it did.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from kode.credentials import redact
from kode.errors import MemoryRefused
from kode.memory import source
from kode.memory.files import FileStore, Made, locked
from kode.memory.fold import DAMAGE, LAYOUT, RESTORE, View, the_only
from kode.memory.log import ERASED
from kode.memory.markdown import display
from kode.memory.relations import NO_RELATIONS, Plan, Relations, plan
from kode.memory.rendering import diff
from kode.memory.statement import (
    Amendment,
    Author,
    Change,
    CodeState,
    Outcome,
    Rank,
    Statement,
    Who,
    rank,
)
from kode.messages import shorten

Choice = Literal["approve", "drop", "first", "second", "both", "confirm", "remove"]
QUOTED_CHARS = 80  # enough to know the entry by
_PASSED_OVER = (DAMAGE, RESTORE, LAYOUT, "undo")
"""The kinds of changes that an undo without an id does not mean."""


def quoted(statement: Statement, max_chars: int = QUOTED_CHARS) -> str:
    """A statement in a sentence: on one line, credentials masked, shortened."""
    return f'"{shorten(redact(display(statement.text)), max_chars)}"'


class Store(FileStore):
    """The statements of one memory folder."""

    # ── questions ────────────────────────────────────────────────────────────────────────────

    def statements(self) -> list[Statement]:
        """The current facts of this project, in the order of a prompt."""
        view = self.view()
        return [new for place in self.fact_places() for new in view.current(place)]

    def code_state(self, statement: Statement) -> CodeState | None:
        """The state of the lines that a statement cites; None if it cites none of this project."""
        if not statement.source_hash:
            return None
        return source.state(self.project.root, statement.source, statement.source_hash)

    def rank(self, statement: Statement) -> Rank:
        """How much a statement counts, with its cited code as it is now."""
        return rank(statement, self.code_state(statement))

    def find(self, words: str, target: str = "", *, scope: str = "") -> Statement:
        """The statement of this project that an id or a part of a text means; `target` and `scope`
        name the places to look in. Raises: MemoryRefused for none or several."""
        places = [place for place in self.view().places if self.is_here(place)]
        if target:
            named = [place for place in places if target in (place, self.layout.label(place))]
            if scope or not named:
                named = [self.layout.place_of(target, scope, self.project)]
            places = named
        return the_only(self.view().find(words, places), words, target).statement

    def find_change(self, id: str) -> Change:
        """The change whose id begins so. Raises: MemoryRefused for none or several."""
        changes = [change for change in self.log.changes() if change.id.startswith(id)]
        if len(changes) == 1:
            return changes[0]
        summary = f"{len(changes)} changes begin with" if changes else "There is no change"
        raise MemoryRefused(f"{summary} {id}. `kode memory log` lists the changes with their ids.")

    # ── operations ───────────────────────────────────────────────────────────────────────────

    async def add(
        self, new: Statement, relations: Relations = NO_RELATIONS, *, kind: str = "add"
    ) -> Outcome:
        """Adds a statement; `relations` says how it relates to current ones. The same text in the
        same place is confirmed, where that adds to what is known of it."""
        where, author = self.layout.label(new.place), Author(new.who, new.session, new.turn)

        def make(view: View) -> tuple[Change | None, Outcome]:
            draft = self.draft(kind, author)
            alive = view.waiting() if new.state == "waiting" else view.in_place(new.place)
            same = next(
                (old for old in alive if (old.place, old.text) == (new.place, new.text)), None
            )
            if same and not self._adds_to(new, same):
                return None, Outcome(text=f"already in {where}: {quoted(new)}", statement=same)
            if same:
                confirmed = replace(new, replaces=(same.id,))
                change = replace(draft, kind="confirm", add=(confirmed,), end=(same.id,))
                outcome = Outcome(text=f"confirmed in {where}: {quoted(new)}", statement=confirmed)
                return change, outcome
            change = self.settle(view, [new], relations, draft)
            if not change.add:
                heir = self._plan(view, [new], relations).ends[new.id]
                stays = view.entries[heir].statement
                summary = f"already in {where}, in other words: {quoted(stays)}"
                has_effect = change.end or change.conflicts
                return change if has_effect else None, Outcome(text=summary, statement=stays)
            return change, self._added(change, view)

        return await self._commit(make)

    async def add_all(self, new: Sequence[Statement]) -> Outcome:
        """Adds statements of one author to one place in one change, but for texts that stand there
        already. Raises: MemoryRefused if none is new; StorageError, BusyError."""
        if not new:
            raise MemoryRefused("There is nothing new in it. Nothing was changed.")
        first, where = new[0], self.layout.label(new[0].place)

        def make(view: View) -> tuple[Change | None, Outcome]:
            alive = (*view.in_place(first.place), *view.waiting())
            known = {(old.place, old.text) for old in alive}
            added = tuple(add for add in new if (add.place, add.text) not in known)
            if not added:
                return None, Outcome(text=f"already in {where}: {quoted(first)}", statement=first)
            draft = self.draft("add", Author(first.who, first.session, first.turn))
            change = replace(draft, add=added)
            return change, self._added(change, view)

        return await self._commit(make)

    async def edit(self, id: str, text: str, author: Author, *, kind: str = "replace") -> Outcome:
        """Puts another text in the place of a statement. One that ranks higher than the author
        stays beside it, in conflict."""
        old = self._alive(self.view(), id)
        new = self.new_version(old, text, author)
        return await self.add(new, Relations(outdated=((old.id, new.id),)), kind=kind)

    def new_version(self, old: Statement, text: str, author: Author) -> Statement:
        """A statement that could take the place of another one, in the form of its place: a list
        item for a list item."""
        bullet = old.text.removesuffix(display(old.text))
        if bullet and display(text) == text and "\n" not in text.strip():
            text = f"{bullet}{text.strip()}"
        names = ("kind", "project", "private", "details", "state", "since", "until")
        values = {name: getattr(old, name) for name in names}
        return self.new_statement(author, old.place, text, **values)

    async def forget(self, id: str, author: Author, *, erase: bool = False) -> Outcome:
        """Withdraws a statement. With `erase` its text, and that of what it replaced, is blanked in
        the log, so that it cannot be undone."""

        def make(view: View) -> tuple[Change, Outcome]:
            statement = self._alive(view, id)
            draft = self.draft("forget", author)
            where = self.layout.label(statement.place)
            outcome = Outcome(
                text=f"removed from {where}: {quoted(statement)}",
                statement=statement,
                ended=(statement,),
            )
            return replace(draft, end=(statement.id,), redacted=erase), outcome

        outcome = await self._commit(make)
        if erase and outcome.statement:
            async with locked(self.root):
                chain = self.view().chain(outcome.statement.id)
                self.log.erase({entry.statement.id for entry in chain})
        return outcome

    async def amend(self, id: str, amendment: Amendment, author: Author, kind: str) -> Outcome:
        """Changes what is known of a statement; `kind` is the word for it: archive, confirm."""

        def make(view: View) -> tuple[Change, Outcome]:
            statement = self._alive(view, id)
            change = replace(self.draft(kind, author), set={statement.id: amendment})
            summary = f"{kind}: {quoted(statement)} in {self.layout.label(statement.place)}"
            return change, Outcome(text=summary, statement=statement)

        return await self._commit(make)

    async def write_file(
        self, place: str, text: str, author: Author, *, may_end: Rank = Rank.MODEL
    ) -> Outcome:
        """Makes `text` the text of the file of a place. A statement that it leaves out ends, unless
        it ranks higher than `may_end`: then it stays. Raises: MemoryRefused, StorageError,
        BusyError."""
        format = self.layout.format_of(place)
        if format is None:
            raise MemoryRefused(f"{place} is no file. Nothing was changed.")
        label, name = self.layout.label(place), self.layout.files_of(place, None)[0]

        def make(view: View) -> tuple[Change | None, Outcome]:
            draft, old = self.draft("write", author), view.current(place)
            edit = diff(format, old, text)
            new = [self.new_statement(author, place, text) for text in edit.new]
            versions = {
                edit.versions[statement.text].id: statement.id
                for statement in new
                if statement.text in edit.versions
            }
            relations = Relations(outdated=tuple(versions.items()))
            change = self.settle(view, new, relations, draft)
            dropped = [old for old in edit.gone if old.id not in versions]
            weak = tuple(old.id for old in dropped if self.rank(old) <= may_end)
            change = replace(change, end=(*change.end, *weak))
            ended = tuple(view.entries[id].statement for id in change.end)
            stay = [old for old in edit.gone if old.id not in change.end]
            summary = f"wrote {label}: {len(change.add)} new, {len(ended)} withdrawn"
            if stay:
                summary += f"; what the user said stays: {', '.join(map(quoted, stay))}"
            is_empty = not (change.add or change.end or change.conflicts)
            return None if is_empty and not edit else change, Outcome(text=summary, ended=ended)

        return await self._commit(make, {name: text})

    async def decide(self, id: str, choice: Choice, who: Who = "user") -> Outcome:
        """Carries out what a person decided: on what waits (`approve`, `drop`), on two statements
        in conflict, whose ids are joined by `+` (`first`, `second`, `both`), or on one that may not
        hold any more (`confirm`, `remove`)."""

        def make(view: View) -> tuple[Change, Outcome]:
            ids = [self._alive(view, part).id for part in id.split("+")]
            first, last = (view.entries[part].statement for part in (ids[0], ids[-1]))
            draft = self.draft(choice, Author(who))
            outcome = Outcome(text=f"{choice}: {quoted(first)}", statement=first)
            if choice == "approve":
                if self.layout.is_shared(first.place) and first.who in ("model", "session"):
                    raise MemoryRefused(
                        f"{quoted(first)} came from outside in your own session, and the team "
                        "would get it: a colleague approves it. Nothing was changed."
                    )
                same = [old.id for old in view.in_place(first.place) if old.text == first.text]
                old = {id for id in (*first.replaces, *same) if view.entries[id].is_alive}
                approved = {first.id: Amendment(state="current", who="user")}
                return replace(draft, set=approved, end=tuple(sorted(old))), outcome
            if choice in ("drop", "remove"):
                return replace(draft, end=(first.id,)), replace(outcome, ended=(first,))
            if choice == "both":
                return replace(draft, distinct=((first.id, last.id),)), outcome
            if choice == "confirm":
                return replace(draft, set={first.id: self._confirmed(first)}), outcome
            stays, ended = (first, last) if choice == "first" else (last, first)
            summary = f"kept {quoted(stays)}, removed {quoted(ended)}"
            change = replace(draft, set={stays.id: Amendment(who="user")}, end=(ended.id,))
            return change, Outcome(text=summary, statement=stays, ended=(ended,))

        return await self._commit(make)

    async def undo(self, id: str = "", *, with_derived: bool = False) -> Outcome:
        """Undoes a change, by default the last one here; also an undo. `with_derived` first undoes
        the later changes that rest on it, newest first."""

        def make(view: View) -> tuple[Sequence[Change], Outcome]:
            change = self.find_change(id) if id else self._last_change(view)
            return self._undoing(view, [change], with_derived=with_derived)

        return await self._commit(make)

    async def undo_all(self, group: str, *, with_derived: bool = False) -> Outcome:
        """Undoes all changes of a batch, such as an import, or of a session, newest first."""

        def make(view: View) -> tuple[Sequence[Change], Outcome]:
            changes = [
                change
                for change in reversed(view.changes)
                if change.batch == group or (change.session == group and not change.undoes)
            ]
            if not changes:
                raise MemoryRefused(f"There is nothing left to undo of {group}.")
            return self._undoing(view, changes, with_derived=with_derived)

        return await self._commit(make)

    # ── what follows ─────────────────────────────────────────────────────────────────────────

    def settle(
        self, view: View, new: Sequence[Statement], relations: Relations, draft: Change
    ) -> Change:
        """The change that adds statements as far as their relations let them remain, and ends the
        current ones that they outdate. `draft` has the change's other values."""
        result = self._plan(view, new, relations)
        ended_by = defaultdict[str, list[str]](list)
        for id, heir in result.ends.items():
            ended_by[heir].append(id)
        return replace(
            draft,
            add=tuple(
                replace(statement, replaces=(*statement.replaces, *ended_by[statement.id]))
                for statement in new
                if statement.id not in result.ends
            ),
            end=(*draft.end, *(id for id in result.ends if id in view.entries)),
            conflicts=(*draft.conflicts, *result.conflicts),
        )

    def _plan(self, view: View, new: Sequence[Statement], relations: Relations) -> Plan:
        entries = (entry for id in relations.ids() if (entry := view.entries.get(id)))
        alive = [entry.statement for entry in entries if entry.is_alive]
        statements = [*(old for old in alive if old.state != "waiting"), *new]
        times = {statement.id: statement.claimed_at for statement in statements}
        return plan(relations, times, {new.id: self.rank(new) for new in statements})

    def _added(self, change: Change, view: View) -> Outcome:
        """What a change that adds statements did, for whom asked."""
        new, where = change.add[0], self.layout.label(change.add[0].place)
        ended = tuple(view.entries[id].statement for id in change.end)
        texts = ", ".join(map(quoted, change.add))
        summary = f"added to {where}: {texts}"
        if new.state == "waiting":
            summary = f"waits for the user's approval (`kode memory review`): {texts}"
        elif ended:
            summary = f"replaced in {where}: {', '.join(map(quoted, ended))} by {texts}"
        conflict = None
        for first, second in change.conflicts:
            counts = view.entries[first].statement if first in view.entries else new
            other = view.entries[second].statement if second in view.entries else new
            summary += (
                f"; {quoted(counts)} contradicts {quoted(other)} and counts until the user decides "
                "(`kode memory review`)"
            )
            conflict = counts if second == new.id else conflict
        return Outcome(text=summary, statement=new, ended=ended, conflict=conflict)

    def _adds_to(self, new: Statement, old: Statement) -> bool:
        """Whether a statement says more than another with the same text."""
        has_more = any(
            getattr(new, name) and getattr(new, name) != getattr(old, name)
            for name in ("since", "until", "source_hash", "private")
        )
        return has_more or old.state != new.state or self.rank(new) > self.rank(old)

    def _confirmed(self, statement: Statement) -> Amendment:
        if not statement.source_hash:
            return Amendment(until="")
        try:
            _, source_hash = source.cite(self.project.root, statement.source)
        except MemoryRefused:  # the lines are gone: from now on it is the person's own word
            return Amendment(until="", source_hash="", who="user")
        return Amendment(until="", source_hash=source_hash)

    def _alive(self, view: View, id: str) -> Statement:
        entry = view.entry(id)
        return the_only([entry] if entry and entry.is_alive else [], id).statement

    def _concerns(self, change: Change, view: View) -> bool:
        """Whether a change is of this system and project."""
        ids = (*(new.id for new in change.add), *change.end, *change.set)
        places = [view.entries[id].statement.place for id in ids if id in view.entries]
        return change.system == self.system and any(map(self.is_here, places))

    def _last_change(self, view: View) -> Change:
        for change in reversed(view.changes):
            is_meant = change.kind not in _PASSED_OVER and not change.origin
            if is_meant and self._concerns(change, view):
                return change
        raise MemoryRefused("There is nothing to undo: memory has no change in this project.")

    def _followers(self, view: View, meant: Sequence[Change]) -> list[Change]:
        """The other changes that rest on these, directly or not, oldest first."""
        rest, left = list[Change](), list(meant)
        while left:
            change = left.pop()
            undone = self.log.change(change.undoes) if change.undoes else None
            more = view.followers(change, undone.end if undone else ())
            left += (more := [other for other in more if other not in (*meant, *rest)])
            rest += more
        return sorted(rest, key=view.changes.index)

    def _undoing(
        self, view: View, meant: Sequence[Change], *, with_derived: bool
    ) -> tuple[Sequence[Change], Outcome]:
        changes, rest = list(meant), self._followers(view, meant)
        if rest and not with_derived:
            raise MemoryRefused(
                f"Later changes rest on {meant[-1].id}: {', '.join(other.id for other in rest)}. "
                "Nothing was changed. Undo these first, or all together with `--with-derived`."
            )
        if rest:
            changes = sorted([*meant, *rest], key=view.changes.index, reverse=True)
        for change in changes:
            if change not in view.changes:
                later = reversed(self.log.changes())
                undoing = next(other.id for other in later if other.undoes == change.id)
                raise MemoryRefused(
                    f"{change.id} is undone already. `kode memory undo {undoing}` makes it again."
                )
            if any(ERASED in view.entries[id].statement.text for id in change.end):
                raise MemoryRefused(
                    f"{change.id} removed a text that was erased: it cannot be brought back."
                )
        first = meant[-1]
        added, ended = {new.id: new for new in first.add}, dict.fromkeys(first.end)
        texts = [f"removed {quoted(new)}" for id, new in added.items() if id not in ended]
        back = (view.entries[id].statement for id in ended if id not in added)
        texts += [f"restored {quoted(statement)}" for statement in back]
        summary = f"undid {first.kind} {first.id}{': ' if texts else ''}{', '.join(texts)}"
        batch = first.id if changes[1:] else ""
        drafts = [(self.draft("undo", Author("user"), batch), change.id) for change in changes]
        return [replace(draft, undoes=id) for draft, id in drafts], Outcome(text=summary)

    async def _commit(
        self,
        make: Callable[[View], tuple[Made, Outcome]],
        drafts: Mapping[str, str] | None = None,
    ) -> Outcome:
        """Commits what `make` gives, and returns its outcome with the change as it was written."""
        outcome = Outcome(text="")

        def made(view: View) -> Made:
            nonlocal outcome
            changes, outcome = make(view)
            return changes

        written = await self.commit(made, drafts or {})
        return replace(outcome, change=written[-1]) if written else outcome
