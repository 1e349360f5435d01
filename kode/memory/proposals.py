"""Proposed memories that wait for a person's approval: files in `proposed/` of the memory folder.

They come from a program (`kode mcp serve --memory-only`), an import of another agent's memory, or
kode, from a person's own words (`stated`, which alone quotes them before). All other text counts as
outside text, which no model reads. The folder is shared by all systems; an approved proposal is
stored by the current one, as if the person had typed it.
"""

import json
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from kode import durable
from kode.errors import MemoryRefused
from kode.memory import scan
from kode.memory.base import Addition, Outcome, Waiting, only_waiting
from kode.memory.history import (
    Author,
    Change,
    History,
    Who,
    nothing_left,
    refuse_redacted,
    undo_of,
)
from kode.memory.stored import WaitingFolder, locked, read_row
from kode.messages import shorten

SYSTEM = "proposed"
"""The name in the history; no memory system has it."""
MAX_CHARS = 1_000
MAX_WAITING = 100
"""Limit for proposals by agents."""
MAX_IMPORTED = 5_000
"""Limit for imports by a person: another agent's entire folder."""
AT_ONCE = 25
"""How many are written before the lock is released for others; disks may be slow."""
QUOTED_CHARS = 120


About = Literal["user", "project"]

_TARGETS: Mapping[str, Mapping[About, str]] = {
    "tiered": {"user": "user", "project": "env"},
    "vault": {"user": "user", "project": "project"},
    "journal": {"user": "memory", "project": "memory"},
    "notes": {"user": "note", "project": "note"},
}
"""Where each system stores approved proposals."""
_SCOPED = ("tiered", "notes")
"""Systems that separate one project's facts from global ones."""


@dataclass(frozen=True, kw_only=True)
class Proposal:
    id: str
    text: str
    about: About
    client: str
    """The agent's name for itself."""
    project: str
    """The folder it was proposed in."""
    at: str
    source: str = ""
    """What an import was read from: file, line, agent, digest."""
    batch: str = ""
    """The import that it came with."""
    since: str = ""
    """The day from which an imported one is."""
    own: bool = False
    """Whether the person said it: approved, it counts as said by them. A name would not do, because
    an agent may call itself anything."""

    @property
    def key(self) -> tuple[str, ...]:
        """Its identity: the same text may apply to two projects."""
        return (self.text, self.about, self.project if self.about == "project" else "")

    @property
    def where(self) -> str:
        """File, line and agent of an imported one; "" for others."""
        return self.source.rpartition(" (")[0]

    @property
    def origin(self) -> str:
        return self.source or f"{self.client}, which proposed it"


FOLDER = "proposed"
"""Of the proposals, in the memory folder."""


