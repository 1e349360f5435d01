"""The state of the prompt: the conversation, queued input, the last message, and what is drawn
below the output.

`repl`, `editor` and `plain` supply lines; `submit` does what they say; `jobs` is the running work.
"""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kode.cli.flags import MODES
from kode.cli.prompt.attach import Pastes
from kode.cli.prompt.jobs import Jobs
from kode.cli.screen.lines import clip, one_line
from kode.cli.screen.notify import Setting, notify_terminal
from kode.cli.screen.progress import how_to_stop, spinner_line, status_line
from kode.cli.screen.render import Renderer
from kode.cli.screen.screen import Editor, Screen
from kode.errors import KodeError
from kode.messages import Text, plural

if TYPE_CHECKING:
    from kode.conversation import Conversation
    from kode.events import TurnEnded
    from kode.providers.listing import Listing, Offer

OPENING_IS_SHOWN_AFTER_S = 1.0  # shorter waits need no explanation
PLAIN_FIRST_S, PLAIN_EVERY_S = 3.0, 30.0
"""On a terminal without repainting, when progress is first reported, and how often after."""

PROMPT_ALIASES: Mapping[str, str] = {
    "/agents": "/extensions agents",
    "/clear": "/new",
    "/commands": "/extensions commands",
    "/exit": "/quit",
    "/hooks": "/extensions hooks",
    "/mcp": "/extensions mcp",
    "/mode": "/permissions",
    "/q": "/quit",
    "/reasoning": "/effort",
    "/sessions": "/resume",
    "/skills": "/extensions skills",
    "/trust": "/extensions trust",
    "/usage": "/cost",
}
"""Other names of prompt commands, in no list → the command, perhaps with its first word."""


