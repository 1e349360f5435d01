"""A worker: leases a task, makes its worktree, runs its `kode run` process, checks and records the
result. It is the same in the driver's process, in a cluster's job and on another machine.

A task that was started before continues in its session, whose file tells how far it got. Calls that
were running when it stopped may have taken effect: they are recorded, and the model is told to
check, but kode itself never repeats a call.
"""

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, cast

from kode.plugin import (
    KodeError,
    ProcessTree,
    Spending,
    StorageError,
    Transcript,
    UserError,
    kode_home,
    object_of,
    real_path,
    remove_tree,
    run_check,
    session_file,
    storage_errors,
)
from kode.plugins.fleet.queue import (
    SPENT,
    Figures,
    Finished,
    Fleet,
    Leased,
    Queue,
    Released,
    Show,
    Started,
    Status,
    TaskState,
)
from kode.plugins.fleet.trees import Tree, Trees

COMMAND = (sys.executable, "-P", "-m", "kode")
"""`-P`: a project with a folder `kode` or a file `json.py` must not become part of the child."""
END_GRACE_S = 20.0
"""From SIGTERM to SIGKILL, in which a child saves its unfinished turn and ends its tools."""
LATE_S = 120.0
"""How long a child may exceed its own time limit before the worker ends it."""
VERIFY_TIMEOUT_S = 600.0
"""For a task's check: long enough for a test suite."""
ANSWER_CHARS = 1000
"""How much of a long answer the queue keeps; the session has all of it."""
TAIL_CHARS = 500
"""How much of the end of an output a result quotes."""
CONTINUE = (
    "kode was interrupted while it worked on this task, and has been restarted. Look at what has "
    "been done, then finish the task. A call whose result is unknown may have taken effect: check "
    "before you repeat it, and say so in your answer."
)
"""The model takes it for the person's words, so it must never quote output or a server."""


@dataclass(frozen=True, kw_only=True)
class TaskProgress:
    """How far a task got, according to its session."""

    has_session: bool = False
    """Whether the session has a file."""
    has_started: bool = False
    """Whether the session contains the task's message."""
    status: str = ""
    """How the last turn ended; "" if it was interrupted."""
    unknown: tuple[str, ...] = ()
    """Calls without a result, as "name arguments"."""
    figures: Figures = field(default_factory=Figures)


def read_progress(home: Path, session_id: str) -> TaskProgress:
    """The progress recorded in a session. Raises: SessionError, StorageError."""
    path = session_file(home, session_id)
    if not path.is_file():
        return TaskProgress()
    transcript = Transcript.read(path)
    replies = [item for item in transcript.items if getattr(item.entry, "role", "") == "assistant"]
    spent = Spending.of(transcript.entries).total
    turn = transcript.turns[-1] if transcript.turns and transcript.turns[-1].number else None
    last = next((item for item in reversed(replies) if turn and item in turn.items), None)
    calls = [call.call for call in last.calls if call.result is None] if last else []
    texts = [part for part in last.parts if part.type == "text"] if last else []
    answer = "\n".join(part.text for part in texts if not part.source)
    return TaskProgress(
        has_session=True,
        has_started=turn is not None,
        status=turn.end.status if turn and turn.end else "",
        unknown=tuple(f"{call.name} {call.arguments}"[:200] for call in calls),
        figures=Figures(
            answer=answer.strip()[:ANSWER_CHARS],
            steps=len(replies),
            tokens=spent.usage.input_tokens + spent.usage.output_tokens,
            cost_usd=spent.cost_usd if spent.requests and not spent.unpriced else None,
        ),
    )


def make_command_line(
    fleet: Fleet,
    state: TaskState,
    cwd: Path,
    progress: TaskProgress,
    left_usd: float | None,
    shared_budget: Path | None,
) -> list[str]:
    """The command line of a task's process. The message is not part of it, because other users can
    list command lines: it is read from standard input. `left_usd` is what remains of the task's
    own budget. A task's settings override the fleet's flags, which override kode's defaults for an
    isolated worktree."""
    task = state.task
    words = ("continue", "--id") if progress.has_session else ("run", "--session-id")
    line = [*COMMAND, *words, state.session]
    line += ["--output-format", "json", "--quiet", "--cwd", str(cwd)]
    if task.isolate != "none":
        line += ["--permission-mode", "auto-edit"]
    line += fleet.flags
    settings = {
        "--model": task.model,
        "--permission-mode": task.mode,
        "--timeout": task.timeout_s and f"{task.timeout_s:g}",
        "--max-budget-usd": left_usd and f"{left_usd:.6f}",
        "--shared-budget": shared_budget and str(shared_budget),
    }
    line += [word for flag, value in settings.items() if value for word in (flag, value)]
    return [*line, "--", "-"]


