"""The same of the suite of what is found."""

import pytest

from tests.contracts.test_memory_search import *  # noqa: F403

pytestmark = [
    pytest.mark.slow,
    pytest.mark.sampled(of=3),
    pytest.mark.usefixtures("on_a_server"),
]
