"""The `history_search` tool: the history of a project with the meaning of `grep -i`, and what is
nearest where nothing matches.

The pattern is grep's: the program itself runs, in a process with a limit of time, so that no
pattern can hang kode.
"""

import asyncio
import subprocess
from collections.abc import Sequence
from typing import Annotated

from kode.errors import MemoryRefused
from kode.memory import frame
from kode.memory.policy import OpenMemory
from kode.memory.statement import Statement
from kode.memory.tools import memory_tool
from kode.messages import keep_ends
from kode.programs import find_program
from kode.tool import ToolOutput

TIMEOUT_S = 5.0  # for a pattern over a history of years
MAX_PATTERN_CHARS = 1_000  # more is no question
MAX_MATCHES = 2_000  # a pattern that matches everything ends here
MAX_ENTRIES = 50  # more is no answer
SHOWN_CHARS = 1_500  # of one entry
NEAREST = 10
"""How many entries are shown if none matches."""


@memory_tool(effect="memory-read", subject="query")
async def history_search(
    memory: OpenMemory,
    query: Annotated[str, "As for `grep -i`: a word, a date, or a basic regular expression"],
    limit: Annotated[int, "Entries, newest first"] = 10,
) -> ToolOutput:
    """Search the log of all earlier sessions with this user, for what was said, done or decided
    before and is not in your memory."""
    entries = memory.notes()
    matches = (await find_matches(query, entries))[::-1]
    about = f"{len(matches)} entries of the history match, the newest first"
    if not matches:
        by_id = {note.id: note for note in entries}
        ranked = await memory.find(query, NEAREST, by_id.__contains__)
        matches = [by_id[result.text.id] for result in ranked]
        about = "No entry holds this as it is written; here are the nearest others"
    if not matches:
        text = f"No entry of the history matches: {query}. Try another, shorter word."
        return ToolOutput(text=text, summary="no match")
    shown = matches[: max(1, min(limit, MAX_ENTRIES))]
    if len(shown) < len(matches):
        about += f"; {len(shown)} are shown"
    memory.shown_notes += [note.id for note in shown]
    body = "\n\n".join(keep_ends(memory.note_text(note), SHOWN_CHARS) for note in shown)
    outside = any(note.source for note in shown)
    return ToolOutput(
        text=frame.wrap(f"{about}. {frame.NOTES}", body),
        summary=f"{len(matches)} entries",
        untrusted="a session that read outside text" if outside else "",
    )


async def find_matches(pattern: str, entries: Sequence[Statement]) -> list[Statement]:
    """The entries with a matching line, in header or text, in order.

    Raises: MemoryRefused for a pattern that grep rejects, or that takes too long.
    """
    if not pattern.strip() or len(pattern) > MAX_PATTERN_CHARS or "\0" in pattern:
        raise MemoryRefused("Give a pattern of 1 to 1,000 characters: a word or two to look for.")
    lines = [(note, line) for note in entries for line in note.text.split("\n")]
    program = find_program("grep")
    if program is None:
        raise MemoryRefused("grep is not installed, which searches the history: install it.")
    command = [program, "-i", "-n", "-a", "-m", str(MAX_MATCHES), "-e", pattern]
    try:
        done = await asyncio.to_thread(
            subprocess.run,
            command,
            input="".join(f"{line}\n" for _, line in lines).encode(errors="replace"),
            capture_output=True,
            env={"LC_ALL": "C.UTF-8"},  # folds case beyond ASCII
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise MemoryRefused(
            f"The pattern took longer than {TIMEOUT_S:g} s. Look for a plain word instead."
        ) from None
    if done.returncode > 1:
        why = done.stderr.decode(errors="replace").strip().removeprefix("grep: ")
        raise MemoryRefused(f"grep refuses this pattern ({why}). Escape what is meant as is.")
    rows = filter(None, done.stdout.split(b"\n"))
    notes = [lines[int(row.partition(b":")[0]) - 1][0] for row in rows]
    return list({note.id: note for note in notes}.values())
