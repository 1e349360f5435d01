"""The state of the prompt: the conversation, the running job, queued input, the last message, and
what is drawn below the output.

`repl` and `editor` supply lines; `submit` handles them.
"""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kode.cli.flags import MODES
from kode.cli.prompt.attach import Pastes
from kode.cli.screen.lines import clip, one_line
from kode.cli.screen.progress import STOP, spinner_line
from kode.cli.screen.render import Renderer
from kode.cli.screen.screen import Screen
from kode.errors import KodeError
from kode.messages import Text, plural
from kode.process import write_report
from kode.values import dataclass, field

if TYPE_CHECKING:
    from kode.cli.prompt.editor import Editor
    from kode.conversation import Conversation

Work = Callable[..., Awaitable[object]]

SECOND_STOP_S = 2.0
"""A second Ctrl-C within this time is ignored, so that saving is not cut short."""
OPENING_IS_SHOWN_AFTER_S = 1.0  # shorter waits need no explanation

PROMPT_ALIASES: Mapping[str, str] = {
    "/agents": "/extensions agents",
    "/clear": "/new",
    "/commands": "/extensions commands",
    "/exit": "/quit",
    "/hooks": "/extensions hooks",
    "/mcp": "/extensions mcp",
    "/mode": "/permissions",
    "/sessions": "/resume",
    "/skills": "/extensions skills",
    "/usage": "/cost",
}
"""Aliases of prompt commands, which no list shows → the command, some with a first argument."""


@dataclass(frozen=True)
class SlashCommand:
    """A slash command, with what `/help` says about it."""

    name: str
    summary: str
    run: Callable[["PromptState", str], Awaitable[None]]
    takes: str = ""
    """Its arguments, as help shows them; "" if it takes none."""
    while_busy: bool = False
    """Whether it may run during a turn; other commands wait until the turn ends."""


