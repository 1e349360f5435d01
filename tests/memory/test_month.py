"""The benchmark's month, its first days, as a test of every system: it shows what holds and nothing
else."""

import pytest

from bench.systems import live
from kode.registry import SYSTEMS


@pytest.mark.parametrize("name", list(SYSTEMS))
@pytest.mark.slow
async def test_stored_facts_are_found_and_nothing_stale_or_private_appears(name):
    figures = await live(name, days=12)

    assert (figures["stale"], figures["sensitive"]) == (0, 0)
    assert figures["by_search"] == 1.0
