"""Searches the journal: `grep -i` over the history, or all of it as texts for ranking.

The pattern is grep's: the program itself runs, in a process that can be killed, so that no pattern
can hang kode. Without grep, the pattern is matched literally.
"""

import asyncio
import bisect
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated

from kode.contracts import Brief, Tool, ToolContext, ToolOutput
from kode.errors import MemoryRefused
from kode.function_tool import tool
from kode.memory import frame, when
from kode.memory.frame import as_tool_errors
from kode.memory.journal.files import MEMORY, Entry
from kode.memory.rank import Text
from kode.messages import keep_ends
from kode.programs import find_program, start_program

TIMEOUT_S = 5.0
MAX_PATTERN_CHARS = 1_000
MAX_MATCHES = 2_000


def texts_of(memory: str, entries: Sequence[Entry]) -> list[Text]:
    """The lines of MEMORY.md, then the entries, with those of one day adjacent."""
    lines = (line.strip() for line in memory.split("\n"))
    found = [Text(MEMORY, line) for line in lines if line and not line.startswith("#")]
    return found + [
        Text(where_of(entry), entry.text, when.stamp_of(entry.at), row=entry.at[:10])
        for entry in entries
    ]


def where_of(entry: Entry) -> str:
    """How a hit names an entry."""
    return f"history {entry.at}"


async def grep(pattern: str, entries: Sequence[Entry]) -> list[Entry]:
    """The entries with a matching line, in header or text, in order.

    Raises: MemoryRefused for a pattern that grep rejects, or that takes too long.
    """
    if not pattern.strip() or len(pattern) > MAX_PATTERN_CHARS or "\0" in pattern:
        raise MemoryRefused("Give a pattern of 1 to 1,000 characters: a word or two to look for.")
    lines: list[str] = []
    starts: list[int] = []
    for entry in entries:
        starts.append(len(lines))
        lines += [f"## {entry.at}", *entry.text.split("\n")]
    found = await _matching_lines(pattern, lines)
    indices = dict.fromkeys(bisect.bisect_right(starts, number) - 1 for number in found)
    return [entries[index] for index in indices]


async def _matching_lines(pattern: str, lines: Sequence[str]) -> list[int]:
    program = find_program("grep")
    if program is None:
        wanted = pattern.lower()
        return [number for number, line in enumerate(lines) if wanted in line.lower()]
    process = await start_program(
        program,
        *("-i", "-n", "-a", "-m", str(MAX_MATCHES), "-e", pattern),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": _locale()},
    )
    data = "\n".join(lines).encode(errors="replace") + b"\n"
    try:
        async with asyncio.timeout(TIMEOUT_S):
            out, err = await process.communicate(data)
    except TimeoutError:
        raise MemoryRefused(
            f"The pattern took longer than {TIMEOUT_S:g} s. Look for a plain word instead."
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode not in (0, 1):
        said = err.decode(errors="replace").strip().removeprefix("grep: ")
        raise MemoryRefused(
            f"grep does not take this pattern ({said}). Escape what is meant as is."
        )
    return [int(line.partition(b":")[0]) - 1 for line in out.split(b"\n") if line]


def _locale() -> str:
    """A locale that folds case beyond ASCII."""
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        if "UTF-8" in os.environ.get(name, "").upper().replace("UTF8", "UTF-8"):
            return os.environ[name]
    return "C.UTF-8"


MAX_ENTRIES = 50
SHOWN_CHARS = 1_500


def history_tool(
    search: Callable[[str], Awaitable[tuple[str, Sequence[Entry]]]],
    since_then: Callable[[str], str],
) -> Tool:
    """The tool over one open journal. `search` returns entries for display, and what they are, as a
    sentence without its full stop; `since_then` what of a text no longer holds."""

    @tool(
        effect="memory-read",
        subject="query",
        brief=Brief(
            description="Search the log of earlier sessions by a word.", required=("query",)
        ),
    )
    async def history_search(
        context: ToolContext,
        query: Annotated[str, "As for `grep -i`: a word, a date, or a basic regular expression"],
        limit: Annotated[int, "Entries, newest first"] = 10,
    ) -> ToolOutput:
        """Search the log of all earlier sessions with this user, for what was said, done or decided
        before and is not in your memory."""
        with as_tool_errors():
            about, found = await search(query)
        if not found:
            text = f"No entry of the history matches: {query}. Try another, shorter word."
            return ToolOutput(text=text, summary="no match")
        shown = found[: max(1, min(limit, MAX_ENTRIES))]
        body = "\n\n".join(f"## {e.at}\n{keep_ends(e.text, SHOWN_CHARS)}" for e in shown)
        note = since_then("\n".join(entry.text for entry in shown))
        body = "\n\n".join(filter(None, (body, note)))
        about += f"; {len(shown)} are shown." if len(shown) < len(found) else "."
        outside = any(entry.is_outside for entry in shown)
        return ToolOutput(
            text=frame.wrap(about, body),
            summary=f"{len(found)} entries",
            untrusted="a session that read outside text" if outside else "",
        )

    return history_search
