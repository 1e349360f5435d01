"""Notes that a team shares: lines of the log that a server keeps for several people.

Lines are only added, there and here, and each counts once by its id: both sides become equal by a
union. What a colleague's line changes here is decided here: it never ends, approves or amends what
the person said, nor what a third person wrote without putting something in its place.
"""

import asyncio
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kode import durable, installed
from kode.contracts import RemoteAnswer, RemoteLine, RemoteLog
from kode.errors import BusyError, ConfigError, KodeError, MemoryRefused
from kode.events import MemoryChanged, Notice
from kode.memory.fold import Entry, View, fold
from kode.memory.log import Log
from kode.memory.notes.layout import (
    EVERYWHERE,
    SHARED_KINDS,
    TEAM,
    check_note,
    place_in,
    scope_of,
)
from kode.memory.policy import OpenMemory
from kode.memory.statement import (
    Amendment,
    Author,
    Change,
    Rank,
    Statement,
    change_from,
    timestamp,
    to_row,
)
from kode.memory.store import Store, quoted
from kode.messages import plural, shorten

if TYPE_CHECKING:
    from kode.config.model import Notes

T = TypeVar("T")
RETRY_S = 30.0
"""A server that did not answer is not asked again for this long."""
FAULT_CHARS = 200  # a sentence
_ID = re.compile(r"[\w-]{4,40}")
MAX_LISTED = 3
"""So many changes get a line each; more are counted."""
LEAVE = "leave"
"""The kind of the change that takes away what a dismissed member may not see any more."""


def open_remote(settings: "Notes") -> RemoteLog | None:
    """The server that `memory.notes.url` names; None where notes are a person's own. Raises:
    ConfigError, PluginError."""
    if settings.url is None:
        return None
    scheme = settings.url.partition(":")[0]
    added = installed.added("remote_logs").get(scheme)
    if added is None:
        raise ConfigError(
            f"memory.notes.url names a {scheme} server, and no plug-in that is on knows how to "
            "speak to one. `kode plugin enable team`, or remove the setting."
        )
    remote: RemoteLog = installed.call(*added, settings)
    return remote


@dataclass(kw_only=True)
class _Progress:
    """How far this machine has come with a team; if it is lost, all is sent and read again."""

    number: int = 0
    """The last line of the server that was taken."""
    sent: str = ""
    """The last change of the log that was sent, or is not for colleagues."""
    refused: dict[str, str] = field(default_factory=dict)
    """Changes that the server did not take → why; they are offered again."""
    person: str = ""
    scopes: list[str] = field(default_factory=list)
    left: str = ""
    """The change that took away what the person may not see any more."""


