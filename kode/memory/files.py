"""Makes changes: prepares them, appends them to the log, and lets the files follow.

From its line in the log on, a change is made: a kode that was killed before the files followed is
continued by the next one. An edit that a person made in a file becomes a change of theirs before
any other change is made.
"""

import asyncio
import contextlib
import re
import time
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, replace
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from kode import durable
from kode.contracts import Project
from kode.errors import BusyError, MemoryRefused, StorageError
from kode.events import Emit, Notice
from kode.memory.fold import DAMAGE, EDIT, LAYOUT, RESTORE, View, fold
from kode.memory.log import Log
from kode.memory.markdown import Format
from kode.memory.rendering import Difference, Layout, diff, fingerprint, render
from kode.memory.statement import Author, Change, Statement, statement_by, timestamp
from kode.messages import plural

Step = Literal["prepare", "append", "rename", "remove", "done"]
Made = Change | Sequence[Change] | None
UNDO = "kode memory undo"
"""The command that undoes a change, before the change's id."""
_LOCK_TIMEOUT_S = 10.0
"""The holder of the lock only writes small files: a longer wait means that it hangs."""
_PREPARED = re.compile(r"\.([0-9a-f]{12})-[0-9a-f]{16}")
_NO_DRAFTS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class PlaceFile:
    """A file of a place as it is on disk."""

    name: str
    place: str
    format: Format
    text: str | None
    """None for a missing file."""


@contextlib.asynccontextmanager
async def locked(folder: Path) -> AsyncIterator[None]:
    """Holds the exclusive lock of a folder across processes. The body must not await.

    Raises: BusyError after 10 s; StorageError; CancelledError while waiting.
    """
    deadline, pause_s = time.monotonic() + _LOCK_TIMEOUT_S, 0.001
    with contextlib.ExitStack() as stack:
        while True:
            try:
                stack.enter_context(durable.locked(folder, timeout_s=0.0))
                break
            except BusyError:
                if time.monotonic() > deadline:
                    raise durable.busy(folder, _LOCK_TIMEOUT_S) from None
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 1.5, 0.02)
        yield


