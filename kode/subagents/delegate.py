"""The `delegate_tasks` tool: what the model is told of subagents, and what it gets back.

How a child lives is `parent.py`; what is kept of it is `records.py`.
"""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict

from kode.contracts import Tool, ToolContext, ToolOutput
from kode.errors import ToolError
from kode.function_tool import tool
from kode.subagents import records
from kode.subagents.channel import Child, Delegation
from kode.subagents.parent import run_tasks
from kode.subagents.protocol import MAX_FILE_BYTES, MAX_TASKS, Task

DESCRIPTION = """\
Give 1 to 8 independent tasks to subagents that work side by side and report back. Worth it for \
several searches, reviews or changes in separate files that take much reading and give a short \
answer; not for one small step, for steps that need each other's results, or for edits of the same \
file. A subagent sees nothing of this conversation, cannot ask you anything and has few steps: put \
all it needs (paths, findings, what to report) into its task. Check what it reports."""


class TaskArgument(BaseModel):
    """`goal`: what to find or do, and what to report. `context`: what it must know. `guidance`:
    how to go about it."""

    model_config = ConfigDict(extra="forbid")

    goal: str
    context: str | None = None
    guidance: str | None = None


def delegate_tool(delegation: Delegation) -> Tool:
    """The tool for one session."""

    async def delegate_tasks(
        context: ToolContext,
        tasks: list[TaskArgument],
        description: Annotated[str, "What for, in a few words, for the person"] = "",
    ) -> ToolOutput:
        given = _checked(tasks)
        children = await run_tasks(delegation, given, context.call_id, context.emit)
        return _output(children, context)

    return tool(
        effect="delegate", subject="description", description=DESCRIPTION, preview=_preview
    )(delegate_tasks)


def _preview(context: ToolContext, arguments: Mapping[str, Any]) -> str:
    """For the permission question: every task, whole."""
    blocks = []
    for number, task in enumerate(_checked(arguments["tasks"]), 1):
        lines = [f"{number}. {task.goal}"]
        lines += [f"   guidance: {task.guidance}"] if task.guidance else []
        lines += [f"   context: {task.context}"] if task.context else []
        blocks.append("\n".join(lines))
    return "\n".join(blocks)


def _checked(tasks: Sequence[TaskArgument]) -> list[Task]:
    if not 1 <= len(tasks) <= MAX_TASKS:
        raise ToolError(
            f"delegate_tasks takes 1 to {MAX_TASKS} tasks, not {len(tasks)}. "
            "Group them, or do a small one yourself."
        )
    checked = []
    for number, task in enumerate(tasks, 1):
        if not task.goal.strip():
            raise ToolError(f"Task {number} has no goal. Say in `goal` what it is to find or do.")
        if len(task.model_dump_json().encode("utf-8", "replace")) > MAX_FILE_BYTES:
            raise ToolError(f"Task {number} is larger than 1 MB. Name files instead of pasting.")
        checked.append(Task(goal=task.goal, context=task.context, guidance=task.guidance))
    return checked


def _output(children: Sequence[Child], context: ToolContext) -> ToolOutput:
    limit = records.room(len(children))
    blocks = []
    files: dict[str, None] = {}
    counts: Counter[str] = Counter()
    for child in children:
        assert child.result is not None
        counts[child.result.status] += 1
        blocks.append(
            records.report_text(
                child.id, child.task.goal, child.result, context.place.outputs, limit
            )
        )
        for name in child.result.files_changed:
            files[os.path.normpath(os.path.join(context.place.cwd, name))] = None
    summary = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    return ToolOutput(
        text="\n\n".join(blocks),
        summary=f"{len(children)} subagent{'' if len(children) == 1 else 's'}: {summary}",
        files_changed=tuple(files),
        untrusted="a subagent" if any(child.untrusted for child in children) else "",
    )