class Team:
    """The way between the log here and a server."""

    def __init__(self, remote: RemoteLog) -> None:
        self.remote = remote
        self._task: asyncio.Task[None] | None = None
        self._not_before = 0.0
        self._fault = ""
        """Why the last exchange failed; "" if it did not."""

    async def follow(self, memory: OpenMemory, wait_s: float) -> None:
        """Brings both sides together in the background, and waits so long for that."""
        if self._task is None or self._task.done():
            if asyncio.get_running_loop().time() < self._not_before:
                return
            self._task = memory.start_work(self._exchange_or_tell(memory))
        await asyncio.wait({self._task}, timeout=wait_s)

    async def status(self, memory: OpenMemory) -> list[str]:
        """Where the server is, whether it answers, and what waits."""
        progress, store = self._read(memory.store), memory.store
        lines = [f"team: {self._fault or self.remote.label}"]
        if not self._fault:
            lines[0] += f", as {progress.person} ({', '.join(progress.scopes) or 'no member'})"
        waiting = len(outgoing(store, progress))
        lines += [f"waiting to be sent: {waiting}"] if waiting else []
        return lines + [f"  refused: {id}: {why}" for id, why in progress.refused.items()]

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    async def _exchange_or_tell(self, memory: OpenMemory) -> None:
        was_away, before = self._fault, self._read(memory.store)
        try:
            with durable.locked(self._folder(memory.store), timeout_s=0.0):
                arrived = await self._exchange(memory)
        except BusyError:
            return  # another process of this machine does it
        except KodeError as error:
            self._not_before = asyncio.get_running_loop().time() + RETRY_S
            if str(error) != self._fault:
                memory.warn(str(error))
            self._fault = str(error)
            return
        self._fault = ""
        if was_away:
            text = f"The notes of {self.remote.label} are back; what waited was sent."
            memory.context.emit(Notice(text=text, level="info"))
        self._tell(memory, arrived, is_first=not before.person)

    def _tell(self, memory: OpenMemory, arrived: Sequence[Change], *, is_first: bool) -> None:
        if len(arrived) <= MAX_LISTED and not is_first:
            for change in arrived:
                text = f"{change.origin}: {change.kind}{_texts(memory.store, change)}"
                memory.context.emit(MemoryChanged(text=text, change_id=change.id))
            return
        if arrived:
            people = Counter(change.origin for change in arrived).most_common()
            listed = ", ".join(f"{person} ({count})" for person, count in people)
            of = f"{plural(len(arrived), 'change')} of {self.remote.label}, by {listed}"
            text = f"memory: {of} (`kode memory log`)"
            memory.context.emit(Notice(text=text, level="info"))

    async def _exchange(self, memory: OpenMemory) -> list[Change]:
        """Sends and takes until there is no more; returns what arrived."""
        store, arrived = memory.store, list[Change]()
        while True:
            progress = self._read(store)
            before, last = replace(progress), _last_id(store)
            answer = await self.remote.exchange(progress.number, outgoing(store, progress))
            for id, why in answer.refused.items() if answer.scopes else ():
                if progress.refused.get(id) != why:
                    memory.warn(f"A change of memory ({id}) stays on this machine: {why}")
            progress.sent, progress.refused = last, dict(answer.refused)
            is_other = [answer.person, *answer.scopes] != [progress.person, *progress.scopes]
            if is_other:
                await self._follow_membership(store, progress, answer)
            elif answer.lines:
                incoming = Incoming(store, f"{TEAM}{self.remote.key}", answer.person)
                arrived += await incoming.take(answer.lines, memory)
                progress.number = answer.lines[-1].number
            if progress != before:
                self._write(store, progress)
            if not answer.scopes:
                raise MemoryRefused(
                    f"{answer.person} is no member of {self.remote.label}. Whoever owns the "
                    f"database runs `kode memory team admit {answer.person}`."
                )
            if not is_other and not answer.lines and last == _last_id(store):
                return arrived

    async def _follow_membership(
        self, store: Store, progress: _Progress, answer: RemoteAnswer
    ) -> None:
        """Lets what the person may not see any more go, what they may see again come back, and all
        be read again."""
        if progress.left:
            back = replace(store.draft("undo", Author("session")), undoes=progress.left)
            await store.commit(lambda view: back)
        base = f"{TEAM}{self.remote.key}/"

        def make(view: View) -> Change | None:
            hidden = tuple(
                entry.statement.id
                for entry in view.entries.values()
                if entry.is_alive and entry.change.origin not in ("", answer.person)
                if entry.statement.place.startswith(base)
                if not {EVERYWHERE, scope_of(entry.statement.place)} & {*answer.scopes}
            )
            draft = store.draft(LEAVE, Author("session"))
            return replace(draft, end=hidden) if hidden else None

        left = await store.commit(make)
        progress.left = left[0].id if left else ""
        progress.person, progress.scopes = answer.person, list(answer.scopes)
        progress.number = 0

    def _folder(self, store: Store) -> Path:
        return store.root / "teams" / self.remote.key

    def _read(self, store: Store) -> _Progress:
        with suppress(OSError, ValueError, TypeError):
            return _Progress(**json.loads((self._folder(store) / "progress.json").read_bytes()))
        return _Progress()

    def _write(self, store: Store, progress: _Progress) -> None:
        data = json.dumps(asdict(progress)).encode()
        durable.replace(self._folder(store) / "progress.json", data)


def outgoing(store: Store, progress: _Progress) -> list[RemoteLine]:
    """What colleagues were not sent yet, oldest first."""
    changes = store.log.changes()
    ids = [change.id for change in changes]
    start = ids.index(progress.sent) + 1 if progress.sent in ids else 0
    again = {id.partition(".")[0] for id in progress.refused}
    left = [*(change for change in changes[:start] if change.id in again), *changes[start:]]
    shared = _Shared(store) if left else None
    return [
        RemoteLine(id=part.id, scope=scope, text=json.dumps(to_row(part), ensure_ascii=False))
        for change in left
        for scope, part in (shared.parts(change).items() if shared else ())
    ]


