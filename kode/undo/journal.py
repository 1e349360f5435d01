"""The journal of a session's changes in files, `undo/journal.jsonl`, and what follows from it: what
each turn changed, and what can be undone and redone.

A step has two lines: `begin`, on disk before its effect, with what was there, and `done` after it,
with what is there now. An undo or a redo is a step whose goal is in its first line, so whoever
starts next after a kill can finish it. The id of the person's message groups the steps of a turn.
"""

import contextlib
import functools
import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from kode import durable
from kode.messages import plural
from kode.record_log import is_intact, seal
from kode.undo.store import Seen

Kind = Literal["change", "undo", "redo"]
States = Mapping[str, Seen]
"""Absolute path → what is there."""


@dataclass(frozen=True, kw_only=True)
class RepositoryChange:
    """What a command did to a repository apart from its files."""

    root: str
    head: str = ""
    """The commit before, if another one or another branch is checked out now."""
    branch: str = ""
    """The branch before; "" for a detached HEAD."""
    switched: bool = False
    """Whether another branch is checked out now."""
    stashes: Sequence[tuple[str, str]] = ()
    """(commit, message) of each stash that disappeared, newest first."""


class TurnId(NamedTuple):
    """The turn that a step belongs to."""

    id: str
    """Of the person's message; "" before the first."""
    number: int


@dataclass(kw_only=True)
class Step:
    """One change of files by kode."""

    id: str = field(default_factory=lambda: secrets.token_hex(8))
    turn: TurnId
    kind: Kind = "change"
    of: str = ""
    """Of an undo or a redo: the id of the first step that it takes back or brings back."""
    before: dict[str, Seen] = field(default_factory=dict)
    goal: dict[str, Seen] = field(default_factory=dict)
    """Of an undo or a redo."""
    folders: dict[str, int] = field(default_factory=dict)
    """How many of the folders that hold a path did not exist before; 0 is left out."""
    after: dict[str, Seen] | None = None
    """What has changed; None if it was cut short."""
    repositories: tuple[RepositoryChange, ...] = ()


class Done(NamedTuple):
    """The second line of a step."""

    id: str
    before: States
    """Of files that were found to have changed only afterwards."""
    after: States
    repositories: tuple[RepositoryChange, ...] = ()


class Lost(NamedTuple):
    """Here the journal was cut: so many bytes that it once had are missing."""

    size_bytes: int


Line = Step | Done | Lost


@dataclass(frozen=True)
class Journal:
    """The file. Several kodes may write to it."""

    path: Path

    def append(self, *added: Line) -> None:
        """Adds lines; they are on disk when this returns. Raises: StorageError."""
        durable.make_folder(self.path.parent)
        lines = [*map(line_of, added)]
        if lost := durable.lost_bytes(self.path):
            lines.insert(0, line_of(Lost(lost)))
        durable.append_lines(self.path, lines)

    def read(self) -> list[Line | None]:
        """Every line; None for one that cannot be read. Never raises."""
        noted, data = durable.noted_length(self.path), b""
        with contextlib.suppress(OSError):
            data = self.path.read_bytes()
        lost = [Lost(noted - len(data))] if len(data) < noted else []
        return [*_parse_all(data), *lost]

    def check(self, *, repair: bool) -> list[str]:
        """A plain sentence for each damage that has not been reported and repaired before. With
        `repair` the file is set aside in full and rewritten, so that it says what it has lost.
        Raises: StorageError."""
        noted, data = durable.noted_length(self.path), b""
        with durable.storage_errors(self.path, "read"), contextlib.suppress(FileNotFoundError):
            data = self.path.read_bytes()
        lines, parsed = data.split(b"\n")[:-1], _parse_all(data)
        cut = max(0, noted - len(data))
        faults = []
        if bad := parsed.count(None):
            faults.append(f"{self.path} has {plural(bad, 'damaged line')}: undo leaves them out.")
        if cut:
            faults.append(f"{self.path} has lost its end ({cut} bytes): undo leaves it out.")
        if repair and faults:
            faults.append(f"The old file is saved as {durable.keep_aside(self.path, data).name}.")
            whole = [line for line, value in zip(lines, parsed, strict=True) if value is not None]
            # A line that is there twice is not lost.
            if lost := cut + sum(map(len, {*lines} - {*whole})):
                whole.append(line_of(Lost(lost)))
            rewritten = b"".join(line + b"\n" for line in whole)
            durable.replace(self.path, rewritten)
            durable.note_length(self.path, len(rewritten))
        return faults


