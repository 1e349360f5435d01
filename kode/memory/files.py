"""Makes changes: prepares the texts of files, appends to the log, then updates the files.

A change counts once its line is in the log: if kode is killed before the files are updated, the
next process completes them. A person's edit of a file is recorded as a change of theirs before any
other change is made.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kode import durable
from kode.errors import BusyError, MemoryRefused
from kode.events import Emit, Notice
from kode.memory import source
from kode.memory.fold import DAMAGE, EDIT, LAYOUT, RESTORE, MemoryView, drop_repeats, fold, matches
from kode.memory.log import Log
from kode.memory.rendering import FileFormat, Layout, TextDifference, diff, fingerprint, render
from kode.memory.statement import (
    Author,
    CodeState,
    MemoryChange,
    Rank,
    Relations,
    Settlement,
    Statement,
    make_statement,
    plan_settlement,
    rank_statement,
    timestamp,
)
from kode.messages import plural
from kode.session.record import Project
from kode.values import KW_ONLY, dataclass, replace

Changes = MemoryChange | Sequence[MemoryChange] | None
UNDO = "kode memory undo"
"""The command that undoes a change; the change's id follows it."""
PREPARED = ".prepared.json"
"""Contents: name of each file that a change has not reached yet → the change's id, the fingerprint
of the file before it, and the new text."""
_LOCK_TIMEOUT_S = 10.0
"""The holder of the lock only writes small files: a longer wait means that it hangs."""
_PAUSE_S = 0.005
NO_DRAFTS: Mapping[str, str] = MappingProxyType({})


@contextlib.asynccontextmanager
async def hold_folder(folder: Path) -> AsyncIterator[None]:
    """Holds the exclusive lock of a folder across processes. The body must not await. Raises:
    BusyError after 10 s; StorageError; CancelledError while waiting."""
    deadline = time.monotonic() + _LOCK_TIMEOUT_S
    with contextlib.ExitStack() as stack:
        while True:
            with contextlib.suppress(BusyError):
                stack.enter_context(durable.hold_lock(folder, timeout_s=0.0))
                break
            if time.monotonic() > deadline:
                raise durable.busy_error(folder, _LOCK_TIMEOUT_S)
            await asyncio.sleep(_PAUSE_S)
        yield


