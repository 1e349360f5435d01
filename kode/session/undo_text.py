"""Describes an undo or redo for a person. `checkpoints` performs it."""

from collections.abc import Callable
from pathlib import Path

from kode.messages import first_of, plural
from kode.results import relative_path
from kode.session.checkpoints import Undone

MAX_NAMED = 40
"""Files of a kind; of more, how many."""


def undo_text(undone: Undone, cwd: Path, asked: Callable[[int], str]) -> str:
    """Names the turn, one line per file, and what can be done next. `asked` returns the beginning
    of a turn's prompt."""
    lines, put_back = [*_head(undone, asked)], "reapplied" if undone.redo else "restored"
    for files in (
        [f"{put_back} {relative_path(path, cwd)}" for path in undone.restored],
        [f"removed {relative_path(path, cwd)}" for path in undone.removed],
        [f"left alone {relative_path(path, cwd)}: {why}" for path, why in undone.left_alone],
        [f"not yet {relative_path(path, cwd)}: {why}" for path, why in undone.failed],
        undone.notes,
    ):
        lines += first_of(files, MAX_NAMED)
    if undone.damaged:
        lines.append(f"Skipped {plural(undone.damaged, 'damaged line')} of the session's record.")
    if undone.lost_bytes:
        lines.append(
            f"A part of the session's record of changes is lost ({undone.lost_bytes} bytes): files "
            "that only it named are left as they are."
        )
    if undone.turn is not None:
        lines.append(_next(undone))
    return "\n".join(lines)


def _head(undone: Undone, asked: Callable[[int], str]) -> list[str]:
    if undone.turn is not None:
        done = "Redid" if undone.redo else "Undid"
        about = f" ({about})" if (about := asked(undone.turn)) else ""
        if undone.failed:
            word = "redo" if undone.redo else "undo"
            return [f"The {word} of turn {undone.turn}{about} is not complete: `/{word}` again."]
        if undone.resumed:
            return [f"{done} the rest of turn {undone.turn}{about}, which had been cut short"]
        if undone.touched or undone.notes:
            return [f"{done} turn {undone.turn}{about}"]
        if undone.left_alone:
            return [f"{done} nothing of turn {undone.turn}{about}"]
        return [f"{done} turn {undone.turn}{about}: no files changed"]
    if undone.redo:
        return ["Nothing to redo."]
    if undone.next_redo is not None:
        return ["Nothing more to undo. `/redo` reapplies what was undone."]
    return ["Nothing to undo: no turn of this session has changed a file."]


def _next(undone: Undone) -> str:
    ways = []
    if undone.next_undo is not None:
        ways.append(f"`/undo` undoes turn {undone.next_undo}")
    if undone.next_redo is not None:
        ways.append(f"`/redo` reapplies turn {undone.next_redo}")
    return "; ".join(ways) + "."
