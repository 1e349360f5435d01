"""What waits for a person, as lines of the history: a proposal by a client, an import, an entry of
a session that took in outside text.

`propose` and `import` begin one, `drop` withdraws it. The change that puts an approved one in its
place names it (`Change.approves`): so there is no moment at which it is nowhere, and with the undo
of that change it waits again. `review.py` has the person's decisions.
"""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from kode.errors import MemoryRefused
from kode.memory import scan
from kode.memory.change import Author, Change, nothing_left, refuse_redacted, undo_of
from kode.memory.history import History
from kode.memory.stored import locked
from kode.messages import shorten

SYSTEM = "proposed"
"""The name in the history; no memory system has it."""
MAX_CHARS = 1_000
"""Limit of a proposal by an agent."""
MAX_WAITING = 100
"""Limit for proposals by agents."""
MAX_IMPORTED = 5_000
"""Limit for imports by a person: another agent's entire folder."""

About = Literal["user", "project"]
Why = Literal["outside", "conflict", "no longer true"]
"""Why something waits: it came from outside, it contradicts or repeats another, or it rests on code
that changed or has an end that has passed."""

CLIENT = Author(who="client")
USER = Author(who="user")
_BEGINS = ("propose", "import")

FOUND_BY = "kode, in a session that read outside text"
"""Who proposes a fact of such a session."""


@dataclass(frozen=True, kw_only=True)
class Proposal:
    id: str
    text: str
    about: About = "project"
    client: str = ""
    """The agent's name for itself."""
    project: str = ""
    """The folder it was proposed in."""
    at: str = ""
    source: str = ""
    """Where it came from: of an import file, line, agent, digest; of a session the outside text
    that it took in."""
    batch: str = ""
    """The import that it came with."""
    place: str = ""
    """The folder that it is for: `journal/5d41402abc4b2a76`; "" for whichever system is active."""
    title: str = ""
    """What it is, in a few words, where it is more than a fact."""
    words: str = ""
    """What the person typed that it rests on; "" for what came from outside."""

    @property
    def key(self) -> tuple[str, ...]:
        """Its identity: the same text may apply to two projects."""
        return (self.text, self.about, self.project if self.about == "project" else "")

    def is_here(self, project: Path) -> bool:
        """Whether it may be approved in this project."""
        return self.about != "project" or bool(self.place) or self.project == str(project)

    @property
    def where(self) -> str:
        """File, line and agent of an imported one; "" for others."""
        return self.source.rpartition(" (")[0]

    @property
    def origin(self) -> str:
        return self.source or f"{self.client}, which proposed it"

    def as_waiting(self) -> "Waiting":
        when = self.at[:16].replace("T", " ")
        by = f"from {self.source}" if self.source else f"by {self.client}"
        by = f'from your words "{shorten(self.words, MAX_CHARS)}", {by}' if self.words else by
        if self.title:
            text, line = self.text, f"{when}  {self.title}, {by}"
        else:
            said = f"{when}  about the {self.about}, {by} in {self.project}"
            # For hundreds imported at once, only the differences are worth reading.
            head = f"about the {self.about}, {self.where}" if self.where else said
            text, line = f"{self.text}\n\n{said}", f"{head}: {shorten(self.text, MAX_CHARS)}"
        return Waiting(id=self.id, line=line, text=text, proposal=self)


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """Something that only counts after a person approves it."""

    id: str
    line: str
    """Its line in the list of waiting items."""
    text: str
    """The full text; credentials are masked on display."""
    proposal: Proposal | None = None
    """None for what stands in its place already, marked by its system."""
    decide: "Callable[[Literal['approve', 'drop']], Awaitable[Any]] | None" = field(
        default=None, compare=False
    )
    """Removes the mark, or what is marked; None for a proposal. Gives what that did."""


def proposals(history: History) -> list[Proposal]:
    """What waits, oldest first. Raises: StorageError."""
    lines = history.lines()
    found: dict[str, Change] = {}
    for change in filter(lines.counts, lines):
        if change.approves:
            found.pop(_target(change.approves), None)
        elif change.system == SYSTEM and change.kind in _BEGINS:
            found[change.target] = change
        elif change.system == SYSTEM and not change.undoes:
            found.pop(change.target, None)
    return [one for one in map(_proposal, found.values()) if one]


