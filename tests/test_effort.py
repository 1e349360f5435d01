"""What a sample is: a part that the seed decides."""

from itertools import pairwise

import pytest

from tests import effort


@pytest.fixture
def seeded(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(effort, "EVERYTHING", False)
    return monkeypatch


def drawn(seeded: pytest.MonkeyPatch, seed: str) -> list[int]:
    seeded.setattr(effort, "SEED", seed)
    return effort.sample(range(100), 10, "moments")


def test_a_sample_keeps_order_and_both_ends(seeded: pytest.MonkeyPatch) -> None:
    numbers = drawn(seeded, "a commit")

    assert len(numbers) == 10
    assert (numbers[0], numbers[-1]) == (0, 99)
    assert all(before < after for before, after in pairwise(numbers))


def test_the_seed_alone_decides_a_sample(seeded: pytest.MonkeyPatch) -> None:
    assert drawn(seeded, "a commit") == drawn(seeded, "a commit") != drawn(seeded, "another")


def test_many_seeds_draw_everything(seeded: pytest.MonkeyPatch) -> None:
    assert {number for seed in range(200) for number in drawn(seeded, str(seed))} == {*range(100)}


def test_a_complete_run_draws_everything(seeded: pytest.MonkeyPatch) -> None:
    seeded.setattr(effort, "EVERYTHING", True)

    assert effort.sample(range(100), 10, "moments") == [*range(100)]


class Case:
    """Of a collected test, what decides whether it runs."""

    def __init__(self, test: str, number: int, *marks: pytest.MarkDecorator) -> None:
        self.nodeid = f"{test}[{number}]"
        self._marks = {mark.name: mark.mark for mark in marks}

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self._marks.get(name)


def test_a_slow_sampled_test_runs_some_of_its_cases() -> None:
    sampled = pytest.mark.sampled(of=4)
    slow = [Case("test_slow", number, pytest.mark.slow, sampled) for number in range(10)]
    fast = [Case("test_fast", number, sampled) for number in range(10)]

    left_out = effort.unsampled([*slow, *fast])

    assert len(left_out) == 7
    assert set(left_out) < set(slow)
