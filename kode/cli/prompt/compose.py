"""Ctrl-X Ctrl-E: edits the message in the person's own editor.

Uses `$VISUAL`, `$EDITOR`, or the first installed common editor. The text is in a file that only its
owner can read, deleted when the editor exits.
"""

import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from kode.cli.screen.lines import one_line
from kode.cli.screen.screen import LendTerminal
from kode.programs import find_program

COMMON = ("editor", "nano", "vim", "vi", "emacs")


def editor_command() -> tuple[list[str] | None, str]:
    """The editor as an argument list (None: there is none), and a remark about the choice: a
    variable may name a missing program."""
    missing = ""
    for variable in ("VISUAL", "EDITOR"):
        value = os.environ.get(variable, "").strip()
        if not value:
            continue
        try:
            command = shlex.split(value)
        except ValueError:
            command = []
        if command and (program := find_program(command[0])):
            return [program, *command[1:]], missing
        missing = missing or f"${variable} is {one_line(value)}, which is not there"
    editor = next(filter(None, map(find_program, COMMON)), None)
    if editor is None:
        reason = missing or "Neither $VISUAL nor $EDITOR is set, and no common editor is there"
        return None, f"{reason}. Set $EDITOR to yours."
    return [editor], f"{missing}: {os.path.basename(editor)} was used." if missing else ""


async def compose(
    text: str, lend_terminal: LendTerminal, hint: Callable[[str], None]
) -> str | None:
    """Opens a text in an editor, on the lent terminal, and returns what was saved; None, with a
    hint, if there is no editor or it failed."""
    with tempfile.TemporaryDirectory(prefix="kode-") as folder:
        path = Path(folder, "message.md")
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8", errors="replace")
        if not await open_in_editor(path, lend_terminal, hint):
            return None
        return path.read_text(encoding="utf-8", errors="replace").rstrip("\n")


async def open_in_editor(
    path: Path, lend_terminal: LendTerminal, hint: Callable[[str], None]
) -> bool:
    """Opens a file in an editor until the person leaves it; False, with a hint, if there is no
    editor, or it failed (as `:cq` does)."""
    command, remark = editor_command()
    if remark:
        hint(remark)
    if command is None:
        return False

    def run() -> bool:
        try:
            return subprocess.run([*command, str(path)], check=False).returncode == 0
        except OSError:
            return False

    is_saved = await lend_terminal(run) and path.is_file()
    if not is_saved:
        hint(f"{os.path.basename(command[0])} exited with an error: nothing has changed.")
    return is_saved
