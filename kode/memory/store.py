"""What a person or a model can do to statements: add, edit, forget, decide, undo.

Each operation is one change of the log, and says in an outcome what it did.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Literal

from kode.credentials import redact
from kode.errors import MemoryRefused
from kode.memory import source
from kode.memory.files import NO_DRAFTS, Changes, FileStore, hold_folder
from kode.memory.fold import DAMAGE, LAYOUT, RESTORE, MemoryView, require_single
from kode.memory.log import ERASED
from kode.memory.rendering import diff, strip_bullet
from kode.memory.statement import (
    NO_RELATIONS,
    Amendment,
    Author,
    MemoryChange,
    Outcome,
    Rank,
    Relations,
    Statement,
    Who,
)
from kode.messages import shorten
from kode.values import replace

Choice = Literal["approve", "drop", "first", "second", "both", "confirm", "remove"]
QUOTED_CHARS = 80  # enough to recognize the entry
_PASSED_OVER = (DAMAGE, RESTORE, LAYOUT, "undo")
"""The kinds of changes that an undo without an id skips."""


def quote(statement: Statement, max_chars: int = QUOTED_CHARS) -> str:
    """Returns a statement quoted for a sentence: on one line, credentials masked, shortened."""
    return f'"{shorten(redact(strip_bullet(statement.text)), max_chars)}"'


class MemoryStore(FileStore):
    """The statements of one memory folder."""

    def statements(self) -> list[Statement]:
        """The current facts of this project, in the order of a prompt."""
        view = self.view()
        return [new for place in self.fact_places() for new in view.current(place)]

    def find(self, words: str, target: str = "", *, scope: str = "") -> Statement:
        """Returns the statement of this project that an id or a part of a text identifies; `target`
        and `scope` limit the places. Raises: MemoryRefused for none or several."""
        places = [place for place in self.view().places if self.is_here(place)]
        if target:
            places = [place for place in places if target in (place, self.layout.label(place))]
            if scope or not places:
                places = [self.layout.place_of(target, scope, self.project)]
        return require_single(self.view().find(words, places), words, target).statement

    async def add(
        self, *new: Statement, relations: Relations = NO_RELATIONS, kind: str = "add"
    ) -> Outcome:
        """Adds statements of one author to one place in one change; `relations` says how they
        relate to current ones. A text that the place already has is confirmed if the new statement
        says more. Raises: MemoryRefused if there are none; StorageError, BusyError."""
        if not new:
            raise MemoryRefused("There is nothing new in it. Nothing was changed.")
        stays = first = new[0]
        where = self.layout.label(first.place)

        def make(view: MemoryView) -> MemoryChange | None:
            nonlocal stays
            alive = view.find_waiting() if first.state == "waiting" else view.in_place(first.place)
            present = {old.text: old for old in alive if old.place == first.place}
            fresh = [add for add in new if self._adds_to(add, present.get(add.text))]
            repeated = tuple((old.id, add.id) for add in fresh if (old := present.get(add.text)))
            every = replace(relations, same=(*relations.same, *repeated))
            author = Author(first.who, first.session, first.turn)
            draft = self.draft(kind if len(repeated) < len(fresh) else "confirm", author)
            change = self.settle(view, fresh, every, draft)
            heir = self.plan(view, fresh, every).ends.get(first.id, "")
            stays = present.get(first.text, first)
            if entry := view.entry(heir):
                stays = entry.statement
            return change if change.add or change.end or change.conflicts else None

        outcome = await self._commit(make)
        if outcome.change and outcome.change.add:
            return outcome
        words = "" if stays.text == first.text else ", in other words"
        return replace(outcome, text=f"already in {where}{words}: {quote(stays)}", statement=stays)

    async def edit(self, id: str, text: str, author: Author) -> Outcome:
        """Replaces a statement by one with another text. If it ranks higher than the author, it
        stays beside the new one, in conflict."""
        old = self._alive(self.view(), id)
        new = self.new_version(old, text, author)
        relations = Relations(outdated=((old.id, new.id),))
        return await self.add(new, relations=relations, kind="replace")

    def new_version(self, old: Statement, text: str, author: Author) -> Statement:
        """Makes a statement that can replace another one, with its fields and in its form: a list
        item for a list item."""
        bullet = old.text.removesuffix(strip_bullet(old.text))
        if bullet and strip_bullet(text) == text and "\n" not in text.strip():
            text = f"{bullet}{text.strip()}"
        names = ("kind", "project", "private", "details", "state", "since", "until")
        values = {name: getattr(old, name) for name in names}
        return self.new_statement(author, old.place, text, **values)

    async def forget(self, id: str, author: Author, *, erase: bool = False) -> Outcome:
        """Withdraws a statement. With `erase`, its text and those that it replaced are blanked in
        the log and in the session notes that quote them, which cannot be undone."""
        view = self.view()
        erased = [entry.statement for entry in view.chain(self._alive(view, id).id) if erase]
        words = "|".join(re.escape(strip_bullet(old.text)) for old in erased)
        blanked = {
            note.id: replace(note, id=f"{note.id}e", text=text)
            for note in view.statements()
            if words and note.kind in ("episode", "summary")
            if (text := re.sub(rf"(?<!\w)({words})(?!\w)", ERASED, note.text)) != note.text
        }

        def make(view: MemoryView) -> list[MemoryChange]:
            forget = replace(self.draft("forget", author), end=(self._alive(view, id).id,))
            new, old = tuple(blanked.values()), tuple(blanked)
            blank = replace(self.draft("erase", author), add=new, end=old)
            return [blank, forget] if blanked else [forget]

        outcome = await self._commit(make)
        if erase:
            async with hold_folder(self.root):
                self.log.erase({*blanked, *(old.id for old in erased)})
        return outcome

    async def amend(self, id: str, amendment: Amendment, author: Author, kind: str) -> Outcome:
        """Amends a statement; `kind` is the word for the change: archive, confirm."""
        return await self._commit(
            lambda view: replace(
                self.draft(kind, author), set={self._alive(view, id).id: amendment}
            )
        )

    async def write_file(
        self, place: str, text: str, author: Author, *, may_end: Rank = Rank.MODEL
    ) -> Outcome:
        """Replaces the text of a place's file; statements that it leaves out end, unless they rank
        higher than `may_end`. Raises: MemoryRefused, StorageError, BusyError."""
        format = self.layout.format_of(place)
        if format is None:
            raise MemoryRefused(f"{place} is no file. Nothing was changed.")

        def make(view: MemoryView) -> MemoryChange | None:
            edit = diff(format, view.current(place), text)
            change = self.apply_edit(edit, place, self.draft("write", author), author, may_end)
            return change if edit.new or edit.gone or change.conflicts else None

        outcome = await self._commit(make, {self.layout.files_of(place, None)[0]: text})
        change = outcome.change
        new, ended = (len(change.add), len(change.end)) if change else (0, 0)
        summary = f"wrote {self.layout.label(place)}: {new} new, {ended} withdrawn"
        if stay := diff(format, self.view().current(place), text).gone:
            summary += f"; what the user said stays: {', '.join(map(quote, stay))}"
        return replace(outcome, text=summary, statement=None)

    async def decide(self, id: str, choice: Choice, who: Who = "user") -> Outcome:
        """Carries out a choice: on what waits (`approve`, `drop`), on a pair in conflict, as ids
        joined by `+` (`first`, `second`, `both`), on what may be stale (`confirm`, `remove`)."""

        def make(view: MemoryView) -> MemoryChange:
            first, *others = (self._alive(view, part) for part in id.split("+"))
            draft, last = self.draft(choice, Author(who)), others[-1] if others else first
            match choice:
                case "approve":
                    return self._approve(first, view, draft)
                case "both":
                    return replace(draft, distinct=((first.id, last.id),))
                case "confirm":
                    return replace(draft, set={first.id: self._confirm(first)})
                case "drop" | "remove":
                    return replace(draft, end=(first.id,))
            stays, ended = (first, last) if choice == "first" else (last, first)
            return replace(draft, set={stays.id: Amendment(who="user")}, end=(ended.id,))

        return await self._commit(make)

    async def undo(self, id: str = "", *, group: str = "", with_derived: bool = False) -> Outcome:
        """Undoes a change, by default the last one here, or all of a `group` (batch or session);
        `with_derived`, also those resting on it. Raises: MemoryRefused, StorageError, BusyError."""
        newest_first = reversed(self.view().changes)
        if group:
            meant = [
                change
                for change in newest_first
                if change.batch == group or (change.session == group and not change.undoes)
            ]
        elif id:
            meant = [change for change in self.log.changes() if change.id.startswith(id)]
        else:
            meant = [*islice(filter(self._is_of_project, newest_first), 1)]
        if not meant or (id and not group and meant[1:]):
            summary = f"{len(meant)} changes begin with" if meant else "There is nothing to undo of"
            raise MemoryRefused(
                f"{summary} {group or id or 'this project'}. `kode memory log` lists the ids."
            )
        first = meant[-1].id

        def make(view: MemoryView) -> Sequence[MemoryChange]:
            rest = self._find_dependent_changes(view, meant)
            if rest and not with_derived:
                raise MemoryRefused(
                    f"Later changes rest on {first}: {', '.join(old.id for old in rest)}. Nothing "
                    "was changed. Undo these first, or all together with `--with-derived`."
                )
            changes = [*meant, *rest]
            for change in changes:
                if change not in view.changes:
                    raise MemoryRefused(
                        f"{change.id} is undone already. To make it again, undo that undo: "
                        "`kode memory log` lists its id."
                    )
                ended = filter(None, map(view.entry, change.end))
                if any(ERASED in entry.statement.text for entry in ended):
                    raise MemoryRefused(
                        f"{change.id} removed a text that was erased: it cannot be brought back."
                    )
            author, batch = Author("user"), first if changes[1:] else ""
            changes.sort(key=view.changes.index, reverse=True)
            return [replace(self.draft("undo", author, batch), undoes=old.id) for old in changes]

        return await self._commit(make)

    def _adds_to(self, new: Statement, old: Statement | None) -> bool:
        """Whether a statement says more than another with the same text."""
        if old is None or old.state != new.state:
            return True
        names = ("since", "until", "source_hash", "private")
        has_more = any(getattr(new, name) not in ("", False, getattr(old, name)) for name in names)
        return has_more or self.rank(new) > self.rank(old)

    def _approve(self, new: Statement, view: MemoryView, draft: MemoryChange) -> MemoryChange:
        if self.layout.is_shared(new.place) and new.who in ("model", "session"):
            raise MemoryRefused(
                f"{quote(new)} came from outside in your own session, and the team "
                "would get it: a colleague approves it. Nothing was changed."
            )
        same = [old.id for old in view.in_place(new.place) if old.text == new.text]
        ended = sorted({old.id for old in view.alive((*new.replaces, *same))})
        approved = {new.id: Amendment(state="current", who="user")}
        return replace(draft, set=approved, end=tuple(ended))

    def _confirm(self, statement: Statement) -> Amendment:
        if not statement.source_hash:
            return Amendment(until="")
        try:
            _, source_hash = source.cite(self.project.root, statement.source)
        except MemoryRefused:  # the lines are gone: from now on it is the person's own word
            return Amendment(until="", source_hash="", who="user")
        return Amendment(until="", source_hash=source_hash)

    def _alive(self, view: MemoryView, id: str) -> Statement:
        entry = view.entry(id)
        return require_single([entry] if entry and entry.is_alive else [], id).statement

    def _is_of_project(self, change: MemoryChange) -> bool:
        """Whether this system made a change of statements of this project, other than an undo."""
        if change.kind in _PASSED_OVER or change.origin or change.system != self.system:
            return False
        ids = (*(new.id for new in change.add), *change.end, *change.set)
        entries = filter(None, map(self.view().entry, ids))
        return any(self.is_here(entry.statement.place) for entry in entries)

    def _find_dependent_changes(
        self, view: MemoryView, meant: Sequence[MemoryChange]
    ) -> list[MemoryChange]:
        """The other changes in effect that replace, withdraw or amend what these added or brought
        back, directly or not, oldest first."""
        touched, rest = set[str](), list[MemoryChange]()
        for change in view.changes:
            replaced = (id for new in change.add for id in new.replaces)
            if change not in meant:
                if touched.isdisjoint((*change.end, *change.set, *replaced)):
                    continue
                rest.append(change)
            undone = self.log.change(change.undoes) if change.undoes else None
            touched |= {new.id for new in change.add} | {*(undone.end if undone else ())}
        return rest

    async def _commit(
        self, make: Callable[[MemoryView], Changes], drafts: Mapping[str, str] = NO_DRAFTS
    ) -> Outcome:
        """Commits what `make` returns; the outcome describes the last change."""
        changes = await self.commit(make, drafts)
        return self.describe(changes[-1]) if changes else Outcome(text="nothing was changed")

    def describe(self, change: MemoryChange) -> Outcome:
        """Describes what a committed change did, for whoever asked."""
        view, undone = self.view(), self.log.change(change.undoes)
        gone = {new.id: new for new in undone.add} if undone else {}

        def find(id: str) -> Statement | None:
            entry = view.entry(id)
            return entry.statement if entry else gone.get(id)

        def quote_all(words: str, ids: Iterable[str]) -> str:
            items = map(find, ids)
            texts = ", ".join(quote(old) for old in items if old)  # a damaged log lost the others
            return f"{words} {texts}" if texts else ""

        if undone:
            removed = quote_all("removed", (id for id in gone if id not in undone.end))
            restored = quote_all("restored", (id for id in undone.end if id not in gone))
            parts = [f"undid {undone.kind} {undone.id}", removed, restored]
            return Outcome(text=": ".join(filter(None, parts)), change=change)
        new = [add.id for add in change.add if add.id not in change.end]
        older = [id for id in change.end if all(add.id != id for add in change.add)]
        pairs = (*change.distinct, *change.conflicts)
        ids = [*new, *change.set, *older, *chain.from_iterable(pairs)]
        statement = find(ids[0]) if ids else None
        where = self.layout.label(statement.place) if statement else ""
        verb, ended = f"added to {where}", older
        if change.kind == "confirm":
            verb, ended = f"confirmed in {where}", []
        if statement and statement.state == "waiting":
            verb = "waits for the user's approval (`kode memory review`)"
        parts = [quote_all(f"{verb}:", new)]
        parts.append(quote_all("kept", change.set if change.end else ()))
        parts.append(quote_all(f"removed from {where}:", ended))
        for pair in change.conflicts:
            counts, other = map(quote, view.alive(pair))
            rule = "counts until the user decides (`kode memory review`)"
            parts.append(f"{counts} contradicts {other} and {rule}")
        text = "; ".join(filter(None, parts)) or quote_all(f"{change.kind} in {where}:", ids[:1])
        rivals = {other: find(counts) for counts, other in change.conflicts}
        conflict = rivals.get(ids[0]) if ids else None
        return Outcome(text=text, change=change, statement=statement, conflict=conflict)
