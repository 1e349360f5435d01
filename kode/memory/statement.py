"""The values of memory: statements, how they relate, and the changes that make up the log. `log.py`
stores them, `fold.py` derives from them what counts.
"""

import secrets
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any, Literal, NamedTuple

from kode.session.record import SessionRecord
from kode.values import Value, field, replace, serializer, validator

Who = Literal["user", "model", "session", "client", "import", "recovered", "colleague"]
"""`user`: typed, edited or approved by the person; `model`: by a tool call; `session`: by the
question at the end of a session; `client`: by another agent, through kode's MCP server;
`recovered`: from a file that had it when the log was damaged; `colleague`: by another member of a
team, whatever they say of its author."""
StatementState = Literal["current", "archived", "waiting"]
"""`archived`: in a file beside the place, in no prompt; `waiting`: until the person approves it."""
StatementKind = Literal["fact", "rule", "episode", "log", "summary", "soul"]
CodeState = Literal["unchanged", "changed", "gone"]
"""The state of cited lines of code."""

AUTHORS: Mapping[Who, str] = {
    "user": "the user",
    "model": "the model",
    "session": "the model at the end of a session",
    "client": "another agent",
    "import": "an import",
    "recovered": "recovered from a file",
    "colleague": "a colleague",
}
"""The authors in words, for a person and for a model."""


class Statement(Value):
    """One text that memory holds. It never changes: a new text is a new statement."""

    id: str = field(default_factory=lambda: f"s{secrets.token_hex(5)}")
    place: str
    """`facts/user.md`, `vault/HASH/facts/project.md`, `journal/HASH/HISTORY.md`, `notes`."""
    text: str
    """The lines as they stand in the file, the bullet of a list included."""
    kind: StatementKind = "fact"
    claimed_at: str
    """UTC; when it was said, never when it was merged or imported."""
    who: Who
    quote: str = ""
    """The person's exact words, which stand in a message that they typed."""
    session: str = ""
    turn: int = 0
    source: str = ""
    """Cited lines of code, as `path:10-20`; or the file, client or outside text it comes from."""
    source_hash: str = ""
    """The hash of cited lines at that time; "" if the source is not code."""
    since: str = ""
    """The version or day from which it holds."""
    until: str = ""
    """The last day on which it holds, as 2026-03-06."""
    project: str = ""
    """The hash of the project's path; "" for everywhere."""
    private: bool = False
    """Whether no model may see it."""
    state: StatementState = "current"
    replaces: tuple[str, ...] = ()
    """The ids of the statements that it supersedes."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """What one system adds: tags, stability, confidence, evidence, job_id of notes."""


class Amendment(Value):
    """The fields that a change sets in a statement that stays; None leaves a field as it is. The
    text of a statement never changes."""

    state: StatementState | None = None
    who: Who | None = None
    """`user` once the person approved it."""
    until: str | None = None
    source_hash: str | None = None
    private: bool | None = None
    details: Mapping[str, Any] | None = None
    """Replaces the values of the same names."""


class MemoryChange(Value):
    """One change of memory: one line of the log."""

    id: str = field(default_factory=lambda: secrets.token_hex(6))
    at: str = ""
    """UTC, to the millisecond."""
    who: Who
    kind: str
    """What happened, in one word: add, replace, forget, edit, undo, session, ..."""
    system: str
    add: tuple[Statement, ...] = ()
    end: tuple[str, ...] = ()
    """The ids of statements that are withdrawn."""
    set: Mapping[str, Amendment] = field(default_factory=dict)
    """Id → what changes of that statement."""
    conflicts: tuple[tuple[str, str], ...] = ()
    """Pairs of ids that contradict each other. The first counts until the person decides."""
    distinct: tuple[tuple[str, str], ...] = ()
    """Pairs of ids that the person or a judge has decided: both hold."""
    undoes: str = ""
    """The id of the change that counts as never made from here on."""
    files: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Name of each file that it writes → its fingerprint before and after."""
    session: str = ""
    turn: int = 0
    origin: str = ""
    """The member of a team from whose machine it came; "" for a change that was made here."""
    batch: str = ""
    """Shared by changes that are undone together."""
    reason: str = ""


class Author(NamedTuple):
    """Who makes a change, and on what grounds."""

    who: Who
    session: str = ""
    turn: int = 0
    quote: str = ""
    source: str = ""
    source_hash: str = ""


class Rank(IntEnum):
    """How much a statement counts against one that it contradicts."""

    OUTSIDE = 0
    MODEL = 1
    CODE = 2
    QUOTED = 3
    PERSON = 4


def rank_statement(statement: Statement, code: CodeState | None) -> Rank:
    """The rank by the statement's author alone, never by its words. `code` is the present state of
    the lines that it cites; None if it cites none of this project."""
    if statement.who == "client":
        return Rank.OUTSIDE
    if statement.who == "user":
        return Rank.PERSON
    if statement.quote and statement.who in ("model", "session"):
        return Rank.QUOTED
    if statement.source_hash and code not in ("changed", "gone"):
        return Rank.CODE
    return Rank.MODEL


