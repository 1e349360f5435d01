"""The prompt below what is printed, for as long as a block runs: that of the REPL, of one task
(`kode run --ask`), of a command that asks.

`editor` draws it; `state` and `submit` handle what is typed.
"""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator

from kode import paths
from kode.cli.prompt.brought import names
from kode.cli.prompt.choices import choices_of
from kode.cli.prompt.complete import ReplCompleter
from kode.cli.prompt.editor import Editor
from kode.cli.prompt.files import FileIndex
from kode.cli.prompt.history import open_history
from kode.cli.prompt.keys import bindings
from kode.cli.prompt.state import PromptState
from kode.cli.prompt.submit import begin
from kode.cli.prompt.turn import run_turn
from kode.cli.screen.render import Renderer
from kode.cli.screen.screen import Screen
from kode.conversation.structured import Form
from kode.events import TurnEnded
from kode.interrupts import heeding


@contextlib.asynccontextmanager
async def prompt_below(state: PromptState) -> AsyncIterator["asyncio.Task[None]"]:
    """Shows the prompt until the block ends. Yields what draws it, which ends early if the person
    leaves or the terminal is gone: `state.leaving`."""
    files = FileIndex(state.folder)
    completer = ReplCompleter(
        commands={name: command.summary for name, command in state.commands.items()},
        arguments=choices_of(state),
        files=files,
        more=lambda: names(state),
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


async def run_one(
    state: PromptState, text: str, typed: str = "", form: Form | None = None
) -> TurnEnded:
    """Runs a task of the open conversation, and what is typed meanwhile; returns how the last turn
    ended. Raises: what kept the task from beginning."""

    async def first() -> None:
        try:
            await run_turn(state, text, typed, form)
        except Exception as error:
            state.fault = error

    leaving = {signal.SIGTERM: state.leave, signal.SIGHUP: state.leave}
    async with prompt_below(state):
        with heeding({signal.SIGINT: state.interrupt, **leaving}):
            begin(state, first)
            await state.idle()
    if state.fault is not None:
        raise state.fault
    unbegun = TurnEnded(status="interrupted", error="Interrupted before the turn began.")
    return state.ended or unbegun


@contextlib.asynccontextmanager
async def asking(screen: Screen) -> AsyncIterator[None]:
    """The prompt of a command that only asks; where nothing can be drawn, lines are read."""
    if not screen.rich_terminal:
        yield
        return
    async with prompt_below(PromptState(screen, Renderer(screen), {}, listens=False)):
        yield
