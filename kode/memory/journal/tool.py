"""The `history_search` tool: the model's way into what is not in its prompt."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated

from kode.contracts import Tool, ToolContext, ToolOutput
from kode.function_tool import tool
from kode.memory import frame
from kode.memory.ask import keep_ends
from kode.memory.journal.commit import OUTSIDE
from kode.memory.journal.files import Entry
from kode.memory.tool_errors import told_to_model

MAX_ENTRIES = 50
ENTRY_CHARS = 1_500


def history_tool(search: Callable[[str], Awaitable[tuple[str, Sequence[Entry]]]]) -> Tool:
    """The tool over one open journal. `search` gives entries as they are to be shown, and what they
    are, as a sentence without its full stop."""

    @tool(effect="memory-read", subject="query")
    async def history_search(
        context: ToolContext,
        query: Annotated[str, "As for `grep -i`: a word, or a basic regular expression"],
        limit: Annotated[int, "Entries, newest first"] = 10,
    ) -> ToolOutput:
        """Search the log of all earlier sessions with this user, by words that stand in it. Use it
        when something was said, done or decided before and is not in your memory. Dates work too:
        2026-02-27."""
        with told_to_model():
            about, found = await search(query)
        if not found:
            text = f"No entry of the history matches: {query}. Try another, shorter word."
            return ToolOutput(text=text, summary="no match")
        shown = found[: max(1, min(limit, MAX_ENTRIES))]
        body = "\n\n".join(f"## {e.at}\n{keep_ends(e.text, ENTRY_CHARS)}" for e in shown)
        about += f"; {len(shown)} are shown." if len(shown) < len(found) else "."
        outside = any(entry.text.startswith(OUTSIDE) for entry in shown)
        return ToolOutput(
            text=frame.framed(about, body),
            summary=f"{len(found)} entries",
            untrusted="a session that took in outside text" if outside else "",
        )

    return history_search
