"""A worker: leases a task, creates its worktree, runs its process, checks and records the result.
It is the same in the driver's process, in a cluster's job and on another machine.

A task that was started before continues in its session. The effect of calls that were then running
is unknown: this is recorded and the model reads it, but kode itself never repeats a call.
"""

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, cast

from kode.plugin import (
    KodeError,
    ProcessTree,
    StorageError,
    UserError,
    kode_home,
    real_path,
    remove_tree,
    run_check,
    storage_errors,
)
from kode.plugins.fleet import child
from kode.plugins.fleet.child import Progress
from kode.plugins.fleet.queue import SPENT, Queue
from kode.plugins.fleet.records import (
    Finished,
    Leased,
    Record,
    Released,
    Started,
    Status,
    TaskState,
)
from kode.plugins.fleet.trees import Tree, Trees

POLL_S = 0.5
"""Between two reads of what other workers have recorded."""
MAX_KILLS = 2
"""How often a task continues after a signal from outside killed its process. A task that needs more
memory than there is then ends as an error, instead of bringing the machine down again and again."""

Result = TypeVar("Result")
Show = Callable[[TaskState, Record], None]
"""Called with each start, release and end of a task that this process runs."""


async def work(queue: Queue, show: Show, *, jobs: int) -> None:
    """Runs tasks of a queue, up to `jobs` at once, until all have ended or no more should start.
    Waits for tasks that other workers hold, and takes them over once those are gone. If cancelled,
    ends its processes and releases their tasks.

    Raises: StorageError.
    """
    folder = Path(queue.fleet.trees)  # its parent may be a link that the person chose
    trees = Trees(folder=Path(real_path(folder.parent)) / folder.name, queue=queue.folder)
    running: dict[asyncio.Task[None], _TaskRun] = {}
    try:
        await _in_thread(_remove_leftover_trees, queue, trees)
        while True:
            while len(running) < jobs and (lease := queue.lease()):
                run = _TaskRun(queue, trees, lease, show)
                running[asyncio.create_task(run.run())] = run
            if not running and queue.is_over():
                return
            if running:
                await asyncio.wait(running, timeout=POLL_S, return_when=asyncio.FIRST_COMPLETED)
            else:
                await asyncio.sleep(POLL_S)
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
        queue.close()
        remove_tree(trees.folder, only_empty=True)  # unless a tree was kept, or is in use


def _remove_leftover_trees(queue: Queue, trees: Trees) -> None:
    """Removes the worktrees of finished tasks whose worker was killed before it could."""
    for state in queue.state.tasks.values():
        if state.finished is not None and not state.finished.tree:
            trees.remove(state.task)


