"""The commands of the REPL, each a function over the conversation and the screen.

What is typed where, and when a command may run, is `state`.
"""

import asyncio
import base64
import contextlib
import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from kode.cli.flags import MODE_MEANS, MODES
from kode.cli.parser import nearest
from kode.cli.prompt.changes import redo, show_diff, undo
from kode.cli.prompt.overview import show_context, show_cost
from kode.cli.prompt.rewind import rewind
from kode.cli.prompt.sessions import list_sessions, resume
from kode.cli.prompt.state import Command, PromptState
from kode.cli.screen.lines import count, explained, one_line, plural
from kode.errors import UserError
from kode.programs import find_program

if TYPE_CHECKING:
    from kode.conversation import Conversation

CLIPBOARD_TIMEOUT_S = 2.0

KEYS = (
    ("Enter", "send; while a turn runs, the message waits for its end"),
    ("Alt+Enter, or \\ Enter", "start a new line"),
    ("Up", "search the history; take back a message that waits"),
    ("Tab", "complete a command, what follows it, or an @file"),
    ("Ctrl-X Ctrl-E", "write the message in your editor ($VISUAL or $EDITOR)"),
    ("Ctrl-V", "take the picture in the clipboard; a dropped or @named one goes along too"),
    ("Ctrl-O", "open the last calls whole: arguments, output, diffs, thinking"),
    ("Ctrl-B", "send the running shell command to the background (on an empty line)"),
    ("Ctrl-C", "stop the turn; clear the line"),
    ("Esc", "on an empty line: take back a message that waits; else stop the turn"),
    ("Esc Esc", "edit the last message"),
    ("Ctrl-Z", "stop kode and go back to the shell; `fg` goes on"),
    ("Ctrl-D", "leave"),
    ("!command", "run a shell command yourself; its output goes with your next message"),
)


async def show_help(state: PromptState, argument: str) -> None:
    """Every command and key with what it does."""
    rows = [(command.name, command.summary) for command in COMMANDS.values()]
    for title, pairs in (("Commands", rows), ("Keys", KEYS)):
        state.screen.print(title, "bold")
        state.screen.print(explained(pairs, state.screen.width))


async def start_new(state: PromptState, argument: str) -> None:
    """Memory takes in the session, then an empty one begins."""
    await state.conversation.new_session()
    state.screen.print("A new session. The old one is kept: /sessions.", "dim")


async def use_model(state: PromptState, argument: str) -> None:
    """Shows the model, or uses another from the next request on."""
    if argument:
        state.conversation.use_model(argument)
    status = state.conversation.status()
    window = count(status.context_window)
    state.screen.print(f"Model: {status.model} ({status.provider}), a window of {window} tokens.")
    if not argument:
        state.screen.print("/model NAME uses another.", "dim")
    elif not state.conversation.agent.provider.info.known:
        near = await asyncio.to_thread(_near_models, state.conversation, status.model)
        state.screen.print(
            f"kode does not know {one_line(status.model)}.{near} If the name is right, "
            "`context.window` and `prices` in the config say what kode cannot know.",
            "warning",
        )


def _near_models(conversation: "Conversation", model: str) -> str:
    """` Did you mean X?`; nothing where the server itself offers the model."""
    from kode.cli.prompt.choices import ServedModels, models_of

    offered = tuple(name for name, _ in models_of(conversation, ServedModels()) if name != model)
    return nearest(model, offered, cutoff=0.6)


async def memory(state: PromptState, argument: str) -> None:
    """The same as `kode memory ...`, on the open memory."""
    try:
        argv = shlex.split(argument) or ["show"]
    except ValueError as error:
        state.screen.print(f"/memory: {error}. Close the quotes and try again.", "error")
        return
    renderer = state.renderer
    renderer.held = []
    try:
        told = (await state.conversation.memory_command(argv)).rstrip("\n")
    finally:
        held, renderer.held = renderer.held, None
    state.screen.print(re.sub(r"(?m)^undo with: kode memory ", "undo with: /memory ", told))
    for event in held:
        if event.text not in told:  # of a change that was not asked for
            renderer.emit(event)


async def compact(state: PromptState, argument: str) -> None:
    """Makes room in the window now; what follows says what the note should keep above all."""
    reduced = await state.conversation.compact(argument)
    if reduced is None:
        state.screen.print(
            "There is nothing to compact yet: a note would take as much room.", "dim"
        )


async def permissions(state: PromptState, argument: str) -> None:
    """Shows mode and rules, or switches the mode."""
    if argument:
        mode = next((known for known in MODES if known == argument), None)
        if mode is None:
            state.screen.print(
                f"There is no mode {one_line(argument)!r}.{nearest(argument, MODES, cutoff=0.4)} "
                f"Modes: {', '.join(MODES)}.",
                "error",
            )
            return
        state.conversation.set_permission_mode(mode)
    state.screen.print(f"Mode: {state.conversation.mode}. {MODE_MEANS[state.conversation.mode]}")
    rules = state.conversation.gate.describe_rules()
    for rule in rules:
        state.screen.print(f"  {rule}")
    if not argument:
        state.screen.print("/permissions MODE switches: " + ", ".join(MODES) + ".", "dim")


