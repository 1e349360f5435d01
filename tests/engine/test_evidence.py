"""What a turn's commands and refusals show of its work."""

import pytest

from kode.engine.run import Effect, Evidence
from kode.events import Denial
from kode.tool import WorkStep
from tests.tables import for_each

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
    evidence.refuse(MAKE, [DENIAL], ("/a", "/b"))
    for effect in later:
        evidence.note_effects({effect})

    assert evidence.find_refused() == left
    assert bool(evidence.explain_missing()) == bool(left)


def test_a_later_refusal_replaces_that_of_the_same_files() -> None:
    evidence = Evidence()
    later = Denial(tool="shell", subject="make again", reason="no")
    evidence.note_effects({MAKE})
    evidence.refuse(MAKE, [DENIAL], ("/a",))
    assert evidence.find_refused() == (DENIAL,)
    evidence.refuse(("shell", "make again"), [later], ("/a", "/b"))
    assert evidence.find_refused() == (later,)


@for_each(
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
    for command, status, is_edit in runs:
        checks = ((command, status),) if command else ()
        evidence.record_step(WorkStep(checks=checks, is_edit=is_edit, ran_programs=bool(checks)))

    assert [
        name
        for name in ("test", "types", "lint")
        if f"failed: `{name}`" in evidence.explain_missing()
    ] == failed


EDIT, RAN, READ = WorkStep(is_edit=True), WorkStep(ran_programs=True), WorkStep()


def check(status: int | None, command: str = "pytest -q") -> WorkStep:
    return WorkStep(checks=((command, status),), ran_programs=True)


@for_each(
    ("done", "checked"),
    [
        ([], "unknown"),
        ([RAN], "unknown"),
        ([EDIT], "not_since_last_edit"),
        ([EDIT, READ], "not_since_last_edit"),
        ([EDIT, RAN], "unknown"),
        ([EDIT, RAN, READ], "unknown"),
        ([EDIT, RAN, EDIT], "not_since_last_edit"),
        ([WorkStep(is_edit=True, ran_programs=True)], "unknown"),
        ([WorkStep(is_edit=True, ran_programs=True), READ, EDIT], "not_since_last_edit"),
        ([EDIT, check(0)], "passed"),
        ([EDIT, check(0), RAN], "passed"),
        ([check(0), EDIT], "not_since_last_edit"),
        ([check(0), EDIT, RAN], "unknown"),
        ([EDIT, check(1)], "failed"),
        ([EDIT, check(None)], "unknown"),
        ([EDIT, check(127)], "unknown"),
        ([EDIT, check(5, "python -m pytest -k nothing")], "unknown"),
        ([EDIT, check(0), check(5)], "passed"),
        ([EDIT, check(5, "tox -e unit")], "failed"),
    ],
)
def test_a_claim_about_checks_needs_knowledge(done: list[WorkStep], checked: str) -> None:
    evidence = Evidence()
    for one in done:
        evidence.record_step(one)

    assert evidence.judge_checks() == checked
