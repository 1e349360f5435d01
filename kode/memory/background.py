"""Work of an open memory that nobody waits for."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

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
