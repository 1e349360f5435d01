"""The prompt below what is printed, for as long as a block runs: that of the REPL, of one task
(`kode run --ask`), of a command that asks. Heavy, so imported when it is drawn.

`editor` draws it; `state` and `submit` handle what is typed.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from kode import paths
from kode.cli.prompt.complete import ReplCompleter, choices_of
from kode.cli.prompt.editor import Editor
from kode.cli.prompt.files import FileIndex
from kode.cli.prompt.history import open_history
from kode.cli.prompt.keys import bindings
from kode.cli.prompt.reports import extension_commands
from kode.cli.prompt.slash import FIRST
from kode.cli.prompt.state import PromptState


@contextlib.asynccontextmanager
async def prompt_below(state: PromptState) -> AsyncIterator["asyncio.Task[None]"]:
    """Shows the prompt until the block ends. Yields what draws it, which ends early if the person
    leaves or the terminal is gone: `state.leaving`."""
    files = FileIndex(state.folder)
    completer = ReplCompleter(
        commands={name: command.summary for name, command in state.commands.items()},
        arguments=choices_of(state),
        files=files,
        more=lambda: extension_commands(state),
        first=[name for name in FIRST if name in state.commands],
    )
    editor = state.editor = Editor(
        state,
        history=open_history(paths.history_file(paths.home())),
        completer=completer,
        live=state.live,
        status=state.status,
        color=state.screen.color,
        keys=bindings,
    )
    drawn = asyncio.Event()

    def ended(_: object) -> None:
        drawn.set()
        state.leave()

    state.screen.flush()
    state.screen.editor = editor
    drawing = asyncio.ensure_future(editor.run(drawn.set))
    drawing.add_done_callback(ended)
    try:
        await drawn.wait()
        yield drawing
    finally:
        editor.stop()
        if not drawn.is_set():
            drawing.cancel()
        await asyncio.wait([drawing])
        files.close()
        state.screen.flush()
        state.screen.editor = None
