"""Saves files before kode changes them, and takes the changes back turn by turn.

What a step changes is on disk before it happens: the contents in `store`, the plan in `journal`. A
command on the host is surveyed (`outside`). An undo is a step too, with a known goal: to finish one
that was cut short is to apply it again.
"""

import asyncio
import contextlib
import errno
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from kode import durable, paths
from kode.credentials import redact
from kode.errors import StorageError
from kode.events import Emit, Notice, no_emit
from kode.git import git_record
from kode.messages import cut_list, plural
from kode.plain_text import unified_diff
from kode.undo import journal, outside
from kode.undo.journal import History, Step, TurnId, drop_parents, find_restore_state
from kode.undo.store import FOLDER, LINK, WHY_NOT_SAVED, Contents, Seen, State, is_digest
from kode.values import Value, dataclass, field
from kode.workplace import GitFolder

Paths = Sequence[str]

_PASSING = frozenset({errno.ENOSPC, errno.EDQUOT})
"""A full disk or quota stops an undo, which can go on later; other errors skip one file."""

MAX_NAMED = 40  # files of a kind; the rest are only counted
MAX_COMPARED_LINES = 20_000  # no diff is made of a longer file

_CHANGED_SINCE = "it has changed since"


class UndoResult(Value):
    """What an undo or a redo did. Paths are absolute."""

    history: History
    """What can be undone and redone now."""
    step: Step
    """Its `of` is "" if there was nothing to do."""
    is_continued: bool = False
    """Whether it had begun before, and was cut short."""
    left_alone: tuple[tuple[str, str], ...] = ()
    """(path, why) of each file that was not changed."""

    @property
    def turn(self) -> int | None:
        """The number of the turn; None if there was nothing to do."""
        return self.step.turn.number if self.step.of else None

    @property
    def changed_files(self) -> dict[str, Seen]:
        """The files that it restored or removed, with what is there now."""
        after = self.step.after or {}
        return {path: after[path] for path in drop_parents(after)}


