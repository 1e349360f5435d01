"""What a person reads: the report of an undo, and the diffs of what a session has changed."""

from dataclasses import dataclass
from pathlib import Path

from kode.diffs import unified_diff
from kode.messages import first_of, plural
from kode.paths import relative_path
from kode.undo.store import FOLDER, LINK, State, is_digest
from kode.undo.undo import Undo, Undone

MAX_NAMED = 40
"""Files of a kind; of more, how many."""
MAX_COMPARED_LINES = 20_000
"""Lines of a file; a longer one is only named as changed."""


def undo_text(undone: Undone, cwd: Path, prompt: str) -> str:
    """Names the turn, one line per file, and what can be done next. `prompt` is the beginning of
    the turn's prompt."""
    past, verb = undone.history, "reapplied" if undone.redo else "restored"
    heads = [] if undone.step is None else undone.step.heads
    names = [(relative_path(path, cwd), seen.state) for path, seen in undone.touched.items()]
    lines = [_head(undone, prompt)]
    for files in (
        [f"{verb} {name}" for name, state in names if state is not None],
        [f"removed {name}" for name, state in names if state is None],
        [f"left alone {relative_path(path, cwd)}: {why}" for path, why in undone.left_alone],
        [f"{head} and is not moved back." for head in heads],
    ):
        lines += first_of(files, MAX_NAMED)
    if past.damaged:
        lines.append(
            f"{plural(past.damaged, 'part')} of the session's record of changes damaged or lost: "
            "files that only they named are left as they are."
        )
    if undone.turn is not None:
        ways = [f"`/undo` undoes turn {group.turn.number}" for group in past.standing[-1:]]
        ways += [f"`/redo` reapplies turn {group.turn.number}" for group in past.undone[-1:]]
        lines.append("; ".join(ways) + ".")
    return "\n".join(lines)


def _head(undone: Undone, prompt: str) -> str:
    if undone.turn is None:
        if undone.redo:
            return "Nothing to redo."
        if undone.history.undone:
            return "Nothing more to undo. `/redo` reapplies what was undone."
        return "Nothing to undo: no turn of this session has changed a file."
    verb = "Redid" if undone.redo else "Undid"
    about = f"turn {undone.turn}" + (f" ({prompt})" if prompt else "")
    if undone.resumed:
        return f"{verb} the rest of {about}, which had been cut short"
    if undone.left_alone and not undone.touched:
        return f"{verb} nothing of {about}"
    return f"{verb} {about}"


@dataclass(frozen=True, kw_only=True)
class FileDiff:
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
    for group in undo.history().standing:
        for path, changes in group.files.items():
            first.setdefault(path, changes[0].before.state)
    for path, before in first.items():
        (now, _), data = undo.contents.look(path)
        if before == now or {before, now} <= {None, FOLDER}:
            continue
        name = relative_path(path, cwd)
        old, new = _text(before, undo.contents.data(before)), _text(now, data)
        text = "" if old is None or new is None else unified_diff(name, old, new)
        text = text or f"{name}: changed; too large, or no text, to compare\n"
        diffs.append(FileDiff(path=name, text=text))
    return diffs


def _text(state: State, data: bytes | None) -> str | None:
    """The text of a state with this content; None if it is not text or too long."""
    if state is None or state.startswith(LINK):
        return f"{state}\n" if state else ""
    is_long = data is None or data.count(b"\n") > MAX_COMPARED_LINES
    if data is None or is_long or not is_digest(state) or b"\0" in data[:8192]:
        return None
    return data.decode("utf-8", "replace")
