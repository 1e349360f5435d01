"""Those who work on a task: the whole of kode, and the plainest loop beside it. Both get the same
words, the same model, and the same limits.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.measure import KODE
from bench.models import Model
from bench.tasks.jail import environment, jail

LOOP = "loop"
AGENTS = ("kode", LOOP)

BASELINE = Path(__file__).parents[1] / "baseline_agent.py"

GRACE_S = 30.0
"""How much longer than its own limit an agent may take to end, before it is killed."""

UNDO = """\
import asyncio, sys, kode
async def main():
    async with kode.open(".", resume=sys.argv[1], memory=None) as conversation:
        print(await conversation.undo())
asyncio.run(main())
"""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Of one task; the same for all agents."""

    steps: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Desk:
    """Where one task is worked on. All of it is thrown away afterwards."""

    home: Path
    """The person's home, with what else is in it."""
    project: Path
    """Inside the home."""
    kode_home: Path
    """Outside it."""


@dataclass(frozen=True, kw_only=True)
class Worked:
    """What an agent says it did; None of what it did not live to say."""

    status: str
    steps: int | None
    input_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    seconds: float
    session_id: str | None = None
    refused: int = 0
    """Calls that kode did not let run."""
    fault: str = ""


def work(
    agent: str, prompt: str, desk: Desk, model: Model, limits: Limits, flags: Sequence[str] = ()
) -> Worked:
    """Has an agent do a task; `flags` are further ones of `kode run`."""
    if agent == LOOP:
        words = [sys.executable, str(BASELINE), prompt]
        extra = {
            "PROVIDER": model.provider,
            "MODEL": model.name,
            "BASE_URL": model.base_url,
            "KEY": model.key,
            "MAX_STEPS": str(limits.steps),
            "SHELL_WORDS": json.dumps(jail(desk.home, desk.project)),
        }
    else:
        words = [
            *(KODE, "run", prompt, "--output-format", "json", "--permission-mode", "auto-edit"),
            *(*model.flags, "--no-memory", *flags),
            *("--max-steps", str(limits.steps), "--timeout", str(limits.seconds)),
        ]
        extra = kode_environment(desk, model)
    started = time.monotonic()
    output, errors, killed = run(words, environment(desk.home, extra), desk.project, limits)
    seconds = time.monotonic() - started
    return _worked(last_object(output), seconds, "timeout" if killed else "error", errors)


def undo(desk: Desk, session_id: str, model: Model) -> None:
    """Undoes the changes of the session's last turn, as `/undo` does."""
    subprocess.run(
        [sys.executable, "-c", UNDO, session_id],
        cwd=desk.project,
        env=environment(
            desk.home,
            {
                **kode_environment(desk, model),
                "KODE_PROVIDER": model.provider,
                "KODE_MODEL": model.name,
            },
        ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=True,
    )


def kode_environment(desk: Desk, model: Model) -> dict[str, str]:
    """The variables that kode needs beside `jail.environment`."""
    return {"KODE_HOME": str(desk.kode_home), **model.environment}


def run(
    words: Sequence[str], environ: Mapping[str, str], cwd: Path, limits: Limits
) -> tuple[str, str, bool]:
    """Output, errors, and whether it had to be killed: with all that it started."""
    process = subprocess.Popen(
        words,
        cwd=cwd,
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=limits.seconds + GRACE_S)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        output, errors = process.communicate()
        return output, errors, True
    return output, errors, False


def last_object(output: str) -> dict[str, Any]:
    """The last line of an output that is a JSON object; {} for none."""
    for line in reversed(output.splitlines()):
        with contextlib.suppress(ValueError):
            value = json.loads(line)
            if isinstance(value, dict):
                return value
    return {}


def _worked(said: Mapping[str, Any], seconds: float, otherwise: str, errors: str) -> Worked:
    usage = said.get("usage") or {}
    status = otherwise if otherwise == "timeout" else said.get("status", otherwise)
    fault = said.get("error") or ("" if status == "success" else errors.strip()[-300:])
    return Worked(
        status=status,
        steps=said.get("steps"),
        input_tokens=usage.get("input_tokens"),
        cached_tokens=usage.get("cached_tokens"),
        output_tokens=usage.get("output_tokens"),
        seconds=round(seconds, 2),
        session_id=said.get("session_id"),
        refused=len(said.get("denials") or ()),
        fault=fault,
    )
