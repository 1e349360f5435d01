"""Parts of kode that run in a process of their own, because only a process can be ended whatever it
does: a regular expression, or a parser in C, holds the interpreter until it is done.
"""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

# -P: without it the working directory could shadow modules of the standard library.
_PYTHON = (sys.executable, "-P")


def argv_of(module: str) -> tuple[str, ...]:
    """What runs a module of kode as a program."""
    return (*_PYTHON, "-m", module)


def environment() -> dict[str, str]:
    """The variables of such a process: none of the person's."""
    package_parent = str(Path(__file__).resolve().parents[2])
    return {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "PYTHONPATH": package_parent}


async def ask(script: str, question: bytes) -> bytes | None:
    """What a file of kode that imports nothing of kode answers on stdout to what it gets on stdin;
    None when it failed. However this is left, the process has ended by then.

    Raises: OSError when it cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        *_PYTHON,
        script,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
        env=environment(),
    )
    try:
        answer, _ = await process.communicate(question)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        # Reads what is left, so that the pipes close with the process.
        await process.communicate()
    return answer if process.returncode == 0 else None