@dataclass
class Undo:
    """The changes of one session; its folder is created when the first file is saved."""

    folder: Path
    contents: Contents
    roots: tuple[Path, ...] = ()
    """The working folders."""
    git: tuple[GitFolder, ...] = ()
    turn: Callable[[], TurnId] = lambda: TurnId("", 0)
    """The running turn; for a subagent, its parent's."""
    emit: Emit = no_emit
    marker: Path | None = None
    """A file that is there from when an undo begins until the session has an entry about it."""
    close: Callable[[], None] = lambda: None
    """Removes the folder of a session without a file."""
    changed_by_commands: list[str] = field(default_factory=list)
    """What commands have changed, ignored files too, until a caller empties the list."""

    @property
    def journal(self) -> Path:
        return self.folder / "journal.jsonl"

    def history(self) -> History:
        """Reads from the journal what can be undone and redone. Raises: StorageError."""
        return journal.read_history(self.journal)

    def check(self, *, repair: bool) -> list[str]:
        """A plain sentence for each damage; `repair` sets it aside. Raises: StorageError."""
        faults = journal.check_journal(self.journal, repair=repair)
        return faults + self.contents.check(repair=repair)

    @contextlib.asynccontextmanager
    async def step(self, files: Paths = (), *, writes: Paths | None = None) -> AsyncIterator[Step]:
        """Runs a block between `begin` and `end`; tells the person if undo may not restore all."""
        begin = asyncio.to_thread(self.begin, self.turn(), files, writes=writes)
        beginning = asyncio.ensure_future(begin)
        try:
            yield await asyncio.shield(beginning)
        finally:  # even if it was cancelled: every step that has begun must end
            step, fault = await beginning, ""
            try:
                await asyncio.to_thread(self.end, step)
            except StorageError as error:
                fault = str(error)
            if step.surveys and (step.problem or step.not_saved):
                fault = step.problem or f"{plural(len(step.not_saved), 'file')} too large"
            if fault:
                self.emit(Notice(text=f"/undo may not restore all that it changed ({fault})."))

    def begin(self, turn: TurnId, files: Paths = (), *, writes: Paths | None = None) -> Step:
        """Saves what is there before `files` change or, with `writes`, before a command runs on the
        host that is known to write those and may write more. For `files` the size limit is higher.
        Never raises: `problem` and `not_saved` say what could not be saved."""
        step, limit = Step(turn=turn), self.contents.max_bytes // 2
        if writes is not None:
            trees = (Path(folder.worktree) for folder in self.git if folder.worktree)
            inner = (tree for tree in trees if any(map(tree.is_relative_to, self.roots)))
            limit = self.contents.max_file_bytes
            files = outside.find_files_at_risk(step, writes, [*self.roots, *inner])
        try:
            outside.save_files(self.contents, step, files, limit)
            # On disk before the change, so that a crash in the middle can be undone too.
            if step.before:
                journal.write_step(self.journal, step)
        except StorageError as error:
            step.problem = step.problem or str(error)
            step.not_saved |= {*files}
            step.before.clear()
        return step

    def end(self, step: Step) -> None:
        """Finds what a step has changed, and writes it to the journal. Raises: StorageError."""
        is_announced = bool(step.before)
        outside.record_changes(self.contents, step)
        if is_announced or step.after or step.heads:
            journal.write_step(self.journal, step)
        if step.surveys and step.after:
            files = drop_parents(p for p, seen in step.after.items() if seen.state != FOLDER)
            self.changed_by_commands += [path for path in files if not git_record(self.git, path)]

    def remove_stale_temporaries(self) -> None:
        """Removes temporary files of interrupted writes beside the person's. Never raises."""
        with contextlib.suppress(StorageError):
            cut = [step for step in self.history().steps if step.after is None]
            for folder in {Path(path).parent for step in cut for path in step.before}:
                durable.remove_stale_temporaries(folder)

    def undo(self) -> UndoResult:
        """Undoes the newest turn that changed files and is not undone, except files that somebody
        changed since. Another call undoes the turn before. Raises: StorageError."""
        return self._undo_or_redo("undo")

    def redo(self) -> UndoResult:
        """Brings back the turn that was undone last. Raises: StorageError."""
        return self._undo_or_redo("redo")

    def confirm(self) -> None:
        """Removes the marker: the session has its entry about the undo. Raises: StorageError."""
        if self.marker is not None:
            durable.remove(self.marker)

    def finish(self) -> UndoResult | None:
        """Completes an undo or a redo that a crash or a full disk has cut short, or returns one
        that the session may not know of; None if there is none. Files that somebody has changed
        since are left alone. Raises: StorageError."""
        past = self.history()
        step, is_marked = past.last, self.marker is not None and self.marker.exists()
        if step is not None and step.after is None:
            self.remove_stale_temporaries()
            return self._apply_step(step, is_continued=True)
        if step is None or not is_marked:
            return None
        return UndoResult(history=past, step=step, is_continued=True)

    def _undo_or_redo(self, kind: Literal["undo", "redo"]) -> UndoResult:
        finished = self.finish()
        if finished is not None and finished.step.kind == kind:
            return finished
        past = self.history()
        groups = past.redoable if kind == "redo" else past.undoable
        if not groups:
            return finished or UndoResult(history=past, step=Step(turn=TurnId("", 0), kind=kind))
        group = groups[-1]
        heads = group.heads if kind == "undo" else []
        step = Step(turn=group.turn, kind=kind, of=group.first, heads=heads)
        left = {}
        for path, changes in (group.files if kind == "undo" else group.last_undo).items():
            now = self.contents.read_state(path)
            goal = find_restore_state(changes, now)
            if goal is None:
                left[path] = _CHANGED_SINCE
            elif goal != now:
                why = WHY_NOT_SAVED.get(now.state) or self.contents.explain_unrestorable(goal.state)
                if why:
                    left[path] = why
                else:
                    step.goal[path] = goal
        step.before = self.contents.save(step.goal)
        if self.marker is not None:
            durable.make_folder(self.marker.parent)
            durable.replace_file(self.marker, b"")
        journal.write_step(self.journal, step)
        return self._apply_step(step, left)

    def _apply_step(
        self, step: Step, left: Mapping[str, str] = {}, *, is_continued: bool = False
    ) -> UndoResult:
        """Changes the files as planned, durably; nothing is lost if it is killed in between.
        Removals come first, folders after what was in them, so that a folder may replace a file and
        the reverse; then folders and links, so that no file is written through a link that is being
        removed."""
        why_left = {**left}

        def change(path: str) -> None:
            try:
                if why := change_file(self.contents, path, step.before[path], step.goal[path]):
                    why_left[path] = why
            except (StorageError, OSError) as error:
                cause = error.__cause__ if isinstance(error, StorageError) else error
                if isinstance(cause, OSError) and cause.errno in _PASSING:
                    raise StorageError(f"{error} Then `/{step.kind}` goes on.") from error
                why_left[path] = str(error)

        files = [path for path in sorted(step.goal) if is_digest(step.goal[path].state)]
        gone = [path for path in sorted(step.goal, reverse=True) if step.goal[path].state is None]
        for path in (*gone, *sorted(step.goal.keys() - {*files, *gone})):
            change(path)
        durable.map_in_threads(change, files)
        step.after = {path: goal for path, goal in step.goal.items() if path not in why_left}
        for folder in {Path(path).parent for path in step.after}:
            with durable.storage_errors(folder, "make durable"):
                # Not there: it was removed together with its contents.
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    durable.sync_folder(folder)
        journal.write_step(self.journal, step)
        past, left_alone = self.history(), tuple(why_left.items())
        return UndoResult(history=past, step=step, is_continued=is_continued, left_alone=left_alone)


