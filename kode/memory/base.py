"""Shared by all systems that store something: context, history, reports to a person, and commands.

A hook that a system does not define gives the neutral answer (`NullMemory`).
"""

import asyncio
import os
import secrets
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from kode import paths
from kode.contracts import (
    Drop,
    DropReason,
    Hit,
    Injection,
    InjectReason,
    MemoryContext,
    SnapshotSection,
    Tool,
    Turn,
)
from kode.credentials import redact
from kode.errors import BusyError, ConfigError, KodeError, MemoryRefused, StorageError
from kode.events import MemoryChanged, Notice
from kode.memory import frame, report, scan, standing
from kode.memory.change import Author, Change, Who
from kode.memory.history import History
from kode.memory.ledger import Ledger
from kode.memory.lineage import Entry
from kode.memory.places import Places
from kode.memory.replacing import Seen
from kode.memory.source import citing
from kode.memory.stale import Doubt, holding
from kode.memory.waiting import Proposal, Waiting
from kode.memory.withdrawn import since_then
from kode.messages import Message, shorten
from kode.registry import system_row

if TYPE_CHECKING:
    from kode.config import MemoryConfig

QUOTED_CHARS = 80
WORDS_CHARS = 500
"""How much of the person's prompt is stored with each change."""
UNDO = "kode memory undo"
"""The command that undoes a change, before the change's id."""
_TOGETHER: ContextVar[str] = ContextVar("together", default="")
"""The batch of the changes that this task makes; another task's changes are not of it."""
Verb = Callable[[Any], Awaitable["str | Outcome"]]
"""Runs a command line as argparse has parsed it."""
SHARE_OF_GRACE = 0.9
"""Share of the time at the end for finishing; the rest is for cancelling."""


