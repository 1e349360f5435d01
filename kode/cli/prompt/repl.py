"""Runs the REPL: opens the prompt and the conversation, handles lines, and closes both in order.

`editor` draws the prompt; a terminal that cannot show it gets plain lines. `submit` handles a line.
SIGINT never raises here: it acts like Ctrl-C.
"""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kode import paths
from kode.cli.prompt.pickers import pick_value
from kode.cli.prompt.slash import COMMANDS
from kode.cli.prompt.state import PromptState
from kode.cli.prompt.submit import Opening, begin_job, open_conversation, run_turn, submit
from kode.cli.screen.lines import clip_middle
from kode.cli.screen.menu import Choice
from kode.cli.screen.render import Renderer
from kode.cli.screen.screen import Screen, read_line
from kode.errors import EXIT_INTERRUPTED, EXIT_OK
from kode.events import UNBEGUN, TurnEnded
from kode.process import handle_signals

if TYPE_CHECKING:
    from kode.conversation.structured import Form

LEAVE_GRACE_S = 10.0  # memory may still be saving
CLOSING_IS_SHOWN_AFTER_S = 0.5  # shorter waits need no explanation


async def run_repl(
    opening: Opening,
    first_task: str | None = None,
    *,
    screen: Screen,
    renderer: Renderer,
    cwd: Path | None = None,
) -> int:
    """Runs until the person exits, then closes the conversation; returns the exit code. `opening`
    is called once the prompt is on the screen; lines typed before are queued. The conversation
    uses `renderer.emit`. Raises: as `opening`."""
    folder = cwd or Path.cwd()
    state = PromptState(screen, renderer, COMMANDS, folder=folder)
    with _handle_signals(state) as ended_by:
        free = max(screen.width - len("kode in  · ? for help"), 12)
        screen.print(f"kode in {clip_middle(paths.short_path(folder), free)} · ? for help", "dim")
        async with prompt_below(state) as drawing:
            if drawing is None:
                await _run_plain(state, opening, first_task)
            else:
                open_conversation(state, opening)
                if first_task:
                    submit(state, first_task)
                await drawing
        await close_repl(state)
    if state.fault is not None:
        raise state.fault
    return EXIT_INTERRUPTED if ended_by else EXIT_OK


async def run_in_prompt(
    state: PromptState, text: str, typed: str = "", form: "Form | None" = None
) -> TurnEnded:
    """Runs a task in the open conversation, and the lines typed meanwhile; returns how the last
    turn ended. Raises: whatever kept the task from starting."""

    async def first() -> None:
        try:
            await run_turn(state, text, typed, form)
        except Exception as error:
            state.fault = error

    async with prompt_below(state):
        with _handle_signals(state):
            begin_job(state, first)
            await state.wait_until_idle()
    if state.fault is not None:
        raise state.fault
    return state.screen.ended or UNBEGUN


@contextlib.asynccontextmanager
async def prompt_below(state: PromptState) -> AsyncIterator["asyncio.Task[None] | None"]:
    """Shows the prompt until the block ends. Yields the task that draws it, which ends early, with
    `state.leaving` set, if the person leaves or the terminal is gone; None where no prompt can be
    drawn, so that answers are typed as lines."""
    if not (state.screen.rich_terminal and sys.stdin.isatty()):
        yield None
        return
    from kode.cli.prompt.editor import Editor
    from kode.cli.prompt.keys import make_bindings

    editor = state.editor = Editor(state, make_bindings)
    drawn = asyncio.Event()

    def leave(_: object) -> None:
        drawn.set()
        state.leave()

    state.screen.clear_line()
    state.screen.editor = editor
    drawing = asyncio.ensure_future(editor.run(drawn.set))
    drawing.add_done_callback(leave)
    try:
        await drawn.wait()
        yield drawing
    finally:
        editor.stop()
        if not drawn.is_set():
            drawing.cancel()
        await asyncio.wait([drawing])
        state.screen.editor = None
        state.screen.flush()


async def pick_below(screen: Screen, title: str, choices: Sequence[Choice]) -> str:
    """Lets a person pick a value while there is no conversation yet, as `pick_value` does."""
    async with prompt_below(PromptState(screen, Renderer(screen), {}, listens=False)):
        value = await pick_value(screen, title, choices)
    if value in [choice.value for choice in choices]:
        screen.print(f"{title} {value}", "accent", value)
    return value


async def _run_plain(state: PromptState, opening: Opening, first_task: str | None) -> None:
    open_conversation(state, opening)
    await state.wait_until_idle()
    line = first_task
    while not state.leaving:
        if line is None:
            state.screen.write("> ")
            state.reading = asyncio.ensure_future(read_line(sys.stdin))
            await asyncio.wait([state.reading])
            line = None if state.reading.cancelled() else state.reading.result()
            if line is None:
                state.screen.print()
                return
        while line.endswith("\\"):
            state.screen.write("  ")
            line = line[:-1] + "\n" + (await read_line(sys.stdin) or "")
        if line.strip():
            submit(state, line)
            await state.wait_until_idle()
        line = None


async def close_repl(state: PromptState) -> None:
    """Waits a while for the stopped job, closes the conversation, and says how to resume it."""
    if state.job is not None:
        await asyncio.wait([state.job], timeout=LEAVE_GRACE_S)
    for task in state.beside:
        task.cancel()
    if state.opened is None:
        return
    conversation, screen = state.opened, state.screen
    session_id, used = conversation.session.id, conversation.session.is_used
    state.closing = asyncio.ensure_future(state.guard(conversation.close))
    await show_closing(state, state.closing)
    if session_id is not None and used:
        screen.print(f"Resume with: kode -r {session_id}", "dim")
    screen.flush()


async def show_closing(state: PromptState, closing: "asyncio.Task[None]") -> None:
    """Waits until the conversation is closed; if that takes long, shows what it is doing."""
    await asyncio.wait([closing], timeout=CLOSING_IS_SHOWN_AFTER_S)
    if not closing.done():
        what = f"{state.conversation.closing}… (Ctrl-C skips)"
        (state.screen.show_line if state.screen.rich_terminal else state.screen.print)(what)
        await asyncio.wait([closing])
    state.screen.clear_line()


@contextlib.contextmanager
def _handle_signals(state: PromptState) -> Iterator[list[signal.Signals]]:
    """Makes SIGINT act like Ctrl-C, and SIGTERM and SIGHUP exit in good order. Yields the signals
    that made kode exit."""
    ended_by: list[signal.Signals] = []

    def leave(number: signal.Signals) -> None:
        ended_by.append(number)
        state.leave()

    actions = {
        signal.SIGINT: lambda: _handle_sigint(state),
        signal.SIGTERM: lambda: leave(signal.SIGTERM),
        signal.SIGHUP: lambda: leave(signal.SIGHUP),
    }
    with handle_signals(actions):
        yield ended_by


def _handle_sigint(state: PromptState) -> None:
    if state.editor is not None and state.screen.editor is not None:
        if state.editor.away:  # it was meant for the editor
            return
        state.editor.interrupt()
        return
    if not state.interrupt():
        state.screen.write("\n(Ctrl-D leaves)\n> ")
