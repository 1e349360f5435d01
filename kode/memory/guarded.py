"""Guards a memory system, so that a hook that hangs or fails never costs a turn.

Itself a `MemorySystem`. Each hook has a time limit; a fault becomes the neutral answer and one
Notice for that hook; after three faults in a row the hook is not called again in this process. Of
a system that could not be opened, no other hook is called.
Cancellation passes through.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from kode.contracts import (
    Drop,
    DropReason,
    Hit,
    Injection,
    InjectReason,
    MemoryContext,
    MemorySystem,
    SnapshotSection,
    Tool,
    Turn,
)
from kode.errors import KodeError, MemoryRefused
from kode.events import Emit, Notice, Working, silent
from kode.memory.system import Memory
from kode.messages import Message

T = TypeVar("T")

_SAVING = "Saving memory"
HOOKS: Mapping[str, tuple[float, str, str]] = {
    "open": (10.0, "be opened", "Opening memory"),
    "inject": (5.0, "be shown to the model", "Reading memory"),
    "recall": (2.0, "recall entries for this turn", "Looking into memory"),
    "tools": (0.0, "offer its tools", ""),
    "after_turn": (1.0, "note this turn", "Noting this turn"),
    "before_drop": (30.0, "save what the context is about to lose", _SAVING),
    "maintain": (600.0, "tidy up", ""),
    "search": (30.0, "be searched", ""),
    "snapshot": (2.0, "be copied for a subagent", ""),
    "state": (0.0, "save its state", ""),
    "close": (15.0, "finish its work in time", _SAVING),
}
"""Time limit in seconds (0: it is not awaited), what failed, and what a waiting person reads.
`search` and `maintain` may ask a model; nobody waits for them."""

SLOW_S = 1.0
"""After this time the person is notified that a hook is slow."""

FAULTS_IN_A_ROW = 3
"""After this many a hook is not called again in this process."""


class Guarded:
    """`limits_s` overrides single limits of `HOOKS`, in seconds."""

    def __init__(
        self, system: MemorySystem, *, limits_s: Mapping[str, float] | None = None
    ) -> None:
        self.system = system
        """The system inside, for commands beyond the contract."""
        self._limits_s = {hook: row[0] for hook, row in HOOKS.items()} | dict(limits_s or {})
        self._emit: Emit = silent
        self._faults: dict[str, int] = {}
        self._noticed: set[str] = set()
        self._state: Mapping[str, Any] = {}

    @property
    def name(self) -> str:
        return self.system.name

    @property
    def message_window(self) -> int | None:
        return self.system.message_window

    async def open(self, context: MemoryContext, state: Mapping[str, Any]) -> None:
        self._emit = context.emit
        self._state = state
        await self._call("open", lambda: self.system.open(context, state), None)

    async def inject(self, reason: InjectReason) -> Injection:
        return await self._call("inject", lambda: self.system.inject(reason), Injection())

    async def recall(self, turn: Turn) -> str:
        return await self._call("recall", lambda: self.system.recall(turn), "")

    def tools(self) -> tuple[Tool, ...]:
        return self._ask("tools", self.system.tools, ())

    async def after_turn(self, turn: Turn) -> None:
        await self._call("after_turn", lambda: self.system.after_turn(turn), None)

    async def before_drop(self, messages: Sequence[Message], reason: DropReason) -> Drop:
        return await self._call(
            "before_drop", lambda: self.system.before_drop(messages, reason), Drop(done=False)
        )

    async def maintain(self) -> None:
        await self._call("maintain", self.system.maintain, None)

    async def search(self, query: str, k: int) -> list[Hit]:
        nothing: list[Hit] = []
        return await self._call("search", lambda: self.system.search(query, k), nothing)

    async def snapshot(self) -> tuple[SnapshotSection, ...]:
        return await self._call("snapshot", self.system.snapshot, ())

    def state(self) -> Mapping[str, Any]:
        self._state = self._ask("state", self.system.state, self._state)
        return self._state

    async def close(self, grace_s: float) -> None:
        await self._call("close", lambda: self.system.close(grace_s), None)

    async def _call(self, hook: str, start: Callable[[], Awaitable[T]], neutral: T) -> T:
        if self._is_off(hook):
            return neutral
        try:
            async with asyncio.timeout(self._limits_s[hook]), self._told_when_slow(hook):
                answer = await start()
        except Exception as error:
            self._fault(hook, error)
            return neutral
        self._faults[hook] = 0
        return answer

    @contextlib.asynccontextmanager
    async def _told_when_slow(self, hook: str) -> AsyncIterator[None]:
        """Notifies the person once a hook is noticeably slow."""
        what = HOOKS[hook][2]
        if not what:
            yield
            return
        loop = asyncio.get_running_loop()
        started = loop.time()
        timer = loop.call_later(SLOW_S, self._emit, Working(what=what))
        try:
            yield
        finally:
            timer.cancel()
            if loop.time() - started >= SLOW_S:
                self._emit(Working(what=""))

    def _ask(self, hook: str, start: Callable[[], T], neutral: T) -> T:
        if self._is_off(hook):
            return neutral
        try:
            answer = start()
        except Exception as error:
            self._fault(hook, error)
            return neutral
        self._faults[hook] = 0
        return answer

    def _is_off(self, hook: str) -> bool:
        unopened = hook != "open" and self._faults.get("open", 0) > 0
        return unopened or self._faults.get(hook, 0) >= FAULTS_IN_A_ROW

    def _fault(self, hook: str, error: Exception) -> None:
        self._faults[hook] = self._faults.get(hook, 0) + 1
        if hook in self._noticed:
            return
        self._noticed.add(hook)
        doing, why = HOOKS[hook][1], self._reason(hook, error)
        text = f"Memory ({self.name}) could not {doing}: {why} kode continues without it; "
        self._emit(Notice(text=text + "`kode memory status` says more."))

    def _reason(self, hook: str, error: Exception) -> str:
        if isinstance(error, TimeoutError):
            return f"it took longer than {self._limits_s[hook]:g} s."
        if isinstance(error, KodeError):
            return str(error)
        return f"{type(error).__name__}: {error}".rstrip(". ") + "."


def inside(system: MemorySystem) -> MemorySystem:
    """The system without its guard: a person wants its errors."""
    return system.system if isinstance(system, Guarded) else system


def statements_of(system: MemorySystem, command: str) -> Memory:
    """The same, for a command about what it holds. Raises: MemoryRefused for a system that holds
    nothing that kode knows of."""
    memory = inside(system)
    if isinstance(memory, Memory):
        return memory
    if memory.name == "none":
        raise MemoryRefused("Memory is off. Set memory.enabled to true, or leave out --no-memory.")
    raise MemoryRefused(f"The {memory.name} memory has no `{command}`. `kode memory --help`.")
