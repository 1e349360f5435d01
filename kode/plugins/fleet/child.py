"""Runs the `kode run` process of one task, and reads the task's progress from its session on disk,
which survives when the process is killed.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kode.plugin import (
    MessageEntry,
    TurnEntry,
    beneath,
    calls_of,
    durable,
    last_turn,
    object_of,
    paths,
    processes,
    programs,
    read_session,
    results_of,
    run_check,
    spending_of,
    text_of,
    total_spent,
)
from kode.plugins.fleet.records import Fleet, Task

COMMAND = (sys.executable, "-P", "-m", "kode")
"""`-P`: a project with a folder `kode` or a file `json.py` must not become part of the child."""
END_GRACE_S = 20.0
"""Between SIGTERM and SIGKILL: a child saves its unfinished turn and shuts its tools down."""
LATE_S = 120.0
"""How far a child may exceed its own time limit before it is ended from here."""
VERIFY_TIMEOUT_S = 600.0
"""For a task's check: long enough for a test suite."""
TAIL_CHARS = 500
"""How much of the end of an output a result quotes."""
CONTINUE = (
    "kode was interrupted while it worked on this task, and has been restarted. Look at what has "
    "been done, then finish the task. A call whose result is unknown may have taken effect: check "
    "before you repeat it, and say so in your answer."
)
RETRY = "The task above failed. Look at what has been done, then finish the task."
CHECK_FAILED = "`{command}` fails on your changes. Run it to see why, then finish the task."
"""These messages count as the person's own, so they never quote output or a server."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a task got, according to its session."""

    has_started: bool
    """Whether the session contains the task's message."""
    turn_end: TurnEntry | None
    """The end of the last turn; None if it was interrupted."""
    answer: str
    """The text of the last reply."""
    unknown: tuple[str, ...]
    """Calls without a result, as "name arguments"."""
    steps: int
    tokens: int
    """Input and output."""
    cost_usd: float | None
    """None if a price is unknown or no request was made."""


NO_PROGRESS = Progress(
    has_started=False, turn_end=None, answer="", unknown=(), steps=0, tokens=0, cost_usd=None
)


def read_progress(home: Path, session_id: str) -> Progress | None:
    """The progress recorded in a session; None if it has no file. Raises: SessionError,
    StorageError."""
    path = paths.session_file(home, session_id)
    if not path.is_file():
        return None
    _, entries, _ = read_session(path)
    turn = last_turn(entries)
    spent = total_spent(spending_of(entries))
    messages = [e for e in turn if isinstance(e, MessageEntry)]
    replies = [e for e in messages if e.role == "assistant"]
    since = messages[messages.index(replies[-1]) :] if replies else []
    answered = {result.call_id for message in since for result in results_of(message)}
    unanswered = [
        call for message in since for call in calls_of(message) if call.id not in answered
    ]
    return Progress(
        has_started=bool(turn),
        turn_end=next((e for e in reversed(turn) if isinstance(e, TurnEntry)), None),
        answer=text_of(replies[-1]).strip() if replies else "",
        unknown=tuple(f"{call.name} {call.arguments}"[:200] for call in unanswered),
        steps=sum(isinstance(e, MessageEntry) and e.role == "assistant" for e in entries),
        tokens=spent.usage.input_tokens + spent.usage.output_tokens,
        cost_usd=spent.cost_usd if spent.requests and not spent.unpriced else None,
    )


def next_message(task: Task, progress: Progress) -> str:
    """The message that makes a started session finish its task."""
    end = progress.turn_end
    if end is None or end.status == "interrupted":
        return CONTINUE
    if end.status == "success" and task.verify:
        return CHECK_FAILED.format(command=task.verify)
    return RETRY


