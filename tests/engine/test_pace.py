import pytest

from kode.engine.agent import Pace
from kode.messages import Usage
from tests.engine.conftest import MakeBench, says


def test_expected_reply_time_follows_the_last_replies() -> None:
    pace = Pace()
    for _ in range(3):
        pace.note(Usage(input_tokens=1_000, output_tokens=100), 20)

    assert pace.expected_s(1_000, 100) == pytest.approx(20)
    assert pace.expected_s(1_000, 1_100) == pytest.approx(120)


def test_one_long_wait_says_nothing_of_the_server() -> None:
    pace = Pace()
    for seconds in (10, 10, 1_000, 10):
        pace.note(Usage(output_tokens=100), seconds)

    assert pace.expected_s(0, 100) == pytest.approx(10)


def test_a_server_that_counts_nothing_has_no_expected_pace() -> None:
    pace = Pace()
    pace.note(None, 10)
    pace.note(Usage(), 10)
    pace.note(Usage(output_tokens=5), 0)

    assert pace.expected_s(1_000, 1_000) == 0


async def test_each_reply_of_a_turn_is_timed(bench: MakeBench) -> None:
    run = bench(says("ok", usage=Usage(input_tokens=10, output_tokens=5)))

    await run.turn()

    assert len(run.agent.spend.paces["fake-1"].rates) == 1
