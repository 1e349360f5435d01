"""What counts against a child's time limit."""

import time

import pytest

from kode.subagents.task import LONGEST_REPLY_S, Clock


class Hands:
    """A clock on the wall that a test moves."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.now = clock.counted_at

    def pass_by(self, seconds: float, *, waits: bool = False) -> bool:
        """Lets time pass; returns whether the limit is reached."""
        self.now += seconds
        return self.clock.is_over(waits=waits)


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> Hands:
    hands = Hands(Clock(10, counted_at=100))
    monkeypatch.setattr(time, "monotonic", lambda: hands.now)
    return hands


def test_the_time_of_tools_counts(hands: Hands) -> None:
    assert not hands.pass_by(9)
    assert hands.pass_by(1)


def test_the_time_of_the_model_does_not_count(hands: Hands) -> None:
    hands.clock.note_event("step_started")
    assert not hands.pass_by(1_000)
    hands.clock.note_event("replied")
    assert not hands.pass_by(9)
    assert hands.pass_by(1)


def test_the_time_of_a_person_who_answers_does_not_count(hands: Hands) -> None:
    assert not hands.pass_by(1_000, waits=True)
    assert hands.pass_by(10)


def test_a_silent_model_does_not_hold_a_child_forever(hands: Hands) -> None:
    hands.clock.note_event("step_started")
    assert not hands.pass_by(LONGEST_REPLY_S - 1)
    assert hands.pass_by(11)


def test_a_new_attempt_at_a_reply_gets_its_whole_time(hands: Hands) -> None:
    hands.clock.note_event("step_started")
    hands.pass_by(LONGEST_REPLY_S - 1)
    hands.clock.note_event("retry_scheduled")
    assert not hands.pass_by(LONGEST_REPLY_S - 1)


def test_the_end_of_the_parents_turn_always_holds(hands: Hands) -> None:
    hands.clock.ends_at = 105
    hands.clock.note_event("step_started")
    assert hands.pass_by(5)
