"""A change to what is remembered, as one line of `history.jsonl` has it, and who made it."""

import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from kode.errors import MemoryRefused

BY_HAND = "by-hand"
"""The kind of a change that a person made in the file itself."""
REBUILD = "rebuild"
"""The kind of one that put back what the history has."""
_RECORDS = ("---\n", "{")
"""How an episode's file and a note begin."""
_GENERATED = "> Summary:"

Who = Literal["user", "model", "extraction", "consolidation", "merge", "undo", "import", "client"]
"""`user`: typed by the person; `model`: by a tool call; `client`: another agent, through kode's MCP
server; the others: the code that did it."""


Side = tuple[str, str]
"""One of two texts that are compared: its place, and its key there."""
Pair = tuple[Side, Side]
"""Two of them, the older first."""


class NothingToUndo(MemoryRefused):
    """Nothing of a change is left: kode was stopped before it was made, or it is gone since."""


def new_batch() -> str:
    """The id of an import: `kode memory undo --import ID` undoes all of it."""
    return f"i{secrets.token_hex(3)}"


@dataclass(frozen=True, kw_only=True)
class Author:
    """Who made a change, when in the session, and on what grounds."""

    who: Who
    session: str | None = None
    turn: int | None = None
    words: str = ""
    """The person's prompt in that turn, shortened."""
    source: str = ""
    """Its source outside of memory: lines of code as `path:10-20`, or the file or system it was
    imported from."""
    source_hash: str = ""
    """Hash of those lines at that time; "" if the source is not code."""
    since: str = ""
    """The version or day from which it holds, as given."""
    until: str = ""
    """The last day on which it holds, as 2026-03-06; "" for no end."""
    batch: str = ""
    """Shared by changes that are undone together."""
    approves: str = ""
    """The id of what waited and takes its place with this change (`waiting.py`)."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """One change. `before` and `after` are the old and new texts: entries of a fact file, or one
    full file."""

    kind: str
    """What happened, in one word of the system: add, replace, remove, merge, consolidate, ..."""
    target: str
    """What changed: a path below the memory folder, or a note's id."""
    stood: str = ""
    """The fingerprint of what stood in its place before; "" if it was not followed."""
    stands: str = ""
    """The same for afterwards."""
    system: str
    who: Who
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    reason: str = ""
    session: str | None = None
    turn: int | None = None
    position: int | None = None
    """The index of `before` among the entries; None if it does not matter."""
    undoes: str = ""
    """The id of the change that this one undoes."""
    supersedes: str = ""
    """A previously removed text that this change makes outdated."""
    near: "tuple[Pair, ...]" = ()
    """Pairs of texts that may be one, or contradict each other: they wait for a judge."""
    against: "tuple[Pair, ...]" = ()
    """Pairs that contradict each other: they wait for the person."""
    settled: "tuple[Pair, ...]" = ()
    """Pairs that wait for neither any more."""
    was_archived: tuple[int, ...] = ()
    """Indices in `before` of texts that were in an archive."""
    archived: tuple[int, ...] = ()
    """Indices in `after` of texts that are in one."""
    words: str = ""
    source: str = ""
    source_hash: str = ""
    since: str = ""
    until: str = ""
    batch: str = ""
    approves: str = ""
    waits: dict[str, str] | None = None
    """Of a proposal: what its text alone does not say, see `waiting.Proposal`."""
    person: str = ""
    """The member of a team, as its server knows them; "" for the local person."""
    host: str = ""
    """Their machine."""
    redacted: bool = False
    """Whether a credential was masked in `before` or `after`; then it cannot be undone
    completely."""
    id: str = field(default_factory=lambda: secrets.token_hex(6))
    at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    """UTC."""

    @property
    def whose(self) -> str:
        """` of bob on bobs-laptop` if a colleague made it; "" for a local change."""
        return whose(self.person, self.host)

    @property
    def differences(self) -> tuple[list[str], list[str]]:
        """The lines that it takes away, and those that it adds: of one text that became another
        those that differ, else all. Nothing of full records, of which its reason says more, nor of
        generated summaries."""
        old, new = (
            [
                line
                for text in side
                if not text.startswith(_RECORDS)
                for line in text.split("\n")
                if line.strip() and not line.startswith(_GENERATED)
            ]
            for side in (self.before, self.after)
        )
        if self.before[1:] or self.after[1:] or set(old) == set(new):
            return old, new
        was, now = set(old), set(new)
        return [line for line in old if line not in now], [line for line in new if line not in was]

    @property
    def is_mark(self) -> bool:
        """Whether it only says that nothing is left of the change it undoes."""
        return bool(self.undoes) and not self.before and not self.after

    @classmethod
    def by(cls, author: Author, system: str, kind: str, target: str, **values: Any) -> "Change":
        """A change by an author; `values` are its other fields."""
        return cls(system=system, kind=kind, target=target, **asdict(author), **values)


def whose(person: str, host: str) -> str:
    """` of bob on bobs-laptop`; "" without a person."""
    return f" of {person} on {host}" if person else ""


def undo_of(change: Change, author: Author, **values: Any) -> Change:
    """The change that undoes another; `values` are fields that are not simply swapped."""
    reason = f"undoes {change.kind} {change.id}"
    swapped: dict[str, Any] = {"before": change.after, "after": change.before, "reason": reason}
    target = values.pop("target", change.target)
    return Change.by(
        author, change.system, "undo", target, undoes=change.id, **{**swapped, **values}
    )


def nothing_left(change: Change, gone: str = "") -> NothingToUndo:
    """The error for a change of which nothing is left; `gone` is a sentence about it."""
    return NothingToUndo(
        f"{gone} There is nothing left to undo of {change.kind} {change.id}: kode was stopped "
        "before it was made, or it was changed since.".lstrip()
    )


BY: Mapping[Who, str] = {
    "user": "you",
    "undo": "you",
    "model": "the model",
    "extraction": "a model that summed up",
    "consolidation": "a model that consolidated",
    "merge": "a model that judged two entries",
    "import": "an import",
    "client": "another agent",
}
"""Who makes a change, for a person."""


def by(change: Change) -> str:
    """Who made a change, for a person: `you`, `the model of bob on bobs-laptop`."""
    is_of_colleague = change.person and change.who == "user"
    return (
        f"{change.person} on {change.host}"
        if is_of_colleague
        else f"{BY.get(change.who, change.who)}{change.whose}"
    )


def origin_of(change: Change | None, before: str = "") -> str:
    """A text's origin for a person: `add by the model, 2026-03-01 12:00 UTC, session ...`, after
    the word `before`."""
    if change is None:
        return "written by hand"
    source = f", from {change.source}" if change.source else ""
    return f"{before}{change.kind} by {by(change)}{source}, {when(change)}"


def when(change: Change) -> str:
    """When a change was made and in which session, for a person."""
    turn = f" turn {change.turn}" if change.turn else ""
    session = f", session {change.session}{turn}" if change.session else ""
    return f"{change.at[:16].replace('T', ' ')} UTC{session}"


def refuse_redacted(change: Change, instead: str) -> None:
    """Raises: MemoryRefused for a change whose texts were masked, so that it cannot be undone.
    `instead` says what the person can do, a sentence.
    """
    if change.redacted:
        raise MemoryRefused(
            f"{change.id} held a credential, which the history does not keep: it cannot be "
            f"undone. {instead}"
        )
