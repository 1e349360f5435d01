"""`job`: the model's way to a command that it started in the background; see `background`."""

import os
from typing import Annotated

from kode.errors import ToolError
from kode.function_tool import tool
from kode.tool import ToolContext, ToolOutput
from kode.tools.background import BackgroundCommand
from kode.tools.output import MAX_CHARS

MAX_WAIT_S = 600  # as a command's longest time

_HALF = MAX_CHARS * 3 // 8


@tool(effect="none", subject="id")
async def job(
    context: ToolContext,
    id: str,
    wait_s: float = 0,
    start: Annotated[int | None, "Position, 0 for all"] = None,
    stop: bool = False,
    tell: str = "",
) -> ToolOutput:
    """Read a background command or subagent; await, stop or tell it."""
    background = context.background
    if background is None:
        raise ToolError("Nothing runs in the background here.")
    job = background.find(id)
    if job.session_id != context.session_id:
        raise ToolError(f"{job.name} belongs to another session.")
    if tell:
        tell_job(job, tell)
    if stop:
        await background.kill(job, "stopped")
    elif wait_s > 0:
        await background.wait(job, min(wait_s, MAX_WAIT_S))
    text = _new_output(job, start)
    state = job.outcome or "running"
    return ToolOutput(
        text=f"{text or '(nothing new)'}\n[{job.name}: {state}; position {job.read_to}]",
        summary=f"{job.name}: {state}",
        untrusted=job.running.untrusted,
        ended_job=job.name if job.outcome else "",
    )


def tell_job(job: BackgroundCommand, message: str) -> None:
    """Raises: ToolError if it takes no messages, or has ended."""
    if job.tell is None:
        raise ToolError(f"{job.name} is a command, and takes no messages.")
    job.tell(message)


def _new_output(job: BackgroundCommand, start: int | None) -> str:
    """The output from a position of its file, or from where the last call ended; the middle of a
    long one is left out. Moves the position to its end."""
    path = job.running.output_path
    if path is None:  # it could not be written
        return job.running.output()
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(min(job.read_to if start is None else max(start, 0), size))
            data = file.read(_HALF)
            if left_out := max(0, size - _HALF - file.tell()):
                file.seek(left_out, os.SEEK_CUR)
                note = f"[{left_out:,} bytes left out here. The whole output is in {path}.]"
                data += f"\n{note}\n".encode()
            data += file.read(size - file.tell())
    except OSError as error:
        raise ToolError(f"Its output could not be read: {error}.") from None
    job.read_to = size
    return (data.decode("utf-8", "replace") + job.running.partial).rstrip("\n")
