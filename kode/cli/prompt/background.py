"""`/bg` and Ctrl-B: moves the running shell command to the background, lists, reads and kills those
there; also the question on leaving while some still run. See `tools.background`."""

import time
from typing import TYPE_CHECKING

from kode.cli.prompt.state import PromptState
from kode.cli.screen.lines import clip, duration, one_line
from kode.errors import UserError
from kode.messages import plural
from kode.plain_text import clean

if TYPE_CHECKING:
    from kode.tools.background import BackgroundCommand

SHOWN_LINES = 40
"""Lines printed from the end of an output if there is no pager."""

USAGE = (
    "/bg moves the running command, or subagents, to the background; /bg list, "
    "/bg read ID, /bg kill ID, /bg tell ID TEXT."
)


async def background(state: PromptState, argument: str) -> None:
    """Moves the running shell command, or lists, reads or kills those in the background.

    Raises: UserError for an unknown id.
    """
    commands = state.conversation.commands
    action, _, name = argument.partition(" ")
    match action, name.strip():
        case "", "" if commands.move():
            pass
        case "" | "list", "":
            _list(state)
        case "read", name if name:
            await _read(state, commands.find(name))
        case "tell", name if " " in name:
            name, _, text = name.partition(" ")
            commands.find(name).send(text.strip())
            state.screen.print(f"{name} gets it with its next step.", "dim")
        case "kill", name if name:
            command = commands.find(name)
            was_running = command.runs
            await commands.kill(command)
            had_ended = f"{command.name} had already ended ({command.outcome})"
            what = f"Stopped {command.name}" if was_running else had_ended
            state.screen.print(f"{what}: {one_line(command.running.command)}", "dim")
        case _:
            raise UserError(f"/bg does not know {one_line(argument)!r}. {USAGE}")


def send_to_background(state: PromptState) -> bool:
    """Moves the running shell command; False, with a message, if there is none."""
    if state.opened is not None and state.conversation.commands.move():
        return True
    state.hint("No shell command is running.")
    return False


async def may_leave(state: PromptState) -> bool:
    """Whether to leave: asks if background commands are running, which would end with kode."""
    running = state.conversation.commands.running() if state.opened is not None else []
    if not running:
        return True
    is_only = len(running) == 1
    what = (
        f"{plural(len(running), 'background command')} {'is' if is_only else 'are'} still running:"
    )
    state.screen.print(what, "warning")
    for command in running:
        state.screen.print_painted(_row(command, state.screen.width))
    answer = await state.screen.read_answer(f"Quit and stop {'it' if is_only else 'them'}? [y/N] ")
    # End of input is a second Ctrl-D, which means yes.
    return answer is None or answer.strip().lower() in ("y", "yes")


def _list(state: PromptState) -> None:
    commands = state.conversation.commands.commands
    if not commands:
        state.screen.print("No background commands. " + USAGE, "dim")
        return
    for command in commands:
        state.screen.print_painted(_row(command, state.screen.width))
        if last := one_line(command.last_line()):
            state.screen.print(clip(f"     {last}", state.screen.width), "dim")
    state.screen.print("/bg read ID shows the output, /bg kill ID stops a command.", "dim")


def _row(command: "BackgroundCommand", width: int) -> str:
    """Id, state, time and command on one line."""
    seconds = time.monotonic() - command.running.since if command.runs else command.took_s
    now = "running" if command.runs else command.outcome
    return clip(
        f"{command.name}  {now} · {duration(seconds)} · {one_line(command.running.command)}", width
    )


async def _read(state: PromptState, command: "BackgroundCommand") -> None:
    screen = state.screen
    text = clean(command.running.output()).rstrip("\n") or "(no output yet)"
    path = command.output_path
    note = f"\n\nFull output: {path}" if path else ""
    head = screen.paint("title", _row(command, screen.width))
    whole = f"{head}\n\n{text}{screen.paint('dim', note)}"
    if state.is_long(text) and await state.page(whole, whole.count("\n") + 1):
        return
    lines = text.split("\n")
    screen.print_painted(head)
    if len(lines) > SHOWN_LINES:
        screen.print(f"… {plural(len(lines) - SHOWN_LINES, 'line')} before", "dim")
    screen.print("\n".join(lines[-SHOWN_LINES:]))
    if path:
        screen.print(note.strip(), "dim")