def change_file(contents: Contents, path: str, was: Seen, goal: Seen) -> str:
    """Changes one file as planned, unless it is so; returns why it was left, or "". Its folder
    is not synced yet. Raises: StorageError, OSError."""
    folder = os.path.dirname(path)
    if paths.real_path(folder) != folder:
        return "its folder is a link now"
    now = contents.read_state(path)
    if now.state == goal.state and (now.mode == goal.mode or goal.state not in (was.state, FOLDER)):
        return ""
    # A kill may have come after a folder was removed, and before its replacement was there.
    is_between = now.state is None and FOLDER in (was.state, goal.state)
    if now.state not in (was.state, goal.state) and not is_between:
        return _CHANGED_SINCE
    try:
        contents.restore(Path(path), goal.state, goal.mode)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return "it holds something else"
    return ""


class FileChanges:
    """What the turns of a session changed in files; read only."""

    def __init__(self, session_folder: Path | None = None) -> None:
        """The record beside a session; empty if there is none. Raises: StorageError."""
        undo = open_undo(paths.undo_folder(session_folder or Path(os.devnull)))
        self._contents = undo.contents
        self.groups = undo.history().groups if session_folder else ()

    def before(self, turn: int, path: str) -> str:
        """A file's content before its first change in a turn, credentials masked; "" if unknown."""
        for group in self.groups:
            if group.turn.number == turn and path in group.files:
                data = self._contents.read_saved(group.files[path][0].before.state or "") or b""
                return redact(data.decode("utf-8", "replace"))
        return ""


def open_undo(folder: Path, *, max_file_bytes: int = 0, max_bytes: int = 0) -> Undo:
    """Opens the undo data in a folder; the limits matter only to a caller that saves."""
    return Undo(folder, Contents(folder / "contents", max_file_bytes, max_bytes))


def describe_undo(undone: UndoResult, cwd: Path, prompt: str) -> str:
    """Tells a person the turn, which began with `prompt`, each file, and what they can do next."""
    past, verb = undone.history, "reapplied" if undone.step.kind == "redo" else "restored"
    names = [
        (paths.relative_path(path, cwd), seen.state) for path, seen in undone.changed_files.items()
    ]
    lines = [_make_heading(undone, prompt)]
    for files in (
        [f"{verb} {name}" for name, state in names if state is not None],
        [f"removed {name}" for name, state in names if state is None],
        [f"left alone {paths.relative_path(path, cwd)}: {why}" for path, why in undone.left_alone],
        [f"{head} and is not moved back." for head in undone.step.heads],
    ):
        lines += cut_list(files, MAX_NAMED)
    if past.damaged:
        lost = f"{plural(past.damaged, 'part')} of the session's record of changes damaged or lost"
        lines.append(f"{lost}: files that only they named are left as they are.")
    if undone.turn is not None:
        ways = [f"`/undo` undoes turn {group.turn.number}" for group in past.undoable[-1:]]
        ways += [f"`/redo` reapplies turn {group.turn.number}" for group in past.redoable[-1:]]
        lines.append("; ".join(ways) + ".")
    return "\n".join(lines)


def _make_heading(undone: UndoResult, prompt: str) -> str:
    if undone.turn is None:
        if undone.step.kind == "redo":
            return "Nothing to redo."
        if undone.history.redoable:
            return "Nothing more to undo. `/redo` reapplies what was undone."
        return "Nothing to undo: no turn of this session has changed a file."
    verb = "Redid" if undone.step.kind == "redo" else "Undid"
    about = f"turn {undone.turn}" + (f" ({prompt})" if prompt else "")
    if undone.is_continued:
        return f"{verb} the rest of {about}, which had been cut short"
    is_nothing = bool(undone.left_alone) and not undone.changed_files
    return f"{verb} nothing of {about}" if is_nothing else f"{verb} {about}"


class FileDiff(Value):
    """What a session has changed in one file, against its first content."""

    path: str
    text: str
    """A unified diff, or a line that says why there is none."""

    def count(self, sign: str) -> int:
        """How many lines were added, "+", or removed, "-"."""
        return sum(line.startswith(sign) for line in self.text.splitlines()[2:])


def file_diffs(undo: Undo, cwd: Path) -> list[FileDiff]:
    """One diff per changed file, except undone changes; files inside `cwd` get relative names."""
    diffs, first = [], dict[str, State]()
    for group in undo.history().undoable:
        for path, changes in group.files.items():
            first.setdefault(path, changes[0].before.state)
    for path, before in first.items():
        (now, _), data = undo.contents.read_with_data(path)
        if before == now or {before, now} <= {None, FOLDER}:
            continue
        name = paths.relative_path(path, cwd)
        old, new = _decode_text(before, undo.contents.read_saved(before)), _decode_text(now, data)
        text = "" if old is None or new is None else unified_diff(name, old, new)
        text = text or f"{name}: changed; too large, or no text, to compare\n"
        diffs.append(FileDiff(path=name, text=text))
    return diffs


def _decode_text(state: State, data: bytes | None) -> str | None:
    """The text of a state with this content; None if it is not text or too long."""
    if state is None or state.startswith(LINK):
        return f"{state}\n" if state else ""
    is_long = data is None or data.count(b"\n") > MAX_COMPARED_LINES
    if data is None or is_long or not is_digest(state) or b"\0" in data[:8192]:
        return None
    return data.decode("utf-8", "replace")
