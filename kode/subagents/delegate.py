"""The `delegate_tasks` tool: what the model reads about subagents, and its result.

`parent.py` runs a child; `records.py` stores it.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, WithJsonSchema

from kode.contracts import Effort, Tool, ToolContext, ToolOutput, WorkStep
from kode.errors import ToolError
from kode.events import Event
from kode.extensions.agents import AgentDefinition
from kode.function_tool import tool
from kode.messages import plural, shorten
from kode.subagents import records
from kode.subagents.background import Running, outlives_call, report
from kode.subagents.channel import Child, Delegation
from kode.subagents.parent import prepare, run_children
from kode.subagents.protocol import MAX_FILE_BYTES, MAX_TASKS, Result, Task

AGENT_CHARS = 200  # a line or two of the tool's description
MAX_AGENTS = 30
"""Limit of agents listed to the model; it may name any."""

DESCRIPTION = """\
Up to 8 independent tasks for subagents: much reading with a short answer, or changes in separate \
files. Unless you `fork`, they know nothing of this: put paths, findings and what to report into \
the task. `job` is for the `background`."""


class TaskArgument(BaseModel):
    model_config = ConfigDict(extra="forbid")

    goal: str
    context: str | None = None
    guidance: str | None = None
    effort: Annotated[Effort | None, WithJsonSchema({"type": "string"})] = None
    resume: str | None = None
    fork: bool = False


class TaskOfAgent(TaskArgument):
    """`agent`: the name of the one that does it, where one of them fits."""

    agent: str | None = None


def delegate_tool(delegation: Delegation, agents: Sequence[AgentDefinition] = ()) -> Tool:
    """The tool for one session, with the agents that it may use."""
    names = [agent.item.name for agent in agents]
    argument = TaskOfAgent if agents else TaskArgument

    async def delegate_tasks(
        context: ToolContext,
        tasks: list[argument],  # type: ignore[valid-type]
        description: str = "",
        background: bool = False,
    ) -> ToolOutput:
        given = [
            records.continued(delegation.folder, task) if task.resume else task
            for task in _check(tasks, names)
        ]
        in_front = not background

        def show(event: Event) -> None:
            if in_front:
                context.emit(event)

        children = await prepare(delegation, given, context.call_id)
        work = asyncio.create_task(run_children(delegation, children, show))
        jobs, outputs = context.background, context.place.outputs
        if not await outlives_call(work, jobs, context.call_id, at_once=background):
            work.result()
            return _output(children, context)
        assert jobs is not None
        in_front, lines = False, []
        for child in children:
            running = Running(child, delegation, outputs)
            name = jobs.take(
                running,
                context.session_id,
                with_session=True,
                tell=running.tell,
                work=partial(_describe_work, [child], children, context.place.cwd),
            )
            lines.append(f"{name}: {shorten(child.task.goal, records.GOAL_CHARS)}")
        text = "\n".join(["In the background:", *lines])
        return ToolOutput(text=text, summary=f"{plural(len(children), 'subagent')} in background")

    return tool(
        effect="delegate",
        subject="description",
        target=_subject,
        description=_describe(agents),
        preview=partial(_preview, names),
    )(delegate_tasks)


def _subject(arguments: Mapping[str, Any]) -> str:
    """What for; if the model does not say, the goals. The arguments may be unchecked."""
    described, tasks = arguments.get("description"), arguments.get("tasks")
    if isinstance(described, str) and described.strip():
        return described
    goals = []
    for task in tasks if isinstance(tasks, list) else []:
        match task:
            case TaskArgument(goal=goal) | {"goal": str(goal)}:
                goals.append(goal)
    return "; ".join(goals)


def _describe(agents: Sequence[AgentDefinition]) -> str:
    if not agents:
        return DESCRIPTION
    lines = [f"- {agent.item.name}: {shorten(agent.description, AGENT_CHARS)}" for agent in agents]
    return "\n".join([f"{DESCRIPTION} `agent` may be:", *lines[:MAX_AGENTS]])


def _preview(agents: Sequence[str], context: ToolContext, arguments: Mapping[str, Any]) -> str:
    """For the permission question: every task, in full."""
    blocks = []
    for number, task in enumerate(_check(arguments["tasks"], agents), 1):
        lines = [f"{number}. {task.goal}"]
        lines += [f"   resume: {task.resume}"] if task.resume else []
        lines += ["   fork: it starts from this conversation"] if task.fork else []
        lines += [f"   agent: {task.agent}"] if task.agent else []
        lines += [f"   effort: {task.effort}"] if task.effort else []
        lines += [f"   guidance: {task.guidance}"] if task.guidance else []
        lines += [f"   context: {task.context}"] if task.context else []
        blocks.append("\n".join(lines))
    return "\n".join(blocks)


def _check(tasks: Sequence[TaskArgument], agents: Sequence[str]) -> list[Task]:
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
        agent = task.agent if isinstance(task, TaskOfAgent) else None
        if agent and agent not in agents:
            raise ToolError(f"There is no agent {agent!r}. The agents are: {', '.join(agents)}.")
        if task.fork and (agent or task.effort or task.resume):
            fault = f"Task {number} is a fork, which works as you do"
            raise ToolError(f"{fault}: leave out `agent`, `effort` and `resume`, or `fork`.")
        checked.append(
            Task(
                goal=task.goal,
                context=task.context,
                guidance=task.guidance,
                effort=task.effort,
                agent=agent or None,
                resume=task.resume or None,
                fork=task.fork,
            )
        )
    resumed = [task.resume for task in checked if task.resume]
    if len(set(resumed)) < len(resumed):
        raise ToolError("Two tasks resume the same subagent: put them into one.")
    return checked


def _output(children: Sequence[Child], context: ToolContext) -> ToolOutput:
    limit = records.room(len(children))
    counts = Counter(_result_of(child).status.replace("success", "done") for child in children)
    summary = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    return replace(
        _describe_work(children, children, context.place.cwd),
        text="\n\n".join(report(child, context.place.outputs, limit) for child in children),
        summary=f"{plural(len(children), 'subagent')}: {summary}",
        untrusted="a subagent" if any(child.untrusted for child in children) else "",
    )


def _describe_work(
    children: Sequence[Child], all_children: Sequence[Child], cwd: Path
) -> ToolOutput:
    """What the children changed and checked that have ended, without a text. The checks that say
    nothing of the files as they are now come first: those before an edit, and those that ran beside
    the edits of another child of the delegation."""
    early: list[tuple[str, int | None]] = []
    late: list[tuple[str, int | None]] = []
    results = [(child, child.result) for child in children if child.result is not None]
    for child, result in results:
        is_alone = not any(_has_edited(other) for other in all_children if other is not child)
        for check in result.checks:
            counted = late if check.after_last_edit and is_alone else early
            counted.append((check.command, 0 if check.passed else 1))
    last = WorkStep(
        checks=tuple(late),
        is_edit=any(map(_has_edited, children)),
        ran_programs=any(result.checked != "not_since_last_edit" for _, result in results),
    )
    files = (os.path.join(cwd, name) for _, result in results for name in result.files_changed)
    return ToolOutput(
        text="",
        files_changed=tuple(dict.fromkeys(files)),
        agent_steps=(WorkStep(checks=tuple(early)), last),
    )


def _has_edited(child: Child) -> bool:
    return bool(child.edited or (child.result is not None and child.result.files_changed))


def _result_of(child: Child) -> Result:
    assert child.result is not None
    return child.result
