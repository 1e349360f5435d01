"""The `delegate_tasks` tool: what the model reads about subagents, and its result."""

import contextlib
import os
from asyncio import Event
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from kode.errors import ToolError
from kode.events import no_emit
from kode.extensions.definitions import AgentDefinition
from kode.messages import plural, shorten
from kode.subagents import records
from kode.subagents.parent import ChildProcess, Delegation, prepare_children, run_children
from kode.subagents.task import MAX_TASKS, AgentTaskArgument, TaskArgument
from kode.tool import Tool, ToolContext, ToolOutput, WorkStep, tool
from kode.values import replace

AGENT_CHARS = 200  # a line or two of the tool's description
MAX_AGENTS = 30  # that are listed; the model may name any

DESCRIPTION = """\
Up to 8 independent tasks for subagents: much reading with a short answer, or changes in separate \
files. They know nothing of this: put paths, findings and what to report into \
the task. `job` is for the `background`."""


def delegate_tool(delegation: Delegation, agents: Sequence[AgentDefinition] = ()) -> Tool:
    """The tool for one session, with the agents that it may use."""
    names = [agent.item.name for agent in agents]
    argument = AgentTaskArgument if agents else TaskArgument
    lines = [f"{DESCRIPTION} `agent` may be:" if agents else DESCRIPTION]
    lines += [
        f"- {a.item.name}: {shorten(a.description, AGENT_CHARS)}" for a in agents[:MAX_AGENTS]
    ]

    @tool(
        effect="delegate",
        subject="description",
        target=_describe_call,
        description="\n".join(lines),
        preview=partial(_preview_tasks, names),
    )
    async def delegate_tasks(
        context: ToolContext,
        tasks: list[argument],  # type: ignore[valid-type]
        description: str = "",
        background: bool = False,
    ) -> ToolOutput:
        _check_tasks(tasks, names)
        jobs, emit = context.background, no_emit if background else context.emit
        children = await prepare_children(delegation, tasks, context.call_id, emit)
        with contextlib.nullcontext(Event()) if jobs is None else jobs.offer() as moved:
            if background and jobs is not None:
                moved.set()
            have_ended = await run_children(children, moved)
        if have_ended or jobs is None:
            return _make_output(children)
        lines = ["In the background:"]
        for child in children:
            child.emit = no_emit
            name = jobs.take(
                child,
                context.session_id,
                with_session=True,
                work=partial(_describe_work, [child], children),
            )
            lines.append(f"{name}: {shorten(child.task.goal, records.GOAL_CHARS)}")
        summary = f"{plural(len(children), 'subagent')} in background"
        return ToolOutput(text="\n".join(lines), summary=summary)

    return delegate_tasks


def _describe_call(arguments: Mapping[str, Any]) -> str:
    """A call's purpose or, if the model gives none, its goals. The arguments may be unchecked."""
    purpose, tasks = arguments.get("description"), arguments.get("tasks")
    if isinstance(purpose, str) and purpose.strip():
        return purpose
    goals = []
    for task in tasks if isinstance(tasks, list) else []:
        match task:
            case TaskArgument(goal=goal) | {"goal": str(goal)}:
                goals.append(goal)
    return "; ".join(goals)


def _preview_tasks(
    agents: Sequence[str], context: ToolContext, arguments: Mapping[str, Any]
) -> str:
    """For the permission question: every task, in full."""
    _check_tasks(arguments["tasks"], agents)
    lines = []
    for number, task in enumerate(arguments["tasks"], 1):
        lines.append(f"{number}. {task.goal}")
        names = ("resume", "agent", "effort", "guidance", "context")
        lines += [f"   {it}: {value}" for it in names if (value := getattr(task, it, None))]
    return "\n".join(lines)


def _check_tasks(tasks: Sequence[TaskArgument], agents: Sequence[str]) -> None:
    """Raises: ToolError for tasks that cannot be delegated."""
    if not 1 <= len(tasks) <= MAX_TASKS:
        raise ToolError(
            f"delegate_tasks takes 1 to {MAX_TASKS} tasks, not {len(tasks)}. "
            "Group them, or do a small one yourself."
        )
    for number, task in enumerate(tasks, 1):
        if not task.goal.strip():
            raise ToolError(f"Task {number} has no goal. Say in `goal` what it is to find or do.")
        agent = getattr(task, "agent", None)
        if agent and agent not in agents:
            raise ToolError(f"There is no agent {agent!r}. The agents are: {', '.join(agents)}.")
    resumes = [task.resume for task in tasks if task.resume]
    if len(resumes) > len({*resumes}):
        raise ToolError("Two tasks resume the same subagent: put them into one.")


def _make_output(children: Sequence[ChildProcess]) -> ToolOutput:
    limit = records.share_of_chars(len(children))
    results = [child.result for child in children if child.result is not None]
    counts = Counter(result.status.replace("success", "done") for result in results)
    summary = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    return replace(
        _describe_work(children, children),
        text="\n\n".join(child.report(limit) for child in children),
        summary=f"{plural(len(children), 'subagent')}: {summary}",
        untrusted=next(filter(None, (child.untrusted for child in children)), ""),
    )


def _describe_work(
    children: Sequence[ChildProcess], siblings: Sequence[ChildProcess]
) -> ToolOutput:
    """What these children changed and checked, without a text. Checks that say nothing about the
    files as they are now come first: those before an edit, and those of a child one of whose
    siblings has edited files."""
    early, late = list[tuple[str, int | None]](), list[tuple[str, int | None]]()
    results = [child.result for child in children if child.result is not None]
    for child in children:
        is_alone = not any(other.has_edited for other in siblings if other is not child)
        for check in child.result.checks if child.result is not None else ():
            checks = late if check.after_last_edit and is_alone else early
            checks.append((check.command, 0 if check.passed else 1))
    cwd = children[0].delegation.agent().place.cwd
    files = (os.path.join(cwd, name) for result in results for name in result.files_changed)
    last = WorkStep(
        checks=tuple(late),
        is_edit=any(child.has_edited for child in children),
        ran_programs=any(result.checked != "not_since_last_edit" for result in results),
    )
    steps = (WorkStep(checks=tuple(early)), last)
    return ToolOutput(text="", files_changed=tuple(dict.fromkeys(files)), agent_steps=steps)