@dataclass
class PromptState:
    """The state of the prompt: the conversation, the job, the queue, the last message."""

    screen: Screen
    renderer: Renderer
    commands: Mapping[str, SlashCommand]
    """Name, with its `/`, → command."""
    opened: "Conversation | None" = None
    """None while it is being opened."""
    fault: Exception | None = None
    """Why the conversation could not be opened, or its first task not be started."""
    editor: "Editor | None" = None
    """The prompt below; without one, lines are read plainly."""
    pastes: Pastes = field(default_factory=Pastes)
    queued: list[str] = field(default_factory=list)
    """Messages typed while work runs, with pastes folded; sent in order when it ends."""
    steering: list[str] = field(default_factory=list)
    """Messages for the model's next step in the running turn."""
    in_turn: bool = False
    """Whether the running work is a turn of the model."""
    folder: Path = field(default_factory=Path.cwd)
    """The folder that file names are relative to, until the conversation is open."""
    reading: "asyncio.Task[str | None] | None" = None
    """The line being read without an editor."""
    listens: bool = True
    """Whether typed lines are messages and commands; otherwise only questions are answered."""
    leaving: bool = False
    sent: str | None = None
    """The last message, folded as typed."""
    unsent: str | None = None
    """The line being handled, until work on it starts; a stop before that puts it back into the
    editor."""
    replacing: bool = False
    """Whether the next message replaces the last one (Esc Esc)."""
    unfinished: str | None = None
    """The unfinished output line of the person's running shell command."""
    closing: "asyncio.Task[None] | None" = None
    doing: str = ""
    """What the spinner says about the job; "" for a turn."""
    stopping_since: float | None = None
    """When the job's stop was requested; None if it was not."""
    job: "asyncio.Task[None] | None" = None
    """The running work, of which there is one at a time; Ctrl-C stops it."""
    beside: set["asyncio.Task[None]"] = field(default_factory=set)
    """Work that runs beside the job, such as the commands that are allowed during a turn."""
    questions: dict["asyncio.Task[object]", str] = field(default_factory=dict)
    """The task that asks each side question (`/btw`) → the question."""
    _job_since: float = 0.0

    @property
    def conversation(self) -> "Conversation":
        """The open conversation; commands that need one do not run before."""
        assert self.opened is not None
        return self.opened

    @property
    def is_busy(self) -> bool:
        """Whether a job runs, or has ended and its follow-up has not begun."""
        return self.job is not None

    def start_job(
        self, work: Work, *arguments: object, then: Callable[[bool], None], what: str = ""
    ) -> None:
        """Starts the job, which the spinner calls `what`; no other may be running. When it ends,
        `then` is called with whether it was stopped."""

        def end_job(task: "asyncio.Task[None]") -> None:
            was_stopped = self.stopping_since is not None
            self.job, self.stopping_since, self.doing = None, None, ""
            then(was_stopped)

        self.stopping_since, self._job_since, self.doing = None, time.monotonic(), what
        self.job = asyncio.ensure_future(self.guard(work, *arguments))
        self.job.add_done_callback(end_job)

    def start_beside(self, name: str, work: Work, *arguments: object) -> None:
        """Starts work beside the job, unless work of this name is still running: a key that is held
        down starts it once."""
        if name not in {task.get_name() for task in self.beside}:
            task = asyncio.create_task(self.guard(work, *arguments), name=name)
            self.beside.add(task)
            task.add_done_callback(self.beside.discard)

    async def guard(self, work: Work, *arguments: object) -> None:
        """Awaits work; prints why it failed, and swallows a cancellation. Takes a function, because
        a task that is cancelled before it starts would leave a coroutine that nobody awaits."""
        try:
            await work(*arguments)
        except asyncio.CancelledError:
            return
        except KodeError as error:
            self.screen.print(f"Error: {error}", "error", "Error:")
        except Exception as error:
            self.screen.print(f"An internal error in kode. {write_report(error)}", "error")

    def interrupt(self) -> bool:
        """Stops the newest side question, else the closing, else the job; False if none runs."""
        if self.questions:
            return [*self.questions][-1].cancel()
        if self.closing is not None:
            return self.closing.cancel()
        if self.job is None:
            return False
        now = time.monotonic()
        if self.stopping_since is None or now - self.stopping_since > SECOND_STOP_S:
            self.stopping_since = now
            self.job.cancel()
        self.screen.redraw()
        return True

    def take_steering(self) -> list[Text]:
        """Takes the messages for the model's next step, which can no longer be edited then."""
        texts, self.steering = self.steering, []
        unfolded = map(self.pastes.unfold, texts)
        return [
            Text(text=whole, typed=None if whole == typed else typed)
            for whole, typed in zip(unfolded, texts, strict=True)
        ]

    def leave(self) -> None:
        """Ends the REPL; stops a running turn first."""
        self.leaving = True
        self.interrupt()
        if self.editor is not None:
            self.editor.stop()
        if self.reading is not None:
            self.reading.cancel()

    def live_lines(self, width: int, height: int) -> list[tuple[str, str]]:
        """Returns the (style, line) pairs above the prompt: what runs, and what is queued."""
        queued = [
            ("dim", clip(f"queued: {one_line(text)} (↑ to edit)", width))
            for text in (*self.steering[-3:], *self.queued[-3:])
        ]
        asked = (f"btw: {one_line(text)} (Esc stops it)" for text in self.questions.values())
        queued += [("dim", clip(text, width)) for text in asked]
        if not self.is_busy:
            return queued
        now = time.monotonic()
        lines = self.renderer.live(width, max(height - len(queued), 1))
        if self.screen.asking or (lines and self.stopping_since is None):
            return lines + queued
        what, since, stop = self.doing or "Working", self._job_since, STOP
        if self.stopping_since is not None:
            what, since, stop = "Stopping", self.stopping_since, ""
        if self.opened is None and not queued and now - since < OPENING_IS_SHOWN_AFTER_S:
            return []
        unfinished = [("", clip(self.unfinished, width))] if self.unfinished else []
        spinner = ("", spinner_line(what, now, since, width, stop))
        return [*lines[:-1], *unfinished, spinner, *queued]

    def switch_mode(self) -> None:
        """Switches to the next permission mode, from the next call on (Shift-Tab). `full` must be
        typed: a key pressed once too often must not turn off the permission questions."""
        if self.opened is not None:
            cycle = [mode for mode in MODES if mode != "full"]
            current = self.opened.gate.state.mode
            at = cycle.index(current) + 1 if current in cycle else 0
            self.opened.set_permission_mode(cycle[at % len(cycle)])
            self.screen.redraw()

    async def wait_until_idle(self) -> None:
        """Returns when nothing runs and nothing is queued."""
        while self.job is not None:
            await asyncio.wait([self.job])

    def show_resumed(self) -> None:
        """Shows which session has been resumed, with its last exchange."""
        conversation = self.conversation
        name = conversation.session.name or conversation.session.id
        self.screen.print(f"Resumed {name} ({plural(conversation.session.turns, 'turn')}).", "dim")
        if prompts := conversation.prompts():
            self.screen.print_prompt(prompts[-1])
        if answer := conversation.last_answer():
            self.renderer.show_answer(answer)
        if conversation.is_cut_short():
            warning = "kode was stopped before it had answered this. Ask it to continue."
            self.screen.print(warning, "warning")


@dataclass(frozen=True)
class RunningPrompt:
    """A prompt that `open_prompt` has opened."""

    screen: Screen

    @property
    def is_busy(self) -> bool:
        """Whether work runs, is queued or is in the background, or the conversation is not open."""
        state = self._state
        if state is None:  # the prompt is plain, or is closing
            return self.screen.rich_terminal or self.screen.ended is None
        is_open = state.opened is not None and not state.opened.commands.list_running()
        return bool(state.is_busy or state.queued or not is_open)

    def send(self, text: str) -> bool:
        """Handles a message as if the person had typed it; returns False if the prompt is plain or
        takes no more messages."""
        state = self._state
        if state is None or state.editor is None or state.leaving or not state.listens:
            return False
        state.editor.send(text)
        return True

    @property
    def _state(self) -> PromptState | None:
        return getattr(self.screen.editor, "state", None)

    def leave(self) -> None:
        """Ends the prompt in good order; ends a plain one by sending this process SIGTERM."""
        if self._state is not None:
            if not self._state.leaving:
                self._state.leave()
        elif not self.screen.rich_terminal:
            os.kill(os.getpid(), signal.SIGTERM)
