import asyncio
import io
from dataclasses import fields, is_dataclass, replace
from typing import get_args

import pytest

from kode.cli.screen.lines import cell_width
from kode.cli.screen.render import MAX_DIFF_LINES, ProgressRenderer, Renderer
from kode.events import (
    CallAnnounced,
    Event,
    MemoryChanged,
    PlanKept,
    RetryScheduled,
    Steered,
    StepStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnStarted,
)
from kode.messages import Refusal, ToolCall
from tests.cli.some_events import ALL_EVENTS, ended, replied, tool
from tests.cli.terminals import make_screen


class Shown:
    """A renderer on a screen that is a string, with a clock of its own."""

    def __init__(self, kind=Renderer, *, width=80, color=False, **more):
        self.stream = io.StringIO()
        self.now = 100.0
        self.screen = make_screen(width, color=color, stream=self.stream)
        self.renderer = kind(self.screen, clock=lambda: self.now, **more)

    def show(self, *events):
        for event in events:
            self.renderer.emit(event)
        return self.text

    @property
    def text(self):
        return self.stream.getvalue()

    def live(self, width=80, height=20):
        return [line for _, line in self.renderer.live(width, height)]


@pytest.mark.parametrize("width", [20, 80])
def test_live_lines_fit_width_and_height_at_every_moment(width):
    state = Shown(width=width)

    for event in ALL_EVENTS:
        state.show(event)
        for height in (1, 3, 18):
            lines = state.live(width - 1, height)
            assert len(lines) <= height
            assert all(cell_width(line) <= width - 1 for line in lines)


def test_a_call_written_as_text_leaves_only_its_line():
    state = Shown()
    written = '{"name": "read_file", "path": "a.py"}'
    call = ToolCall(id="1", name="read_file", arguments='{"path": "a.py"}', written=written)

    text = state.show(
        TurnStarted(text="x"),
        TextDelta(text=f"Let me look.\n\n{written}"),
        replied("Let me look.", call),
        tool("read_file", "a.py"),
    )

    assert "Let me look." in text
    assert "{" not in text
    assert "a.py" in "".join(state.live())


def test_live_lines_stand_where_they_will_settle():
    state = Shown()
    call = {"name": "read_file", "subject": "a.py"}

    state.show(TurnStarted(text="x"), StepStarted(step=1))
    assert len(state.live()) == 2
    state.show(TextDelta(text="One.\n\nTw"))
    assert state.live()[:2] == ["", "  Tw"]
    state.show(replied("One.\n\nTwo."), ToolStarted(call_id="1", **call))
    assert state.live()[0] == ""
    state.show(ToolFinished(call_id="1", is_error=False, summary="", text="", **call))
    assert state.live()[:2] == ["", "● Read a.py"]
    state.show(ToolStarted(call_id="2", **call))
    assert state.live()[:2] == ["", "● Read a.py"]


def test_calls_that_only_look_share_a_line_until_another_follows():
    state = Shown()
    looks = [tool("read_file", "a.py"), tool("read_file", "b.py"), tool("search_files", "def")]

    state.show(TurnStarted(text="x"), *looks)
    assert state.text == ""
    state.show(tool("shell", "make"))

    assert state.text.split("\n")[1] == "● Read a.py, b.py · Searched def"


def test_the_reason_of_retries_is_said_once_in_a_row():
    first = RetryScheduled(attempt=1, max_attempts=5, delay_s=2.0, reason="No server answers")
    second = replace(first, attempt=2)

    cut = replace(first, discards_text=True)
    again = (TextDelta(text="Hal"), cut, TextDelta(text="Hello"), replied(""))
    text = Shown().show(TurnStarted(text="x"), first, second, StepStarted(step=2), *again)

    assert [line for line in text.splitlines() if line] == [
        "No server answers. Retrying in 2.0s (2 of 5).",
        "Retrying in 2.0s (3 of 5).",
        "No server answers. Retrying in 2.0s (2 of 5). The reply restarts.",
        "  Hello",
    ]


def test_a_diff_that_was_just_approved_is_not_shown_again():
    state = Shown()
    diff = "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n"
    state.screen.approved = diff.strip()

    assert "+ y" not in state.show(tool("edit_file", "a", diff=diff))
    assert "+ y" in state.show(tool("edit_file", "a", diff=diff))


def test_a_long_diff_is_cut_and_says_so():
    diff = "@@ -0,0 +1,200 @@\n" + "+x\n" * 200

    text = Shown().show(tool("edit_file", "a", diff=diff))

    assert text.count("+ x") == MAX_DIFF_LINES - 1
    assert f"… {200 - MAX_DIFF_LINES + 1} more lines (Ctrl-O)" in text


