import json
from dataclasses import replace
from typing import Any

import pytest

from kode.contracts import CheckPart, ToolContext, ToolOutput, Verdict
from kode.engine.run import Evidence
from kode.events import Check, Checked, ToolFinished
from kode.function_tool import tool
from tests.engine.conftest import Bench, MakeBench, OpenGate, calls, says


def test_a_check_counts_by_its_last_run_until_an_edit() -> None:
    evidence = Evidence()
    evidence.note([("pytest -q", 1)], False)
    evidence.note([("ruff check .", 0)], False)
    evidence.note([], True)
    evidence.note([("pytest  -q", 0)], False)

    assert evidence.checks() == (
        Check(command="pytest -q", passed=False, after_last_edit=False),
        Check(command="ruff check .", passed=True, after_last_edit=False),
        Check(command="pytest -q", passed=True, after_last_edit=True),
    )


def test_a_check_whose_end_is_not_known_shows_nothing() -> None:
    evidence = Evidence()
    evidence.note([("pytest -q", None)], False)

    assert evidence.checks() == ()


def test_a_check_whose_program_could_not_be_run_is_none() -> None:
    evidence = Evidence()
    evidence.note([], True)
    evidence.note([("ruff check .", 127), ("./check.sh", 126)], False)

    assert evidence.checks() == ()
    assert evidence.checked() == "not_since_last_edit"


EDIT, PASS, FAIL, OPEN = None, ("pytest", 0), ("mypy", 1), ("pytest", None)


@pytest.mark.parametrize(
    ("calls", "checked"),
    [
        ([], "unknown"),
        ([EDIT], "not_since_last_edit"),
        ([PASS], "passed"),
        ([EDIT, PASS], "passed"),
        ([EDIT, PASS, FAIL], "failed"),
        ([EDIT, FAIL, EDIT, PASS], "passed"),
        ([EDIT, PASS, EDIT], "not_since_last_edit"),
        ([EDIT, FAIL, EDIT], "not_since_last_edit"),
        ([EDIT, OPEN], "unknown"),
        ([EDIT, PASS, OPEN], "unknown"),
        ([EDIT, FAIL, OPEN], "failed"),
    ],
)
def test_a_turn_ends_with_its_checks_since_the_last_edit(
    calls: list[tuple[str, int | None] | None], checked: Checked
) -> None:
    evidence = Evidence()
    for call in calls:
        evidence.note([] if call is EDIT else [call], call is EDIT)

    assert evidence.checked() == checked


PART = CheckPart(command="pytest", of=2, behind=1)


@tool(effect="run")
async def command(context: ToolContext, status: int, check: int = 0) -> ToolOutput:
    """A line with a check, as the gate found it."""
    checks = tuple((one.command, check) for one in context.checks)
    return ToolOutput(text="ran", exit_status=status, checks=checks)


class Gate(OpenGate):
    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict

    async def check(self, tool: Any, arguments: Any, context: Any) -> Verdict:
        return self.verdict


def line(bench: MakeBench, verdict: Verdict, **arguments: int) -> Bench:
    run = bench(calls(("command", json.dumps(arguments))), says("ok"), tools=(command,))
    run.agent = replace(run.agent, gate=Gate(verdict))
    return run


async def test_a_failed_check_in_a_passing_line_is_a_failure(bench: MakeBench) -> None:
    run = line(bench, Verdict(allowed=True, reason="", checks=(PART,)), status=0, check=1)

    ended = await run.turn()

    (finished,) = run.of(ToolFinished)
    assert (finished.failed, finished.is_error) == (True, False)
    assert ended.checked == "failed"
    assert ended.checks == (Check(command="pytest", passed=False, after_last_edit=True),)


@pytest.mark.parametrize(
    ("status", "answers", "failed"),
    [(0, False, False), (1, False, True), (1, True, False), (2, True, True), (-1, True, True)],
)
async def test_a_command_fails_by_exit_status_unless_that_answers(
    bench: MakeBench, status: int, answers: bool, failed: bool
) -> None:
    run = line(bench, Verdict(allowed=True, reason="", answers=answers), status=status)

    ended = await run.turn()

    assert [one.failed for one in run.of(ToolFinished)] == [failed]
    assert ended.checked == "unknown"
