"""What a session changed in files, at the prompt: `/diff`, `/undo`, `/redo`.

What was changed, and taking it back, is `kode.session.checkpoints`.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kode.cli.desk import Desk
from kode.cli.diffs import painted_diff
from kode.cli.lines import cell_width, one_line, plural
from kode.cli.screen import Screen

if TYPE_CHECKING:
    from kode.session.file_diffs import FileDiff

BY_OTHERS = "also changed by you or a program"


async def undo(desk: Desk, argument: str) -> None:
    """Takes back the last turn's file changes; again: the turn before. `/undo redo` is `/redo`."""
    if argument == "redo":
        await redo(desk, "")
        return
    if argument:
        desk.screen.print("/undo takes back whole turns, one at a time. /redo undoes that.", "dim")
        return
    desk.screen.print(await desk.conversation.undo())


async def redo(desk: Desk, argument: str) -> None:
    """Brings back what the last `/undo` took back."""
    desk.screen.print(await desk.conversation.redo())


async def show_diff(desk: Desk, argument: str) -> None:
    """What this session has changed in files, in colour; `/diff FILE` shows one. What is longer
    than the screen goes to the pager."""
    from kode.cli.pager import show_paged

    # In a thread: comparing long files takes a while, and a turn may be running.
    diffs = await asyncio.to_thread(desk.conversation.diffs)
    if not diffs:
        desk.screen.print("This session has changed no file through tools.", "dim")
        return
    if argument:
        diffs = [one for one in diffs if argument in one.path]
    if not diffs:
        desk.screen.print(f"No changed file has {one_line(argument)!r} in its name.", "warning")
        return
    text = rendered(desk.screen, diffs)
    is_long = text.count("\n") + 4 > desk.screen.rows()
    editor = desk.editor
    if is_long and editor is not None and await show_paged(editor.lend_terminal, text + "\n"):
        return
    desk.screen.print_painted(text)


def rendered(screen: Screen, diffs: Sequence["FileDiff"]) -> str:
    """A line a file, then their diffs; painted."""
    added, removed = sum(one.added for one in diffs), sum(one.removed for one in diffs)
    lines = [screen.paint("bold", f"{plural(len(diffs), 'file')} changed, +{added} -{removed}")]
    width = min(max(cell_width(one_line(one.path)) for one in diffs), 60)
    for one in diffs:
        name = one_line(one.path)
        mark = screen.paint("warning", f"  {BY_OTHERS}") if one.by_others else ""
        pad = " " * max(width - cell_width(name), 0)
        lines.append(f"  {name}{pad}  +{one.added} -{one.removed}{mark}")
    lines += ["", *(painted_diff(screen, one.text).rstrip("\n") for one in diffs)]
    return "\n".join(lines)
