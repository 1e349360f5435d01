"""A typed line: a message, a command or a shell command, done now, with the model's next step, or
after the running job. `slash` has the commands; `turn` runs a turn."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from kode.cli.hints import PROMPT_HINTS
from kode.cli.parser import nearest
from kode.cli.prompt.attach import attach, names_attachment
from kode.cli.prompt.reports import run_extension
from kode.cli.prompt.state import PROMPT_ALIASES, PromptState
from kode.cli.prompt.turn import run_turn
from kode.cli.screen.lines import one_line
from kode.errors import UserError

if TYPE_CHECKING:
    from kode.conversation import Conversation

Opening = Callable[[], Awaitable["Conversation"]]
"""Opens the conversation. Raises: KodeError if that fails."""

_WORDS = {"?": "/help", "exit": "/quit", "quit": "/quit", ":q": "/quit"}
"""Words that are commands when alone on a line."""

_FACT = re.compile(r"#\s*(?=[^\W\d])")
"""Prefix of a line to remember; `#12 fails` and `#!/bin/sh` are messages."""


def command_of(text: str) -> tuple[str, str] | None:
    """(name, argument) of a command line, under kode's own name; None for a message. A path is a
    message: `/usr/bin/env is missing`."""
    line = text.strip()
    if "\n" in line:
        return None
    if word := _WORDS.get(line):
        return word, ""
    if fact := _FACT.match(line):
        return "/remember", line[fact.end() :]
    if not text.startswith("/"):
        return None
    name, _, argument = line.partition(" ")
    if "/" in name[1:]:
        return None
    name, _, word = PROMPT_ALIASES.get(name, name).partition(" ")
    return name, f"{word} {argument}".strip()


def begin(
    state: PromptState, doing: Callable[..., Awaitable[object]], *arguments: object, what: str = ""
) -> None:
    """Starts a job; the lines queued meanwhile follow it."""
    state.jobs.start(doing, *arguments, then=partial(_next, state), what=what)


def open_conversation(state: PromptState, opening: Opening) -> None:
    """Opens the conversation as the first job; lines typed meanwhile are queued."""
    state.jobs.start(_open, state, opening, then=partial(_start_first, state), what="Opening")


def submit(state: PromptState, text: str, *, later: bool = False) -> None:
    """Handles a typed line. While a turn runs, the model gets a message with its next step, or with
    `later`, when the turn has ended; anything else waits for the running job."""
    if not state.listens:
        return
    if not state.jobs.busy:
        start(state, text)
        return
    command = command_of(text) if state.opened is not None else None
    if command and (known := state.commands.get(command[0])) and known.while_busy:
        _echo(state, text)
        state.jobs.start_beside(_run, state, *command)
        return
    steers = state.in_turn and not later and _can_steer(state, text)
    (state.steering if steers else state.waiting).append(text)
    state.screen.redraw()


def press(state: PromptState, command: str) -> None:
    """Runs a key's command at once, beside other work, without an echo."""
    if state.opened is None and command == "/quit":
        state.leave()
    elif state.opened is not None:
        state.jobs.start_once(command, _run, state, command, "")


def show_details(state: PromptState) -> None:
    """Shows the last calls in full, and the thinking, beside other work."""
    if state.opened is not None:
        state.jobs.start_once("details", _show_details, state)


async def _show_details(state: PromptState) -> None:
    details = state.renderer.details
    text, line = details.render(state.screen)
    if not text:
        state.screen.print("The model has not called a tool yet.", "dim")
    elif not await state.page(text, line):
        # Without a pager all of it would push the conversation away.
        state.screen.print_painted(details.render(state.screen, 1)[0])


async def _open(state: PromptState, opening: Opening) -> None:
    try:
        state.opened = conversation = await opening()
        if state.editor is not None:
            state.editor.notifier.setting = conversation.config.repl.notify
            if conversation.config.repl.vi_mode:
                state.editor.use_vi()
        if conversation.session.turns:
            state.show_resumed()
    except asyncio.CancelledError:
        state.leave()
    except Exception as error:
        # Nothing can be done without a conversation; `main` reports the fault.
        state.fault = error
        state.leave()


def start(state: PromptState, text: str) -> None:
    """Handles a line now: nothing may be running."""
    state.unsent = text
    begin(state, _do, state, text)


