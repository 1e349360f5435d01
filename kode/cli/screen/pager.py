"""Shows a long text with the person's pager, `less` by default.

Output meanwhile is queued; see `Editor.away`.
"""

import os
import shlex
import subprocess
from collections.abc import Awaitable, Callable

from kode.programs import find_program


def pager_command(first_line: int = 1) -> list[str] | None:
    """The pager as an argument list, starting at a line if it can; None if there is none."""
    try:
        command = shlex.split(os.environ.get("PAGER") or "less")
    except ValueError:
        command = ["less"]
    program = find_program(command[0]) if command else None
    if program is None:
        return None
    line = [f"+{first_line}g"] if os.path.basename(program) == "less" and first_line > 1 else []
    return [program, *command[1:], *line]


LendTerminal = Callable[[Callable[[], bool]], Awaitable[bool]]
"""`Editor.lend_terminal`: runs a program that takes the whole terminal."""


async def show_paged(lend_terminal: LendTerminal, text: str, first_line: int = 1) -> bool:
    """Shows a painted text until the person leaves the pager; False if there is none."""
    command = pager_command(first_line)
    if command is None:
        return False
    return await lend_terminal(lambda: _run(command, text))


def _run(command: list[str], text: str) -> bool:
    # Colours pass; the text was cleaned of anything else before. No shell from within it.
    environment = {**os.environ, "LESS": "-R", "LESSSECURE": "1", "LESSCHARSET": "utf-8"}
    try:
        done = subprocess.run(
            command,
            input=text.encode("utf-8", "replace"),
            env=environment,
            check=False,
        )
    except OSError:
        return False
    return done.returncode not in (126, 127)
