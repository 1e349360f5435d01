"""What every system that keeps something shares: its context, its history, its words to a person;
and what it offers to a person.

A hook that a system does not define gives the neutral answer (`NullMemory`).
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
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
from kode.errors import ConfigError, KodeError, MemoryRefused
from kode.events import MemoryChanged, Notice
from kode.memory import frame, uses
from kode.memory.history import Author, Change, History, Who
from kode.memory.lineage import Entry, Place
from kode.memory.source import citing
from kode.memory.stale import Doubt, holding
from kode.messages import Message, shorten

if TYPE_CHECKING:
    from kode.config import MemoryConfig
    from kode.memory.waiting import Choice, Pair

WORDS_CHARS = 500
"""Of what the person asked, kept with each change."""
UNDO_WITH = "undo with: kode memory undo "
"""Begins the line that ends what is said of a change; the id of the change follows."""
SHARE_OF_GRACE = 0.9
"""Of the time at the end; the rest is for ending what has to be cancelled."""


class Background:
    """The tasks of one open memory. `report` is called with what failed while nobody waited."""

    def __init__(self, report: Callable[[BaseException], None]) -> None:
        self._report = report
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_closing = False
        """Whether the session ends: no further step is to be begun."""

    def start(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Starts work that nobody waits for."""
        task = self._create(work)
        task.add_done_callback(self._report_fault)
        return task

    async def finish(self, work: Coroutine[Any, Any, None]) -> None:
        """Waits for work that continues if the caller is cancelled. Raises what the work raises."""
        task = self._create(work)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(self._report_fault)  # from here on nobody waits
            raise

    async def close(self, grace_s: float) -> None:
        """Gives what runs `grace_s`, then cancels it; never raises but CancelledError."""
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


