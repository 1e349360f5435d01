"""Renders events as plain lines on stderr: the progress of `kode run`.

Decides nothing; `event_lines` words a line. `render` is the REPL's screen.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

from kode.cli.screen.event_lines import (
    NOTICE_STYLE,
    agent_line,
    denied_line,
    evidence_line,
    indent,
    is_reported,
    mark,
    notice_line,
    plan_line,
    reduced_line,
    refusal_text,
    retry_line,
    same_beginning,
    tool_line,
)
from kode.cli.screen.lines import one_line
from kode.cli.screen.progress import Progress
from kode.cli.screen.screen import Screen
from kode.events import (
    AgentFinished,
    ContextReduced,
    Event,
    MemoryChanged,
    Notice,
    PlanKept,
    Replied,
    RetryScheduled,
    StepStarted,
    ThinkingDelta,
    ToolFinished,
    TurnEnded,
)

MAX_ERROR_LINES = 6  # an error's reason stands at its beginning
LINE_EVERY_S = 0.1  # ten changes a second can be read


class ProgressRenderer:
    """An `Emit` for `kode run` in text format: one plain line per tool call, on stderr; with `live`
    on a terminal, also a line on what is happening. The answer itself goes to stdout, not here."""

    def __init__(
        self,
        screen: Screen,
        *,
        verbose: bool = False,
        live: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`verbose` adds thinking and the output of tools."""
        self.verbose = verbose
        self.screen = screen
        self.progress = Progress()
        self._clock = clock
        self._memory = ""
        self._why_again = ""
        self._live = live and self.screen.rich_terminal
        self._tick: asyncio.TimerHandle | None = None
        self._thinking: list[str] = []

    def emit(self, event: Event) -> None:
        """Shows one event as a line, or not at all. Never raises."""
        try:
            if self._live:
                self.progress.take(event, self._clock())
                self._show_line()
            self._show(event)
        except Exception as error:  # the promise of `Emit`
            self.screen.print(f"(could not show {event.type}: {type(error).__name__})")

    def _show_line(self) -> None:
        """Repeatedly shows what is happening, as long as something is."""
        if self.progress.idle:
            self.screen.clear_line()
            return
        in_turn = self.progress.since is not None
        stop = "Ctrl-C stops" if in_turn else "Ctrl-C skips"
        self.screen.show_line(self.progress.line(self._clock(), self.screen.width - 1, stop))
        if self._tick is None:
            self._tick = asyncio.get_running_loop().call_later(LINE_EVERY_S, self._ticked)

    def _ticked(self) -> None:
        self._tick = None
        self._show_line()

    def _show(self, event: Event) -> None:
        match event:
            case Notice():
                self.screen.print(one_line(notice_line(event)), NOTICE_STYLE[event.level])
            case RetryScheduled():
                self.screen.print(one_line(retry_line(event, self._why_again)), "warning")
                self._why_again = event.reason
            case StepStarted():
                self._why_again = ""
            case ThinkingDelta() if self.verbose:
                self._thinking.append(event.text)
            case Replied() if self._thinking:
                self.screen.print(indent("".join(self._thinking), 1000), "dim")
                self._thinking.clear()
            case ToolFinished():
                self._tool(event)
            case AgentFinished():
                sign = "●" if event.status == "success" else "✗"
                self.screen.print(f"{sign} {agent_line(event, max(self.screen.width - 2, 60))}")
            case ContextReduced():
                self.screen.print(reduced_line(event), "dim")
            case PlanKept():
                self.screen.print(plan_line(event), "dim")
            case MemoryChanged() if self.verbose or not event.of_session:
                self.screen.print(f"memory: {one_line(event.text)}", "dim")
                self._memory = event.text
            case TurnEnded() if evidence := evidence_line(event):
                self.screen.print(evidence, "dim")
            case _:
                return

    def _tool(self, event: ToolFinished) -> None:
        memory, self._memory = self._memory, ""
        if is_reported(event, memory) and not self.verbose:
            return
        width = max(self.screen.width - 2, 60)
        if event.refused:
            self.screen.print(f"– {denied_line(event, width)}")
            self.screen.print(indent(refusal_text(event), MAX_ERROR_LINES), "dim")
            return
        sign, _ = mark(event)
        is_repeated = event.is_error and same_beginning(event.text, event.summary)
        shown = replace(event, summary="failed") if is_repeated else event
        self.screen.print(f"{sign} {tool_line(shown, width)}")
        if is_repeated and not self.verbose:
            self.screen.print(indent(event.text, MAX_ERROR_LINES), "dim")
        if self.verbose and event.for_model:
            self.screen.print(indent(event.for_model, 20), "dim")
