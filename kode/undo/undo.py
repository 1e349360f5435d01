"""Saves what kode changes in files, and takes it back turn by turn.

What a step changes is on disk before it happens: the contents in `store`, the plan in `journal`. A
command on the host is surveyed (`outside`). An undo is a step too, with a known goal.
"""

import asyncio
import contextlib
import errno
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from kode import beneath, durable, paths
from kode.credentials import redact
from kode.errors import GitError, StorageError
from kode.events import Emit, Notice, silent
from kode.git import git_record
from kode.undo import outside
from kode.undo.journal import (
    Change,
    Done,
    Group,
    History,
    Journal,
    RepositoryChange,
    Step,
    TurnId,
    history,
    way_back,
)
from kode.undo.outside import Backup
from kode.undo.store import FOLDER, WHY_NOT_SAVED, Contents, Seen, is_digest
from kode.workplace import GitFolder

_PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO})
"""Errors after which the same may succeed; any other leaves the file alone."""

STASHES_STAY = "Stashes and commits stay as they are."


@dataclass(frozen=True, kw_only=True)
class Undone:
    """What an undo or a redo did. Paths are absolute."""

    turn: int | None = None
    """The number of the turn; None: there was nothing to do."""
    message: str = ""
    """The id of the message that began the turn."""
    step: str = ""
    """The id of the step."""
    redo: bool = False
    resumed: bool = False
    """Whether it had begun before, and was cut short."""
    restored: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    """Files that were not there before."""
    left_alone: tuple[tuple[str, str], ...] = ()
    """(path, why)."""
    failed: tuple[tuple[str, str], ...] = ()
    """(path, why): these have still to be done, by doing it again."""
    notes: tuple[str, ...] = ()
    """What else there is to know, each a sentence."""
    next_undo: int | None = None
    """The turn that another undo takes back."""
    next_redo: int | None = None
    """The turn that a redo brings back."""
    damaged: int = 0
    """Lines of the journal that could not be read."""
    lost_bytes: int = 0
    """Of the journal, where it was cut: what they named is left as it is."""

    @property
    def touched(self) -> tuple[str, ...]:
        return (*self.restored, *self.removed)


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
        return history(self.journal.read())

    # ── changes ──────────────────────────────────────────────────────────────────────────────

    @contextlib.asynccontextmanager
    async def step(self, files: Sequence[str]) -> AsyncIterator[Backup]:
        """Wraps changes of exactly these files: saves what is there, except for what is in
        `not_saved`, and notes what is there afterwards."""
        async with self._run(lambda: self.begin(self.turn(), files)) as backup:
            yield backup

    @contextlib.asynccontextmanager
    async def outside(self, writes: Sequence[str]) -> AsyncIterator[None]:
        """Wraps a command on the host, which is known to write these paths, and perhaps more: saves
        what it may lose, and notes what it did."""
        async with self._run(lambda: self.begin_outside(self.turn(), writes)) as backup:
            if backup.problem or backup.not_saved:
                self.emit(Notice(text=backup.describe()))
            yield

    @contextlib.asynccontextmanager
    async def _run(self, begin: Callable[[], Backup]) -> AsyncIterator[Backup]:
        backups: list[Backup] = []
        try:
            await _in_thread(lambda: backups.append(begin()))
            yield backups[0]
        finally:
            try:
                for backup in backups:
                    await _in_thread(partial(self.end, backup))
            except StorageError as error:
                self.emit(Notice(text=str(error), level="error"))

    async def describe(self, writes: Sequence[str]) -> str:
        """Saves what a command on the host may lose; returns a sentence about it for the
        permission question."""
        backup = await asyncio.to_thread(self._save_trees, self.turn(), writes)
        return backup.describe()

    def begin(self, turn: TurnId, files: Sequence[str]) -> Backup:
        """Before these files change: saves them, large ones too, since each is sure to change.
        Never raises: `problem` says what could not be saved."""
        limit = self.contents.max_bytes // 2
        return self._announce(outside.save_files(self.contents, Step(turn=turn), files, limit))

    def begin_outside(self, turn: TurnId, writes: Sequence[str]) -> Backup:
        """Before a command runs on the host: saves what it may lose. Never raises."""
        return self._announce(self._save_trees(turn, writes))

    def _save_trees(self, turn: TurnId, writes: Sequence[str]) -> Backup:
        trees = [Path(folder.worktree) for folder in self.git if folder.worktree]
        submodules = [tree for tree in trees if any(map(tree.is_relative_to, self.roots))]
        trees = [*self.roots, *submodules]
        return outside.save_trees(self.contents, Step(turn=turn), writes, trees)

    def _announce(self, backup: Backup) -> Backup:
        try:
            # On disk before the change, so that a crash in the middle can be undone too.
            if backup.step.before:
                self.journal.append(backup.step)
        except StorageError as error:
            return replace(backup, problem=backup.problem or str(error))
        return backup

    def end(self, backup: Backup) -> None:
        """Notes what a step has changed. Raises: StorageError."""
        done = outside.find_changes(self.contents, backup)
        if backup.step.before:
            self.journal.append(done)
        elif done.after or done.repositories:
            self.journal.append(backup.step, done)
        if backup.surveys:
            files = [path for path, seen in done.after.items() if seen.state != FOLDER]
            self.changed_by_commands += [path for path in files if not git_record(self.git, path)]

    def remove_stale_temporaries(self) -> None:
        """Removes what a write that a crash cut short left beside the person's files."""
        paths = (path for step in self.history().unfinished for path in step.before)
        for folder in {Path(path).parent for path in paths}:
            durable.remove_stale_temporaries(folder)

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
        step = self.history().last
        if step is None or step.after is not None:
            is_marked = self.marker is not None and self.marker.exists()
            return self._report(step, resumed=True) if step and is_marked else None
        for folder in {Path(path).parent for path in step.before}:
            durable.remove_stale_temporaries(folder)
        plan, there = _Plan(), dict[str, Seen]()
        for path, was in step.before.items():
            now, goal = self.contents.see(path), step.goal[path]
            if (now.state == was.state and now != goal) or _is_between(now, was, goal):
                plan.goals[path] = goal
            elif now.state == goal.state:
                there[path] = goal
                if goal.state is None and path in step.folders:
                    plan.goals[path] = goal
            else:
                plan.left.append((path, "it has changed since"))
        return self._make(step, plan, there)

    def _take_back(self, kind: Literal["undo", "redo"]) -> Undone:
        finished = self.finish()
        if finished is not None and finished.redo == (kind == "redo"):
            return finished
        past = self.history()
        groups = past.undone if kind == "redo" else past.standing
        if not groups or (past.last is not None and past.last.after is None):
            return finished or self._report(None, redo=kind == "redo")
        group = groups[-1]
        plan = self._plan_redo(group) if kind == "redo" else self._plan_undo(group)
        step = Step(turn=group.turn, kind=kind, of=group.steps[0].id, goal=plan.goals)
        for path, seen in self.contents.save(plan.goals).items():
            if isinstance(seen, StorageError):
                raise seen
            step.before[path] = seen
        if kind == "undo":
            folders = {path: group.folders(path) for path in plan.goals}
            step.folders = {path: count for path, count in folders.items() if count}
        if self.marker is not None:
            durable.make_folder(self.marker.parent)
            durable.replace(self.marker, b"")
        self.journal.append(step)
        return self._make(step, plan)

    def _make(self, step: Step, plan: "_Plan", there: Mapping[str, Seen] | None = None) -> Undone:
        """Changes the files as planned; nothing is lost if it is killed in between. `there` are
        the goals that an earlier try has reached."""
        left, failed = change_files(self.contents, step, plan.goals)
        goals = plan.goals.items()
        step.after = {path: goal for path, goal in goals if path not in {**left, **failed}}
        step.after |= there or {}
        if not failed:
            # Without this line the next start looks at the same files, and finds all done.
            with contextlib.suppress(StorageError):
                self.journal.append(Done(step.id, {}, step.after))
        groups = (group for group in self.history().groups if group.steps[0].id == step.of)
        for change in (change for group in groups for change in group.repositories):
            plan.notes += _bring_back(change) if step.kind == "undo" else [STASHES_STAY]
        return self._report(
            step,
            resumed=there is not None,
            left_alone=(*plan.left, *left.items()),
            failed=tuple(failed.items()),
            notes=tuple(dict.fromkeys(plan.notes)),
        )

    def _report(self, step: Step | None, **more: Any) -> Undone:
        past, states = self.history(), {} if step is None else step.after or {}
        if step is not None:
            more |= {"turn": step.turn.number, "message": step.turn.id, "step": step.id}
            more["redo"] = step.kind == "redo"
        return Undone(
            **more,
            restored=tuple(path for path, seen in states.items() if seen.state is not None),
            removed=tuple(path for path, seen in states.items() if seen.state is None),
            next_undo=past.standing[-1].turn.number if past.standing else None,
            next_redo=past.undone[-1].turn.number if past.undone else None,
            damaged=past.damaged,
            lost_bytes=past.lost_bytes,
        )

    def _plan_undo(self, group: Group) -> "_Plan":
        plan = _Plan()
        for path, changes in group.files.items():
            if not any(change.has_effect for change in changes):
                continue
            now = self.contents.see(path)
            goal, is_known, is_whole = way_back(changes, now)
            if is_known and goal.state == now.state:
                last = changes[-1].after or now
                is_other_mode = now.mode == last.mode != goal.mode and now.state is not None
                # A kill may have come after some of its folders were made, and before it was.
                folders = Path(path).parents[: group.folders(path)]
                if not is_other_mode and (now.state or not any(map(_is_empty_folder, folders))):
                    continue
            self._plan_file(plan, path, now, goal, is_known=is_known)
            if path in plan.goals and not is_whole:
                plan.notes.append(f"{path} has your own edit from during the turn.")
        return plan

    def _plan_redo(self, group: Group) -> "_Plan":
        plan = _Plan()
        for path, (goal, left) in group.last_undo.items():
            now = self.contents.see(path)
            if now != goal and left is not None:
                self._plan_file(plan, path, now, goal, is_known=now.state == left.state)
        return plan

    def _plan_file(
        self, plan: "_Plan", path: str, now: Seen, goal: Seen, *, is_known: bool
    ) -> None:
        """`is_known`: whether what is there now is kode's doing."""
        if not is_known:
            plan.left.append((path, "it has changed since"))
        elif why := WHY_NOT_SAVED.get(goal.state) or WHY_NOT_SAVED.get(now.state):
            plan.left.append((path, why))
        elif is_digest(goal.state) and self.contents.data(str(goal.state)) is None:
            plan.left.append((path, self.contents.why_missing(str(goal.state))))
        else:
            plan.goals[path] = goal