@dataclass(eq=False)
class FileStore:
    """The log and the files of one memory folder, as one system sees them in one project. After
    MemoryRefused or BusyError a change was not made; after StorageError the log may have it."""

    root: Path
    system: str
    layout: Layout
    project: Project
    _: KW_ONLY
    now: Callable[[], datetime]
    emit: Emit
    read_only: bool = False

    def __post_init__(self) -> None:
        self.log = Log(self.root / "history.jsonl", read_only=self.read_only)
        self.view = self.log.view
        self._watched: tuple[MemoryView | None, list[str], list[str]] = None, [], []
        """A cache: the view and the places of facts, and the names of the resulting files."""

    def fact_places(self) -> list[str]:
        """Returns this project's places of facts in the order of a prompt, patterns expanded."""
        return self._find_existing(self.layout.facts(self.project))

    def record_places(self, *, is_for_all: bool = True) -> list[str]:
        """Returns the places of records of past work; `is_for_all`: whether each will be read."""
        return self._find_existing(self.layout.records(self.project), is_for_all=is_for_all)

    def fact_file_times(self) -> Mapping[str, int]:
        """When each file of facts of this project was last written, in nanoseconds, by name."""
        times, view, places = dict[str, int](), self.view(), self.fact_places()
        if self._watched[0] is not view or self._watched[1] != places:
            names = [name for place in places for name in self._files(place, view)]
            self._watched = view, places, names
        for name in self._watched[2]:
            with contextlib.suppress(OSError):
                times[name] = (self.root / name).stat().st_mtime_ns
        return times

    def is_here(self, place: str, project: Project | None = None) -> bool:
        """Whether a place belongs to a project, by default this one, even if nothing is stored
        there yet."""
        project = project or self.project
        patterns = (*self.layout.facts(project), *self.layout.records(project))
        return any(matches(place, pattern) for pattern in patterns)

    def read_text(self, name: str) -> str | None:
        """The text of a file; None if there is none. Raises: MemoryRefused if it is not readable
        UTF-8 text."""
        path = self.root / name
        if path.is_symlink() and not path.resolve().is_relative_to(self.root.resolve()):
            raise MemoryRefused(f"{path} is a link out of the memory folder: it is not read.")
        try:
            return path.read_bytes().decode()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except UnicodeDecodeError as error:
            raise MemoryRefused(
                f"{path} is not UTF-8 text (byte {error.start}). It was left as it is: save it as "
                f"UTF-8, or move it away (`mv {path} {path}.damaged`), and kode writes it again."
            ) from error
        except OSError as error:
            raise MemoryRefused(
                f"{path} cannot be read ({error.strerror}). Check what it is and who owns it."
            ) from error

    def _find_existing(self, patterns: Sequence[str], *, is_for_all: bool = True) -> list[str]:
        names = list[str]()
        for pattern in patterns:
            if "*" in pattern:
                places = self.view().list_places(pattern, is_for_all=is_for_all)
                paths = (str(path.relative_to(self.root)) for path in self.root.glob(pattern))
                names += sorted({*places, *paths})
            else:
                names.append(pattern)
        return list(dict.fromkeys(names))

    def _files(self, place: str, *views: MemoryView) -> dict[str, FileFormat]:
        """Returns name → format of a place's files: those always checked, and its statements'."""
        files = dict[str, FileFormat]()
        if format := self.layout.format_of(place):
            files |= dict.fromkeys(self.layout.files_of(place, None), format)
            for view in views:
                for statement in view.in_place(place):
                    files |= dict.fromkeys(self.layout.files_of(place, statement), format)
        return files

    def _select(self, name: str, statements: Iterable[Statement]) -> list[Statement]:
        """Returns the statements that belong in a file, each text once."""
        return drop_repeats(s for s in statements if name in self.layout.files_of(s.place, s))

    def draft(self, kind: str, author: Author, batch: str = "") -> MemoryChange:
        """Makes a change that does nothing yet."""
        return MemoryChange(
            at=timestamp(self.now()),
            who=author.who,
            kind=kind,
            system=self.system,
            session=author.session,
            turn=author.turn,
            batch=batch,
        )

    def new_statement(self, author: Author, place: str, text: str, **values: Any) -> Statement:
        """Makes a statement dated now, in the form of its place; `values` are its other fields."""
        layout, project = self.layout, self.project.hash
        format, of_project = layout.format_of(place), project if project in place else ""
        text = format.fit_text(text) if format else text.strip()
        values = {"kind": layout.kind_of(place), "project": of_project, **values}
        return make_statement(author, place, text, timestamp(self.now()), **values)

    def code_state(self, statement: Statement) -> CodeState | None:
        """The state of the lines that a statement cites; None if it cites none of this project."""
        return source.find_code_state(self.project.root, statement.source, statement.source_hash)

    def rank(self, statement: Statement) -> Rank:
        """Returns the rank of a statement, given the present state of the code that it cites."""
        return rank_statement(statement, self.code_state(statement))

    def plan(self, view: MemoryView, new: Sequence[Statement], relations: Relations) -> Settlement:
        """Returns what follows from relations between new and current statements. Earlier conflicts
        of these are considered, but not returned again."""
        both = ({first.id, second.id} for first, second in view.conflicts())
        before = [pair for pair in both if not pair.isdisjoint(relations.ids())]
        conflict = (*relations.conflict, *((first, second) for first, second in before))
        relations = replace(relations, conflict=conflict)
        alive = view.alive(relations.ids())
        statements = [*(old for old in alive if old.state != "waiting"), *new]
        times = {statement.id: statement.claimed_at for statement in statements}
        result = plan_settlement(relations, times, {new.id: self.rank(new) for new in statements})
        return replace(result, conflicts=tuple(p for p in result.conflicts if {*p} not in before))

    def settle(
        self, view: MemoryView, new: Sequence[Statement], relations: Relations, draft: MemoryChange
    ) -> MemoryChange:
        """Extends `draft` to the change that adds the new statements that remain under their
        relations, and ends the current ones that they outdate."""
        result, add = self.plan(view, new, relations), list[Statement]()
        for statement in new:
            if statement.id not in result.ends:
                ended = (id for id, heir in result.ends.items() if heir == statement.id)
                add.append(replace(statement, replaces=(*statement.replaces, *ended)))
        end = (*draft.end, *(id for id in result.ends if view.entry(id)))
        conflicts = (*draft.conflicts, *result.conflicts)
        return replace(draft, add=tuple(add), end=end, conflicts=conflicts)

    def apply_edit(
        self, edit: TextDifference, place: str, draft: MemoryChange, author: Author, may_end: Rank
    ) -> MemoryChange:
        """Extends `draft` to the change that an edit of a place's file makes. A statement that the
        edit leaves out ends, unless it ranks higher than `may_end`."""
        view = self.view()
        present = {statement.text for statement in view.in_place(place)}
        new = [self.new_statement(author, place, text) for text in edit.new if text not in present]
        older = edit.versions
        outdated = tuple((older[add.text].id, add.id) for add in new if add.text in older)
        change = self.settle(view, new, Relations(outdated=outdated), draft)
        left_out = view.alive(old.id for old in edit.gone)
        weak = (old.id for old in left_out if self.rank(old) <= may_end)
        return replace(change, end=tuple(dict.fromkeys((*change.end, *weak))))

    async def commit(
        self, make: Callable[[MemoryView], Changes], drafts: Mapping[str, str] = NO_DRAFTS
    ) -> list[MemoryChange]:
        """Commits what `make` returns, maybe after several calls, with the folder locked; returns
        it as logged. `drafts`: texts by file. Raises: MemoryRefused, StorageError, BusyError."""
        if self.read_only:
            raise MemoryRefused("This process may only read memory. Nothing was changed.")
        async with hold_folder(self.root):
            checked, places = set[str](), set(self.fact_places())
            while True:
                for notice in self._reconcile(places):
                    self.emit(notice)
                checked |= places
                result = make(self.view())
                changes = [result] if isinstance(result, MemoryChange) else list(result or ())
                after, touched = self._preview_changes(changes)
                if not (places := touched - checked):
                    return self._write(changes, after, touched, drafts) if changes else []

    async def reconcile(self, places: Iterable[str] | None = None) -> list[Notice]:
        """Completes what a killed process left, writes missing files again, and takes over edits in
        the files of these places, by default of facts. Returns what it did, or could not read."""
        if not self.root.is_dir():  # nothing was ever stored
            return []
        places = self.fact_places() if places is None else places
        async with contextlib.nullcontext() if self.read_only else hold_folder(self.root):
            return self._reconcile(places)

    def _preview_changes(self, changes: Sequence[MemoryChange]) -> tuple[MemoryView, set[str]]:
        """Returns a view of the places that the changes touch, as after them, and these places."""
        view = self.view()
        if any(change.undoes for change in changes):
            after = fold([*self.log.changes(), *changes])
            every = {*view.places, *after.places}
            return after, {p for p in every if view.places.get(p) != after.places.get(p)}
        ids = (id for change in changes for id in (*change.end, *change.set))
        places = {entry.statement.place for entry in filter(None, map(view.entry, ids))}
        places |= {new.place for change in changes for new in change.add}
        return view.extract(filter(self.layout.format_of, places), changes), places

    def _write(
        self,
        changes: Sequence[MemoryChange],
        after: MemoryView,
        places: Iterable[str],
        drafts: Mapping[str, str] = NO_DRAFTS,
        followed: str = "",
        earlier: Sequence[Statement] = (),
    ) -> list[MemoryChange]:
        """Writes changes durably: what was prepared, the log, the files. `followed`: the file whose
        edit is taken over, with its text in `drafts`; it may still have `earlier` statements."""
        view, files = self.view(), dict[str, tuple[str, str]]()
        *others, last = changes
        prepared = self._publish()
        for place in places:
            before, now = (*view.in_place(place), *earlier), after.in_place(place)
            for name, format in self._files(place, view, after).items():
                is_followed, recorded = name == followed, view.file(name).after
                old = drafts[name] if is_followed else self.read_text(name) or ""
                if followed and not is_followed and fingerprint(old) != recorded:
                    continue  # it was edited, too: its turn comes next
                template, wanted = drafts.get(name, old), self._select(name, now)
                new = render(format, template, wanted, (*before, *now))
                new = self.layout.derive(name, new, wanted, template)
                if not followed and not last.undoes:
                    self.layout.check(name, old, new)
                if new != old:
                    prepared[name] = [last.id, fingerprint(old), new]
                if new != old or is_followed:
                    start = recorded if is_followed else fingerprint(old)
                    files[name] = (start, fingerprint(new))
        durable.make_folder(self.root)
        if prepared:
            durable.replace_file(self.root / PREPARED, json.dumps(prepared).encode())
        written = self.log.append([*others, replace(last, files=files)])
        self._publish()
        return written

    def _publish(self) -> dict[str, list[str]]:
        """Writes the prepared texts into files, if the log has the change. Returns the texts left
        over, of files that were edited before the change reached them."""
        path, left = self.root / PREPARED, dict[str, list[str]]()
        try:
            prepared: dict[str, list[str]] = json.loads(path.read_bytes())
        except (FileNotFoundError, ValueError):
            return {}
        for name, (id, before, text) in prepared.items():
            is_last, present = self.view().file(name).change == id, None
            with contextlib.suppress(MemoryRefused):
                present = fingerprint(self.read_text(name))
            if is_last and present == before:
                if text:
                    durable.make_folder((self.root / name).parent)
                    durable.replace_file(self.root / name, text.encode(errors="replace"))
                else:
                    durable.remove(self.root / name)
            elif is_last and present != fingerprint(text):
                left[name] = [id, before, text]
        if left:
            durable.replace_file(path, json.dumps(left).encode())
        else:
            durable.remove(path)
        return left

    def _reconcile(self, places: Iterable[str]) -> list[Notice]:
        notices, left = self._set_damage_aside(), {} if self.read_only else self._publish()
        for place in places:
            for name, format in self._files(place, self.view()).items():
                try:
                    if text := self._reconcile_file(name, place, format, left.get(name, [""])[0]):
                        notices.append(Notice(text=text, level="info"))
                except MemoryRefused as error:
                    notices.append(Notice(text=str(error)))
        return notices

    def _set_damage_aside(self) -> list[Notice]:
        damage, then = self.log.damage(), "is set aside by `kode memory show`"
        if damage and not self.read_only:
            then = "was set aside in a file beside it"
            self.log.append([replace(self.draft(DAMAGE, Author("recovered")), reason=damage)])
            self.log.set_damage_aside()
        text = (
            f"{self.log.path} is damaged: {damage}. What cannot be read {then}. What only the "
            "files of memory have is taken over from them, and nothing else is lost."
        )
        return [Notice(text=text)] if damage else []

    def _reconcile_file(self, name: str, place: str, format: FileFormat, unfinished: str) -> str:
        """Takes over an edit of a file, or restores it; returns what happened, "" for nothing.
        `unfinished`: the id of a change that had not reached the file when it was edited."""
        view, old = self.view(), self.view()
        record, text = view.file(name), self.read_text(name)
        is_followed = fingerprint(text) == record.after and not (record.is_doubtful and text)
        if is_followed or self.read_only:
            return ""
        if unfinished:
            old = fold([change for change in self.log.changes() if change.id != unfinished])
        earlier, author = old.in_place(place), Author("user")
        edit = diff(format, [] if text is None else self._select(name, earlier), text or "")
        if record.is_doubtful:
            author, edit = Author("recovered"), edit._replace(gone=(), versions={})
        draft = self.draft(RESTORE if record.is_doubtful else EDIT, author)
        change = self.apply_edit(edit, place, draft, author, Rank.PERSON)
        if not change.add and not change.end:
            change = replace(change, kind=RESTORE if text is None else LAYOUT)
        after = view.extract([place], [change])
        self._write([change], after, [place], {name: text or ""}, followed=name, earlier=earlier)
        new, ended = len(change.add), len(change.end)
        what = "was missing and was written again from the history."
        if new:
            what = f"had {plural(new, 'entry', 'entries')} that the history has lost."
        if change.kind == EDIT:
            what = f"was edited: {new} new, {ended} withdrawn · undo: {UNDO} {change.id}"
        return f"{self.layout.label(name)} {what}" if change.kind != LAYOUT else ""