class Proposals(WaitingFolder[Proposal]):
    """The proposals of one memory folder, shared by processes."""

    kind = Proposal

    def __init__(self, root: Path) -> None:
        super().__init__(root / FOLDER)
        self._begun = root / "approving"
        self._history = History(root / "history.jsonl")

    def all(self) -> list[Proposal]:
        """The readable ones, oldest first."""
        found = [one for one in map(self.read, self.ids()) if one is not None]
        return sorted(found, key=lambda one: (one.at, one.id))

    def waiting(self) -> list[Waiting]:
        """The waiting ones, for a person."""
        return list(map(_waiting, self.all()))

    async def propose(
        self,
        text: str,
        about: About,
        *,
        client: str,
        project: Path,
        now: datetime,
        who: Who = "client",
        own: bool = False,
    ) -> Outcome:
        """Adds a proposal; `who` is its author in the history, `own` says that the person said it.

        Raises: MemoryRefused, StorageError, BusyError.
        """
        text = text.strip()
        scan.check(text, max_chars=MAX_CHARS)
        async with locked(self.folder):
            waiting = [one for one in self.all() if not one.batch]
            if any((one.text, one.about) == (text, about) for one in waiting):
                return Outcome(line="it waits already for the person's approval")
            # An agent's many do not keep out what the person says.
            if sum(one.own == own for one in waiting) >= MAX_WAITING:
                raise MemoryRefused(
                    f"{MAX_WAITING} proposals wait already. The person sees to them with "
                    "`kode memory approve` and `kode memory undo`."
                )
            proposal = Proposal(
                id=f"p{secrets.token_hex(4)}",
                text=text,
                about=about,
                client=shorten(client, 60) or "an agent without a name",
                project=str(project),
                at=now.isoformat(timespec="seconds"),
                own=own,
            )
            change = self._put("propose", proposal, Author(who=who))
        return Outcome(
            line=f"{proposal.id} waits for the person: `kode memory approve {proposal.id}`",
            change_id=change.id,
        )

    async def take(self, proposals: Sequence[Proposal]) -> int:
        """Adds a person's scanned imports, in order, except those already waiting; returns their
        number.

        Raises: MemoryRefused if there are too many, StorageError, BusyError.
        """
        total = len(self.ids()) + len(proposals)
        if total > MAX_IMPORTED:
            raise MemoryRefused(
                f"{total:,} entries would wait, and at most {MAX_IMPORTED:,} may. Approve or drop "
                "some first, or import fewer files."
            )
        count = 0
        for first in range(0, len(proposals), AT_ONCE):
            async with locked(self.folder):
                waiting = {one.key for one in self.all()}
                for proposal in proposals[first : first + AT_ONCE]:
                    if proposal.key not in waiting:
                        author = Author(who="import", source=proposal.source, batch=proposal.batch)
                        self._put("import", proposal, author)
                        count += 1
        return count

    async def drop_batch(self, batch: str, author: Author) -> None:
        """Drops the waiting proposals of an import. Raises: StorageError, BusyError."""
        waiting = {f"proposed/{one.id}" for one in self.all() if one.batch == batch}
        changes = [one for one in self._history.standing(SYSTEM) if one.target in waiting]
        for change in changes:
            await self.undo(change, author)

    def of(self, whom: str, imported: str, project: Path) -> set[str]:
        """The ids of proposals from the import `whom` or from the agent `imported`; if that is "",
        also of those by an agent named `whom`. Only those that may be approved in `project`."""
        here = (one for one in self.all() if one.about == "user" or Path(one.project) == project)
        if imported:  # not by name: a client may take any name
            return {one.id for one in here if one.batch and one.client == imported}
        known = whom.casefold()
        return {one.id for one in here if known == (one.batch or one.client.casefold())}

    def begins(self, id: str) -> bool:
        """Whether an id is a proposal's, or a prefix of one."""
        return any(known.startswith(id) for known in self.ids())

    def approved(self, id: str, system: str, project: Path) -> tuple[Proposal, Addition]:
        """The proposal, and the addition that stores it in `system` for a person who works in
        `project`; call `remove` once stored. Raises: MemoryRefused for one of another project."""
        proposal = self.read(only_waiting("proposal", self.ids(), id))
        if proposal is None:
            raise MemoryRefused(f"The proposal {id} cannot be read any more.")
        if proposal.about == "project" and Path(proposal.project) != project:
            raise MemoryRefused(
                f"{proposal.id} is about {proposal.project}: "
                f"`kode memory --cwd {proposal.project} approve {proposal.id}`."
            )
        is_scoped = proposal.about == "project" and system in _SCOPED
        return proposal, Addition(
            target=_TARGETS.get(system, _TARGETS["tiered"])[proposal.about],
            text=proposal.text,
            scope="project" if is_scoped else None,
            since=proposal.since if system == "tiered" else "",
            source="" if proposal.own else proposal.origin,
            batch=proposal.batch,
        )

    def begin(self, proposal: Proposal, system: str) -> None:
        """Notes that a proposal is about to be stored in `system`. Raises: StorageError."""
        durable.make_folder(self._begun)
        durable.replace(self._begun / proposal.id, system.encode())

    def end(self, id: str) -> None:
        """It is stored and no longer waits, or could not be stored. Raises: StorageError."""
        durable.remove(self._begun / id)

    def begun(self, system: str) -> list[str]:
        """The ids of proposals that were about to be stored in `system`."""
        with suppress(OSError):  # nearly always there is none
            paths = sorted(self._begun.iterdir())
            return [path.name for path in paths if path.read_bytes() == system.encode()]
        return []

    async def drop(self, id: str) -> Outcome:
        """Drops a proposal, as the person. Raises: MemoryRefused, StorageError, BusyError."""
        proposal = self.read(only_waiting("proposal", self.ids(), id))
        if proposal is None:
            raise MemoryRefused(f"The proposal {id} cannot be read any more.")
        async with locked(self.folder):
            change = self._history.record(
                Author(who="user"),
                SYSTEM,
                "drop",
                f"proposed/{proposal.id}",
                before=(_row(proposal),),
                reason=f"{proposal.client}: {shorten(proposal.text, QUOTED_CHARS)}",
            )
            self.remove(proposal.id)
        return Outcome(line=f"dropped {proposal.id}", change_id=change.id)

    async def settle(self, proposal: Proposal, kept_by: str) -> None:
        """Removes an approved proposal from the queue; `kept_by` is the change that stored it.
        Raises: StorageError, BusyError."""
        author = Author(who="user", batch=kept_by)
        async with locked(self.folder):
            self._history.record(
                author, SYSTEM, "approve", f"proposed/{proposal.id}", before=(_row(proposal),)
            )
            self.remove(proposal.id)

    async def follow(self, undone: Change) -> None:
        """After an undo or redo: returns proposals to the queue, or removes them again. Raises:
        StorageError, BusyError."""
        kept_by = undone.undoes or undone.id
        for change in self._history.batch(SYSTEM, kept_by)[:1]:
            with suppress(MemoryRefused):  # it is waiting again already
                await self.undo(change, Author(who="undo", batch=kept_by))

    async def undo(self, change: Change, author: Author) -> Outcome:
        """Drops a proposal, or restores a dropped one.

        Raises: MemoryRefused, StorageError.
        """
        refuse_redacted(change, "Propose it again.")
        row = (change.after or change.before)[0]
        proposal = read_row(Proposal, row.encode())
        if proposal is None:
            raise MemoryRefused(f"{change.id} is of a newer kode. Update kode to undo it.")
        async with locked(self.folder):
            if (proposal.id in self.ids()) != bool(change.after):
                raise nothing_left(change)
            undoing = self._history.append(undo_of(change, author))
            if change.after:
                self.remove(proposal.id)
            else:
                self.write(proposal)
        return Outcome(line=f"undid {change.kind} {change.id}", change_id=undoing.id)

    def _put(self, kind: str, proposal: Proposal, author: Author) -> Change:
        """Records the change, then writes the file. Call with the lock held."""
        change = self._history.record(
            author,
            SYSTEM,
            kind,
            f"proposed/{proposal.id}",
            after=(_row(proposal),),
            reason=f"{proposal.client}: {shorten(proposal.text, QUOTED_CHARS)}",
        )
        self.write(proposal)
        return change


def _row(proposal: Proposal) -> str:
    return json.dumps(asdict(proposal), ensure_ascii=False)


def _waiting(proposal: Proposal) -> Waiting:
    when = proposal.at[:16].replace("T", " ")
    if proposal.own:
        by = "from your own words"
    else:
        by = f"from {proposal.source}" if proposal.source else f"by {proposal.client}"
    said = f"{when}  about the {proposal.about}, {by} in {proposal.project}"
    # For hundreds imported at once, only the differences are worth reading.
    head = f"about the {proposal.about}, {proposal.where}" if proposal.where else said
    line = f"{head}: {shorten(proposal.text, MAX_CHARS)}"
    return Waiting(id=proposal.id, line=line, text=f"{proposal.text}\n\n{said}")
