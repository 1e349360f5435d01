"""Any memory system, made harmless: a hook that hangs, fails or keeps failing costs a turn nothing.

Itself a `MemorySystem`. Each hook has a time limit; a fault becomes the neutral answer and one
Notice for that hook; after three faults in a row the hook is not called again in this process.
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
from kode.errors import KodeError
from kode.events import Emit, Notice, Working, silent
from kode.messages import Message

T = TypeVar("T")

LIMITS_S: Mapping[str, float] = {
    "open": 10.0,
    "inject": 5.0,
    "recall": 2.0,
    "tools": 0.0,
    "after_turn": 1.0,
    "before_drop": 30.0,
    "maintain": 600.0,
    "search": 30.0,
    "snapshot": 2.0,
    "state": 0.0,
    "close": 15.0,
}
"""Seconds a hook may take. 0: it is not awaited, so no limit applies. `search` and `maintain` may
ask a model; both run where nobody waits for a turn."""

SLOW_S = 1.0
"""A hook that somebody waits for is told of after this time."""

FAULTS_IN_A_ROW = 3
"""After so many a hook is left alone for the rest of the process."""


class Guarded:
    """`limits_s` overrides single limits of `LIMITS_S`, in seconds."""

    def __init__(
        self, system: MemorySystem, *, limits_s: Mapping[str, float] | None = None
    ) -> None:
        self.system = system
        """The system inside, for commands beyond the contract."""
        self._limits_s = {**LIMITS_S, **(limits_s or {})}
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
        if self._faults.get(hook, 0) >= FAULTS_IN_A_ROW:
            return neutral
        try:
            async with asyncio.timeout(self._limits_s[hook]), self._said_when_slow(hook):
                answer = await start()
        except Exception as error:
            self._fault(hook, error)
            return neutral
        self._faults[hook] = 0
        return answer

    @contextlib.asynccontextmanager
    async def _said_when_slow(self, hook: str) -> AsyncIterator[None]:
        """Tells what is waited for once that is noticed."""
        what = _SLOW.get(hook)
        if what is None:
            yield
            return
        loop = asyncio.get_running_loop()
        begun = loop.time()
        timer = loop.call_later(SLOW_S, self._emit, Working(what=what))
        try:
            yield
        finally:
            timer.cancel()
            if loop.time() - begun >= SLOW_S:
                self._emit(Working(what=""))

    def _ask(self, hook: str, start: Callable[[], T], neutral: T) -> T:
        if self._faults.get(hook, 0) >= FAULTS_IN_A_ROW:
            return neutral
        try:
            answer = start()
        except Exception as error:
            self._fault(hook, error)
            return neutral
        self._faults[hook] = 0
        return answer

    def _fault(self, hook: str, error: Exception) -> None:
        self._faults[hook] = self._faults.get(hook, 0) + 1
        if hook in self._noticed:
            return
        self._noticed.add(hook)
        self._emit(
            Notice(
                text=f"Memory ({self.name}) could not {_DOING[hook]}: {self._reason(hook, error)} "
                "kode continues without it; `kode memory status` says more."
            )
        )

    def _reason(self, hook: str, error: Exception) -> str:
        if isinstance(error, TimeoutError):
            return f"it took longer than {self._limits_s[hook]:g} s."
        if isinstance(error, KodeError):
            return str(error)
        return f"{type(error).__name__}: {error}".rstrip(". ") + "."


_SLOW: Mapping[str, str] = {
    "open": "Opening memory",
    "inject": "Reading memory",
    "recall": "Looking into memory",
    "after_turn": "Noting this turn",
    "before_drop": "Saving what is worth remembering",
    "close": "Saving what is worth remembering",
}
"""Hooks that a person waits for, and what they do."""

_DOING: Mapping[str, str] = {
    "open": "be opened",
    "inject": "be shown to the model",
    "recall": "look for what fits this turn",
    "tools": "offer its tools",
    "after_turn": "note this turn",
    "before_drop": "keep what the context is about to lose",
    "maintain": "tidy up",
    "search": "be searched",
    "snapshot": "be copied for a subagent",
    "state": "save its state",
    "close": "finish its work in time",
}