def line_of(line: Line) -> bytes:
    """One sealed line, unlike every other."""
    match line:
        case Step():
            value = {"begin": line.id, **asdict(line)}
            for name in ("id", "after", "repositories"):
                del value[name]
        case Done():
            value = {"done": line.id, "before": line.before, "after": line.after}
            value["repositories"] = [asdict(change) for change in line.repositories]
        case Lost():
            value = {"lost": line.size_bytes, "id": secrets.token_hex(4)}
    return seal(json.dumps(value).encode())


def _parse_all(data: bytes) -> list[Line | None]:
    """The whole lines; None for one that cannot be read, or that is there twice."""
    lines = data.split(b"\n")[:-1]
    first = {line: number for number, line in reversed([*enumerate(lines)])}
    return [_parse(line) if first[line] == number else None for number, line in enumerate(lines)]


def _parse(line: bytes) -> Line | None:
    """None if the line is torn, damaged, or from a later version."""
    if not is_intact(line):
        return None
    try:
        value = json.loads(line)
        if "lost" in value:
            return Lost(int(value["lost"]))
        if "done" in value:
            repositories = tuple(RepositoryChange(**change) for change in value["repositories"])
            before, after = _states(value["before"]), _states(value["after"])
            return Done(str(value["done"]), before, after, repositories)
        if value["kind"] not in ("change", "undo", "redo"):
            return None
        return Step(
            id=str(value["begin"]),
            turn=TurnId(str(value["turn"][0]), int(value["turn"][1])),
            kind=value["kind"],
            of=str(value["of"]),
            before=_states(value["before"]),
            goal=_states(value["goal"]),
            folders={str(path): int(count) for path, count in value["folders"].items()},
        )
    except (ValueError, KeyError, IndexError, AttributeError, RecursionError, TypeError):
        return None


def _states(value: Mapping[str, Any]) -> dict[str, Seen]:
    """Raises: ValueError for what cannot name a file and its state; TypeError."""
    states = {}
    for path, (state, mode) in value.items():
        texts = (path, "" if state is None else state)
        if not path.startswith("/") or not 0 <= mode <= 0o7777 or any("\0" in it for it in texts):
            raise ValueError("no file and its state")
        states[path] = Seen(state, mode)
    return states


# ── turns ────────────────────────────────────────────────────────────────────────────────────


class Change(NamedTuple):
    """One file in one step."""

    before: Seen
    after: Seen | None
    """None if the step was cut short, so that nobody knows."""

    @property
    def has_effect(self) -> bool:
        return self.before != self.after


@dataclass(kw_only=True)
class Group:
    """What one turn changed."""

    turn: TurnId
    steps: list[Step] = field(default_factory=list)
    is_undone: bool = False
    last_undo: dict[str, Change] = field(default_factory=dict)
    """What the undos of it have changed: what can be redone never shrinks."""

    @functools.cached_property
    def files(self) -> dict[str, list[Change]]:
        """The changes of each file that has one, by absolute path, in order."""
        files: dict[str, list[Change]] = {}
        for step in self.steps:
            names = step.before if step.after is None else step.after
            for path in names:
                after = None if step.after is None else step.after[path]
                change = Change(step.before.get(path, Seen(None)), after)
                files.setdefault(path, []).append(change)
        return files

    @property
    def changed(self) -> list[str]:
        """The absolute paths of the files that it changed."""
        return [path for path, done in self.files.items() if any(one.has_effect for one in done)]

    @property
    def repositories(self) -> list[RepositoryChange]:
        return [change for step in self.steps for change in step.repositories]

    def folders(self, path: str) -> int:
        """How many of the folders that hold a path did not exist before the turn."""
        return max(step.folders.get(path, 0) for step in self.steps)


