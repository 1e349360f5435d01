"""Which checks a command line has run and passed where its exit status is 0."""

import json
from pathlib import Path

import pytest

from kode.permissions.shell import judge
from tests.workplaces import ground

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "checks.jsonl").read_text().splitlines()
]
WHERE = ground(Path("/srv/project"), Path("/srv"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["command"])
def test_only_a_check_whose_end_the_exit_status_tells_is_one(row: dict[str, object]) -> None:
    assert judge(str(row["command"]), WHERE).checks == tuple(row["checks"])  # type: ignore[arg-type]
