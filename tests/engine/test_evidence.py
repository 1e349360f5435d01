"""What a turn's commands and refusals show of its work."""

import pytest

from kode.engine.run import Effect, Evidence
from kode.events import Denial

DENIAL = Denial(tool="shell", subject="make", reason="no")
MAKE: Effect = ("shell", "make")
A, B = ("edit", "/a"), ("edit", "/b")


@pytest.mark.parametrize(
    ("later", "left"),
    [
        ([MAKE], ()),
        ([A, B], ()),
        ([A], (DENIAL,)),
        ([("shell", "make all")], (DENIAL,)),
        ([], (DENIAL,)),
    ],
)
def test_a_refusal_counts_until_its_effect_is_there(
    later: list[Effect], left: tuple[Denial, ...]
) -> None:
    evidence = Evidence()
    evidence.refuse(MAKE, DENIAL, (A, B))
    for effect in later:
        evidence.did([effect])

    assert evidence.refused() == left
    assert bool(evidence.missing()) == bool(left)


def test_a_refusal_behind_the_same_effect_counts_again() -> None:
    evidence = Evidence()
    evidence.did([MAKE])
    evidence.refuse(MAKE, DENIAL)

    assert evidence.refused() == (DENIAL,)


@pytest.mark.parametrize(
    ("runs", "failed"),
    [
        ([("test", 1, False)], ["test"]),
        ([("test", 1, False), ("test", 0, False)], []),
        ([("test", 1, False), ("lint", 0, False)], ["test"]),
        ([("test", 1, False), ("", None, True)], ["test"]),
        ([("test", 1, False), ("", None, True), ("lint", 0, False)], []),
        ([("test", 0, False), ("test", 2, True)], ["test"]),
        ([("test", 1, False), ("", None, True), ("test", None, False)], []),
        ([("test", 127, False)], []),
    ],
)
def test_a_check_counts_by_its_last_run(
    runs: list[tuple[str, int | None, bool]], failed: list[str]
) -> None:
    evidence = Evidence()
    for command, status, edits in runs:
        evidence.note([(command, status)] if command else [], edits)

    assert evidence.failed() == failed
