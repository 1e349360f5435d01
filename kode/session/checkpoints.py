"""What a session changes in files, so that each turn can be undone and redone.

Beside the session's file, in `sessions/<id>/checkpoints/`: `changes.jsonl`, a line before and
after each change, and the contents (`content_store`). What the lines mean is in `change_log`, what
is kept before a command in `backup`. What a program changes by itself is not seen here.
"""

import contextlib
import functools
import itertools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kode import durable, paths
from kode.credentials import redact
from kode.errors import StorageError
from kode.messages import plural
from kode.session import change_log, moves
from kode.session.change_log import (
    Change,
    Group,
    History,
    Line,
    Lost,
    Made,
    Moved,
    RepositoryChange,
    Settled,
    Taken,
    TurnEnd,
    way_back,
)
from kode.session.content_store import Contents, Seen
from kode.tool import AtStake

if TYPE_CHECKING:
    from kode.session.backup import Kept
    from kode.session.file_diffs import FileDiff
    from kode.session.watched import Repositories

LOG = "changes.jsonl"


@dataclass(frozen=True, kw_only=True)
class Undone:
    """What an undo or a redo did. Paths are absolute."""

    turn: int | None
    """None: there was nothing to do."""
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
    """Lines of the record that could not be read."""
    lost_bytes: int = 0
    """Of the record, where it was cut: what they named is left as it is."""

    @property
    def touched(self) -> tuple[str, ...]:
        return (*self.restored, *self.removed)


@dataclass(frozen=True, kw_only=True)
class FileChanges:
    """What the turns of a session changed in files, for reading alone."""

    groups: tuple[Group, ...] = ()
    """The oldest first; several can belong to a turn of one number, after a rewind."""
    undone: frozenset[int] = frozenset()
    """Numbers of undone groups."""
    contents: Contents = field(
        default_factory=lambda: Contents(folder=Path(os.devnull), max_file_bytes=0, max_bytes=0)
    )

    @classmethod
    def of_session(cls, session_folder: Path) -> "FileChanges":
        """The record beside a session; empty if there is none."""
        folder = paths.checkpoints_folder(session_folder)
        # Reading stores nothing, so the limits do not matter.
        contents = Contents(folder=folder, max_file_bytes=0, max_bytes=0)
        past = Checkpoints(folder=folder, contents=contents).history()
        return cls(groups=past.groups, undone=frozenset(past.undone), contents=contents)

    def before(self, turn: int, path: str) -> str:
        """A file's content before its first change in a turn, credentials masked; "" if unknown."""
        for group in self.groups:
            changes = group.files.get(path, ())
            if group.turn == turn and changes and changes[0].before is not None:
                data = self.contents.data(changes[0].before) or b""
                return redact(data.decode("utf-8", "replace"))
        return ""


@dataclass
class _Plan:
    """An undo or a redo, before it begins."""

    goals: dict[str, Seen] = field(default_factory=dict)
    left: list[tuple[str, str]] = field(default_factory=list)
    """See `Undone.left_alone`."""
    notes: list[str] = field(default_factory=list)
    files: list[Moved] = field(default_factory=list)