def command_line(
    fleet: Fleet,
    task: Task,
    *,
    cwd: Path,
    session_id: str,
    resumed: bool,
    left_usd: float | None,
    shared_budget: Path | None,
) -> list[str]:
    """The command line of a task's process. The message is not part of it, because other users can
    list command lines: it is read from standard input. `left_usd` is the rest of the task's own
    budget. A task's settings override the fleet's flags, which override kode's defaults for an
    isolated worktree."""
    line = [*COMMAND, "continue" if resumed else "run"]
    line += ["--id" if resumed else "--session-id", session_id]
    line += ["--output-format", "json", "--quiet", "--cwd", str(cwd)]
    if task.isolate != "none":
        line += ["--permission-mode", "auto-edit"]
    line += fleet.flags
    settings = {
        "--model": task.model,
        "--permission-mode": task.mode,
        "--timeout": None if task.timeout_s is None else f"{task.timeout_s:g}",
        "--max-budget-usd": None if left_usd is None else f"{left_usd:.6f}",
        "--shared-budget": None if shared_budget is None else str(shared_budget),
    }
    for flag, value in settings.items():
        line += [flag, value] if value is not None else []
    return [*line, "--", "-"]


async def run_child(
    command: Sequence[str],
    *,
    text: str,
    mark: str,
    cwd: Path,
    out: Path,
    timeout_s: float | None,
) -> dict[str, Any]:
    """Runs a task's process with `text` on standard input, and returns the JSON object it printed
    to `out`. If it printed none, returns one with a `status` and an `error`; the status is "killed"
    if a signal from outside ended it. If cancelled, asks the process to end, waits for it, and
    kills everything it left running.

    Raises: StorageError if its files cannot be written.
    """
    processes.WATCH.begins(mark)
    process: asyncio.subprocess.Process | None = None
    try:
        message = out.with_suffix(".txt")
        durable.replace(message, text.encode("utf-8", "replace"), follow=False, sync_name=False)
        with contextlib.ExitStack() as opened:
            with durable.storage_errors(out, "create"):
                folder = opened.enter_context(beneath.open_folder(out.parent))
                stdin = opened.enter_context(message.open("rb"))
                stdout, stderr = (
                    opened.enter_context(beneath.new_file(folder, file.name))
                    for file in (out, out.with_suffix(".err"))
                )
            process = await programs.start_program(
                *command,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                cwd=cwd,
                env={**os.environ, **processes.marked(mark)},
                start_new_session=True,
            )
        processes.WATCH.runs(mark, process.pid)
        try:
            async with asyncio.timeout(None if timeout_s is None else timeout_s + LATE_S):
                code = await process.wait()
        except TimeoutError:
            code = await _end(process, mark)
            return {"status": "timeout", "error": f"It did not end within {timeout_s:g} s."}
        if code < 0:
            await processes.end(process.pid, mark)
        return _read_result(out, code)
    except asyncio.CancelledError:
        if process is not None:
            await asyncio.shield(_end(process, mark))
        raise
    except OSError as error:
        return {"status": "error", "error": f"kode could not be started: {error.strerror}."}
    finally:
        if process is None or process.returncode is not None:
            processes.WATCH.is_over(mark)


async def verify(task: Task, cwd: Path) -> tuple[bool, str]:
    """Runs the task's check. Returns whether it passed and, if not, the end of its output.

    Raises: ConfigError.
    """
    ran = await run_check(task.verify, cwd=cwd, mode=task.mode, timeout_s=VERIFY_TIMEOUT_S)
    if ran.exit_code == 0:
        return True, ""
    return False, ran.fault or (ran.stderr or ran.stdout).strip()[-TAIL_CHARS:]


async def end_orphans(mark: str) -> None:
    """Ends the processes that a killed worker left running on this machine."""
    if processes.find(processes.NO_GROUP, mark):
        await processes.end(processes.NO_GROUP, mark)


async def _end(process: asyncio.subprocess.Process, mark: str) -> int:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(END_GRACE_S):
            await process.wait()
    await processes.end(process.pid, mark)
    return await process.wait()


def _read_result(out: Path, code: int) -> dict[str, Any]:
    with contextlib.suppress(OSError):
        result = object_of(out.read_bytes())
        if result is not None and "status" in result:
            return result
    stderr = ""
    with contextlib.suppress(OSError):
        stderr = out.with_suffix(".err").read_text("utf-8", "replace").strip()[-TAIL_CHARS:]
    why = f"It was killed (signal {-code})" if code < 0 else f"It ended with exit status {code}"
    status = "killed" if code < 0 else "error"
    return {"status": status, "error": f"{why} and printed no result. {stderr}".strip()}
