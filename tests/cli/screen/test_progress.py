from kode.cli.screen.lines import cell_width
from kode.cli.screen.progress import Progress, status_line
from kode.events import (
    ContextReduced,
    StepStarted,
    TextDelta,
    ThinkingDelta,
    ToolOutput,
    ToolStarted,
    TurnStarted,
    Working,
)
from tests.cli.fake_conversation import FakeConversation
from tests.cli.some_events import ended
from tests.tables import for_each


def after(*timed):
    progress = Progress()
    for at, event in timed:
        progress.update(event, at)
    return progress


@for_each(
    ("events", "shown"),
    [
        ([(5, StepStarted(step=1))], "Waiting for the model… 15s · Ctrl-C to stop"),
        ([(5, StepStarted(step=1)), (8, ThinkingDelta(text="x"))], "Thinking… 12s"),
        ([(8, ThinkingDelta(text="x")), (9, ThinkingDelta(text="y"))], "Thinking… 12s"),
        ([(8, ThinkingDelta(text="x")), (10, TextDelta(text="y"))], "Answering… 10s"),
        ([(8, ThinkingDelta(text=""))], "Thinking… 12s · Ctrl-C to stop"),
        ([(11, Working(what="Compacting the conversation"))], "Compacting the conversation… 9s"),
        (
            [
                (11, Working(what="Compacting the conversation")),
                (12, ContextReduced(tokens_before=9, tokens_after=1)),
            ],
            "Working… 20s",
        ),
        ([(11, Working(what="Noting")), (12, Working(what=""))], "Working… 20s"),
        ([(4, ToolStarted(call_id="1", name="shell", subject="make"))], "Running make… 16s"),
    ],
)
def test_the_line_says_what_goes_on_and_since_when(events, shown):
    progress = after((0, TurnStarted(text="x")), *events)

    assert progress.format_line(20, 80)[2:].startswith(shown)


def test_between_turns_nothing_goes_on_but_what_kode_is_at():
    progress = after((0, TurnStarted(text="x")), (1, TextDelta(text="y")), (2, ended()))
    assert progress.idle

    progress.update(Working(what="Saving memory"), 3)

    assert not progress.idle
    assert "Saving memory… 2s" in progress.format_line(5, 80)


def test_output_of_a_running_call_is_bounded_and_harmless():
    started = ToolStarted(call_id="1", name="shell", subject="make")
    progress = after((0, TurnStarted(text="x")), (1, started))
    for _ in range(100):
        progress.update(ToolOutput(call_id="1", text="\x1b[2Jx\t\x07" * 1000 + "\n"), 2)

    assert len(progress.running["1"].output) < 10_000
    for line in progress.list_output(40):
        assert cell_width(line) <= 40
        assert line.isprintable()


def test_the_mode_in_which_all_runs_stands_out(tmp_path):
    status = FakeConversation(tmp_path, tmp_path)
    status.set_permission_mode("full")

    assert status_line(status, 79)[0] == ("error", "full")
    assert status_line(status, 2) == [("error", "f…"), ("dim", "")]