class FileStore:
    """The log and the files of one memory folder, seen from one project by one system.

    What changes something raises MemoryRefused, StorageError and BusyError; then nothing was
    changed.
    """

    def __init__(
        self,
        root: Path,
        system: str,
        layout: Layout,
        project: Project,
        *,
        now: Callable[[], datetime],
        emit: Emit,
        read_only: bool = False,
    ) -> None:
        self.root, self.system, self.layout, self.project = root, system, layout, project
        self.log = Log(root / "history.jsonl")
        self.now, self.emit, self.read_only = now, emit, read_only
        self.step: Callable[[Step], None] = lambda step: None
        """Called before each durable step of a change; a test stops there."""
        self._view = View()
        self._folded: Sequence[Change] = ()
        self._count = 0

    # ── reading ──────────────────────────────────────────────────────────────────────────────

    def view(self) -> View:
        """What counts now. Raises: StorageError."""
        changes = self.log.changes()
        new = changes[self._count :]
        if changes is not self._folded or any(change.undoes for change in new):
            self._view = fold(changes)
        elif new:
            self._view = self._view.with_changes(new).with_files(new)
        self._folded, self._count = changes, len(changes)
        return self._view

    def fact_places(self) -> list[str]:
        """The places of facts in this project that there are, in the order of a prompt."""
        return self._existing(self.layout.facts(self.project))

    def fact_file_times(self) -> Mapping[str, int]:
        """When each file of facts of this project was last written, in nanoseconds, by name."""
        times = dict[str, int]()
        for place in self.fact_places():
            for name in self._names(place, self.view()):
                with contextlib.suppress(OSError):
                    times[name] = (self.root / name).stat().st_mtime_ns
        return times

    def record_places(self) -> list[str]:
        """The places of records of past work that there are."""
        return self._existing(self.layout.records(self.project))

    def is_here(self, place: str, project: Project | None = None) -> bool:
        """Whether a place concerns a project, this one by default, whether anything stands there or
        not."""
        project = project or self.project
        patterns = (*self.layout.facts(project), *self.layout.records(project))
        return any(_matches(place, pattern) for pattern in patterns)

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
                f"{path} is not UTF-8 text (byte {error.start}). It was left as it is: "
                "save it as UTF-8, or move it away."
            ) from error
        except OSError as error:
            raise MemoryRefused(
                f"{path} cannot be read ({error.strerror}). Check what it is and who owns it."
            ) from error

    def _existing(self, patterns: Sequence[str]) -> list[str]:
        names = dict[str, None]()
        for pattern in patterns:
            folder = self.root / pattern.rpartition("/")[0]
            paths = folder.glob("*.md") if "*" in pattern else ()
            listed = {path.relative_to(self.root).as_posix() for path in paths}
            listed |= {*self.view().places} if "*" in pattern else {pattern}
            names |= dict.fromkeys(sorted(name for name in listed if _matches(name, pattern)))
        return list(names)

    # ── the files of a place ─────────────────────────────────────────────────────────────────

    def _names(self, place: str, *views: View) -> list[str]:
        names = dict.fromkeys(self.layout.files_of(place, None))
        for view in views:
            for statement in view.in_place(place):
                names |= dict.fromkeys(self.layout.files_of(place, statement))
        return list(names)

    def _files(self, place: str, *views: View) -> Iterator[PlaceFile]:
        """The files of a place. Raises: MemoryRefused at one that cannot be read."""
        format = self.layout.format_of(place)
        if format is None:
            return
        for name in self._names(place, *views):
            yield PlaceFile(name=name, place=place, format=format, text=self.read_text(name))

    def _wanted(self, file: PlaceFile, view: View) -> list[Statement]:
        """The statements that stand in a file, each text once."""
        texts = dict[str, Statement]()
        for statement in view.in_place(file.place):
            if file.name in self.layout.files_of(file.place, statement):
                texts.setdefault(statement.text, statement)
        return list(texts.values())

    def _rendered(self, file: PlaceFile, text: str, view: View, *before: View) -> str:
        """The text of a file after changes, from its text and what counted before them."""
        wanted = self._wanted(file, view)
        old = [statement for other in before for statement in other.in_place(file.place)]
        result = render(file.format, text, wanted, (*old, *view.in_place(file.place)))
        return self.layout.derive(file.name, result, wanted, text)

    # ── changing ─────────────────────────────────────────────────────────────────────────────

    def draft(self, kind: str, author: Author, batch: str = "") -> Change:
        """A change that does nothing yet."""
        return Change(
            at=timestamp(self.now()),
            who=author.who,
            kind=kind,
            system=self.system,
            session=author.session,
            turn=author.turn,
            batch=batch,
        )

    def new_statement(self, author: Author, place: str, text: str, **values: Any) -> Statement:
        """A statement of now as it can stand in a place; `values` are its other fields."""
        layout, project = self.layout, self.project.hash
        format, of_project = layout.format_of(place), project if project in place else ""
        text = format.fit(text) if format else text.strip()
        values = {"kind": layout.kind_of(place), "project": of_project, **values}
        return statement_by(author, place, text, timestamp(self.now()), **values)

    async def commit(
        self, make: Callable[[View], Made], drafts: Mapping[str, str] = _NO_DRAFTS
    ) -> list[Change]:
        """Makes the changes that `make` gives for what counts, with the folder locked; returns them
        as the log has them. `drafts`: whole texts of files, by name, that a writer gave; they take
        the place of the present text as the template."""
        self.check_writable()
        async with locked(self.root):
            checked = set(self.fact_places())
            self._tell(self._reconcile(checked))
            while True:
                made = make(self.view())
                changes = [made] if isinstance(made, Change) else list(made or ())
                places = self._places_of(changes)
                if places <= checked:
                    return self._make(changes, places, drafts) if changes else []
                self._tell(self._reconcile(places - checked))
                checked |= places

    async def reconcile(self, places: Iterable[str] | None = None) -> list[Notice]:
        """Continues what a killed kode left, writes missing files again, and takes over what a
        person edited in the files of these places, by default in those of facts; says what it
        did. A process that may only read just says what it cannot read."""
        if not self.root.is_dir():  # nothing was ever stored
            return []
        if self.read_only:
            return self._faults(self.fact_places() if places is None else places)
        async with locked(self.root):
            return self._reconcile(self.fact_places() if places is None else places)

    def check_writable(self) -> None:
        """Raises: MemoryRefused if this process may only read."""
        if self.read_only:
            raise MemoryRefused("This process may only read memory. Nothing was changed.")

    def _tell(self, notices: Iterable[Notice]) -> None:
        for notice in notices:
            self.emit(notice)

    def _places_of(self, changes: Collection[Change]) -> set[str]:
        places, entries, left = set[str](), self.view().entries, list(changes)
        while left:
            change = left.pop()
            undone = self.log.change(change.undoes) if change.undoes else None
            left += [undone] if undone else []
            places |= {new.place for new in change.add}
            ids = (*change.end, *change.set)
            places |= {entries[id].statement.place for id in ids if id in entries}
            places |= {self._place_of(id) for id in ids if id not in entries} - {""}
        return places

    def _place_of(self, id: str) -> str:
        """The place of a statement whose change is undone."""
        added = (new for change in self.log.changes() for new in change.add)
        return next((new.place for new in added if new.id == id), "")

    def _make(
        self, changes: Sequence[Change], places: Iterable[str], drafts: Mapping[str, str]
    ) -> list[Change]:
        """Makes changes that touch these places, whose files carry what the log says."""
        before = self.view()
        is_undo = any(change.undoes for change in changes)
        after = fold([*self.log.changes(), *changes]) if is_undo else before.with_changes(changes)
        texts = dict[str, tuple[str, str]]()
        for place in places:
            for file in self._files(place, before, after):
                old = file.text or ""
                new = self._rendered(file, drafts.get(file.name, old), after, before)
                if not is_undo:
                    self.layout.check(file.name, old, new)
                if new != old:
                    texts[file.name] = (old, new)
        return self._write(changes, texts)

    def _write(
        self, changes: Sequence[Change], texts: Mapping[str, tuple[str, str]]
    ) -> list[Change]:
        """The durable steps: prepared texts, the log, the files. `texts`: the name of each file →
        its text before and after."""
        *others, last = changes
        files = {name: (fingerprint(old), fingerprint(new)) for name, (old, new) in texts.items()}
        last = replace(last, files={**files, **last.files})
        prepared = {name: self._prepared(last.id, name) for name in texts}
        self.step("prepare")
        durable.make_folder(self.root)
        try:
            for name, (_, text) in texts.items():
                data = text.encode(errors="replace")
                durable.replace(prepared[name], data, sync_name=False)
            if texts:
                durable.sync_folder(self.root)
            self.step("append")
            written = self.log.append([*others, last])
        except (StorageError, OSError):
            for path in prepared.values():
                with contextlib.suppress(StorageError):
                    durable.remove(path)
            raise
        for name in texts:
            self._publish(last.id, name)
        self.step("done")
        return written

    def _prepared(self, id: str, name: str) -> Path:
        return self.root / f".{id}-{fingerprint(name)}"

    def _publish(self, id: str, name: str) -> None:
        """Gives a file its prepared text."""
        self.step("rename")
        prepared, target = self._prepared(id, name), self.root / name
        if data := prepared.read_bytes():
            durable.make_folder(target.parent)
            durable.replace(target, data)
        else:
            durable.remove(target)
        self.step("remove")
        durable.remove(prepared)

    # ── following what happened to the files ─────────────────────────────────────────────────

    def _reconcile(self, places: Iterable[str]) -> list[Notice]:
        notices = self._mend_log()
        for place in places:
            for name in self._names(place, self.view()) if self.layout.format_of(place) else ():
                try:
                    if text := self._follow(name, place):
                        notices.append(Notice(text=text, level="info"))
                except MemoryRefused as error:
                    notices.append(Notice(text=str(error)))
        self._remove_unused()
        return notices

    def _faults(self, places: Iterable[str]) -> list[Notice]:
        """What cannot be read of the log and of the files of these places."""
        texts = list[str]()
        if damage := self.log.damage():
            texts.append(
                f"{self.log.path} is damaged: {damage}. `kode memory show` puts aside what cannot "
                "be read, and takes over what the files of memory still have."
            )
        for place in places:
            try:
                list(self._files(place, self.view()))
            except MemoryRefused as error:
                texts.append(str(error))
        return [Notice(text=text) for text in texts]

    def _mend_log(self) -> list[Notice]:
        damage = self.log.damage()
        if not damage:
            return []
        draft = self.draft(DAMAGE, Author("recovered"))
        self.log.append([replace(draft, reason=str(damage))])
        aside = self.log.mend()
        where = f" They are kept in {aside}." if aside else ""
        text = (
            f"{self.log.path} is damaged: {damage}.{where} What only the files of memory have "
            "was taken over from them, and nothing else was lost."
        )
        return [Notice(text=text)]

    def _follow(self, name: str, place: str) -> str:
        """Brings a file and the log together; says what a person or a damage changed, "" for
        nothing."""
        view, format = self.view(), self.layout.format_of(place)
        text, recorded = self.read_text(name), view.fingerprints.get(name, "")
        is_unsure = view.is_doubtful(name) and bool(text)
        if format is None or (fingerprint(text or "") == recorded and not is_unsure):
            return ""
        file = PlaceFile(name=name, place=place, format=format, text=text)
        id, before = view.before.get(name, ("", ""))
        is_unfinished = bool(id) and self._prepared(id, name).exists()
        if is_unfinished and fingerprint(text or "") == before:
            self._publish(id, name)
            return ""
        old = view
        if is_unfinished:  # the file was edited before the change reached it
            old = fold([change for change in self.log.changes() if change.id != id])
        edit = Difference() if text is None else diff(format, self._wanted(file, old), text)
        change = self._edit(edit, file, view)
        after = view.with_changes([change])
        texts = {
            other.name: (
                other.text or "",
                self._rendered(other, other.text or "", after, view, old),
            )
            for other in self._files(place, view, after)
            if other.text is not None or other.name == name
        }
        files = {name: (recorded, fingerprint(texts[name][1]))}
        changed = {key: both for key, both in texts.items() if both[0] != both[1]}
        self._write([replace(change, files=files)], changed)
        return self._said(change, name)

    def _edit(self, edit: Difference, file: PlaceFile, view: View) -> Change:
        """The change that a file shows."""
        is_doubtful = view.is_doubtful(file.name)
        author = Author("recovered" if is_doubtful else "user")
        draft = self.draft(RESTORE if is_doubtful else EDIT, author)
        present = {statement.text for statement in view.in_place(file.place)}
        gone = () if is_doubtful else edit.gone
        ended = {old.id for old in gone if (entry := view.entries.get(old.id)) and entry.is_alive}
        added = list[Statement]()
        for text in edit.new:
            if text in present:
                continue
            older = edit.versions.get(text)
            replaces = (older.id,) if older and older.id in ended else ()
            added.append(self.new_statement(author, file.place, text, replaces=replaces))
        if not added and not ended:
            draft = replace(draft, kind=RESTORE if file.text is None else LAYOUT)
        return replace(draft, add=tuple(added), end=tuple(sorted(ended)))

    def _said(self, change: Change, name: str) -> str:
        label = self.layout.label(name)
        match change.kind:
            case "layout":
                return ""
            case "restore" if not change.add:
                return f"{label} was missing or damaged and was written again from the history."
            case "restore":
                entries = plural(len(change.add), "entry", "entries")
                return f"{label} had {entries} that the history has lost."
        return (
            f"{label} was edited: {len(change.add)} new, {len(change.end)} withdrawn · undo with: "
            f"{UNDO} {change.id}"
        )

    def _remove_unused(self) -> None:
        """Removes what was prepared for changes that were never made, or have reached their file:
        the file of a finished change could else not be given its older text again."""
        for path in self.root.glob(".*-*"):
            match = _PREPARED.fullmatch(path.name)
            if match and not self._is_unfinished(match[1], path):
                durable.remove(path)

    def _is_unfinished(self, id: str, prepared: Path) -> bool:
        """Whether a file still has to be given the text that was prepared for a change."""
        view, change = self.view(), self.log.change(id)
        for name in change.files if change else ():
            if self._prepared(id, name) == prepared and view.before[name][0] == id:
                with contextlib.suppress(MemoryRefused):
                    return fingerprint(self.read_text(name) or "") != view.fingerprints[name]
                return True
        return False


def _matches(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) and name.count("/") == pattern.count("/")
