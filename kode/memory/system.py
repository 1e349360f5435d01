"""The memory of one session, for every system: the hooks of the contract, and their guard. A hook
that fails, or an async one that exceeds its time limit, gives its neutral answer and the first time
a Notice. After three faults in a row a hook is not called again in this process; after a failed
`open`, none is. Cancellation passes through.
"""

import asyncio
import os
import pkgutil
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from operator import attrgetter
from types import NoneType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from kode import installed
from kode.errors import BusyError, ConfigError, KodeError, MemoryRefused, Setting, StorageError
from kode.events import Emit, Notice, Working, no_emit
from kode.memory import frame
from kode.memory.contract import (
    Drop,
    DropReason,
    Injection,
    InjectReason,
    MemoryContext,
    MemorySystem,
    SnapshotSection,
    Turn,
)
from kode.memory.pending import Pending
from kode.memory.policy import INDEX_LIMIT_S, OpenMemory, Policy
from kode.memory.question import sum_up_session
from kode.messages import Message
from kode.registry import SYSTEMS
from kode.tool import Tool
from kode.values import replace

if TYPE_CHECKING:
    from kode.config.model import MemoryConfig

OPEN_WAIT_S, TURN_WAIT_S = 4.0, 1.0
"""How long opening, and each message, wait for changes shared by others; the rest comes later."""
SHARE_OF_GRACE = 0.9  # for finishing work at the end; the rest is for cancelling it
MAX_SEEN, MAX_SHOWN_NOTES = 300, 50
"""How many of the latest texts, and of the latest notes, a session remembers as shown."""


class SnapshotMemory(MemorySystem):
    """Injects the given section every time; every other hook is neutral."""

    def __init__(self, section: str) -> None:
        self._section = section

    async def inject(self, reason: InjectReason) -> Injection:
        return Injection(system=self._section)