def _next(state: PromptState, stopped: bool) -> None:
    """After a job: starts the next queued line, or after a stop puts it back."""
    # Messages left over from a failed turn go to the next one.
    state.waiting[:0], state.steering = state.steering, []
    state.renderer.progress.rest()
    state.screen.redraw()
    if state.leaving:
        return
    if stopped and state.editor is not None:
        # Someone who stops a turn wants to think: nothing is sent before the next Enter.
        if state.unsent is not None or state.waiting:
            state.editor.put_back(state.unsent or state.waiting.pop(0))
    elif state.waiting:
        start(state, state.waiting.pop(0))


def _start_first(state: PromptState, stopped: bool) -> None:
    """After the opening: starts the first line typed meanwhile. The messages behind it reach the
    model with its next step, before any that is typed later."""
    _next(state, stopped)
    while state.editor is not None and state.waiting and _can_steer(state, state.waiting[0]):
        state.steering.append(state.waiting.pop(0))


def _can_steer(state: PromptState, text: str) -> bool:
    """Whether a line may reach the model in the middle of a turn. Something attached to a message
    can come only with the one that begins a turn."""
    if text.startswith("!") or state.opened is None or command_of(text) is not None:
        return False
    pasted = state.editor is not None and state.editor.pastes.pictures_in(text)
    return not pasted and not names_attachment(text, state.conversation.place.cwd)


async def _do(state: PromptState, text: str) -> None:
    _echo(state, text)
    if text.startswith("!"):
        state.unsent = None
        await _shell(state, text[1:].strip())
        return
    command = command_of(text)
    if command is not None:
        state.unsent = None
        state.jobs.doing = f"Running {one_line(command[0])}"
        await _run(state, *command)
        return
    if state.replacing:
        state.replacing = False
        if prompts := state.conversation.prompts():
            await state.conversation.rewind(len(prompts), files=False, messages=True)
    state.sent = text
    pastes = state.editor.pastes if state.editor is not None else None
    whole, pasted = (pastes.unfold(text), pastes.pictures_in(text)) if pastes else (text, [])
    await attach(state.conversation, state.screen, text, pasted)
    state.unsent = None
    await run_turn(state, whole, text)


def _echo(state: PromptState, text: str) -> None:
    """Prints a sent message into the scrollback; a plain terminal has shown it already."""
    if state.editor is not None:
        state.screen.print_prompt(text)


async def _run(state: PromptState, name: str, argument: str) -> None:
    """Runs a command; an unknown one is reported with the nearest. Raises: KodeError."""
    if name not in state.commands and await run_extension(state, name, argument):
        return
    begun = [known for known in state.commands if known.startswith(name)]
    command = state.commands.get(name) or (state.commands[begun[0]] if len(begun) == 1 else None)
    if command is not None:
        if argument and not command.takes:
            raise UserError(f"{command.name} takes no argument: send it alone.")
        await command.run(state, argument)
        return
    if hint := PROMPT_HINTS.get(name):
        state.screen.print(hint, "dim")
        return
    near = nearest(name, state.commands)
    what = f"There is no command {one_line(name)}.{near}" if name != "/" else "It needs a name."
    state.screen.print(f"{what} /help lists the commands.", "error")


async def _shell(state: PromptState, command: str) -> None:
    if not command:
        state.screen.print("! runs a shell command: !ls", "error")
        return
    from kode.cli.prompt.shell_line import run_shell_line

    state.jobs.doing, conversation = f"Running {one_line(command)}", state.conversation

    def show(text: str, unfinished: str) -> None:
        state.unfinished = unfinished
        if text:
            state.screen.print(text)

    try:
        ran = await run_shell_line(
            command,
            conversation.place.cwd,
            show,
            conversation.commands,
            session_id=conversation.session.id,
            output_dir=conversation.agent.place.outputs,
        )
    except asyncio.CancelledError:
        state.screen.print("Stopped.", "warning")
        raise
    finally:
        state.unfinished = None
    if ran.exit_code is None:
        ended = f"moved to the background as {ran.name}"
        shown = f"{ended} · /bg read {ran.name} shows its output"
        ended += f"; its output is in {ran.output_path}" if ran.output_path else ""
    else:
        ended = shown = f"exit status {ran.exit_code}"
    style = "warning" if ran.exit_code else "dim"
    state.screen.print(f"{shown} · sent with your next message", style)
    note = f"[The person ran this in the shell; {ended}]\n$ {command}\n{ran.output}"
    conversation.attach_command(command, note)
