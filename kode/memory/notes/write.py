"""Writing notes: remember, update, forget, the soul. Each is scanned, recorded in the history first
and can be undone. What an operation did comes back as an `Outcome` in words.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kode.errors import MemoryRefused
from kode.memory import scan
from kode.memory.base import Addition, Outcome
from kode.memory.change import Author, Change, Who
from kode.memory.notes.note import (
    SOUL_CHARS,
    Kind,
    Note,
    Sensitivity,
    Stability,
    Untrusted,
    checked,
    expiry,
    in_words,
    new_id,
    stamp,
)
from kode.memory.notes.pack import FIRST_SOUL
from kode.memory.notes.store import NoteStore, Wanted

if TYPE_CHECKING:
    from kode.config.model import Notes as Settings


@dataclass(frozen=True, kw_only=True)
class Kept(Outcome):
    note: Note | None = None


class NoteWriter:
    """`author` says on whose behalf the next write is, where nobody is named, and takes the code
    that it rests on."""

    def __init__(
        self,
        store: NoteStore,
        author: Callable[[Who | None, str | None], Author],
        settings: "Settings",
        check_approval: Callable[[Note], None] = lambda note: None,
    ) -> None:
        self._store = store
        self._check_approval = check_approval
        """Raises MemoryRefused for a note that somebody else has to approve."""
        self._author = author
        self._settings = settings

    async def remember(
        self,
        content: str,
        *,
        kind: Kind = "log",
        tags: tuple[str, ...] = (),
        stability: Stability = "stable",
        ttl_days: int | None = None,
        confidence: float = 1.0,
        evidence: tuple[str, ...] = (),
        sensitivity: Sensitivity = "normal",
        in_project: bool = False,
        job_id: str | None = None,
        untrusted: Untrusted = "",
        source: str | None = None,
        addition: Addition | None = None,
        who: Who | None = None,
        change: str = "remember",
        supersedes: tuple[Note, ...] = (),
    ) -> Kept:
        """A new note, which may stand in the place of others; `change` is the history's word for
        it, `addition` what a person keeps it as. Raises: MemoryRefused, StorageError,
        BusyError."""
        if kind == "soul":
            raise MemoryRefused("The soul is changed with update_soul. Nothing was changed.")
        author = self._author(who, source)
        author = addition.kept_by(author) if addition else author
        now = self._store.now()
        note = Note(
            id=new_id(now),
            content=content,
            kind=kind,
            user=self._store.user,
            scope=self._store.project_scope if in_project else "user",
            tags=tags,
            confidence=confidence,
            stability=stability,
            sensitivity=sensitivity,
            evidence=evidence,
            job_id=job_id,
            created_at=stamp(now),
            expires_at=expiry(now, ttl_days),
            untrusted=untrusted,
            who=author.who,
            session=author.session,
            turn=author.turn,
        )
        note = checked(note, author.who, strict_ttl=self._settings.strict_ttl)
        async with self._store.writing():
            note = replace(note, id=self._store.free_id(now))
            known = self._store.same(note)
            if known is not None and not supersedes and author.source_hash:
                return self._confirm(known, author)
            if known is not None and not supersedes:
                return Kept(line=f"known already as {known.id}: {in_words(known)}", note=known)
            current = self._store.by_ids(old.id for old in supersedes)
            before = [old for old in current.values() if old.superseded_by is None]
            after = [replace(old, superseded_by=note.id) for old in before]
            reason = f"{kind}: {in_words(note, 100)}"
            written = self._store.commit(change, before, [*after, note], author, reason)
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
                raise MemoryRefused("The soul is changed with update_soul. Nothing was changed.")
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
        now = self._store.now()
        new = Note(
            id=new_id(now),
            content=content,
            kind="soul",
            user=self._store.user,
            stability="permanent",
            created_at=stamp(now),
            who=author.who,
            session=author.session,
            turn=author.turn,
        )
        new = checked(new, author.who)
        async with self._store.writing():
            new = replace(new, id=self._store.free_id(now))
            before = self._store.get(Wanted(kinds=("soul",)))
            if before and before[0].content == new.content:
                return Kept(line="the soul says so already", note=before[0])
            after = [*(replace(old, superseded_by=new.id) for old in before), new]
            reason = f"soul: {in_words(new, 100)}"
            change = self._store.commit("soul", before, after, author, reason)
        return Kept(
            line="updated the soul",
            detail=_detail(
                f"It has {len(new.content)} of {SOUL_CHARS} characters and shows in the next "
                "session's prompt.",
                new,
            ),
            change_id=change.id,
            note=new,
        )

    async def confirm(self, id: str, author: Author) -> Kept:
        """A note holds, and rests on what the author cites now. Raises as `remember`."""
        async with self._store.writing():
            return self._confirm(self._active(id), author)

    async def forget(
        self, id: str, *, bring_back: bool | None = None, who: Who | None = None
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
            change = self._store.commit(
                "forget", [old, *earlier], after, self._author(who, None), reason
            )
        what = "is back: " if back else "went with it: "
        listed = "; ".join(map(in_words, earlier))
        detail = f"What it had replaced {what}{listed}." if earlier else ""
        return Kept(line=f"forgot {in_words(old)}", detail=detail, change_id=change.id)

    async def approve(self, id: str) -> Kept:
        """Lets a note from a session with untrusted content be shown. Raises as `remember`."""
        async with self._store.writing():
            old = self._active(id)
            if old.untrusted != "waits":
                return Kept(line=f"note {old.id} does not wait for approval", note=old)
            self._check_approval(old)
            new = replace(old, untrusted="approved")
            reason = f"approved {in_words(old)}"
            author = self._author("user", None)
            change = self._store.commit("approve", [old], [new], author, reason)
        return Kept(line=f"approved {in_words(old)}", change_id=change.id, note=new)

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
        now = self._store.now()
        soul = Note(
            id=new_id(now),
            content=FIRST_SOUL,
            kind="soul",
            user=self._store.user,
            stability="permanent",
            created_at=stamp(now),
            who="user",
        )
        async with self._store.writing():
            if not self._store.count("n.kind = 'soul'"):
                self._store.apply((), [replace(soul, id=self._store.free_id(now))])

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


def _detail(text: str, note: Note) -> str:
    """With what the scan noticed in a note that a person wrote."""
    noticed = scan.check(note.content, author="user") if note.who == "user" else ""
    return f"{text} {noticed}".rstrip()
