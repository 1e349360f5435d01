"""Guards a memory system: a hook has a time limit, and a fault becomes the neutral answer and one
Notice. After three faults in a row it is not called again in this process; of a system that could
not be opened, none is. Cancellation passes through.
"""

import asyncio
import contextlib
import pkgutil
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from types import NoneType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from kode import installed
from kode.errors import ConfigError, KodeError, MemoryRefused
from kode.events import Emit, Notice, Working, silent
from kode.memory.contract import Drop, Injection, MemoryContext, MemorySystem
from kode.memory.system import Memory
from kode.registry import SYSTEMS
from kode.tool import Tool

if TYPE_CHECKING:
    from kode.config.model import MemoryConfig

P = ParamSpec("P")
T = TypeVar("T")
_System = MemorySystem
SLOW_S = 1.0
"""After this time the person is notified that a hook is slow."""
GRACE_S = 2.0  # for what a system does after its own deadline
FAULTS_IN_A_ROW = 3
"""After this many a hook is not called again in this process."""
_SAVING = "Saving memory"
_NOT_DONE = partial(Drop, done=False)


def _guard(
    method: Callable[Concatenate[MemorySystem, P], Coroutine[Any, Any, T]],
    limit_s: float,
    neutral: Callable[[], T],
    purpose: str,
    waiting: str = "",
) -> Callable[Concatenate["Guarded", P], Coroutine[Any, Any, T]]:
    """The guarded hook. `purpose` says what failed, `waiting` what a waiting person reads; "" if
    nobody waits."""
    hook = method.__name__

    async def call(self: "Guarded", /, *arguments: P.args, **options: P.kwargs) -> T:
        answer, limit = neutral(), self.limits_s.get(hook, limit_s)
        with self.count_faults(hook, purpose, limit) as is_off:
            if not is_off:
                loop, emit = asyncio.get_running_loop(), self._emit if waiting else silent
                slow = loop.call_later(SLOW_S, emit, Working(what=waiting))
                try:
                    async with asyncio.timeout(limit):
                        answer = await getattr(self.system, hook)(*arguments, **options)
                finally:
                    slow.cancel()
                    if loop.time() >= slow.when():
                        emit(Working(what=""))
        return answer

    return call


class Guarded(MemorySystem):
    """`limits_s` overrides the time limits of single hooks, in seconds."""

    def __init__(self, system: MemorySystem, **limits_s: float) -> None:
        self.system, self.limits_s = system, limits_s
        self.name = system.name
        self._emit: Emit = silent
        self._faults = Counter[str]()
        """Hook → its faults in a row."""
        self._notices: set[str] = set()
        self._state: Mapping[str, Any] = {}

    _open = _guard(_System.open, 10.0, NoneType, "be opened", "Opening memory")
    inject = _guard(_System.inject, 5.0, Injection, "be shown to the model", "Reading memory")
    recall = _guard(_System.recall, 2.0, str, "recall entries for this turn", "Looking into memory")
    after_turn = _guard(_System.after_turn, 1.0, NoneType, "note this turn", "Noting this turn")
    before_drop = _guard(
        _System.before_drop, 30.0, _NOT_DONE, "save what the context loses", _SAVING
    )
    maintain = _guard(_System.maintain, 600.0, NoneType, "tidy up")
    search = _guard(_System.search, 30.0, list, "be searched")
    snapshot = _guard(_System.snapshot, 2.0, tuple, "be copied for a subagent")
    close = _guard(_System.close, 15.0, NoneType, "finish its work in time", _SAVING)

    @property
    def message_window(self) -> int | None:
        return self.system.message_window

    async def open(self, context: MemoryContext, state: Mapping[str, Any]) -> None:
        self._emit, self._state = context.emit, state
        await self._open(context, state)

    def tools(self) -> tuple[Tool, ...]:
        with self.count_faults("tools", "offer its tools") as is_off:
            return () if is_off else self.system.tools()
        return ()

    def state(self) -> Mapping[str, Any]:
        with self.count_faults("state", "save its state") as is_off:
            self._state = self._state if is_off else self.system.state()
        return self._state

    @contextlib.contextmanager
    def count_faults(self, hook: str, purpose: str, limit_s: float = 0.0) -> Iterator[bool]:
        """Whether a hook is not to be called any more; if it is called and fails, that is all."""
        is_closed = hook != "open" and self._faults["open"] > 0
        is_off = is_closed or self._faults[hook] >= FAULTS_IN_A_ROW
        try:
            yield is_off
        except Exception as error:
            self._faults[hook] += 1
            if hook not in self._notices:
                self._notices.add(hook)
                reason = f"{type(error).__name__}: {error}".rstrip(". ") + "."
                if isinstance(error, TimeoutError):
                    reason = f"it took longer than {limit_s:g} s."
                reason = str(error) if isinstance(error, KodeError) else reason
                text = f"Memory ({self.name}) could not {purpose}: {reason} kode continues without "
                self._emit(Notice(text=text + "it; `kode memory status` says more."))
        else:
            if not is_off:
                self._faults[hook] = 0


def statements_of(system: MemorySystem, command: str) -> Memory:
    """The memory inside a guard, for a command of a person, who wants its errors. Raises:
    MemoryRefused for a system that holds nothing that kode knows of."""
    memory = system.system if isinstance(system, Guarded) else system
    if isinstance(memory, Memory):
        return memory
    if memory.name == "none":
        raise MemoryRefused("Memory is off. Set memory.enabled to true, or leave out --no-memory.")
    raise MemoryRefused(f"The {memory.name} memory has no `{command}`. `kode memory --help`.")


def guard(settings: "MemoryConfig", system: MemorySystem | None = None) -> Guarded:
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
        policy = pkgutil.resolve_name(SYSTEMS[name].opens)
        return Memory(name, settings, policy(settings))
    added = installed.added("memory")
    if name not in added:
        raise ConfigError(
            f"There is no memory system {name!r}. "
            f"Set memory.system to one of: {', '.join((*SYSTEMS, *added))}."
        )
    system: MemorySystem = installed.load(*added[name])(settings)
    return system