class Memory(OpenMemory, MemorySystem):
    """One session's memory. Reads and writes nothing before `open`."""

    pending: Pending

    def __init__(self, name: str, settings: "MemoryConfig", policy: Policy) -> None:
        super().__init__(name, settings, policy.layout)
        self.policy = policy
        self._file_times: Mapping[str, int] = {}

    message_window = property(attrgetter("policy.message_window"))

    async def open(self, context: MemoryContext, state: Mapping[str, Any]) -> None:
        """Raises: StorageError."""
        for folder in (context.root, context.root / self.name):
            if os.path.lexists(folder) and not folder.is_dir():
                raise StorageError(f"{folder} is not a folder. Move it away.")
        self.set_up(context)
        self.store.view()  # a history that cannot be read is a fault before any other
        self.pending = Pending(context.root / "pending" / self.name)
        self.seen.update(state.get("seen", {}))
        self.shown_notes += _read_state_lines(state, "shown")
        self._horizon = str(state.get("change", "")), str(state.get("day", ""))
        self.policy.buffer += _read_state_lines(state, "buffer")
        await self._follow_files()
        await self.policy.follow(self, OPEN_WAIT_S)
        if not self._horizon[0]:
            self._horizon = self._now()

    async def inject(self, reason: InjectReason) -> Injection:
        if reason in ("compacted", "trimmed"):
            self.seen.clear()
        if reason != "resume":  # a resumed session keeps its beginning, and is told what is new
            self._horizon = self._now()
        return self.policy.prompt(self, reason)

    async def recall(self, turn: Turn) -> str:
        self._begin(turn)
        await self.policy.follow(self, TURN_WAIT_S)
        if self.store.fact_file_times() != self._file_times:
            await self._follow_files()
        news, now = "", self._now()
        if now != self._horizon:
            session = self.context.session_id or ""
            news = frame.escape_frame(frame.list_news(self.store, *self._horizon, now[1], session))
            self._horizon = now
        return "\n\n".join(filter(None, (news, await self.policy.recall(self, turn))))

    def tools(self) -> tuple[Tool, ...]:
        tools = () if self.context.read_only else self.policy.tools
        return tuple(make_tool(self) for make_tool in tools)

    async def after_turn(self, turn: Turn) -> None:
        self._begin(turn)  # again: another process may have held the session before
        await self.policy.after_turn(self, turn)

    async def before_drop(self, messages: Sequence[Message], reason: DropReason) -> Drop:
        if self.context.read_only:
            return Drop()
        drop = await self.policy.before_drop(self, messages, reason)
        is_left = reason == "window" or not drop.done
        return drop if is_left else replace(drop, done=await self.sum_up())

    async def maintain(self) -> None:
        """Takes over edits of records, summarizes sessions that other processes left, tidies up."""
        if not self.context.read_only:
            await asyncio.shield(self.start_work(self._run_upkeep()))

    async def snapshot(self) -> tuple[SnapshotSection, ...]:
        """The facts that a subagent may read, a section for each place."""
        sections = defaultdict[str, list[str]](list)
        for statement in self.visible_facts():
            sections[self.layout.title(statement.place)].append(self.describe(statement))
        return tuple(
            SnapshotSection(title=title, content=frame.escape_frame("\n".join(texts)))
            for title, texts in sections.items()
        )

    def state(self) -> Mapping[str, Any]:
        state = {
            "buffer": self.policy.buffer,
            "change": self._horizon[0],
            "day": self._horizon[1],
            "seen": dict([*self.seen.items()][-MAX_SEEN:]),
            "shown": self.shown_notes[-MAX_SHOWN_NOTES:],
        }
        return {name: value for name, value in state.items() if value}

    async def close(self, grace_s: float) -> None:
        await self.policy.follow(self, grace_s / 2)
        self.is_closing = True
        work = asyncio.gather(*self.tasks, return_exceptions=True)
        with suppress(TimeoutError):
            await asyncio.wait_for(work, grace_s * SHARE_OF_GRACE)
        if self.context.session_id:
            self.pending.release(self.context.session_id)

    def _begin(self, turn: Turn) -> None:
        """Marks this session as pending, whatever becomes of the turn."""
        self.turn = turn
        if self.context.session_id and not self.context.read_only:
            self.pending.mark(self.context.session_id)

    def _now(self) -> tuple[str, str]:
        """Returns the last change and the day up to which the session's model has been told all."""
        return self.store.log.last_id() or frame.NO_CHANGE, self.today().isoformat()

    async def _follow_files(self) -> None:
        """Takes over a person's edits in the files of facts; a failure becomes a notice."""
        try:
            for notice in await self.store.reconcile():
                self.context.emit(notice)
        except (StorageError, BusyError) as error:  # memory works without the comparison
            self.warn(f"Memory was not compared with its history: {error}")
        self._file_times = self.store.fact_file_times()

    # ── the end of sessions ──────────────────────────────────────────────────────────────────

    async def sum_up(self, session: str = "") -> bool:
        id = session or self.context.session_id or ""
        if id not in self.pending.sessions():
            return True
        if not self.pending.claim(id):
            return False
        record = self.context.session(id)
        if record is None:
            self.pending.finish(id)
            return True
        is_done = await sum_up_session(self, self.policy, record, self.pending)
        await self.policy.after_learning(self)
        return is_done

    async def _run_upkeep(self) -> None:
        for notice in await self.store.reconcile(self.store.record_places()):
            self.context.emit(notice)
        for id in self.pending.sessions():
            if self.is_closing:
                return
            if id != self.context.session_id:
                try:
                    await self.sum_up(id)
                finally:
                    self.pending.release(id)
        await self.fill_index()
        self.update_indexes(INDEX_LIMIT_S)
        if self.embedder:
            texts = [text.text for text in (*self.fact_index.texts, *self.note_index.texts)]
            while not self.is_closing and await self.embedder.compute_missing(texts):
                pass
        await self.policy.maintain(self)


def _read_state_lines(state: Mapping[str, Any], name: str) -> list[str]:
    lines = state.get(name)
    return lines if isinstance(lines, list) else []


# ── the guard ────────────────────────────────────────────────────────────────────────────────────

P = ParamSpec("P")
T = TypeVar("T")
SLOW_S = 1.0  # after which the person is notified that a hook is slow
GRACE_S = 2.0  # for what a system does after its own deadline
FAULTS_IN_A_ROW = 3  # after which a hook is not called again in this process
_Hooks, _NOT_DONE = MemorySystem, partial(Drop, done=False)


def _guard(
    method: Callable[Concatenate[MemorySystem, P], Coroutine[Any, Any, T]],
    limit_s: float,
    neutral: Callable[[], T],
    purpose: str,
    waiting: str = "",
) -> Callable[Concatenate["Guarded", P], Coroutine[Any, Any, T]]:
    """Returns the hook inside the guard. `purpose` completes "Memory could not ..."; `waiting` is
    what a waiting person reads, "" if nobody waits."""
    hook = method.__name__

    async def call(self: "Guarded", /, *arguments: P.args, **options: P.kwargs) -> T:
        if self._is_off(hook):
            return neutral()
        loop, emit = asyncio.get_running_loop(), self._emit if waiting else no_emit
        limit = self.limits_s.get(hook, limit_s)
        slow = loop.call_later(SLOW_S, emit, Working(what=waiting))
        try:
            async with asyncio.timeout(limit):
                answer: T = await getattr(self.system, hook)(*arguments, **options)
        except Exception as error:
            self._count_fault(hook, purpose, error, limit)
            return neutral()
        finally:
            slow.cancel()
            if loop.time() >= slow.when():
                emit(Working(what=""))
        self._faults.pop(hook, None)
        return answer

    return call


