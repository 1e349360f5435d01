"""Which checks of a line bash can tell about, and what an exit status 1 means."""

import json
from pathlib import Path

import pytest

from kode.permissions.shell.judge import judge
from kode.permissions.shell.parse import CheckPart
from tests.tables import for_each
from tests.workplaces import ground

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "checks.jsonl").read_text().splitlines()
]
WHERE = ground(Path("/srv/project"), Path("/srv"))


@for_each("row", ROWS)
def test_checks_are_watched_unless_they_run_in_the_background(row: dict[str, object]) -> None:
    assert [one.command for one in judge(str(row["command"]), WHERE).checks if one.of] == row[
        "checks"
    ]


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("pytest", CheckPart(command="pytest", alone=True, at=0, of=1)),
        ("pytest > x # why", CheckPart(command="pytest", alone=True, at=0, of=1)),
        ("cd x && pytest 2>&1 | tail | cat", CheckPart(command="pytest", of=3, behind=2)),
        ("ls | pytest |& (cat) | tail", CheckPart(command="pytest", at=1, of=4, behind=1, forks=1)),
        ("! pytest", CheckPart(command="pytest", of=1)),
    ],
)
def test_a_check_has_its_place_in_bashs_own_pipeline(line: str, place: CheckPart) -> None:
    assert judge(line, WHERE).checks == (place,)


@pytest.mark.parametrize("line", ["pytest &", "trap - EXIT; pytest", "pytest; pytest | tail"])
def test_other_commands_report_no_checks(line: str) -> None:
    assert [(one.command, one.of) for one in judge(line, WHERE).checks] == [("pytest", 0)]


@for_each(
    ("line", "answers"),
    [
        ("git grep -l x", True),
        ("git -C sub grep x", True),
        ("cd src && grep -rn x . | sort; rg x", True),
        ("diff a b", True),
        ("[ -f x ]", True),
        ("test -f x", True),
        ("grep x | sort", False),
        ("git commit -m x", False),
        ("make", False),
        ("grep x; make", False),
        ("", False),
    ],
)
def test_exit_status_1_of_searches_and_comparisons_is_an_answer(line: str, answers: bool) -> None:
    assert judge(line, WHERE).exit_one_is_answer is answers