def change_of(done: str) -> str:
    """The id of the change that a report ends with; "" where nothing was changed."""
    undoes = [line for line in done.split("\n") if line.startswith(UNDO_WITH)]
    return undoes[-1].removeprefix(UNDO_WITH).strip() if undoes else ""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What an operation did, in words."""

    line: str
    """One line, no full stop: `appended to episodes/2026-03.md "Logger fix"`."""
    detail: str = ""
    """What else is worth knowing."""
    change_id: str = ""
    """"" when nothing was changed."""


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """What came from untrusted content and counts only when a person has approved it."""

    id: str
    line: str
    """What it is, in a list of those that wait."""
    text: str
    """All of it; credentials are masked where it is shown."""


@dataclass(frozen=True, kw_only=True)
class Addition:
    """What a person wants to be kept, as typed (`kode memory add`)."""

    target: str
    """What a system calls the place: `user`, `facts/tools.md`, `rule`, `memory`."""
    text: str
    scope: Literal["global", "project"] | None = None
    tags: tuple[str, ...] = ()
    ttl_days: int | None = None
    evidence: tuple[str, ...] = ()
    sensitive: bool = False
    since: str = ""
    """From when it holds: a version or a day."""
    until: str = ""
    """The last day on which it holds."""
    source: str = ""
    """Who said it where it was not the person who keeps it."""
    batch: str = ""
    """What is undone together: the import that it came with."""

    def kept_by(self, author: Author) -> Author:
        """The person who keeps it, with where it is from."""
        return replace(author, source=self.source, batch=self.batch)

    def refuse_options(self, system: str, allowed: Collection[str]) -> None:
        """Raises: ConfigError for an option that means nothing to a system."""
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
    """Every hook gives the neutral answer and touches nothing. A memory system of a program's own
    can derive from it, and has then only the hooks it needs."""

    @property
    def name(self) -> str:
        return "none"

    @property
    def message_window(self) -> int | None:
        return None

    async def open(self, context: MemoryContext, state: Mapping[str, Any]) -> None:
        return None

    async def inject(self, reason: InjectReason) -> Injection:
        return Injection()

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
    """Injects the given section at every moment; every other hook is neutral."""

    def __init__(self, section: str) -> None:
        self._section = section

    @property
    def name(self) -> str:
        return "snapshot"

    async def inject(self, reason: InjectReason) -> Injection:
        return Injection(system=self._section)


class BaseMemory(NullMemory, ABC):
    """One session's memory. Nothing is read or written before `open`."""

    system: ClassVar[str]
    """Its name in the config and in the history."""

    def __init__(self, settings: "MemoryConfig") -> None:
        self._settings = settings

    @property
    def name(self) -> str:
        return self.system

    async def open(self, context: MemoryContext, state: Mapping[str, Any]) -> None:
        self._context = context
        self.history = History(context.root / "history.jsonl")
        """Every change, with its undo."""
        self._turn = 0
        self.asked = ""
        self._answers: list[str] = []
        self._work = Background(lambda fault: self._notice(f"Memory could not finish: {fault}"))

    @property
    def project(self) -> Path:
        """The project that it was opened in; paths of cited code are relative to it."""
        return self._context.project_root or paths.project_root(self._context.cwd)

    async def close(self, grace_s: float) -> None:
        await self._count_uses()
        await self._work.close(grace_s)

    # ── for a person; all of these raise MemoryRefused, StorageError, BusyError ──────────────

    @abstractmethod
    async def show(self) -> str:
        """What the next session will see, with fill levels and origins."""

    @abstractmethod
    async def status(self) -> str:
        """Which system, how full, what is pending."""

    @abstractmethod
    def entries(self) -> Sequence[Entry]:
        """What stands now, as far as it applies in this project."""

    @abstractmethod
    def facts(self) -> Sequence[Entry]:
        """The entries that a person may be asked about, without notes on what was done."""

    @abstractmethod
    def sides(self, change: Change) -> tuple[Sequence[Entry], Sequence[Entry]]:
        """The entries that a change found and left, as far as it concerns them."""

    @abstractmethod
    async def undo_change(self, change: Change, batch: str = "") -> str:
        """Takes back one change, as a change of its own. Raises also NothingToUndo when nothing of
        it is left."""

    @abstractmethod
    async def add(self, addition: Addition) -> str:
        """Keeps what a person typed."""

    @abstractmethod
    async def waiting(self) -> list[Waiting]:
        """What waits for a person's approval, oldest first."""

    @abstractmethod
    async def approve(self, id: str) -> str:
        """Approves what waits under `id`."""

    @abstractmethod
    async def drop(self, id: str) -> str:
        """Drops what waits under `id`."""

    @abstractmethod
    async def confirm(self, entry: Entry, doubt: Doubt | None) -> str:
        """The entry holds: it rests on the cited lines as they are now, and has no end."""

    @abstractmethod
    async def remove_entry(self, entry: Entry) -> str:
        """Removes an entry that stands."""

    async def list_episodes(self, count: int) -> str:
        """The newest episodes, one a line."""
        raise lacking(self.name, "episodes")

    async def show_one(self, id: str) -> str:
        """One episode, whole."""
        raise lacking(self.name, "show ID")

    async def edit_facts(
        self,
        command: Literal["replace", "archive", "remove", "consolidate"],
        target: Literal["user", "env"],
        scope: Literal["global", "project"] | None,
        *,
        old: str,
        new: str,
    ) -> str:
        """Changes facts, by the person; `old` is a part of the one that is meant."""
        raise lacking(self.name, command)

    def pairs(self) -> Sequence["Pair"]:
        """Entries that wait for a model's word, or where they contradict, for the person's."""
        return ()

    async def settle(self, pair: "Pair", choice: "Choice") -> str:
        """Keeps the first of a pair, the second or both."""
        raise lacking(self.name, "review")

    def given(self) -> set[Place]:
        """What this session brought up because it fitted."""
        return set()

    def may_undo_unasked(self, change: Change) -> bool:
        """Whether `undo` without an id can mean a change of this system."""
        return True

    def _check_writable(self) -> None:
        """Raises: MemoryRefused for a memory that was opened for reading."""
        if self._context.read_only:
            raise MemoryRefused("This memory was opened for reading only.")

    def _hear(self, turn: Turn) -> None:
        """What changes from here on belong to."""
        self._turn, self.asked = turn.number, shorten(turn.text, WORDS_CHARS)
        if turn.answer:
            self._answers.append(turn.answer)

    async def _count_uses(self) -> None:
        """Counts once what the answers of the session named; what fails is counted another time."""
        if self._context.read_only or self._context.session_id is None or not self._answers:
            return
        answers, self._answers = self._answers, []
        root, given = self._context.root, self.given()
        with suppress(KodeError):
            await uses.count_session(root, self.system, self.facts(), answers, given)

    def _author(
        self,
        who: Who,
        *,
        batch: str = "",
        source: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> Author:
        """Somebody, in this turn of this session. What the model makes rests on what the person
        asked, and on the lines of code that `source` names; it holds from `since` on and until the
        end of a day, where they are given. Raises: MemoryRefused for what names none."""
        author = Author(
            who=who,
            session=self._context.session_id,
            turn=self._turn or None,
            words=self.asked if who == "model" else "",
            batch=batch,
        )
        return holding(citing(author, self.project, source), since, until)

    def _confirming(self, doubt: Doubt | None) -> Author:
        """The person, who says that an entry holds: it rests on the cited lines as they are now,
        and where it had expired, has no end."""
        author = self._author("user")
        if doubt is None:
            return author
        with suppress(MemoryRefused):  # the lines are gone: it rests on the person's word alone
            author = citing(author, self.project, doubt.change.source)
        until = "" if doubt.expired else doubt.change.until
        return replace(author, since=doubt.change.since, until=until)

    def _report(self, done: Outcome) -> str:
        """Announces a change; returns the same for the person who asked for it, with its undo."""
        lines = [done.line, *((done.detail,) if done.detail else ())]
        if done.change_id:
            self._context.emit(MemoryChanged(text=done.line, change_id=done.change_id))
            lines.append(f"{UNDO_WITH}{done.change_id}")
        return "\n".join(lines)

    def _framed(self, about: str, body: str) -> str:
        """Memory as the model gets it; the person hears of what looks like an attack."""
        what = frame.suspicion(body)
        if what:
            self._notice(
                f"Memory holds text that looks like {what}. It is shown to the model as data, with "
                "a warning. `kode memory show` finds it: edit it, or undo its change."
            )
        return frame.framed(about, body, what=what)

    def _notice(self, text: str, *, level: Literal["info", "warning"] = "warning") -> None:
        self._context.emit(Notice(text=text, level=level))


def lacking(system: str, command: str) -> MemoryRefused:
    """The error for a command that a system does not have."""
    if system == "none":
        return MemoryRefused("Memory is off. Set memory.enabled to true, or leave out --no-memory.")
    return MemoryRefused(f"The {system} memory has no `{command}`. `kode memory --help`.")


def reason_of(error: BaseException) -> str:
    """A fault in words: its own where it is kode's, else with its type."""
    return str(error) if isinstance(error, KodeError) else f"{type(error).__name__}: {error}"


def only_waiting(kind: str, waiting: Iterable[str], id: str) -> str:
    """The same among what waits for approval. Raises: MemoryRefused."""
    kind = f"{kind} that waits for approval"
    return only_one(kind, waiting, id, "`kode memory approve` without an id")


def only_one(kind: str, ids: Iterable[str], id: str, lists: str) -> str:
    """The one of `ids` that is `id` or begins so; `kind` says what they are of, `lists` what lists
    them. Raises: MemoryRefused when none does, or several."""
    known = list(ids)
    found = [id] if id in known else [one for one in known if one.startswith(id)]
    if len(found) == 1:
        return found[0]
    how_many = "More than one" if found else "No"
    raise MemoryRefused(f"{how_many} {kind} begins with {id!r}. {lists} lists them.")
