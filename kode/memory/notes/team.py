"""Notes that a team shares: lines of the log that a server keeps for several people. Each counts
once by its id. What a colleague's line changes is decided here: it never ends, approves or amends
what the person said, nor what a third person wrote without putting something in its place.
"""

import asyncio
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kode import durable, installed
from kode.errors import BusyError, ConfigError, KodeError, MemoryRefused
from kode.events import MemoryChanged, Notice
from kode.memory.contract import RemoteAnswer, RemoteLine, RemoteLog
from kode.memory.fold import MemoryEntry, MemoryView, fold
from kode.memory.notes.layout import EVERYWHERE, SHARED_KINDS, TEAM, check_note, place_in, scope_of
from kode.memory.policy import OpenMemory
from kode.memory.statement import (
    Amendment,
    Author,
    MemoryChange,
    Rank,
    Relations,
    Statement,
    parse_change,
    to_row,
)
from kode.memory.store import MemoryStore
from kode.messages import plural, shorten
from kode.values import dataclass, replace

if TYPE_CHECKING:
    from kode.config.model import Notes

RETRY_S = 30.0
"""A server that did not answer is not asked again for this long."""
MAX_LISTED, MAX_FAULT_CHARS = 3, 200
"""How many changes of one exchange get a line each, and how long a fault may be."""
_ID = re.compile(r"[\w-]{4,40}")
_NAMES = ("place", "project", "session", "quote", "since", "source", "source_hash")
PERSONAL: Mapping[str, Any] = dict.fromkeys(_NAMES, "")
"""The fields of a statement that belong to one person and machine, made empty."""


def open_remote(settings: "Notes") -> RemoteLog | None:
    """The server of `memory.notes.url`, if it is set. Raises: ConfigError, PluginError."""
    if settings.url is None:
        return None
    scheme, added = settings.url.partition(":")[0], installed.find_additions("remote_logs")
    if scheme not in added:
        raise ConfigError(
            f"memory.notes.url: no plug-in speaks {scheme}. `kode plugin enable team`, or unset it."
        )
    remote: RemoteLog = installed.call_part(*added[scheme], settings)
    return remote


class TeamProgress(NamedTuple):
    """How far this machine has come with a team; if it is lost, all is sent and read again."""

    number: int = 0
    """The last line of the server that was taken."""
    sent: str = ""
    """The last change of the log that was offered."""
    membership: Sequence[str] = ()
    """What the person is called there, and the scopes that they see."""


