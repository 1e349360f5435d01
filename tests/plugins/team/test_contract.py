"""What memory promises, kept by notes on a server: the suite of the contract, run on one."""

import pytest

from tests.contracts.test_memory_contract import *  # noqa: F403

pytestmark = [
    pytest.mark.slow,
    pytest.mark.sampled(of=3),
    pytest.mark.usefixtures("on_a_server"),
]

del test_two_processes_lose_no_write_they_were_told_of  # noqa: F821 - test_writers.py has more


@pytest.fixture(params=["notes"])
def name(request):
    return request.param
