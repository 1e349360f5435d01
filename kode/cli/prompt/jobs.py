"""The running work of the prompt: one job at a time, which Ctrl-C stops, and others beside it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

Doing = Callable[..., Awaitable[object]]

SECOND_STOP_S = 2.0
"""Another Ctrl-C stops again only after this time: saving must not be cut short."""


@dataclass
class Jobs:
    """One job at a time, and others beside it."""

    failed: Callable[[Exception], None]
    """Called with the error that ended a job."""
    doing: str = ""
    """What the job is, if it is not a turn."""
    since: float = 0.0
    """When the job started (`time.monotonic`)."""
    stopping_since: float | None = None
    """When its stop was requested; None if it was not."""
    job: "asyncio.Task[None] | None" = None
    beside: set["asyncio.Task[None]"] = field(default_factory=set)
    _keys: set[str] = field(default_factory=set)
    """Of the unfinished jobs beside that may run only once."""

    @property
    def busy(self) -> bool:
        return self.job is not None and not self.job.done()

    def start(
        self, doing: Doing, *arguments: object, then: Callable[[bool], None], what: str = ""
    ) -> None:
        """Starts the job; nothing else may run as one. `then` gets, at its end, whether it was
        stopped."""

        def ended(task: "asyncio.Task[None]") -> None:
            stopped, self.stopping_since = self.stopping_since is not None, None
            self.doing = ""
            then(stopped)

        self.stopping_since, self.since, self.doing = None, time.monotonic(), what
        self.job = asyncio.ensure_future(self.guarded(doing, *arguments))
        self.job.add_done_callback(ended)

    def start_beside(self, doing: Doing, *arguments: object) -> None:
        task = asyncio.ensure_future(self.guarded(doing, *arguments))
        self.beside.add(task)
        task.add_done_callback(self.beside.discard)

    def start_once(self, key: str, doing: Doing, *arguments: object) -> None:
        """Starts a job beside the others, unless the last one with this key has not ended: a held
        key starts only one."""

        async def once() -> None:
            try:
                await doing(*arguments)
            finally:
                self._keys.discard(key)

        if key not in self._keys:
            self._keys.add(key)
            self.start_beside(once)

    def stop(self) -> bool:
        """Stops the job; False if there was none."""
        if self.job is None or self.job.done():
            return False
        now = time.monotonic()
        if self.stopping_since is None or now - self.stopping_since > SECOND_STOP_S:
            self.stopping_since = now
            self.job.cancel()
        return True

    async def finish(self, grace_s: float) -> None:
        """Waits for the job, at most `grace_s`, and stops the others."""
        if self.job is not None:
            await asyncio.wait([self.job], timeout=grace_s)
        for task in self.beside:
            task.cancel()

    async def guarded(self, doing: Doing, *arguments: object) -> None:
        """Runs work to its end: reports errors, and ignores a stop. Takes a function: a task
        stopped before it starts would leave an unawaited coroutine."""
        try:
            await doing(*arguments)
        except asyncio.CancelledError:
            return
        except Exception as error:
            self.failed(error)