async def propose(
    history: History,
    text: str,
    about: About,
    *,
    client: str,
    project: Path,
    author: Author = CLIENT,
    source: str = "",
) -> Change | None:
    """Adds the proposal of an agent, or a fact of a session with outside text; None if the same
    waits already.

    Raises: MemoryRefused, StorageError, BusyError.
    """
    text = text.strip()
    scan.check(text, max_chars=MAX_CHARS)
    async with locked(history.path.parent):
        waiting = [one for one in proposals(history) if not one.batch and not one.place]
        if any((one.text, one.about) == (text, about) for one in waiting):
            return None
        if len(waiting) >= MAX_WAITING:
            raise MemoryRefused(
                f"{MAX_WAITING} proposals wait already. The person sees to them with "
                "`kode memory review`."
            )
        proposal = Proposal(
            id=f"p{secrets.token_hex(4)}",
            text=text,
            about=about,
            client=shorten(client, 60) or "an agent without a name",
            project=str(project),
            source=source,
        )
        return history.append(_begun("propose", proposal, author))


async def take(history: History, new: Sequence[Proposal]) -> int:
    """Adds a person's scanned imports, in order, except those already waiting; returns their
    number.

    Raises: MemoryRefused if there are too many, StorageError, BusyError.
    """
    async with locked(history.path.parent):
        waiting = proposals(history)
        if (total := len(waiting) + len(new)) > MAX_IMPORTED:
            raise MemoryRefused(
                f"{total:,} entries would wait, and at most {MAX_IMPORTED:,} may. Approve or drop "
                "some first, or import fewer files."
            )
        known = {one.key for one in waiting}
        fresh = [one for one in new if one.key not in known]
        history.append_all([_begun("import", one, Author(who="import")) for one in fresh])
    return len(fresh)


def hold(history: History, proposal: Proposal, author: Author, **values: str) -> Change:
    """Lets what a system's session with outside text would have written wait; `values` are fields
    of the change. Raises: StorageError."""
    return history.append(_begun("propose", proposal, author, **values))


def came_from(session: str, outside: str) -> str:
    """The source of what waits since its session took in `outside`; "" if that is unknown."""
    return f"session {session}, which took in {shorten(outside, 200) or 'outside text'}"


def settle(kind: Literal["approve", "drop"], proposal: Proposal) -> Change:
    """The line of a drop, or of an approval after which nothing had to be changed."""
    before, target = (proposal.text,), _target(proposal.id)
    return Change.by(USER, SYSTEM, kind, target, before=before, reason=proposal.client)


def waits_again(history: History, change: Change) -> Proposal | None:
    """The proposal whose approval by a line of its own is undone."""
    if (change.system, change.kind) != (SYSTEM, "approve"):
        return None
    return next((one for one in proposals(history) if _target(one.id) == change.target), None)


async def take_back(history: History, change: Change, author: Author) -> Change:
    """Undoes a line about something that waits, or such an undo.

    Raises: MemoryRefused, StorageError, BusyError.
    """
    refuse_redacted(change, "Propose it again.")
    id = change.target.removeprefix(f"{SYSTEM}/")
    async with locked(history.path.parent):
        waits = any(one.id == id for one in proposals(history))
        if not history.is_in_effect(change.id) or (change.kind in _BEGINS and not waits):
            raise nothing_left(change)
        return history.append(undo_of(change, author))


def _begun(kind: str, proposal: Proposal, author: Author, **values: str) -> Change:
    kept = {name: getattr(proposal, name) for name in _KEPT}
    batch = author.batch or proposal.batch
    return Change.by(
        replace(author, source=proposal.source, batch=batch),
        SYSTEM,
        kind,
        _target(proposal.id),
        after=(proposal.text,),
        reason=proposal.client,
        waits={name: value for name, value in kept.items() if value},
        **values,
    )


def _proposal(change: Change) -> Proposal | None:
    """None for one that is damaged."""
    if change.waits is None:
        return None
    kept: dict[str, Any] = {name: change.waits[name] for name in _KEPT if name in change.waits}
    return Proposal(
        id=change.target.removeprefix(f"{SYSTEM}/"),
        text="".join(change.after),
        at=change.at,
        source=change.source,
        batch=change.batch,
        words=change.words,
        **kept,
    )


_OF_CHANGE = {"id", "text", "at", "source", "batch", "words"}
_KEPT = tuple(field.name for field in fields(Proposal) if field.name not in _OF_CHANGE)
"""The fields that `Change.waits` has."""


def _target(id: str) -> str:
    return f"{SYSTEM}/{id}"
