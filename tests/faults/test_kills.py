"""kode is killed at its own calls that change files, and started again: nothing shown is lost, and
nothing is half done or left behind.

Here a sample of the calls; `make test-all` takes every one.
"""

from pathlib import Path

import pytest

from tests.effort import EVERYTHING
from tests.faults.driver import Story, try_kills
from tests.faults.stories import STORIES
from tests.needs import skip_without


@pytest.mark.timeout(3600 if EVERYTHING else 300)
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_a_kill_at_any_call_loses_nothing(story: Story, tmp_path: Path) -> None:
    if story.is_sandboxed:
        skip_without("bwrap")
    try_kills(story, tmp_path)
