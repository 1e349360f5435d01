"""A worker: leases a task, creates its worktree, runs its process, checks and records the result.
It is the same in the driver's process, in a cluster's job and on another machine.

A task that was started before continues in its session. The effect of calls that were then running
is unknown: this is recorded and the model reads it, but kode itself never repeats a call.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

from kode.plugin import (
    KodeError,
    StorageError,
    UserError,
    beneath,
    durable,
    paths,
    processes,
    timestamp,
)
from kode.plugins.fleet import child
from kode.plugins.fleet.child import Progress
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

POLL_S = 0.5
"""Between two reads of what other workers have recorded."""
ANSWER_CHARS = 1000
"""How much of a long answer the queue keeps; the session has all of it."""
MAX_KILLS = 2
"""How often a task continues after a signal from outside killed its process. A task that needs more
memory than there is then ends as an error, instead of bringing the machine down again and again."""

Result = TypeVar("Result")
Show = Callable[[TaskState, Record], None]
"""Called with each start, release and end of a task that this process runs."""


async def work(queue: Queue, show: Show, *, jobs: int, only: str | None = None) -> None:
    """Runs tasks of a queue, up to `jobs` at once, until all have ended or no more should start;
    with `only`, just that task. Waits for tasks that other workers hold, and takes them over once
    those are gone. If cancelled, ends its processes and releases their tasks.

    Raises: StorageError.
    """
    worker = open_worker(queue)
    own = Path(queue.fleet.trees)  # its parent may be a link that the person chose
    trees = Trees(folder=Path(paths.real_path(own.parent)) / own.name, queue=queue.folder)
    running: dict[asyncio.Task[None], _TaskRun] = {}
    renewed_at = time.monotonic()
    try:
        await _in_thread(_remove_leftover_trees, queue, trees)
        while True:
            while len(running) < jobs and (lease := queue.lease(worker, only)):
                run = _TaskRun(queue, worker, trees, lease, show)
                running[asyncio.create_task(run.run())] = run
            if not running and _is_over(queue, only):
                return
            if running:
                await asyncio.wait(running, timeout=POLL_S, return_when=asyncio.FIRST_COMPLETED)
            else:
                await asyncio.sleep(POLL_S)
            if time.monotonic() - renewed_at > LEASE_S / 4:
                queue.record(worker.alive())
                renewed_at = time.monotonic()
            queue.refresh()
            for task, run in list(running.items()):
                if task.done():
                    del running[task]
                    if not task.cancelled():
                        task.result()
                elif run.should_stop():
                    task.cancel()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        worker.close()
        beneath.remove_empty([trees.folder])  # unless a tree was kept or another worker uses it


def _remove_leftover_trees(queue: Queue, trees: Trees) -> None:
    """Removes the worktrees of finished tasks whose worker was killed before it could."""
    for state in queue.state.tasks.values():
        if state.finished is not None and not state.finished.tree:
            trees.remove(state.task)


def _is_over(queue: Queue, only: str | None) -> bool:
    if only is not None:
        return queue.state.tasks[only].finished is not None or bool(queue.stopped())
    return queue.is_over()


class _TaskRun:
    """One task under one lease."""

    def __init__(
        self, queue: Queue, worker: Worker, trees: Trees, lease: Leased, show: Show
    ) -> None:
        self.queue = queue
        self.trees = trees
        self.lease = lease
        self.show = show
        self.state = queue.state.tasks[lease.task]
        self.began = time.monotonic()
        self.child_seconds = 0.0
        self.tree: Tree | None = None
        self.is_recorded = False

    def should_stop(self) -> bool:
        """Whether to end the process: the fleet was cancelled, or another worker has the task.
        False once the result is recorded."""
        queue = self.queue.state
        return not self.is_recorded and (queue.cancelled or not queue.holds(self.lease))

    async def run(self) -> None:
        """Runs the task and records its result. Raises: StorageError."""
        try:
            with durable.storage_errors(self.queue.folder, "work on"):
                record = await self._finish()
        except asyncio.CancelledError:
            record = self._interrupted()
        except StorageError:
            raise  # not the task's fault: it continues once there is room on the disk
        except KodeError as error:
            record = self._end_record("error", str(error), child.NO_PROGRESS)
        self.is_recorded = True
        if self.queue.record(record, under=self.lease):
            self.show(self.state, record)
            if isinstance(record, Finished) and not record.tree:
                await _in_thread(self.trees.remove, self.state.task)

    async def _finish(self) -> Finished | Released:
        task, session = self.state.task, self.state.session
        if self.state.has_open_start and self.state.started is not None and self._ran_here():
            await child.end_orphans(self.state.started.mark)
        progress = await _in_thread(child.read_progress, paths.home(), session)
        self.tree = await self._find_or_make_tree(progress)
        if progress is not None:
            self.queue.settle(self.state, progress.cost_usd)
        if progress is not None and self._has_succeeded(progress):
            return await self._result({"status": "success"}, progress)
        left_usd = None
        if task.budget_usd is not None:
            spent = (progress.cost_usd if progress is not None else None) or 0.0
            left_usd = task.budget_usd - spent
            if left_usd <= 0:
                error = f"The budget of ${task.budget_usd:g} for this task is used up."
                return self._end_record("error", error, progress or child.NO_PROGRESS)
        result = await self._run(self._start(self.tree, progress), progress, left_usd)
        progress = await _in_thread(child.read_progress, paths.home(), session)
        return await self._outcome(result, progress)

    def _start(self, tree: Tree, progress: Progress | None) -> str:
        """Records the start and returns its mark. Raises: CancelledError if another worker has the
        task."""
        started = Started(
            task=self.state.task.id,
            lease=self.lease.lease,
            at=time.time(),
            tree=str(tree.root),
            base=tree.base,
            mark=processes.new_mark(),
            unknown=progress.unknown if progress is not None else (),
        )
        if not self.queue.record(started, under=self.lease):
            raise asyncio.CancelledError
        self.show(self.state, started)
        return started.mark

    async def _outcome(
        self, result: dict[str, Any], progress: Progress | None
    ) -> Finished | Released:
        """The record for a process that has ended with this result."""
        progress = progress or child.NO_PROGRESS
        self.queue.settle(self.state, progress.cost_usd)
        budget = self.queue.budget()
        if result["status"] == "error" and budget is not None and budget.stopped():
            reason = f"the budget of all tasks is used up: {result.get('error') or ''}"
            return Released(task=self.state.task.id, lease=self.lease.lease, reason=reason)
        if result["status"] == "interrupted":
            return self._interrupted()
        if result["status"] == "killed":
            if self.state.kills < MAX_KILLS:
                task, lease = self.state.task.id, self.lease.lease
                return Released(task=task, lease=lease, reason=result["error"], killed=True)
            result = {**result, "status": "error"}
        return await self._result(result, progress)

    async def _run(
        self, mark: str, progress: Progress | None, left_usd: float | None
    ) -> dict[str, Any]:
        assert self.tree is not None
        task, queue = self.state.task, self.queue
        text = task.task
        if progress is not None and progress.has_started:
            text = child.next_message(task, progress)
        command = child.command_line(
            queue.fleet,
            task,
            cwd=self.tree.cwd,
            session_id=self.state.session,
            resumed=progress is not None,
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
                out=queue.task_folder(task.id) / f"{self.state.starts}.json",
                timeout_s=task.timeout_s,
            )
        finally:
            self.child_seconds = time.monotonic() - began

    async def _find_or_make_tree(self, progress: Progress | None) -> Tree:
        """The task's existing worktree, else a new one. Raises: UserError if its earlier work is on
        another machine."""
        before, task = self.state.started, self.state.task
        if before is not None and progress is None and not self._ran_here():
            raise UserError(
                f"It was started on another machine, and {host()} does not have its session "
                f"{self.state.session}: what it did is unknown. Workers on several machines need "
                "one KODE_HOME in a shared folder."
            )
        tree = before and self.trees.find(task, Path(before.tree), before.base)
        if tree:
            return tree
        if before is not None and progress is not None and progress.has_started:
            raise UserError(
                f"Its session {self.state.session} started in the worktree {before.tree}, which is "
                f"not on {host()}. Continue on a machine that has both."
            )
        return await _in_thread(self.trees.make, task)

    def _has_succeeded(self, progress: Progress) -> bool:
        """Whether the latest start succeeded, but its worker was killed before recording it. A
        failed start continues instead: whether the task itself failed is unknown."""
        start, end = self.state.started, progress.turn_end
        if not self.state.has_open_start or start is None or end is None or end.status != "success":
            return False
        return end.at >= timestamp(start.at)

    def _ran_here(self) -> bool:
        before = self.state.started_by
        return before is None or before.host == host()

    async def _result(self, result: dict[str, Any], progress: Progress) -> Finished:
        """The record of a process that ended by itself, with its patch and its check's result."""
        assert self.tree is not None
        task, status = self.state.task, cast(Status, result["status"])
        files = await _in_thread(self.trees.write_patch, task, self.tree)
        verdict: Verdict = ""
        verify_output = ""
        if task.verify and status in ("success", "incomplete"):
            passed, verify_output = await child.verify(task, self.tree.cwd)
            verdict = "passed" if passed else "failed"
        keeps = status != "success" or verdict == "failed" or self.queue.fleet.keep_trees
        end = self._end_record(status, result.get("error"), progress)
        return replace(
            end,
            verify=verdict,
            verify_said=verify_output,
            patch=f"tasks/{task.id}/{PATCH}" if files else "",
            files=files,
            tree=end.tree if keeps else "",
        )

    def _end_record(self, status: Status, error: str | None, progress: Progress) -> Finished:
        """The record of an end without a patch; it keeps the worktree."""
        tree = self.tree if self.state.task.isolate != "none" else None
        return Finished(
            task=self.state.task.id,
            lease=self.lease.lease,
            at=time.time(),
            status=status,
            error=error,
            answer=progress.answer[:ANSWER_CHARS],
            steps=progress.steps,
            tokens=progress.tokens,
            cost_usd=progress.cost_usd,
            seconds=round(time.monotonic() - self.began, 3),
            child_seconds=round(self.child_seconds, 3),
            tree=str(tree.root) if tree is not None else "",
        )

    def _interrupted(self) -> Finished | Released:
        """The record of a task that was stopped before it finished."""
        if not self.queue.state.cancelled:
            return Released(task=self.state.task.id, lease=self.lease.lease, reason="interrupted")
        progress: Progress | None = None
        with contextlib.suppress(KodeError):
            progress = child.read_progress(paths.home(), self.state.session)
        progress = progress or child.NO_PROGRESS
        return self._end_record("cancelled", "The fleet was cancelled.", progress)


async def _in_thread(function: Callable[..., Result], *arguments: Any) -> Result:
    """Runs a function in a thread, and waits for its end even if cancelled: no other worker may get
    the task while its worktree is being made."""
    future = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait([future])
        raise