@dataclass
class _Plan:
    """An undo or a redo, before it begins."""

    goals: dict[str, Seen] = field(default_factory=dict)
    left: list[tuple[str, str]] = field(default_factory=list)
    """See `Undone.left_alone`."""
    notes: list[str] = field(default_factory=list)


async def _in_thread(do: Callable[[], object]) -> None:
    """Runs it to its end, also if the caller is cancelled meanwhile: half a step is none. Raises:
    what it raises."""
    task = asyncio.ensure_future(asyncio.to_thread(do))
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def change_files(
    contents: Contents, step: Step, goals: Mapping[str, Seen]
) -> tuple[dict[str, str], dict[str, str]]:
    """Changes the files, durably; returns those that are left, and those that have still to be
    changed because the disk was full, each with the reason. Removals come first, folders after what
    was in them, so that a folder may replace a file and the reverse; then folders and links, so
    that no file is written through a link that is being removed."""
    left: dict[str, str] = {}
    failed: dict[str, str] = {}

    def change(path: str) -> None:
        try:
            if why := _change_file(contents, path, step.before[path], goals[path], step.folders):
                left[path] = why
        except (StorageError, OSError) as error:
            cause = error.__cause__ if isinstance(error, StorageError) else error
            is_passing = isinstance(cause, OSError) and cause.errno in _PASSING
            (failed if is_passing else left)[path] = str(error)

    gone = sorted(path for path, goal in goals.items() if goal.state is None)
    emptied = [path for path in reversed(gone) if step.before[path].state == FOLDER]
    there = sorted(goals.keys() - {*gone})
    files = [path for path in there if is_digest(goals[path].state)]
    durable.for_each(change, [path for path in gone if step.before[path].state != FOLDER])
    for path in (*emptied, *(path for path in there if not is_digest(goals[path].state))):
        change(path)
    durable.for_each(change, files)
    for folder in {os.path.dirname(path) for path in goals.keys() - left.keys() - failed.keys()}:
        try:
            durable.sync_folder(Path(folder))
        except (FileNotFoundError, NotADirectoryError):
            continue  # removed together with its contents
        except OSError as error:
            failed |= {path: str(error) for path in goals if os.path.dirname(path) == folder}
    return left, failed


def _change_file(
    contents: Contents, path: str, was: Seen, goal: Seen, folders: Mapping[str, int]
) -> str:
    """Changes one file; returns why it was left, or "". Its folder is not synced yet. Raises:
    StorageError, OSError."""
    folder = os.path.dirname(path)
    if paths.real_path(folder) != folder:
        return "its folder is a link now"
    now = contents.see(path)
    if now.state is not None or goal.state is not None:
        if now.state != was.state and not _is_between(now, was, goal):
            return "it has changed just now"
        if now.state == FOLDER and goal.state is None:
            try:
                beneath.remove_folder(Path(path))
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                return "it holds something else"
            return ""
        contents.restore(Path(path), goal.state, goal.mode)
    if goal.state is None:
        # A kill may have kept the folders that go with the last file in them.
        beneath.remove_empty(Path(path).parents[: folders.get(path, 0)])
    return ""


def _is_between(now: Seen, was: Seen, goal: Seen) -> bool:
    """Whether a kill came after a folder went, and before something else came, or the reverse."""
    return now.state is None and FOLDER in (was.state, goal.state)


def _bring_back(change: RepositoryChange) -> list[str]:
    """Stashes that a command dropped come back; where the branch stood is reported."""
    notes = []
    if change.stashes:
        try:
            back, gone = outside.bring_back_stashes(Path(change.root), change.stashes)
            if back:
                notes.append(
                    f"{back} stash{'es are' if back > 1 else ' is'} back (git stash list)."
                )
            if gone:
                notes.append(f"{gone} stash(es) could not be found again in {change.root}.")
        except GitError as error:
            notes.append(f"The stashes of {change.root} could not be restored: {error}.")
    if change.head:
        notes.append(_way_to_head(change))
    return notes