class _Shared:
    """What colleagues get of the log."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._added = {
            new.id: (new, change) for change in store.log.changes() for new in change.add
        }

    def parts(self, change: Change) -> Mapping[str, Change]:
        """What colleagues get of a change, by scope: what it did to shared notes, without what is
        the person's own. Nothing of what came from them, and no mere withdrawal of theirs."""
        if change.origin or change.system != self._store.system:
            return {}
        bare = Change(id=change.id, at=change.at, who=change.who, kind=change.kind, system="notes")
        if undone := self._store.log.change(change.undoes):
            return {
                scope: replace(bare, id=change.id + part.id[len(undone.id) :], undoes=part.id)
                for scope, part in self.parts(undone).items()
            }
        add, end = defaultdict[str, list[Statement]](list), defaultdict[str, list[str]](list)
        set = defaultdict[str, dict[str, Amendment]](dict)
        replaced = {id for new in change.add if self._is_shared(new) for id in new.replaces}
        for new in change.add:
            if self._is_shared(new):
                add[scope_of(new.place)].append(_bare(new))
        for old, change_of_old, amendment in self._known(change.set):
            approved = replace(old, state=amendment.state or old.state)
            if not self._is_shared(approved):
                continue
            if amendment.state == "current":
                replaced |= {*old.replaces}
            if amendment.state == "current" and not change_of_old.origin:
                add[scope_of(old.place)].append(_bare(approved))
            elif amendment.state or amendment.details or amendment.until is not None:
                kept = replace(amendment, who=None, private=None, source_hash=None)
                set[scope_of(old.place)][old.id] = kept
        for old, change_of_old, _ in self._known(dict.fromkeys(change.end)):
            if self._is_shared(old) and (not change_of_old.origin or old.id in replaced):
                end[scope_of(old.place)].append(old.id)
        return {
            scope: replace(
                bare,
                id=f"{bare.id}.{number}" if number else bare.id,
                add=tuple(add[scope]),
                end=tuple(end[scope]),
                set=set[scope],
            )
            for number, scope in enumerate(sorted({*add, *end, *set}))
        }

    def _known(self, ids: Mapping[str, T]) -> Iterator[tuple[Statement, Change, T]]:
        """Each statement that the log added, with the change that did, and what `ids` has of it."""
        return ((*self._added[id], value) for id, value in ids.items() if id in self._added)

    def _is_shared(self, statement: Statement) -> bool:
        """Whether colleagues get a statement. What another agent proposed, or was imported, is the
        person's own until they approve it."""
        is_pending = statement.state == "waiting" and statement.who in ("client", "import")
        is_shared = self._store.layout.is_shared(statement.place)
        return is_shared and not statement.private and not is_pending


def _bare(statement: Statement) -> Statement:
    return replace(
        statement, place="", project="", session="", turn=0, quote="", source="", source_hash=""
    )


def _last_id(store: Store) -> str:
    changes = store.log.changes()
    return changes[-1].id if changes else ""


