import pytest

from kode.engine.agent import Spend
from kode.messages import Usage
from tests.engine.conftest import MakeBench, says
from tests.tables import for_each

TIMED = [Usage(input_tokens=1_000, output_tokens=100)] * 3
SHORT = [Usage(output_tokens=100)] * 4


@for_each(
    ("used", "seconds", "tokens", "expected_s"),
    [
        (TIMED, [20, 20, 20], (1_000, 100), 20),
        (TIMED, [20, 20, 20], (1_000, 1_100), 120),
        (SHORT, [10, 10, 1_000, 10], (0, 100), 10),  # one long wait says nothing of the server
        ([Usage(), Usage(output_tokens=5)], [10, 0], (1_000, 1_000), 0),
    ],
)
def test_expected_reply_time_follows_the_last_replies(
    used: list[Usage], seconds: list[float], tokens: tuple[int, int], expected_s: float
) -> None:
    spend = Spend()
    for usage, took_s in zip(used, seconds, strict=True):
        spend.count_request(usage, None, "model", took_s)

    assert spend.expected_s("model", *tokens) == pytest.approx(expected_s)


async def test_each_reply_of_a_turn_is_timed(bench: MakeBench) -> None:
    run = bench(says("ok", usage=Usage(input_tokens=10, output_tokens=5)))

    await run.turn()

    assert len(run.agent.spend.paces["fake-1"]) == 1