async def copy(state: PromptState, argument: str) -> None:
    """The last answer, to the clipboard."""
    answer = state.conversation.last_answer()
    if not answer:
        state.screen.print("There is no answer to copy yet.", "dim")
        return
    ways = []
    if state.screen.rich_terminal:
        # The terminal's own clipboard (OSC 52): works through ssh, where the terminal allows it.
        payload = base64.b64encode(answer.encode("utf-8", "replace")).decode()
        state.screen.control(f"\x1b]52;c;{payload}\x07")
        ways.append("the terminal")
    program = await asyncio.to_thread(_copy_with_program, answer)
    if program:
        ways.append(program)
    if not ways:
        state.screen.print("No clipboard was found. Install wl-copy, xclip or pbcopy.", "warning")
        return
    size = plural(answer.count("\n") + 1, "line")
    state.screen.print(f"Copied {size} through {' and '.join(ways)}.", "dim")


def _copy_with_program(text: str) -> str:
    """The program that took the text; "" when there is none."""
    programs = (
        ("WAYLAND_DISPLAY", ["wl-copy"]),
        ("DISPLAY", ["xclip", "-selection", "clipboard"]),
        ("", ["pbcopy"]),
    )
    for variable, command in programs:
        program = find_program(command[0])
        if (variable and not os.environ.get(variable)) or program is None:
            continue
        # Their children keep the selection alive and would hold pipes open, so: none.
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run(
                [program, *command[1:]],
                input=text.encode("utf-8", "replace"),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=CLIPBOARD_TIMEOUT_S,
                check=True,
            )
            return command[0]
    return ""


async def export(state: PromptState, argument: str) -> None:
    """Writes the session to a new file: a transcript, or JSON where the name ends so."""
    from kode.credentials import redact
    from kode.session.export import as_json, as_markdown

    session = state.conversation.session
    name = argument.strip("\"'") or f"kode-{session.header.id}.md"
    path = state.conversation.cwd / os.path.expanduser(name)
    if name.endswith(".json"):
        text = json.dumps(as_json(session.header, session.entries), indent=2) + "\n"
    else:
        text = as_markdown(session.header, session.entries)
    try:
        await asyncio.to_thread(_write_new, path, redact(text))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UserError(f"{one_line(str(path))}: {why}. /export NAME takes another.") from None
    state.screen.print(f"Written to {path}", "dim")


def _write_new(path: Path, text: str) -> None:
    """For the person's eyes only, and never over something that is there."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)


async def show_details(state: PromptState, argument: str) -> None:
    """The last calls whole, and what was thought: paged, or printed where there is no pager."""
    from kode.cli.screen.pager import show_paged

    if argument and not (argument.isdecimal() and int(argument) > 0):
        raise UserError(f"/details takes a number of calls, not {one_line(argument)!r}: /details 3")
    newest = int(argument) if argument else None
    text, line = state.renderer.details.rendered(state.screen, newest)
    if not text:
        state.screen.print("The model has called no tool yet.", "dim")
        return
    if state.editor is not None and await show_paged(state.editor.lend_terminal, text + "\n", line):
        return
    # Without a pager all of it would push the conversation away.
    state.screen.print_painted(state.renderer.details.rendered(state.screen, newest or 1)[0])


async def background(state: PromptState, argument: str) -> None:
    """Sends the running shell command to the background; lists, reads, kills those there."""
    from kode.cli.prompt import background

    await background.background(state, argument)


async def leave(state: PromptState, argument: str) -> None:
    """Ends the REPL; asks first while something runs in the background."""
    from kode.cli.prompt.background import may_leave

    if await may_leave(state):
        state.leave()


COMMANDS = {
    command.name: command
    for command in (
        Command("/help", "commands and keys", show_help, while_busy=True),
        Command("/new", "start a new session", start_new),
        Command("/resume", "open another session: /resume [NUMBER or ID]", resume),
        Command("/sessions", "list the sessions of this directory", list_sessions, while_busy=True),
        Command("/model", "show or change the model: /model [NAME]", use_model),
        Command("/memory", "what is remembered: /memory [show|search|log|undo ...]", memory),
        Command("/cost", "tokens and money: last turn, session, today", show_cost, while_busy=True),
        Command(
            "/context",
            "what fills the model's window, and what could be freed",
            show_context,
            while_busy=True,
        ),
        Command("/compact", "make room in the window now: /compact [WHAT TO KEEP]", compact),
        Command(
            "/undo", "take back the file changes of the last turn; again: the one before", undo
        ),
        Command("/rewind", "go back to a prompt: files, conversation or both", rewind),
        Command("/redo", "bring back what /undo took back", redo),
        Command("/diff", "what this session has changed: /diff [FILE]", show_diff, while_busy=True),
        Command("/details", "open the last calls whole: /details [N]", show_details, True),
        Command("/bg", "background: move, list, /bg read ID, /bg kill ID", background, True),
        Command(
            "/permissions",
            "show rules, or switch: /permissions [MODE]",
            permissions,
            while_busy=True,
        ),
        Command("/copy", "copy the last answer", copy, while_busy=True),
        Command("/export", "write the session to a file: /export [NAME.md or NAME.json]", export),
        Command("/quit", "leave", leave, while_busy=True),
    )
}
