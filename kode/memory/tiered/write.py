"""Changing facts: add (with merge on write), replace, remove, consolidate, undo.

Every change goes the same way: scan, decide (asking the model if need be) with no lock held, then
lock, read again, and if the file is another than the one decided on, decide again; then the
history, then the file. Not here: the format (`facts`), what merging means (`merge`), wording for
the model or the screen beyond one line (`tool`, `cli`).
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from kode.errors import MemoryError_
from kode.memory import scan
from kode.memory.ask import Door
from kode.memory.history import Author, Change, History, Who, nothing_left, refuse_redacted
from kode.memory.tiered import consolidate, merge
from kode.memory.tiered.facts import (
    FactFile,
    FactStore,
    Scope,
    Target,
    check_room,
    find,
    holds_separator,
    shorten,
)

SYSTEM = "tiered"
DECISIONS = 6
"""How often a write is decided anew because the file changed in between; then it is added as it
stands, which loses nothing."""
JUDGE_TIMEOUT_S = 15.0

Similarities = Callable[[str, Sequence[str]], Awaitable[Sequence[float] | None]]
"""Cosines of a new text to each entry; None leaves it to what `merge` counts by itself."""

Done = Literal["added", "merged", "known", "replaced", "removed", "consolidated", "undone"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    done: Done
    file: FactFile | None
    """The file as it is now; None when what changed was no fact file."""
    line: str
    """One line for a person: `merged into env "uses pytest -q"`."""
    detail: str = ""
    """What else is worth knowing: the text merged with, why it was known."""
    change_id: str = ""
    """"" when nothing was changed."""


@dataclass(frozen=True, kw_only=True)
class MergeSettings:
    enabled: bool
    merge_threshold: float
    add_threshold: float


@dataclass(frozen=True)
class _Verdict:
    """What the judge said of one entry; a second opinion is never asked for."""

    entry: str
    merge: bool
    reason: str


class FactWriter:
    """The operations on the facts of one session."""

    def __init__(
        self,
        store: FactStore,
        history: History,
        door: Door,
        merging: MergeSettings,
        similarities: Similarities,
        *,
        may_consolidate: bool = True,
    ) -> None:
        self._store = store
        self._history = history
        self._door = door
        self._merging = merging
        self._similarities = similarities
        self._may_consolidate = may_consolidate

    async def add(
        self, target: Target, scope: Scope, content: str, author: Author, *, reason: str = ""
    ) -> Outcome:
        """Adds a fact, or merges it into the entry that says the same.

        Raises: MemoryError_ (refused, no room), StorageError, BusyError; then nothing changed.
        """
        text = checked(content, author.who)
        verdict: _Verdict | None = None
        for attempt in range(DECISIONS + 1):
            file = self._store.read(target, scope)
            if text in file.entries:
                return await self._known(file, text, "it is there word for word")
            decision = _plain_add(text)
            if attempt < DECISIONS:
                decision, verdict = await self._decide(text, file, verdict)
            if decision.action == "duplicate":
                entry = file.entries[decision.index or 0]
                return await self._known(file, entry, decision.reason)
            async with self._store.lock(file):
                now = self._store.read(target, scope)
                if now.entries == file.entries or (attempt == DECISIONS):
                    if text in now.entries:
                        return _known(now, text, "it is there word for word")
                    return self._write_decided(now, text, decision, author, reason)
        raise AssertionError("unreachable: the last attempt writes whatever the file holds")

    async def _known(self, file: FactFile, entry: str, why: str) -> Outcome:
        """What is confirmed as known must last: the lock syncs what a killed writer left."""
        async with self._store.lock(file):
            return _known(file, entry, why)

    async def replace(
        self, target: Target, scope: Scope, old_text: str, content: str, author: Author
    ) -> Outcome:
        """Replaces the one entry that `old_text` means. Raises as `add`."""
        text = checked(content, author.who)
        file = self._store.read(target, scope)
        async with self._store.lock(file):
            file = self._store.read(target, scope)
            at = find(file, old_text)
            old = file.entries[at]
            entries = [entry for i, entry in enumerate(file.entries) if i == at or entry != text]
            entries[entries.index(old)] = text
            if tuple(entries) == file.entries:
                return _known(file, text, "it reads so already")
            check_room(file, entries)
            before = tuple(e for e in file.entries if e in (old, text))
            return self._record(
                file, entries, "replace", (before, (text,), at), author, "replaced", text
            )

    async def remove(self, target: Target, scope: Scope, old_text: str, author: Author) -> Outcome:
        """Removes the one entry that `old_text` means. Raises as `add`."""
        file = self._store.read(target, scope)
        async with self._store.lock(file):
            file = self._store.read(target, scope)
            at = find(file, old_text)
            old = file.entries[at]
            entries = [*file.entries[:at], *file.entries[at + 1 :]]
            return self._record(file, entries, "remove", ((old,), (), at), author, "removed", old)

    async def consolidate(self, target: Target, scope: Scope, author: Author) -> Outcome:
        """Lets the model say the same in less, if nothing known is lost.

        Raises: MemoryError_ when it is refused or there is no model; the file stays.
        """
        file = self._store.read(target, scope)
        if len(file.entries) < 2:
            return Outcome(
                done="known",
                file=file,
                line=f"nothing to consolidate in {file.label}",
                detail=f"it holds {len(file.entries)} of the 2 entries that takes at least",
            )
        if not self._may_consolidate:
            raise MemoryError_(
                "Consolidating by a model is off (memory.llm_consolidate). "
                "Replace or remove single entries instead."
            )
        entries = await consolidate.shorter(self._door, file)
        for entry in entries:
            checked(entry)
        check_room(file, entries)
        if tuple(entries) == file.entries:
            return Outcome(done="known", file=file, line=f"{file.label} is as short as it gets")
        async with self._store.lock(file):
            now = self._store.read(target, scope)
            if now.entries != file.entries:
                raise MemoryError_(
                    f"{file.label} was changed while the model was at work, so its answer was "
                    "not used. Try again."
                )
            parts = (file.entries, tuple(entries), 0)
            note = f"{len(file.entries)} entries → {len(entries)}"
            return self._record(now, entries, "consolidate", parts, author, "consolidated", note)

    async def undo(self, change: Change, author: Author) -> Outcome:
        """Takes back one change to a fact file, if what it left is still there.

        Raises: MemoryError_ with what stands in the way; StorageError, BusyError.
        """
        refuse_redacted(change, f"Edit {change.target} by hand.")
        file = self._store.read_named(change.target)
        async with self._store.lock(file):
            file = self._store.read_named(change.target)
            gone = [entry for entry in change.after if entry not in file.entries]
            quoted = f'"{shorten(gone[0], 80)}"' if gone else ""
            put_there = set(change.after) - set(change.before)
            if put_there <= set(gone) and set(change.before) <= set(file.entries):
                raise nothing_left(
                    change, f"{file.label} no longer holds {quoted}." if gone else ""
                )
            if gone:
                raise MemoryError_(
                    f"{file.label} no longer holds {quoted}: it was changed since {change.id}. "
                    f"Undo the later change first (`kode memory log`), or edit {file.path}."
                )
            entries, at = _taken_back(file.entries, change)
            check_room(file, entries)
            row = Change(
                kind="undo",
                target=change.target,
                system=SYSTEM,
                who=author.who,
                before=change.after,
                after=change.before,
                position=at,
                reason=f"undoes {change.kind} {change.id}",
                session=author.session,
                turn=author.turn,
                undoes=change.id,
            )
            written = self._history.append(row)
            now = self._store.write(file, entries)
        return Outcome(
            done="undone",
            file=now,
            line=f"undid {change.kind} {change.id} in {file.label}",
            detail=_what(change),
            change_id=written.id,
        )

    async def _decide(
        self, text: str, file: FactFile, verdict: _Verdict | None
    ) -> tuple[merge.Decision, _Verdict | None]:
        """What to do, with at most one question to the model for the whole write."""
        if not self._merging.enabled or not file.entries:
            return _plain_add(text), verdict
        cosines = await self._similarities(text, file.entries)
        decision = merge.decide(
            text,
            file.entries,
            merge_threshold=self._merging.merge_threshold,
            add_threshold=self._merging.add_threshold,
            similarities=cosines,
        )
        if decision.action != "judge" or decision.index is None:
            return decision, verdict
        entry = file.entries[decision.index]
        if verdict is None:
            verdict = await self._judge(text, entry)
        if not verdict.merge or verdict.entry != entry:
            return _plain_add(text, verdict.reason), verdict
        joined = merge.merge_judged(text, entry)
        action: merge.Action = "duplicate" if joined == entry else "merge"
        return (
            merge.Decision(action, decision.index, decision.similarity, joined, verdict.reason),
            verdict,
        )

    async def _judge(self, text: str, entry: str) -> _Verdict:
        system, prompt = merge.judge_prompt(text, entry)
        answer = await self._door.ask(
            system, prompt, max_output_tokens=16, timeout_s=JUDGE_TIMEOUT_S
        )
        if answer.text is None:
            return _Verdict(entry, False, f"no judgment ({answer.failure})")
        word = merge.read_judgment(answer.text)
        if word is None:
            return _Verdict(entry, False, "the judge's answer was not one of its words")
        return _Verdict(entry, word == "merge", f"the model judged: {word}")

    def _write_decided(
        self, file: FactFile, text: str, decision: merge.Decision, author: Author, reason: str
    ) -> Outcome:
        """Called inside the lock."""
        why = "; ".join(part for part in (reason, decision.reason) if part)
        if decision.action != "merge" or decision.index is None:
            entries = [*file.entries, text]
            check_room(file, entries)
            at = len(file.entries)
            return self._record(file, entries, "add", ((), (text,), at), author, "added", text, why)
        old = file.entries[decision.index]
        joined = checked(decision.text, author.who)
        entries = [e for i, e in enumerate(file.entries) if i == decision.index or e != joined]
        entries[entries.index(old)] = joined
        check_room(file, entries)
        parts = ((old,), (joined,), decision.index)
        return self._record(file, entries, "merge", parts, author, "merged", joined, why)

    def _record(
        self,
        file: FactFile,
        entries: Sequence[str],
        kind: str,
        parts: tuple[tuple[str, ...], tuple[str, ...], int],
        author: Author,
        done: Done,
        text: str,
        reason: str = "",
    ) -> Outcome:
        """History first, then the file: a crash in between loses nothing. Inside the lock."""
        before, after, at = parts
        change = self._history.append(
            Change(
                kind=kind,
                target=self._store.name_of(file),
                system=SYSTEM,
                who=author.who,
                before=before,
                after=after,
                position=at,
                reason=reason,
                session=author.session,
                turn=author.turn,
            )
        )
        now = self._store.write(file, entries)
        words = {"added": "added to", "merged": "merged into", "replaced": "replaced in"}
        words |= {"removed": "removed from", "consolidated": "consolidated"}
        quoted = text if done == "consolidated" else f'"{shorten(text, 80)}"'
        detail = f'it replaces "{shorten(before[0], 200)}"' if done == "merged" else ""
        return Outcome(
            done=done,
            file=now,
            line=f"{words[done]} {file.label} {quoted}",
            detail=detail,
            change_id=change.id,
        )


def checked(content: str, who: Who = "model") -> str:
    """A text as it may be stored: trimmed, one entry, scanned as `who` wrote it.

    Raises: MemoryError_ naming what is wrong with it.
    """
    text = content.replace("\r\n", "\n").strip()
    if not text:
        raise MemoryError_("content is empty: say in one sentence what to remember.")
    if holds_separator(text):
        raise MemoryError_(
            "content holds a line with only §, which separates entries: write one fact at a time."
        )
    scan.check(text, author=who)
    return text


def _plain_add(text: str, reason: str = "") -> merge.Decision:
    return merge.Decision("add", None, 0.0, text, reason)


def _known(file: FactFile, entry: str, why: str) -> Outcome:
    line = f'{file.label} knows already "{shorten(entry, 80)}"'
    return Outcome(done="known", file=file, line=line, detail=why)


def _taken_back(entries: tuple[str, ...], change: Change) -> tuple[list[str], int]:
    """The entries with `change.after` taken out and `change.before` put where it stood."""
    at = entries.index(change.after[0]) if change.after else change.position
    rest = [entry for entry in entries if entry not in change.after]
    at = len(rest) if at is None else min(at, len(rest))
    missing = [entry for entry in change.before if entry not in rest]
    return [*rest[:at], *missing, *rest[at:]], at


def _what(change: Change) -> str:
    came = "; ".join(f'"{shorten(text, 80)}"' for text in change.before)
    went = "; ".join(f'"{shorten(text, 80)}"' for text in change.after)
    return " ".join(
        part for part in (f"back: {came}" if came else "", f"gone: {went}" if went else "") if part
    )
