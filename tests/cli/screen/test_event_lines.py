from hypothesis import given
from hypothesis import strategies as st

from kode.cli.screen.event_lines import agent_line, doing, tool_line
from kode.cli.screen.lines import (
    cell_width,
)
from kode.events import AgentFinished, ToolFinished


def finished(subject="kode/cli/render.py", summary="142 lines", duration_ms=400, name="read_file"):
    return ToolFinished(
        call_id="1",
        name=name,
        subject=subject,
        is_error=False,
        summary=summary,
        text="",
        duration_ms=duration_ms,
    )


def test_a_tool_line_says_verb_subject_outcome_and_time():
    assert tool_line(finished(), 78) == "Read kode/cli/render.py · 142 lines · 0.4s"


def test_the_subject_gives_way_where_it_is_narrow():
    line = tool_line(finished(subject="a/very/long/path/to/some/file.py"), 40)

    assert line.startswith("Read ")
    assert line.endswith("file.py · 142 lines · 0.4s")
    assert len(line) <= 40


@given(st.text(), st.text(), st.integers(10, 100))
def test_a_tool_line_always_fits(subject, summary, width):
    event = finished(subject=subject, summary=summary)

    assert cell_width(tool_line(event, width)) <= width
    assert "\n" not in tool_line(event, width)
    assert cell_width(doing("shell", subject, width)) <= width


def test_an_unknown_tool_shows_its_name():
    line = tool_line(finished(name="weather", subject="Rome", summary="sunny", duration_ms=3), 80)

    assert line == "weather Rome · sunny"


def test_a_finished_agent_fits_in_twenty_columns():
    event = AgentFinished(
        index=0, goal="find it all", status="success", summary="", elapsed_s=3.0, tokens=1200
    )

    assert agent_line(event, 60) == "Agent 1: find it all · success · 3.0s · 1.2k tokens"
    assert agent_line(event, 40).startswith("Agent 1: find it all · success")
    assert len(agent_line(event, 20)) <= 20
