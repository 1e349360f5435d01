import pytest

from kode.engine.evidence import Evidence, claims_more
from kode.events import Check


def test_a_check_counts_by_its_last_run_and_an_edit_makes_it_old() -> None:
    evidence = Evidence()
    evidence.note(["pytest -q"], 1, False)
    evidence.note(["ruff check ."], 0, False)
    evidence.note([], None, True)
    evidence.note(["pytest  -q"], 0, False)

    assert evidence.checks() == (
        Check(command="pytest -q", passed=False, after_last_edit=False),
        Check(command="ruff check .", passed=True, after_last_edit=False),
        Check(command="pytest -q", passed=True, after_last_edit=True),
    )


def test_a_command_that_is_still_running_shows_nothing() -> None:
    evidence = Evidence()
    evidence.note(["pytest -q"], None, False)

    assert evidence.checks() == ()


PASSED = Check(command="pytest", passed=True, after_last_edit=True)
OLD = Check(command="pytest", passed=True, after_last_edit=False)
FAILED = Check(command="pytest", passed=False, after_last_edit=True)


@pytest.mark.parametrize(
    ("answer", "checks", "more"),
    [
        ("All tests pass now.", (), True),
        ("I fixed it. The test suite is green.", (OLD,), True),
        ("mypy is clean and pytest passes.", (FAILED,), True),
        ("All tests pass now.", (PASSED,), False),
        ("The tests should pass now.", (), False),
        ("I did not run the tests, so I cannot say whether they pass.", (), False),
        ("Run the tests to make sure that the build passes.", (), False),
        ("I passed the value on to the parser.", (), False),
    ],
)
def test_an_answer_that_names_a_check_which_no_call_shows(
    answer: str, checks: tuple[Check, ...], more: bool
) -> None:
    assert claims_more(answer, checks) is more