class Incoming:
    """What lines of a server change here."""

    def __init__(self, store: Store, base: str, person: str) -> None:
        self._store, self._base, self._person = store, base, person

    async def take(self, lines: Sequence[RemoteLine], memory: OpenMemory) -> list[Change]:
        """Commits what is new of them; returns it, but for what has no effect here."""
        faults = list[str]()

        def make(view: View) -> list[Change]:
            made, log = list[Change](), self._store.log
            view = fold(log.changes())  # grows by what arrives
            faults.clear()
            for line in lines:
                if log.change(line.id) or log.change(line.id.partition(".")[0]):
                    continue
                try:
                    change = self._change(line, view, log, made)
                except (ValueError, RecursionError, MemoryRefused) as error:
                    why = shorten(str(error), FAULT_CHARS)
                    faults.append(f"A change by {line.person} was left out: {why}")
                    continue
                if change.add or change.end or change.set or change.undoes:
                    made.append(change)
                    is_undo = bool(change.undoes)
                    view = fold([*log.changes(), *made]) if is_undo else view.grow([change])
            return made

        arrived = await self._store.commit(make)
        for fault in faults[:MAX_LISTED]:
            memory.warn(fault)
        return arrived

    def _change(self, line: RemoteLine, view: View, log: Log, made: Sequence[Change]) -> Change:
        """What a line changes here. Raises: ValueError for a line that is none; MemoryRefused."""
        sent = change_from(line.text)
        is_own = line.person == self._person
        result = Change(
            id=line.id,
            at=self._moment(sent.at, line),
            who=sent.who if is_own else "colleague",
            kind=_kind(sent),
            system=self._store.system,
            origin=line.person,
        )
        if sent.undoes:
            undone = next((one for one in made if one.id == sent.undoes), log.change(sent.undoes))
            is_theirs = undone is not None and self._author(undone) == line.person
            return replace(result, undoes=sent.undoes if is_theirs else "")
        add = [self._statement(new, line) for new in sent.add if new.id not in view.entries]
        heirs, conflicts = {id: new for new in add for id in new.replaces}, list[tuple[str, str]]()
        set, end = dict[str, Amendment](), list[str]()
        for id, amendment in sent.set.items():
            entry = self._entry(view, id, line)
            if entry and (amended := self._amendment(entry, amendment, line)):
                set[id] = amended
                heirs |= dict.fromkeys(entry.statement.replaces, entry.statement)
        for id in sent.end:
            entry, heir = self._entry(view, id, line), heirs.get(id)
            if entry is None:
                continue
            if not entry.is_alive:  # another one put something else in its place first
                if heir and heir.state == "current":
                    others = (one.statement for one in view.successors(id) if one.is_alive)
                    conflicts += [(one.id, heir.id) for one in others if one.text != heir.text]
            elif is_own or self._may_end(entry, heir, line):
                end.append(id)
            elif heir and heir.state == "current" and heir.text != entry.statement.text:
                conflicts.append((id, heir.id))
        return replace(
            result,
            add=tuple(
                replace(new, replaces=tuple(id for id in new.replaces if id in view.entries))
                for new in add
            ),
            end=tuple(end),
            set=set,
            conflicts=tuple(conflicts),
        )

    def _statement(self, new: Statement, line: RemoteLine) -> Statement:
        """A statement of a line as it stands here. Raises: MemoryRefused."""
        if new.kind not in SHARED_KINDS or not _ID.fullmatch(new.id):
            raise MemoryRefused(f"{new.id:.40} ({new.kind}) is nothing that a team shares.")
        statement = replace(
            _bare(new),
            place=place_in(self._base, new.kind, line.scope),
            claimed_at=self._moment(new.claimed_at, line),
            who=new.who if line.person == self._person else "colleague",
            source=f"{line.person} on {line.host}",
            until=_day(new.until),
            private=False,
            state="waiting" if new.state == "waiting" else "current",
        )
        check_note(statement)
        return statement

    def _entry(self, view: View, id: str, line: RemoteLine) -> Entry | None:
        """A statement that a line may concern: one of its team and scope."""
        entry = view.entries.get(id)
        if entry is None or not entry.statement.place.startswith(f"{self._base}/"):
            return None
        return entry if scope_of(entry.statement.place) == line.scope else None

    def _amendment(self, entry: Entry, sent: Amendment, line: RemoteLine) -> Amendment | None:
        """What a line may amend of a statement. It approves only what another person wrote."""
        result, statement = Amendment(), entry.statement
        is_waiting = statement.state == "waiting"
        if sent.state == "current" and is_waiting and self._author(entry.change) != line.person:
            result = replace(result, state="current")
        if self._store.rank(statement) <= Rank.MODEL or line.person == self._person:
            until = None if sent.until is None else _day(sent.until)
            result = replace(result, until=until, details=sent.details)
        check_note(replace(statement, details={**statement.details, **(result.details or {})}))
        return result if entry.is_alive and result != Amendment() else None

    def _may_end(self, entry: Entry, heir: Statement | None, line: RemoteLine) -> bool:
        """Whether a colleague's line ends a statement: one of theirs, or one that they replaced;
        never what the person themselves said."""
        is_theirs = self._author(entry.change) == line.person
        return self._store.rank(entry.statement) <= Rank.MODEL and (is_theirs or heir is not None)

    def _author(self, change: Change) -> str:
        return change.origin or self._person

    def _moment(self, text: str, line: RemoteLine) -> str:
        """A time of a line as the log writes it; never in the future, whatever another machine's
        clock says."""
        moment = line.at
        with suppress(ValueError, OverflowError):
            parsed = datetime.fromisoformat(text)
            moment = timestamp(parsed) if parsed.tzinfo else moment
        return min(moment, timestamp(self._store.now()))


def _kind(sent: Change) -> str:
    """The word for a change by what it does: some words mean something to the log."""
    if sent.undoes or sent.set:
        return "undo" if sent.undoes else "amend"
    return ("replace" if sent.end else "add") if sent.add else "forget"


def _day(text: str) -> str:
    """A day; "" for a text that is none."""
    with suppress(ValueError):
        return datetime.fromisoformat(text).date().isoformat()
    return ""


def _texts(store: Store, change: Change) -> str:
    entries = store.view().entries
    ids = (*(new.id for new in change.add), *(() if change.add else (*change.end, *change.set)))
    listed = ", ".join(quoted(entries[id].statement) for id in ids if id in entries)
    return f" {listed}" if listed else ""
