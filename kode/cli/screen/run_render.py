"""Renders events on stderr without a prompt: the progress of `kode run`.

As the REPL's `render`, without what cannot be done there: the answer goes to stdout.
"""

import asyncio
from dataclasses import dataclass, replace
from typing import ClassVar

from kode.cli.screen.describe import (
    describe_call,
    evidence_line,
    indent,
    is_reported,
)
from kode.cli.screen.markdown import Block
from kode.cli.screen.render import MAX_ERROR_LINES, Kind, Renderer
from kode.events import Event, ToolFinished, TurnEnded

LINE_EVERY_S = 0.1  # ten changes a second can be read


@dataclass
class ProgressRenderer(Renderer):
    """An `Emit` for `kode run` in text format; `unfolded`, tools' output is shown too, and with
    `live_line`, on a terminal, what is happening."""

    live_line: bool = False
    in_prompt: ClassVar[bool] = False
    _tick: asyncio.TimerHandle | None = None

    def emit(self, event: Event) -> None:
        """Shows one event, or nothing. Never raises."""
        super().emit(event)
        if self.live_line and self.screen.rich_terminal:
            self._show_line()

    def _show_line(self) -> None:
        """Repeatedly shows what is happening, as long as something is."""
        if self.progress.idle:
            self.screen.clear_line()
            return
        stop = "Ctrl-C stops" if self.progress.since is not None else "Ctrl-C skips"
        self.screen.show_line(self.progress.line(self.clock(), self.screen.width - 1, stop))
        if self._tick is None:
            self._tick = asyncio.get_running_loop().call_later(LINE_EVERY_S, self._ticked)

    def _ticked(self) -> None:
        self._tick = None
        self._show_line()

    def _gap(self, kind: Kind) -> None:
        """A log has no blank lines."""

    def _blocks(self, blocks: list[Block]) -> None:
        """The answer is printed elsewhere."""

    def _finished(self, event: ToolFinished) -> None:
        if event.refused:
            line = describe_call(event, self.screen.width - 2)
            self.screen.print(f"{line.mark} {replace(line, outcome='').text}")
            why = event.refusals[0].for_person if event.refusals else event.summary
            self.screen.print(indent(why, MAX_ERROR_LINES), "dim")
            return
        reported = is_reported(event, self._memory)
        super()._finished(event)
        if self.unfolded and event.for_model and not reported:
            self.screen.print(indent(event.for_model, 20), "dim")

    def _ended(self, event: TurnEnded) -> None:
        self._settle_thinking()
        if evidence := evidence_line(event):
            self.screen.print(evidence, "dim")