@dataclass
class Checkpoints:
    """The changes of one session; the folder is created when the first file is kept."""

    folder: Path
    contents: Contents
    roots: tuple[Path, ...] = ()
    """What a command changes elsewhere is not kept, unless it deletes it."""
    marker: Path | None = None
    """A file that is there while an undo or a redo is under way: what says, after a crash, that one
    has to be finished. See `finish`."""
    close: Callable[[], None] = lambda: None
    """Removes the folder of a session without a file."""
    part_of_turn: bool = False
    """For a subagent, whose changes belong to its parent's turn: that one ends it."""
    open_changes: dict[str, Change] = field(default_factory=dict)
    """Path → the change by the turn that runs now."""
    written: bool = False
    """Whether this process has written to the log."""
    log_bytes: int | None = None
    """Of the log when a turn last ended."""

    @functools.cached_property
    def _repositories(self) -> "Repositories":
        from kode.session.watched import Repositories

        return Repositories()

    def keep(self, turn: int, path: str) -> None:
        """Before a tool changes `path`: keeps its content, durably, unless it is what this turn
        left there itself.

        Raises: StorageError; then the file must not be changed.
        """
        known = self.open_changes.get(path)
        if known is not None:
            left = known.after if known.done else known.before
            if self.contents.see(Path(path)).state == left:
                return
        seen = self.contents.keep(Path(path))
        change = _announced(turn, path, seen)
        # On disk before the change, so that a crash in the middle can be undone too.
        self._record(change)
        self.open_changes[path] = change

    def changed(self, path: str, state: str | None = None) -> None:
        """After a tool has changed `path`: what it left there (by default: what is there now), so
        that a person's change after it is known as theirs. Raises: StorageError."""
        change = self.open_changes.get(path)
        if change is None:
            return
        after = state or self.contents.see(Path(path)).state
        # A tool that changed nothing is noted too: what comes next is a person's doing.
        if not change.done or after != change.after:
            self.open_changes[path] = replace(change, after=after, done=True)
            self._record(self.open_changes[path])

    def would_keep(self, at_stake: AtStake) -> "Kept":
        """Keeps what a command may lose, for the question whether it may run. Never raises."""
        from kode.session.backup import gather

        return gather(self.contents, self._repositories, at_stake, self.roots)

    def begin_command(self, turn: int, at_stake: AtStake) -> "Kept":
        """Before a command runs: keeps and notes what is at stake. Never raises: `problem` says
        what could not be kept."""
        return self._announce(turn, self.would_keep(at_stake))

    def begin_changes(self, turn: int, paths: Sequence[str]) -> "Kept":
        """Before these files change: the same for what is known exactly. Never raises."""
        from kode.session.backup import gather_files

        return self._announce(turn, gather_files(self.contents, paths))

    def _announce(self, turn: int, kept: "Kept") -> "Kept":
        announced = [_announced(turn, path, seen) for path, seen in kept.files.items()]
        try:
            self._record(*announced)
        except StorageError as error:
            return replace(kept, problem=kept.problem or str(error))
        return kept

    def end_command(self, turn: int, kept: "Kept") -> list[str]:
        """After it: notes what it did; returns the paths that it changed. Raises: StorageError."""
        if not kept.files and not kept.surveys:
            return []
        from kode.session.backup import differences

        done, repositories = differences(self.contents, self._repositories, turn, kept)
        self._record(*done, *repositories, Settled(turn=turn))
        self.open_changes.update({change.path: change for change in done})
        return [change.path for change in done]

    def end_turn(self) -> None:
        """Notes what the turn left behind, and that it has ended. Raises: StorageError."""
        for path, change in self.open_changes.items():
            if not change.done:
                after = self.contents.see(Path(path)).state
                self._record(replace(change, after=after, done=True))
        self.open_changes.clear()
        size = self._size()
        if not self.part_of_turn and size and size != self.log_bytes:
            self._record(TurnEnd())
            self.log_bytes = self._size()

    def remove_stale_temporaries(self) -> None:
        """Removes what a write that a crash cut short left beside the person's files."""
        begun: set[str] = set()
        # A file that is written again in its turn is not noted again before that.
        of_turn: set[str] = set()
        for line in self._lines():
            if isinstance(line, Change):
                of_turn.add(line.path)
                (begun.discard if line.done else begun.add)(line.path)
            elif isinstance(line, TurnEnd):
                of_turn.clear()
        for folder in {Path(path).parent for path in begun | of_turn}:
            durable.remove_stale_temporaries(folder)

    def undo(self) -> Undone:
        """Takes back the newest turn that changed files and is not undone: every file that nobody
        has changed since. Doing it again takes back the turn before. Raises: StorageError."""
        return self._step(redo=False)

    def redo(self) -> Undone:
        """Brings back the turn that was undone last. Raises: StorageError."""
        return self._step(redo=True)

    def _step(self, *, redo: bool) -> Undone:
        finished = self.finish()
        if finished is not None and finished.redo is redo:
            return finished
        past = self.history()
        source = past.undone if redo else past.standing
        if not source or past.unfinished:
            return finished or self._report(past, None, redo=redo)
        group = past.groups[source[-1]]
        planned = self._plan_forth(past.taken[group.number]) if redo else self._plan_back(group)
        outcome = self._take(Taken(group=group.number, redo=redo, files=tuple(planned.files)))
        notes = planned.notes
        if redo and group.repositories:
            notes.append("Stashes and commits stay as they are.")
        elif not redo:
            notes += [note for repository in group.repositories for note in _bring_back(repository)]
        return self._report(self.history(), group, outcome, planned.left, notes, redo=redo)

    def finish(self) -> Undone | None:
        """Completes an undo or a redo that a crash or a full disk has cut short; None if none was.
        Files that somebody has changed since are left alone. Raises: StorageError."""
        past = self.history()
        taken = past.unfinished
        if taken is None:
            self._unmark()
            return None
        for folder in {Path(move.path).parent for move in taken.files}:
            durable.remove_stale_temporaries(folder)
        left = []
        planned = []
        for move in taken.files:
            state = self.contents.see(Path(move.path)).state
            if state == move.was or (move.folders and state is move.now is None):
                planned.append(move)
            elif state != move.now:
                left.append((move.path, "it has changed since"))
        outcome = self._make(taken, planned)
        group = past.groups[taken.group]
        return self._report(self.history(), group, outcome, left, redo=taken.redo, resumed=True)

    def _take(self, taken: Taken) -> moves.Outcome:
        """Begins an undo or a redo and makes it: nothing is lost if it is killed in between.
        Raises: StorageError when it could not begin; then nothing was changed."""
        if self.marker is not None:
            durable.make_folder(self.marker.parent)
            durable.replace(self.marker, b"")
        self._record(taken)
        return self._make(taken, taken.files)

    def _make(self, taken: Taken, planned: Sequence[Moved]) -> moves.Outcome:
        outcome = moves.make(self.contents, planned)
        if not outcome.failed:
            # Without this line the next start looks at the same files, and finds all done.
            with contextlib.suppress(StorageError):
                self._record(Made(group=taken.group))
                self._unmark()
        return outcome

    def _unmark(self) -> None:
        if self.marker is not None and self.marker.exists():
            durable.remove(self.marker)

    def undo_from(self, turn: int) -> list[Undone]:
        """Undoes this turn and every later one, the newest first. Raises: StorageError."""
        return [self.undo() for _ in self.history().since(turn)]

    def diffs(self, seen_from: Path) -> "list[FileDiff]":
        """What the session has changed so far, file by file, but for what was undone; files inside
        `seen_from` are named relative to it."""
        from kode.session.file_diffs import file_diffs

        return file_diffs(self.contents, self.history(), seen_from)

    # ── taking back ──────────────────────────────────────────────────────────────────────────

    def _plan_back(self, group: Group) -> "_Plan":
        plan = _Plan()
        for path, done in group.files.items():
            if not any(change.has_effect for change in done):
                continue
            seen = self._seen(path, group)
            back = way_back(done, seen.state)
            given = done[-1].after_mode
            chmodded = given is not None and seen.mode == given != back.mode
            # A kill may have come after some of its folders were made, and before it was.
            own = Path(path).parents[: max(change.folders for change in done)]
            made = seen.state is None and any(map(_is_empty_folder, own))
            if back.found and back.state == seen.state and not chmodded and not made:
                continue
            self._aim(plan, path, seen, Seen(state=back.state, mode=back.mode), back.found)
            if path in plan.goals and not back.whole:
                plan.notes.append(f"{path} has your own edit from during the turn.")
        folders = {path: max(file.folders for file in group.files[path]) for path in plan.goals}
        plan.files = moves.towards(self.contents, plan.goals, folders)
        return plan

    def _plan_forth(self, taken: Taken) -> "_Plan":
        plan = _Plan()
        for move in taken.files:
            seen = self.contents.see(Path(move.path))
            if seen.state != move.was:
                goal = Seen(state=move.was, mode=move.was_mode)
                self._aim(plan, move.path, seen, goal, seen.state == move.now)
        plan.files = moves.towards(self.contents, plan.goals)
        return plan

    def _aim(self, plan: "_Plan", path: str, now: Seen, goal: Seen, is_known: bool) -> None:
        """`is_known`: whether what is there now is kode's doing."""
        theirs = "" if is_known else "it has changed since"
        if why := theirs or moves.obstacle(self.contents, now, goal):
            plan.left.append((path, why))
        else:
            plan.goals[path] = goal

    def _seen(self, path: str, group: Group) -> Seen:
        """What is there now; behind a link that the group made of a folder, nothing is."""
        folder = os.path.dirname(path)
        if paths.real_path(folder) != folder and any(
            str(parent) in group.files for parent in Path(path).parents
        ):
            return Seen(state=None)
        return self.contents.see(Path(path))

    def _report(
        self,
        past: History,
        group: Group | None,
        outcome: moves.Outcome = moves.NOTHING,
        left: Sequence[tuple[str, str]] = (),
        notes: Sequence[str] = (),
        *,
        redo: bool = False,
        resumed: bool = False,
    ) -> Undone:
        return Undone(
            turn=None if group is None else group.turn,
            redo=redo,
            resumed=resumed,
            restored=tuple(move.path for move in outcome.made if move.now is not None),
            removed=tuple(move.path for move in outcome.made if move.now is None),
            left_alone=(*left, *outcome.left),
            failed=outcome.failed,
            notes=tuple(notes),
            next_undo=past.groups[past.standing[-1]].turn if past.standing else None,
            next_redo=past.groups[past.undone[-1]].turn if past.undone else None,
            damaged=past.damaged,
            lost_bytes=past.lost_bytes,
        )

    def check(self, *, repair: bool) -> list[str]:
        """A plain sentence for each damage that has not been reported and repaired before. With
        `repair` the log is set aside in full and rewritten, so that it says what it has lost, and
        damaged contents are set aside. Raises: StorageError."""
        path = self.folder / LOG
        noted = durable.noted_length(path)
        data = b""
        with durable.storage_errors(path, "read"), contextlib.suppress(FileNotFoundError):
            data = path.read_bytes()
        lines = data.split(b"\n")[:-1]
        parsed = change_log.parse_all(data)
        cut = max(0, noted - len(data))
        faults = []
        if bad := parsed.count(None):
            faults.append(f"{path} has {plural(bad, 'damaged line')}: undo leaves them out.")
        if cut:
            faults.append(f"{path} has lost its end ({cut} bytes): undo leaves it out.")
        if repair and faults:
            kept = [
                line if one is not None else change_log.line_of(Lost(size_bytes=len(line)))
                for index, (line, one) in enumerate(zip(lines, parsed, strict=True))
                if one is not None or line not in lines[:index]
            ]
            kept += [change_log.line_of(Lost(size_bytes=cut))] if cut else []
            faults.append(f"The old file is saved as {durable.keep_aside(path, data).name}.")
            whole = b"".join(line + b"\n" for line in kept)
            durable.replace(path, whole)
            durable.note_length(path, len(whole))
        for damaged in self.contents.damaged():
            aside = f" It is kept as {durable.set_aside(damaged).name}." if repair else ""
            faults.append(f"{damaged}, a content kept for undo, is damaged.{aside}")
        return faults

    # ── the log ──────────────────────────────────────────────────────────────────────────────

    def history(self) -> History:
        return change_log.history(self._lines())

    def _lines(self) -> list[Line | None]:
        """Every line; None for one that cannot be read."""
        noted = durable.noted_length(self.folder / LOG)
        try:
            data = (self.folder / LOG).read_bytes()
        except OSError:
            data = b""
        lost = [Lost(size_bytes=noted - len(data))] if len(data) < noted else []
        return [*change_log.parse_all(data), *lost]

    def _record(self, *lines: Line) -> None:
        if not lines:
            return
        durable.make_folder(self.folder)
        whole = list(lines)
        if not self.written and not self.part_of_turn:
            # A process may have ended in the middle of a turn; a new one may get its number.
            whole.insert(0, TurnEnd())
        if lost := durable.lost_bytes(self.folder / LOG):
            whole.insert(0, Lost(size_bytes=lost))
        written = [*map(change_log.line_of, whole)]
        durable.append_lines(self.folder / LOG, written, note_end=True)
        self.written = True

    def _size(self) -> int:
        try:
            return (self.folder / LOG).stat().st_size
        except OSError:
            return 0


def _announced(turn: int, path: str, seen: Seen) -> Change:
    """The line before a change."""
    missing = itertools.takewhile(lambda folder: not folder.exists(), Path(path).parents)
    folders = 0 if seen.state is not None else sum(1 for _ in missing)
    return Change(turn=turn, path=path, before=seen.state, mode=seen.mode, folders=folders)


def _bring_back(change: RepositoryChange) -> list[str]:
    """Stashes that a command dropped come back; where the branch stood is reported."""
    notes = []
    root = Path(change.root)
    if change.stashes:
        from kode.session.git import GitError, bring_back_stashes, stashes

        try:
            present = {commit for commit, _ in stashes(root)}
            lost = [stash for stash in change.stashes if stash[0] not in present]
            gone = bring_back_stashes(root, lost)
            back = len(lost) - gone
            if back:
                notes.append(
                    f"{back} stash{'es are' if back > 1 else ' is'} back (git stash list)."
                )
            if gone:
                notes.append(f"{gone} stash(es) could not be found again in {root}.")
        except GitError as error:
            notes.append(f"The stashes of {root} could not be restored: {error}.")
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
