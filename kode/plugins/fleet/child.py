"""Runs the `kode run` process of one task, and reads the task's progress from its session on disk,
which survives when the process is killed.
"""

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from kode.plugin import ProcessTree, Spending, Transcript, object_of, session_file
from kode.plugins.fleet.records import Figures, Fleet, Task, TaskState

COMMAND = (sys.executable, "-P", "-m", "kode")
"""`-P`: a project with a folder `kode` or a file `json.py` must not become part of the child."""
END_GRACE_S = 20.0
"""Between SIGTERM and SIGKILL: a child saves its unfinished turn and shuts its tools down."""
LATE_S = 120.0
"""How far a child may exceed its own time limit before it is ended from here."""
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
RETRY = "The task above failed. Look at what has been done, then finish the task."
CHECK_FAILED = "`{command}` fails on your changes. Run it to see why, then finish the task."
"""These messages count as the person's own, so they never quote output or a server."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a task got, according to its session."""

    has_session: bool = False
    """Whether the session has a file."""
    has_started: bool = False
    """Whether it contains the task's message."""
    status: str = ""
    """How the last turn ended; "" if it was interrupted."""
    ended_at: float = 0.0
    """In seconds since 1970."""
    unknown: tuple[str, ...] = ()
    """Calls without a result, as "name arguments"."""
    figures: Figures = field(default_factory=Figures)


def read_progress(home: Path, session_id: str) -> Progress:
    """The progress recorded in a session. Raises: SessionError, StorageError."""
    path = session_file(home, session_id)
    if not path.is_file():
        return Progress()
    transcript = Transcript.read(path)
    replies = [item for item in transcript.items if getattr(item.entry, "role", "") == "assistant"]
    spent = Spending.of(transcript.entries).total
    turn = transcript.turns[-1] if transcript.turns and transcript.turns[-1].number else None
    last = next((item for item in reversed(replies) if turn and item in turn.items), None)
    calls = [call.call for call in last.calls if call.result is None] if last else []
    texts = [part for part in last.parts if part.type == "text"] if last else []
    answer = "\n".join(part.text for part in texts if not part.source)
    return Progress(
        has_session=True,
        has_started=turn is not None,
        status=turn.end.status if turn and turn.end else "",
        ended_at=datetime.fromisoformat(turn.end.at).timestamp() if turn and turn.end else 0.0,
        unknown=tuple(f"{call.name} {call.arguments}"[:200] for call in calls),
        figures=Figures(
            answer=answer.strip()[:ANSWER_CHARS],
            steps=len(replies),
            tokens=spent.usage.input_tokens + spent.usage.output_tokens,
            cost_usd=spent.cost_usd if spent.requests and not spent.unpriced else None,
        ),
    )


def next_message(task: Task, progress: Progress) -> str:
    """The task's text; to a session that has it, what makes it finish the task."""
    if not progress.has_started:
        return task.task
    if progress.status in ("", "interrupted"):
        return CONTINUE
    if progress.status == "success" and task.verify:
        return CHECK_FAILED.format(command=task.verify)
    return RETRY


def command_line(
    fleet: Fleet,
    state: TaskState,
    cwd: Path,
    progress: Progress,
    left_usd: float | None,
    shared_budget: Path | None,
) -> list[str]:
    """The command line of a task's process. The message is not part of it, because other users can
    list command lines: it is read from standard input. `left_usd` is the rest of the task's own
    budget. A task's settings override the fleet's flags, which override kode's defaults for an
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
        # Files, since what a killed kode leaves running may hold a pipe open.
        stdin, output, errors = (files.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        stdin.write(text.encode("utf-8", "replace"))
        stdin.seek(0)
        files.callback(tree.forget)
        streams = {"stdin": stdin, "stdout": output, "stderr": errors}
        try:
            process = await tree.start(*command, environment=os.environ, cwd=cwd, **streams)
        except OSError as error:
            return {"status": "error", "error": f"kode could not be started: {error.strerror}."}
        try:
            async with asyncio.timeout(None if timeout_s is None else timeout_s + LATE_S):
                code = await process.wait()
        except TimeoutError:
            return {"status": "timeout", "error": f"It did not end within {timeout_s:g} s."}
        finally:
            await asyncio.shield(_end(process, tree))
        for file in (output, errors):
            file.seek(0)
        return _result_of(output.read(), errors.read().decode("utf-8", "replace"), code)


async def _end(process: asyncio.subprocess.Process, tree: ProcessTree) -> None:
    """Asks the process to end, if it has not, and kills what it left running if it had to be ended
    or was killed."""
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


def _result_of(output: bytes, errors: str, code: int) -> dict[str, Any]:
    result = object_of(output)
    if result is not None and "status" in result:
        return result
    why = f"It was killed (signal {-code})" if code < 0 else f"It ended with exit status {code}"
    status = "killed" if code < 0 else "error"
    tail = errors.strip()[-TAIL_CHARS:]
    return {"status": status, "error": f"{why} and printed no result. {tail}".strip()}
