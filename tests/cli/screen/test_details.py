from dataclasses import replace

import pytest

from kode.cli.screen.render import MAX_CHARS, MAX_ENTRIES, Renderer
from kode.messages import Thinking
from tests.cli.some_events import replied, tool
from tests.cli.terminals import make_screen


@pytest.fixture
def screen():
    return make_screen(60)


def thought(text=""):
    event = replied("x")
    parts = (Thinking(text=text),) if text else ()
    return replace(event, message=replace(event.message, parts=parts))


def rendered(screen, *events):
    renderer = Renderer(screen)
    for event in events:
        renderer.emit(event)
    return renderer.render_details()


def test_a_call_shows_its_whole_command_and_output(screen):
    output = "\n".join(f"line {n}" for n in range(200))

    text = rendered(screen, tool(text=output))
    assert text.startswith("── Ran pytest -q · exit 0 · 1.5s ─")
    assert output in text
    assert "x" * 200 in rendered(screen, tool(subject="echo " + "x" * 200))


def test_thinking_is_whole(screen):
    assert "First.\nSecond." in rendered(screen, thought("First.\nSecond."))


def test_details_stay_bounded(screen):
    long = "y" * 3 * MAX_CHARS
    events = [*[tool(text="t")] * 3 * MAX_ENTRIES, thought(long)]

    text = rendered(screen, *events)

    assert text.count("── ") == MAX_ENTRIES
    assert len(text) < MAX_CHARS + MAX_ENTRIES * 200
