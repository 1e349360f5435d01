"""Guards a memory system, so that a hook that hangs or fails never costs a turn.

Itself a `MemorySystem`. Each hook has a time limit; a fault becomes the neutral answer and one
Notice for that hook; after three faults in a row the hook is not called again in this process. Of
a system that could not be opened, no other hook is called. Cancellation passes through.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
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
    """`drop_limit_s` is the time limit of `before_drop`, in seconds."""

    def __init__(self, system: MemorySystem, *, drop_limit_s: float = 30.0) -> None:
        self.system = system
        """The system inside, for commands beyond the contract."""
        self._drop_limit_s = drop_limit_s
        self._emit: Emit = silent
        self._faults = Counter[str]()
        """Hook → its faults in a row."""
        self._notified: set[str] = set()
        self._state: Mapping[str, Any] = {}

    @property
    def name(self) -> str:
        return self.system.name

    @property
    def message_window(self) -> int | None:
        return self.system.message_window

    async def open(self, context: MemoryContext, state: Mapping[str, Any]) -> None:
        self._emit, self._state = context.emit, state
        await self._await("open", None, context, state)

    async def inject(self, reason: InjectReason) -> Injection:
        return await self._await("inject", Injection(), reason)

    async def recall(self, turn: Turn) -> str:
        return await self._await("recall", "", turn)

    def tools(self) -> tuple[Tool, ...]:
        return self._call("tools", ())

    async def after_turn(self, turn: Turn) -> None:
        await self._await("after_turn", None, turn)

    async def before_drop(self, messages: Sequence[Message], reason: DropReason) -> Drop:
        return await self._await("before_drop", Drop(done=False), messages, reason)

    async def maintain(self) -> None:
        await self._await("maintain", None)

    async def search(self, query: str, k: int) -> list[Hit]:
        return await self._await("search", list[Hit](), query, k)

    async def snapshot(self) -> tuple[SnapshotSection, ...]:
        return await self._await("snapshot", ())

    def state(self) -> Mapping[str, Any]:
        self._state = self._call("state", self._state)
        return self._state

    async def close(self, grace_s: float) -> None:
        await self._await("close", None, grace_s)

    async def _await(self, hook: str, neutral: T, *arguments: Any) -> T:
        answer = neutral
        if not self._is_off(hook):
            with self._count_faults(hook):
                async with asyncio.timeout(self._limit_s(hook)), self._show_if_slow(hook):
                    answer = await getattr(self.system, hook)(*arguments)
        return answer

    def _call(self, hook: str, neutral: T) -> T:
        answer = neutral
        if not self._is_off(hook):
            with self._count_faults(hook):
                answer = getattr(self.system, hook)()
        return answer

    def _is_off(self, hook: str) -> bool:
        is_closed = hook != "open" and self._faults["open"] > 0
        return is_closed or self._faults[hook] >= FAULTS_IN_A_ROW

    def _limit_s(self, hook: str) -> float:
        return self._drop_limit_s if hook == "before_drop" else HOOKS[hook][0]

    @contextlib.asynccontextmanager
    async def _show_if_slow(self, hook: str) -> AsyncIterator[None]:
        """Notifies the person once a hook is noticeably slow."""
        loop, what = asyncio.get_running_loop(), HOOKS[hook][2]
        timer = loop.call_later(SLOW_S, self._emit, Working(what=what)) if what else None
        try:
            yield
        finally:
            if timer:
                timer.cancel()
                if loop.time() >= timer.when():
                    self._emit(Working(what=""))

    @contextlib.contextmanager
    def _count_faults(self, hook: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._faults[hook] += 1
            if hook not in self._notified:
                self._notified.add(hook)
                text = f"Memory ({self.name}) could not {HOOKS[hook][1]}: "
                text += f"{self._reason(hook, error)} kode continues without it; "
                self._emit(Notice(text=text + "`kode memory status` says more."))
        else:
            self._faults[hook] = 0

    def _reason(self, hook: str, error: Exception) -> str:
        if isinstance(error, TimeoutError):
            return f"it took longer than {self._limit_s(hook):g} s."
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
