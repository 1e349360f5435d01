"""What a person reads: the report of an undo, and the diffs of what a session has changed."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kode.diffs import unified_diff
from kode.messages import first_of, plural
from kode.paths import relative_path
from kode.undo.journal import Change
from kode.undo.store import FOLDER, LINK, Contents, State, is_digest
from kode.undo.undo import Undo, Undone

MAX_NAMED = 40
"""Files of a kind; of more, how many."""
MAX_COMPARED_LINES = 20_000
"""Lines of a file; a longer one is only named as changed."""


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
        lines.append(
            f"{plural(undone.damaged, 'part')} of the session's record of changes damaged or lost: "
            "files that only they named are left as they are."
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


@dataclass(frozen=True, kw_only=True)
class FileDiff:
    """What a session has changed in one file, against its first content."""

    path: str
    text: str
    """A unified diff, or a line that says why there is none."""
    added: int
    removed: int
    by_others: bool
    """Whether a person or a program changed it too."""


def file_diffs(undo: Undo, cwd: Path) -> list[FileDiff]:
    """One diff per changed file, except undone changes; files inside `cwd` get relative names."""
    per_file: dict[str, list[Change]] = {}
    for group in undo.history().standing:
        for path, changes in group.files.items():
            per_file.setdefault(path, []).extend(changes)
    diffs = (_diff_of(undo.contents, path, changes, cwd) for path, changes in per_file.items())
    return [diff for diff in diffs if diff is not None]


def _diff_of(
    contents: Contents, path: str, changes: Sequence[Change], cwd: Path
) -> FileDiff | None:
    """None for a file with the same content, and for a folder."""
    before, now = changes[0].before.state, contents.see(path).state
    if before == now or {before, now} <= {None, FOLDER}:
        return None
    name, text = relative_path(path, cwd), ""
    old, new = _text(contents, before, None), _text(contents, now, path)
    if old is not None and new is not None:
        text = unified_diff(name, old, new)
    lines, (*earlier, last) = text.splitlines()[2:], changes
    pairs = zip(earlier, changes[1:], strict=True)
    has_gaps = any(one.after and one.after.state != other.before.state for one, other in pairs)
    return FileDiff(
        path=name,
        text=text or f"{name}: changed; too large, or no text, to compare\n",
        added=sum(line.startswith("+") for line in lines),
        removed=sum(line.startswith("-") for line in lines),
        by_others=has_gaps or (last.after is not None and last.after.state != now),
    )


def _text(contents: Contents, state: State, path: str | None) -> str | None:
    """The text of a state, or of the file itself if `path` is given; None if it is not text or too
    long."""
    if state is None or state.startswith(LINK):
        return f"{state}\n" if state else ""
    data: bytes | None = None
    if is_digest(state):
        with contextlib.suppress(OSError):
            data = Path(path).read_bytes() if path else contents.data(state)
    if data is None or b"\0" in data[:8192] or data.count(b"\n") > MAX_COMPARED_LINES:
        return None
    return data.decode("utf-8", "replace")