class Guarded(MemorySystem):
    """A system inside the guard. `limits_s` overrides time limits of single hooks, in seconds."""

    def __init__(self, system: MemorySystem, **limits_s: float) -> None:
        self.system, self.limits_s = system, limits_s
        self.name = system.name
        self._emit: Emit = no_emit
        self._faults: dict[str, int] = {}
        """Hook → its faults in a row, if there are any."""
        self._notices: set[str] = set()
        self._state: Mapping[str, Any] = {}

    _open = _guard(_Hooks.open, 10.0, NoneType, "be opened", "Opening memory")
    inject = _guard(_Hooks.inject, 5.0, Injection, "be shown to the model", "Reading memory")
    recall = _guard(_Hooks.recall, 2.0, str, "recall entries for this turn", "Looking into memory")
    after_turn = _guard(_Hooks.after_turn, 1.0, NoneType, "note this turn", "Noting this turn")
    before_drop = _guard(_Hooks.before_drop, 30.0, _NOT_DONE, "save what goes", "Saving memory")
    maintain = _guard(_Hooks.maintain, 600.0, NoneType, "tidy up")
    search = _guard(_Hooks.search, 30.0, list, "be searched")
    snapshot = _guard(_Hooks.snapshot, 2.0, tuple, "be copied for a subagent")
    close = _guard(_Hooks.close, 15.0, NoneType, "finish its work in time", "Saving memory")

    message_window = property(attrgetter("system.message_window"))

    async def open(self, context: MemoryContext, state: Mapping[str, Any]) -> None:
        self._emit, self._state = context.emit, state
        await self._open(context, state)

    def tools(self) -> tuple[Tool, ...]:
        return self._call_now("tools", "offer its tools", ())

    def state(self) -> Mapping[str, Any]:
        self._state = self._call_now("state", "save its state", self._state)
        return self._state

    def _call_now(self, hook: str, purpose: str, neutral: T) -> T:
        """Calls a hook that is not async."""
        if self._is_off(hook):
            return neutral
        try:
            answer: T = getattr(self.system, hook)()
        except Exception as error:
            self._count_fault(hook, purpose, error)
            return neutral
        self._faults.pop(hook, None)
        return answer

    def _is_off(self, hook: str) -> bool:
        """Whether a hook must not be called any more in this process."""
        is_closed = hook != "open" and "open" in self._faults
        return is_closed or self._faults.get(hook, 0) >= FAULTS_IN_A_ROW

    def _count_fault(self, hook: str, purpose: str, error: Exception, limit_s: float = 0.0) -> None:
        """Counts a hook's fault, and notifies the person of its first one."""
        self._faults[hook] = self._faults.get(hook, 0) + 1
        if hook not in self._notices:
            self._notices.add(hook)
            reason = f"{type(error).__name__}: {error}".rstrip(". ") + "."
            if isinstance(error, TimeoutError):
                reason = f"it took longer than {limit_s:g} s."
            reason = str(error) if isinstance(error, KodeError) else reason
            text = f"Memory ({self.name}) could not {purpose}: {reason} kode continues without "
            self._emit(Notice(text=text + "it; `kode memory status` says more."))


def statements_of(system: MemorySystem, command: str) -> Memory:
    """Returns the memory without its guard, for a person's command, which reports errors itself.
    Raises: MemoryRefused if memory is off, or for a system whose statements kode does not know."""
    memory = system.system if isinstance(system, Guarded) else system
    if isinstance(memory, Memory):
        return memory
    if memory.name == "none":
        raise MemoryRefused("Memory is off. Set memory.enabled to true, or leave out --no-memory.")
    raise MemoryRefused(f"The {memory.name} memory has no `{command}`. `kode memory --help`.")


def make_guarded(settings: "MemoryConfig", system: MemorySystem | None = None) -> Guarded:
    """The configured system, or the given one, inside its guard, not yet opened. Raises:
    ConfigError."""
    system = make_system(settings) if system is None else system
    return Guarded(system, before_drop=settings.drop_deadline_s + GRACE_S)


def make_system(settings: "MemoryConfig") -> MemorySystem:
    """The configured system without the guard, for commands that want its errors; a null one if
    memory is off. Raises: ConfigError if `settings.system` is unknown."""
    name = settings.system
    if not settings.enabled:
        return MemorySystem()
    if name in SYSTEMS:
        return Memory(name, settings, pkgutil.resolve_name(SYSTEMS[name].opens)(settings))
    added = installed.find_additions("memory")
    if name not in added:
        raise ConfigError(
            f"There is no memory system {name!r}. "
            f"Set memory.system to one of: {', '.join((*SYSTEMS, *added))}."
        ).about(Setting("memory.system"))
    system: MemorySystem = installed.load_part(*added[name])(settings)
    return system
