"""The journal of a session's changes in files, `undo/journal.jsonl`, and what follows from it: what
each turn changed, and what can be undone and redone.

A step has two lines: `begin`, on disk before the step takes effect, has the state of what may
change; `done`, written after it, has what did change. An undo or a redo is a step whose `begin`
line also has the goal, so that the next process can finish it after a kill. The steps of a turn
share the id of the person's message.
"""

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from kode import durable
from kode.durable import RecordLog
from kode.messages import plural
from kode.undo.store import Seen
from kode.values import dataclass, field

if TYPE_CHECKING:
    from kode.undo.outside import Survey


class TurnId(NamedTuple):
    """The turn that a step belongs to."""

    id: str
    """Id of the person's message; "" before the first."""
    number: int


@dataclass(kw_only=True)
class Step:
    """One change of files by kode. Paths are absolute."""

    id: str = field(default_factory=lambda: secrets.token_hex(8))
    turn: TurnId
    kind: Literal["change", "undo", "redo"] = "change"
    of: str = ""
    """For an undo or a redo: the id of the first step that it takes back or brings back."""
    before: dict[str, Seen] = field(default_factory=dict)
    goal: dict[str, Seen] = field(default_factory=dict)
    """For an undo or a redo: the states that it restores."""
    after: dict[str, Seen] | None = None
    """The new states of what has changed; None if it was cut short, or still runs."""
    heads: list[str] = field(default_factory=list)
    """For each repository whose commit or branch a command has changed: where it was, such as `main
    was at 0a1b2c3d4e5f`. For an undo: those of its turn, which are not moved back."""
    surveys: "list[Survey]" = field(default_factory=list)
    """For a command on the host: the working trees before it. This field and those below it are
    not in the journal."""
    not_saved: set[str] = field(default_factory=set)
    """Existing files that could not be saved, or are too large."""
    problem: str = ""
    """Why not everything could be examined or saved; "" if everything was."""
    written: dict[str, str] = field(default_factory=dict)
    """Path → SHA-256 of what a tool says it wrote: later content is a person's change."""


class Change(NamedTuple):
    """One file in one step."""

    before: Seen
    after: Seen | None
    """None if the step was cut short, so that nobody knows."""


@dataclass(kw_only=True)
class Group:
    """What one turn changed."""

    turn: TurnId
    first: str
    """The id of its first step."""
    files: dict[str, list[Change]] = field(default_factory=dict)
    """The changes of each file that has one, by absolute path, in order."""
    heads: list[str] = field(default_factory=list)
    """See `Step`."""
    is_undone: bool = False
    last_undo: dict[str, list[Change]] = field(default_factory=dict)
    """What all undos of it have changed together: what can be redone never shrinks."""

    @property
    def changed(self) -> list[str]:
        """The absolute paths of the files that it changed."""
        return drop_parents(self.files)


class History:
    """What can be undone and redone after these steps. `damaged` is how many parts of the journal
    are damaged or lost; `lines` are its intact lines."""

    def __init__(
        self, steps: Sequence[Step], damaged: int = 0, lines: Sequence[bytes] = ()
    ) -> None:
        self.steps, self.damaged, self.lines = steps, damaged, lines
        groups: list[Group] = []
        self.redoable: list[Group] = []
        """What can be redone, the last undone at the end."""
        self.last: Step | None = None
        """The last undo or redo."""
        group: Group | None = None
        for step in steps:
            if step.kind != "change":
                self._apply_undo(step, groups)
                self.last, group = step, None
                continue
            if group is None or group.turn.id != step.turn.id:
                groups.append(group := Group(turn=step.turn, first=step.id))
            after = dict.fromkeys(step.before) if step.after is None else step.after
            for path, seen in after.items():
                change = Change(step.before.get(path, Seen(None)), seen)
                group.files.setdefault(path, []).append(change)
            group.heads += step.heads
            if step.heads or after:
                self.redoable.clear()
        for group in groups:
            files = group.files.items()
            group.files = {path: many for path, many in files if any(a != b for a, b in many)}
        self.groups = [group for group in groups if group.files or group.heads]
        """The turns that changed something, oldest first."""
        self.undoable = [group for group in self.groups if not group.is_undone]
        """The turns that can be undone, newest last."""

    def since(self, turn: int) -> list[Group]:
        """The turns from this one on that can be undone, newest first."""
        groups: list[Group] = []
        for group in reversed(self.undoable):
            # If a number rises on the way back, a rewind had dropped that turn.
            if group.turn.number < turn or (groups and group.turn.number > groups[-1].turn.number):
                break
            groups.append(group)
        return groups

    def _apply_undo(self, step: Step, groups: Iterable[Group]) -> None:
        for group in groups:  # the step's group may be missing from a damaged journal
            if group.first != step.of or group.is_undone != (step.kind == "redo"):
                continue
            group.is_undone = step.kind == "undo"
            if group.is_undone:
                self.redoable.append(group)
                after = step.goal if step.after is None else step.after
                both = step.before.keys() & after.keys()
                group.last_undo |= {path: [Change(step.before[path], after[path])] for path in both}
            elif group in self.redoable:
                self.redoable.remove(group)


