"""Changes files for undo and redo: keeps the current states first, then changes all files together.
`checkpoints` decides which files, and their target states."""

import errno
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from kode import beneath, durable, paths
from kode.errors import StorageError
from kode.session.change_log import Moved
from kode.session.content_store import FOLDER, TOO_LARGE, Contents, Seen, is_digest

_PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO})
"""Errors after which the same may succeed; any other leaves the file alone."""

Failures = tuple[tuple[str, str], ...]
"""(path, why)."""


def obstacle(contents: Contents, now: Seen, goal: Seen) -> str:
    """Why a file cannot be restored; "" if nothing is in the way."""
    if TOO_LARGE in (goal.state, now.state):
        return "it is too large to save"
    if not all(one.can_be_kept or one.state == FOLDER for one in (now, goal)):
        return "it is not a file that can be saved"
    state = goal.state or ""
    if is_digest(state) and contents.data(state) is None:
        return contents.why_missing(state)
    return ""


def towards(
    contents: Contents, goals: Mapping[str, Seen], folders: Mapping[str, int] = MappingProxyType({})
) -> list[Moved]:
    """The changes that lead to these target states, by path; keeps the current states. `folders`:
    see `Moved.folders`. Raises: StorageError."""
    moves = []
    for path, kept in contents.keep_all(goals).items():
        if isinstance(kept, StorageError):
            raise kept
        goal = goals[path]
        moves.append(
            Moved(
                path=path,
                was=kept.state,
                was_mode=kept.mode,
                now=goal.state,
                now_mode=goal.mode,
                folders=folders.get(path, 0),
            )
        )
    return moves


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of planned changes."""

    made: tuple[Moved, ...] = ()
    left: Failures = ()
    """Somebody else has changed them meanwhile."""
    failed: Failures = ()
    """The disk was full, or something like it: they have still to be made."""


NOTHING = Outcome()


def make(contents: Contents, planned: Sequence[Moved]) -> Outcome:
    """Changes the files, durably. Removals come first, folders after what was in them, so that a
    folder may replace a file and the reverse; then folders and links, so that no file is written
    through a link that is being removed."""

    failed: dict[str, str] = {}

    def one(move: Moved) -> str:
        try:
            return _make_one(contents, move)
        except (StorageError, OSError) as error:
            cause = error.__cause__ if isinstance(error, StorageError) else error
            if isinstance(cause, OSError) and cause.errno in _PASSING:
                failed[move.path] = str(error)
            return str(error)

    ordered = sorted(planned, key=lambda move: move.path)
    gone = [move for move in ordered if move.now is None and move.was != FOLDER]
    emptied = [move for move in reversed(ordered) if move.now is None and move.was == FOLDER]
    files = [move for move in ordered if is_digest(move.now)]
    others = [move for move in ordered if move.now is not None and not is_digest(move.now)]
    faults = dict(zip(gone, durable.for_each(one, gone), strict=True))
    faults |= {move: one(move) for move in (*emptied, *others)}
    faults |= dict(zip(files, durable.for_each(one, files), strict=True))
    for folder in {Path(move.path).parent for move, fault in faults.items() if not fault}:
        fault = _sync(folder)
        if fault:
            unsynced = [move for move in faults if Path(move.path).parent == folder]
            faults |= dict.fromkeys(unsynced, fault)
            failed |= dict.fromkeys((move.path for move in unsynced), fault)
    return Outcome(
        made=tuple(move for move in planned if not faults[move]),
        left=tuple(
            (m.path, fault) for m, fault in faults.items() if fault and m.path not in failed
        ),
        failed=tuple(failed.items()),
    )


def _make_one(contents: Contents, move: Moved) -> str:
    """Makes one change; returns why it was left, or "". Its folder is not synced yet. Raises:
    StorageError, OSError."""
    folder = os.path.dirname(move.path)
    if paths.real_path(folder) != folder:
        return "its folder is a link now"
    state = contents.see(Path(move.path)).state
    if state is None and move.now is None:
        # A folder that went with the last file in it, or such a file: a kill kept its folders.
        beneath.remove_empty(Path(move.path).parents[: move.folders])
        return ""
    if state != move.was:
        return "it has changed just now"
    if state == FOLDER and move.now is None:
        try:
            beneath.remove_folder(Path(move.path))
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            return "it holds something else"
        return ""
    contents.restore(Path(move.path), move.now, move.now_mode, sync_name=False)
    if move.now is None:
        beneath.remove_empty(Path(move.path).parents[: move.folders])
    return ""


def _sync(folder: Path) -> str:
    try:
        durable.sync_folder(folder)
    except (FileNotFoundError, NotADirectoryError):
        return ""  # removed together with its contents
    except OSError as error:
        return str(error)
    return ""
