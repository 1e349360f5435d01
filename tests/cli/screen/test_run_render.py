import asyncio
import io

from kode.cli.screen.render import ProgressRenderer
from kode.events import (
    ThinkingDelta,
    ToolStarted,
    TurnStarted,
)
from tests.cli.some_events import ended, replied, tool
from tests.cli.terminals import make_screen


def progress(**options):
    stream = io.StringIO()
    screen = make_screen(stream=stream)
    return ProgressRenderer(screen, **options), stream


def test_verbose_progress_adds_thinking_and_output():
    renderer, stream = progress(unfolded=True)

    renderer.emit(ThinkingDelta(text="hm"))
    renderer.emit(replied("x"))
    renderer.emit(tool(text="all passed"))

    assert stream.getvalue().splitlines() == [
        "Thought:",
        "  hm",
        "● Ran pytest -q · exit 0 · 1.5s",
        "  all passed",
    ]


class Progress:
    """A renderer of `kode run` on a terminal that is a string."""

    def __init__(self, *, terminal=True, live=True):
        self.stream = io.StringIO()
        self.stream.isatty = lambda: terminal
        self.now = 100.0
        self.screen = make_screen(60, rich_terminal=terminal, stream=self.stream)
        self.renderer = ProgressRenderer(self.screen, live_line=live, clock=lambda: self.now)

    def show(self, *events):
        for event in events:
            self.renderer.emit(event)
        return self.stream.getvalue()


STARTED = ToolStarted(call_id="1", name="shell", subject="pytest -q")


async def test_a_task_on_a_terminal_has_a_passing_line():
    state = Progress()

    text = state.show(TurnStarted(text="x"), STARTED)
    assert text.endswith("Running pytest -q… 0s · Ctrl-C stops\x1b[0m\x1b[K")
    text = state.show(tool())
    assert "\r\x1b[K● Ran pytest -q · exit 0 · 1.5s\n" in text
    text = state.show(ended())

    assert text.endswith("\n") or text.endswith("\r\x1b[K")
    assert not state.screen._line_shown


async def test_the_line_goes_on_counting_by_itself(monkeypatch):
    monkeypatch.setattr("kode.cli.screen.render.LINE_EVERY_S", 0.01)
    state = Progress()
    state.show(TurnStarted(text="x"), STARTED)
    state.now += 42

    while "42s" not in state.stream.getvalue():
        await asyncio.sleep(0.01)
    state.show(ended())
