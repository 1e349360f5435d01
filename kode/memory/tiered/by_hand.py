"""Operations of the memory tool and of a person on facts: add, replace, remove, settle, confirm."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kode.memory import replacing, scan, stale
from kode.memory.base import Addition, BaseMemory, Verb
from kode.memory.change import Author
from kode.memory.ledger import is_restated
from kode.memory.stored import version_of
from kode.memory.tiered.episode_index import EpisodeIndex
from kode.memory.tiered.facts import (
    DISPUTED,
    UNJUDGED,
    Action,
    FactFile,
    FactStore,
    Scope,
    Target,
    find,
    shorten,
)
from kode.memory.tiered.write import SYSTEM, FactWriter, Outcome
from kode.registry import system_row


class FactMemory(BaseMemory):
    """The facts of an open memory; opening it sets the attributes."""

    system = SYSTEM
    writer: FactWriter
    _store: FactStore
    _index: EpisodeIndex

    @property
    def unread(self) -> int:
        """How many session notes the last search did not look at."""
        return self._index.unread

    def author(
        self, source: str | None = None, since: str | None = None, until: str | None = None
    ) -> Author:
        """The model in this turn, citing code or holding for a time. Raises: MemoryRefused."""
        return self._author("model", source=source, since=since, until=until)

    def layers(self, *, notice: bool = False) -> list[FactFile]:
        """The fact files that apply here, global before project, with doubts about entries outside
        the archive; an unreadable one is skipped and reported with `notice`."""
        read = self.files(notice=notice)
        return self.marked(read, {entry for file in read for entry in file.standing})

    def files(self, *, notice: bool = False) -> list[FactFile]:
        """The same without doubts."""
        return self._store.files(self._notice if notice else lambda _: None)

    def marked(self, read: Sequence[FactFile], entries: Collection[str]) -> list[FactFile]:
        """The files with doubts about these entries; does not read the code of others."""
        standing = self.ledger.standing()
        today = self._context.now().date()
        found = stale.doubts(self.ledger, self.project, today, entries)
        pairs = self.writer.pairs()
        marks = {place: UNJUDGED for one in pairs if not one.contradict for place in one.places}
        marks |= {one.second.place: DISPUTED for one in pairs if one.contradict}
        unsettled = {place for one in pairs for place in one.places}
        files = []
        for file in read:
            name = self._store.name_of(file)
            at = {(name, entry): entry for entry in file.entries}
            known = [(entry, standing[one]) for one, entry in at.items() if one in standing]
            files.append(
                replace(
                    file,
                    doubts={e: found[one] for one, e in at.items() if one in found},
                    since={e: one.terms.since for e, one in known if one.terms and one.terms.since},
                    marks={e: marks[one] for one, e in at.items() if one in marks},
                    dated={
                        entry: one.change.at[:10]
                        for entry, one in known
                        if one.change and (one.place in unsettled or is_restated(one))
                    },
                )
            )
        return files

    def check_replaced(self, target: Target, scope: Scope | None, old: str, new: str) -> None:
        """Raises: NotReplaced if the session's model was not shown the fact whole that it replaces.
        The file is not locked here: what changes meanwhile is no longer found."""
        file = self._store.read(target, scope or self._store.default_scope(target))
        entry = file.entries[find(file, old)]
        replacing.check(
            self.seen,
            _seen_name(entry),
            entry,
            new,
            called=f'the fact "{shorten(entry, 60)}"',
            named=(old,),
            to_read="`read` shows all facts; then replace it.",
            to_lose="Quote all that goes in `old_text`, or say in `content` what still holds.",
        )

    def note_shown(self, text: str, files: Iterable[FactFile]) -> None:
        """The session's model was shown this text, and the facts of these files that stand whole in
        it."""
        for entry in (entry for file in files for entry in file.entries):
            if entry in text:
                replacing.note(self.seen, _seen_name(entry), entry)

    async def change(
        self,
        action: Action,
        target: Target,
        scope: Scope | None,
        author: Author,
        *,
        old: str,
        new: str,
    ) -> Outcome:
        """Performs an action on the facts; `old` is a part of the fact it is about.

        Raises: MemoryRefused, StorageError, BusyError; then nothing changed.
        """
        where = scope or self._store.default_scope(target)
        match action:
            case "add":
                return await self.writer.add(target, where, new, author)
            case "replace":
                return await self.writer.replace(target, where, old, new, author)
            case "remove":
                return await self.writer.remove(target, where, old, author)
            case "archive":
                return await self.writer.archive(target, where, old, author)
            case "consolidate":
                return await self._consolidate(target, where, author)

    async def _consolidate(self, target: Target, scope: Scope, author: Author) -> Outcome:
        """As `FactWriter.consolidate`; also removes expired facts. Raises as that."""
        expired = {
            text
            for file in self.layers()
            if (file.target, file.scope) == (target, scope)
            for text, doubt in file.doubts.items()
            if doubt.expired
        }
        return await self.writer.consolidate(target, scope, author, expired)

    # ── by a person ──────────────────────────────────────────────────────────────────────────

    async def add(self, addition: Addition) -> Outcome:
        """Adds a fact for the person. Raises: MemoryRefused, StorageError, BusyError."""
        addition.check(SYSTEM, system_row(SYSTEM).options)
        target: Target = "user" if addition.target == "user" else "env"
        author = addition.kept_by(self._author("user", since=addition.since, until=addition.until))
        return await self._edit(author, "add", target, addition.scope, old="", new=addition.text)

    def verbs(self) -> Mapping[str, Verb]:
        async def edit(given: Any) -> Outcome:
            old, new = getattr(given, "old", ""), getattr(given, "new", "")
            return await self._edit(
                self._author("user"), given.command, given.target, given.scope, old=old, new=new
            )

        return dict.fromkeys(("replace", "remove", "archive", "consolidate"), edit)

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    async def _edit(
        self,
        author: Author,
        action: Action,
        target: Target,
        scope: Scope | None,
        *,
        old: str,
        new: str,
    ) -> Outcome:
        self.check_writable()
        outcome = await self.change(action, target, scope, author, old=old, new=new)
        noticed = scan.check(new, author="user")
        return replace(self._report_outcome(outcome), remark=noticed)

    def _report_outcome(self, outcome: Outcome) -> Outcome:
        """As `_report`, with how full the file is."""
        file = outcome.file
        fill = f"{file.label}: {file.fill}" if file is not None else ""
        done = replace(outcome, detail="\n".join(filter(None, (outcome.detail, fill))))
        self._report(done)
        return done


def _seen_name(entry: str) -> str:
    return f"fact {version_of(entry)}"
