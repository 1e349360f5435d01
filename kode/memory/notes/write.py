"""Writing notes: remember, update, forget, the soul. Each is scanned, recorded in the history first
and can be undone. What an operation did comes back as an `Outcome` in words.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kode.errors import MemoryRefused
from kode.memory import scan
from kode.memory.base import Addition, Outcome
from kode.memory.change import Author, Change, Who
from kode.memory.notes.note import (
    FIRST_SOUL,
    SOUL_CHARS,
    Kind,
    Note,
    checked,
    entry_of,
    expiry,
    in_words,
    new_id,
    stamp,
)
from kode.memory.notes.store import NoteStore, Wanted

if TYPE_CHECKING:
    from kode.config.model import Notes as Settings


@dataclass(frozen=True, kw_only=True)
class Kept(Outcome):
    note: Note | None = None


@dataclass
class NoteWriter:
    """`author` says on whose behalf the next write is, where nobody is named, and takes the code
    that it rests on."""

    _store: NoteStore
    _author: Callable[[Who | None, str | None], Author]
    _settings: "Settings"
    _check_approval: Callable[[Note], None] = lambda note: None
    """Raises MemoryRefused for a note that somebody else has to approve."""

    async def remember(
        self,
        content: str,
        *,
        kind: Kind = "log",
        ttl_days: int | None = None,
        in_project: bool = False,
        source: str | None = None,
        addition: Addition | None = None,
        who: Who | None = None,
        author: Author | None = None,
        change: str = "remember",
        supersedes: Sequence[Note] = (),
        beside: Note | None = None,
        wins: bool = False,
        **fields: Any,
    ) -> Kept:
        """A new note, which may stand in the place of others; `fields` are its further ones,
        `change` is the history's word for it, `addition` what a person keeps it as. It contradicts
        a note that it stands `beside`, and counts meanwhile if it `wins`. Raises: MemoryRefused,
        StorageError, BusyError."""
        if kind == "soul":
            raise _by_its_own_tool()
        author = author or self._author(who, source)
        author = addition.kept_by(author) if addition else author
        fields.setdefault("scope", self._store.project_scope if in_project else "user")
        expires_at = expiry(self._store.now(), ttl_days)
        new = self._new(content, author, kind=kind, expires_at=expires_at, **fields)
        async with self._store.writing():
            note = replace(new, id=self._store.free_id(self._store.now()))
            known = self._store.same(note)
            if known is not None and not supersedes and author.source_hash:
                return self._confirm(known, author)
            if known is not None and not supersedes:
                return Kept(line=f"known already as {known.id}: {in_words(known)}", note=known)
            current = self._store.by_ids(old.id for old in supersedes)
            before = [old for old in current.values() if old.superseded_by is None]
            after = [*(replace(old, superseded_by=note.id) for old in before), note]
            sides = [entry_of(one).place for one in (beside, note) if one]
            pair = tuple(sides[::-1] if wins else sides)
            reason = f"{kind}: {in_words(note, 100)}"
            written = self._store.commit(
                change, before, after, author, reason, against=(pair,) if beside else ()
            )
        return Kept(
            line=f"remembered {in_words(note)}",
            detail=_detail(f"It is note {note.id} ({note.kind}, {note.lasts}).", note),
            change_id=written.id,
            note=note,
        )

    async def update(self, id: str, content: str, *, tags: tuple[str, ...] | None = None) -> Kept:
        """A new note with all that the old one was but its text. Raises as `remember`."""
        author, now = self._author(None, None), self._store.now()
        async with self._store.writing():
            old = self._active(id)
            if old.kind == "soul":
                raise _by_its_own_tool()
            new = replace(
                old,
                id=self._store.free_id(now),
                content=content,
                tags=old.tags if tags is None else tags,
                created_at=stamp(now),
                who=author.who,
                session=author.session,
                turn=author.turn,
                degraded=False,
            )
            new = checked(new, author.who)
            if (new.content, new.tags) == (old.content, old.tags):
                return Kept(line=f"note {old.id} says so already", note=old)
            after = [replace(old, superseded_by=new.id), new]
            reason = f"{in_words(old)} became {in_words(new)}"
            change = self._store.commit("update", [old], after, author, reason)
        return Kept(
            line=f"updated a note to {in_words(new)}",
            detail=f"It is note {new.id} now, in place of {old.id}.",
            change_id=change.id,
            note=new,
        )

    async def update_soul(self, content: str, *, who: Who | None = None) -> Kept:
        """The one active soul gives way to another, in one transaction. Raises as `remember`."""
        author = self._author(who, None)
        new = self._new(content, author, kind="soul", stability="permanent")
        async with self._store.writing():
            new = replace(new, id=self._store.free_id(self._store.now()))
            before = self._store.get(Wanted(kinds=("soul",)))
            if before and before[0].content == new.content:
                return Kept(line="the soul says so already", note=before[0])
            after = [*(replace(old, superseded_by=new.id) for old in before), new]
            reason = f"soul: {in_words(new, 100)}"
            change = self._store.commit("soul", before, after, author, reason)
        size = f"{len(new.content)} of {SOUL_CHARS} characters"
        return Kept(
            line="updated the soul",
            detail=_detail(f"It has {size} and shows in the next session's prompt.", new),
            change_id=change.id,
            note=new,
        )

    async def confirm(self, id: str, author: Author) -> Kept:
        """A note holds, and rests on what the author cites now. Raises as `remember`."""
        async with self._store.writing():
            return self._confirm(self._active(id), author)

    async def forget(
        self,
        id: str,
        *,
        bring_back: bool | None = None,
        who: Who | None = None,
        author: Author | None = None,
    ) -> Kept:
        """Deletes a note, its words and its vector. What it had replaced goes with it, or with
        `bring_back` (None: as the settings say) is shown again. Raises as `remember`."""
        back = self._settings.forget_brings_back if bring_back is None else bring_back
        async with self._store.writing():
            old = self._active(id)
            if old.kind == "soul":
                raise MemoryRefused(
                    "The soul cannot be forgotten: change it with update_soul. Nothing was changed."
                )
            earlier = self._store.earlier([old.id])
            if back:
                earlier = [note for note in earlier if note.superseded_by == old.id]
            after = [replace(note, superseded_by=None) for note in earlier] if back else []
            reason = f"forgot {in_words(old)}"
            author = author or self._author(who, None)
            change = self._store.commit("forget", [old, *earlier], after, author, reason)
        what = "is back: " if back else "went with it: "
        listed = "; ".join(map(in_words, earlier))
        detail = f"What it had replaced {what}{listed}." if earlier else ""
        return Kept(line=reason, detail=detail, change_id=change.id)

    async def approve(self, id: str) -> Kept:
        """Lets a note from a session with untrusted content be shown. Raises as `remember`."""
        async with self._store.writing():
            old = self._active(id)
            if old.untrusted != "waits":
                return Kept(line=f"note {old.id} does not wait for approval", note=old)
            self._check_approval(old)
            new, reason = replace(old, untrusted="approved"), f"approved {in_words(old)}"
            author = self._author("user", None)
            change = self._store.commit("approve", [old], [new], author, reason)
        return Kept(line=reason, change_id=change.id, note=new)

    async def undo(self, change: Change, batch: str = "") -> Kept:
        """Takes back one change. Raises as `remember`."""
        author = replace(self._author("undo", None), batch=batch)
        async with self._store.writing():
            written = self._store.undo(change, author)
        return Kept(
            line=f"undid {change.kind} {change.id}", detail=change.reason, change_id=written.id
        )

    async def first_soul(self) -> None:
        """One permanent soul where there is none; no change, since it says what is so anyway."""
        if self._store.count("n.kind = 'soul'"):
            return
        soul = self._new(FIRST_SOUL, Author(who="user"), kind="soul", stability="permanent")
        async with self._store.writing():
            if not self._store.count("n.kind = 'soul'"):
                self._store.apply((), [soul])

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    def _new(self, content: str, author: Author, **fields: Any) -> Note:
        """A note of this moment, as it may be stored. Raises: MemoryRefused."""
        now = self._store.now()
        note = Note(
            id=new_id(now),
            content=content,
            user=self._store.user,
            created_at=stamp(now),
            who=author.who,
            session=author.session,
            turn=author.turn,
            **fields,
        )
        return checked(note, author.who, strict_ttl=self._settings.strict_ttl)

    def _confirm(self, note: Note, author: Author) -> Kept:
        reason = f"confirmed {in_words(note)}"
        change = self._store.commit("confirm", [note], [note], author, reason)
        return Kept(line=reason, change_id=change.id, note=note)

    def _active(self, id: str) -> Note:
        note = self._store.find(id)
        if note.superseded_by:
            raise MemoryRefused(
                f"Note {note.id} was replaced by {note.superseded_by}. Use that id. "
                "Nothing was changed."
            )
        return note


def _by_its_own_tool() -> MemoryRefused:
    return MemoryRefused("The soul is changed with update_soul. Nothing was changed.")


def _detail(text: str, note: Note) -> str:
    """With what the scan noticed in a note that a person wrote."""
    noticed = scan.check(note.content, author="user") if note.who == "user" else ""
    return f"{text} {noticed}".rstrip()
