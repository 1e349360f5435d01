"""The log of a session's file changes, and what follows from it: which turns can be undone, in
which order, and what each file reverts to. Pure functions over lines.

A turn is a group of changes. Undo reverts the newest group not undone, redo the last one undone; a
turn that changes files after an undo clears the redo list. `checkpoints` reads and writes files.
"""

import functools
import json
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kode.record_log import is_intact, seal
from kode.session.content_store import State

if TYPE_CHECKING:
    from pydantic import TypeAdapter


@dataclass(frozen=True, kw_only=True)
class Change:
    """One file in one turn, before and after one writer."""

    turn: int
    path: str
    before: State
    after: State = None
    mode: int = 0o644
    """File mode before."""
    after_mode: int | None = None
    """File mode after, if it changed."""
    done: bool = False
    """False on the line written before the change: `after` is meaningless yet."""
    folders: int = 0
    """How many of the folders that hold the file did not exist before."""

    @property
    def has_effect(self) -> bool:
        return not self.done or self.before != self.after or self.after_mode is not None


@dataclass(frozen=True, kw_only=True)
class RepositoryChange:
    """What a command did to a repository apart from its files."""

    turn: int
    root: str
    head: str = ""
    """The commit before, if another one or another branch is checked out now."""
    branch: str = ""
    """The branch before; "" for a detached HEAD."""
    switched: bool = False
    """Whether another branch is checked out now."""
    stashes: tuple[tuple[str, str], ...] = ()
    """(commit, message) of each stash that disappeared, newest first."""


@dataclass(frozen=True, kw_only=True)
class TurnEnd:
    """Changes after this belong to another turn, even with the same number."""


@dataclass(frozen=True, kw_only=True)
class Settled:
    """A command has ended: files announced before it without a change are unchanged."""

    turn: int


@dataclass(frozen=True, kw_only=True)
class Moved:
    """One file that an undo or a redo changed."""

    path: str
    was: State
    was_mode: int
    now: State
    now_mode: int
    folders: int = 0
    """How many of the folders that hold it did not exist before the group: they go with it."""


