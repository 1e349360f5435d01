"""Which commands of a line are checks that bash can tell about, and what an exit status 1 means.
How each of them ended: `tests/tools/test_check_statuses.py`."""

from tests.permissions.shell.lines import judged, rows
from tests.tables import for_each


@for_each("row", rows("checks"))
def test_checks_are_watched_unless_they_run_in_the_background(row):
    assert [check.command for check in judged(row["command"]).checks if check.of] == row["checks"]


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
def test_exit_status_1_of_searches_and_comparisons_is_an_answer(line, answers):
    assert judged(line).exit_one_is_answer is answers
