"""Handles a typed line, which is a message, a command or a shell command: now, with the model's
next step, or after the running job. Also runs turns, and asks what to do with a new plan.

`slash` has the commands.
"""

import asyncio
import os
import re
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kode.cli.parser import HINTS, suggest
from kode.cli.prompt.attach import attach_to_next_turn, read_mentioned
from kode.cli.prompt.state import PROMPT_ALIASES, PromptState, Work
from kode.cli.screen.lines import one_line
from kode.cli.screen.menu import Choice, Menu
from kode.errors import UserError
from kode.events import UNBEGUN
from kode.permissions.names import PermissionMode
from kode.permissions.question import Question, visible
from kode.tools.output import Capture
from kode.tools.processes import READ_BYTES, ProcessTree

if TYPE_CHECKING:
    from kode.conversation import Conversation
    from kode.conversation.structured import Form

Opening = Callable[[], Awaitable["Conversation"]]
"""Opens the conversation. Raises: KodeError if that fails."""

LONG_TURN_S = 30.0  # a person looks away from longer turns

_WORDS = {"?": "/help", "exit": "/quit", "quit": "/quit", ":q": "/quit"}
"""Words that are commands when alone on a line."""

_FACT = re.compile(r"#\s*(?=[^\W\d])")
"""Prefix of a line to remember; `#12 fails` and `#!/bin/sh` are messages."""


def parse_command(text: str) -> tuple[str, str] | None:
    """Returns (name, argument) of a command, with aliases resolved; None for a message. A line that
    begins with a path is a message: `/usr/bin/env is missing`."""
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


def begin_job(state: PromptState, work: Work, *arguments: object) -> None:
    """Starts a job; lines that are queued while it runs are handled after it."""
    state.start_job(work, *arguments, then=partial(_start_next, state))


def open_conversation(state: PromptState, opening: Opening) -> None:
    """Opens the conversation as the first job; lines typed meanwhile are queued."""
    state.start_job(_open_in_job, state, opening, then=partial(_start_first, state), what="Opening")


def submit(state: PromptState, text: str, *, later: bool = False) -> None:
    """Handles a typed line. While a turn runs, the model gets a message with its next step, or
    after the turn with `later`. A `while_busy` command runs at once; all else waits for the job."""
    if not state.listens:
        return
    if not state.is_busy:
        start_line(state, text)
        return
    command = parse_command(text) if state.opened is not None else None
    slash_command = state.commands.get(command[0]) if command else None
    if command and slash_command and slash_command.while_busy:
        _echo(state, text)
        state.start_beside(text, _run_slash, state, *command)
        return
    # A message that is still being prepared will have become a turn by the time this is read.
    in_turn = state.in_turn or state.unsent is not None
    steers = in_turn and not later and _can_steer(state, text)
    (state.steering if steers else state.queued).append(text)
    state.screen.redraw()


def run_key_command(state: PromptState, command: str) -> None:
    """Runs a key's command at once, beside other work, without an echo."""
    if state.opened is not None:
        state.start_beside(command, _run_slash, state, command, "")
    elif command == "/quit":
        state.leave()


def show_details(state: PromptState) -> None:
    """Shows the last tool calls and thoughts in full."""
    if text := state.renderer.render_details():
        state.screen.print_painted(text)
    else:
        state.screen.print("The model has not called a tool yet.", "dim")


async def _open_in_job(state: PromptState, opening: Opening) -> None:
    try:
        state.opened = conversation = await opening()
        state.screen.notifies = conversation.config.repl.notify is not False
        state.screen.use_theme(conversation.config.repl.theme)
        if state.editor is not None and conversation.config.repl.vi_mode:
            state.editor.switch_vi()
        if conversation.session.turns:
            state.show_resumed()
    except asyncio.CancelledError:
        state.leave()
    except Exception as error:
        # Nothing can be done without a conversation; `main` reports the fault.
        state.fault = error
        state.leave()


def start_line(state: PromptState, text: str) -> None:
    """Handles a line now. The caller makes sure that no job is running."""
    state.unsent = text
    begin_job(state, _do_line, state, text)


