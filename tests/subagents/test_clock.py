"""What counts against a child's time limit of 10 s."""

import math
import time

import pytest

from kode.subagents.task import LONGEST_REPLY_S, Clock

ALMOST_S = LONGEST_REPLY_S - 1
ASKED, REPLIED, AGAIN = "step_started", "replied", "retry_scheduled"
PERSON = "a person is asked"


@pytest.mark.parametrize(
    ("steps", "ends_at", "is_over"),
    [
        ([9], math.inf, False),
        ([9, 1], math.inf, True),
        ([ASKED, 1_000, REPLIED, 9], math.inf, False),
        ([ASKED, 1_000, REPLIED, 10], math.inf, True),
        ([PERSON, 1_000, PERSON, 9], math.inf, False),
        ([ASKED, ALMOST_S], math.inf, False),
        ([ASKED, ALMOST_S, 11], math.inf, True),  # a silent model
        ([ASKED, ALMOST_S, AGAIN, ALMOST_S], math.inf, False),
        ([ASKED, 5], 105, True),  # the end of the parent's turn
    ],
)
def test_only_what_a_child_does_itself_counts(
    monkeypatch: pytest.MonkeyPatch, steps: list[str | float], ends_at: float, is_over: bool
) -> None:
    now, waits, ends = 100.0, False, False
    monkeypatch.setattr(time, "monotonic", lambda: now)
    clock = Clock(10, ends_at, counted_at=now)
    for step in steps:
        if step == PERSON:
            waits = not waits
        elif isinstance(step, str):
            clock.note_event(step)
        else:
            assert not ends
            now += step
            ends = clock.is_over(waits=waits)

    assert ends == is_over