@dataclass
class _TaskRun:
    """One task under one lease."""

    queue: Queue
    trees: Trees
    lease: Leased
    show: Show
    tree: Tree | None = None
    child_seconds: float = 0.0
    is_recorded: bool = False

    def __post_init__(self) -> None:
        self.state = self.queue.state.tasks[self.lease.task]
        self.began = time.monotonic()

    def should_stop(self) -> bool:
        """Whether to end the process: the fleet was cancelled, or another worker has the task.
        False once the result is recorded."""
        queue = self.queue
        return not self.is_recorded and (queue.state.cancelled or not queue.holds(self.lease))

    async def run(self) -> None:
        """Runs the task and records its result. Raises: StorageError."""
        try:
            with storage_errors(self.queue.folder, "work on"):
                record = await self._finish()
        except asyncio.CancelledError:
            record = self._release("interrupted")
        except StorageError:
            raise  # not the task's fault: it continues once there is room on the disk
        except KodeError as error:
            record = self._end_record("error", str(error), Progress())
        self.is_recorded = True
        if self.queue.record(record, under=self.lease):
            self.show(self.state, record)
            if isinstance(record, Finished) and not record.tree:
                await _in_thread(self.trees.remove, self.state.task)

    async def _finish(self) -> Finished | Released:
        task, started = self.state.task, self.state.started
        is_open = self.state.has_open_start and started is not None
        if started is not None and is_open and started.host == self.lease.host:
            await ProcessTree(started.mark).end()  # a killed worker left it running
        progress = await self._read_progress()
        tree = self.tree = await self._find_or_make_tree(progress)
        since = started.at if started is not None and is_open else math.inf
        # A failed start continues instead: whether the task itself failed is unknown.
        if progress.status == "success" and since <= progress.ended_at:
            return await self._result({"status": "success"}, progress, tree)
        left_usd = None
        if task.budget_usd is not None:
            left_usd = task.budget_usd - (progress.figures.cost_usd or 0.0)
            if left_usd <= 0:
                error = f"The budget of ${task.budget_usd:g} for this task is used up."
                return self._end_record("error", error, progress)
        budget = self.queue.folder / SPENT if self.queue.budget() is not None else None
        fleet, text = self.queue.fleet, child.next_message(task, progress)
        command = child.command_line(fleet, self.state, tree.cwd, progress, left_usd, budget)
        processes, began = self._start(tree, progress), time.monotonic()
        try:
            result = await child.run_child(
                command, text=text, tree=processes, cwd=tree.cwd, timeout_s=task.timeout_s
            )
        finally:
            self.child_seconds = time.monotonic() - began
        return await self._outcome(result, await self._read_progress(), tree)

    async def _read_progress(self) -> Progress:
        """The task's progress by its session, whose cost is then in the budget."""
        session = self.state.session
        progress = await _in_thread(child.read_progress, kode_home(), session)
        self.queue.settle(self.state, progress.figures.cost_usd)
        return progress

    def _start(self, tree: Tree, progress: Progress) -> ProcessTree:
        """Records the start of processes and returns them. Raises: CancelledError if another worker
        has the task."""
        processes = ProcessTree()
        started = Started(
            task=self.state.task.id,
            lease=self.lease.lease,
            host=self.lease.host,
            at=time.time(),
            tree=str(tree.root),
            base=tree.base,
            mark=processes.mark,
            unknown=progress.unknown,
        )
        if not self.queue.record(started, under=self.lease):
            raise asyncio.CancelledError
        self.show(self.state, started)
        return processes

    async def _outcome(
        self, result: dict[str, Any], progress: Progress, tree: Tree
    ) -> Finished | Released:
        """The record for a process that has ended with this result."""
        budget, error = self.queue.budget(), result.get("error") or ""
        if result["status"] == "error" and budget is not None and budget.explain_stop():
            return self._release(f"the budget of all tasks is used up: {error}")
        if result["status"] == "interrupted":
            return self._release("interrupted")
        if result["status"] == "killed":
            if self.state.kills < MAX_KILLS:
                return self._release(error, killed=True)
            result = {**result, "status": "error"}
        return await self._result(result, progress, tree)

    async def _find_or_make_tree(self, progress: Progress) -> Tree:
        """The task's existing worktree, else a new one. Raises: UserError if its earlier work is on
        another machine."""
        before, task, host = self.state.started, self.state.task, self.lease.host
        if before is not None and (tree := self.trees.find(task, before)):
            return tree
        if before is not None and progress.has_started:
            raise UserError(
                f"Its session {self.state.session} started in the worktree {before.tree}, which is "
                f"not on {host}. Continue on a machine that has both."
            )
        return await _in_thread(self.trees.make, task)

    async def _result(self, result: dict[str, Any], progress: Progress, tree: Tree) -> Finished:
        """The record of a process that ended by itself, with its patch and its check's result."""
        task, status = self.state.task, cast(Status, result["status"])
        files = await _in_thread(self.trees.write_patch, task, tree)
        end = replace(self._end_record(status, result.get("error"), progress), files=files)
        if task.verify and status in ("success", "incomplete"):
            timeout_s = child.VERIFY_TIMEOUT_S
            ran = await run_check(task.verify, cwd=tree.cwd, mode=task.mode, timeout_s=timeout_s)
            output = ran.fault or (ran.stderr or ran.stdout).strip()[-child.TAIL_CHARS :]
            end = replace(end, verify="failed", verify_output=output)
            end = replace(end, verify="passed", verify_output="") if ran.exit_code == 0 else end
        return replace(end, tree="") if end.is_good else end

    def _end_record(self, status: Status, error: str | None, progress: Progress) -> Finished:
        """The record of an end without a patch; it keeps the worktree."""
        tree = self.tree if self.state.task.isolate != "none" else None
        return Finished(
            task=self.state.task.id,
            lease=self.lease.lease,
            status=status,
            error=error,
            figures=progress.figures,
            seconds=round(time.monotonic() - self.began, 3),
            child_seconds=round(self.child_seconds, 3),
            tree=str(tree.root) if tree is not None else "",
        )

    def _release(self, reason: str, *, killed: bool = False) -> Released:
        task = self.state.task.id
        return Released(task=task, lease=self.lease.lease, reason=reason, killed=killed)


async def _in_thread(function: Callable[..., Result], *arguments: Any) -> Result:
    """Runs a function in a thread, and waits for its end even if cancelled: no other worker may get
    the task while its worktree is being made."""
    future = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait([future])
        raise