def _start_next(state: PromptState, was_stopped: bool) -> None:
    """After a job, starts the next queued line; after a stop, puts the line back to be edited."""
    # Steering messages that a failed turn never took go to the next one.
    state.queued[:0], state.steering = state.steering, []
    state.renderer.progress.clear()
    state.screen.redraw()
    if state.leaving:
        return
    if was_stopped and state.editor is not None:
        # Someone who stops a turn wants to think: nothing is sent before the next Enter.
        if state.unsent is not None or state.queued:
            state.editor.put_back(state.unsent or state.queued.pop(0))
    elif state.queued:
        start_line(state, state.queued.pop(0))


def _start_first(state: PromptState, was_stopped: bool) -> None:
    """After the conversation has opened, starts the first line typed meanwhile. Messages after that
    line steer its turn, before any that are typed later."""
    _start_next(state, was_stopped)
    while state.editor is not None and state.queued and _can_steer(state, state.queued[0]):
        state.steering.append(state.queued.pop(0))


def _can_steer(state: PromptState, text: str) -> bool:
    """Whether a line may reach the model in the middle of a turn: a message without attachments,
    which only the message that begins a turn may have."""
    if text.startswith("!") or state.opened is None or parse_command(text) is not None:
        return False
    is_bare = not state.pastes.pictures_in(text)
    return is_bare and not read_mentioned(text, state.conversation.place.cwd)


async def _do_line(state: PromptState, text: str) -> None:
    _echo(state, text)
    command = parse_command(text)
    if text.startswith("!"):
        state.unsent = None
        await run_typed(state, text[1:].strip())
        return
    if command is not None:
        state.unsent = None
        state.doing = f"Running {one_line(command[0])}"
        await _run_slash(state, *command)
        return
    if state.replacing:
        state.replacing = False
        if prompts := state.conversation.prompts():
            await state.conversation.rewind(len(prompts), files=False, messages=True)
    state.sent = text
    pictures = state.pastes.pictures_in(text)
    await attach_to_next_turn(state.conversation, text, pictures, state.screen.print)
    state.unsent = None
    await run_turn(state, state.pastes.unfold(text), text)


def _echo(state: PromptState, text: str) -> None:
    """Prints a sent message into the scrollback; a plain terminal has shown it already."""
    if state.editor is not None:
        state.screen.print_prompt(text)


async def _run_slash(state: PromptState, name: str, argument: str) -> None:
    """Runs the command with this name or unique prefix, or a turn for a command, skill or prompt
    that an extension adds; for an unknown name, suggests the nearest one. Raises: KodeError."""
    command, extensions = state.commands.get(name), state.conversation.extensions
    if command is None:
        offered = await asyncio.to_thread(state.conversation.list_offered)
        if name[1:] in offered or (extensions is not None and extensions.brings(name)):
            return await run_turn(state, f"{name} {argument}".strip())
    completed = [known for known in state.commands if known.startswith(name)]
    if command is None and len(completed) == 1:
        command = state.commands[completed[0]]
    if command is None and (hint := HINTS.get(name)):
        state.screen.print(hint, "dim")
    elif command is None:
        near = suggest(name, state.commands)
        what = f"There is no command {one_line(name)}.{near}" if name != "/" else "It needs a name."
        state.screen.print(f"{what} /help lists the commands.", "error")
    elif argument and not command.takes:
        raise UserError(f"{command.name} takes no argument: send it alone.")
    else:
        await command.run(state, argument)


async def run_turn(
    state: PromptState, text: str, shown: str = "", form: "Form | None" = None
) -> None:
    """Runs a turn to its end, then asks about a new plan, or rings after a long turn. `shown` is
    the text as typed, with pastes folded; `form` is the form of the answer. Raises: KodeError."""
    conversation = state.conversation
    state.doing, state.in_turn, state.screen.ended, ended = "", True, None, UNBEGUN
    try:
        ended = await conversation.turn(
            text, steering=state.take_steering, typed=shown or text, form=form
        )
    finally:
        state.in_turn, state.screen.ended = False, ended
    if conversation.fresh_plan:
        await _ask_about_plan(state)
    elif ended.duration_ms >= LONG_TURN_S * 1000 and not state.queued:
        state.screen.notify()


