"""Works on a queue: takes a task, makes its tree, runs its process, verifies, records. The same in
the driver's own process, in a job of a cluster and on another machine.

A task that another start has begun is continued in its session. What that start had in flight is
unknown: it is recorded as such, the model reads it, and kode repeats no call by itself.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

from kode import durable, paths
from kode.errors import KodeError, StorageError, UserError
from kode.plugins.fleet import child
from kode.plugins.fleet.child import Seen
from kode.plugins.fleet.queue import SPENT, Queue, Worker, host, open_worker
from kode.plugins.fleet.records import (
    PATCH,
    Finished,
    Leased,
    Record,
    Released,
    Started,
    Status,
    Verdict,
)
from kode.plugins.fleet.state import LEASE_S, TaskState
from kode.plugins.fleet.trees import Tree, Trees
from kode.session.entries import timestamp
from kode.tools import processes

POLL_S = 0.5
"""Between looks at what others have recorded."""
ANSWER_CHARS = 1000
MAX_KILLS = 2
"""A task whose process something else killed is continued so often. One that needs more memory than
there is ends as an error then, instead of taking the machine down for ever."""

Result = TypeVar("Result")
Show = Callable[[TaskState, Record], None]
"""Gets each start, release and end of a task that this process works on."""


async def work(queue: Queue, show: Show, *, jobs: int, only: str | None = None) -> None:
    """Works on a queue, `jobs` tasks at once, until each has ended or no more is to be started;
    with `only` on that task alone. What other workers have is waited for, and taken over once they
    are gone. Cancelled, it ends its processes and gives their tasks back.

    Raises: StorageError.
    """
    worker = open_worker(queue)
    trees = Trees(folder=Path(queue.fleet.trees), queue=queue.folder)
    running: dict[asyncio.Task[None], _Work] = {}
    said_alive = time.monotonic()
    try:
        await _in_thread(_remove_left, queue, trees)
        while True:
            while len(running) < jobs and (lease := queue.lease(worker, only)):
                one = _Work(queue, worker, trees, lease, show)
                running[asyncio.create_task(one.run())] = one
            if not running and _is_over(queue, only):
                return
            if running:
                await asyncio.wait(running, timeout=POLL_S, return_when=asyncio.FIRST_COMPLETED)
            else:
                await asyncio.sleep(POLL_S)
            if time.monotonic() - said_alive > LEASE_S / 4:
                queue.record(worker.alive())
                said_alive = time.monotonic()
            queue.refresh()
            for task, one in list(running.items()):
                if task.done():
                    del running[task]
                    if not task.cancelled():
                        task.result()
                elif one.is_unwanted():
                    task.cancel()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        worker.close()
        with contextlib.suppress(OSError):  # a tree is kept, or another works there
            trees.folder.rmdir()


def _remove_left(queue: Queue, trees: Trees) -> None:
    """Removes the trees of tasks whose worker was killed between their end and their clean-up."""
    for one in queue.state.tasks.values():
        if one.finished is not None and not one.finished.tree:
            trees.remove(one.task)


def _is_over(queue: Queue, only: str | None) -> bool:
    if only is not None:
        return queue.state.tasks[only].finished is not None or bool(queue.stopped())
    return queue.is_over()


class _Work:
    """One task under one lease."""

    def __init__(
        self, queue: Queue, worker: Worker, trees: Trees, lease: Leased, show: Show
    ) -> None:
        self.queue = queue
        self.trees = trees
        self.lease = lease
        self.show = show
        self.one = queue.state.tasks[lease.task]
        self.began = time.monotonic()
        self.child_seconds = 0.0
        self.tree: Tree | None = None
        self.is_recorded = False

    def is_unwanted(self) -> bool:
        """Whether it is to be ended: nothing more is wanted of the fleet, or another worker has the
        task. Not once its own end is on record."""
        state = self.queue.state
        return not self.is_recorded and (state.cancelled or not state.holds(self.lease))

    async def run(self) -> None:
        """From the lease to what came of it. Raises: StorageError."""
        try:
            with durable.storage_errors(self.queue.folder, "work on"):
                record = await self._finish()
        except asyncio.CancelledError:
            record = self._give_back()
        except StorageError:
            raise  # the task is not to blame: it is continued when there is room
        except KodeError as error:
            record = self._end_record("error", str(error), child.NOTHING)
        self.is_recorded = True
        if self.queue.record(record, under=self.lease):
            self.show(self.one, record)
            if isinstance(record, Finished) and not record.tree:
                await _in_thread(self.trees.remove, self.one.task)

    async def _finish(self) -> Finished | Released:
        task, session = self.one.task, self.one.session
        if self.one.is_cut and self.one.started is not None and self._ran_here():
            await child.end_orphans(self.one.started.mark)
        seen = await _in_thread(child.look, paths.home(), session)
        self.tree = await self._tree(seen)
        if seen is not None:
            self.queue.settle(self.one, seen.cost_usd)
        if seen is not None and self._has_succeeded(seen):
            return await self._result({"status": "success"}, seen)
        left_usd = None
        if task.budget_usd is not None:
            left_usd = task.budget_usd - ((seen.cost_usd or 0.0) if seen is not None else 0.0)
            if left_usd <= 0:
                why = f"The budget of ${task.budget_usd:g} for this task is used up."
                return self._end_record("error", why, seen or child.NOTHING)
        said = await self._run(self._start(self.tree, seen), seen, left_usd)
        return await self._outcome(said, await _in_thread(child.look, paths.home(), session))

    def _start(self, tree: Tree, seen: Seen | None) -> str:
        """Records the start and returns its mark. Raises: CancelledError where another worker has
        the task."""
        started = Started(
            task=self.one.task.id,
            lease=self.lease.lease,
            at=time.time(),
            tree=str(tree.root),
            base=tree.base,
            mark=processes.new_mark(),
            unknown=seen.unknown if seen is not None else (),
        )
        if not self.queue.record(started, under=self.lease):
            raise asyncio.CancelledError
        self.show(self.one, started)
        return started.mark

    async def _outcome(self, said: dict[str, Any], seen: Seen | None) -> Finished | Released:
        """The record for a process that has ended, and left what is `seen`."""
        seen = seen or child.NOTHING
        self.queue.settle(self.one, seen.cost_usd)
        budget = self.queue.budget()
        if said["status"] == "error" and budget is not None and budget.is_used_up():
            reason = f"the budget of all tasks is used up: {said.get('error') or ''}"
            return Released(task=self.one.task.id, lease=self.lease.lease, reason=reason)
        if said["status"] == "interrupted":
            return self._give_back()
        if said["status"] == "killed":
            if self.one.kills < MAX_KILLS:
                task, lease = self.one.task.id, self.lease.lease
                return Released(task=task, lease=lease, reason=said["error"], killed=True)
            said = {**said, "status": "error"}
        return await self._result(said, seen)

    async def _run(self, mark: str, seen: Seen | None, left_usd: float | None) -> dict[str, Any]:
        assert self.tree is not None
        task, queue = self.one.task, self.queue
        text = task.task
        if seen is not None and seen.begun:
            text = child.next_message(task, seen)
        command = child.command_line(
            queue.fleet,
            task,
            cwd=self.tree.cwd,
            session_id=self.one.session,
            resumed=seen is not None,
            left_usd=left_usd,
            shared_budget=queue.folder / SPENT if queue.budget() is not None else None,
        )
        began = time.monotonic()
        try:
            return await child.run_child(
                command,
                text=text,
                mark=mark,
                cwd=self.tree.cwd,
                out=queue.task_folder(task.id) / f"{self.one.starts}.json",
                timeout_s=task.timeout_s,
            )
        finally:
            self.child_seconds = time.monotonic() - began

    async def _tree(self, seen: Seen | None) -> Tree:
        """The tree that the task has, else a new one. Raises: UserError where its work lies
        elsewhere."""
        before, task = self.one.started, self.one.task
        if before is not None and seen is None and not self._ran_here():
            raise UserError(
                f"It was started on another machine, and its session {self.one.session} is not "
                f"there on {host()}: what it did is unknown. Workers on several machines need one "
                "KODE_HOME on a shared folder."
            )
        found = before and self.trees.find(task, Path(before.tree), before.base)
        if found:
            return found
        if before is not None and seen is not None and seen.begun:
            raise UserError(
                f"Its worktree {before.tree} is not there on {host()}, and its session "
                f"{self.one.session} has begun in it. Continue on a machine that has both."
            )
        return await _in_thread(self.trees.make, task)

    def _has_succeeded(self, seen: Seen) -> bool:
        """Whether the latest start came to a good end that nobody recorded. One that failed is
        continued: nothing tells whether it was the task's own fault."""
        start, end = self.one.started, seen.ended
        if not self.one.is_cut or start is None or end is None or end.status != "success":
            return False
        return end.at >= timestamp(start.at)

    def _ran_here(self) -> bool:
        before = self.one.started_by
        return before is None or before.host == host()

    async def _result(self, said: dict[str, Any], seen: Seen) -> Finished:
        """What came of a process that has ended by itself: its patch, and whether it is good."""
        assert self.tree is not None
        task, status = self.one.task, cast(Status, said["status"])
        files = await _in_thread(self.trees.write_patch, task, self.tree)
        verdict: Verdict = ""
        verify_said = ""
        if task.verify and status == "success":
            passed, verify_said = await child.verify(task, self.tree.cwd)
            verdict = "passed" if passed else "failed"
        keeps = status != "success" or verdict == "failed" or self.queue.fleet.keep_trees
        end = self._end_record(status, said.get("error"), seen)
        return replace(
            end,
            verify=verdict,
            verify_said=verify_said,
            patch=f"tasks/{task.id}/{PATCH}" if files else "",
            files=files,
            tree=end.tree if keeps else "",
        )

    def _end_record(self, status: Status, error: str | None, seen: Seen) -> Finished:
        """The record of an end that keeps the tree and has no patch."""
        tree = self.tree if self.one.task.isolate != "none" else None
        return Finished(
            task=self.one.task.id,
            lease=self.lease.lease,
            at=time.time(),
            status=status,
            error=error,
            answer=seen.answer[:ANSWER_CHARS],
            steps=seen.steps,
            tokens=seen.tokens,
            cost_usd=seen.cost_usd,
            seconds=round(time.monotonic() - self.began, 3),
            child_seconds=round(self.child_seconds, 3),
            tree=str(tree.root) if tree is not None else "",
        )

    def _give_back(self) -> Finished | Released:
        """The record for a task whose process was ended before it was done."""
        if not self.queue.state.cancelled:
            return Released(task=self.one.task.id, lease=self.lease.lease, reason="interrupted")
        seen: Seen | None = None
        with contextlib.suppress(KodeError):
            seen = child.look(paths.home(), self.one.session)
        return self._end_record("cancelled", "The fleet was cancelled.", seen or child.NOTHING)


async def _in_thread(function: Callable[..., Result], *arguments: Any) -> Result:
    """Runs a function in a thread, to its end even when cancelled: nobody may take the task while
    its tree is being made."""
    work = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise
