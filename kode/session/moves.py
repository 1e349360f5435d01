"""Changes files for undo and redo: keeps the current states first, then changes all files together.
`checkpoints` decides which files, and their target states."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from kode import durable
from kode.errors import StorageError
from kode.session.change_log import Moved
from kode.session.content_store import FOLDER, TOO_LARGE, Contents, Seen, is_digest

Failures = list[tuple[str, str]]
"""(path, why)."""


def obstacle(contents: Contents, now: Seen, goal: Seen) -> str:
    """Why a file cannot be restored; "" if nothing is in the way."""
    if TOO_LARGE in (goal.state, now.state):
        return "it is too large to save"
    if not all(one.can_be_kept or one.state == FOLDER for one in (now, goal)):
        return "it is not a file that can be saved"
    if is_digest(goal.state) and contents.data(goal.state or "") is None:
        return "its old content is no longer saved (oldest deleted first)"
    return ""


def towards(contents: Contents, goals: Mapping[str, Seen]) -> list[Moved]:
    """The changes that lead to these target states, by path; keeps the current states. Raises:
    StorageError."""
    found = []
    for path, kept in contents.keep_all(goals).items():
        if isinstance(kept, StorageError):
            raise kept
        goal = goals[path]
        found.append(
            Moved(path=path, was=kept.state, was_mode=kept.mode, now=goal.state, now_mode=goal.mode)
        )
    return found


def make(contents: Contents, planned: Sequence[Moved]) -> tuple[list[Moved], Failures]:
    """Changes the files, durably; returns what was changed and what failed. Removals come first, so
    that a folder may replace a file and the reverse; then folders and links, so that no file is
    written through a link that is being removed."""

    def one(move: Moved) -> str:
        return _make_one(contents, move)

    ordered = sorted(planned, key=lambda move: move.path)
    gone = [move for move in ordered if move.now is None]
    files = [move for move in ordered if is_digest(move.now)]
    others = [move for move in ordered if move.now is not None and not is_digest(move.now)]
    faults = dict(zip(gone, durable.for_each(one, gone), strict=True))
    faults |= {move: one(move) for move in others}
    faults |= dict(zip(files, durable.for_each(one, files), strict=True))
    for folder in {Path(move.path).parent for move, fault in faults.items() if not fault}:
        fault = _sync(folder)
        if fault:
            faults |= {move: fault for move in faults if Path(move.path).parent == folder}
    made = [move for move in planned if not faults[move]]
    return made, [(move.path, fault) for move, fault in faults.items() if fault]


def _make_one(contents: Contents, move: Moved) -> str:
    """Makes one change; returns why it failed, or "". Its folder is not synced yet."""
    folder = os.path.dirname(move.path)
    try:
        if os.path.realpath(folder) != folder:
            return "its folder is a link now"
        if contents.see(Path(move.path)).state != move.was:
            return "it has changed just now"
        contents.restore(Path(move.path), move.now, move.now_mode, sync_name=False)
    except (StorageError, OSError) as error:
        return str(error)
    return ""


def _sync(folder: Path) -> str:
    try:
        durable.sync_folder(folder)
    except (FileNotFoundError, NotADirectoryError):
        return ""  # removed together with its contents
    except OSError as error:
        return str(error)
    return ""
