"""The state of the prompt: running work, queued input, the last message.

Work runs in one task at a time, which Ctrl-C cancels. `repl`, `editor` and `plain` supply lines;
`slash` has the commands; `render` shows a turn.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kode.cli import elsewhere
from kode.cli.flags import MODES
from kode.cli.parser import nearest
from kode.cli.prompt import brought
from kode.cli.prompt.attach import attach
from kode.cli.prompt.paste import Pastes
from kode.cli.screen.lines import clip, one_line
from kode.cli.screen.notify import LONG_TURN_S
from kode.cli.screen.progress import how_to_stop, spinner_line, status_line
from kode.cli.screen.render import Renderer
from kode.cli.screen.screen import Editor, Screen
from kode.errors import KodeError, UserError
from kode.messages import plural

if TYPE_CHECKING:
    from kode.conversation import Conversation, StatusLine
    from kode.providers.listing import Listing, Offer

Opening = Callable[[], Awaitable["Conversation"]]
"""Opens the conversation. Raises: KodeError if that fails."""

SECOND_CANCEL_S = 2.0
"""Another Ctrl-C cancels again only after this time: saving must not be cut short."""

LEAVE_GRACE_S = 10.0
CLOSING_IS_SHOWN_AFTER_S = 0.5
CLOSING_IS_SHOWN_EVERY_S = 0.1
OPENING_IS_SHOWN_AFTER_S = 1.0
PLAIN_FIRST_S, PLAIN_EVERY_S = 3.0, 30.0
"""On a terminal without repainting, when progress is first reported, and how often after."""


@dataclass(frozen=True)
class Command:
    """A slash command."""

    name: str
    summary: str
    run: Callable[["PromptState", str], Awaitable[None]]
    while_busy: bool = False
    """Whether it runs beside a turn; the others wait for its end."""
    alone: bool = False
    """Whether it takes no argument."""


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
    return elsewhere.PROMPT_ALIASES.get(name, name), argument.strip()


class Prompt(Editor, Protocol):
    """What is needed of the prompt below; without one, lines are read plainly."""

    pastes: Pastes

    def use_vi(self) -> None: ...

    def stop(self) -> None:
        """Removes it from the screen."""

    def put_back(self, text: str) -> None:
        """Puts a text back into the line, before what is being typed."""

    def interrupt(self) -> None:
        """Acts as Ctrl-C."""

    async def lend_terminal(self, program: Callable[[], bool]) -> bool:
        """Runs a program that takes over the terminal, and returns its result."""


@dataclass
class PromptState:
    """The state of the prompt: running work, the queue, the last message."""

    screen: Screen
    renderer: Renderer
    commands: Mapping[str, "Command"]
    """Name, with its `/`, → command."""
    opened: "Conversation | None" = None
    """None while it is being opened."""
    fault: Exception | None = None
    """Why it could not be opened."""
    editor: Prompt | None = None
    resume_flags: str = ""
    """Flags to repeat when resuming with the same model."""
    waiting: list[str] = field(default_factory=list)
    """Messages typed while work runs, folded as typed; sent in order at its end."""
    steering: list[str] = field(default_factory=list)
    """Messages for the running turn, which the model gets with its next step."""
    in_turn: bool = False
    """Whether the running work is a turn of the model."""
    folder: Path = field(default_factory=Path.cwd)
    """The base of file names, until the conversation is open."""
    work: "asyncio.Task[None] | None" = None
    beside: set["asyncio.Task[None]"] = field(default_factory=set)
    """Commands that run beside a turn."""
    pressed: set[str] = field(default_factory=set)
    """Unfinished commands started by a key: a held key starts only one."""
    reading: "asyncio.Task[str | None] | None" = None
    """The line being read without an editor."""
    leaving: bool = False
    sent: str | None = None
    """The last message, folded as typed."""
    unsent: str | None = None
    """The message being sent, until work on it starts: stopping earlier puts it back into the
    line."""
    replacing: bool = False
    """Whether the next message replaces the last one (Esc Esc)."""
    doing: str = ""
    """What runs, if it is not a turn."""
    unfinished: str | None = None
    """The unfinished output line of the person's running shell command."""
    work_since: float = 0.0
    cancelled_at: float | None = None
    closing: "asyncio.Task[None] | None" = None
    listing: "Listing | None" = None
    """The models that can be switched to; None until they are wanted."""
    _status: "StatusLine | None" = None
    _seen: tuple[int, int] = (0, 0)
    """How many replies there were, and how many commands ran in the background, for `_status`."""

    @property
    def conversation(self) -> "Conversation":
        """The open conversation; commands that need one do not run before."""
        assert self.opened is not None
        return self.opened

    def offers(self, *, ask: bool) -> "list[Offer]":
        """What the configured providers offer; with `ask` all that can be asked are. Call it in a
        thread."""
        if self.listing is None:
            from kode.providers.listing import Listing

            self.listing = Listing()
        talk = self.conversation
        return self.listing.offers(talk.config, talk.agent.provider, ask=ask)

    @property
    def busy(self) -> bool:
        return self.work is not None and not self.work.done()

    def submit(self, text: str, *, later: bool = False) -> None:
        """Handles a typed line. While a turn runs, the model gets a message with its next step, or
        with `later`, when the turn has ended; anything else waits for the running work."""
        if not self.busy:
            self._start(text)
            return
        command = command_of(text) if self.opened is not None else None
        if command and (known := self.commands.get(command[0])) and known.while_busy:
            self._echo(text)
            self._beside(self._command, *command)
            return
        steers = self.in_turn and not later and command is None and not text.startswith("!")
        (self.steering if steers and not self._has_pictures(text) else self.waiting).append(text)
        self.screen.redraw()

    def take_steering(self) -> list[str]:
        """The messages for the model's next step; they can no longer be edited."""
        texts, self.steering = self.steering, []
        pastes = self.editor.pastes if self.editor is not None else None
        return [pastes.unfold(text) for text in texts] if pastes else texts

    def _has_pictures(self, text: str) -> bool:
        return self.editor is not None and bool(self.editor.pastes.pictures_in(text))

    def beside_work(self, command: str) -> None:
        """Runs a key's command at once, beside other work, without an echo."""
        if self.opened is None and command == "/quit":
            self.leave()
        elif self.opened is not None and command not in self.pressed:
            self.pressed.add(command)
            self._beside(self._pressed, command)

    def _beside(self, doing: Callable[..., Awaitable[object]], *arguments: str) -> None:
        task = asyncio.ensure_future(self._guarded(doing, *arguments))
        self.beside.add(task)
        task.add_done_callback(self.beside.discard)

    async def _pressed(self, command: str) -> None:
        try:
            await self._run(command, "")
        finally:
            self.pressed.discard(command)

    def interrupt(self) -> bool:
        """Stops the running work; False if there was none."""
        if self.closing is not None:
            return self.closing.cancel()
        if self.work is None or self.work.done():
            return False
        now = time.monotonic()
        if self.cancelled_at is None or now - self.cancelled_at > SECOND_CANCEL_S:
            self.cancelled_at = now
            self.work.cancel()
        self.screen.redraw()
        return True

    def leave(self) -> None:
        """Ends the REPL; stops a running turn first."""
        self.leaving = True
        self.interrupt()
        if self.editor is not None:
            self.editor.stop()
        if self.reading is not None:
            self.reading.cancel()

    def take_back(self) -> str | None:
        """Removes the newest queued message from the queue and returns it."""
        texts = self.waiting or self.steering
        return texts.pop() if texts else None

    def hint(self, text: str) -> None:
        self.screen.print(text, "dim")

    def refresh(self) -> None:
        self.screen.flush()
        self.screen.redraw()

    def is_long(self, text: str) -> bool:
        """Whether a text does not fit the screen."""
        return text.count("\n") + 4 > self.screen.rows()

    async def page(self, text: str, line: int = 1) -> bool:
        """Shows a painted text in the person's pager, from a line on; False if there is none, or no
        prompt."""
        from kode.cli.screen.pager import show_paged

        editor = self.editor
        return editor is not None and await show_paged(editor.lend_terminal, text + "\n", line)

    def live(self, width: int, height: int) -> list[tuple[str, str]]:
        """The lines above the prompt: what runs, and what is queued."""
        if not self.busy:
            return []
        waiting = [
            ("queued", clip(f"{when}: {one_line(text)} (Up to edit)", width))
            for when, texts in (("next step", self.steering), ("queued", self.waiting))
            for text in texts[-3:]
        ]
        now = time.monotonic()
        lines = self.renderer.live(width, max(height - len(waiting), 1))
        if self.screen.asking:
            return lines + waiting
        if self.cancelled_at is not None:
            what, since, stop = "Stopping", self.cancelled_at, ""
        elif lines:
            return lines + waiting
        else:
            ran_s = now - self.work_since if self.unfinished is not None else 0.0
            what, since = self.doing or "Working", self.work_since
            stop = how_to_stop(ran_s, width)
        if self.opened is None and now - since < OPENING_IS_SHOWN_AFTER_S:
            return waiting
        shown = lines[:-1]
        if self.unfinished:
            shown.append(("", clip(self.unfinished, width)))
        return [*shown, ("", spinner_line(what, now, since, width, stop)), *waiting]

    def next_mode(self) -> None:
        """Shift-Tab: switches to the next permission mode, from the next call on."""
        if self.opened is None:
            return
        mode = MODES[(MODES.index(self.opened.mode) + 1) % len(MODES)]
        self.opened.set_permission_mode(mode)
        self._status = None
        self.screen.redraw()

    def status(self, width: int) -> list[tuple[str, str]]:
        """Permission mode, model, context and cost, as far as they fit: (style, text)."""
        if self.opened is None:
            return [("", "")]
        seen = (self.renderer.replies, len(self.conversation.commands.running()))
        if self._status is None or self._seen != seen:
            self._seen = seen
            self._status = self.conversation.status()
        return status_line(self._status, width)

    async def idle(self) -> None:
        """Returns when nothing runs and nothing is queued. On a terminal without repainting, prints
        progress now and then."""
        pause_s = PLAIN_FIRST_S
        while self.work is not None and not self.work.done():
            done, _ = await asyncio.wait([self.work], timeout=pause_s)
            if not done and self.opened is not None and not self.screen.asking:
                progress, now = self.renderer.progress, time.monotonic()
                if progress.idle:
                    line = spinner_line(self.doing or "Working", now, self.work_since, 80)
                else:
                    line = progress.line(now, self.screen.width)
                self.screen.print(line.split(" ", 1)[1], "dim")
                pause_s = PLAIN_EVERY_S

    async def finish(self) -> None:
        """Waits for what was stopped, closes the conversation, says how to resume."""
        if self.work is not None:
            await asyncio.wait([self.work], timeout=LEAVE_GRACE_S)
        for task in self.beside:
            task.cancel()
        if self.opened is None:
            return
        session_id = self.conversation.session.id
        used = self.conversation.status().turns > 0
        self.closing = asyncio.ensure_future(self._guarded(self.conversation.close))
        done, _ = await asyncio.wait([self.closing], timeout=CLOSING_IS_SHOWN_AFTER_S)
        if not done:
            await self._show_closing(self.closing)
        if session_id is not None and used:
            more = f" {self.resume_flags}" if self.resume_flags else " (or kode -c)"
            self.screen.print(f"Resume with: kode continue --id {session_id}{more}", "dim")
        self.screen.flush()

    async def _show_closing(self, closing: "asyncio.Task[None]") -> None:
        """Shows what is being waited for until it is done."""
        what, stop = "Saving memory", "Ctrl-C skips"
        if not self.screen.rich_terminal:
            self.screen.print(f"{what}… ({stop})")
            await asyncio.wait([closing])
            return
        since = time.monotonic()
        while not closing.done():
            now = time.monotonic()
            self.screen.show_line(spinner_line(what, now, since, self.screen.width - 1, stop))
            await asyncio.wait([closing], timeout=CLOSING_IS_SHOWN_EVERY_S)
        self.screen.clear_line()

    def open(self, opening: Opening) -> None:
        """Opens the conversation as the first work; lines typed meanwhile are queued."""
        self.doing, self.work_since = "Opening", time.monotonic()
        self.work = asyncio.ensure_future(self._open(opening))
        self.work.add_done_callback(self._done)

    async def _open(self, opening: Opening) -> None:
        try:
            self.opened = await opening()
            if self.editor is not None:
                self.editor.notifier.setting = self.opened.config.repl.notify
                if self.opened.config.repl.vi_mode:
                    self.editor.use_vi()
            if self.opened.status().turns:
                self.show_resumed()
        except asyncio.CancelledError:
            self.leave()
        except Exception as error:
            # Nothing can be done without a conversation; `main` reports the fault.
            self.fault = error
            self.leave()

    def show_resumed(self) -> None:
        """Shows which session this is, with its last exchange."""
        talk = self.conversation
        turns = plural(talk.status().turns, "turn")
        self.screen.print(f"Resumed {talk.session.id} ({turns}).", "dim")
        if prompts := talk.past.prompts():
            self.screen.print_prompt(prompts[-1])
        if answer := talk.last_answer():
            self.renderer.show_answer(answer)

    def _start(self, text: str) -> None:
        self.cancelled_at, self.work_since, self.unsent = None, time.monotonic(), text
        self.work = asyncio.ensure_future(self._guarded(self._do, text))
        self.work.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        stopped = self.cancelled_at is not None
        self.cancelled_at, self.doing, self._status = None, "", None
        # Messages left over from a failed turn go to the next one.
        self.waiting[:0], self.steering = self.steering, []
        self.renderer.progress.rest()
        self.screen.redraw()
        if self.leaving:
            return
        if stopped and self.editor is not None:
            # Someone who stops a turn wants to think: unsent messages go back to the line.
            unsent = [self.unsent] if self.unsent is not None else []
            if back := [*unsent, *self.waiting]:
                self.editor.put_back("\n".join(back))
            self.waiting.clear()
        elif self.waiting:
            self._start(self.waiting.pop(0))

    async def _guarded(self, doing: Callable[..., Awaitable[object]], *arguments: Any) -> None:
        """Runs work to its end: shows errors, and ignores a stop. Takes a function: a task stopped
        before it starts would leave an unawaited coroutine."""
        try:
            await doing(*arguments)
        except asyncio.CancelledError:
            return
        except KodeError as error:
            self.screen.print(f"Error: {error}", "error")
        except Exception as error:
            from kode.fault_reports import write_report

            self.screen.print(f"An internal error in kode. {write_report(error)}", "error")

    async def _do(self, text: str) -> None:
        self._echo(text)
        if text.startswith("!"):
            self.unsent = None
            await self._shell(text[1:].strip())
            return
        command = command_of(text)
        if command is not None:
            self.unsent = None
            await self._command(*command)
            return
        if self.replacing:
            self.replacing = False
            self.conversation.past.take_back_last_message()
        self.sent = text
        pastes = self.editor.pastes if self.editor is not None else None
        whole, pasted = (pastes.unfold(text), pastes.pictures_in(text)) if pastes else (text, [])
        await attach(self.conversation, self.screen, text, pasted)
        self.unsent = None
        await self.run_turn(whole, text)

    async def run_turn(self, text: str, shown: str = "") -> None:
        """Runs a turn to its end, and notifies a person who is elsewhere. `shown` is how they typed
        it, with pasted blocks folded."""
        self.doing, self.in_turn = "", True
        try:
            ended = await self.conversation.turn(
                text, steering=self.take_steering, typed=shown or text
            )
        finally:
            self.in_turn = False
        if self.conversation.fresh_plan:
            from kode.cli.prompt.plan import ask_about_plan

            await ask_about_plan(self)
            return
        if ended.duration_ms >= LONG_TURN_S * 1000 and self.waiting == []:
            outcome = "is done" if ended.status == "success" else f"ended: {ended.status}"
            self.screen.notify(f"{one_line(shown or text)} {outcome}")

    def _echo(self, text: str) -> None:
        """Prints a sent message into the scrollback; a plain terminal has shown it already."""
        if self.editor is not None:
            self.screen.print_prompt(text)

    async def _command(self, name: str, argument: str) -> None:
        self.doing = f"Running {one_line(name)}"
        await self._run(name, argument)
        self._status = None

    async def _run(self, name: str, argument: str) -> None:
        """Runs a command; an unknown one is reported with the nearest. Raises: KodeError."""
        if name not in self.commands and await brought.run(self, name, argument):
            return
        begun = [known for known in self.commands if known.startswith(name)]
        command = self.commands.get(name) or (self.commands[begun[0]] if len(begun) == 1 else None)
        if command is not None:
            if argument and command.alone:
                raise UserError(f"{command.name} takes no argument: send it alone.")
            await command.run(self, argument)
            return
        if said := elsewhere.PROMPT_COMMANDS.get(name):
            self.screen.print(said, "dim")
            return
        near = nearest(name, self.commands)
        what = f"There is no command {one_line(name)}.{near}" if name != "/" else "It needs a name."
        self.screen.print(f"{what} /help lists the commands.", "error")

    async def _shell(self, command: str) -> None:
        if not command:
            self.screen.print("! runs a shell command: !ls", "error")
            return
        from kode.cli.prompt.shell_line import run_shell_line

        self.doing, talk = f"Running {one_line(command)}", self.conversation
        try:
            ran = await run_shell_line(
                command,
                talk.cwd,
                self._show_output,
                talk.commands,
                session_id=talk.session.id,
                output_dir=talk.agent.place.outputs,
            )
        except asyncio.CancelledError:
            self.screen.print("Stopped.", "warning")
            raise
        finally:
            self.unfinished = None
        if ran.exit_code is None:
            ended = f"moved to the background as {ran.name}"
            shown = f"{ended} · /bg read {ran.name} shows its output"
            ended += f"; its output is in {ran.output_path}" if ran.output_path else ""
        else:
            ended = f"exit code {ran.exit_code}"
            shown = f"exit {ran.exit_code}"
        style = "warning" if ran.exit_code else "dim"
        self.screen.print(f"{shown} · sent with your next message", style)
        note = f"[The person ran this in the shell; {ended}]\n$ {command}\n{ran.output}"
        talk.attach_command(command, note)

    def _show_output(self, text: str, unfinished: str) -> None:
        self.unfinished = unfinished
        if text:
            self.screen.print(text)
