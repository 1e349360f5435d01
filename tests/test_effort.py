"""What a sample is: a part that the seed decides."""

import pytest

from tests import effort


def test_the_seed_alone_decides_a_sample(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(effort, "EVERYTHING", False)

    def drawn(seed: object) -> list[int]:
        monkeypatch.setattr(effort, "SEED", str(seed))
        return effort.sample(range(100), 10, "moments")

    numbers = drawn("a commit")
    assert numbers == sorted({*numbers}) == drawn("a commit") != drawn("another")
    assert (len(numbers), numbers[0], numbers[-1]) == (10, 0, 99)
    assert {number for seed in range(200) for number in drawn(seed)} == {*range(100)}
    monkeypatch.setattr(effort, "EVERYTHING", True)
    assert drawn("a commit") == [*range(100)]
