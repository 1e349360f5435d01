"""Saves what kode changes in files, and takes it back turn by turn.

What a step changes is on disk before it happens: the contents in `store`, the plan in `journal`. A
command on the host is surveyed (`outside`). An undo is a step too, with a known goal: to finish one
that was cut short is to apply it again.
"""

import asyncio
import contextlib
import errno
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

from kode import beneath, durable, paths
from kode.credentials import redact
from kode.errors import StorageError
from kode.events import Emit, Notice, silent
from kode.git import git_record
from kode.undo import outside
from kode.undo.journal import History, Journal, Step, TurnId, drop_parents, way_back
from kode.undo.outside import RunningStep
from kode.undo.store import FOLDER, WHY_NOT_SAVED, Contents, Seen, is_digest
from kode.workplace import GitFolder

_PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO})
"""Errors after which the same may succeed; any other leaves the file alone."""

_CHANGED_SINCE = "it has changed since"


@dataclass(frozen=True, kw_only=True)
class Undone:
    """What an undo or a redo did. Paths are absolute."""

    history: History
    """What can be undone and redone now."""
    step: Step | None = None
    """None: there was nothing to do."""
    redo: bool = False
    resumed: bool = False
    """Whether it had begun before, and was cut short."""
    left_alone: tuple[tuple[str, str], ...] = ()
    """(path, why)."""
    failed: tuple[tuple[str, str], ...] = ()
    """(path, why): these have still to be done, by doing it again."""

    @property
    def turn(self) -> int | None:
        """The number of the turn."""
        return None if self.step is None else self.step.turn.number

    @property
    def touched(self) -> dict[str, Seen]:
        """The files that it restored, then those that it removed, with what is there now."""
        after = self.step.after or {} if self.step is not None else {}
        restored_first = sorted(drop_parents(after), key=lambda path: after[path].state is None)
        return {path: after[path] for path in restored_first}

    @property
    def heads(self) -> list[str]:
        """Where branches or HEAD were before an undone turn: see `Step`."""
        step, groups = self.step, self.history.groups
        undone = (it for it in groups if step and (step.kind, step.of) == ("undo", it.steps[0].id))
        return [*dict.fromkeys(head for group in undone for head in group.heads)]


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
    emit: Emit = silent
    marker: Path | None = None
    """A file that is there from the beginning of an undo or a redo until the session has an entry
    about it: what says, after a crash, that there is something left to do. See `finish`."""
    close: Callable[[], None] = lambda: None
    """Removes the folder of a session without a file."""
    changed_by_commands: list[str] = field(default_factory=list)
    """Files, and folders made as one, ignored ones too, until somebody takes them."""

    @property
    def journal(self) -> Journal:
        return Journal(self.folder / "journal.jsonl")

    def history(self) -> History:
        """What can be undone and redone. Raises: StorageError."""
        return self.journal.history()

    # ── changes ──────────────────────────────────────────────────────────────────────────────

    def step(self, files: Sequence[str]) -> AbstractAsyncContextManager[RunningStep]:
        """Wraps changes of exactly these files: saves what is there, except for what is in
        `not_saved`, and notes what is there afterwards."""
        return self._run(partial(self.begin, self.turn(), files))

    def outside(self, writes: Sequence[str]) -> AbstractAsyncContextManager[RunningStep]:
        """Wraps a command on the host, which is known to write these paths, and perhaps more: saves
        what it may lose, notes what it did, and tells the person what could not be saved."""
        return self._run(partial(self.begin, self.turn(), writes=writes))

    @contextlib.asynccontextmanager
    async def _run(self, begin: Callable[[], RunningStep]) -> AsyncIterator[RunningStep]:
        beginning = asyncio.ensure_future(asyncio.to_thread(begin))
        try:
            step = await asyncio.shield(beginning)
            if step.surveys and (step.problem or step.not_saved):
                self.emit(Notice(text=step.describe()))
            yield step
        finally:  # if it was cancelled meanwhile, too: half a step is none
            step = await beginning
            problem = step.problem
            try:
                await asyncio.to_thread(self.end, step)
            except StorageError as error:
                self.emit(Notice(text=str(error), level="error"))
        if step.problem != problem:
            self.emit(Notice(text=f"/undo may not restore all that it changed ({step.problem})."))

    async def describe(self, writes: Sequence[str]) -> str:
        """Saves what a command on the host may lose; returns a sentence about it for the
        permission question."""
        return (await asyncio.to_thread(self._survey, self.turn(), writes)).describe()

    def _survey(self, turn: TurnId, writes: Sequence[str]) -> RunningStep:
        step = RunningStep(turn=turn)
        trees = (Path(folder.worktree) for folder in self.git if folder.worktree)
        inner = (tree for tree in trees if any(map(tree.is_relative_to, self.roots)))
        outside.save_trees(self.contents, step, writes, [*self.roots, *inner])
        return step

    def begin(
        self, turn: TurnId, files: Sequence[str] = (), *, writes: Sequence[str] | None = None
    ) -> RunningStep:
        """Before these files change, or a command runs on the host that is known to write `writes`:
        saves what is there, of files that are sure to change large ones too. Never raises:
        `problem` says what could not be saved."""
        if writes is not None:
            step = self._survey(turn, writes)
        else:
            step = RunningStep(turn=turn)
            outside.save_files(self.contents, step, files, self.contents.max_bytes // 2)
        try:
            # On disk before the change, so that a crash in the middle can be undone too.
            if step.before:
                self.journal.begin(step)
        except StorageError as error:
            step.problem = step.problem or str(error)
        return step

    def end(self, step: RunningStep) -> None:
        """Notes what a step has changed. Raises: StorageError."""
        is_announced = bool(step.before)
        more = outside.find_changes(self.contents, step)
        if not (is_announced or step.after or step.heads):
            return
        if not is_announced:
            self.journal.begin(step)
        self.journal.end(step, more)
        if step.surveys:
            after = step.after or {}
            files = (path for path in drop_parents(after) if after[path].state != FOLDER)
            self.changed_by_commands += [path for path in files if not git_record(self.git, path)]

    def remove_stale_temporaries(self) -> None:
        """Removes what a cut-short write left beside the person's files. Never raises."""
        with contextlib.suppress(StorageError):
            for step in self.history().steps:
                if step.after is None:
                    _remove_temporaries_beside(step)

    # ── the way back ─────────────────────────────────────────────────────────────────────────

    def undo(self) -> Undone:
        """Takes back the newest turn that changed files and is not undone: every file that nobody
        has changed since. Doing it again takes back the turn before. Raises: StorageError."""
        return self._take_back("undo")

    def redo(self) -> Undone:
        """Brings back the turn that was undone last. Raises: StorageError."""
        return self._take_back("redo")

    def confirm(self) -> None:
        """The session has its entry about the last undo: a next start has nothing to do. Raises:
        StorageError."""
        if self.marker is not None:
            durable.remove(self.marker)

    def finish(self) -> Undone | None:
        """Completes an undo or a redo that a crash or a full disk has cut short, or reports one
        that the session may not know of; None if there is none. Files that somebody has changed
        since are left alone. Raises: StorageError."""
        past = self.history()
        if (step := past.last) is None:
            return None
        if step.after is None:
            _remove_temporaries_beside(step)
            return self._apply(step, resumed=True)
        is_marked = self.marker is not None and self.marker.exists()
        redo = step.kind == "redo"
        return Undone(history=past, step=step, redo=redo, resumed=True) if is_marked else None

    def _take_back(self, kind: Literal["undo", "redo"]) -> Undone:
        finished = self.finish()
        if finished is not None and finished.redo == (kind == "redo"):
            return finished
        past = self.history()
        groups = past.undone if kind == "redo" else past.standing
        if not groups or (past.last is not None and past.last.after is None):
            return finished or Undone(history=past, redo=kind == "redo")
        group = groups[-1]
        step = Step(turn=group.turn, kind=kind, of=group.steps[0].id)
        left = []
        for path, changes in (group.files if kind == "undo" else group.last_undo).items():
            now = self.contents.see(path)
            goal, is_known = way_back(changes, now)
            last = changes[-1].after or now
            is_other_mode = now.mode == last.mode != goal.mode and now.state is not None
            if is_known and goal.state == now.state and not is_other_mode:
                continue
            why = WHY_NOT_SAVED.get(now.state) or self.contents.why_not_restorable(goal.state)
            if is_known and not why:
                step.goal[path] = goal
            else:
                left.append((path, why if is_known else _CHANGED_SINCE))
        for path, seen in self.contents.save(step.goal).items():
            if isinstance(seen, StorageError):
                raise seen
            step.before[path] = seen
        if self.marker is not None:
            durable.make_folder(self.marker.parent)
            durable.replace(self.marker, b"")
        self.journal.begin(step)
        return self._apply(step, left)

    def _apply(
        self, step: Step, left: Sequence[tuple[str, str]] = (), *, resumed: bool = False
    ) -> Undone:
        """Changes the files as planned, durably; nothing is lost if it is killed in between.
        Removals come first, folders after what was in them, so that a folder may replace a file and
        the reverse; then folders and links, so that no file is written through a link that is being
        removed."""
        why_left: dict[str, str] = {}
        failed: dict[str, str] = {}

        def change(path: str) -> None:
            try:
                if why := change_file(self.contents, path, step.before[path], step.goal[path]):
                    why_left[path] = why
            except (StorageError, OSError) as error:
                cause = error.__cause__ if isinstance(error, StorageError) else error
                is_passing = isinstance(cause, OSError) and cause.errno in _PASSING
                (failed if is_passing else why_left)[path] = str(error)

        def rank(path: str) -> int:
            goal = step.goal[path].state
            if goal is None:
                return 1 if step.before[path].state == FOLDER else 0
            return 3 if is_digest(goal) else 2

        ranks = [[path for path in sorted(step.goal) if rank(path) == n] for n in range(4)]
        durable.for_each(change, ranks[0])
        for path in (*reversed(ranks[1]), *ranks[2]):
            change(path)
            if path in why_left and any(other.startswith(f"{path}/") for other in failed):
                failed[path] = why_left.pop(path)
        durable.for_each(change, ranks[3])
        changed = {path: goal for path, goal in step.goal.items() if path not in why_left | failed}
        for folder in {os.path.dirname(path) for path in changed}:
            try:
                durable.sync_folder(Path(folder))
            except (FileNotFoundError, NotADirectoryError):
                continue  # removed together with its contents
            except OSError as error:
                failed |= {path: str(error) for path in changed if os.path.dirname(path) == folder}
        step.after = {path: goal for path, goal in changed.items() if path not in failed}
        if not failed:
            # Without this line the next start looks at the same files, and finds all done.
            with contextlib.suppress(StorageError):
                self.journal.end(step, {})
        return Undone(
            history=self.history(),
            step=step,
            redo=step.kind == "redo",
            resumed=resumed,
            left_alone=(*left, *why_left.items()),
            failed=tuple(failed.items()),
        )


def _remove_temporaries_beside(step: Step) -> None:
    for folder in {Path(path).parent for path in step.before}:
        durable.remove_stale_temporaries(folder)


def change_file(contents: Contents, path: str, was: Seen, goal: Seen) -> str:
    """Changes one file as planned, unless that is done; returns why it was left, or "". Its folder
    is not synced yet. Raises: StorageError, OSError."""
    folder = os.path.dirname(path)
    if paths.real_path(folder) != folder:
        return "its folder is a link now"
    now = contents.see(path)
    if now.state == goal.state and (now.mode == goal.mode or goal.state not in (was.state, FOLDER)):
        return ""
    # A kill may have come after a folder went, and before something else came, or the reverse.
    is_between = now.state is None and FOLDER in (was.state, goal.state)
    if now.state not in (was.state, goal.state) and not is_between:
        return _CHANGED_SINCE
    if now.state == FOLDER and goal.state is None:
        try:
            beneath.remove_folder(Path(path))
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            return "it holds something else"
        return ""
    contents.restore(Path(path), goal.state, goal.mode)
    return ""


class FileChanges:
    """What the turns of a session changed in files, for reading alone."""

    def __init__(self, session_folder: Path | None = None) -> None:
        """The record beside a session; empty if there is none. Raises: StorageError."""
        undo = open_undo(paths.undo_folder(session_folder or Path(os.devnull)))
        self._contents = undo.contents
        self.groups = undo.history().groups if session_folder else ()

    def before(self, turn: int, path: str) -> str:
        """A file's content before its first change in a turn, credentials masked; "" if unknown."""
        for group in self.groups:
            if group.turn.number == turn and path in group.files:
                data = self._contents.data(group.files[path][0].before.state or "") or b""
                return redact(data.decode("utf-8", "replace"))
        return ""


def check_undo(folder: Path, *, repair: bool) -> list[str]:
    """A plain sentence for each damage of the undo data in a folder; with `repair` what is damaged
    is set aside. Raises: StorageError."""
    undo = open_undo(folder)
    faults = undo.journal.check(repair=repair)
    for damaged in undo.contents.damaged():
        aside = f" It is kept as {durable.set_aside(damaged).name}." if repair else ""
        faults.append(f"{damaged}, a content kept for undo, is damaged.{aside}")
    return faults


def open_undo(folder: Path, *, max_file_bytes: int = 0, max_bytes: int = 0) -> Undo:
    """The undo data in a folder; the limits matter only to who saves something."""
    return Undo(folder, Contents(folder / "contents", max_file_bytes, max_bytes))