@dataclass(frozen=True, kw_only=True)
class Taken:
    """An undo or a redo of a group, on disk before the first file changes."""

    group: int
    redo: bool = False
    files: tuple[Moved, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Made:
    """The undo or redo of this group is complete: nothing that it planned has still to be done."""

    group: int


@dataclass(frozen=True, kw_only=True)
class Lost:
    """Here the log was cut: so many bytes that it once had are missing."""

    size_bytes: int


Line = Change | RepositoryChange | TurnEnd | Settled | Taken | Made | Lost

_KINDS: dict[str, type[Line]] = {
    "change": Change,
    "repository": RepositoryChange,
    "end": TurnEnd,
    "settled": Settled,
    "taken": Taken,
    "made": Made,
    "lost": Lost,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def line_of(line: Line) -> bytes:
    """One line, unlike every other: see `parse_all`."""
    value = {"kind": _NAMES[type(line)], **asdict(line), "id": secrets.token_hex(4)}
    return seal(json.dumps(value).encode())


def parse_all(data: bytes) -> list[Line | None]:
    """The whole lines of a log; None for one that cannot be read, or that is there twice."""
    seen: set[bytes] = set()
    found: list[Line | None] = []
    for line in data.split(b"\n")[:-1]:
        found.append(None if line in seen else parse(line))
        seen.add(line)
    return found


def parse(line: bytes) -> Line | None:
    """Parses a line; None if it is torn, damaged, or from a later version."""
    if not is_intact(line):
        return None
    try:
        value = json.loads(line)
        value.pop("id", None)
        parsed: Line = _adapter(value.pop("kind", "change")).validate_python(value)
    except (ValueError, KeyError, AttributeError, RecursionError, TypeError):
        return None
    match parsed:
        case Change():
            sound = _is_sound(parsed.path, parsed.before, parsed.after, parsed.mode)
        case Taken():
            sound = all(
                _is_sound(file.path, file.was, file.now, file.was_mode | file.now_mode)
                for file in parsed.files
            )
        case _:
            sound = True
    return parsed if sound else None


@functools.cache
def _adapter(kind: str) -> "TypeAdapter[Any]":
    from pydantic import TypeAdapter

    return TypeAdapter(_KINDS[kind])


def _is_sound(path: str, one: State, other: State, mode: int) -> bool:
    """Whether these can name a file and its state."""
    texts = (path, one or "", other or "")
    return path.startswith("/") and 0 <= mode <= 0o7777 and not any("\0" in text for text in texts)


# ── groups ───────────────────────────────────────────────────────────────────────────────────


@dataclass
class Group:
    """The changes of one turn, in order."""

    number: int
    turn: int
    files: dict[str, list[Change]] = field(default_factory=dict)
    repositories: list[RepositoryChange] = field(default_factory=list)
    ended: bool = False

    @property
    def changed(self) -> list[str]:
        """Absolute paths."""
        return [path for path, done in self.files.items() if any(one.has_effect for one in done)]

    @property
    def has_effect(self) -> bool:
        return bool(self.repositories or self.changed)


@dataclass(frozen=True, kw_only=True)
class History:
    groups: tuple[Group, ...]
    standing: tuple[int, ...]
    """Groups that can be undone, newest last."""
    undone: tuple[int, ...]
    """Groups that can be redone, last undone at the end."""
    taken: dict[int, Taken]
    """Group → its last undo, with all files that it and the undos before it changed: what can be
    redone never shrinks."""
    unfinished: Taken | None = None
    """An undo or a redo that was cut short."""
    damaged: int = 0
    """Lines that could not be read, or were there twice."""
    lost_bytes: int = 0
    """Missing where the log was cut."""

    def since(self, turn: int) -> list[Group]:
        """What can be undone of this turn and later ones, newest first."""
        found: list[Group] = []
        for group in (self.groups[number] for number in reversed(self.standing)):
            # Numbers that rise on the way back are of turns that a rewind dropped before.
            if group.turn < turn or (found and group.turn > found[-1].turn):
                break
            found.append(group)
        return found


def history(lines: Iterable[Line | None]) -> History:
    """What can be undone and redone after these lines."""
    groups: list[Group] = []
    order: list[int | Taken] = []
    unfinished: Taken | None = None
    damaged = lost_bytes = 0
    for line in lines:
        match line:
            case None:
                damaged += 1
            case Lost():
                lost_bytes += line.size_bytes
            case TurnEnd():
                if groups:
                    groups[-1].ended = True
            case Settled():
                if groups:
                    _settle(groups[-1])
            case Taken():
                order.append(line)
                # The changes that it undoes may be lost.
                unfinished = line if line.group < len(groups) else None
            case Made():
                unfinished = None
            case Change() | RepositoryChange():
                group = _group_for(groups, line)
                if group is not (groups[-1] if groups else None):
                    groups.append(group)
                    order.append(group.number)
                if isinstance(line, Change):
                    _take_in(group.files.setdefault(line.path, []), line)
                else:
                    group.repositories.append(line)
    standing: list[int] = []
    undone: list[int] = []
    taken: dict[int, Taken] = {}
    for step in order:
        if not isinstance(step, Taken):
            if groups[step].has_effect:
                standing.append(step)
                undone.clear()
            continue
        source, target = (undone, standing) if step.redo else (standing, undone)
        if step.group in source:
            source.remove(step.group)
            target.append(step.group)
            if not step.redo:
                taken[step.group] = _with_earlier(taken.get(step.group), step)
    return History(
        groups=tuple(groups),
        standing=tuple(standing),
        undone=tuple(undone),
        taken=taken,
        unfinished=unfinished,
        damaged=damaged,
        lost_bytes=lost_bytes,
    )


def _with_earlier(earlier: Taken | None, step: Taken) -> Taken:
    """The undo with the files of those before it, whose redo brought back not all of them."""
    if earlier is None:
        return step
    files = {move.path: move for move in (*earlier.files, *step.files)}
    return replace(step, files=tuple(files.values()))


def _group_for(groups: list[Group], line: Change | RepositoryChange) -> Group:
    if groups and not groups[-1].ended and groups[-1].turn == line.turn:
        return groups[-1]
    return Group(number=len(groups), turn=line.turn)


def _settle(group: Group) -> None:
    for path, changes in list(group.files.items()):
        group.files[path] = [change for change in changes if change.done]
        if not group.files[path]:
            del group.files[path]


def _take_in(changes: list[Change], line: Change) -> None:
    """Adds a line; one that says how a change ended replaces the one that announced it."""
    for index in range(len(changes) - 1, -1, -1):
        change = changes[index]
        if (
            line.done
            and change.before == line.before
            and (index == len(changes) - 1 or not change.done)
        ):
            changes[index] = replace(line, mode=change.mode, folders=change.folders)
            return
    changes.append(line)


# ── one file ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class WayBack:
    """What a file reverts to when a group is undone."""

    state: State
    mode: int = 0o644
    found: bool = True
    """False if it was changed after the group's last change: then it is left alone."""
    whole: bool = True
    """False if somebody changed it between two changes of the group: it reverts to that state."""


def way_back(changes: Sequence[Change], current: State) -> WayBack:
    """The state to revert to, from the current one back to before the group, stopping where
    somebody else made a change. A change cut short by a crash has no known end: the current state
    counts."""
    state, mode, found = current, 0o644, False
    for change in reversed(changes):
        if change.done and change.after != state:
            if change.before == state and not found:
                found = True  # already reverted
                continue
            return WayBack(state=state, mode=mode, found=found, whole=False)
        state, mode, found = change.before, change.mode, True
    return WayBack(state=state, mode=mode, found=found)