def test_a_change_of_memory_by_a_call_is_told_once():
    told = 'added to user "Wants the edge cases named in every summary"'
    call = {"call_id": "1", "name": "memory", "subject": "add", "text": ""}
    done = ToolFinished(**call, is_error=False, summary=told + " …")
    state = Shown()

    text = state.show(MemoryChanged(text=told, change_id="c1"), done)
    assert " ".join(text.split()) == f"memory: {told} · /memory undo c1"
    assert "● Memory add" in state.show(done)

    failed = replace(done, is_error=True)
    assert "✗" in Shown().show(MemoryChanged(text=told, change_id="c1"), failed)


def test_a_fault_of_the_screen_never_reaches_the_turn():
    state = Shown()
    state.screen.columns = lambda: 1 // 0

    state.renderer.emit(tool())

    assert "tool_finished" in state.text


@pytest.mark.parametrize(
    ("exit_status", "names", "is_said"), [(0, (), False), (0, ("a.py",), True), (2, (), True)]
)
def test_a_commands_end_is_said_unless_it_went_well(exit_status, names, is_said):
    refusal = Refusal(by="fault", message="It is locked.", of="changes", not_kept=names)
    event = replace(
        tool(),
        summary="its end",
        exit_status=exit_status,
        refusals=(refusal,) * bool(names),
        failed=exit_status > 0,
    )

    shown = Shown().show(event)
    assert ("its end" in shown) == is_said
    assert ("a.py" in shown) == bool(names)


@pytest.mark.parametrize(("by", "is_shown"), [("person", False), ("hook", True), ("rule", True)])
def test_a_refusal_is_shown_unless_the_person_gave_it(by, is_shown):
    refusal = Refusal(by=by, message="The person refused this.")
    event = replace(tool(text=refusal.for_model), refused=True, refusals=(refusal,))

    assert bool(Shown().show(event)) == is_shown


EVIL = "a\x1b]52;c;ZXZpbA==\x07\x1b[?1049hb\x9b2Jc\u202ed\u2066e\u200bf\ufeffg\U000e0041h\x08i"


def spoiled(value, name=""):
    """A value with `EVIL` in every text that is not one of a few words."""
    if isinstance(value, str):
        return value if name in ("type", "kind", "level", "status", "role", "stop") else EVIL
    if isinstance(value, tuple):
        return tuple(map(spoiled, value))
    if is_dataclass(value):
        return replace(
            value, **{f.name: spoiled(getattr(value, f.name), f.name) for f in fields(value)}
        )
    return value


EVIL_EVENTS = [
    *map(spoiled, ALL_EVENTS),
    spoiled(Steered(text="x")),
    spoiled(PlanKept(path="p", steps=2)),
    CallAnnounced(),
    spoiled(replied("x", ToolCall(id="1", name="shell", arguments="{}"))),
    spoiled(replace(tool(), refused=True, refusals=(Refusal(by="rule", message="no"),))),
    spoiled(replace(tool(), failed=True, exit_status=1)),
    spoiled(ended("success", files=("a",))),
]


@pytest.mark.parametrize("renderer_class", [Renderer, ProgressRenderer])
def test_no_event_controls_the_terminal_or_hides_anything(renderer_class):
    state = Shown(renderer_class, unfolded=True)
    assert {type(event) for event in EVIL_EVENTS} == {*get_args(Event)}

    for event in EVIL_EVENTS:
        state.now += 5.0
        state.show(event)
        state.stream.write("\n".join(state.live()))
    state.stream.write(state.renderer.render_details())

    assert "a" in state.text
    assert {c for c in state.text if not c.isprintable()} == {"\n"}


def test_painted_text_keeps_only_its_colours():
    state = Shown(color=True)

    state.screen.print_painted(f"\x1b[1;31mred\x1b[0m {EVIL}")

    assert state.text.startswith("\x1b[1;31mred\x1b[0m a")
    assert "\x1b" not in state.text.removeprefix("\x1b[1;31mred\x1b[0m")


STARTED = ToolStarted(call_id="1", name="shell", subject="pytest -q")


async def test_a_task_on_a_terminal_has_a_line_that_counts(monkeypatch):
    monkeypatch.setattr("kode.cli.screen.render.LINE_EVERY_S", 0.01)
    state = Shown(ProgressRenderer, width=60, color=True, live_line=True)

    text = state.show(TurnStarted(text="x"), STARTED)
    assert text.endswith("Running pytest -q… 0s · Ctrl-C to stop\x1b[0m\x1b[K")
    state.now += 42
    while "42s" not in state.text:
        await asyncio.sleep(0.01)
    text = state.show(tool())
    assert "\r\x1b[K\x1b[32m●\x1b[0m Ran pytest -q · exit 0 · 1.5s\n" in text
    text = state.show(ended())

    assert text.endswith("\n") or text.endswith("\r\x1b[K")
    assert not state.screen._line_shown