async def _ask_about_plan(state: PromptState) -> None:
    """Asks what to do with the plan that the last turn ended with, and does it."""
    menu = Menu(
        [
            Choice("ask", "go ahead, ask before each change", "y"),
            Choice("auto-edit", "go ahead, edit files in the project without asking", "a"),
            Choice("edit", "edit the plan first", "e"),
            Choice("no", "keep planning", "n"),
        ],
        above=lambda width: ["", state.screen.paint("bold", "Go ahead with this plan?")],
        selected=3,
        hint="Tab: write what to change",
        takes_words=True,
    )
    chosen = "edit"
    while chosen == "edit":
        plan = await asyncio.to_thread(lambda: state.conversation.plan.text)
        question = Question(tool="plan", title="Go ahead with this plan?", preview=visible(plan))
        keys = state.screen.read_answer("plan: ", menu)
        answer = await state.screen.await_first_answer(
            keys, question, lambda given: "ask" if given.choice == "once" else given.message or "no"
        )
        chosen = (answer or "").strip() or "no"
        if chosen == "edit":
            await edit_plan(state)
    if chosen in ("ask", "auto-edit"):
        await go_ahead(state, "auto-edit" if chosen == "auto-edit" else "ask")
    elif chosen != "no":
        await run_turn(state, chosen)
    else:
        state.screen.print("Still planning. /plan go approves it, /plan edit edits it.", "dim")


async def go_ahead(state: PromptState, mode: PermissionMode) -> None:
    """Approves the plan, and runs the turn that carries it out. Raises: KodeError."""
    text = await state.conversation.approve_plan(mode)
    state.screen.print(f"Plan approved · mode {mode}", "dim")
    await run_turn(state, text)


async def edit_plan(state: PromptState) -> None:
    """Opens the plan in the person's editor; the model gets the changes with the next message."""
    plan = state.conversation.plan
    if state.editor is None:
        state.screen.print(f"The plan is in {plan.path}: edit it there.", "dim")
        return
    before = await asyncio.to_thread(lambda: plan.text)
    text = await state.editor.edit_text(before) + "\n"
    if text != before:
        await asyncio.to_thread(plan.write, text)
    state.renderer.show_answer(text)


async def run_shell_line(
    command: str, cwd: Path, show: Callable[[str, str], None], output_dir: Path
) -> tuple[int, str]:
    """Runs a shell command that the person typed, without any permission check. Returns its exit
    code and its output, of which only both ends are kept if it is long, with the path of the whole.
    `show` gets each batch of whole lines ("" for none) and the unfinished line. If cancelled, ends
    every process of the command. Raises: UserError if no shell can be started."""
    capture, tree, data = Capture(output_dir, "shell-line"), ProcessTree(), b"-"
    pipes = {"stdin": DEVNULL, "stdout": PIPE, "stderr": STDOUT}
    argv = ("/bin/sh", "-c", command)
    try:
        process = await tree.start_with_pipes(*argv, environment=os.environ, cwd=cwd, **pipes)
        try:
            while data and process.stdout is not None:
                data = await process.stdout.read(READ_BYTES)
                show(capture.take(data, final=not data).removesuffix("\n"), capture.partial)
            return await process.wait(), capture.text() + capture.partial
        except asyncio.CancelledError:
            await tree.end()
            await process.wait()
            raise
    except (OSError, ValueError) as error:
        raise UserError(f"The command could not be started in {cwd}: {error}.") from None
    finally:
        tree.forget()
        capture.close()


async def run_typed(state: PromptState, command: str) -> None:
    """Runs the command after `!`, shows its output, and attaches that output to the next message.
    Raises: UserError."""
    if not command:
        raise UserError("! runs a shell command: !ls")
    state.doing, conversation = f"Running {one_line(command)}", state.conversation

    def show(text: str, unfinished: str) -> None:
        state.unfinished = unfinished
        if text:
            state.screen.print(text)

    outputs = conversation.agent.place.outputs
    try:
        code, output = await run_shell_line(command, conversation.place.cwd, show, outputs)
    except asyncio.CancelledError:
        state.screen.print("Stopped.", "warning")
        raise
    finally:
        state.unfinished = None
    style = "warning" if code else "dim"
    state.screen.print(f"exit status {code} · sent with your next message", style)
    note = f"[The person ran this in the shell; exit status {code}]\n$ {command}\n{output}"
    conversation.attach_command(command, note)


def move_to_background(state: PromptState) -> None:
    """Moves the agent's running shell command to the background, or says that there is none."""
    if state.opened is None or not state.conversation.commands.move():
        state.screen.print("No shell command is running.", "dim")