@dataclass(frozen=True, kw_only=True)
class History:
    """What can be undone and redone."""

    groups: tuple[Group, ...] = ()
    """That have an effect, the oldest first."""
    undone: tuple[Group, ...] = ()
    """That can be redone, the last undone at the end."""
    last: Step | None = None
    """The last undo or redo."""
    unfinished: tuple[Step, ...] = ()
    """Steps that were cut short, or that run now."""
    damaged: int = 0
    """Lines that could not be read, or were there twice."""
    lost_bytes: int = 0
    """Missing where the journal was cut."""

    @property
    def standing(self) -> list[Group]:
        """That can be undone, the newest last."""
        return [group for group in self.groups if not group.is_undone]

    def since(self, turn: int) -> list[Group]:
        """What can be undone of this turn and later ones, newest first."""
        groups: list[Group] = []
        for group in reversed(self.standing):
            # Numbers that rise on the way back are of turns that a rewind dropped before.
            if group.turn.number < turn or (groups and group.turn.number > groups[-1].turn.number):
                break
            groups.append(group)
        return groups


def history(lines: Iterable[Line | None]) -> History:
    """What can be undone and redone after these lines."""
    steps: dict[str, Step] = {}
    damaged = lost_bytes = 0
    for line in lines:
        match line:
            case None:
                damaged += 1
            case Lost():
                lost_bytes += line.size_bytes
            case Step():
                steps[line.id] = line
            case Done() if line.id in steps:
                step = steps[line.id]
                step.before |= line.before
                step.after = {**line.after}
                step.repositories = line.repositories
    groups: list[Group] = []
    undone: list[Group] = []
    last: Step | None = None
    is_open = False
    for step in steps.values():
        if step.kind == "change":
            if not is_open or groups[-1].turn.id != step.turn.id:
                groups.append(Group(turn=step.turn))
            groups[-1].steps.append(step)
            is_open = True
            if step.repositories or step.after is None or step.after:
                undone.clear()
            continue
        last, is_open = step, False
        _take_back(groups, undone, step)
    return History(
        groups=tuple(group for group in groups if group.changed or group.repositories),
        undone=tuple(undone),
        last=last,
        unfinished=tuple(step for step in steps.values() if step.after is None),
        damaged=damaged,
        lost_bytes=lost_bytes,
    )


def _take_back(groups: Sequence[Group], undone: list[Group], step: Step) -> None:
    """Notes an undo or a redo in the group that it is about, which may be lost."""
    for group in groups:
        if group.steps[0].id == step.of and group.is_undone == (step.kind == "redo"):
            group.is_undone = step.kind == "undo"
            if group.is_undone:
                undone.append(group)
                after = step.goal if step.after is None else step.after
                group.last_undo |= {
                    path: Change(step.before[path], after[path])
                    for path in step.before
                    if path in after
                }
            elif group in undone:
                undone.remove(group)


# ── one file ─────────────────────────────────────────────────────────────────────────────────


def way_back(changes: Sequence[Change], now: Seen) -> tuple[Seen, bool, bool]:
    """What a file reverts to when the group of these changes is undone; whether that is known, or
    it was changed after the last of them and is left alone; and whether that is the state before
    them, or one that somebody else made in between. A change cut short by a crash has no known end:
    the current state counts."""
    goal, is_known = now, False
    for change in reversed(changes):
        if change.after is not None and change.after.state != goal.state:
            if change.before.state == goal.state and not is_known:
                is_known = True  # already reverted
                continue
            return goal, is_known, False
        goal, is_known = change.before, True
    return goal, is_known, True