@dataclass
class Team:
    """Exchanges changes between the log here and a server."""

    remote: RemoteLog
    _not_before: float = 0.0
    _fault: str = ""
    """Why the last exchange failed; "" if it did not."""

    async def follow(self, memory: OpenMemory, wait_s: float) -> None:
        """Exchanges changes in the background, and waits for that for at most `wait_s`."""
        if asyncio.get_running_loop().time() >= self._not_before:
            task = memory.start_work(self._exchange_or_warn(memory))
            await asyncio.wait({task}, timeout=wait_s)

    async def status(self, memory: OpenMemory) -> list[str]:
        """Where the server is, or why it does not answer, and what waits."""
        waiting = len(list_outgoing(memory.store, self._read(memory.store).sent))
        lines = (f"team: {self._fault or self.remote.label}", f"waiting to be sent: {waiting}")
        return [*lines[: 2 if waiting else 1]]

    async def _exchange_or_warn(self, memory: OpenMemory) -> None:
        try:
            with durable.hold_lock(self._file(memory.store).parent, timeout_s=0.0):
                await self._exchange(memory)
            self._fault = ""
        except BusyError:
            return  # another turn or process of this machine does it
        except KodeError as error:
            self._not_before = asyncio.get_running_loop().time() + RETRY_S
            if str(error) != self._fault:
                memory.warn(str(error))
            self._fault = str(error)

    async def _exchange(self, memory: OpenMemory) -> None:
        """Sends and takes what is new, and shows what arrived."""
        store, progress = memory.store, self._read(memory.store)
        last = store.log.last_id()
        answer = await self.remote.exchange(progress.number, list_outgoing(store, progress.sent))
        membership = [answer.person, *answer.scopes]
        if membership != progress.membership:  # all is read and offered again
            await self._show_scopes(store, answer)
            answer = await self.remote.exchange(0, list_outgoing(store, ""))
        arrived = await self.take(memory, answer)
        number = answer.lines[-1].number if answer.lines else progress.number
        progress = TeamProgress(number=number, sent=last, membership=membership)
        durable.replace_file(self._file(store), json.dumps(progress).encode())
        if not answer.scopes:
            fault = f"{answer.person} is no member of {self.remote.label}."
            advice = f"Whoever owns the database runs `kode memory team admit {answer.person}`."
            raise MemoryRefused(f"{fault} {advice}")
        for id, why in answer.refused.items():
            memory.warn(f"A change of memory ({id}) stays on this machine: {why}")
        for change in arrived[:MAX_LISTED]:
            text = f"{change.origin}: {store.describe(change).text}"
            memory.context.emit(MemoryChanged(text=text, change_id=change.id))
        if more := arrived[MAX_LISTED:]:
            text = f"{plural(len(more), 'more change')} of {self.remote.label}: `kode memory log`"
            memory.context.emit(Notice(text=text, level="info"))

    async def _show_scopes(self, store: MemoryStore, answer: RemoteAnswer) -> None:
        """Takes away what colleagues wrote in scopes that the person does not see, and brings back
        what they see again."""

        def make(view: MemoryView) -> list[MemoryChange]:
            author, key = Author("session"), self.remote.key
            earlier = [change.id for change in view.changes if change.batch == key]
            hidden = tuple(
                statement.id
                for statement, change, *_ in view.entries.values()
                if change.origin not in ("", answer.person)
                and store.layout.is_shared(statement.place)
                and {EVERYWHERE, scope_of(statement.place)}.isdisjoint(answer.scopes)
            )
            hide = replace(store.draft("hide", author, key), origin=key, end=hidden)
            undos = [replace(store.draft("undo", author), undoes=id) for id in earlier]
            return [*undos, hide] if hidden else undos

        await store.commit(make)

    async def take(self, memory: OpenMemory, answer: RemoteAnswer) -> list[MemoryChange]:
        """Commits a server's new lines; returns the changes, except those without effect here."""
        store, faults = memory.store, dict[str, None]()

        def make(view: MemoryView) -> list[MemoryChange]:
            changes = {change.id: change for change in store.log.changes()}
            old, view = len(changes), fold([*changes.values()])  # which grows by what arrives
            for line in answer.lines:
                if {line.id, line.id.partition(".")[0]} & changes.keys():
                    continue
                try:
                    change = self._make_change(store, line, answer.person, view, changes)
                except (ValueError, RecursionError, MemoryRefused) as error:
                    why = shorten(str(error), MAX_FAULT_CHARS)
                    faults[f"A change by {line.person} was left out: {why}"] = None
                    continue
                if change.undoes or change.add or change.end or change.set or change.conflicts:
                    changes[change.id] = change
                    view = fold([*changes.values()]) if change.undoes else view.with_more([change])
            return [*changes.values()][old:]

        arrived = await store.commit(make) if answer.lines else []
        for fault in [*faults][:MAX_LISTED]:
            memory.warn(fault)
        return arrived

    def _make_change(
        self,
        store: MemoryStore,
        line: RemoteLine,
        person: str,
        view: MemoryView,
        changes: Mapping[str, MemoryChange],
    ) -> MemoryChange:
        """Makes the change that a line means. Raises: ValueError if it is none; MemoryRefused."""
        sent, is_person = parse_change(line.text), line.person == person
        draft = store.draft("team", Author(sent.who if is_person else "colleague"))
        heirs, set = list[Statement](), dict[str, Amendment]()

        def is_theirs(change: MemoryChange) -> bool:
            return (change.origin or person) == line.person

        def may_change(entry: MemoryEntry) -> bool:
            old = entry.statement
            is_in_scope = store.layout.is_shared(old.place) and scope_of(old.place) == line.scope
            return entry.is_alive and is_in_scope and (is_person or store.rank(old) <= Rank.MODEL)

        for new in sent.add:
            if new.kind not in SHARED_KINDS or not _ID.fullmatch(new.id):
                raise MemoryRefused(f"{new.id:.40} ({new.kind}) is nothing that a team shares.")
            for text in (new.claimed_at, new.until or draft.at):
                datetime.fromisoformat(text)
            place = place_in(f"{TEAM}{self.remote.key}", new.kind, line.scope)
            replaced = (entry.statement for id in new.replaces if (entry := view.entries.get(id)))
            new = replace(
                replace(new, **PERSONAL),
                place=place,
                claimed_at=min(new.claimed_at, draft.at),
                who=new.who if is_person else "colleague",
                source=f"{line.person} on {line.host}",
                private=False,
                state="waiting" if new.state == "waiting" else "current",
                replaces=tuple(old.id for old in replaced if old.place == place),
            )
            check_note(new)
            entry = view.entries.get(new.id)
            if entry is None:
                heirs.append(new)
            elif may_change(entry):
                # Nobody approves what they wrote in a session that had read outside text.
                is_approved = new.state == "current" and not is_theirs(entry.change)
                state = "current" if is_approved else entry.statement.state
                set[new.id] = Amendment(state=state, until=new.until, details=new.details)
                heirs.append(replace(new, state=state))
        pairs = [(old, new) for new in heirs for old in new.replaces if new.state == "current"]
        rivals = [(other, new) for old, new in pairs for other, *_ in view.successors(old)]
        relations = Relations(
            outdated=tuple((old, new.id) for old, new in pairs),
            # What a third person put in its place stands beside it until the person decides.
            conflict=tuple((old.id, new.id) for old, new in rivals if old.text != new.text),
        )
        undone = changes.get(sent.undoes)
        undoes = undone.id if undone and is_theirs(undone) else ""
        ended = [entry for id in sent.end if (entry := view.entries.get(id)) and may_change(entry)]
        end = tuple(old.id for old, change, *_ in ended if is_person or is_theirs(change))
        draft = replace(draft, id=line.id, at=line.at, origin=line.person, undoes=undoes)
        change = store.settle(view, heirs, relations, replace(draft, set=set, end=end))
        return replace(change, add=tuple(new for new in change.add if new.id not in view.entries))

    def _file(self, store: MemoryStore) -> Path:
        return store.root / "teams" / self.remote.key / "progress.json"

    def _read(self, store: MemoryStore) -> TeamProgress:
        with suppress(OSError, ValueError, TypeError):
            return TeamProgress(*json.loads(self._file(store).read_bytes()))
        return TeamProgress()