class Outcome(Value):
    """What became of a request to change memory."""

    text: str
    """What happened, as a clause for whoever asked: a person or a model."""
    change: MemoryChange | None = None
    """None if nothing changed."""
    statement: Statement | None = None
    """The statement that now stands for the text that was given."""
    conflict: Statement | None = None
    """The statement that contradicts it and counts until the person decides."""


def timestamp(moment: datetime) -> str:
    """An aware time as the log writes it: UTC, milliseconds, sortable as text."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def make_statement(author: Author, place: str, text: str, at: str, **values: Any) -> Statement:
    """A new statement by an author; `values` are its other fields."""
    return replace(Statement(place=place, text=text, claimed_at=at, **author._asdict()), **values)


def session_statement(record: SessionRecord, place: str, text: str, **values: Any) -> Statement:
    """Makes a statement by the question after a session, of its project if the place names that."""
    project, author = record.project.hash, Author("session", record.id, record.turns)
    values = {"project": project if project in place else "", **values}
    return make_statement(author, place, text, timestamp(record.ended_at), **values)


Pair = tuple[str, str]


class Relations(Value):
    """How statements relate, by id, as a model or a person says; `plan_settlement` decides what
    follows."""

    same: tuple[tuple[str, ...], ...] = ()
    """Groups that say the same."""
    outdated: tuple[Pair, ...] = ()
    """A statement, and the one that outdates it."""
    conflict: tuple[Pair, ...] = ()
    """Statements of which only one can hold, while nothing says which."""

    def ids(self) -> set[str]:
        return {id for group in (*self.same, *self.outdated, *self.conflict) for id in group}


NO_RELATIONS = Relations()


class Settlement(Value):
    """What follows from relations."""

    ends: Mapping[str, str]
    """The id of each statement that is withdrawn → the remaining one that stands for it."""
    conflicts: tuple[Pair, ...]
    """Remaining statements that contradict each other; the first counts."""


def plan_settlement(
    relations: Relations, claimed_at: Mapping[str, str], ranks: Mapping[str, Rank]
) -> Settlement:
    """Which statements end, and which contradict each other, of those in `claimed_at`. The order of
    relations, and a direction that was turned round, change nothing that matters: the newest claim
    of the highest rank always remains.

    Of statements that say the same, the one of the highest rank remains, and of these the newest. A
    statement is outdated only by one that is not older and not of a lower rank; else both remain,
    in conflict. What contradicted a statement that ends contradicts the one that stands for it.
    """

    def weight(id: str) -> tuple[Rank, str, str]:
        return ranks[id], claimed_at[id], id

    group_of = {id: frozenset([id]) for id in claimed_at}
    for ids in relations.same:
        union = frozenset[str]().union(*(group_of[id] for id in ids if id in group_of))
        group_of |= dict.fromkeys(union, union)

    def between(pairs: Iterable[Pair]) -> set[tuple[frozenset[str], frozenset[str]]]:
        both = (pair for pair in pairs if pair[0] in group_of and pair[1] in group_of)
        groups = {(group_of[first], group_of[second]) for first, second in both}
        return {(first, second) for first, second in groups if first != second}

    outdated, ends = between(relations.outdated), dict[str, str]()
    for id, group in group_of.items():
        newer = {other for old, new in outdated if old == group for other in new}
        later = [other for other in newer if (claimed_at[other], other) > (claimed_at[id], id)]
        if heirs := [other for other in later if ranks[other] >= ranks[id]]:
            ends[id] = max(heirs, key=weight)
    remaining = dict[frozenset[str], str]()
    for group in {*group_of.values()}:
        if left := [id for id in group if id not in ends]:
            remaining[group] = max(left, key=weight)
            ends |= {id: remaining[group] for id in left if id != remaining[group]}

    def last(id: str) -> str:
        """Each step leads to a later claim, or to the one that remains: there is no cycle."""
        return last(ends[id]) if id in ends else id

    def heir(group: frozenset[str]) -> str:
        return remaining.get(group) or last(max(group, key=weight))

    rivals = {(first, second) for first, second in outdated if {first, second} <= {*remaining}}
    both = ({heir(first), heir(second)} for first, second in rivals | between(relations.conflict))
    pairs = {tuple(sorted(pair, key=weight, reverse=True)) for pair in both if len(pair) == 2}
    return Settlement(
        ends={id: last(id) for id in sorted(ends)},
        conflicts=tuple(sorted((first, second) for first, second in pairs)),
    )


def to_row(change: MemoryChange) -> dict[str, Any]:
    """The JSON object of a change, without the fields that have their default."""
    plain = serializer(MemoryChange).to_python(change, exclude_defaults=True, warnings=False)
    return dict(plain)


def parse_change(line: str | bytes) -> MemoryChange:
    """The change of a JSON text; unknown fields are ignored. Raises: ValueError for none."""
    change: MemoryChange = validator(MemoryChange).validate_json(line)
    return change
