"""Work that memory does beside the session, and what becomes of it when the session ends.

The step that is being worked on (a model was asked, and will be paid for) gets the time that is
left; the next one is not begun. Not here: what a step is, and where its result is kept.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

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