class Background:
    """The background tasks of one open memory. `report` is called with failures that nobody
    awaits."""

    def __init__(self, report: Callable[[BaseException], None]) -> None:
        self._report = report
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_closing = False
        """Whether the session is ending: start no further step."""

    def start(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Starts work in the background."""
        task = self._create(work)
        task.add_done_callback(self._report_fault)
        return task

    async def finish(self, work: Coroutine[Any, Any, None]) -> None:
        """Awaits work that continues if the caller is cancelled. Raises what the work raises."""
        task = self._create(work)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(self._report_fault)  # from here on nobody awaits it
            raise

    async def close(self, grace_s: float) -> None:
        """Gives running tasks `grace_s`, then cancels them; raises nothing but CancelledError."""
        self.is_closing = True
        tasks = list(self._tasks)
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=grace_s * SHARE_OF_GRACE)
        finally:
            for task in tasks:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _create(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _report_fault(self, task: "asyncio.Task[None]") -> None:
        fault = None if task.cancelled() else task.exception()
        if fault is not None:
            self._report(fault)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What an operation did, for a person."""

    line: str
    """One line, no full stop: `appended to episodes/2026-03.md "Logger fix"`."""
    detail: str = ""
    """Further information."""
    change_id: str = ""
    """"" if nothing was changed."""
    also: tuple[str, ...] = ()
    """The ids of further changes."""
    remark: str = ""
    """What the person should know besides, such as a warning about the text."""

    @property
    def change_ids(self) -> frozenset[str]:
        """Of all that it changed."""
        return frozenset(filter(None, (self.change_id, *self.also)))

    def in_words(self, undo: str = UNDO) -> str:
        """All of it in lines, with the command that undoes the change."""
        undoes = undo_with(self.change_id, undo) if self.change_id else ""
        return "\n".join(filter(None, (self.line, self.detail, undoes, self.remark)))


def joined(outcomes: Sequence[Outcome]) -> Outcome:
    """Several outcomes as one, whose change is the last one's."""
    first, *others = [text for one in outcomes for text in (one.line, one.detail) if text]
    return Outcome(
        line=first,
        detail="\n".join(others),
        change_id=next((one.change_id for one in reversed(outcomes) if one.change_id), ""),
        also=tuple(id for one in outcomes for id in one.change_ids),
        remark="\n".join(one.remark for one in outcomes if one.remark),
    )


def undo_with(change_id: str, undo: str = UNDO) -> str:
    """The line that says how to undo a change."""
    return f"undo with: {undo} {change_id}"


@dataclass(frozen=True, kw_only=True)
class Addition:
    """An entry typed by a person (`kode memory add`)."""

    target: str
    """The system's name for the place: `user`, `facts/tools.md`, `rule`, `memory`."""
    text: str
    scope: Literal["global", "project"] | None = None
    tags: tuple[str, ...] = ()
    ttl_days: int | None = None
    evidence: tuple[str, ...] = ()
    sensitive: bool = False
    since: str = ""
    """The version or day from which it holds."""
    until: str = ""
    """The last day on which it holds."""
    source: str = ""
    """Who said it, if not the person who adds it."""
    batch: str = ""
    """The import that it came with, undone together."""
    approves: str = ""
    """The id of the proposal that it stores."""

    def kept_by(self, author: Author) -> Author:
        """The person as the author, with its source."""
        return replace(author, source=self.source, batch=self.batch, approves=self.approves)

    def check(self, system: str, allowed: Collection[str] = ()) -> None:
        """What every system's `add` checks first. Raises: MemoryRefused without a text; ConfigError
        for an option that the system does not support."""
        if not self.text.strip():
            raise MemoryRefused("content is empty: say in one sentence what to remember.")
        given = {
            "--scope": self.scope,
            "--tag": self.tags,
            "--ttl-days": self.ttl_days,
            "--evidence": self.evidence,
            "--sensitive": self.sensitive,
            "--since": self.since,
            "--until": self.until,
        }
        for option, value in given.items():
            if value and option not in allowed:
                raise ConfigError(f"kode memory add: {system} has no {option}. Leave it out.")


class NullMemory:
    """Every hook gives the neutral answer and changes nothing. A program's own memory system can
    derive from it and define only the hooks it needs."""

    @property
    def name(self) -> str:
        return "none"

    @property
    def message_window(self) -> int | None:
        return None

    async def open(self, context: MemoryContext, state: Mapping[str, Any]) -> None:
        return None

    async def inject(self, reason: InjectReason) -> Injection:
        return Injection(known=False)

    async def recall(self, turn: Turn) -> str:
        return ""

    def tools(self) -> tuple[Tool, ...]:
        return ()

    async def after_turn(self, turn: Turn) -> None:
        return None

    async def before_drop(self, messages: Sequence[Message], reason: DropReason) -> Drop:
        return Drop()

    async def maintain(self) -> None:
        return None

    async def search(self, query: str, k: int) -> list[Hit]:
        return []

    async def snapshot(self) -> tuple[SnapshotSection, ...]:
        return ()

    def state(self) -> Mapping[str, Any]:
        return {}

    async def close(self, grace_s: float) -> None:
        return None


class SnapshotMemory(NullMemory):
    """Injects the given section every time; every other hook is neutral."""

    def __init__(self, section: str) -> None:
        self._section = section

    @property
    def name(self) -> str:
        return "snapshot"

    async def inject(self, reason: InjectReason) -> Injection:
        return Injection(system=self._section)


class BaseMemory(NullMemory):
    """One session's memory. Reads and writes nothing before `open`. For a person it
    raises MemoryRefused, StorageError and BusyError."""

    system: ClassVar[str]
    """Its name in the config and in the history."""

    def __init__(self, settings: "MemoryConfig") -> None:
        self._settings = settings

    @property
    def name(self) -> str:
        return self.system

    async def open(self, context: MemoryContext, state: Mapping[str, Any]) -> None:
        """Raises: StorageError."""
        for folder in (context.root, context.root / self.name):
            if os.path.lexists(folder) and not folder.is_dir():
                raise StorageError(f"{folder} is not a folder. Move it away.")
        self._context = context
        self.project = context.project_root or paths.project_root(context.cwd)
        """The project it was opened in; paths of cited code are relative to it."""
        self.history = History(context.root / "history.jsonl")
        """Every change, with its undo."""
        self.ledger = Ledger(self.history, self.name, self.sides)
        """What the changes make true."""
        seen = state.get("seen")
        self.seen: Seen = dict(seen) if isinstance(seen, dict) else {}
        """The texts that the session's model was shown whole, for `replacing`."""
        self._turn = 0
        self.asked = ""
        self._work = Background(lambda fault: self._notice(f"Memory could not finish: {fault}"))

    @property
    def unfinished(self) -> int:
        """How many sessions or tasks, ended or ending, memory is still to learn from."""
        return 0

    @property
    def _places(self) -> "Places":
        """Its layout; one that keeps nothing where a system has none."""
        return self.history.places or Places(self._context.root, self.name, r"(?!)")

    async def close(self, grace_s: float) -> None:
        await self._work.close(grace_s)

    # ── for a person ─────────────────────────────────────────────────────────────────────────────

    def parts(self) -> Sequence[report.Part]:
        """What a person is shown of it: the places of facts, then the notes on sessions."""
        facts, entries = self._places.of_facts(), self.entries()
        found = [report.part(self._places, target, self._notice) for target in facts]
        notes = [entry for entry in entries if entry.target not in facts]
        return [*found, report.Part(called="session notes", entries=notes, of_notes=True)]

    async def figures(self) -> Mapping[str, object]:
        """What only this system counts, by what a person calls it."""
        return {}

    def verbs(self) -> Mapping[str, Verb]:
        """What each of the commands does that its row names besides those of all systems."""
        return {}

    def entries(self) -> Sequence[Entry]:
        """The current entries that apply in this project."""
        return self._places.standing(self._places.here())

    def facts(self) -> Sequence[Entry]:
        """The entries that a person may be asked about, without records of past work."""
        found = self._places.standing(self._places.of_facts())
        return [entry for entry in found if entry.is_fact]

    def sides(self, change: Change) -> tuple[Sequence[Entry], Sequence[Entry]]:
        """The entries before and after a change, as far as it concerns them."""
        places = self._places
        if not places.tracks(change.target):
            return (), ()
        before = places.entries_of(change.target, change.before)
        return before, places.entries_of(change.target, change.after)

    async def undo_change(self, change: Change, batch: str = "") -> Outcome:
        """Undoes one change, as a new change. Also raises NothingToUndo if nothing of it is
        left."""
        self.check_writable()
        undoing = await standing.undo(self.history, change, self._author("undo", batch=batch))
        line = f"undid {change.kind} {change.id} in {self._places.called(undoing.target)}"
        gone, back = (
            "; ".join(f'"{shorten(redact(text), QUOTED_CHARS)}"' for text in side)
            for side in (undoing.differences)
        )
        words = [
            f"{word}: {texts}" for word, texts in (("restored", back), ("removed", gone)) if texts
        ]
        return self._report(Outcome(line=line, detail=" · ".join(words), change_id=undoing.id))

    async def add(self, addition: Addition) -> Outcome:
        """Stores what a person typed."""
        self.check_writable()
        addition.check(self.name, system_row(self.name).options)
        noticed = scan.check(addition.text, author="user")
        author = self._author("user", since=addition.since, until=addition.until)
        target, text = addition.target, addition.text.strip()
        change = await standing.add(self.history, target, text, addition.kept_by(author))
        if change is None:
            return Outcome(line=f'already there: "{shorten(redact(text), QUOTED_CHARS)}"')
        added = Entry(target=change.target, key=text, text=text)
        return replace(self._report(_done(self._places, "added to", added, change)), remark=noticed)

    async def accept(self, proposal: Proposal) -> Outcome:
        """Puts a proposal in its place, for the person who approved it; the change names it."""
        of_project = proposal.about == "project"
        row = system_row(self.name)
        return await self.add(
            Addition(
                target=row.about_project if of_project else row.about_user,
                text=proposal.text,
                scope="project" if of_project and "--scope" in row.options else None,
                source=proposal.origin,
                batch=proposal.batch,
                approves=proposal.id,
            )
        )

    async def reject(self, proposal: Proposal) -> None:
        """Stops what an approval that is undone began."""

    async def waiting(self) -> list[Waiting]:
        """What stands in its place already, marked as waiting for a person, oldest first; each says
        what decides it."""
        return []

    async def confirm(self, entry: Entry, doubt: Doubt | None) -> Outcome:
        """Confirms that an entry holds: it now rests on the cited lines as they are, and has no
        end."""
        self.check_writable()
        change = await standing.confirm(
            self.history, entry, confirming(self._author("user"), self.project, doubt)
        )
        return self._report(_done(self._places, "confirmed in", entry, change))

    async def remove_entry(self, entry: Entry, reason: str = "") -> Outcome:
        """Removes a current entry."""
        self.check_writable()
        change = await standing.remove(self.history, entry, self._author("user"), reason)
        return self._report(_done(self._places, "removed from", entry, change))

    async def rebuild(self) -> str:
        """Puts back what the history has and the files do not."""
        self.check_writable()
        return await standing.rebuild(self.history)

    def since_then(self, text: str, session: str = "") -> str:
        """What no longer holds of a text that is about to be shown, which may be a record of
        `session`; "" if all does."""
        today = self._context.now().date()
        return since_then(self.ledger, text, self.project, today, session=session)

    def check_writable(self) -> None:
        """Raises: MemoryRefused if memory was opened read-only."""
        if self._context.read_only:
            raise MemoryRefused("This memory was opened for reading only.")

    def _hear(self, turn: Turn) -> None:
        """Sets the turn that further changes belong to."""
        self._turn, self.asked = turn.number, shorten(turn.text, WORDS_CHARS)

    def _author(
        self,
        who: Who,
        *,
        batch: str = "",
        source: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> Author:
        """An author in this turn of this session. What the model creates records the person's
        prompt, and the lines of code that `source` names; it holds from `since` until the end of
        the day `until`, if given. Raises: MemoryRefused for an invalid value."""
        author = Author(
            who=who,
            session=self._context.session_id,
            turn=self._turn or None,
            words=self.asked if who == "model" else "",
            batch=batch or _TOGETHER.get(),
        )
        return holding(citing(author, self.project, source), since, until)

    def _report(self, done: Outcome) -> Outcome:
        """Announces a change, and returns it for the person who requested it."""
        if done.change_id:
            self._context.emit(MemoryChanged(text=done.line, change_id=done.change_id))
        return done

    def _frame(self, about: str, body: str) -> str:
        """Frames memory for the model; warns the person about what looks like an attack."""
        what = frame.suspicion(body)
        if what:
            self._notice(
                f"Memory holds text that looks like {what}. It is shown to the model as data, with "
                "a warning. `kode memory show` finds it: edit it, or undo its change."
            )
        return frame.wrap(about, body, what=what)

    def _notice(self, text: str, *, level: Literal["info", "warning"] = "warning") -> None:
        self._context.emit(Notice(text=text, level=level))


async def reconcile(system: BaseMemory) -> None:
    """Compares what is stored with the history, and reports what differs: called once a memory is
    open, but for a rebuild."""
    history, context = system.history, system._context
    try:
        lines = await standing.reconcile(history, read_only=context.read_only)
    except (StorageError, BusyError) as error:  # memory works without
        lines = [f"Memory was not compared with its history: {error}"]
    for line in lines:
        system._notice(line)


@contextmanager
def together() -> Iterator[str]:
    """All that is changed inside is one change to undo; yields its batch."""
    token = _TOGETHER.set(secrets.token_hex(6))
    try:
        yield _TOGETHER.get()
    finally:
        _TOGETHER.reset(token)


def confirming(author: Author, project: Path, doubt: Doubt | None) -> Author:
    """The author of a confirmation: the entry rests on the cited lines as they are now, and an
    expired one has no end any more."""
    if doubt is None:
        return author
    with suppress(MemoryRefused):  # the lines are gone: it rests on the person's word alone
        author = citing(author, project, doubt.change.source)
    until = "" if doubt.expired else doubt.change.until
    return replace(author, since=doubt.change.since, until=until)


def _done(places: Places, did: str, entry: Entry, change: Change) -> Outcome:
    """A change of one entry, with how full its place is now."""
    called = places.called(entry.target)
    fill = places.fill(entry.target, places.read(entry.target))
    return Outcome(
        line=f'{did} {called} "{shorten(redact(entry.text), QUOTED_CHARS)}"',
        detail=f"{called}: {fill}" if fill else "",
        change_id=change.id,
    )


def has_lost_messages(reason: InjectReason) -> bool:
    """Whether the context lost messages since memory last injected something. Only then does memory
    repeat what they said; otherwise they are in the same request."""
    return reason in ("compacted", "trimmed")


def lacking(system: str, command: str) -> MemoryRefused:
    """The error for a command that a system does not have."""
    if system == "none":
        return MemoryRefused("Memory is off. Set memory.enabled to true, or leave out --no-memory.")
    return MemoryRefused(f"The {system} memory has no `{command}`. `kode memory --help`.")


def reason_of(error: BaseException) -> str:
    """An error's message; with its type if it is not kode's."""
    return str(error) if isinstance(error, KodeError) else f"{type(error).__name__}: {error}"


def only_one(kind: str, ids: Iterable[str], id: str, lists: str) -> str:
    """Resolves an id or prefix among `ids`; `kind` says what they are, `lists` the command that
    lists them. Raises: MemoryRefused if none or several match."""
    known = list(ids)
    found = [id] if id in known else [one for one in known if one.startswith(id)]
    if len(found) == 1:
        return found[0]
    how_many = "More than one" if found else "No"
    raise MemoryRefused(f"{how_many} {kind} begins with {id!r}. {lists} lists them.")