@dataclass(frozen=True)
class Command:
    """A slash command, with all that `/help` says about it."""

    name: str
    summary: str
    run: Callable[["PromptState", str], Awaitable[None]]
    takes: str = ""
    """What may follow it; "" for nothing."""
    example: str = ""
    """Such a line, without the name."""
    while_busy: bool = False
    """Whether it runs beside a turn; the others wait for its end."""


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
    """The state of the prompt: the conversation, the queue, the last message."""

    screen: Screen
    renderer: Renderer
    commands: Mapping[str, Command]
    """Name, with its `/`, → command."""
    opened: "Conversation | None" = None
    """None while it is being opened."""
    fault: Exception | None = None
    """Why it could not be opened."""
    editor: Prompt | None = None
    waiting: list[str] = field(default_factory=list)
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
    listing: "Listing | None" = None
    """The models that can be switched to; None until they are wanted."""
    jobs: Jobs = field(init=False)

    def __post_init__(self) -> None:
        self.jobs = Jobs(self.show_failure)

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
        conversation = self.conversation
        return self.listing.offers(conversation.config, conversation.agent.provider, ask=ask)

    def take_steering(self) -> list[Text]:
        """The messages for the model's next step; they can no longer be edited."""
        texts, self.steering = self.steering, []
        pastes = self.editor.pastes if self.editor is not None else None
        unfolded = [pastes.unfold(text) for text in texts] if pastes else texts
        return [
            Text(text=whole, typed=None if whole == typed else typed)
            for whole, typed in zip(unfolded, texts, strict=True)
        ]

    def interrupt(self) -> bool:
        """Stops the running job; False if there was none."""
        if self.closing is not None:
            return self.closing.cancel()
        stops = self.jobs.stop()
        if stops:
            self.screen.redraw()
        return stops

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

    def show_failure(self, error: Exception) -> None:
        """Shows why work has failed; an error that is not kode's own gets a report."""
        if isinstance(error, KodeError):
            self.screen.print(f"Error: {error}", "error")
            return
        from kode.process_end import write_report

        self.screen.print(f"An internal error in kode. {write_report(error)}", "error")

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
        from kode.cli.screen.screen import show_paged

        editor = self.editor
        return editor is not None and await show_paged(editor.lend_terminal, text + "\n", line)

    def live(self, width: int, height: int) -> list[tuple[str, str]]:
        """The lines above the prompt: what runs, and what is queued."""
        waiting = [
            ("queued", clip(f"{when}: {one_line(text)} (Up to edit)", width))
            for when, texts in (("next step", self.steering), ("queued", self.waiting))
            for text in texts[-3:]
        ]
        if not self.jobs.busy:
            return waiting
        now = time.monotonic()
        lines = self.renderer.live(width, max(height - len(waiting), 1))
        if self.screen.asking:
            return lines + waiting
        if self.jobs.stopping_since is not None:
            what, since, stop = "Stopping", self.jobs.stopping_since, ""
        elif lines:
            return lines + waiting
        else:
            ran_s = now - self.jobs.since if self.unfinished is not None else 0.0
            what, since = self.jobs.doing or "Working", self.jobs.since
            stop = how_to_stop(ran_s, width)
        if self.opened is None and not waiting and now - since < OPENING_IS_SHOWN_AFTER_S:
            return []
        shown = lines[:-1]
        if self.unfinished:
            shown.append(("", clip(self.unfinished, width)))
        return [*shown, ("", spinner_line(what, now, since, width, stop)), *waiting]

    def next_mode(self) -> None:
        """Shift-Tab: switches to the next permission mode, from the next call on. `full` is typed:
        no key that is pressed once too often takes the guard away."""
        if self.opened is None:
            return
        cycle = [mode for mode in MODES if mode != "full"]
        current = self.opened.gate.mode
        at = cycle.index(current) if current in cycle else -1
        mode = cycle[(at + 1) % len(cycle)]
        self.opened.set_permission_mode(mode)
        self.screen.redraw()

    def status(self, width: int) -> list[tuple[str, str]]:
        """Permission mode, model, context and cost, as far as they fit: (style, text)."""
        return [("", "")] if self.opened is None else status_line(self.opened, width)

    async def idle(self) -> None:
        """Returns when nothing runs and nothing is queued. On a terminal without repainting, prints
        progress now and then."""
        pause_s = PLAIN_FIRST_S if self.editor is None else None
        while (job := self.jobs.job) is not None and not job.done():
            done, _ = await asyncio.wait([job], timeout=pause_s)
            if not done and self.opened is not None and not self.screen.asking:
                progress, now = self.renderer.progress, time.monotonic()
                if progress.idle:
                    line = spinner_line(self.jobs.doing or "Working", now, self.jobs.since, 80)
                else:
                    line = progress.line(now, self.screen.width)
                self.screen.print(line.split(" ", 1)[1], "dim")
                pause_s = PLAIN_EVERY_S

    def show_resumed(self) -> None:
        """Shows which session this is, with its last exchange."""
        conversation = self.conversation
        turns = plural(conversation.session.turns, "turn")
        self.screen.print(f"Resumed {conversation.session.id} ({turns}).", "dim")
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
    def ended(self) -> "TurnEnded | None":
        """How the last task ended: of a goal, after all its turns. None while one runs."""
        return self.screen.ended

    @property
    def is_busy(self) -> bool:
        """Whether work runs or waits."""
        editor: Any = self.screen.editor
        if editor is None:  # it is plain, or it is ending
            return self.screen.rich_terminal or self.screen.ended is None
        state: PromptState = editor.state
        is_open = state.opened is not None and not state.opened.commands.running()
        return bool(state.jobs.busy or state.waiting or not is_open)

    def watch(self, is_watched: bool) -> None:
        """Says whether anybody sees it."""
        self.screen.watched = is_watched

    def notify(self, terminal: str, text: str, setting: Setting) -> None:
        """Notifies the person in another terminal of theirs, by its file."""
        notify_terminal(terminal, text, setting)

    def leave(self) -> None:
        """Ends it in good order."""
        editor: Any = self.screen.editor
        if editor is not None and not editor.state.leaving:
            editor.state.leave()
        elif not self.screen.rich_terminal:
            os.kill(os.getpid(), signal.SIGTERM)
