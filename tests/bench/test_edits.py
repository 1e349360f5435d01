import asyncio

import pytest

from bench.edits import SLIPS, cases, measure
from tests.effort import share


@pytest.mark.slow
def test_the_default_form_of_edits_fails_least() -> None:
    assert sum(SLIPS.values()) == 100
    found = asyncio.run(measure(share(300)))
    assert found["apply_patch"]["failed_per_100"] <= found["edit_file"]["failed_per_100"]
    assert found["editor"]["calls_an_edit"] > 1.5


def test_the_same_files_give_the_same_edits() -> None:
    assert cases(5) == cases(5)