def write_step(journal: Path, step: Step) -> None:
    """Appends what a step may change or, if `after` is set, has changed. Raises: StorageError."""
    before = step.before if step.after is None else {it: step.before[it] for it in step.after}
    line = {"begin" if step.after is None else "done": step.id, "before": before}
    names = ("turn", "kind", "of", "goal", "after", "heads")
    line |= {name: getattr(step, name) for name in names}
    durable.make_folder(journal.parent)
    with RecordLog(journal).hold() as append:
        append(json.dumps(line).encode())


def read_history(journal: Path) -> History:
    """Reads the journal; skips and counts what is damaged. Raises: StorageError."""
    steps, lines, log = dict[str, Step](), list[bytes](), RecordLog(journal)
    for line in log.read():
        try:
            _add_line(steps, json.loads(line))
            lines.append(line)
        except (ValueError, KeyError, IndexError, AttributeError, RecursionError, TypeError):
            log.damaged += 1  # or from a later version
    damaged = log.damaged + log.duplicates + bool(log.lost_bytes)
    return History([*steps.values()], damaged, lines)


def check_journal(journal: Path, *, repair: bool) -> list[str]:
    """A plain sentence for damage. With `repair` the file is set aside in full, and rewritten
    without what is damaged. Raises: StorageError."""
    past = read_history(journal)
    if not past.damaged:
        return []
    fault = f"{journal}: {plural(past.damaged, 'part')} damaged or lost, which undo leaves out."
    if repair:
        aside = durable.set_aside(journal, journal.read_bytes())
        fault += f" The old file is saved as {aside.name}."
        data = b"".join(line + b"\n" for line in past.lines)
        durable.replace_file(journal, data)
        durable.write_length(journal, len(data))
    return [fault]


def _add_line(steps: dict[str, Step], value: Mapping[str, Any]) -> None:
    """Adds what a line says. Raises: ValueError, TypeError, KeyError, ... if it is malformed."""
    id = value["done"] if "done" in value else value["begin"]
    before, heads = _parse_states(value["before"]), [str(head) for head in value.get("heads", ())]
    after = _parse_states(value["after"]) if "done" in value else None
    step = steps.get(id)
    if step is None:
        step = Step(id=str(id), turn=TurnId(*value["turn"]), kind=value["kind"], of=value["of"])
        step.goal = _parse_states(value["goal"])
        if step.kind not in ("change", "undo", "redo") or not before.keys() >= step.goal.keys():
            raise ValueError("no step")
    step.before |= before
    step.after, step.heads = after, heads
    steps[step.id] = step


def _parse_states(value: Mapping[str, Any]) -> dict[str, Seen]:
    """Path → state. Raises: ValueError if one is no absolute path or no state; TypeError."""
    states = {path: Seen(state, mode) for path, (state, mode) in value.items()}
    for path, (state, mode) in states.items():
        if not path.startswith("/") or not 0 <= mode <= 0o7777 or "\0" in path + (state or ""):
            raise ValueError("no file and its state")
    return states


def find_restore_state(changes: Sequence[Change], now: Seen) -> Seen | None:
    """Returns the state that undoing these changes gives a file: `now` if there is nothing to do,
    None if somebody changed the file after the last of them. What somebody else changed between
    them stays. A change cut short by a crash has no known end: `now` counts as its end."""
    goal, is_known = now, False
    for change in reversed(changes):
        if change.after is None or change.after.state == goal.state:
            goal, is_known = change.before, True
        elif change.before.state != goal.state:
            break
        else:  # already reverted
            is_known = True
    last = changes[-1].after or now
    if goal.state == now.state and (now.state is None or now.mode != last.mode):
        goal = now
    return goal if is_known else None


def drop_parents(paths: Iterable[str]) -> list[str]:
    """Returns the paths except folders that contain another of them."""
    every = [*paths]
    folders = {str(folder) for path in every for folder in Path(path).parents}
    return [path for path in every if path not in folders]