def _way_to_head(change: RepositoryChange) -> str:
    """Undo moves no branch; this says how to, with the files left as undo put them."""
    commit = change.head[:12]
    if not change.branch:
        return f"HEAD was at {commit}, on no branch; it is not moved back."
    if change.switched:
        return (
            f"You were on {change.branch}: `git symbolic-ref HEAD refs/heads/{change.branch} && "
            "git reset` returns there and leaves the files as they are."
        )
    return (
        f"{change.branch} was at {commit} and is not moved back: `git reset {commit}` does that "
        "and leaves the files as they are now."
    )


def _is_empty_folder(path: Path) -> bool:
    try:
        return not os.listdir(path)
    except OSError:
        return False


@dataclass(frozen=True, kw_only=True)
class FileChanges:
    """What the turns of a session changed in files, for reading alone."""

    groups: tuple[Group, ...] = ()
    """The oldest first."""
    contents: Contents | None = None

    @classmethod
    def of_session(cls, session_folder: Path) -> "FileChanges":
        """The record beside a session; empty if there is none."""
        undo = open_undo(paths.undo_folder(session_folder))
        return cls(groups=undo.history().groups, contents=undo.contents)

    def before(self, turn: int, path: str) -> str:
        """A file's content before its first change in a turn, credentials masked; "" if unknown."""
        for group in self.groups:
            changes: Sequence[Change] = group.files.get(path, ())
            if group.turn.number == turn and changes and self.contents is not None:
                data = self.contents.data(changes[0].before.state or "") or b""
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