def list_outgoing(store: MemoryStore, sent: str) -> list[RemoteLine]:
    """Returns the lines for colleagues after the change `sent`, oldest first: of each change, by
    scope, the shared notes that it added or amended, as they are now, and those that it ended."""
    changes, entries = store.log.changes(), store.view().entries
    statements = {new.id: new for change in changes for new in change.add}
    statements |= {id: entry.statement for id, entry in entries.items()}
    shared = {
        id: new
        for id, new in statements.items()
        if store.layout.is_shared(new.place) and not new.private
        # What another agent proposed, or was imported, is the person's own until they approve.
        if not (new.state == "waiting" and new.who in ("client", "import"))
    }

    def split(change: MemoryChange | None) -> Iterator[tuple[str, MemoryChange]]:
        if change is None or change.origin or change.system != store.system:
            return
        row = MemoryChange(
            id=change.id, at=change.at, who=change.who, kind=change.kind, system="notes"
        )
        for scope, part in split(store.log.change(change.undoes)):
            yield scope, replace(row, id=part.id.replace(change.undoes, row.id), undoes=part.id)
        ids = dict.fromkeys((*(new.id for new in change.add), *change.set, *change.end))
        scopes = {id: scope_of(shared[id].place) for id in ids if id in shared}
        for number, scope in enumerate(sorted({*scopes.values()})):
            notes = [shared[id] for id in scopes if scopes[id] == scope]
            add = tuple(replace(new, **PERSONAL) for new in notes if new.id not in change.end)
            end = tuple(new.id for new in notes if new.id in change.end)
            id = f"{row.id}.{number}" if number else row.id
            yield scope, replace(row, id=id, add=add, end=end)

    start = [change.id for change in changes].index(sent) + 1 if store.log.change(sent) else 0
    return [
        RemoteLine(id=part.id, scope=scope, text=json.dumps(to_row(part)))
        for change in changes[start:]
        for scope, part in split(change)
    ]
