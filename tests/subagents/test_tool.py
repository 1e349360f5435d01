"""The `delegate_tasks` tool."""

import json
from typing import Any

import pytest

from kode.engine.run import Evidence
from kode.errors import ToolError
from kode.events import no_emit
from kode.subagents.tool import TaskArgument, delegate_tool
from kode.tool import ToolContext, ToolOutput, WorkStep
from kode.tools.background import BackgroundCommands
from tests.subagents.conftest import Family
from tests.workplaces import workplace


async def delegate(
    family: Family,
    code: str,
    tasks: list[dict[str, Any]],
    background: BackgroundCommands | None = None,
) -> ToolOutput:
    tool = delegate_tool(family.make_delegation(code))
    context = ToolContext(
        place=workplace(family.folder, outputs=family.folder / "outputs"),
        call_id="c",
        session_id=None,
        emit=no_emit,
        seen_files={},
        background=background,
    )
    arguments = tool.check({"tasks": tasks, "background": background is not None})
    tool.preview(context, arguments)
    output = await tool.run(context, arguments)
    return output


@pytest.mark.parametrize(
    "tasks", [[], [{"goal": "g"}] * 9, [{}], [{"goal": " "}], [{"goal": "g", "model": "big"}]]
)
async def test_no_task_nine_or_one_that_is_none_are_refused(
    family: Family, tasks: list[dict[str, Any]]
) -> None:
    with pytest.raises(ToolError):
        await delegate(family, "result()", tasks)


async def test_results_come_in_task_order_with_status_files_and_errors(family: Family) -> None:
    code = """
goal = task()["goal"]
while goal == "slow" and not os.path.exists("ended"): time.sleep(0.01)
if goal == "bad": result("half", "error", "It broke."); open("ended", "w")
else: result(f"did {goal}", files_changed=["x.py"])
"""
    output = await delegate(family, code, [{"goal": "slow"}, {"goal": "bad"}])

    assert output.text.index("did slow") < output.text.index("Error: It broke.")
    assert output.summary == "2 subagents: 1 done, 1 error"
    assert output.files_changed == (str(family.folder / "x.py"),)


PASSED = {"command": "pytest -q", "passed": True, "after_last_edit": True}
EARLY = {**PASSED, "after_last_edit": False}
EDITOR = {"files_changed": ["x.py"], "checked": "not_since_last_edit"}
CHECKER = {"checks": [PASSED], "checked": "passed"}


@pytest.mark.parametrize(
    ("children", "checked"),
    [
        ([CHECKER], "passed"),
        ([{**CHECKER, "checks": [{**PASSED, "passed": False}]}], "failed"),
        ([EDITOR], "not_since_last_edit"),
        ([{**EDITOR, "checks": [EARLY]}], "not_since_last_edit"),
        ([{**EDITOR, **CHECKER}, {}], "passed"),
        ([EDITOR, CHECKER], "unknown"),
        ([{**EDITOR, "checked": "unknown"}], "unknown"),
    ],
)
async def test_checks_and_edits_of_children_count_for_their_parent(
    family: Family, children: list[dict[str, Any]], checked: str
) -> None:
    code = "result('r', **json.loads(task()['goal']))"
    output = await delegate(family, code, [{"goal": json.dumps(child)} for child in children])

    evidence = Evidence()
    for done in (WorkStep(is_edit=True), *output.agent_steps):
        evidence.record_step(done)
    assert evidence.judge_checks() == checked


async def test_a_child_in_the_background_counts_once_it_has_ended(family: Family) -> None:
    code = "result('r', **json.loads(task()['goal']))"
    jobs = BackgroundCommands()
    tasks = [{"goal": json.dumps({**EDITOR, **CHECKER})}]
    begun = await delegate(family, code, tasks, jobs)

    await jobs.find("bg1").watch
    (ended,) = jobs.take_work(None)

    evidence = Evidence()
    for step in ended.agent_steps:
        evidence.record_step(step)
    assert (begun.files_changed, ended.files_changed) == ((), (str(family.folder / "x.py"),))
    assert (evidence.edits, evidence.judge_checks()) == (1, "passed")
    assert jobs.take_work(None) == []


async def test_a_tainted_child_taints_its_parent(family: Family) -> None:
    code = "say(type='used', untrusted=True, steps=1); result()"

    assert (await delegate(family, code, [{"goal": "g"}])).untrusted


@pytest.mark.parametrize(
    ("arguments", "subject"),
    [
        ({"tasks": [{"goal": "a"}, {"goal": "b"}], "description": "survey"}, "survey"),
        ({"tasks": [{"goal": "a"}, {"goal": "b"}]}, "a; b"),
        ({"tasks": [TaskArgument(goal="a"), TaskArgument(goal="b")]}, "a; b"),
        ({"tasks": ["a", 1, {}, {"goal": None}, {"goal": "b"}], "description": 3}, "b"),
        ({"tasks": "a"}, ""),
        ({}, ""),
    ],
)
def test_a_call_is_named_by_purpose_else_by_goals(
    family: Family, arguments: dict[str, Any], subject: str
) -> None:
    tool = delegate_tool(family.make_delegation())

    assert tool.target(arguments) == subject
    assert len(tool.description + json.dumps(tool.parameters())) / 4 < 300
    assert set(tool.parameters()["properties"]) == {"tasks", "description", "background"}
