"""The state of the prompt: the conversation, the running job, queued input, the last message, and
what is drawn below the output.

`repl` and `editor` supply lines; `submit` does what they say.
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
"""Another Ctrl-C stops again only after this time: saving must not be cut short."""
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
"""Other names of prompt commands, in no list → the command, perhaps with its first word."""


@dataclass(frozen=True)
class SlashCommand:
    """A slash command, with what `/help` says about it."""

    name: str
    summary: str
    run: Callable[["PromptState", str], Awaitable[None]]
    takes: str = ""
    """What may follow it; "" for nothing."""
    while_busy: bool = False
    """Whether it runs beside a turn; the others wait for its end."""


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
    """Why it could not be opened."""
    editor: "Editor | None" = None
    """The prompt below; without one, lines are read plainly."""
    pastes: Pastes = field(default_factory=Pastes)
    queued: list[str] = field(default_factory=list)
    """Messages typed while work runs, folded as typed; sent in order at its end."""
    steering: list[str] = field(default_factory=list)
    """Messages for the running turn, which the model gets with its next step."""
    in_turn: bool = False
    """Whether the running work is a turn of the model."""
    folder: Path = field(default_factory=Path.cwd)
    """The base of file names, until the conversation is open."""
    reading: "asyncio.Task[str | None] | None" = None
    """The line being read without an editor."""
    listens: bool = True
    """Whether typed lines are messages and commands; otherwise only questions are answered."""
    leaving: bool = False
    sent: str | None = None
    """The last message, folded as typed."""
    unsent: str | None = None
    """The message being sent, until work on it starts: stopping earlier puts it back into the
    line."""
    replacing: bool = False
    """Whether the next message replaces the last one (Esc Esc)."""
    unfinished: str | None = None
    """The unfinished output line of the person's running shell command."""
    closing: "asyncio.Task[None] | None" = None
    doing: str = ""
    """What the job is, if it is not a turn."""
    stopping_since: float | None = None
    """When the job's stop was requested; None if it was not."""
    job: "asyncio.Task[None] | None" = None
    """The running work, one at a time, which Ctrl-C stops."""
    beside: set["asyncio.Task[None]"] = field(default_factory=set)
    """Work that runs beside the job."""
    questions: dict["asyncio.Task[object]", str] = field(default_factory=dict)
    """What asks a side question (`/btw`) → the question."""
    _job_since: float = 0.0

    @property
    def conversation(self) -> "Conversation":
        """The open conversation; commands that need one do not run before."""
        assert self.opened is not None
        return self.opened

    @property
    def is_busy(self) -> bool:
        """Whether the job runs, or what follows it has not begun."""
        return self.job is not None

    def start_job(
        self, work: Work, *arguments: object, then: Callable[[bool], None], what: str = ""
    ) -> None:
        """Starts the job; nothing else may run as one. `then` gets, at its end, whether it was
        stopped."""

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
        """Runs work to its end: shows why it failed, and ignores a stop. Takes a function: a task
        stopped before it starts would leave an unawaited coroutine."""
        try:
            await work(*arguments)
        except asyncio.CancelledError:
            return
        except KodeError as error:
            self.screen.print(f"Error: {error}", "error", "Error:")
        except Exception as error:
            self.screen.print(f"An internal error in kode. {write_report(error)}", "error")

    def interrupt(self) -> bool:
        """Stops a side question, else the running job; False if there was none."""
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
        """The messages for the model's next step; they can no longer be edited."""
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

    def show_hint(self, text: str) -> None:
        self.screen.print(text, "dim")

    def live_lines(self, width: int, height: int) -> list[tuple[str, str]]:
        """The lines above the prompt: what runs, and what is queued."""
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
        """Shift-Tab: switches to the next permission mode, from the next call on. `full` is typed:
        no key that is pressed once too often takes the guard away."""
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
        """Shows which session this is, with its last exchange."""
        conversation = self.conversation
        turns = plural(conversation.session.turns, "turn")
        name = conversation.session.name or conversation.session.id
        self.screen.print(f"Resumed {name} ({turns}).", "dim")
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
        """Whether work runs or waits."""
        state = self._state
        if state is None:  # it is plain, or it is ending
            return self.screen.rich_terminal or self.screen.ended is None
        is_open = state.opened is not None and not state.opened.commands.list_running()
        return bool(state.is_busy or state.queued or not is_open)

    def send(self, text: str) -> bool:
        """Handles a message as if the person had typed it; False where none is read any more, or
        the prompt is plain."""
        state = self._state
        if state is None or state.editor is None or state.leaving or not state.listens:
            return False
        state.editor.send(text)
        return True

    @property
    def _state(self) -> PromptState | None:
        return getattr(self.screen.editor, "state", None)

    def leave(self) -> None:
        """Ends it in good order."""
        if self._state is not None:
            if not self._state.leaving:
                self._state.leave()
        elif not self.screen.rich_terminal:
            os.kill(os.getpid(), signal.SIGTERM)
