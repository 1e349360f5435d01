"""A session's file changes at the prompt: `/diff`, `/undo`, `/redo`.

`kode.undo` records and undoes them.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kode.cli.prompt.state import PromptState
from kode.cli.screen.diffs import painted_diff
from kode.cli.screen.lines import cell_width, one_line
from kode.cli.screen.screen import Screen
from kode.messages import plural

if TYPE_CHECKING:
    from kode.undo.text import FileDiff


async def undo(state: PromptState, argument: str) -> None:
    """Undoes the last turn's file changes; repeated: the turn before."""
    state.screen.print(await state.conversation.undo())


async def redo(state: PromptState, argument: str) -> None:
    """Redoes the last `/undo`."""
    state.screen.print(await state.conversation.redo())


async def show_diff(state: PromptState, argument: str) -> None:
    """Shows this session's file changes in colour; `/diff FILE` shows one. Anything longer than the
    screen goes to the pager."""
    # In a thread: comparing long files takes a while, and a turn may be running.
    diffs = await asyncio.to_thread(state.conversation.diffs)
    if not diffs:
        state.screen.print("No files changed through tools in this session.", "dim")
        return
    if argument:
        diffs = [diff for diff in diffs if argument in diff.path]
    if not diffs:
        state.screen.print(f"No changed file has {one_line(argument)!r} in its name.", "warning")
        return
    text = render_diffs(state.screen, diffs)
    if not (state.is_long(text) and await state.page(text)):
        state.screen.print_painted(text)


def render_diffs(screen: Screen, diffs: Sequence["FileDiff"]) -> str:
    """One line per file, then their diffs; painted."""
    added, removed = (sum(diff.count(sign) for diff in diffs) for sign in "+-")
    lines = [screen.paint("bold", f"{plural(len(diffs), 'file')} changed, +{added} -{removed}")]
    width = min(max(cell_width(one_line(file_diff.path)) for file_diff in diffs), 60)
    for diff in diffs:
        name = one_line(diff.path)
        pad = " " * max(width - cell_width(name), 0)
        lines.append(f"  {name}{pad}  +{diff.count('+')} -{diff.count('-')}")
    lines += ["", *(painted_diff(screen, file_diff.text, headings=True) for file_diff in diffs)]
    return "\n".join(lines)
