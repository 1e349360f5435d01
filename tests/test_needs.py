import pytest

from tests.needs import Lacking, skip_without, summary


def test_a_missing_program_is_named_by_its_package() -> None:
    skip_without("sh")
    with pytest.raises(Lacking) as raised:
        skip_without("no-such-program")
    assert raised.value.thing == "no-such-program"


def test_skipped_tests_are_counted_by_the_program_they_lack() -> None:
    line = summary(["git", "bubblewrap", "git", ""])
    assert line.startswith("Skipped 4 tests: git 2, bubblewrap 1, other reasons 1 ")