async def run_child(
    command: Sequence[str], *, text: str, tree: ProcessTree, cwd: Path, timeout_s: float | None
) -> dict[str, Any]:
    """Runs a task's process with `text` on standard input, and returns the JSON object it printed.
    If it printed none, returns one with a `status` and an `error`; the status is "killed" if a
    signal from outside ended it. If cancelled, asks the process to end, waits for it, and kills
    everything it left running. Raises: OSError where there is no room for its output."""
    with contextlib.ExitStack() as files:
        # Files, because a process that a killed kode leaves running may hold a pipe open.
        stdin, output, errors = (files.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        stdin.write(text.encode("utf-8", "replace"))
        stdin.seek(0)
        files.callback(tree.forget)
        streams = {"stdin": stdin, "stdout": output, "stderr": errors}
        try:
            process = await tree.start_with_pipes(
                *command, environment=os.environ, cwd=cwd, **streams
            )
        except OSError as error:
            return {"status": "error", "error": f"kode could not be started: {error.strerror}."}
        try:
            async with asyncio.timeout(None if timeout_s is None else timeout_s + LATE_S):
                code = await process.wait()
        except TimeoutError:
            return {"status": "timeout", "error": f"It did not end within {timeout_s:g} s."}
        finally:
            await asyncio.shield(_end_process(process, tree))
        for file in (output, errors):
            file.seek(0)
        return _parse_result(output.read(), errors.read().decode("utf-8", "replace"), code)


async def _end_process(process: asyncio.subprocess.Process, tree: ProcessTree) -> None:
    """Ends a process that is still running, first by SIGTERM. Then, or if a signal has killed it,
    kills all that it left running; does nothing if it exited by itself."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_GRACE_S):
                await process.wait()
    elif process.returncode >= 0:
        return
    await tree.end()
    await process.wait()


def _parse_result(output: bytes, errors: str, code: int) -> dict[str, Any]:
    result = object_of(output)
    if result is not None and "status" in result:
        return result
    why = f"It was killed (signal {-code})" if code < 0 else f"It ended with exit status {code}"
    status = "killed" if code < 0 else "error"
    tail = errors.strip()[-TAIL_CHARS:]
    return {"status": status, "error": f"{why} and printed no result. {tail}".strip()}


POLL_S = 0.5
"""Interval at which the records of other workers are read."""
MAX_KILLS = 2
"""How often a task may continue after a signal from outside killed its process; then it ends as an
error, so that one that needs too much memory does not bring the machine down again and again."""

Result = TypeVar("Result")


async def run_tasks(queue: Queue, show: Show, *, jobs: int) -> None:
    """Runs tasks of a queue, up to `jobs` at once, until all have ended or no more should start.
    Waits for tasks that other workers have, and takes over those of workers that are gone. If
    cancelled, ends its processes and releases their tasks.

    Raises: StorageError.
    """
    folder = Path(queue.fleet.trees)  # its parent may be a link that the person chose
    trees = Trees(folder=Path(real_path(folder.parent)) / folder.name, queue=queue.folder)
    running: dict[asyncio.Task[None], _TaskRun] = {}
    try:
        for state in queue.state.tasks.values():
            if state.finished is not None and not state.finished.tree:
                await _run_in_thread(trees.remove, state.task)  # its worker was killed before
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
        """Whether to end the task's process because the fleet was cancelled or another worker has
        the task. False once the result is being recorded."""
        queue = self.queue
        return not self.is_recorded and (queue.state.cancelled or not queue.is_current(self.lease))

    async def run(self) -> None:
        """Runs the task and records its result. Raises: StorageError."""
        try:
            with storage_errors(self.queue.folder, "work on"):
                record = await self._run_attempt()
        except asyncio.CancelledError:
            record = self._release("interrupted")
        except StorageError:
            raise  # not the task's fault: it continues once there is room on the disk
        except KodeError as error:
            record = self._end_record("error", str(error), TaskProgress())
        self.is_recorded = True
        if self.queue.record(record, under=self.lease):
            self.show(self.state, record)
            if isinstance(record, Finished) and not record.tree:
                await _run_in_thread(self.trees.remove, self.state.task)

    async def _run_attempt(self) -> Finished | Released:
        task, started = self.state.task, self.state.started
        if started is not None and started.host == self.lease.host:
            await ProcessTree(started.mark).end()  # a killed worker left it running
        progress = await self._read_progress()
        tree = self.tree = await self._find_or_make_tree(progress)
        if progress.status == "success":  # its worker was killed before it could record that
            return await self._record_end({"status": "success"}, progress, tree)
        left_usd = None
        if task.budget_usd is not None:
            left_usd = task.budget_usd - (progress.figures.cost_usd or 0.0)
            if left_usd <= 0:
                error = f"The budget of ${task.budget_usd:g} for this task is used up."
                return self._end_record("error", error, progress)
        budget = self.queue.folder / SPENT if self.queue.budget() is not None else None
        fleet, text = self.queue.fleet, CONTINUE if progress.has_started else task.task
        command = make_command_line(fleet, self.state, tree.cwd, progress, left_usd, budget)
        processes, began = self._start(tree, progress), time.monotonic()
        try:
            result = await run_child(
                command, text=text, tree=processes, cwd=tree.cwd, timeout_s=task.timeout_s
            )
        finally:
            self.child_seconds = time.monotonic() - began
        return await self._make_record(result, await self._read_progress(), tree)

    async def _read_progress(self) -> TaskProgress:
        """Reads the task's progress from its session, and books its missing cost in the budget."""
        session = self.state.session
        progress = await _run_in_thread(read_progress, kode_home(), session)
        self.queue.book_missing_cost(self.state, progress.figures.cost_usd)
        return progress

    def _start(self, tree: Tree, progress: TaskProgress) -> ProcessTree:
        """Records that the task starts, and returns the tree of its processes, still empty. Raises:
        CancelledError if another worker has the task."""
        processes = ProcessTree()
        started = Started(
            task=self.state.task.id,
            lease=self.lease.lease,
            host=self.lease.host,
            tree=str(tree.root),
            base=tree.base,
            mark=processes.mark,
            unknown=progress.unknown,
        )
        if not self.queue.record(started, under=self.lease):
            raise asyncio.CancelledError
        self.show(self.state, started)
        return processes

    async def _make_record(
        self, result: dict[str, Any], progress: TaskProgress, tree: Tree
    ) -> Finished | Released:
        """The record for a process that ended with this result: an end, or a release to retry."""
        budget, error = self.queue.budget(), result.get("error") or ""
        if result["status"] == "error" and budget is not None and budget.explain_stop():
            return self._release(f"the budget of all tasks is used up: {error}")
        if result["status"] == "interrupted":
            return self._release("interrupted")
        if result["status"] == "killed":
            if self.state.kills < MAX_KILLS:
                return self._release(error, killed=True)
            result = {**result, "status": "error"}
        return await self._record_end(result, progress, tree)

    async def _find_or_make_tree(self, progress: TaskProgress) -> Tree:
        """The tree of the task's latest start if it exists, or a new one. Raises: UserError if the
        task has begun in a tree that is not on this machine."""
        before, task, host = self.state.started, self.state.task, self.lease.host
        if before is not None and (tree := self.trees.find(task, before)):
            return tree
        if before is not None and progress.has_started:
            raise UserError(
                f"Its session {self.state.session} started in the worktree {before.tree}, which is "
                f"not on {host}. Continue on a machine that has both."
            )
        return await _run_in_thread(self.trees.make, task)

    async def _record_end(
        self, result: dict[str, Any], progress: TaskProgress, tree: Tree
    ) -> Finished:
        """Writes the patch, runs the check unless the task failed, and returns the record."""
        task, status = self.state.task, cast(Status, result["status"])
        files = await _run_in_thread(self.trees.write_patch, task, tree)
        end = replace(self._end_record(status, result.get("error"), progress), files=files)
        if task.verify and status in ("success", "incomplete"):
            timeout_s = VERIFY_TIMEOUT_S
            ran = await run_check(task.verify, cwd=tree.cwd, mode=task.mode, timeout_s=timeout_s)
            output = ran.fault or (ran.stderr or ran.stdout).strip()[-TAIL_CHARS:]
            end = replace(end, verify="failed", verify_output=output)
            end = replace(end, verify="passed", verify_output="") if ran.exit_code == 0 else end
        return replace(end, tree="") if end.is_good else end

    def _end_record(self, status: Status, error: str | None, progress: TaskProgress) -> Finished:
        """The record of an end without patch or check; it names the worktree, which is kept."""
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


async def _run_in_thread(function: Callable[..., Result], *arguments: Any) -> Result:
    """Runs a function in a thread, and waits for its end even if cancelled: no other worker may get
    the task while its worktree is being made."""
    future = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait([future])
        raise
