"""The `kode run` process of one task: its command line, its life, what it printed; and what its
session on disk says of it, which counts where a kill has cut the rest.
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

from kode import durable, paths
from kode.broken_json import object_of
from kode.plugins.fleet.records import Fleet, Task
from kode.messages import calls_of, text_of
from kode.programs import start_program
from kode.session.entries import MessageEntry, TurnEntry
from kode.session.messages import messages_so_far, unanswered
from kode.session.reading import read
from kode.session.spending import last_turn, spending_of, total
from kode.tools import processes
from kode.tools.processes import WATCH

COMMAND = (sys.executable, "-P", "-m", "kode")
"""`-P`: a project with a folder `kode` or a file `json.py` must not become part of the child."""
END_GRACE_S = 20.0
"""For a child that is asked to end: it records what there is of its turn."""
LATE_S = 120.0
"""A child that is so much over its own time limit is ended."""
VERIFY_TIMEOUT_S = 600.0
SAID_CHARS = 500
GO_ON = (
    "kode was interrupted while it worked on this task, and has been restarted. Look at what "
    "is done, then finish the task. Where the result of a call is unknown, it may have taken "
    "effect: check before you make it again, and say so in your answer."
)
TRY_AGAIN = "The task above did not come to a good end. Look at what is done, then finish the task."
CHECK_FAILED = "`{command}` fails on what you did. Run it to see why, then finish the task."
"""These count as the person's own words: they quote no output and no server."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a session on disk says of a task."""

    begun: bool
    """Whether the task itself is in it."""
    ended: TurnEntry | None
    """The end of its last turn, unless that was cut."""
    answer: str
    unknown: tuple[str, ...]
    """Calls without a result."""
    steps: int
    tokens: int
    cost_usd: float | None
    """None where a price is unknown, or nothing was asked."""


NOTHING = Seen(begun=False, ended=None, answer="", unknown=(), steps=0, tokens=0, cost_usd=None)


def look(home: Path, session_id: str) -> Seen | None:
    """What is on disk of a session; None where it has no file. Raises: SessionError,
    StorageError."""
    path = paths.session_file(home, session_id)
    if not path.is_file():
        return None
    _, entries, _ = read(path)
    turn = last_turn(entries)
    spent = total(spending_of(entries))
    messages, answers = messages_so_far(entries)
    last = messages[-1] if messages else None
    lost = unanswered(last, answers) if last is not None and calls_of(last) else ()
    replies = [e for e in turn if isinstance(e, MessageEntry) and e.role == "assistant"]
    return Seen(
        begun=bool(turn),
        ended=next((e for e in reversed(turn) if isinstance(e, TurnEntry)), None),
        answer=text_of(replies[-1]).strip() if replies else "",
        unknown=tuple(f"{call.name} {call.arguments}"[:200] for call in lost),
        steps=sum(isinstance(e, MessageEntry) and e.role == "assistant" for e in entries),
        tokens=spent.usage.input_tokens + spent.usage.output_tokens,
        cost_usd=spent.cost_usd if spent.requests and not spent.unpriced else None,
    )


def next_message(task: Task, seen: Seen) -> str:
    """What a session that has begun is sent, so that it finishes its task."""
    end = seen.ended
    if end is None or end.status == "interrupted":
        return GO_ON
    if end.status == "success" and task.verify:
        return CHECK_FAILED.format(command=task.verify)
    return TRY_AGAIN


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
    """The command line of a task's process, which reads its message from standard input: others can
    list command lines. `left_usd` is what is left of its own budget. What holds for a task wins
    over what holds for all, and that over what is usual for a tree of its own."""
    line = [*COMMAND, "continue" if resumed else "run"]
    line += ["--id" if resumed else "--session-id", session_id]
    line += ["--output-format", "json", "--quiet", "--cwd", str(cwd)]
    if task.isolate != "none":
        line += ["--permission-mode", "auto-edit"]
    line += fleet.flags
    given = {
        "--model": task.model,
        "--permission-mode": task.mode,
        "--timeout": None if task.timeout_s is None else f"{task.timeout_s:g}",
        "--max-budget-usd": None if left_usd is None else f"{left_usd:.6f}",
        "--shared-budget": None if shared_budget is None else str(shared_budget),
    }
    for flag, value in given.items():
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
    """Runs a task's process to its end, `text` on its standard input, and returns the object it
    printed, or one that says why there is none: its `status` is "killed" where something else ended
    it. Cancelled, it asks the process to end, waits, and ends what is left of it.

    Raises: StorageError where its output cannot be kept.
    """
    WATCH.begins(mark)
    process: asyncio.subprocess.Process | None = None
    try:
        with durable.storage_errors(out, "create"):
            said = out.with_suffix(".txt")
            durable.replace(said, text.encode("utf-8", "replace"), sync_name=False)
            stdin, stdout, stderr = (
                said.open("rb"),
                out.open("wb"),
                out.with_suffix(".err").open("wb"),
            )
        with stdin, stdout, stderr:
            process = await start_program(
                *command,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                cwd=cwd,
                env={**os.environ, **processes.marked(mark)},
                start_new_session=True,
            )
        WATCH.runs(mark, process.pid)
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
            WATCH.is_over(mark)


async def verify(task: Task, cwd: Path) -> tuple[bool, str]:
    """Runs the task's check: whether it passed, and if not the end of its output. It runs in the
    sandbox, which drops its changes; in mode `full` without one.

    Raises: ConfigError.
    """
    from kode.assembly import child_environment, open_sandbox, open_workplace
    from kode.config import load_config
    from kode.extensions.program import run_program

    home = paths.home()
    config = load_config(home, cwd, environ=os.environ, flags={}).config
    mode = task.mode or config.permissions.mode
    sandbox = None if mode == "full" else open_sandbox(config, open_workplace(config, home, cwd))
    ran = await run_program(
        ("/bin/bash", "-c", task.verify),
        cwd=cwd,
        environment=child_environment(os.environ, config.shell.environment),
        timeout_s=VERIFY_TIMEOUT_S,
        sandbox=sandbox,
    )
    if ran.exit_code == 0:
        return True, ""
    return False, ran.fault or (ran.stderr or ran.stdout).strip()[-SAID_CHARS:]


async def end_orphans(mark: str) -> None:
    """Ends what a worker that was killed has left running on this machine."""
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
        found = object_of(out.read_bytes())
        if found is not None and "status" in found:
            return found
    said = ""
    with contextlib.suppress(OSError):
        said = out.with_suffix(".err").read_text("utf-8", "replace").strip()[-SAID_CHARS:]
    why = f"It was killed (signal {-code})" if code < 0 else f"It ended with exit code {code}"
    status = "killed" if code < 0 else "error"
    return {"status": status, "error": f"{why} and printed no result. {said}".strip()}
