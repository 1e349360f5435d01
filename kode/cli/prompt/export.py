"""`/copy` to the clipboard, `/export` to a file."""

import asyncio
import base64
import contextlib
import json
import os
import subprocess
from pathlib import Path

from kode import durable, paths
from kode.cli.prompt.state import PromptState
from kode.cli.screen.lines import one_line
from kode.errors import UserError
from kode.messages import plural
from kode.programs import find_program

CLIPBOARD_TIMEOUT_S = 2.0  # a clipboard program that hangs must not hold the prompt


async def copy(state: PromptState, argument: str) -> None:
    """Copies the last answer to the clipboard."""
    answer = state.conversation.last_answer()
    if not answer:
        state.screen.print("There is no answer to copy yet.", "dim")
        return
    ways = []
    if state.screen.rich_terminal:
        # The terminal's own clipboard (OSC 52): works through ssh, if the terminal allows it.
        payload = base64.b64encode(answer.encode("utf-8", "replace")).decode()
        state.screen.control(f"\x1b]52;c;{payload}\x07")
        ways.append("the terminal")
    program = await asyncio.to_thread(_copy_with_program, answer)
    if program:
        ways.append(program)
    if not ways:
        state.screen.print("No clipboard was found. Install wl-copy, xclip or pbcopy.", "warning")
        return
    size = plural(answer.count("\n") + 1, "line")
    state.screen.print(f"Copied {size} to the clipboard by {' and '.join(ways)}.", "dim")


def _copy_with_program(text: str) -> str:
    """Returns the program that copied the text; "" if there is none."""
    programs = (
        ("WAYLAND_DISPLAY", ["wl-copy"]),
        ("DISPLAY", ["xclip", "-selection", "clipboard"]),
        ("", ["pbcopy"]),
    )
    for variable, command in programs:
        program = find_program(command[0])
        if (variable and not os.environ.get(variable)) or program is None:
            continue
        # Their children keep the selection alive and would hold pipes open: use none.
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run(
                [program, *command[1:]],
                input=text.encode("utf-8", "replace"),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=CLIPBOARD_TIMEOUT_S,
                check=True,
            )
            return command[0]
    return ""


async def export(state: PromptState, argument: str) -> None:
    """Writes the session to a new file: a transcript, or JSON if the name ends so; without a name
    into kode's own folder, or again there. Raises: UserError if it cannot be written;
    StorageError."""
    from kode.credentials import redact
    from kode.session.export import as_json, as_markdown
    from kode.session.transcript import Transcript

    session = state.conversation.session
    transcript = Transcript(header=session.header, entries=session.entries)
    name = argument.strip("\"'")
    path = state.conversation.place.cwd / paths.expand(name)
    if name.endswith(".json"):
        text = json.dumps(as_json(transcript), indent=2) + "\n"
    else:
        text = as_markdown(transcript)
    try:
        if name:
            await asyncio.to_thread(_write_new, path, redact(text))
        else:
            path = paths.exports_folder(state.conversation.place.home) / f"{session.header.id}.md"
            durable.make_folder(path.parent)
            data = redact(text).encode(errors="replace")
            await asyncio.to_thread(durable.replace, path, data)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UserError(f"{one_line(str(path))}: {why}. /export NAME takes another.") from None
    state.screen.print(f"Written to {path}", "dim")


def _write_new(path: Path, text: str) -> None:
    """Writes a private file, never overwriting one."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
